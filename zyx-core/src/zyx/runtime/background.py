"""One thread that does one thing after the other: what `concurrent.futures` has, for two more times.

At the end of the process, when executors refuse work and systems threads, it is done by who asks for it: functions that
were registered for the end may compute. And the handler of a signal may ask for work in the middle of `submit`; it
would wait for ever for a lock of an executor.
"""

from __future__ import annotations

import sys
import threading
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar

from zyx.runtime.waiting import check_may_wait, working

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")

#: Calls to make, and None for the end.
_Queue: TypeAlias = "SimpleQueue[Callable[[], None] | None]"


class Promise(Future[R]):
    """The result of a call that a thread is to make."""

    thread: int | None = None

    def result(self, timeout: float | None = None) -> R:
        """Return the result, when there is one.

        Raises:
            BackendError: This is the thread that is to make the call.
        """
        if threading.get_ident() == self.thread and not self.done():
            check_may_wait()
        return super().result(timeout)


class Background:
    """A thread, started with the first piece of work. It does not keep the process from ending: `close` waits for it.

    Args:
        name: Of the thread.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._started: tuple[threading.Thread, _Queue] | None = None
        self._is_given_up = False

    def submit(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Return the future result of a call."""
        future: Promise[R] = Promise()

        def call() -> None:
            try:
                result = function(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001  # for whoever asks for the result
                future.set_exception(error)
            else:
                future.set_result(result)

        started = None if sys.is_finalizing() else self._started or self._start()  # then threads do not run any more
        if started is None:
            call()
        else:
            future.thread = started[0].ident
            started[1].put(call)
        return future

    def close(self) -> None:
        """Return when everything is done that was submitted."""
        started, self._started = self._started, None
        if started is not None:
            thread, queue = started
            queue.put(None)
            if not self._is_given_up:
                thread.join()
        self._is_given_up = False

    def give_up(self) -> None:
        """Do not wait for what is under way any more, such as where the user has interrupted that."""
        self._is_given_up = self._started is not None

    def _start(self) -> tuple[threading.Thread, _Queue] | None:
        """Return the thread and what it is to do; None if there can be no thread."""
        queue: _Queue = SimpleQueue()
        thread = threading.Thread(target=_work, args=(queue,), name=self._name, daemon=True)
        try:
            thread.start()
        except (RuntimeError, MemoryError):  # Python's errors for a thread that the system refuses
            return None
        if self._started is None:
            self._started = thread, queue
        else:  # the handler of a signal came before
            queue.put(None)
        return self._started


def _work(queue: _Queue) -> None:
    call: Any
    working.add(threading.get_ident())
    try:
        while (call := queue.get()) is not None:
            call()
            del call  # what it holds, such as a program, is not to live until the next one
    finally:
        working.discard(threading.get_ident())  # numbers of threads are used again
