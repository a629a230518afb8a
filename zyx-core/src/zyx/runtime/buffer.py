"""Memory with the work that is still to be done on it."""

from __future__ import annotations

import copy
import gc
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from zyx.errors import AllocationError, BackendError, DeviceLostError, locate
from zyx.graph.node import Node
from zyx.lazy_import import lazy_import
from zyx.modes import shown
from zyx.runtime.lifetime import LastLock, LastPools
from zyx.runtime.trace import MEMORY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from zyx import backend
    from zyx.backend import Event, MemoryPool, PoolBuffer
    from zyx.runtime.trace import Trace
else:
    backend = lazy_import("zyx.backend", globals())


class Pending:
    """Work that was queued on a set of buffers: the event of its end, owned here until somebody waits for it.

    Work that waits for this one takes the event along and becomes its `successor`: to wait for that is enough from
    then on.

    Attributes:
        event: None once it was given away.
        pool: The pool that can wait for it.
        error: What the work failed with, once somebody has waited: whoever waits again is told again.
        is_done: Whether it is known to be over, without an error.
    """

    __slots__ = ("error", "event", "is_done", "pool", "successor")

    def __init__(self, event: Event, pool: MemoryPool) -> None:
        self.event: Event | None = event
        self.pool = pool
        self.error: BackendError | None = None
        self.is_done = False
        self.successor: Pending | None = None

    def last(self) -> Pending:
        """Return the latest work that includes this one."""
        current = self
        while current.successor is not None:
            current = current.successor
        return current

    @property
    def is_taken(self) -> bool:
        """Whether its event was given to work that was never queued, or is just being.

        That is so for the handler of a signal that comes in between, and for good if the handler raises. All work of
        the pool is to be waited for then.
        """
        return self.event is None and self.successor is None and self.error is None and not self.is_done

    @property
    def has_failed(self) -> bool:
        """Whether it, or work that waited for it, is known to have failed."""
        return self.last().error is not None

    def wait(self) -> None:
        """Return when the work is done. Errors of the work surface here, at every call."""
        last = self.last()
        if last.error is not None:
            raise _again(last.error)
        event, last.event = last.event, None
        try:
            if event is not None:
                last.pool.sync_events([event])
            elif last.is_taken:
                last.pool.synchronize()
        except BackendError as error:
            locate(error, last.pool.name)
            last.error = _again(error)
            raise
        last.is_done = True

    def finished(self, failure: BackendError | None) -> None:
        """Note that somebody has waited for this work by another event, and what came of it."""
        event, self.event = self.event, None
        if event is not None:
            self.pool.release_events([event])
        if failure is None:
            self.is_done = True
        else:
            self.error = _again(failure)

    def runs_apart_from(self, pool: MemoryPool) -> bool:
        """Whether it may still be running, and `pool` cannot wait for it."""
        last = self.last()
        return last.pool is not pool and (last.event is not None or last.is_taken)

    def events_for(self, pool: MemoryPool) -> list[Event]:
        """Return events of `pool` for whoever must not go on before the work is over, failed or not.

        The work's own event stays here. Where there is no other to be had, this waits, and returns none.
        """
        last = self.last()
        own = last.event
        if own is None and not last.is_taken:
            return []
        event = own.again() if own is not None and last.pool is pool else None
        if event is not None:
            return [event]
        with suppress(BackendError):  # whoever holds the results is told
            last.wait()
        return []


def _again(error: BackendError) -> BackendError:
    """Return an equal error that was not raised: without the frames it came through, which hold tensors."""
    again = copy.copy(error)
    again.__cause__ = error.__cause__
    return again


