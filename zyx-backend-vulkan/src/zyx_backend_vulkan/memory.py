"""Memory of a device.

Buffers that are given back are kept and used again, in the order of the queues: a buffer may be handed out while work
on what was there before is still queued, and work on the same queue then waits for nothing.

Where the host can reach all of a device's memory at its usual speed, uploads to buffers that nothing uses are written
in place, and downloads read there. Else transfers, but for small uploads, go through a ring of the host's memory.
"""

from __future__ import annotations

from contextlib import suppress
from threading import RLock
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias

import numpy as np

from zyx.drivers.caching_pool import CachedBuffer, CachingPool
from zyx.drivers.faults import Cause, Fault
from zyx.drivers.staging import PIECE_BYTES, Staging
from zyx.drivers.work_event import CompletedEvent, WorkEvent
from zyx.errors import AllocationError, BackendError, DeviceLostError, TransferError
from zyx_backend_vulkan.blocks import Blocks, Memory
from zyx_backend_vulkan.work import Lane, Ticket, Tickets, Work, finish_all

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from zyx.backend import Event, PoolBuffer
    from zyx_backend_vulkan.driver_device import Session
    from zyx_backend_vulkan.driver_memory import Heaps

#: What is written in place to memory of a GPU of its own: so little takes less time than a queue does to begin.
_IN_PLACE_BYTES: Final = 1 << 16
#: Others have to take more than this part of all memory before it is said to be less: a budget moves with whatever a
#: driver keeps for itself, and with each process that begins or ends (0.3 GB each on an H200).
_NOTICED_PART: Final = 16

VulkanBuffer: TypeAlias = CachedBuffer[Memory]


