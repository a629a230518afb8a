"""Memory of a device.

Buffers that are given back are kept and used again, since `hipMalloc` takes long and `hipFree` waits for the device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias

from zyx.drivers.caching_pool import CachedBuffer, CachingPool
from zyx.drivers.faults import Fault, failure
from zyx.errors import TransferError
from zyx_backend_hip.driver import Handle
from zyx_backend_hip.work import Command, Work

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.backend import Event, PoolBuffer
    from zyx_backend_hip.driver import Session

HipBuffer: TypeAlias = CachedBuffer[Handle]


class HipPool(CachingPool[Handle, Command]):
    """The memory of one device. What the driver knows a piece of it by is its address.

    Args:
        name: Such as ``hip:0 memory``.
        session: The device, open. It is closed with the pool.
    """

    waits_apart: ClassVar[bool] = True  # what is queued is noted under the session's lock, which no wait holds

    def __init__(self, name: str, session: Session) -> None:
        super().__init__(name, session.total_bytes)
        self.session: Final = session
        self.work: Final = Work(session, name)
        self._owned: set[Handle] = set()  # everything the driver gave, idle or not
        self._at_close: list[Callable[[], object]] = []

    # ---- allocation

    def allocate(self, nbytes: int) -> tuple[CachedBuffer[Handle], Event]:
        with self.session.lock:
            return super().allocate(nbytes)

    def deallocate(self, buffer: PoolBuffer, events: Sequence[Event] = ()) -> None:
        with self.session.lock:
            super().deallocate(buffer, events)

    def trim(self) -> int:
        """Give idle memory back to the driver, which waits for whatever is running; return how many bytes."""
        with self.session.lock:
            self.session.finish()
            return super().trim()

    def obtain(self, nbytes: int) -> Handle:
        try:
            return self.reserve(nbytes)
        except Fault as error:
            raise self.refused(error) from error

    def discard(self, memory: Handle, work: Sequence[Command]) -> None:
        self._owned.discard(memory)
        self.session.free(memory)

    def unfinished(self, work: Sequence[Command]) -> Sequence[Command]:
        return [command for command in work if not command.is_complete]

    def reserve(self, nbytes: int) -> Handle:
        """Return memory that does not count, and lives as long as the pool. Raises `Fault` if there is none."""
        with self.session.lock:
            address = self.session.allocate(nbytes)
            self._owned.add(address)
            return address

    def at_close(self, action: Callable[[], object]) -> None:
        """Let `action` be done when the pool is closed, before its device is."""
        self._at_close.append(action)

    # ---- transfers

    def host_to_pool(self, source: memoryview, target: PoolBuffer, events: Sequence[Event] = ()) -> Event:
        behind = self.take(events)
        address = self.own(target, source.nbytes).memory
        if not source.nbytes:
            return self.event(behind)
        what = f"an upload of {source.nbytes} bytes to {self.name}"
        session = self.session
        try:
            with session.lock, session.selected():
                self.work.order(session.transfers, behind, what)
                session.write(address, source)
                return self.event([self.work.add(session.transfers, what, kept=source)])
        except Fault as error:
            raise failure(what, error, TransferError) from error

    def pool_to_host(
        self, source: PoolBuffer, target: memoryview, events: Sequence[Event] = (), offset: int = 0
    ) -> None:
        behind = self.take(events)
        self.check_read(source, target, offset)
        self.work.wait(behind)
        if not target.nbytes:
            return
        try:
            self.session.read(self.own(source).memory + offset, target)
        except Fault as error:
            raise failure(f"a download from {self.name}", error, TransferError) from error

    def pool_to_pool(
        self,
        source: PoolBuffer,
        target: PoolBuffer,
        events: Sequence[Event] = (),
        target_events: Sequence[Event] = (),
    ) -> Event:
        """Copy all of `source`, of another pool, to the start of `target`: between devices without the host."""
        pool = source.pool
        if not isinstance(pool, HipPool):
            return super().pool_to_pool(source, target, events, target_events)
        behind = [*pool.take(events), *self.take(target_events)]
        there, here = pool.own(source).memory, self.own(target, source.nbytes).memory
        what = f"a copy of {source.nbytes} bytes from {pool.name} to {self.name}"
        session = self.session
        try:
            with session.lock, session.selected():
                self.work.order(session.transfers, behind, what)
                session.copy_from(pool.session, there, here, source.nbytes)
                return self.event([self.work.add(session.transfers, what)])
        except Fault as error:
            raise failure(what, error, TransferError) from error

    # ---- events

    def sync_events(self, events: Sequence[Event]) -> None:
        self.work.wait(self.take(events))

    def synchronize(self) -> None:
        self.work.finish()

    def close(self) -> None:
        """Wait for all work, free all memory, and close the device."""
        if self._is_open:
            self._is_open = False
            self.session.finish()
            for action in self._at_close:
                action()
            self.trim()
            for address in self._owned:
                self.session.free(address)
            self._owned.clear()
            self.session.close()