class Buffer:
    """A piece of a pool's memory that frees itself: the storage of a node.

    A buffer of 0 bytes has no memory.

    Attributes:
        pool: Where it lies.
        raw: The pool's handle; None if `nbytes` is 0.
        nbytes: Size.
        pending: Work queued on it; None if there is none.
        writer: The work that the values come from; None if they are known to be there.
    """

    __slots__ = ("__weakref__", "_retired", "nbytes", "pending", "pool", "raw", "writer")

    def __init__(self, pool: MemoryPool, raw: PoolBuffer | None, nbytes: int, retired: Retired) -> None:
        self.pool = pool
        self.nbytes = nbytes
        self.pending: Pending | None = None
        self.writer: Pending | None = None
        self._retired = retired
        self.raw = raw  # last, for `__del__`

    def wait(self) -> None:
        """Return when all work on the buffer is done.

        Raises:
            BackendError: It failed, and what the values come from is not known to have succeeded before. Work that only
                read them does no harm.
        """
        pending, writer = self.pending, self.writer
        if pending is None:
            return
        try:
            pending.wait()
        except BackendError:
            if writer is not None and not writer.is_done:
                raise
        if writer is not None:
            writer.is_done = True
        self.pending = self.writer = None

    def __del__(self) -> None:
        # Only noted here: a finaliser may run anywhere, also while a pool or the runtime is at work.
        try:
            if self.raw is not None:
                self._retired.append((self.pool, self.raw, self.pending))
        except AttributeError:  # an exception of the handler of a signal came while it was being made
            pass


Retired = deque["tuple[MemoryPool, PoolBuffer, Pending | None]"]

_new: Final = object.__new__

#: So many tensors are named where there is no room for another one.
_MOST_NAMED: Final = 3

#: So many dead buffers are kept while another pool works on them, which theirs cannot wait for: while one is copied
#: away, the next one is computed.
_MOST_APART: Final = 2


class MemoryUse(NamedTuple):
    """What tensors hold of one pool.

    Attributes:
        live_bytes: In buffers now.
        peak_bytes: The most there were at once.
        cached_bytes: Kept by the pool for buffers to come, and free.
        free_bytes: That can still be allocated, those that are kept among them.
        live_buffers: Number of buffers now.
        allocations: Number of buffers that the pool was asked for so far; what was used again is not among them.
    """

    live_bytes: int
    peak_bytes: int
    cached_bytes: int
    free_bytes: int
    live_buffers: int
    allocations: int


class _Count:
    """Bytes and buffers of one pool."""

    __slots__ = ("allocations", "live_buffers", "live_bytes", "peak_bytes")

    def __init__(self) -> None:
        self.live_bytes = self.peak_bytes = self.live_buffers = self.allocations = 0

    def add(self, nbytes: int) -> None:
        """Count a buffer more."""
        self.allocations += 1
        self.live_buffers += 1
        self.live_bytes += nbytes
        if self.live_bytes > self.peak_bytes:  # noqa: PLR1730  # max() takes three times as long
            self.peak_bytes = self.live_bytes

    def remove(self, nbytes: int) -> None:
        """Count a buffer less."""
        self.live_buffers -= 1
        self.live_bytes -= nbytes