class VulkanPool(CachingPool[Memory, Ticket]):
    """The memory of one device, and the queues that work on it.

    Args:
        name: Such as ``vulkan:0 memory``.
        session: The device, open. It is closed with the pool.
        heaps: Its memory.
        device: The device's name.
        most_bytes: How much of it may be used; 0 means all.

    Attributes:
        heaps: The same.
        work: What its queues are doing.
        compute: The queue of launches.
        constants: Memory for numbers that kernels read, which the host writes.
    """

    waits_apart: ClassVar[bool] = True
    grain_bytes: ClassVar[int] = 4

    def __init__(self, name: str, session: Session, heaps: Heaps, device: str, most_bytes: int = 0) -> None:
        self._available = self._at_first = heaps.available_bytes()
        there = heaps.capacity_bytes if self._at_first is None else min(heaps.capacity_bytes, self._at_first)
        super().__init__(name, most_bytes or there, heaps.largest_bytes)
        self.session: Final = session
        self.work: Final = Work(device)
        self.compute: Final = Lane(session.compute, self.work, self)
        for queue in (session.compute, session.uploads, session.downloads):
            queue.is_mapped = heaps.is_mapped
        same = session.uploads is session.compute
        self._uploads: Final = self.compute if same else Lane(session.uploads, self.work, self)
        same = session.downloads is session.uploads
        self._downloads: Final = self._uploads if same else Lane(session.downloads, self.work, self)
        self.heaps: Final = heaps
        self._blocks: Final = Blocks(heaps, heaps.local, self.capacity_bytes, heaps.largest_bytes)
        self.constants: Final = Blocks(heaps, heaps.upload, self.capacity_bytes, heaps.largest_bytes)
        self._rings: dict[bool, Memory] = {}
        self._up: Final = Staging(self._ring(heaps.upload, is_up=True), self._uploads)
        self._down: Final = Staging(self._ring(heaps.download, is_up=False), self._downloads)
        self._downloading: Final = RLock()  # has the lane and the ring of downloads

    def _ring(self, memory_type: int, *, is_up: bool) -> Callable[[int], NDArray[np.uint8]]:
        def make(nbytes: int) -> NDArray[np.uint8]:
            memory = Blocks(self.heaps, memory_type, nbytes, nbytes).obtain(nbytes)
            self._rings[is_up] = memory
            assert memory.view is not None  # memory of such a type can be reached
            return memory.view

        return make

    # ---- allocation

    @property
    def free_bytes(self) -> int:
        """Bytes that can still be allocated, as other processes left them when the driver was last asked for memory."""
        free = super().free_bytes
        if self._available is None or self._at_first is None:
            return free
        # What this process has already is there for its buffers, idle or not.
        left = self._available + self._blocks.nbytes
        is_noticed = self._at_first - left > self.capacity_bytes // _NOTICED_PART
        return max(0, min(free, left - self._used_bytes)) if is_noticed else free

    def allocate(self, nbytes: int) -> tuple[VulkanBuffer, Event]:
        self.work.check(f"an allocation of {nbytes} bytes")
        return super().allocate(nbytes)

    def obtain(self, nbytes: int) -> Memory:
        try:
            return self._blocks.obtain(nbytes)
        except Fault as fault:
            if fault.cause is Cause.LOST:
                raise self.work.failed(f"an allocation of {nbytes} bytes", fault, AllocationError) from fault
            raise self.refused(fault) from fault
        finally:
            self._available = self.heaps.available_bytes()

    def discard(self, memory: Memory, work: Tickets) -> None:
        for ticket in work:
            # Failed work is over as well, and whoever waits for it is told; a lost device does nothing any more.
            with suppress(BackendError):
                if self.work.lost is None and not ticket.is_done:
                    ticket.lane.flush(ticket.number)
            with suppress(DeviceLostError):
                ticket.lane.drain(ticket.number, f"freeing memory of {self.name}")
        self._blocks.discard(memory)

    def unfinished(self, work: Tickets) -> Tickets:
        return [ticket for ticket in work if not ticket.is_done]

    # ---- transfers

    def host_to_pool(self, source: memoryview, target: PoolBuffer, events: Sequence[Event] = ()) -> Event:
        tickets = self.take(events)
        memory = self.own(target, source.nbytes).memory
        if not source.nbytes:
            return self.event(tickets)
        what = f"an upload of {source.nbytes} bytes to {self.name}"
        self.work.check(what)
        data = np.frombuffer(source, np.uint8)
        view = memory.view
        if view is not None and (self.heaps.is_cached or data.nbytes <= _IN_PLACE_BYTES) and self._are_done(tickets):
            view[: data.nbytes] = data
            return CompletedEvent(self)
        lane, place = self._uploads, 0
        with self.work.lock:
            lane.wait_for(tickets, what)
            try:
                for start in range(0, data.nbytes, PIECE_BYTES):
                    part = data[start : start + PIECE_BYTES]
                    self._up.piece(part.nbytes)[:] = part
                    lane.copy(self._staged(self._up), _part(memory, start), part.nbytes)
                    place = lane.queued(what, TransferError)
                    self._up.sent(part.nbytes, place)
            except Fault as fault:
                raise self.work.failed(what, fault, TransferError) from fault
            lane.flush(kind=TransferError)
        return WorkEvent(self, (Ticket(lane, place),))

    def pool_to_host(
        self, source: PoolBuffer, target: memoryview, events: Sequence[Event] = (), offset: int = 0
    ) -> None:
        tickets = self.take(events)
        self.check_read(source, target, offset)
        memory = self.own(source).memory
        what = f"a download of {target.nbytes} bytes from {self.name}"
        if not target.nbytes or self.heaps.is_cached:
            finish_all(tickets, what)
            self.work.tell()
            if target.nbytes:
                self.work.check(what)
                view = memory.view
                assert view is not None  # as all memory of the type can be reached
                np.frombuffer(target, np.uint8)[:] = view[offset : offset + target.nbytes]
            return
        with self._downloading:
            try:
                with self.work.lock:
                    self._downloads.wait_for(tickets, what)
                self._download(_part(memory, offset), np.frombuffer(target, np.uint8), what)
            except Fault as fault:
                raise self.work.failed(what, fault, TransferError) from fault

    def _download(self, memory: _Part, data: NDArray[np.uint8], what: str) -> None:
        """Copy to the host: while the driver copies a piece, the one before it is put in its place."""
        lane = self._downloads
        before = None
        for start in range(0, data.nbytes, PIECE_BYTES):
            part = data[start : start + PIECE_BYTES]
            piece = self._down.piece(part.nbytes)
            with self.work.lock:
                lane.copy(_Part(memory.buffer, memory.offset + start), self._staged(self._down), part.nbytes)
                place = lane.queued(what, TransferError)
                lane.flush(kind=TransferError)
            self._down.sent(part.nbytes, place)
            if before is not None:
                lane.finish(before[0], what)
                before[1][:] = before[2]
            before = place, part, piece
        if before is not None:
            lane.finish(before[0], what)
            before[1][:] = before[2]

    def _staged(self, staging: Staging) -> _Part:
        """Return where the piece is that a ring handed out last."""
        return _part(self._rings[staging is self._up], staging.start)

    def _are_done(self, tickets: Tickets) -> bool:
        for ticket in tickets:
            if not ticket.is_done:
                ticket.lane.poll()
        return all(ticket.is_done and ticket.lane.failure_at(ticket.number) is None for ticket in tickets)

    # ---- events

    def sync_events(self, events: Sequence[Event]) -> None:
        finish_all(self.take(events), f"waiting for {self.name}")
        self.work.tell()

    def synchronize(self) -> None:
        if self._is_open:
            self.work.finish()

    def close(self) -> None:
        """Wait for all work, free everything, and close the device; one that is lost is not waited for."""
        if not self._is_open:
            return
        try:
            if self.work.lost is None:
                self.synchronize()
        except BackendError:
            if self.work.lost is None:
                raise
        finally:
            self._is_open = False
            self._idle.clear()
            self._up.close()
            self._down.close()
            self.session.close(is_lost=self.work.lost is not None)


class _Part:
    """A place in the driver's memory, as commands name it."""

    __slots__ = ("buffer", "offset")

    def __init__(self, buffer: object, offset: int) -> None:
        self.buffer = buffer
        self.offset = offset


def _part(memory: Memory, start: int) -> _Part:
    return _Part(memory.buffer, memory.offset + start)
