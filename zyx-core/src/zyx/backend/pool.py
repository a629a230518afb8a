"""Memory that devices work on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from zyx.errors import BackendError, InvalidBufferError, TransferError, locate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend.event import Event


class PoolBuffer:
    """A piece of a pool's memory. Backends subclass it with what their driver needs.

    Attributes:
        pool: The pool it was allocated from.
        nbytes: Size in bytes.
        freed: Whether it was given back.

    >>> from zyx.builtin.host import HostPool
    >>> buffer, ready = HostPool("toy memory", capacity_bytes=64).allocate(16)
    >>> isinstance(buffer, zyx.backend.PoolBuffer), buffer.nbytes
    (True, 16)
    """

    __slots__ = ("freed", "nbytes", "pool")

    #: Whether the memory is another library's: see `zyx.backend.sharing`.
    is_foreign: ClassVar[bool] = False

    def __init__(self, pool: MemoryPool, nbytes: int) -> None:
        self.pool = pool
        self.nbytes = nbytes
        self.freed = False

    @property
    def host_bytes(self) -> memoryview | None:
        """The bytes themselves, if they lie in host memory, to be read when the work on them is done; else None."""
        return None


class MemoryPool(ABC):
    """One memory: the host's, a device's, a file's.

    Transfers are ordered by events alone: an operation starts when the events it is given are complete, and returns,
    often before the work is done, an event of its own. Events that are passed in are used up, also when the call
    raises; if one is of another pool, which nobody here can wait for, the call raises `InvalidEventError`. The host
    memory of an upload must stay as it is until the upload's event is complete, and the pool keeps it alive until then;
    a buffer must not be deallocated except with the events of all work that uses it. Any method may raise
    `BackendError`; after it the pool is as before the call.
    """

    #: Whether tensors can be put here; a pool of files cannot be allocated from.
    is_allocatable: ClassVar[bool] = True
    #: Whether `pool_to_pool` takes events of its own pool, those of its target; where it does not, the runtime waits.
    takes_target_events: ClassVar[bool] = False
    #: Whether one thread may be in `sync_events`, `pool_to_host` or `synchronize` while others call whatever they like
    #: of the pool and its devices. Where it may not, nobody computes on any device while somebody waits for this one.
    waits_apart: ClassVar[bool] = False

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    @abstractmethod
    def free_bytes(self) -> int:
        """Bytes that can still be allocated: falls with every allocation, rises with every deallocation."""

    @property
    def cached_bytes(self) -> int:
        """Bytes that the pool keeps for buffers to come; `trim` gives them back."""
        return 0

    @abstractmethod
    def allocate(self, nbytes: int) -> tuple[PoolBuffer, Event]:
        """Return a buffer of `nbytes` > 0 bytes with undefined contents, and the event after which it may be used.

        Raises:
            AllocationError: No room; the text has the pool, `nbytes` and `free_bytes`. Nothing was allocated.
        """

    @abstractmethod
    def deallocate(self, buffer: PoolBuffer, events: Sequence[Event] = ()) -> None:
        """Give `buffer` back once `events` are complete; may return before.

        Raises:
            InvalidBufferError: Not of this pool, or given back before.
        """

    @abstractmethod
    def host_to_pool(self, source: memoryview, target: PoolBuffer, events: Sequence[Event] = ()) -> Event:
        """Copy the bytes of `source` to the start of `target`. `source` must stay unchanged until the event.

        Raises:
            InvalidBufferError: `target` is not of this pool, freed, or smaller than `source`.
        """

    @abstractmethod
    def pool_to_host(
        self, source: PoolBuffer, target: memoryview, events: Sequence[Event] = (), offset: int = 0
    ) -> None:
        """Fill the writable `target` with the bytes of `source` from `offset` on, and return when they are there.

        Errors of the work waited for surface here.

        Raises:
            InvalidBufferError: `source` is not of this pool, freed, or ends before ``offset + len(target)``.
        """

    def pool_to_pool(
        self,
        source: PoolBuffer,
        target: PoolBuffer,
        events: Sequence[Event] = (),
        target_events: Sequence[Event] = (),
    ) -> Event:
        """Copy all of `source`, of another pool, to the start of `target`, of this one, once all events are complete.

        `events` are of the pool of `source`, `target_events` of this one: the work on `target`. A pool is given the
        latter only if it says `takes_target_events`; otherwise all work on `target` is done. The event returned is of
        this pool.

        The default uploads what lies in host memory; of other pools it makes a copy there first, and blocks. A pool
        with another direct path overrides it.
        """
        data = source.host_bytes
        if data is not None:
            return self._upload(data, source, target, events, target_events)
        staging = bytearray(source.nbytes)
        try:
            source.pool.pool_to_host(source, memoryview(staging), events)
        except BackendError as error:
            locate(error, source.pool.name)
            self.release_events(target_events)
            raise
        event = self.host_to_pool(memoryview(staging), target, target_events)
        self.sync_events([event])
        return self.completed()

    def _upload(
        self,
        data: memoryview,
        source: PoolBuffer,
        target: PoolBuffer,
        events: Sequence[Event],
        target_events: Sequence[Event],
    ) -> Event:
        try:
            source.pool.sync_events(events)
            source.pool.check_buffer(source)
        except BackendError as error:
            locate(error, source.pool.name)
            self.release_events(target_events)
            raise
        return self.host_to_pool(data, target, target_events)

    @abstractmethod
    def completed(self) -> Event:
        """Return an event of this pool that is complete already."""

    @abstractmethod
    def sync_events(self, events: Sequence[Event]) -> None:
        """Wait for `events`, and use them up. Errors of the work waited for surface here."""

    @abstractmethod
    def release_events(self, events: Sequence[Event]) -> None:
        """Use `events` up without waiting."""

    def synchronize(self) -> None:  # noqa: B027  # pools whose work is done when a call returns have nothing to wait for
        """Wait for all work that was queued on buffers of the pool."""

    def trim(self) -> int:
        """Give memory that is kept for re-use back to the system; return how many bytes."""
        return 0

    @abstractmethod
    def close(self) -> None:
        """Wait for all work and free everything. A second call does nothing."""

    def check_buffer(self, buffer: PoolBuffer, nbytes: int = 0) -> None:
        """Raise `InvalidBufferError` unless `buffer` is alive, of this pool, and has `nbytes` bytes."""
        if buffer.pool is not self:
            raise InvalidBufferError(f"a buffer of pool {buffer.pool.name} was given to pool {self.name}")
        if buffer.freed:
            raise InvalidBufferError(
                f"a buffer of {buffer.nbytes} bytes of pool {self.name} was used after it was freed"
            )
        if nbytes > buffer.nbytes:
            raise InvalidBufferError(
                f"{nbytes} bytes reach past the end of a buffer of {buffer.nbytes} bytes in pool {self.name}"
            )

    def check_read(self, source: PoolBuffer, target: memoryview, offset: int) -> None:
        """Check what `pool_to_host` is given.

        Raises:
            InvalidBufferError: `source` is not alive or not of this pool, or the range is not in it.
            TransferError: `target` is read-only.
        """
        if offset < 0:
            raise InvalidBufferError(f"a read of pool {self.name} starts at byte {offset}")
        self.check_buffer(source, offset + target.nbytes)
        if target.readonly:
            raise TransferError(f"a read of pool {self.name} has a target that is read-only")
