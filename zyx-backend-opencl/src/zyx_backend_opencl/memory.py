"""Memory of a device."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias

from zyx.drivers.caching_pool import CachedBuffer, CachingPool
from zyx.errors import AllocationError, TransferError
from zyx_backend_opencl.driver import ClError, Memory
from zyx_backend_opencl.errors import BUFFER_CODES, CODES
from zyx_backend_opencl.work import Command, Work

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend import Event, PoolBuffer
    from zyx_backend_opencl.driver import Session

ClBuffer: TypeAlias = CachedBuffer[Memory]


class ClPool(CachingPool[Memory, Command]):
    """The memory of one device. OpenCL does not tell what other processes have of it.

    Args:
        name: Such as ``opencl:0 memory``.
        session: The device, open. It is closed with the pool.
        capacity_bytes: Size of the memory.
        max_buffer_bytes: Size of the largest buffer.
    """

    waits_apart: ClassVar[bool] = True  # the driver takes calls from any thread, and `Work` has a lock of its own

    def __init__(self, name: str, session: Session, capacity_bytes: int, max_buffer_bytes: int) -> None:
        super().__init__(name, capacity_bytes, max_buffer_bytes)
        self.session: Final = session
        self.work: Final = Work(session)

    # ---- allocation

    def obtain(self, nbytes: int) -> Memory:
        try:
            return self.session.allocate(nbytes)
        except ClError as error:
            raise self.refused(BUFFER_CODES.fault(error.code)) from error

    def discard(self, memory: Memory, work: Sequence[Command]) -> None:
        pass  # the driver frees it with the last reference, when nothing uses it any more

    def settle(self) -> None:
        try:
            self.session.finish()
        except ClError as error:
            raise CODES.failure(f"waiting for memory of {self.name}", error.code, AllocationError) from error

    def unfinished(self, work: Sequence[Command]) -> Sequence[Command]:
        try:
            return [command for command in work if self.session.status(command.native) > 0]
        except ClError as error:  # nobody knows whether the memory is in use, so nobody gets it
            raise CODES.failure(f"looking at work on memory of {self.name}", error.code, AllocationError) from error

    # ---- transfers

    def host_to_pool(self, source: memoryview, target: PoolBuffer, events: Sequence[Event] = ()) -> Event:
        behind = self.take(events)
        memory = self.own(target, source.nbytes).memory
        if not source.nbytes:
            return self.event(behind)
        what = f"an upload of {source.nbytes} bytes to {self.name}"
        waits = self.work.natives(behind, what)
        try:
            native = self.session.write(memory, source, waits)
        except ClError as error:
            raise CODES.failure(what, error.code, TransferError) from error
        return self.event([self.work.add(native, what, behind, TransferError, kept=source)])

    def pool_to_host(
        self, source: PoolBuffer, target: memoryview, events: Sequence[Event] = (), offset: int = 0
    ) -> None:
        behind = self.take(events)
        self.check_read(source, target, offset)
        self.work.wait(behind)
        if not target.nbytes:
            return
        try:
            self.session.read(self.own(source).memory, target, offset, ())
        except ClError as error:
            raise CODES.failure(f"a download from {self.name}", error.code, TransferError) from error

    # ---- events

    def sync_events(self, events: Sequence[Event]) -> None:
        self.work.wait(self.take(events))

    def release_events(self, events: Sequence[Event]) -> None:
        self.work.release(self.take(events))

    def synchronize(self) -> None:
        self.work.finish()

    def close(self) -> None:
        """Wait for all work, and close the device. Buffers that are alive go with their last reference."""
        if self._is_open:
            self._is_open = False
            self.trim()
            self.session.close()


class OneThreadPool(ClPool):
    """That of a device whose driver does not take calls from several threads at once."""

    waits_apart: ClassVar[bool] = False
