"""Memory of a device.

Each buffer is one of the driver's, a whole number of words. Buffers that are given back are kept and used again. As the
device runs everything in order, that may be at once: whatever is done with them next is done after what was before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias

from zyx.drivers.caching_pool import CachedBuffer, CachingPool
from zyx.drivers.faults import Cause, Fault
from zyx.drivers.work_event import CompletedEvent, WorkEvent
from zyx.errors import AllocationError, TransferError
from zyx_backend_wgpu.bindings import WORD, Memory
from zyx_backend_wgpu.work import Work

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend import Event, PoolBuffer
    from zyx_backend_wgpu.driver import Session

#: The driver copies what is uploaded, and keeps the copies until the next submission: at most so much.
_UPLOAD_BYTES: Final = 1 << 26

WgpuBuffer: TypeAlias = CachedBuffer[Memory]


class WgpuPool(CachingPool[Memory, int]):
    """The memory of one device. Events are tickets. WebGPU does not tell what other programs have.

    Args:
        name: Such as ``wgpu:0 memory``.
        session: The device, open. It is closed with the pool.
        device: The device's name.
        capacity_bytes: Size of the memory.
        max_buffer_bytes: Size of the largest buffer.
    """

    grain_bytes: ClassVar[int] = WORD

    def __init__(self, name: str, session: Session, device: str, capacity_bytes: int, max_buffer_bytes: int) -> None:
        super().__init__(name, capacity_bytes, max_buffer_bytes)
        self.session: Final = session
        self.work: Final = Work(device, session)
        self._pending_bytes = 0  # uploaded since the last submission
        self._zero: Memory | None = None

    # ---- allocation

    def obtain(self, nbytes: int) -> Memory:
        try:
            return self.session.allocate(nbytes)
        except Fault as fault:
            if fault.cause is Cause.MEMORY:
                raise self.refused(fault) from fault
            raise self.work.failed(f"an allocation of {nbytes} bytes", fault, AllocationError) from fault

    def allocate(self, nbytes: int) -> tuple[WgpuBuffer, Event]:
        self.work.check(f"an allocation of {nbytes} bytes")
        return super().allocate(nbytes)

    def discard(self, memory: Memory, work: Sequence[int]) -> None:
        self.session.free(memory)  # which the driver does when nothing uses it any more

    def settle(self) -> None:
        self.work.finish()

    def unfinished(self, work: Sequence[int]) -> Sequence[int]:
        return ()  # whatever is done next is done after it

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
        memory = self.own(target, source.nbytes).memory
        if not source.nbytes:
            return CompletedEvent(self)
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
        return self.event_of(self.work.uploaded())

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
        self.check_read(source, target, offset)
        memory = self.own(source).memory
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

    # ---- events

    def event_of(self, ticket: int) -> Event:
        """Return an event for a ticket; 0 is complete already."""
        return CompletedEvent(self) if ticket <= self.work.complete else WorkEvent(self, (ticket,))

    def sync_events(self, events: Sequence[Event]) -> None:
        self.work.wait(max(self.take(events), default=0))

    def synchronize(self) -> None:
        self.work.finish()

    def close(self) -> None:
        """Wait for all work, and close the device. Buffers that are alive go with their last reference."""
        if self._is_open:
            self._is_open = False
            self.trim()
            self._zero = None
            self.session.close()
