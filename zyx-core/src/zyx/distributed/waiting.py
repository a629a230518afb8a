"""Wait for other processes, with a limit, and without taking a processor meanwhile."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from zyx.errors import CollectiveTimeoutError
from zyx.runtime.runtime import current

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: How long is asked without a pause, in seconds: most messages between processes of one machine take less.
_EAGER_S: Final = 50e-6
#: By how much each pause is longer than the one before, and the longest one, in seconds.
_LONGER_S: Final = 20e-6
_LONGEST_S: Final = 1e-3


def wait_until(is_done: Callable[[], bool], what: str, missing: Callable[[], Sequence[int]]) -> None:
    """Ask until it is done.

    Args:
        is_done: Asks.
        what: Is waited for, and by whom, for people.
        missing: Gives the ranks that are waited for, as far as that is known.

    Raises:
        CollectiveTimeoutError: It takes longer than `collectives.timeout_s` of the settings.
    """
    limit = current().settings.collectives.timeout_s
    started = time.monotonic()
    pause = 0.0
    while not is_done():
        waited = time.monotonic() - started
        if limit and waited > limit:
            raise CollectiveTimeoutError(_text(what, waited, limit, missing()))
        if waited > _EAGER_S:
            time.sleep(pause)  # 0 lets another process have the processor
            pause = min(pause + _LONGER_S, _LONGEST_S)


def _text(what: str, waited: float, limit: float, late: Sequence[int]) -> str:
    who = f"rank{'s' if len(late) > 1 else ''} {', '.join(map(str, late))}" if late else "the others"
    question = "Has it ended, or does it" if len(late) == 1 else "Has one of them ended, or does one"
    return (
        f"{what} has waited {waited:.1f} s for {who}; the limit is {limit:g} s (ZYX_COLLECTIVE_TIMEOUT_S). "
        f"{question} not come to this call?"
    )
