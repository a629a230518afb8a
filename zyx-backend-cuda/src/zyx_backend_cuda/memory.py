"""Memory of a device.

Buffers that are given back are kept and used again, in the order of the streams: a buffer may be handed out while work
on what was there before is still queued, and work on the same stream then waits for nothing.
"""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias

import numpy as np

from zyx.drivers.caching_pool import CachedBuffer, CachingPool
from zyx.drivers.faults import Fault
from zyx.drivers.staging import PIECE_BYTES, Staging
from zyx.drivers.work_event import WorkEvent
from zyx.errors import BackendError, TransferError
from zyx_backend_cuda.driver import Address
from zyx_backend_cuda.errors import failure
from zyx_backend_cuda.lanes import Lane, Ticket, finish_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend import Event, MemoryPool, PoolBuffer
    from zyx.drivers.watching import Watcher
    from zyx_backend_cuda.driver import Session
    from zyx_backend_cuda.lanes import Tickets

#: The kind of CUDA devices in DLPack.
_DLPACK_CUDA: Final = 2


CudaBuffer: TypeAlias = CachedBuffer[Address]


class ForeignBuffer(CachedBuffer[Address]):
    """Memory of another library.

    Attributes:
        owner: What it belongs to; None once it was given back.
    """

    __slots__ = ("owner",)

    is_foreign: ClassVar[bool] = True

    def __init__(self, pool: MemoryPool, nbytes: int, address: Address, owner: object) -> None:
        super().__init__(pool, nbytes, address, nbytes)
        self.owner: object = owner


