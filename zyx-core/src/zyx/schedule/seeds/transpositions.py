"""Schedules of kernels that store elements in another order than they read them, on machines with many threads.

    p0[j, i] = p1[i, j]        v0[i, j] = p1[i, j]       i = i.0 groups, i.1 < 32;  j = j.0 groups, j.1 < 32
                         =>    p0[j, i] = v0[i, j]       (i.1, j.1) = 4 written out, 256 threads, i.1 slower;
                                                         (j.1, i.1) likewise, j.1 slower

A group copies a tile to local memory in the order in which it lies there, and stores it in the order in which the
results lie: neighbouring threads read and store neighbouring elements. A tile is made of the ranges that make a run
long enough on either side: several where they are short. Each side counts all points of the tile as one number, so
that no thread is idle where ranges are short or odd.

Lines of a tile of powers of two are turned, so that what neighbouring threads store comes from different banks.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zyx.arithmetic.parts import divisor_among
from zyx.nest.accesses import reads_in, stride_along
from zyx.nest.data import Compute, Kind, Store
from zyx.schedule.moves import Merge, Pad, Reorder, Split, Stage
from zyx.schedule.moves.values import reads_of_value
from zyx.schedule.plan import Plan
from zyx.schedule.seeds.threads import THREADS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from zyx.backend.info import DeviceInfo
    from zyx.nest.data import Nest
    from zyx.nest.expr import Range, Read

#: Bytes, and elements, that lie side by side in each line of a tile at least, if there are so many.
_RUN_BYTES: Final = 128
_RUN: Final = 32
#: A range of so many runs is divided into these, and a rest; a shorter one as evenly as can be.
_MANY_RUNS: Final = 8
#: Elements of a thread that a tile has at least, if there are so many.
_POINTS_OF_A_THREAD: Final = 4
#: Threads that go to local memory together, and its banks.
_WARP: Final = 32
_BANKS: Final = 32
_WORD_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class _Tile:
    """Points that a group moves.

    Attributes:
        parts: How many points of each range.
        stored: The ranges in the order of the results, the slowest first.
        read: In the order of what is read.
        skew: What is turned, and along which range, by `Stage`; None if nothing is.
    """

    parts: Mapping[Range, int]
    stored: tuple[Range, ...]
    read: tuple[Range, ...]
    skew: tuple[Range, Range, int] | None


def transposition_seeds(nest: Nest, info: DeviceInfo) -> Iterator[Plan]:
    """Yield schedules by tiles in local memory of a nest that stores in another order than it reads."""
    (store, *others) = nest.statements
    if others or not isinstance(store, Store) or store.combine is not None or store.serial:
        return
    threads = min(THREADS, info.max_group_threads, info.max_group_shape[0])
    reads = reads_of_value(store)
    tile = _choose_tile(store, reads[0], threads, info) if len(reads) == 1 == len(reads_in(store)) else None
    if tile is None:
        return
    sizes = [tile.parts[range_] for range_ in tile.stored]
    for together in dict.fromkeys((*_whole_rows(sizes, threads), threads)):
        plan = Plan(nest)
        _schedule(plan, tile, together, threads)
        yield plan


def _choose_tile(store: Store, read: Read, threads: int, info: DeviceInfo) -> _Tile | None:
    """Return the tile of a store that reads `read`; None if there is none, or no room for one."""
    strides: tuple[dict[Range, int], dict[Range, int]] = {}, {}
    for range_ in store.order:
        for found, index in zip(strides, (store.index, read.index), strict=True):
            step = stride_along(index, range_)
            if step is None:
                return None
            found[range_] = abs(step)
    of_store, of_read = strides
    if not all(of_read.values()) or not all(of_store.values()):
        return None
    wanted = max(_RUN, _RUN_BYTES // read.dtype.itemsize)
    parts: dict[Range, int] = {}
    for steps in (of_store, of_read):
        run = 1
        for range_ in sorted(steps, key=steps.__getitem__):
            if run >= wanted:
                break
            part = _part(range_.size, -(-wanted // run))
            parts[range_] = max(parts.get(range_, 1), part)
            run *= parts[range_]
    while math.prod(parts.values()) < threads * _POINTS_OF_A_THREAD:
        longer = [range_ for range_ in parts if parts[range_] < range_.size]
        if not longer:
            break
        chosen = min(longer, key=parts.__getitem__)
        parts[chosen] = min(chosen.size, 2 * parts[chosen])
    stored = tuple(sorted(parts, key=of_store.__getitem__, reverse=True))
    turned = tuple(sorted(parts, key=of_read.__getitem__, reverse=True))
    for range_ in {*stored[1:-1], *turned[1:-1]}:
        # What is past the end must not lie between what is there.
        parts[range_] = divisor_among(range_.size, range(parts[range_], range_.size)) or range_.size
    points = -(-math.prod(parts.values()) // threads) * threads
    if 2 * points * read.dtype.itemsize > info.local_bytes or stored == turned:
        return None
    return _Tile(parts, stored, turned, _skew(parts, stored, turned, read.dtype.itemsize))


def _part(size: int, wanted: int) -> int:
    """Return how many of `size` points a tile has: `wanted` at least, if there are so many."""
    if size >= wanted * _MANY_RUNS:
        return wanted
    return -(-size // max(1, size // wanted))


def _skew(
    parts: Mapping[Range, int], stored: Sequence[Range], read: Sequence[Range], itemsize: int
) -> tuple[Range, Range, int] | None:
    """Return the skew of a tile in local memory that avoids bank conflicts of its stores; None if there are none."""
    along, turned = stored[-1], read[-1]
    is_even = parts[turned] >= _BANKS // 2 and parts[turned] & (parts[turned] - 1) == 0
    if along is turned or not is_even:
        return None
    skew = (along, turned, max(1, _WORD_BYTES // itemsize))
    better = _conflicts(parts, stored, read, itemsize, skew) < _conflicts(parts, stored, read, itemsize, None)
    return skew if better else None


def _conflicts(
    parts: Mapping[Range, int],
    stored: Sequence[Range],
    read: Sequence[Range],
    itemsize: int,
    skew: tuple[Range, Range, int] | None,
) -> int:
    """Return how often the first warp must turn to local memory to take what it stores from there."""
    words = set()
    for number in range(_WARP):
        at = {}
        for range_ in reversed(stored):
            number, at[range_] = divmod(number, parts[range_])
        if skew is not None:
            along, turned, step = skew
            at[turned] = (at[turned] + step * at[along]) % parts[turned]
        position = 0
        for range_ in read:
            position = position * parts[range_] + at[range_]
        words.add(position * itemsize // _WORD_BYTES)
    return max(Counter(word % _BANKS for word in words).values())


def _schedule(plan: Plan, tile: _Tile, together: int, threads: int) -> None:
    """Schedule the only statement of a plan, which `together` threads store: points past the ends are masked off."""
    inner: dict[Range, Range] = {}
    for range_ in tile.parts:
        inner[range_] = range_
        if tile.parts[range_] < range_.size:
            plan.do(Split(range_.label, tile.parts[range_]))
            inner[range_] = plan.range(f"{range_.label}.1")
    (store,) = plan.nest.statements
    assert isinstance(store, Store)
    stored = [inner[range_] for range_ in tile.stored]
    for range_ in store.order:
        if range_ not in stored:
            plan.mark(range_, Kind.GROUP)
    (read,) = reads_of_value(store)
    skew = None if tile.skew is None else (inner[tile.skew[0]].label, inner[tile.skew[1]].label, tile.skew[2])
    plan.do(Stage("s0", read.param.number, tuple(inner[range_].label for range_ in tile.read), None, skew))
    copy = plan.nest.statements[0]
    assert isinstance(copy, Compute)
    _share_out(plan, copy.value.ranges[-len(stored) :], threads, threads)
    outer = [range_.label for range_ in store.order if range_ not in stored]
    plan.do(Reorder("s0", (*outer, *(range_.label for range_ in stored))))
    _share_out(plan, stored, together, threads)


def _whole_rows(sizes: Sequence[int], threads: int) -> list[int]:
    """Return how many threads store whole rows of a tile, the longest there are: places in these are known then."""
    row = math.prod(sizes)
    for size in sizes:
        row //= size
        if 1 < row <= threads:
            return [threads // row * row]
    return []


def _share_out(plan: Plan, ranges: Sequence[Range], together: int, threads: int) -> None:
    """Count the points of neighbouring ranges as one number, and let threads take so many of them at a time."""
    label = ranges[0].label
    for range_ in ranges[1:]:
        plan.do(Merge(label, range_.label))
        label = f"{label}+{range_.label}"
    plan.do(Split(label, together))
    plan.mark(plan.range(f"{label}.0"), Kind.UNROLL)
    plan.mark(plan.range(f"{label}.1"), Kind.LOCAL)
    if together < threads:
        plan.do(Pad(f"{label}.1", threads))
