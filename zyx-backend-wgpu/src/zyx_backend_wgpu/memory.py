"""Memory of a device.

Each buffer is one of the driver's, a whole number of words. Buffers that are given back are kept and used again. As the
device runs everything in order, that may be at once: whatever is done with them next is done after what was before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final
from weakref import WeakSet

from zyx.backend import Event, MemoryPool, PoolBuffer, take_all
from zyx.backend.idle_memory import IdleMemory, rounded
from zyx.errors import AllocationError, InvalidBufferError, InvalidEventError, TransferError
from zyx_backend_wgpu.bindings import WORD
from zyx_backend_wgpu.errors import Cause, Fault
from zyx_backend_wgpu.work import CompletedEvent, WgpuEvent, Work

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from zyx_backend_wgpu.bindings import Memory
    from zyx_backend_wgpu.driver import Session

    class HoldsGroups(Protocol):
        """Something that has buffers put together, and can do so again."""

        def forget_groups(self) -> None:
            """Drop them."""


#: The driver copies what is uploaded, and keeps the copies until the next submission: at most so much.
_UPLOAD_BYTES: Final = 1 << 26


class WgpuBuffer(PoolBuffer):
    """A piece of a device's memory.

    Attributes:
        memory: The driver's buffer; None once this is freed.
    """

    __slots__ = ("memory",)

    memory: Memory

    def __init__(self, pool: MemoryPool, nbytes: int, memory: Memory) -> None:
        super().__init__(pool, nbytes)
        self.memory = memory


class WgpuPool(MemoryPool):
    """The memory of one device.

    Args:
        name: Such as ``wgpu:0 memory``.
        session: The device, open. It is closed with the pool.
        device: The device's name.
        capacity_bytes: Size of the memory.
        max_buffer_bytes: Size of the largest buffer.

    Attributes:
        holders: Who has buffers put together, and must let go of them when memory goes back to the driver.
    """

    takes_target_events: ClassVar[bool] = True

    def __init__(self, name: str, session: Session, device: str, capacity_bytes: int, max_buffer_bytes: int) -> None:
        super().__init__(name)
        self.session: Final = session
        self.work: Final = Work(device, session)
        self.capacity_bytes: Final = capacity_bytes
        self.max_buffer_bytes: Final = max_buffer_bytes
        self.holders: Final[WeakSet[HoldsGroups]] = WeakSet()
        self._used_bytes = 0
        self._idle: IdleMemory[Memory] = IdleMemory()
        self._pending_bytes = 0  # uploaded since the last submission
        self._zero: Memory | None = None
        self._is_open = True

    @property
    def free_bytes(self) -> int:
        """Bytes that can still be allocated. WebGPU does not tell what other programs have."""
        return self.capacity_bytes - self._used_bytes

    # ---- allocation

    def allocate(self, nbytes: int) -> tuple[WgpuBuffer, Event]:
        if nbytes <= 0:
            raise ValueError(f"pool {self.name} was asked for {nbytes} bytes; a buffer has at least one")
        if not self._is_open:
            raise AllocationError(f"pool {self.name} was asked for {nbytes} bytes after it was closed")
        self.work.check(f"an allocation of {nbytes} bytes")
        if nbytes > self.max_buffer_bytes:
            limit = f"a buffer has at most {self.max_buffer_bytes}"
            raise AllocationError(f"pool {self.name} has no room for {nbytes} bytes: {limit}, {self._room()}")
        capacity = rounded(nbytes)
        if capacity > min(self.free_bytes, self.max_buffer_bytes):
            capacity = -(-nbytes // WORD) * WORD
        if capacity > self.free_bytes:
            raise AllocationError(f"pool {self.name} has no room for {nbytes} bytes: {self._room()}")
        found = self._idle.take(capacity)
        memory = found[1] if found is not None else self._fresh(nbytes, capacity)
        self._used_bytes += memory.nbytes
        return WgpuBuffer(self, nbytes, memory), CompletedEvent(self.work, 0)

    def deallocate(self, buffer: PoolBuffer, events: Sequence[Event] = ()) -> None:
        """Give `buffer` back; it is kept for the next request."""
        self.take(events)
        memory = self.buffer(buffer).memory
        buffer.freed = True
        self._used_bytes -= memory.nbytes
        if self._is_open:
            self._idle.put(memory.nbytes, memory)

    def trim(self) -> int:
        """Give idle memory back to the driver, which frees it when nothing uses it any more; return how many bytes."""
        freed = self._idle.nbytes
        if freed:
            for holder in list(self.holders):
                holder.forget_groups()
            for memory in self._idle.clear():
                self.session.free(memory)
        return freed

    def _fresh(self, nbytes: int, capacity: int) -> Memory:
        if capacity > self.free_bytes - self._idle.nbytes:
            self.trim()
        try:
            return self.session.allocate(capacity)
        except Fault as fault:
            if fault.cause is not Cause.MEMORY:
                raise self.work.failed(f"an allocation of {nbytes} bytes", fault, AllocationError) from fault
        self.trim()
        self.work.finish()
        try:
            return self.session.allocate(capacity)
        except Fault as fault:
            if fault.cause is not Cause.MEMORY:
                raise self.work.failed(f"an allocation of {nbytes} bytes", fault, AllocationError) from fault
            raise AllocationError(
                f"pool {self.name} has no room for {nbytes} bytes: {fault.cause.value}; {self._room()}"
            ) from fault

    def _room(self) -> str:
        return f"{self.free_bytes} of {self.capacity_bytes} bytes are free"

    def constants(self, data: bytes) -> Memory:
        """Return memory of constants, with `data` in it.

        Raises:
            Fault: The driver refused.
        """
        if any(data):
            return self.session.uniform(data)
        if self._zero is None or self._zero.nbytes < len(data):
            self._zero = self.session.uniform(data)  # what most kernels need
        return self._zero

    # ---- transfers

    def host_to_pool(self, source: memoryview, target: PoolBuffer, events: Sequence[Event] = ()) -> Event:
        self.take(events)
        self.check_buffer(target, source.nbytes)
        memory = self.buffer(target).memory
        if not source.nbytes:
            return CompletedEvent(self.work, 0)
        what = f"an upload of {source.nbytes} bytes to {self.name}"
        self.work.check(what)
        data = source if source.format == "B" and source.ndim == 1 else source.cast("B")
        whole = source.nbytes // WORD * WORD
        try:
            for start in range(0, whole, _UPLOAD_BYTES):
                part = data[start : min(start + _UPLOAD_BYTES, whole)]
                self.session.write(memory, start, part)
                self._wrote(part.nbytes)
            if whole < source.nbytes:
                word = self._last_word(memory, whole, data[whole:], target.nbytes)
                self.session.write(memory, whole, word)
        except Fault as fault:
            raise self.work.failed(what, fault, TransferError) from fault
        return self.work.event(self.work.uploaded())

    def _wrote(self, nbytes: int) -> None:
        """Let uploads start before the driver has copies of too many."""
        self._pending_bytes += nbytes
        if self._pending_bytes >= _UPLOAD_BYTES:
            self._pending_bytes = 0
            self.work.submit((), "an upload", TransferError)

    def _last_word(self, memory: Memory, start: int, rest: memoryview, end: int) -> memoryview:
        """Return the word at `start`: `rest`, and behind it what is there, as far as the buffer goes."""
        word = bytearray(WORD)
        if start + rest.nbytes < end:
            self.session.read(memory, start, memoryview(word))
        word[: rest.nbytes] = rest
        return memoryview(word)

    def pool_to_host(
        self, source: PoolBuffer, target: memoryview, events: Sequence[Event] = (), offset: int = 0
    ) -> None:
        self.take(events)
        if offset < 0:
            raise InvalidBufferError(f"a read of pool {self.name} starts at byte {offset}")
        self.check_buffer(source, offset + target.nbytes)
        memory = self.buffer(source).memory
        if target.readonly:
            raise TransferError(f"a read of pool {self.name} has a target that is read-only")
        if not target.nbytes:
            return
        what = f"a download of {target.nbytes} bytes from {self.name}"
        self.work.check(what)
        data = target if target.format == "B" and target.ndim == 1 else target.cast("B")
        skip = offset % WORD
        try:
            if skip:
                first = bytearray(WORD)
                self.session.read(memory, offset - skip, memoryview(first))
                data[: WORD - skip] = first[skip : skip + data.nbytes]
                data = data[WORD - skip :]
                offset += WORD - skip
            if data.nbytes:
                self.session.read(memory, offset, data)
        except Fault as fault:
            raise self.work.failed(what, fault, TransferError) from fault
        self.work.drained()

    def pool_to_pool(
        self,
        source: PoolBuffer,
        target: PoolBuffer,
        events: Sequence[Event] = (),
        target_events: Sequence[Event] = (),
    ) -> Event:
        """Copy all of `source`, of another pool, to the start of `target`; straight from it if that is host memory."""
        array = getattr(source, "array", None)
        if not isinstance(source.pool, WgpuPool) and array is not None:
            source.pool.sync_events(events)
            return self.host_to_pool(memoryview(array), target, target_events)
        return super().pool_to_pool(source, target, events, target_events)

    # ---- events

    def completed(self) -> Event:
        return CompletedEvent(self.work, 0)

    def sync_events(self, events: Sequence[Event]) -> None:
        self.work.wait(self.take(events))

    def release_events(self, events: Sequence[Event]) -> None:
        self.take(events)

    def synchronize(self) -> None:
        self.work.finish()

    def take(self, events: Sequence[Event]) -> int:
        """Use `events` up, and return the last of their tickets; 0 if there are none.

        Raises:
            InvalidEventError: One is of another pool, or was used before.
        """
        take_all(events)
        last = 0
        for event in events:
            if not isinstance(event, WgpuEvent) or event.owner is not self.work:
                raise InvalidEventError(f"pool {self.name} was given an event of another pool: {type(event).__name__}")
            last = max(last, event.ticket)
        return last

    def buffer(self, buffer: PoolBuffer) -> WgpuBuffer:
        """Return a buffer that is checked to be alive and of this pool."""
        self.check_buffer(buffer)
        assert isinstance(buffer, WgpuBuffer)  # buffers of this pool are made by `allocate` alone
        return buffer

    def close(self) -> None:
        """Wait for all work, and close the device. Buffers that are alive go with their last reference."""
        if self._is_open:
            self._is_open = False
            self.trim()
            self._zero = None
            self.session.close()