class CudaPool(CachingPool[Address, Ticket]):
    """The memory of one device, and the streams that work on it. What the driver knows a piece by is its address.

    Args:
        name: Such as ``cuda:0 memory``.
        session: The device, open. It is closed with the pool.
        ordinal: Its number among the devices of the driver.

    Attributes:
        dlpack_device: Kind and number of the device in DLPack.
        compute: The stream of launches.
        capture_stream: A stream that is always idle, to record graphs on.
        watchers: Who looks after work that may never be done, while it is waited for.
    """

    waits_apart: ClassVar[bool] = True

    def __init__(self, name: str, session: Session, ordinal: int = 0) -> None:
        super().__init__(name, session.total_bytes)
        self.dlpack_device = (_DLPACK_CUDA, ordinal)
        self.session: Final = session
        self.watchers: Final[list[Watcher]] = []
        with session:
            self.compute: Final = Lane(session, name, self, self.watchers)
            self._uploads: Final = Lane(session, name, self, self.watchers)
            self._downloads: Final = Lane(session, name, self, self.watchers)
            self.capture_stream: Final = session.stream()
        self._lanes: Final = (self._uploads, self.compute, self._downloads)
        self._up: Final = Staging(session.pinned, self._uploads)
        self._down: Final = Staging(session.pinned, self._downloads)
        self._downloading: Final = RLock()  # has the lane and the staging memory of downloads
        self._owned: set[Address] = set()  # everything the driver gave, idle or not
        self._peers: dict[Session, bool] = {}

    @property
    def in_flight(self) -> int:
        """How many launches are not known to be done."""
        with self.session:
            return self.compute.pending

    # ---- allocation

    def deallocate(self, buffer: PoolBuffer, events: Sequence[Event] = ()) -> None:
        """Give `buffer` back; it is kept for a request that then waits for `events`. What is shared is waited for."""
        if not isinstance(buffer, ForeignBuffer):
            super().deallocate(buffer, events)
            return
        tickets = self.take(events)
        self.check_buffer(buffer)
        buffer.freed = True
        if tickets:
            with self.session:
                finish_all(tickets, f"giving memory back that {self.name} shares")
        buffer.owner = None

    def trim(self) -> int:
        """Free idle memory, once nothing uses it any more; return how many bytes."""
        try:
            with self.session:
                return super().trim()
        except Fault as error:
            raise failure(f"freeing memory of {self.name}", error, BackendError, self.compute.last) from error

    def obtain(self, nbytes: int) -> Address:
        try:
            with self.session:
                address = self.session.allocate(nbytes)
        except Fault as error:
            raise self.refused(error) from error
        self._owned.add(address)
        return address

    def discard(self, memory: Address, work: Tickets) -> None:
        finish_all(work, f"freeing memory of {self.name}")
        self.session.free(memory)
        self._owned.discard(memory)

    def unfinished(self, work: Tickets) -> Tickets:
        return [ticket for ticket in work if not ticket.is_done]

    # ---- with other libraries

    def address(self, buffer: PoolBuffer) -> int:
        return self.own(buffer).memory

    def selected(self) -> Session:
        """Return what makes the device current for all libraries of the process, in this thread."""
        return self.session

    def stream_number(self) -> int:
        with self.session:
            return self.session.stream_handle(self.compute.stream)

    def wrap(self, address: int, nbytes: int, owner: object) -> tuple[ForeignBuffer, Event]:
        with self.session:
            place = self.compute.queued(f"work of another library on memory that {self.name} shares")
        return ForeignBuffer(self, nbytes, address, owner), WorkEvent(self, (Ticket(self.compute, place),))

    # ---- transfers

    def host_to_pool(self, source: memoryview, target: PoolBuffer, events: Sequence[Event] = ()) -> Event:
        tickets = self.take(events)
        address = self.own(target, source.nbytes).memory
        if not source.nbytes:
            return self.event(tickets)
        data = np.frombuffer(source, np.uint8)
        lane, place = self._uploads, 0
        try:
            with self.session:
                lane.wait_for(tickets)
                for start in range(0, data.nbytes, PIECE_BYTES):
                    part = data[start : start + PIECE_BYTES]
                    piece = self._up.piece(part.nbytes)
                    piece[:] = part
                    self.session.upload(address + start, piece, lane.stream)
                    place = lane.queued("an upload")
                    self._up.sent(part.nbytes, place)
                lane.mark()
        except Fault as error:
            what = f"an upload of {source.nbytes} bytes to {self.name}"
            raise failure(what, error, TransferError, self.compute.last) from error
        return WorkEvent(self, (Ticket(lane, place),))

    def pool_to_host(
        self, source: PoolBuffer, target: memoryview, events: Sequence[Event] = (), offset: int = 0
    ) -> None:
        tickets = self.take(events)
        self.check_read(source, target, offset)
        address = self.own(source).memory + offset
        what = f"a download from {self.name}"
        with self._downloading, self.session:
            try:
                if not target.nbytes:
                    finish_all(tickets, what)
                    return
                self._downloads.wait_for(tickets)
                self._download(address, np.frombuffer(target, np.uint8), what)
            except Fault as error:
                raise failure(what, error, TransferError, self.compute.last) from error

    def _download(self, address: Address, data: np.ndarray[tuple[int], np.dtype[np.uint8]], what: str) -> None:
        """Copy to the host: while the driver copies a piece, the one before it is put in its place."""
        lane = self._downloads
        before = None
        for start in range(0, data.nbytes, PIECE_BYTES):
            part = data[start : start + PIECE_BYTES]
            piece = self._down.piece(part.nbytes)
            self.session.download(piece, address + start, lane.stream)
            place = lane.queued(what)
            lane.mark()
            self._down.sent(part.nbytes, place)
            if before is not None:
                lane.finish(before[0], what)
                before[1][:] = before[2]
            before = place, part, piece
        if before is not None:
            lane.finish(before[0], what)
            before[1][:] = before[2]

    def pool_to_pool(
        self,
        source: PoolBuffer,
        target: PoolBuffer,
        events: Sequence[Event] = (),
        target_events: Sequence[Event] = (),
    ) -> Event:
        """Copy all of `source`, of another pool, to the start of `target`: between devices without the host."""
        other = source.pool
        if isinstance(other, CudaPool) and other is not self:
            tickets = [*other.take(events), *self.take(target_events)]
            there, here = other.own(source).memory, self.own(target, source.nbytes).memory
            session, lane = self.session, self._uploads
            try:
                with session:
                    if other.session not in self._peers:
                        self._peers[other.session] = session.enable_peer(other.session)
                    lane.wait_for(tickets)
                    session.copy_from(other.session, here, there, source.nbytes, lane.stream)
                    place = lane.queued(f"a copy from {other.name}")
                    lane.mark()
            except Fault as error:
                raise failure(f"a copy from {other.name} to {self.name}", error, TransferError) from error
            return WorkEvent(self, (Ticket(lane, place),))
        return super().pool_to_pool(source, target, events, target_events)

    # ---- events

    def sync_events(self, events: Sequence[Event]) -> None:
        tickets = self.take(events)
        if self.watchers or not all(ticket.is_done for ticket in tickets):
            with self.session:
                finish_all(tickets, f"waiting for {self.name}")

    def synchronize(self) -> None:
        if self._is_open:
            for lane in self._lanes:
                if lane.done != lane.issued:
                    with self.session:
                        lane.finish()

    def close(self) -> None:
        """Wait for all work, free everything, and give the device back."""
        if not self._is_open:
            return
        try:
            self.synchronize()
            self.trim()
            with self.session:  # the context may outlive the pool, and so would memory that is still in use
                for address in self._owned:
                    self.session.free(address)
        except Fault as error:
            raise failure(f"closing {self.name}", error, BackendError, self.compute.last) from error
        finally:
            self._is_open = False
            self._owned.clear()
            self._up.close()
            self._down.close()
            self.session.close()
