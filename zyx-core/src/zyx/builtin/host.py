"""Host memory: the pool of every CPU device.

Everything is complete when a call returns, so events carry nothing. Freed memory is kept and used again, see
`zyx.builtin.host_memory`; what is kept counts as free.

Handlers of signals may use the pool in the middle of one of its own methods, since Python runs them between any two
steps of the main thread. They get fresh memory then, and what they give back is put away later.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from zyx.backend.event import Event
from zyx.backend.pool import MemoryPool, PoolBuffer
from zyx.builtin.host_memory import ALIGNMENT, HostBlock, HostMemory, MemoryStatistics
from zyx.errors import (
    AllocationError,
    BackendError,
    InvalidEventError,
    locate,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["ALIGNMENT", "HostBuffer", "HostEvent", "HostPool", "physical_bytes"]

_CGROUP_LIMIT: Final = Path("/sys/fs/cgroup/memory.max")
_FALLBACK_BYTES: Final = 1 << 30

#: Part of the memory that may lie idle in the pool even if it was never in use at once.
_KEPT_PART: Final = 4


class HostEvent(Event):
    """Work on the host: complete when it was made."""

    __slots__ = ()

    def again(self) -> HostEvent:
        return HostEvent()


class HostBuffer(PoolBuffer):
    """A piece of host memory.

    Attributes:
        extent: Address, a multiple of `ALIGNMENT`, and size; zeros once the buffer is freed.
    """

    __slots__ = ("_block", "extent")

    def __init__(self, pool: MemoryPool, nbytes: int, block: HostBlock) -> None:
        self.pool = pool
        self.nbytes = nbytes
        self.freed = False
        self.extent = (block.address, nbytes)
        self._block = block

    @property
    def address(self) -> int:
        """Address of the first byte; 0 once the buffer is freed."""
        return self.extent[0]

    @property
    def array(self) -> NDArray[np.uint8]:
        """The bytes, writable; none once the buffer is freed."""
        return self._block.array[: self.extent[1]]

    @property
    def host_bytes(self) -> memoryview:
        return self.array.data

    def surrender(self) -> HostBlock:
        """Become a freed buffer, and return the memory that was this one's."""
        block, self._block = self._block, _NOTHING
        self.freed = True
        self.extent = (0, 0)
        return block


class ForeignHostBuffer(HostBuffer):
    """Memory of another library, at any address.

    Attributes:
        owner: What it belongs to; None once it was given back.
    """

    __slots__ = ("owner",)

    is_foreign: ClassVar[bool] = True

    def __init__(self, pool: MemoryPool, nbytes: int, address: int, owner: object) -> None:
        memory = (ctypes.c_uint8 * nbytes).from_address(address)
        super().__init__(pool, nbytes, HostBlock(np.frombuffer(memoryview(memory), np.uint8), None))
        self.owner: object = owner


