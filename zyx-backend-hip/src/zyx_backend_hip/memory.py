"""Memory of a device.

Buffers that are given back are kept and used again, since `hipMalloc` takes long and `hipFree` waits for the device:
up to a quarter larger ones serve a request. What is kept counts as free, and goes back to the driver when there is no
room, or by `trim`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final
from weakref import WeakSet

from zyx.backend import Event, MemoryPool, PoolBuffer, take_all
from zyx.backend.idle_memory import IdleMemory, rounded
from zyx.errors import AllocationError, DeviceLostError, InvalidBufferError, InvalidEventError, TransferError
from zyx_backend_hip.driver import Fault
from zyx_backend_hip.errors import LOST, NO_MEMORY, code_name, failure
from zyx_backend_hip.work import Command, CompletedEvent, HipEvent, Work

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol

    from zyx_backend_hip.driver import Handle, Session

    class HoldsMemory(Protocol):
        """Something that names memory which was given back, and can do without."""

        def let_go(self) -> None:
            """Drop it."""


class HipBuffer(PoolBuffer):
    """A piece of a device's memory.

    Attributes:
        address: Where it lies; 0 once the buffer is freed.
        capacity: Its size.
    """

    __slots__ = ("address", "capacity")

    def __init__(self, pool: MemoryPool, nbytes: int, address: Handle, capacity: int) -> None:
        super().__init__(pool, nbytes)
        self.address = address
        self.capacity = capacity


class HipPool(MemoryPool):
    """The memory of one device.

    Args:
        name: Such as ``hip:0 memory``.
        session: The device, open. It is closed with the pool.

    Attributes:
        holders: Graphs, which have addresses in them.
    """

    takes_target_events: ClassVar[bool] = True

    def __init__(self, name: str, session: Session) -> None:
        super().__init__(name)
        self.session: Final = session
        self.work: Final = Work(session, name)
        self.capacity_bytes: Final = session.total_bytes
        self.holders: Final[WeakSet[HoldsMemory]] = WeakSet()
        self._used_bytes = 0
        self._idle: Final[IdleMemory[tuple[Handle, list[Command]]]] = IdleMemory()
        self._alive: set[Handle] = set()  # of buffers in use
        self._at_close: list[Callable[[], object]] = []
        self._is_open = True

    @property
    def free_bytes(self) -> int:
        """Bytes that can still be allocated, as far as other processes leave them."""
        return self.capacity_bytes - self._used_bytes

    # ---- allocation

    def allocate(self, nbytes: int) -> tuple[HipBuffer, Event]:
        if nbytes <= 0:
            raise ValueError(f"pool {self.name} was asked for {nbytes} bytes; a buffer has at least one")
        if not self._is_open:
            raise AllocationError(f"pool {self.name} was asked for {nbytes} bytes after it was closed")
        with self.session.lock:
            capacity = rounded(nbytes)
            if capacity > self.free_bytes:
                capacity = nbytes
            if capacity > self.free_bytes:
                raise AllocationError(f"pool {self.name} has no room for {nbytes} bytes: {self._room()}")
            after: list[Command] = []
            found = self._idle.take(capacity)
            if found is None:
                address = self._fresh(nbytes, capacity)
            else:
                capacity, (address, after) = found
                # Failed work is over as well, and must not make the next work fail.
                after = [command for command in after if not command.is_complete]
            self._used_bytes += capacity
            self._alive.add(address)
        buffer = HipBuffer(self, nbytes, address, capacity)
        return buffer, HipEvent(self.work, after) if after else CompletedEvent(self.work)

    def deallocate(self, buffer: PoolBuffer, events: Sequence[Event] = ()) -> None:
        """Give `buffer` back; it is kept for a request that then waits for `events`."""
        commands = self.take(events)
        self.check_buffer(buffer)
        assert isinstance(buffer, HipBuffer)  # buffers of this pool are made by `allocate` alone
        with self.session.lock:
            address, buffer.address, buffer.freed = buffer.address, 0, True
            self._used_bytes -= buffer.capacity
            self._alive.discard(address)
            if self._is_open:
                self._idle.put(buffer.capacity, (address, commands))

    def trim(self) -> int:
        """Give idle memory back to the driver, which waits for whatever is running; return how many bytes."""
        with self.session.lock:
            self.session.finish()
            for holder in list(self.holders):
                holder.let_go()
            freed = self._idle.nbytes
            for address, _ in self._idle.clear():
                self.session.free(address)
            return freed

    def reserve(self, nbytes: int) -> Handle:
        """Return memory that does not count, and lives as long as the pool. Raises `Fault` if there is none."""
        with self.session.lock:
            address = self.session.allocate(nbytes)
            self._alive.add(address)
            return address

    def at_close(self, action: Callable[[], object]) -> None:
        """Let `action` be done when the pool is closed, before its device is."""
        self._at_close.append(action)

    def _fresh(self, nbytes: int, capacity: int) -> Handle:
        if capacity > self.free_bytes - self._idle.nbytes:
            self.trim()
        try:
            return self.session.allocate(capacity)
        except Fault:
            self.trim()
        try:
            return self.session.allocate(capacity)
        except Fault as error:
            if error.code in LOST:
                raise DeviceLostError(f"pool {self.name}: the device is lost, {code_name(error.code)}") from error
            why = "the driver has none" if error.code in NO_MEMORY else "the driver refused"
            raise AllocationError(
                f"pool {self.name} has no room for {nbytes} bytes: {why}, {code_name(error.code)}; {self._room()}"
            ) from error

    def _room(self) -> str:
        return f"{self.free_bytes} of {self.capacity_bytes} bytes are free"

    # ---- transfers

    def host_to_pool(self, source: memoryview, target: PoolBuffer, events: Sequence[Event] = ()) -> Event:
        behind = self.take(events)
        self.check_buffer(target, source.nbytes)
        assert isinstance(target, HipBuffer)
        if not source.nbytes:
            return HipEvent(self.work, behind)
        what = f"an upload of {source.nbytes} bytes to {self.name}"
        session = self.session
        try:
            with session.lock, session.selected():
                self.work.order(session.transfers, behind, what)
                session.write(target.address, source)
                return HipEvent(self.work, [self.work.add(session.transfers, what, kept=source)])
        except Fault as error:
            raise failure(what, error.code, TransferError) from error

    def pool_to_host(
        self, source: PoolBuffer, target: memoryview, events: Sequence[Event] = (), offset: int = 0
    ) -> None:
        behind = self.take(events)
        if offset < 0:
            raise InvalidBufferError(f"a read of pool {self.name} starts at byte {offset}")
        self.check_buffer(source, offset + target.nbytes)
        assert isinstance(source, HipBuffer)
        if target.readonly:
            raise TransferError(f"a read of pool {self.name} has a target that is read-only")
        self.work.wait(behind)
        if not target.nbytes:
            return
        try:
            self.session.read(source.address + offset, target)
        except Fault as error:
            raise failure(f"a download from {self.name}", error.code, TransferError) from error

    def pool_to_pool(
        self,
        source: PoolBuffer,
        target: PoolBuffer,
        events: Sequence[Event] = (),
        target_events: Sequence[Event] = (),
    ) -> Event:
        """Copy all of `source`, of another pool, to the start of `target`; straight from devices and host memory."""
        if isinstance(source.pool, HipPool) and isinstance(source, HipBuffer):
            return self._from_device(
                source.pool, source, target, [*source.pool.take(events), *self.take(target_events)]
            )
        array = getattr(source, "array", None)
        if array is None:
            return super().pool_to_pool(source, target, events, target_events)
        source.pool.sync_events(events)
        return self.host_to_pool(memoryview(array), target, target_events)

    def _from_device(self, pool: HipPool, source: HipBuffer, target: PoolBuffer, behind: Sequence[Command]) -> Event:
        pool.check_buffer(source)
        self.check_buffer(target, source.nbytes)
        assert isinstance(target, HipBuffer)
        what = f"a copy of {source.nbytes} bytes from {pool.name} to {self.name}"
        session = self.session
        try:
            with session.lock, session.selected():
                self.work.order(session.transfers, behind, what)
                session.copy_from(pool.session, source.address, target.address, source.nbytes)
                return HipEvent(self.work, [self.work.add(session.transfers, what)])
        except Fault as error:
            raise failure(what, error.code, TransferError) from error

    # ---- events

    def completed(self) -> Event:
        return CompletedEvent(self.work)

    def sync_events(self, events: Sequence[Event]) -> None:
        self.work.wait(self.take(events))

    def release_events(self, events: Sequence[Event]) -> None:
        self.take(events)

    def synchronize(self) -> None:
        self.work.finish()

    def take(self, events: Sequence[Event]) -> list[Command]:
        """Use `events` up, and return the commands that they stand for.

        Raises:
            InvalidEventError: One is of another pool, or was used before.
        """
        take_all(events)
        commands: list[Command] = []
        for event in events:
            if not isinstance(event, HipEvent) or event.owner is not self.work:
                raise InvalidEventError(f"pool {self.name} was given an event of another pool: {type(event).__name__}")
            commands += event.commands
        return commands

    def close(self) -> None:
        """Wait for all work, free all memory, and close the device."""
        if self._is_open:
            self._is_open = False
            self.session.finish()
            for action in self._at_close:
                action()
            self.trim()
            for address in self._alive:
                self.session.free(address)
            self._alive.clear()
            self.session.close()
