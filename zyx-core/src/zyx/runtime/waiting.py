"""Waiting for devices, and for other processes, while others work: the runtime's lock is free meanwhile.

That takes two things of a pool: it says `MemoryPool.waits_apart`, and its events can be had again (`Event.again`),
since whoever launches on the buffer meanwhile needs the event of the work there. Without them the lock is kept.

What is waited for, or read, stays as it is: who waits has the buffer, so it is not given back, and a traced function
that would store over it sees that it is not alone and makes a copy.
"""

from __future__ import annotations

from contextlib import contextmanager
from threading import Condition, current_thread, get_ident
from typing import TYPE_CHECKING, Any, Final

from zyx.errors import BackendError, DeviceLostError, locate

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from threading import RLock

    from zyx.backend import MemoryPool
    from zyx.runtime.buffer import Buffer
    from zyx.runtime.runtime import Runtime

#: For the end of a runtime: a device that hangs must not keep the process from ending.
_PATIENCE_S = 10.0

#: Threads that are at work for others, which wait for them, perhaps with the lock of a runtime.
working: Final[set[int]] = set()


def check_may_wait() -> None:
    """Raise `BackendError` where waiting could deadlock: in a thread that others wait for."""
    if get_ident() in working:
        raise BackendError(
            f"the thread {current_thread().name} would wait for itself: a kernel is compiled without "
            "values of tensors; read them before"
        )


class Waiting:
    """Who waits without the lock. All methods are to be called without it; who has it all the same, keeps it.

    Args:
        lock: The runtime's.
        lose: Told of devices that turn out to be lost.
    """

    def __init__(self, lock: RLock, lose: Callable[[DeviceLostError], None]) -> None:
        self._lock = lock
        self._lose = lose
        self._apart = _Apart(lock)

    def finish(self, buffer: Buffer) -> None:
        """Return when the work that is queued on `buffer` now is done.

        Raises:
            BackendError: As `Buffer.wait` does.
        """
        with self._lock:
            pending, writer = buffer.pending, buffer.writer
            if pending is None:
                return
            last = pending.last()
            own = last.event
            event = own.again() if own is not None and last.pool.waits_apart else None
            if event is None:
                with self._losing(buffer.pool):
                    buffer.wait()
                return
            if own is not None and own.queue is not None:
                own.queue.tail = None  # type: ignore[attr-defined]  # a queue; what comes is not waited for here
        failure: BackendError | None = None
        with self._apart:
            try:
                last.pool.sync_events([event])
            except BackendError as error:
                locate(error, last.pool.name)
                failure = error
        with self._losing(buffer.pool), self._lock:
            last.finished(failure)
            if failure is None and writer is not None:
                writer.is_done = True
            if buffer.pending is not None and buffer.pending.last() is last:
                buffer.wait()  # notes that, or raises
            elif failure is not None and writer is not None and not writer.is_done:
                raise failure

    def read(self, buffer: Buffer, target: memoryview) -> None:
        """Fill `target` with the bytes of `buffer`, on which all work is done.

        Raises:
            BackendError: The transfer failed.
        """
        assert buffer.raw is not None
        with self._losing(buffer.pool), self._apart if buffer.pool.waits_apart else self._lock:
            buffer.pool.pool_to_host(buffer.raw, target, [])

    def synchronize(self, pools: Collection[MemoryPool]) -> None:
        """Wait for all work of `pools`.

        Raises:
            BackendError: The first error, when all work is over; notes on it say what else failed.
        """
        errors: list[BackendError] = []
        is_any_together = False
        with self._apart:
            for pool in pools:
                if pool.waits_apart:
                    _synchronize(pool, errors)
                else:
                    is_any_together = True
        if is_any_together:
            with self._lock:
                for pool in pools:
                    if not pool.waits_apart:
                        _synchronize(pool, errors)
        if errors:
            for error in errors:
                if isinstance(error, DeviceLostError):
                    self._lose(error)
            for other in errors[1:]:
                errors[0].add_note(f"{type(other).__name__}: {other}")
            raise errors[0]

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Let go of the lock, as often as this thread has it, for the length of a ``with`` block.

        It is for waiting in the middle of a plan, for something that is no device. Whoever does so holds the buffers of
        the run, and must look again at all else.
        """
        lock: Any = self._lock  # of which conditions use the same methods
        if not lock._is_owned():
            with self._apart:
                yield
            return
        with self._apart:
            depth = lock._release_save()
            try:
                yield
            finally:
                lock._acquire_restore(depth)

    def end(self) -> None:
        """Return when nobody waits any more, or after a while."""
        self._apart.end()

    @contextmanager
    def _losing(self, pool: MemoryPool) -> Iterator[None]:
        try:
            yield
        except BackendError as error:
            locate(error, pool.name)
            if isinstance(error, DeviceLostError):
                self._lose(error)
            raise


@contextmanager
def unlocked(runtime: Runtime) -> Iterator[None]:
    """Let go of the runtime's lock, if this thread has it, to wait in the middle of a plan; then take it again.

    Raises:
        BackendError: Devices were closed meanwhile, and with them what the plan computes with.
    """
    opened = runtime._opened
    with runtime._waiting.apart():
        yield
    if runtime._opened is not opened:
        raise BackendError("devices were closed by another thread while this one waited in the middle of its work")


class _Apart:
    """Counts who waits without the lock, for the length of ``with`` blocks."""

    __slots__ = ("_count", "_ended", "_is_ending", "_lock")

    def __init__(self, lock: RLock) -> None:
        self._lock = lock
        self._ended = Condition(lock)
        self._count = 0
        self._is_ending = False

    def __enter__(self) -> None:
        with self._lock:
            self._count += 1

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._count -= 1
            if self._is_ending and not self._count:
                self._ended.notify_all()

    def end(self) -> None:
        """Return when there is nobody any more, or after a while."""
        with self._lock:
            self._is_ending = True
            self._ended.wait_for(lambda: not self._count, _PATIENCE_S)


def _synchronize(pool: MemoryPool, errors: list[BackendError]) -> None:
    """Wait for all work of `pool`; what fails is added to `errors`."""
    try:
        pool.synchronize()
    except BackendError as error:
        locate(error, pool.name)
        errors.append(error)