class HostPool(MemoryPool):
    """The memory of this machine, as far as this process may use it. All methods may be called from any thread.

    Args:
        capacity_bytes: Most bytes that may be allocated together; by default what `physical_bytes` finds.
    """

    takes_target_events: ClassVar[bool] = True
    waits_apart: ClassVar[bool] = True

    def __init__(self, name: str = "host", capacity_bytes: int | None = None) -> None:
        super().__init__(name)
        self.capacity_bytes = physical_bytes() if capacity_bytes is None else capacity_bytes
        self._memory = HostMemory(self.capacity_bytes // _KEPT_PART)
        self._used_bytes = 0
        self._closed = False
        self._lock = RLock()
        self._is_at_work = False  # in the thread that has the lock
        self._late: list[HostBlock] = []

    @property
    def free_bytes(self) -> int:
        """Bytes that can still be allocated; memory that lies idle in the pool is among them."""
        return self.capacity_bytes - self._used_bytes

    @property
    def cached_bytes(self) -> int:
        return self.statistics.idle_bytes

    @property
    def statistics(self) -> MemoryStatistics:
        """What the allocator did and holds."""
        with self._lock:
            return self._memory.statistics

    def allocate(self, nbytes: int) -> tuple[HostBuffer, Event]:
        """Return a buffer of `nbytes` > 0 bytes with undefined contents, and an event that is complete."""
        with self._lock:
            if not 0 < nbytes <= self.capacity_bytes - self._used_bytes or self._closed:
                self._refuse(nbytes)
            if self._is_at_work:
                block = self._take_in_between(nbytes)
            else:
                self._is_at_work = True
                try:
                    block = self._memory.take(nbytes)
                except MemoryError:
                    block = self._take_after_trimming(nbytes)
                finally:
                    self._is_at_work = False
            self._used_bytes += nbytes
        return HostBuffer(self, nbytes, block), HostEvent()

    def deallocate(self, buffer: PoolBuffer, events: Sequence[Event] = ()) -> None:
        """Give `buffer` back; it is kept for another request."""
        if events:
            self._take(events)
        with self._lock:
            if buffer.freed or type(buffer) is not HostBuffer or buffer.pool is not self:
                buffer = self.own(buffer)
                if isinstance(buffer, ForeignHostBuffer):
                    buffer.surrender()
                    buffer.owner = None
                    return
            self._used_bytes -= buffer.nbytes
            block = buffer.surrender()
            if self._is_at_work:
                self._late.append(block)
                return
            self._is_at_work = True
            try:
                self._memory.give_back(block)
                while self._late:
                    self._memory.give_back(self._late.pop())
            finally:
                self._is_at_work = False

    def wrap_host(self, address: int, nbytes: int, owner: object) -> tuple[ForeignHostBuffer, Event]:
        """See `zyx.backend.sharing.SupportsHostArrays`. It takes none of the pool's room."""
        return ForeignHostBuffer(self, nbytes, address, owner), HostEvent()

    def trim(self) -> int:
        """Give idle memory back to the system; return how many bytes."""
        with self._lock:
            if self._is_at_work:
                return 0
            self._is_at_work = True
            try:
                return self._memory.trim()
            finally:
                self._is_at_work = False

    def _refuse(self, nbytes: int) -> None:
        if nbytes <= 0:
            raise ValueError(f"pool {self.name} was asked for {nbytes} bytes; a buffer has at least one")
        if self._closed:
            raise AllocationError(f"pool {self.name} was asked for {nbytes} bytes after it was closed")
        raise AllocationError(f"pool {self.name} has no room for {nbytes} bytes: {self._room()}")

    def _take_in_between(self, nbytes: int) -> HostBlock:
        try:
            return self._memory.take_fresh(nbytes)
        except MemoryError as error:
            raise self._no_memory(nbytes) from error

    def _take_after_trimming(self, nbytes: int) -> HostBlock:
        self._memory.trim()
        try:
            return self._memory.take(nbytes)
        except MemoryError as error:
            raise self._no_memory(nbytes) from error

    def _no_memory(self, nbytes: int) -> AllocationError:
        return AllocationError(
            f"pool {self.name} got no memory for {nbytes} bytes from the system, with {self._room()}"
        )

    def host_to_pool(self, source: memoryview, target: PoolBuffer, events: Sequence[Event] = ()) -> Event:
        self._take(events)
        host = self.own(target, source.nbytes)
        if source.nbytes:
            host.array[: source.nbytes] = np.frombuffer(source, np.uint8)
        return self.completed()

    def pool_to_host(
        self, source: PoolBuffer, target: memoryview, events: Sequence[Event] = (), offset: int = 0
    ) -> None:
        self._take(events)
        self.check_read(source, target, offset)
        host = self.own(source)
        if target.nbytes:
            np.frombuffer(target, np.uint8)[:] = host.array[offset : offset + target.nbytes]

    def pool_to_pool(
        self,
        source: PoolBuffer,
        target: PoolBuffer,
        events: Sequence[Event] = (),
        target_events: Sequence[Event] = (),
    ) -> Event:
        """Copy all of `source`, of another pool, to the start of `target`, with no copy on the way."""
        self._take(target_events)
        host = self.own(target, source.nbytes)
        try:
            source.pool.pool_to_host(source, host.array[: source.nbytes].data, events)
        except BackendError as error:
            locate(error, source.pool.name)
            raise
        return self.completed()

    def completed(self) -> Event:
        return HostEvent()

    def sync_events(self, events: Sequence[Event]) -> None:
        self._take(events)

    def release_events(self, events: Sequence[Event]) -> None:
        self._take(events)

    def close(self) -> None:
        """Refuse further allocations and give idle memory back; buffers that are alive stay readable."""
        with self._lock:
            self._closed = True
            self.trim()

    def own(self, buffer: PoolBuffer, nbytes: int = 0) -> HostBuffer:
        """Return `buffer`, checked: alive, of this pool, and of at least `nbytes` bytes.

        Raises:
            InvalidBufferError: It is not.
        """
        self.check_buffer(buffer, nbytes)
        assert isinstance(buffer, HostBuffer)  # buffers of this pool are made by it alone
        return buffer

    def _take(self, events: Sequence[Event]) -> None:
        for event in events:
            event.take()
        for event in events:
            if not isinstance(event, HostEvent):
                raise InvalidEventError(f"pool {self.name} was given an event of another pool: {type(event).__name__}")

    def _room(self) -> str:
        return f"{self.free_bytes} of {self.capacity_bytes} bytes are free"


def physical_bytes() -> int:
    """Return how much memory this process may use: that of the machine, or the limit of its control group.

    1 GiB where the system does not say.
    """
    total = _machine_bytes()
    try:
        limit = _CGROUP_LIMIT.read_text(encoding="ascii").strip()
    except OSError:  # not Linux, or no control groups of version 2
        return total
    return min(total, int(limit)) if limit.isdecimal() else total


def _machine_bytes() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf; others may lack the names
        return _FALLBACK_BYTES


_NOTHING: Final = HostBlock(np.empty(0, np.uint8), None)
