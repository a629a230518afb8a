"""Waits for work that may never be done: exchanges with others, which may have ended."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: For how long a wait that is watched asks without a pause, and how long its pauses are then, in seconds.
_EAGER_S: Final = 1e-3
_PAUSE_S: Final = 1e-4


class Watcher(Protocol):
    """Looks after work that may never be done unless somebody does."""

    def check(self) -> None:
        """Raise `BackendError` if it is known that something is wrong."""

    def watch(self, since: float) -> float:
        """Look whether something is wrong, while somebody waits.

        Args:
            since: The last time, by `time.monotonic`, when something is known to have been done.

        Returns:
            A later such time, if there is one.

        Raises:
            BackendError: Something is wrong.
        """


def wait_watched(is_over: Callable[[], bool], watchers: Sequence[Watcher]) -> None:
    """Return when `is_over` says so, which may be never. Raises `BackendError` if a watcher does."""
    started = since = time.monotonic()
    while not is_over():
        for watcher in watchers:
            since = watcher.watch(since)
        if time.monotonic() - started > _EAGER_S:
            time.sleep(_PAUSE_S)
    for watcher in watchers:
        watcher.check()  # it is over, maybe since exchanges were ended
