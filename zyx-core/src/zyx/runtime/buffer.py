"""Memory with the work that is still to be done on it."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from zyx.errors import AllocationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from zyx.backend import Event, MemoryPool, PoolBuffer


class Pending:
    """Work that was queued on a set of buffers: the event of its end, owned here until somebody waits for it.

    Work that waits for this one takes the event along and becomes its `successor`: to wait for that is enough from
    then on.

    Attributes:
        event: None once it was given away.
        pool: The pool that can wait for it.
        kept: What must stay alive until the work is done.
    """

    __slots__ = ("event", "kept", "pool", "successor")

    def __init__(self, event: Event, pool: MemoryPool, kept: object = None) -> None:
        self.event: Event | None = event
        self.pool = pool
        self.kept = kept
        self.successor: Pending | None = None

    def last(self) -> Pending:
        """Return the latest work that includes this one."""
        current = self
        while current.successor is not None:
            current = current.successor
        return current

    def wait(self) -> None:
        """Return when the work is done. Errors of the work surface here."""
        last = self.last()
        event, last.event = last.event, None
        if event is not None:
            last.pool.sync_events([event])
        last.kept = None


class Buffer:
    """A piece of a pool's memory that frees itself: the storage of a node.

    A buffer of 0 bytes has no memory.

    Attributes:
        pool: Where it lies.
        raw: The pool's handle; None if `nbytes` is 0.
        nbytes: Size.
        pending: Work queued on it; None if there is none.
    """

    __slots__ = ("__weakref__", "_retired", "nbytes", "pending", "pool", "raw")

    def __init__(self, pool: MemoryPool, raw: PoolBuffer | None, nbytes: int, retired: Retired) -> None:
        self.pool: Final = pool
        self.raw: Final = raw
        self.nbytes: Final = nbytes
        self.pending: Pending | None = None
        self._retired = retired

    def __del__(self) -> None:
        # Only noted here: a finaliser may run anywhere, also while a pool or the runtime is at work.
        if self.raw is not None:
            self._retired.append((self.pool, self.raw, self.pending))


Retired = deque["tuple[MemoryPool, PoolBuffer, Pending | None]"]


class Memory:
    """Allocates buffers, and gives them back after their last use.

    Attributes:
        live_bytes: Bytes in buffers now.
        peak_bytes: The most there were since `reset_peak`.
    """

    def __init__(self) -> None:
        self.live_bytes = 0
        self.peak_bytes = 0
        self._retired: Retired = deque()
        #: What else can free memory when there is none: caches of plans, most dispensable first.
        self.droppers: list[Callable[[], None]] = []

    def reset_peak(self) -> None:
        """Count the peak from now on."""
        self.peak_bytes = self.live_bytes

    def allocate(self, pool: MemoryPool, nbytes: int) -> Buffer:
        """Return a buffer with undefined contents.

        Raises:
            AllocationError: No room, also after everything that can be dropped was dropped.
        """
        retired = self._retired
        if nbytes == 0:
            return Buffer(pool, None, 0, retired)
        while retired:
            dead = retired.popleft()
            if dead[0] is pool and dead[1].nbytes == nbytes:  # as in a loop: no need to ask the pool, or to wait
                buffer = Buffer(pool, dead[1], nbytes, retired)
                buffer.pending = dead[2]
                return buffer
            self._give_back(*dead)
        try:
            raw, event = pool.allocate(nbytes)
        except AllocationError:
            self._make_room(pool)
            raw, event = pool.allocate(nbytes)
        self.live_bytes += nbytes
        if self.live_bytes > self.peak_bytes:
            self.peak_bytes = self.live_bytes
        buffer = Buffer(pool, raw, nbytes, self._retired)
        if event.complete_when_made:
            event.take()
        else:
            buffer.pending = Pending(event, pool)
        return buffer

    def reclaim(self) -> None:
        """Give the buffers that died back to their pools."""
        retired = self._retired
        while retired:
            self._give_back(*retired.popleft())

    def _give_back(self, pool: MemoryPool, raw: PoolBuffer, pending: Pending | None) -> None:
        if pending is not None:
            pending.wait()
        pool.deallocate(raw)
        self.live_bytes -= raw.nbytes

    def _make_room(self, pool: MemoryPool) -> None:
        for drop in self.droppers:
            drop()
        self.reclaim()
        pool.trim()


def take_events(buffers: Iterable[Buffer]) -> tuple[list[Event], list[Pending]]:
    """Return the events that work on `buffers` must wait for, and the work that they belong to.

    The caller queues the new work with these events, then calls `settle`.
    """
    events: list[Event] = []
    taken: list[Pending] = []
    for buffer in buffers:
        pending = buffer.pending
        if pending is not None:
            last = pending.last()
            if last.event is not None:
                events.append(last.event)
                last.event = None
                taken.append(last)
    return events, taken


def settle(
    event: Event, pool: MemoryPool, buffers: Iterable[Buffer], taken: Sequence[Pending], kept: object = None
) -> None:
    """Note that work with the end `event` was queued on `buffers`, behind the work `taken`."""
    if event.complete_when_made:
        event.take()
        if taken:
            for buffer in buffers:
                buffer.pending = None
        return
    pending = Pending(event, pool, kept)
    for earlier in taken:
        earlier.successor = pending
    for buffer in buffers:
        buffer.pending = pending
