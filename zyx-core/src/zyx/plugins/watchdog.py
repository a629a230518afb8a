"""Run what other packages have written so that, whatever it does, the rest goes on.

It runs in a thread that is started for it, beside the one that waits: if it does not come back in time, it is left
alone, and whoever waited goes on without it. So is a process that somebody interrupts, even if a driver does not
return. What it cannot be kept from is to end the process, or to keep Python's lock for ever.

Such a thread has the context variables of whoever waits, and ends with the `Watchdog`; only one that was left alone
stays, and does not keep the process from ending. Without a limit, and where no thread can be started, as at the end of
the process, everything runs where it is called.
"""

from __future__ import annotations

import contextvars
import logging
import queue
import sys
import threading
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

ResultT = TypeVar("ResultT")

logger: Final = logging.getLogger("zyx")

#: Seconds after which people are told what is being waited for.
_PATIENCE_S: Final = 10.0

_Task = tuple[contextvars.Context, "Callable[[], Any]", "queue.SimpleQueue[tuple[Any, BaseException | None]]"]


class Overdue(Exception):
    """Something did not come back in time; the text says what, and how long it was waited for."""


class Watchdog:
    """Where the code of other packages is run from, one piece after the other; a context manager.

    Args:
        limit_s: How long each piece may take; 0 means as long as it likes.
        limit_name: What the limit is called where users set it.
    """

    def __init__(self, limit_s: float, limit_name: str = "") -> None:
        self._limit_s = limit_s
        self._limit_name = limit_name
        self._tasks: queue.SimpleQueue[_Task | None] | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Watchdog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._tasks is not None and self._thread is not None:
            self._tasks.put(None)
            self._thread.join()
        self._abandon()

    def run(self, work: Callable[[], ResultT], what: str) -> ResultT:
        """Return what `work` returns. What it raises, which may be any `BaseException`, passes through.

        Args:
            work: Somebody else's code. It must not touch what the caller goes on with if it comes back too late.
            what: What it is, for texts, such as ``zyx_devices of backend toy``.

        Raises:
            Overdue: It takes longer than it may, and goes on by itself.
        """
        tasks = self._started() if self._limit_s else None
        if tasks is None:
            return _shielded(work)
        results: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()
        tasks.put((contextvars.copy_context(), work, results))
        try:
            result, error = self._wait(results, what)
        except BaseException:  # overdue, or the one who waits was interrupted
            self._abandon()
            raise
        if error is not None:
            try:
                raise error
            finally:
                del error  # with its frames it would hold itself
        found: ResultT = result
        return found

    def _wait(
        self, results: queue.SimpleQueue[tuple[Any, BaseException | None]], what: str
    ) -> tuple[Any, BaseException | None]:
        patience_s = min(_PATIENCE_S, self._limit_s)
        try:
            return results.get(timeout=patience_s)
        except queue.Empty:
            pass
        left_s = self._limit_s - patience_s
        if left_s:
            logger.warning(
                "%s has not come back for %g s; it is waited for %g s more%s", what, patience_s, left_s, self._setting
            )
            try:
                return results.get(timeout=left_s)
            except queue.Empty:
                pass
        raise Overdue(f"{what} did not come back within {self._limit_s:g} s{self._setting}")

    @property
    def _setting(self) -> str:
        return f" ({self._limit_name})" if self._limit_name else ""

    def _started(self) -> queue.SimpleQueue[_Task | None] | None:
        """Return the queue of a thread that takes tasks; None if no thread can be started."""
        if self._tasks is None:
            tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
            thread = threading.Thread(target=_work, args=(tasks,), name="zyx: plugins", daemon=True)
            try:
                thread.start()
            except (RuntimeError, MemoryError):  # there are too many, or the process ends
                return None
            self._tasks, self._thread = tasks, thread
        return self._tasks

    def _abandon(self) -> None:
        if self._tasks is not None:
            self._tasks.put(None)  # should it come back, it ends
        self._tasks = self._thread = None


def _work(tasks: queue.SimpleQueue[_Task | None]) -> None:
    while (task := tasks.get()) is not None:
        context, work, results = task
        try:
            results.put((context.run(_shielded, work), None))
        except BaseException as error:  # noqa: BLE001  # boundary: handed to whoever waits
            results.put((None, error))
        del task, context, work, results  # until the next task comes, nothing is to be held


def _shielded(work: Callable[[], ResultT]) -> ResultT:
    """Do `work`, and give back to the rest of the process the depth of calls that it had."""
    depth = sys.getrecursionlimit()
    try:
        return work()
    finally:
        if sys.getrecursionlimit() < depth:
            sys.setrecursionlimit(depth)
