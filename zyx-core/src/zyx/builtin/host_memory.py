"""Memory of the host that is kept and used again, since touching fresh pages costs more than most arithmetic.

First use of 64 MiB takes 24 ms in pages of 4 KiB, 3.6 ms in huge pages, and 1.5 ms if it was used before. So memory is
taken from the system in huge pages where it has them, and given back only by `HostMemory.trim`, or when what
lies idle is more than was ever in use at once.

    small (below 2 MiB)   pieces of arenas of 16 MiB, in four size classes to a power of two: at most 25 % too large
    large                 a mapping each, of whole huge pages; an idle one is used again if it has as many as a fresh
                          one would have, or is at most 25 % too large, the best fit first

All addresses are multiples of 64, a cache line and the widest vector.
"""

from __future__ import annotations

import mmap
from bisect import bisect_left, insort
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Bytes. Every block starts at a multiple of it.
ALIGNMENT: Final = 64

_HUGE_PAGE: Final = 2 << 20
_ARENA: Final = 16 << 20


class _Arena:
    """A mapping that is cut into small blocks.

    Attributes:
        array: Its bytes.
        used: How many of them were cut off so far.
        live: Blocks of it that are in use.
    """

    __slots__ = ("array", "live", "used")

    def __init__(self) -> None:
        self.array = _map(_ARENA)
        self.used = 0
        self.live = 0


class HostBlock:
    """A piece of memory.

    Attributes:
        array: Its bytes, writable.
        address: Of the first byte.
        capacity: Number of bytes.
        arena: What it was cut from; None for a mapping of its own.
    """

    __slots__ = ("address", "arena", "array", "capacity", "freed_at")

    def __init__(self, array: NDArray[np.uint8], arena: _Arena | None) -> None:
        self.array = array
        self.address: int = array.ctypes.data
        self.capacity = array.nbytes
        self.arena = arena
        self.freed_at = 0


@dataclass(frozen=True, slots=True)
class MemoryStatistics:
    """What a `HostMemory` did and holds.

    Attributes:
        used_bytes: In blocks that are in use, as they were rounded up.
        peak_bytes: The most that this ever was.
        idle_bytes: In blocks that wait to be used again.
        mapped_bytes: Taken from the system.
        reused: Requests that were met by memory used before.
        fresh: Requests that were not.
    """

    used_bytes: int
    peak_bytes: int
    idle_bytes: int
    mapped_bytes: int
    reused: int
    fresh: int


