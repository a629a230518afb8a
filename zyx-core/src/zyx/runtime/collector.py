"""Have Python look for garbage less often for a while."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

#: New objects, less those that went, until Python looks through them, where it is to do so rarely: tens of megabytes.
#: Its own 700 cost a twentieth of the time in which plans are made, whose objects stay until the plan is there.
_RARELY: Final = 100_000
#: How many times as rarely it then looks through all objects that there are, as it does for every so many looks.
_ALL: Final = 10


@contextmanager
def rare_collections() -> Iterator[None]:
    """Let more objects be made between collections, for the length of a ``with`` block.

    Whoever collects more rarely still, or not at all, is left alone, and so is who says otherwise within the block.
    Threads may be in several blocks at once: the first that ends is the end for all.
    """
    before = gc.get_threshold()
    if not 0 < before[0] < _RARELY:
        yield
        return
    gc.set_threshold(_RARELY, before[1], before[2] * _ALL)
    try:
        yield
    finally:
        if gc.get_threshold()[0] == _RARELY:
            gc.set_threshold(*before)