class Allocator:
    """Allocates buffers, and gives them back after their last use.

    Attributes:
        live_bytes: Bytes in buffers now.
        peak_bytes: The most there were since `reset_peak`.
        lost: Pools that must not be touched, since they are those of the process that this one was forked from.
        trace: What is told of allocations, if anything is.
        queued: The pools that ever had a buffer, but for those that have nothing to wait for, as that of the host.
    """

    def __init__(self) -> None:
        self.trace: Trace | None = None
        self._counts: dict[MemoryPool, _Count] = {}
        self.live_bytes = 0
        self.peak_bytes = 0
        self.lost: set[MemoryPool] = set()
        self.queued: set[MemoryPool] = set()
        self._retired: Retired = deque()
        self._apart: Retired = deque()
        self._of_parent: list[PoolBuffer] = []
        #: What else can free memory when there is none: caches of plans, most dispensable first.
        self.droppers: list[Callable[[], None]] = []

    def reset_peak(self) -> None:
        """Count the peak from now on."""
        self.peak_bytes = self.live_bytes

    def is_home_of(self, buffer: Buffer) -> bool:
        """Whether `buffer` was allocated here, and comes back here."""
        return buffer._retired is self._retired

    def allocate(self, pool: MemoryPool, nbytes: int) -> Buffer:
        """Return a buffer with undefined contents.

        Raises:
            AllocationError: No room, also after everything that can be dropped was dropped.
        """
        retired = self._retired
        if nbytes == 0:
            return Buffer(pool, None, 0, retired)
        while retired:
            owner, raw, pending = dead = retired.popleft()
            if (  # as in a loop: no need to ask, or to wait
                owner is pool
                and raw.nbytes == nbytes
                and not raw.is_foreign
                and (pending is None or not (pending.has_failed or pending.runs_apart_from(pool)))
            ):
                buffer: Buffer = _new(Buffer)  # as the constructor makes it, which would take longer
                buffer.pool = pool
                buffer.nbytes = nbytes
                buffer.pending = pending
                buffer.writer = None
                buffer._retired = retired
                buffer.raw = raw
                if self.trace is not None:
                    scoped = shown()
                    if (self.trace.configured if scoped is None else scoped) & MEMORY:  # without a call where it is not
                        self.trace.reused(pool, nbytes)
                return buffer
            self._give_back(*dead)
        if self.lost:
            self.check(pool)
        try:
            raw, event = pool.allocate(nbytes)
        except AllocationError:
            raw, event = self._allocate_again(pool, nbytes)
        except DeviceLostError as error:
            locate(error, pool.name)
            raise
        if self.trace is not None:
            self.trace.allocated(pool, nbytes)
        return self.adopt(pool, raw, event)

    def adopt(self, pool: MemoryPool, raw: PoolBuffer, event: Event) -> Buffer:
        """Return a buffer of what a pool gave, to be used after `event`."""
        self.live_bytes += raw.nbytes
        if self.live_bytes > self.peak_bytes:  # noqa: PLR1730  # max() takes three times as long
            self.peak_bytes = self.live_bytes
        count = self._counts.get(pool)
        if count is None:
            count = self._counts[pool] = _Count()
            if type(pool).synchronize is not backend.MemoryPool.synchronize:
                self.queued.add(pool)
        count.add(raw.nbytes)
        if self.trace is not None and self.trace.profile is not None:
            self.trace.profile.held(pool, raw, count.live_bytes)
        buffer = Buffer(pool, raw, raw.nbytes, self._retired)
        if event.complete_when_made:
            event.take()
        else:
            buffer.pending = Pending(event, pool)
        return buffer

    def end(self) -> None:
        """Be for the calling thread alone, which ends the process; others that ask for memory end, quietly."""
        lock, allocate = LastLock(), self.allocate
        self.lost = LastPools(lock, self.lost)

        def allocated(pool: MemoryPool, nbytes: int) -> Buffer:
            with lock:
                return allocate(pool, nbytes)

        self.allocate = allocated  # type: ignore[method-assign]  # no other allocation pays for the question

    def check(self, pool: MemoryPool) -> None:
        """Raise `DeviceLostError` if `pool` must not be touched."""
        if pool in self.lost:
            raise DeviceLostError(
                f"pool {pool.name} was opened before this process was forked from its parent, and drivers do not "
                "survive that: start processes by multiprocessing's method spawn, or use devices only after the fork",
                pool.name,
            )

    def use_of(self, pool: MemoryPool) -> MemoryUse:
        """Return what is held of a pool, after `reclaim`."""
        count = self._counts.get(pool) or _Count()
        return MemoryUse(
            live_bytes=count.live_bytes,
            peak_bytes=count.peak_bytes,
            cached_bytes=pool.cached_bytes,
            free_bytes=pool.free_bytes,
            live_buffers=count.live_buffers,
            allocations=count.allocations,
        )

    def live_by_pool(self) -> dict[MemoryPool, int]:
        """Return the bytes in buffers now, by pool, after `reclaim`."""
        self.reclaim()
        return {pool: count.live_bytes for pool, count in self._counts.items()}

    def reclaim(self) -> None:
        """Give the buffers that died back to their pools."""
        retired = self._retired
        while retired:
            self._give_back(*retired.popleft())
        while self._apart:
            self._give_back_now(*self._apart.popleft())

    def _give_back(self, pool: MemoryPool, raw: PoolBuffer, pending: Pending | None) -> None:
        """Give a buffer back behind the work on it. Its pool waits for that, not the host."""
        if pending is None or not pending.runs_apart_from(pool):
            self._give_back_now(pool, raw, pending)
            return
        self._apart.append((pool, raw, pending))
        if len(self._apart) > _MOST_APART:
            self._give_back_now(*self._apart.popleft())

    def _give_back_now(self, pool: MemoryPool, raw: PoolBuffer, pending: Pending | None) -> None:
        if pool in self.lost or (pending is not None and pending.last().pool in self.lost):
            self._of_parent.append(raw)
            return
        # Nobody holds the result any more; if the work fails, what was made of it fails by itself.
        pool.deallocate(raw, () if pending is None else pending.events_for(pool))
        self.live_bytes -= raw.nbytes
        self._counts[pool].remove(raw.nbytes)
        if self.trace is not None:
            self.trace.deallocated(pool, raw.nbytes)
            if self.trace.profile is not None:
                self.trace.profile.freed(pool, raw, self._counts[pool].live_bytes)

    def _allocate_again(self, pool: MemoryPool, nbytes: int) -> tuple[PoolBuffer, Event]:
        """Ask once more, after everything that can be dropped was dropped."""
        try:
            for drop in self.droppers:
                drop()
            self.reclaim()
            pool.trim()
            return pool.allocate(nbytes)
        except AllocationError as error:
            if self.trace is not None:
                self.trace.not_allocated(pool, nbytes)
            raise AllocationError(f"{error}{_largest_of(pool)}") from error
        except DeviceLostError as error:
            locate(error, pool.name)
            raise


