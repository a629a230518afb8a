"""A pool that keeps what is given back, for drivers that take long to make memory.

Memory is used again behind the work on it: the next buffer there gets an event of that work, and nobody waits. What is
kept counts as free, and goes back to the driver when there is no room, or by `trim`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Final, Generic, Protocol, TypeVar
from weakref import WeakSet

from zyx.backend.pool import MemoryPool, PoolBuffer
from zyx.drivers.faults import Cause
from zyx.drivers.idle_memory import IdleMemory, rounded
from zyx.drivers.work_event import CompletedEvent, WorkEvent
from zyx.errors import AllocationError, DeviceLostError, InvalidBufferError, InvalidEventError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend.event import Event
    from zyx.drivers.faults import Fault
    from zyx.errors import BackendError

MemoryT = TypeVar("MemoryT")
WorkT = TypeVar("WorkT")


class HoldsMemory(Protocol):
    """Something that names memory of the driver, also idle memory, and can do without: recorded launches, for one."""

    def let_go(self) -> None:
        """Drop it."""


class CachedBuffer(PoolBuffer, Generic[MemoryT]):
    """A piece of a `CachingPool`.

    Attributes:
        memory: What the driver knows it by; None once the buffer is freed.
        capacity: Bytes there.
    """

    __slots__ = ("capacity", "memory")

    memory: MemoryT

    def __init__(self, pool: MemoryPool, nbytes: int, memory: MemoryT, capacity: int) -> None:
        super().__init__(pool, nbytes)
        self.memory = memory
        self.capacity = capacity


class CachingPool(MemoryPool, Generic[MemoryT, WorkT]):
    """The memory of one device. Backends add what their driver does: `obtain`, `discard`, transfers and waiting.

    Args:
        name: Such as ``acme:0 memory``.
        capacity_bytes: Size of the memory.
        max_buffer_bytes: Size of the largest buffer; None if a buffer may have all of the memory.

    Attributes:
        holders: Who else keeps memory of the driver, weakly; they are asked to let go before memory goes back.
    """

    takes_target_events: ClassVar[bool] = True
    #: The driver's memory is a multiple of so many bytes.
    grain_bytes: ClassVar[int] = 1

    def __init__(self, name: str, capacity_bytes: int, max_buffer_bytes: int | None = None) -> None:
        super().__init__(name)
        self.capacity_bytes: Final = capacity_bytes
        self.max_buffer_bytes: Final = capacity_bytes if max_buffer_bytes is None else max_buffer_bytes
        self.holders: Final[WeakSet[HoldsMemory]] = WeakSet()
        self._used_bytes = 0
        self._idle: Final[IdleMemory[tuple[MemoryT, Sequence[WorkT]]]] = IdleMemory()
        self._is_open = True

    # ---- what the driver does

    @abstractmethod
    def obtain(self, nbytes: int) -> MemoryT:
        """Return memory of the driver, `nbytes` of it.

        Raises:
            AllocationError: There is none; the text says why, as in ``the driver refused``. Then everything idle goes
                back to the driver, and this is called once more.
            BackendError: For another reason, which is the caller's error.
        """

    def refusal(self, code: str, *, is_lost: bool, is_full: bool) -> BackendError:
        """Return what `obtain` is to raise where the driver answers with an error.

        Args:
            code: The error, as the driver calls it.
            is_lost: Whether it says that the device is lost.
            is_full: Whether it says that there is no memory.
        """
        if is_lost:
            return DeviceLostError(f"pool {self.name}: the device is lost, {code}")
        return AllocationError(f"{'the driver has none' if is_full else 'the driver refused'}, {code}")

    def refused(self, fault: Fault) -> BackendError:
        """Return what `obtain` is to raise for a fault; see `refusal`."""
        return self.refusal(str(fault), is_lost=fault.cause is Cause.LOST, is_full=fault.cause is Cause.MEMORY)

    @abstractmethod
    def discard(self, memory: MemoryT, work: Sequence[WorkT]) -> None:
        """Give memory back to the driver, once `work` is over. The pool holds no reference to it any more."""

    def unfinished(self, work: Sequence[WorkT]) -> Sequence[WorkT]:
        """Return what of `work` may still be running. Failed work is over as well, and must not fail what is next."""
        return work

    def make_buffer(self, nbytes: int, memory: MemoryT, capacity: int) -> CachedBuffer[MemoryT]:
        """Return a buffer of `nbytes` on memory of `capacity` bytes."""
        return CachedBuffer(self, nbytes, memory, capacity)

    # ---- allocation

    @property
    def free_bytes(self) -> int:
        """Bytes that can still be allocated, as far as other processes leave them."""
        return self.capacity_bytes - self._used_bytes

    @property
    def cached_bytes(self) -> int:
        return self._idle.nbytes

    def allocate(self, nbytes: int) -> tuple[CachedBuffer[MemoryT], Event]:
        if nbytes <= 0:
            raise ValueError(f"pool {self.name} was asked for {nbytes} bytes; a buffer has at least one")
        if not self._is_open:
            raise AllocationError(f"pool {self.name} was asked for {nbytes} bytes after it was closed")
        if nbytes > self.max_buffer_bytes and nbytes <= self.capacity_bytes:
            raise self._no_room(nbytes, f"a buffer has at most {self.max_buffer_bytes}, ")
        capacity = rounded(nbytes)
        if capacity > min(self.free_bytes, self.max_buffer_bytes):
            capacity = -(-nbytes // self.grain_bytes) * self.grain_bytes
        if capacity > self.free_bytes:
            raise self._no_room(nbytes)
        work: Sequence[WorkT] = ()
        found = self._idle.take(capacity)
        if found is None:
            memory = self._fresh(nbytes, capacity)
        else:
            capacity, (memory, work) = found
            if work:
                work = self.unfinished(work)
        self._used_bytes += capacity
        return self.make_buffer(nbytes, memory, capacity), self.event(work)

    def deallocate(self, buffer: PoolBuffer, events: Sequence[Event] = ()) -> None:
        """Give `buffer` back; it is kept for a request that then waits for `events`."""
        work = self.take(events)
        own = self.own(buffer)
        memory, own.memory, own.freed = own.memory, None, True  # type: ignore[assignment]
        self._used_bytes -= own.capacity
        if self._is_open:
            self._idle.put(own.capacity, (memory, work))

    def trim(self) -> int:
        """Give idle memory back to the driver; return how many bytes."""
        for holder in list(self.holders):
            holder.let_go()
        freed = self._idle.nbytes
        for memory, work in self._idle.clear():
            self.discard(memory, work)
        return freed

    def _fresh(self, nbytes: int, capacity: int) -> MemoryT:
        if capacity > self.free_bytes - self._idle.nbytes:
            self.trim()
        try:
            return self.obtain(capacity)
        except AllocationError:
            self.trim()
            self.settle()
        try:
            return self.obtain(capacity)
        except AllocationError as error:
            raise self._no_room(nbytes, f"{error}; ") from error.__cause__

    def settle(self) -> None:  # most drivers free at once what they are given back
        """Wait until memory that was discarded is really free, where the driver takes its time."""

    def _no_room(self, nbytes: int, why: str = "") -> AllocationError:
        room = f"{self.free_bytes} of {self.capacity_bytes} bytes are free"
        return AllocationError(f"pool {self.name} has no room for {nbytes} bytes: {why}{room}")

    # ---- buffers and events of this pool

    def own(self, buffer: PoolBuffer, nbytes: int = 0) -> CachedBuffer[MemoryT]:
        """Return a buffer, checked to be alive, of this pool, and of `nbytes` bytes at least.

        Raises:
            InvalidBufferError: It is not.
        """
        self.check_buffer(buffer, nbytes)
        if not isinstance(buffer, CachedBuffer):
            raise InvalidBufferError(f"a {type(buffer).__name__} of pool {self.name} was not allocated from it")
        return buffer

    def event(self, work: Sequence[WorkT]) -> Event:
        """Return an event for some work, or for none."""
        return WorkEvent(self, work) if work else CompletedEvent(self)

    def completed(self) -> Event:
        return CompletedEvent(self)

    def take(self, events: Sequence[Event]) -> Sequence[WorkT]:
        """Use `events` up, and return the work that they stand for.

        Raises:
            InvalidEventError: One is of another pool, or was used before.
        """
        work: list[WorkT] = []
        foreign: Event | None = None
        for event in events:
            event.take()
            if isinstance(event, WorkEvent) and event.owner is self:
                work += event.work
            else:
                foreign = event
        if foreign is not None:
            raise InvalidEventError(f"pool {self.name} was given an event of another pool: {type(foreign).__name__}")
        return work

    def release_events(self, events: Sequence[Event]) -> None:
        self.take(events)
