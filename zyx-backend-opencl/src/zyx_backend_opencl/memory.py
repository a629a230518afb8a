"""Memory of a device.

Buffers that are given back are kept and used again, since drivers take long to make them: up to a quarter larger ones
serve a request. What is kept counts as free, and goes back to the driver when there is no room, or by `trim`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, ClassVar, Final
from weakref import WeakSet

from zyx.backend import Event, MemoryPool, PoolBuffer, take_all
from zyx.errors import AllocationError, DeviceLostError, InvalidBufferError, InvalidEventError, TransferError
from zyx_backend_opencl.driver import Fault
from zyx_backend_opencl.errors import LOST, NO_BUFFER, code_name, failure
from zyx_backend_opencl.work import ClEvent, Command, CompletedEvent, Work

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from zyx_backend_opencl.driver import Memory, Session

    class HoldsMemory(Protocol):
        """Something that keeps memory alive, and can do without."""

        def let_go(self) -> None:
            """Drop it."""


#: Sizes are rounded up to this many bytes, and from there to one of four sizes a power of two.
_GRAIN: Final = 256


class ClBuffer(PoolBuffer):
    """A piece of a device's memory.

    Attributes:
        memory: The driver's object; None once the buffer is freed.
        capacity: Its size.
    """

    __slots__ = ("capacity", "memory")

    def __init__(self, pool: MemoryPool, nbytes: int, memory: Memory, capacity: int) -> None:
        super().__init__(pool, nbytes)
        self.memory = memory
        self.capacity = capacity


class ClPool(MemoryPool):
    """The memory of one device.

    Args:
        name: Such as ``opencl:0 memory``.
        session: The device, open. It is closed with the pool.
        capacity_bytes: Size of the memory.
        max_buffer_bytes: Size of the largest buffer.

    Attributes:
        holders: Who else keeps memory alive.
    """

    takes_target_events: ClassVar[bool] = True

    def __init__(self, name: str, session: Session, capacity_bytes: int, max_buffer_bytes: int) -> None:
        super().__init__(name)
        self.session: Final = session
        self.work: Final = Work(session)
        self.capacity_bytes: Final = capacity_bytes
        self.max_buffer_bytes: Final = max_buffer_bytes
        self.holders: Final[WeakSet[HoldsMemory]] = WeakSet()
        self._used_bytes = 0
        self._idle: dict[int, list[tuple[Memory, list[Command]]]] = {}
        self._idle_sizes: list[int] = []  # the keys of `_idle`, sorted
        self._idle_bytes = 0
        self._is_open = True

    @property
    def free_bytes(self) -> int:
        """Bytes that can still be allocated. OpenCL does not tell what other processes have."""
        return self.capacity_bytes - self._used_bytes

    # ---- allocation

    def allocate(self, nbytes: int) -> tuple[ClBuffer, Event]:
        if nbytes <= 0:
            raise ValueError(f"pool {self.name} was asked for {nbytes} bytes; a buffer has at least one")
        if not self._is_open:
            raise AllocationError(f"pool {self.name} was asked for {nbytes} bytes after it was closed")
        capacity = rounded(nbytes)
        if nbytes > self.max_buffer_bytes:
            limit = f"a buffer has at most {self.max_buffer_bytes}"
            raise AllocationError(f"pool {self.name} has no room for {nbytes} bytes: {limit}, {self._room()}")
        if capacity > min(self.free_bytes, self.max_buffer_bytes):
            capacity = nbytes
        if capacity > self.free_bytes:
            raise AllocationError(f"pool {self.name} has no room for {nbytes} bytes: {self._room()}")
        found = self._take_idle(capacity)
        if found is None:
            found = capacity, self._fresh(nbytes, capacity), []
        capacity, memory, after = found
        self._used_bytes += capacity
        buffer = ClBuffer(self, nbytes, memory, capacity)
        if not after:
            return buffer, CompletedEvent(self.work)
        return buffer, ClEvent(self.work, after)

    def deallocate(self, buffer: PoolBuffer, events: Sequence[Event] = ()) -> None:
        """Give `buffer` back; it is kept for a request that then waits for `events`."""
        commands = self.take(events)
        self.check_buffer(buffer)
        assert isinstance(buffer, ClBuffer)  # buffers of this pool are made by `allocate` alone
        memory, buffer.memory, buffer.freed = buffer.memory, None, True
        capacity = buffer.capacity
        self._used_bytes -= capacity
        if not self._is_open:
            return
        if capacity not in self._idle:
            insort(self._idle_sizes, capacity)
            self._idle[capacity] = []
        self._idle[capacity].append((memory, commands))
        self._idle_bytes += capacity

    def trim(self) -> int:
        """Give idle memory back to the driver, which frees it when nothing uses it any more; return how many bytes."""
        for holder in list(self.holders):
            holder.let_go()
        freed, self._idle_bytes = self._idle_bytes, 0
        self._idle.clear()
        self._idle_sizes.clear()
        return freed

    def _take_idle(self, capacity: int) -> tuple[int, Memory, list[Command]] | None:
        place = bisect_left(self._idle_sizes, capacity)
        if place == len(self._idle_sizes) or self._idle_sizes[place] > capacity + capacity // 4:
            return None
        capacity = self._idle_sizes[place]
        idle = self._idle[capacity]
        memory, after = idle.pop()
        if not idle:
            del self._idle[capacity], self._idle_sizes[place]
        self._idle_bytes -= capacity
        # Failed work is over as well, and must not make the next work fail.
        return capacity, memory, [command for command in after if self.session.status(command.native) > 0]

    def _fresh(self, nbytes: int, capacity: int) -> Memory:
        if capacity > self.free_bytes - self._idle_bytes:
            self.trim()
        try:
            return self.session.allocate(capacity)
        except Fault:
            self.trim()
            self.session.finish()
        try:
            return self.session.allocate(capacity)
        except Fault as error:
            if error.code in LOST:
                raise DeviceLostError(f"pool {self.name}: the device is lost, {code_name(error.code)}") from error
            why = "the driver has none" if error.code in NO_BUFFER else "the driver refused"
            raise AllocationError(
                f"pool {self.name} has no room for {nbytes} bytes: {why}, {code_name(error.code)}; {self._room()}"
            ) from error

    def _room(self) -> str:
        return f"{self.free_bytes} of {self.capacity_bytes} bytes are free"

    # ---- transfers

    def host_to_pool(self, source: memoryview, target: PoolBuffer, events: Sequence[Event] = ()) -> Event:
        behind = self.take(events)
        self.check_buffer(target, source.nbytes)
        assert isinstance(target, ClBuffer)
        if not source.nbytes:
            return ClEvent(self.work, behind)
        what = f"an upload of {source.nbytes} bytes to {self.name}"
        waits = self.work.natives(behind, what)
        try:
            native = self.session.write(target.memory, source, waits)
        except Fault as error:
            raise failure(what, error.code, TransferError) from error
        return ClEvent(self.work, [self.work.add(native, what, behind, TransferError, kept=source)])

    def pool_to_host(
        self, source: PoolBuffer, target: memoryview, events: Sequence[Event] = (), offset: int = 0
    ) -> None:
        behind = self.take(events)
        if offset < 0:
            raise InvalidBufferError(f"a read of pool {self.name} starts at byte {offset}")
        self.check_buffer(source, offset + target.nbytes)
        assert isinstance(source, ClBuffer)
        if target.readonly:
            raise TransferError(f"a read of pool {self.name} has a target that is read-only")
        self.work.wait(behind)
        if not target.nbytes:
            return
        try:
            self.session.read(source.memory, target, offset, ())
        except Fault as error:
            raise failure(f"a download from {self.name}", error.code, TransferError) from error

    def pool_to_pool(
        self,
        source: PoolBuffer,
        target: PoolBuffer,
        events: Sequence[Event] = (),
        target_events: Sequence[Event] = (),
    ) -> Event:
        """Copy all of `source`, of another pool, to the start of `target`; straight from it if that is host memory."""
        array = getattr(source, "array", None)
        if not isinstance(source.pool, ClPool) and array is not None:
            source.pool.sync_events(events)
            return self.host_to_pool(memoryview(array), target, target_events)
        return super().pool_to_pool(source, target, events, target_events)

    # ---- events

    def completed(self) -> Event:
        return CompletedEvent(self.work)

    def sync_events(self, events: Sequence[Event]) -> None:
        self.work.wait(self.take(events))

    def release_events(self, events: Sequence[Event]) -> None:
        self.work.release(self.take(events))

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
            if not isinstance(event, ClEvent) or event.owner is not self.work:
                raise InvalidEventError(f"pool {self.name} was given an event of another pool: {type(event).__name__}")
            commands += event.commands
        return commands

    def close(self) -> None:
        """Wait for all work, and close the device. Buffers that are alive go with their last reference."""
        if self._is_open:
            self._is_open = False
            self.trim()
            self.session.close()


def rounded(nbytes: int) -> int:
    """Return the size of the memory that serves a request: one of four a power of two, and a multiple of 256."""
    step = max(_GRAIN, 1 << max(0, (nbytes - 1).bit_length() - 3))
    return -(-nbytes // step) * step