def _largest_of(pool: MemoryPool) -> str:
    """Return words for the largest tensors in a pool, for the text of an error.

    They are looked for among all objects of the process, so that allocating need not take notes.
    """
    held: dict[Buffer, Node] = {}
    for thing in gc.get_objects():
        if issubclass(type(thing), Node) and type(thing.storage) is Buffer and thing.storage.pool is pool:
            held[thing.storage] = thing
    largest = sorted(held.items(), key=lambda pair: -pair[0].nbytes)[:_MOST_NAMED]
    words = ", ".join(f"{node.dtype}{list(node.shape)} with {buffer.nbytes} bytes" for buffer, node in largest)
    return f"; the largest of {len(held)} tensors there: {words}" if words else ""


def take_events(buffers: Iterable[Buffer], pool: MemoryPool) -> tuple[list[Event], list[Pending]]:
    """Return the events that work of `pool` on `buffers` must wait for, and the work that they belong to.

    Work of other pools is waited for here. The caller queues the new work with these events, then calls `settle`, or
    `abandon` if that fails.

    Raises:
        BackendError: Earlier work on a buffer has failed. No event was taken.
    """
    events: list[Event] = []
    taken: list[Pending] = []
    waiting: list[Pending] = []
    for buffer in buffers:
        last = buffer.pending
        if last is None:
            continue
        while last.successor is not None:  # as `last` does, without a call
            last = last.successor
        if last.error is not None or last.pool is not pool:
            buffer.wait()
        elif not waiting or waiting[-1] is not last:  # what was used together has one
            waiting.append(last)
    for last in waiting:
        event, last.event = last.event, None
        if event is not None:
            events.append(event)
            taken.append(last)
        elif last.is_taken and last not in taken:
            last.wait()
    return events, taken


def abandon(taken: Sequence[Pending]) -> None:
    """Wait for work whose events were used up by a call that failed: nobody else can."""
    for pool in {pending.pool for pending in taken}:
        try:
            pool.synchronize()
        except BackendError as error:
            locate(error, pool.name)
            for pending in taken:
                pending.error = _again(error) if pending.pool is pool else pending.error
        else:
            for pending in taken:
                pending.is_done = pending.is_done or pending.pool is pool


def drain(*pools: MemoryPool) -> None:
    """Wait for all work of pools, since an exception of the handler of a signal came while some was being queued.

    Nobody knows whether it was, and on which buffers, which are given back from now on.
    """
    for pool in pools:
        with suppress(BackendError):  # whoever holds the results of other work is told
            pool.synchronize()


def settle(
    event: Event, pool: MemoryPool, buffers: Iterable[Buffer], taken: Sequence[Pending], written: Iterable[Buffer]
) -> None:
    """Note that work with the end `event` was queued on `buffers`, behind the work `taken`; it writes to `written`."""
    if event.complete_when_made:
        event.take()
        if taken:
            for earlier in taken:
                earlier.is_done = True
            for buffer in buffers:
                buffer.pending = buffer.writer = None
        return
    pending = Pending(event, pool)
    for earlier in taken:
        earlier.successor = pending
    for buffer in buffers:
        buffer.pending = pending
    for buffer in written:
        buffer.writer = pending
