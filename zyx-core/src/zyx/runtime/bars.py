"""Progress bars on standard error, where it is a terminal.

There is one screen, as there is one terminal: bars that are open at the same time are below each other. A bar appears
when its work has taken a while, and is taken away when it is over. `zyx.runtime.trace.Trace.bar` opens them.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from rich.progress import Progress, TaskID


def counted(done: float, total: float) -> str:
    """Return how much of a number of things is done, such as ``12/80``."""
    return f"{done:.0f}/{total:.0f}"


class Bar:
    """How far one piece of work is; a ``with`` block is its length.

    Args:
        what: What is done.
        total: How much there is of it.
        amount: Returns what is done and the total in words.
        after_s: Seconds until it appears, if it is not over by then.
        is_on: Whether it may appear at all.
    """

    def __init__(
        self,
        what: str,
        total: float,
        amount: Callable[[float, float], str] = counted,
        *,
        after_s: float = 0.0,
        is_on: bool = True,
    ) -> None:
        self.done = 0.0
        self._what: Final = what
        self._total: Final = total
        self._amount: Final = amount
        self._appears: float | None = time.monotonic() + after_s if is_on and sys.stderr.isatty() else None
        self._task: TaskID | None = None

    def advance(self, by: float = 1.0, said: str = "") -> None:
        """Note that more is done, and say something about it."""
        self.done += by
        if self._appears is None:
            return
        if self._task is None:
            if time.monotonic() < self._appears:
                return
            self._task = _SCREEN.add(self._what, self._total)
        _SCREEN.show(self._task, self.done, self._amount(self.done, self._total), said)

    def __enter__(self) -> Bar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._appears = None
        if self._task is not None:
            _SCREEN.remove(self._task)


class _Screen:
    """The bars that are to be seen, drawn by `rich`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._progress: Progress | None = None

    def add(self, what: str, total: float) -> TaskID:
        """Show one more."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        with self._lock:
            if self._progress is None:
                self._progress = Progress(
                    TextColumn("{task.description}", markup=False),
                    BarColumn(),
                    TextColumn("{task.fields[amount]}", markup=False),
                    TimeRemainingColumn(),
                    TextColumn("{task.fields[said]}", markup=False),
                    console=Console(stderr=True),
                    transient=True,
                    redirect_stdout=sys.stdout is not None and sys.stdout.isatty(),
                )
            return self._progress.add_task(what, total=total, amount="", said="")

    def show(self, task: TaskID, done: float, amount: str, said: str) -> None:
        """Show how far one is."""
        with self._lock:
            if self._progress is not None:
                self._progress.update(task, completed=done, amount=amount, said=said)
                self._progress.start()  # does nothing the second time

    def remove(self, task: TaskID) -> None:
        """Take one away."""
        with self._lock:
            if self._progress is None:
                return
            self._progress.remove_task(task)
            if not self._progress.tasks:
                self._progress.stop()
                self._progress = None


_SCREEN: Final = _Screen()