class HostMemory:
    """Takes blocks from the system, and keeps them. Not for several threads at once.

    Args:
        keep_bytes: Idle bytes of large blocks that are kept in any case.
    """

    def __init__(self, keep_bytes: int) -> None:
        self._keep_bytes = keep_bytes
        self._small: dict[int, list[HostBlock]] = {}
        self._large: dict[int, list[HostBlock]] = {}
        self._large_sizes: list[int] = []  # the keys of `_large`, sorted
        self._arenas: list[_Arena] = []
        self._used = self._peak = self._mapped = 0
        self._idle_large = self._idle_small = 0
        self._reused = self._fresh = self._clock = 0

    @property
    def statistics(self) -> MemoryStatistics:
        """What was done so far, and what is held."""
        return MemoryStatistics(
            self._used, self._peak, self._idle_small + self._idle_large, self._mapped, self._reused, self._fresh
        )

    def take(self, nbytes: int) -> HostBlock:
        """Return a block of at least `nbytes` > 0 bytes with undefined contents.

        Raises:
            MemoryError: The system has none. Nothing is changed.
        """
        if nbytes < _HUGE_PAGE:
            capacity = small_capacity(nbytes)
            idle = self._small.get(capacity)
            if idle:
                block = idle.pop()
                self._idle_small -= capacity
                self._reused += 1
            else:
                block = self._cut(capacity)
                self._small.setdefault(capacity, [])
                self._fresh += 1
            arena = block.arena
            assert arena is not None  # small blocks have one
            arena.live += 1
        else:
            block = self._take_large(nbytes)
        self._used += block.capacity
        self._peak = max(self._peak, self._used)
        return block

    def take_fresh(self, nbytes: int) -> HostBlock:
        """Return a block as `take` does, straight from the system: also while another call is half done."""
        block = self._map_block(nbytes)
        self._used += block.capacity
        return block

    def give_back(self, block: HostBlock) -> None:
        """Keep `block` for another request."""
        capacity, arena = block.capacity, block.arena
        self._used -= capacity
        if arena is not None:
            arena.live -= 1
            self._idle_small += capacity
            self._small[capacity].append(block)
            return
        self._clock += 1
        block.freed_at = self._clock
        idle = self._large.setdefault(capacity, [])
        if not idle:
            insort(self._large_sizes, capacity)
        idle.append(block)
        self._idle_large += capacity
        while self._idle_large > max(self._keep_bytes, self._peak):
            self._drop_oldest()

    def trim(self) -> int:
        """Return all idle memory to the system, but for arenas that are in use; return how many bytes that were."""
        before = self._mapped
        self._mapped -= self._idle_large
        self._idle_large = 0
        self._large.clear()
        self._large_sizes.clear()
        unused = {id(arena) for arena in self._arenas if not arena.live}
        for capacity, idle in list(self._small.items()):
            kept = [block for block in idle if id(block.arena) not in unused]
            self._idle_small -= capacity * (len(idle) - len(kept))
            self._small[capacity] = kept
        self._arenas = [arena for arena in self._arenas if arena.live]
        self._mapped -= _ARENA * len(unused)
        return before - self._mapped

    def _cut(self, capacity: int) -> HostBlock:
        arena = self._arenas[-1] if self._arenas else None
        if arena is None or arena.used + capacity > _ARENA:
            arena = _Arena()
            self._arenas.append(arena)
            self._mapped += _ARENA
        start = arena.used
        arena.used += capacity
        return HostBlock(arena.array[start : start + capacity], arena)

    def _take_large(self, nbytes: int) -> HostBlock:
        place = bisect_left(self._large_sizes, nbytes)
        most = max(nbytes + nbytes // 4, _whole_pages(nbytes))
        if place < len(self._large_sizes) and self._large_sizes[place] <= most:
            capacity = self._large_sizes[place]
            if self._large[capacity]:  # or Ctrl-C came between the last one and the note that there is none
                self._reused += 1
                return self._pop_large(capacity, -1)  # the last one freed is the likeliest in a cache
        return self._map_block(nbytes)

    def _map_block(self, nbytes: int) -> HostBlock:
        capacity = _whole_pages(nbytes)
        block = HostBlock(_map(capacity), None)
        self._fresh += 1
        self._mapped += capacity
        return block

    def _pop_large(self, capacity: int, position: int) -> HostBlock:
        idle = self._large[capacity]
        block = idle.pop(position)
        self._idle_large -= capacity
        if not idle:
            del self._large[capacity]
            self._large_sizes.remove(capacity)
        return block

    def _drop_oldest(self) -> None:
        oldest = min((idle[0] for idle in self._large.values() if idle), key=lambda block: block.freed_at)
        self._pop_large(oldest.capacity, 0)
        self._mapped -= oldest.capacity


def small_capacity(nbytes: int) -> int:
    """Return the size class of a small request: four to each power of two, and multiples of 64."""
    step = max(ALIGNMENT, 1 << max(0, (nbytes - 1).bit_length() - 3))
    return -(-nbytes // step) * step


def _whole_pages(nbytes: int) -> int:
    """Return the bytes of the huge pages that `nbytes` lie in."""
    return -(-nbytes // _HUGE_PAGE) * _HUGE_PAGE


def _map(nbytes: int) -> NDArray[np.uint8]:
    """Return fresh memory from the system, at a multiple of 2 MiB; it goes back with the last array that views it."""
    try:
        if hasattr(
            mmap, "MAP_PRIVATE"
        ):  # not Windows. The default is shared, with child processes, and without huge pages
            mapped = mmap.mmap(-1, nbytes + _HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        else:
            mapped = mmap.mmap(-1, nbytes + _HUGE_PAGE)
    except (OSError, OverflowError, ValueError) as error:
        raise MemoryError(f"the system refused {nbytes} bytes: {error}") from error
    if hasattr(mmap, "MADV_HUGEPAGE"):  # Linux
        with suppress(OSError):  # a kernel without huge pages: small ones do, slower
            mapped.madvise(mmap.MADV_HUGEPAGE)
    array = np.frombuffer(mapped, np.uint8)
    start = -array.ctypes.data % _HUGE_PAGE
    return array[start : start + nbytes]
