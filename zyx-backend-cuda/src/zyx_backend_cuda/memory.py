"""Memory of a device.

Buffers that are given back are kept and used again, in the order of the streams: a buffer may be handed out while work
on what was there before is still queued, and work on the same stream then waits for nothing. What is kept counts as
free, and goes back to the driver when there is no room, or by `trim`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final
from weakref import WeakSet

import numpy as np

from zyx.backend import Event, MemoryPool, PoolBuffer
from zyx.backend.idle_memory import IdleMemory, rounded
from zyx.errors import (
    AllocationError,
    BackendError,
    DeviceLostError,
    InvalidBufferError,
    InvalidEventError,
    TransferError,
)
from zyx_backend_cuda.errors import LOST, NO_MEMORY, Fault, code_name, failure
from zyx_backend_cuda.lanes import CompletedEvent, CudaEvent, Lane, finish_all
from zyx_backend_cuda.staging import PIECE_BYTES, Staging

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from zyx_backend_cuda.driver import Address, Session
    from zyx_backend_cuda.lanes import Tickets

    class HoldsMemory(Protocol):
        """Something that keeps memory of the driver, and can do without."""

        def let_go(self) -> None:
            """Drop it."""


#: The kind of CUDA devices in DLPack.
_DLPACK_CUDA: Final = 2


class CudaBuffer(PoolBuffer):
    """A piece of a device's memory.

    Attributes:
        address: Where it begins.
        capacity: Bytes there.
    """

    __slots__ = ("address", "capacity")

    def __init__(self, pool: MemoryPool, nbytes: int, address: Address, capacity: int) -> None:
        super().__init__(pool, nbytes)
        self.address = address
        self.capacity = capacity


class ForeignBuffer(CudaBuffer):
    """Memory of another library.

    Attributes:
        owner: What it belongs to; None once it was given back.
    """

    __slots__ = ("owner",)

    is_foreign: ClassVar[bool] = True

    def __init__(self, pool: MemoryPool, nbytes: int, address: Address, owner: object) -> None:
        super().__init__(pool, nbytes, address, nbytes)
        self.owner: object = owner


class CudaPool(MemoryPool):
    """The memory of one device, and the streams that work on it.

    Args:
        name: Such as ``cuda:0 memory``.
        session: The device, open. It is closed with the pool.
        ordinal: Its number among the devices of the driver.

    Attributes:
        dlpack_device: Kind and number of the device in DLPack.
        compute: The stream of launches.
        capture_stream: A stream that is always idle, to record graphs on.
        holders: Who else keeps memory of the driver.
    """

    takes_target_events: ClassVar[bool] = True

    def __init__(self, name: str, session: Session, ordinal: int = 0) -> None:
        super().__init__(name)
        self.dlpack_device = (_DLPACK_CUDA, ordinal)
        self.session: Final = session
        self.capacity_bytes: Final = session.total_bytes
        with session:
            self.compute: Final = Lane(session, name)
            self._uploads: Final = Lane(session, name)
            self._downloads: Final = Lane(session, name)
            self.capture_stream: Final = session.stream()
        self._lanes: Final = (self._uploads, self.compute, self._downloads)
        self._up: Final = Staging(session.pinned, self._uploads)
        self._down: Final = Staging(session.pinned, self._downloads)
        self.holders: Final[WeakSet[HoldsMemory]] = WeakSet()
        self._used_bytes = 0
        self._idle: IdleMemory[tuple[int, Address, Tickets]] = IdleMemory()
        self._owned: set[Address] = set()  # everything the driver gave, idle or not
        self._is_open = True
        self._peers: dict[Session, bool] = {}

    @property
    def free_bytes(self) -> int:
        """Bytes that can still be allocated, as if this process were the only one on the device."""
        return self.capacity_bytes - self._used_bytes

    @property
    def in_flight(self) -> int:
        """How many launches are not known to be done."""
        with self.session:
            return self.compute.pending

    # ---- allocation

    def allocate(self, nbytes: int) -> tuple[CudaBuffer, Event]:
        if nbytes <= 0:
            raise ValueError(f"pool {self.name} was asked for {nbytes} bytes; a buffer has at least one")
        if not self._is_open:
            raise AllocationError(f"pool {self.name} was asked for {nbytes} bytes after it was closed")
        capacity = rounded(nbytes)
        if capacity > self.free_bytes:
            capacity = nbytes
        if capacity > self.free_bytes:
            raise AllocationError(f"pool {self.name} has no room for {nbytes} bytes: {self._room()}")
        found = self._idle.take(capacity)
        tickets: Tickets = ()
        if found is None:
            address = self._fresh(nbytes, capacity)
        else:
            capacity, (_, address, after) = found
            tickets = tuple((lane, number) for lane, number in after if number > lane.done)
        self._used_bytes += capacity
        buffer = CudaBuffer(self, nbytes, address, capacity)
        return buffer, CudaEvent(self, tickets) if tickets else CompletedEvent(self)

    def deallocate(self, buffer: PoolBuffer, events: Sequence[Event] = ()) -> None:
        """Give `buffer` back; it is kept for a request that then waits for `events`."""
        tickets = self.take(events)
        self.check_buffer(buffer)
        assert isinstance(buffer, CudaBuffer)  # buffers of this pool are made by `allocate` alone
        buffer.freed = True
        if isinstance(buffer, ForeignBuffer):
            if tickets:
                with self.session:
                    finish_all(tickets, f"giving memory back that {self.name} shares")
            buffer.owner = None
            return
        self._used_bytes -= buffer.capacity
        if self._is_open:
            self._idle.put(buffer.capacity, (buffer.capacity, buffer.address, tickets))

    def trim(self) -> int:
        """Free idle memory, once nothing uses it any more; return how many bytes."""
        for holder in list(self.holders):
            holder.let_go()
        freed = 0
        what = f"freeing memory of {self.name}"
        try:
            with self.session:
                for capacity, address, tickets in self._idle.clear():
                    finish_all(tickets, what)
                    self.session.free(address)
                    self._owned.discard(address)
                    freed += capacity
        except Fault as error:
            raise failure(what, error, BackendError, self.compute.last) from error
        return freed

    def _fresh(self, nbytes: int, capacity: int) -> Address:
        """Return memory of the driver."""
        address = self._ask(nbytes, capacity)
        self._owned.add(address)
        return address

    def _ask(self, nbytes: int, capacity: int) -> Address:
        if capacity > self.free_bytes - self._idle.nbytes:
            self.trim()
        with self.session:
            try:
                return self.session.allocate(capacity)
            except Fault as error:
                if error.code not in LOST:
                    self.trim()
            try:
                return self.session.allocate(capacity)
            except Fault as error:
                if error.code in LOST:
                    raise DeviceLostError(f"pool {self.name}: the device is lost, {error}") from error
                why = "the driver has none" if error.code in NO_MEMORY else "the driver refused"
                raise AllocationError(
                    f"pool {self.name} has no room for {nbytes} bytes: {why}, {code_name(error.code)}; {self._room()}"
                ) from error

    def _room(self) -> str:
        return f"{self.free_bytes} of {self.capacity_bytes} bytes are free"

    # ---- with other libraries

    def address(self, buffer: PoolBuffer) -> int:
        self.check_buffer(buffer)
        assert isinstance(buffer, CudaBuffer)
        return buffer.address

    def selected(self) -> Session:
        """Return what makes the device current for all libraries of the process, in this thread."""
        return self.session

    def stream_number(self) -> int:
        with self.session:
            return self.session.stream_handle(self.compute.stream)

    def wrap(self, address: int, nbytes: int, owner: object) -> tuple[ForeignBuffer, Event]:
        with self.session:
            place = self.compute.queued(f"work of another library on memory that {self.name} shares")
        return ForeignBuffer(self, nbytes, address, owner), CudaEvent(self, ((self.compute, place),))

    # ---- transfers

    def host_to_pool(self, source: memoryview, target: PoolBuffer, events: Sequence[Event] = ()) -> Event:
        tickets = self.take(events)
        self.check_buffer(target, source.nbytes)
        assert isinstance(target, CudaBuffer)
        if not source.nbytes:
            return CudaEvent(self, tickets)
        data = np.frombuffer(source, np.uint8)
        lane, place = self._uploads, 0
        try:
            with self.session:
                lane.wait_for(tickets)
                for start in range(0, data.nbytes, PIECE_BYTES):
                    part = data[start : start + PIECE_BYTES]
                    piece = self._up.piece(part.nbytes)
                    piece[:] = part
                    self.session.upload(target.address + start, piece, lane.stream)
                    place = lane.queued("an upload")
                    self._up.sent(part.nbytes, place)
                lane.mark()
        except Fault as error:
            what = f"an upload of {source.nbytes} bytes to {self.name}"
            raise failure(what, error, TransferError, self.compute.last) from error
        return CudaEvent(self, ((lane, place),))

    def pool_to_host(
        self, source: PoolBuffer, target: memoryview, events: Sequence[Event] = (), offset: int = 0
    ) -> None:
        tickets = self.take(events)
        if offset < 0:
            raise InvalidBufferError(f"a read of pool {self.name} starts at byte {offset}")
        self.check_buffer(source, offset + target.nbytes)
        assert isinstance(source, CudaBuffer)
        if target.readonly:
            raise TransferError(f"a read of pool {self.name} has a target that is read-only")
        what = f"a download from {self.name}"
        with self.session:
            try:
                if not target.nbytes:
                    finish_all(tickets, what)
                    return
                self._downloads.wait_for(tickets)
                self._download(source.address + offset, np.frombuffer(target, np.uint8), what)
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
            other.check_buffer(source)
            self.check_buffer(target, source.nbytes)
            assert isinstance(source, CudaBuffer)
            assert isinstance(target, CudaBuffer)
            session, lane = self.session, self._uploads
            try:
                with session:
                    if other.session not in self._peers:
                        self._peers[other.session] = session.enable_peer(other.session)
                    lane.wait_for(tickets)
                    session.copy_from(other.session, target.address, source.address, source.nbytes, lane.stream)
                    place = lane.queued(f"a copy from {other.name}")
                    lane.mark()
            except Fault as error:
                raise failure(f"a copy from {other.name} to {self.name}", error, TransferError) from error
            return CudaEvent(self, ((lane, place),))
        array = getattr(source, "array", None)
        if array is not None:  # host memory
            other.sync_events(events)
            return self.host_to_pool(memoryview(array), target, target_events)
        return super().pool_to_pool(source, target, events, target_events)

    # ---- events

    def completed(self) -> Event:
        return CompletedEvent(self)

    def sync_events(self, events: Sequence[Event]) -> None:
        tickets = self.take(events)
        if any(number > lane.done for lane, number in tickets):
            with self.session:
                finish_all(tickets, f"waiting for {self.name}")

    def release_events(self, events: Sequence[Event]) -> None:
        self.take(events)

    def synchronize(self) -> None:
        if self._is_open:
            for lane in self._lanes:
                if lane.done != lane.issued:
                    with self.session:
                        lane.finish()

    def take(self, events: Sequence[Event]) -> Tickets:
        """Use `events` up, and return the places that they stand for.

        Raises:
            InvalidEventError: One is of another pool, or was used before.
        """
        tickets: list[tuple[Lane, int]] = []
        foreign: Event | None = None
        for event in events:
            event.take()
            if isinstance(event, CudaEvent) and event.owner is self:
                tickets += event.tickets
            else:
                foreign = event
        if foreign is not None:
            raise InvalidEventError(f"pool {self.name} was given an event of another pool: {type(foreign).__name__}")
        return tickets

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
