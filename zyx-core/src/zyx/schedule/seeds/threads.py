"""Schedules for devices whose groups have several threads.

    softmax over the rows of f32[4096, 1000]     r0 = r0.0 groups, r0.1 < 8 threads;
                                                 r1 = r1.0 written out, r1.1 < 32 threads, r1.2 < 4 vectors
    sums of the columns of f32[m, n]             r1 = r1.0 groups, r1.1 < 32 threads;  r0 = r0.0 loop, r0.1 < 16 threads
    f32[4270969, 7] + f32[7]                     r0+r1 = groups, 256 threads, vectors of 4
    accelerations by differences, f32[1531, 3]   r0 groups;  r2 = r2.0 loop, r2.1 < 256 threads;  r1 < 3 written out

Threads stand along one range of each statement, or along two. Where that is one which something is combined over, they
do it together. What lies side by side in memory is best read by neighbouring threads; which range that is, and how many
threads pay, is left to the estimate.

Sizes need not fit: points past the end are masked off, in the last step of a loop only.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zyx.arithmetic.powers import next_power, previous_power
from zyx.errors import ScheduleError
from zyx.nest.accesses import reads_in, serial_ranges, stride_along
from zyx.nest.data import Compute, Kind, Scan, Store
from zyx.schedule.facts import operations, whole_lanes
from zyx.schedule.moves import Split
from zyx.schedule.plan import Plan, work_of
from zyx.schedule.seeds.processors import MOST_WRITTEN_OUT, written_out
from zyx.schedule.spec import Cut, Part, Place, Spec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from zyx.backend.info import DeviceInfo
    from zyx.nest.data import Nest, Statement
    from zyx.nest.expr import Range

#: Threads of a group at first, and the most where a launch has several nests, whose groups have as many; and threads
#: along neighbouring elements. Neighbours of a schedule have others.
THREADS: Final = 256
_BESIDE: Final = 32
#: Most points of a range that is written out, and most steps of a thread whose values it keeps in registers.
_SHORT: Final = 8
_KEPT: Final = 16
#: Windows of a thread where these overlap, and most points of all loops that are written out.
_WINDOWS: Final = (4, 2)
_TAPS: Final = 32
#: Fewest rows of one point of a thread: that of the last one may have none of them.
_LEAST_ROWS: Final = 4
#: Bytes that a thread has on their way from memory.
_BYTES_ON_THEIR_WAY: Final = 16
#: Positions that are divided fit 32 bits: divisions of more are slow.
_MOST_POINTS: Final = 1 << 31


@dataclass(frozen=True, slots=True)
class Threads:
    """Threads along one axis of a group.

    Attributes:
        ranges: Whose points they have, one of each statement at most.
        count: How many there are.
        lanes: Neighbouring points that each has at a time.
    """

    ranges: tuple[Range, ...]
    count: int
    lanes: int = 1


def thread_seeds(nest: Nest, info: DeviceInfo, *, can_meet: bool = True, most: int = 0) -> Iterator[Spec]:
    """Yield schedules for a nest whose ranges are simplified, the likeliest first.

    Args:
        nest: The nest. What is scanned, or stored in order, is left to single threads.
        info: A device whose groups have several threads.
        can_meet: Whether the threads of a group can wait for each other.
        most: Threads that a group may have; 0 for as many as the device allows.
    """
    common = common_ranges(nest)
    most = min(most or info.max_group_threads, info.max_group_threads)
    in_order = any(isinstance(s, Scan) or (isinstance(s, Store) and s.serial) for s in nest.statements)
    can_meet = can_meet and not in_order
    if can_meet and any(isinstance(s, Compute) and s.reduced for s in nest.statements):
        yield from _rows(nest, common, info, most)
        yield from _columns(nest, common, info, most)
        yield from _pairs(nest, common, info, most)
    yield from _points(nest, common, info, most)
    if can_meet:
        yield from _along_each(nest, common, info, most)
    if not common:
        yield Spec(groups=())


# ---- which ranges threads stand along


def common_ranges(nest: Nest) -> list[Range]:
    """Return the ranges that every statement has and none combines over, in the order of the last statement."""
    serial = {range_ for statement in nest.statements for range_ in serial_ranges(statement)}
    return [
        range_
        for range_ in nest.statements[-1].order
        if range_ not in serial and all(range_ in statement.order for statement in nest.statements)
    ]


def shared_ranges(nest: Nest, parallel: Sequence[Range]) -> list[Range]:
    """Return ranges to share among threads, one of each statement that combines; none if that is impossible.

    What is read side by side along a range makes it the better choice, then its size.
    """
    inside = _inside(nest, parallel)
    if not inside:
        return []
    weights = {range_: contiguous_work(nest.statements, range_) for s in inside for range_ in s.order}

    def worth(range_: Range) -> tuple[int, int]:
        return weights[range_], range_.size

    everywhere = [r for r in inside[0].order if r not in parallel and all(r in s.order for s in inside)]
    if everywhere:
        return [max(everywhere, key=worth)]
    chosen: list[Range] = []
    for statement in sorted(inside, key=work_of, reverse=True):
        candidates = [range_ for range_ in statement.order if range_ not in parallel]
        own = [range_ for range_ in candidates if range_ in chosen]
        if len(own) > 1:
            return []
        if not own:
            free = [r for r in candidates if not any(r in s.order and set(s.order) & set(chosen) for s in inside)]
            if not free:
                return []
            chosen.append(max(free, key=worth))
    return chosen


def _inside(nest: Nest, parallel: Sequence[Range]) -> list[Statement]:
    """Return the statements that have more than the parallel ranges, if any of them combines something."""
    inside = [s for s in nest.statements if any(range_ not in parallel for range_ in s.order)]
    return inside if any(isinstance(s, Compute) and s.reduced for s in inside) else []


def contiguous_work(statements: Iterable[Statement], range_: Range) -> int:
    """Return how many elements are read by steps of one along a range."""
    return sum(work_of(s) for s in statements for read in reads_in(s) if stride_along(read.index, range_) == 1)


def _points(nest: Nest, common: Sequence[Range], info: DeviceInfo, most: int) -> Iterator[Spec]:
    """Yield schedules that give each thread a point, or some, of the ranges that nothing is combined over.

    All these ranges count as one number, of which each group has as many neighbouring points as any other: short or odd
    axes leave no threads idle, and those of one row end where those of the next one begin.
    """
    if not common:
        return
    threads = min(THREADS, most, info.max_group_shape[0])
    for plan, labels in _in_a_thread(nest, common):
        left = merge_common(plan, labels)
        lanes = whole_lanes(plan.nest, left[-1], info)
        several = points_of_a_thread(plan.nest, left[-1]) if lanes == 1 and len(left) == 1 else 1
        if several > 1 and left[-1].size >= several * threads:
            apart, along = plan.copy().split_masked(left[-1], part_of_a_point([r.size for r in common], several))
            far = plan.copy()
            far.do(Split(left[-1].label, along.size))
            x = Threads((along,), threads)
            yield _spec(far.nest, [far.range(along.label)], x, None, far, short=[far.range(apart.label)])
        for count in dict.fromkeys((lanes, 1)):
            x = Threads((left[-1],), min(threads, -(-left[-1].size // count)), count)
            yield _spec(plan.nest, left, x, None, plan, short=[*map(plan.range, labels)])


def _in_a_thread(nest: Nest, common: Sequence[Range]) -> Iterator[tuple[Plan, list[str]]]:
    """Yield what a thread may do for its points, overlapping windows or one, and the ranges that are written out."""
    inside = [range_ for range_ in nest.ranges if range_ not in common]
    points = max((math.prod(r.size for r in s.order if r in inside) for s in nest.statements), default=1)
    found = _overlap(nest, common)
    if found is not None and points <= _TAPS:
        for count in _WINDOWS:
            plan = Plan(nest)
            outer, inner = plan.split_masked(found, count)
            if found.size % count == 0 and outer.size > 1:
                yield plan, [inner.label, *(range_.label for range_ in inside)]
    if inside and points <= _TAPS:
        yield Plan(nest), [range_.label for range_ in inside]
    yield Plan(nest), []


def _overlap(nest: Nest, common: Sequence[Range]) -> Range | None:
    """Return the range along which neighbouring windows have most in common, but for the last one; None if none have.

    Windows that neighbouring threads have overlap too, but these load side by side what is in the caches anyway.
    """
    best: tuple[float, Range] | None = None
    for statement in nest.statements:
        if not isinstance(statement, Compute) or statement.op is None:
            continue
        for read, rows, along in itertools.product(reads_in(statement), common[:-1], statement.reduced):
            far, near = stride_along(read.index, rows), stride_along(read.index, along)
            if far and near and far % near == 0 and 0 < far // near < along.size:
                share = far / near / along.size
                if best is None or share < best[0]:
                    best = share, rows
    return None if best is None else best[1]


def points_of_a_thread(nest: Nest, range_: Range) -> int:
    """Return how many points a thread is to have, of a nest that moves elements one by one; else 1.

    It reads them all before it stores the first: so more bytes are on their way from memory.
    """
    if len(nest.statements) != 1:
        return 1
    (statement,) = nest.statements
    is_simple = isinstance(statement, Store) and statement.combine is None and not statement.serial
    if not is_simple or statement.order != (range_,) or operations(statement) > MOST_WRITTEN_OUT:
        return 1
    reads = [read for read in reads_in(statement) if read.free & range_.bit]
    nbytes = sum(read.dtype.itemsize for read in reads if read.mask is None)
    nbytes += max((read.dtype.itemsize for read in reads if read.mask is not None), default=0)  # of parts, one is read
    return previous_power(min(_BYTES_ON_THEIR_WAY // max(nbytes, 1), _SHORT)) if nbytes else 1


def part_of_a_point(sizes: Sequence[int], points: int) -> int:
    """Return how far apart the points of a thread are, of as many as ranges of `sizes` have.

    That is a number of whole rows, the longest there are: their places in these are the same then, and computed once.
    """
    row = math.prod(sizes)
    for size in sizes:
        row //= size
        rows = math.prod(sizes) // row
        if rows >= points * _LEAST_ROWS:
            return -(-rows // points) * row
    return -(-math.prod(sizes) // points)


def merge_common(plan: Plan, apart: Sequence[str]) -> list[Range]:
    """Make one range of as many of the inner common ones but `apart` as can be, and return what is left of these."""
    common = [range_ for range_ in common_ranges(plan.nest) if range_.label not in apart]
    inside = dict.fromkeys(r for s in plan.nest.statements for r in s.order if r not in common)
    other = plan.copy()
    try:
        other.order([*common, *inside])
    except ScheduleError:
        return common
    plan.become(other)
    return plan.merge_inner(common, lambda outer, inner: outer.size * inner.size < _MOST_POINTS)


def _rows(nest: Nest, common: Sequence[Range], info: DeviceInfo, most: int) -> Iterator[Spec]:
    """Yield schedules in which threads share each reduction; a group has several rows where they are short."""
    shared = shared_ranges(nest, common)
    if not shared:
        return
    lanes = {range_: whole_lanes(nest, range_, info) for range_ in shared}
    least = min(lanes.values())
    longest = max(range_.size for range_ in shared)
    widest = previous_power(min(most, info.max_group_shape[0], next_power(-(-longest // least))))
    deep = info.max_group_shape[1] if len(info.max_group_shape) > 1 else 1
    enough = next_power(-(-longest // (least * _KEPT)))  # each keeps what it has read
    for count in dict.fromkeys((enough, min(_BESIDE, widest), min(THREADS, widest), widest)):
        if not 1 < count <= widest:
            continue
        beside = previous_power(min(max(1, THREADS // count), deep, math.prod(r.size for r in common)))
        plan = Plan(nest)
        left = plan.merge_inner(common, functools.partial(_is_shorter, beside))
        x = Threads(tuple(shared), count, least)
        y = Threads((left[-1],), min(beside, previous_power(left[-1].size))) if left and beside > 1 else None
        yield _spec(plan.nest, left, x, y, plan, info)


def _is_shorter(points: int, _: Range, inner: Range) -> bool:
    return inner.size < points


def _columns(nest: Nest, common: Sequence[Range], info: DeviceInfo, most: int) -> Iterator[Spec]:
    """Yield schedules whose neighbouring threads have neighbouring results, several threads each."""
    shared = shared_ranges(nest, common)
    beside = [
        r for r in common if any(stride_along(read.index, r) == 1 for s in nest.statements for read in reads_in(s))
    ]
    if not shared or not beside or len(info.max_group_shape) < 2:
        return
    column = max(beside, key=lambda range_: contiguous_work(nest.statements, range_))
    longest = max(range_.size for range_ in shared)
    wide = min(_BESIDE, next_power(column.size), info.max_group_shape[0])
    high = min(most // wide, info.max_group_shape[1], next_power(longest))
    for across in dict.fromkeys((min(8, high), min(_BESIDE, high))):
        if across > 1:
            yield _spec(nest, common, Threads((column,), wide), Threads(tuple(shared), across), None, info)


def _pairs(nest: Nest, common: Sequence[Range], info: DeviceInfo, most: int) -> Iterator[Spec]:
    """Yield schedules whose threads stand along two ranges, of which every statement has one or both.

    For small kernels that combine rows and columns of one matrix: otherwise one thread would do it all.
    """
    inside = [s for s in nest.statements if any(r not in common for r in s.order)]
    ranges = [r for r in nest.ranges if r not in common]
    pairs = [pair for pair in itertools.combinations(ranges, 2) if all(any(r in s.order for r in pair) for s in inside)]
    if not pairs or len(info.max_group_shape) < 2:
        return
    pair = max(pairs, key=lambda pair: pair[0].size * pair[1].size)
    beside = max(pair, key=lambda range_: (contiguous_work(inside, range_), range_.size))
    other = pair[0] if beside is pair[1] else pair[1]
    wide = min(next_power(beside.size), _BESIDE, previous_power(info.max_group_shape[0]))
    high = min(next_power(other.size), previous_power(most) // wide, previous_power(info.max_group_shape[1]))
    yield _spec(nest, common, Threads((beside,), wide), Threads((other,), high), None)


def _along_each(nest: Nest, common: Sequence[Range], info: DeviceInfo, most: int) -> Iterator[Spec]:
    """Yield schedules with threads along each range of the statement that has most work.

    Short ranges are written out inside of the threads: what is computed for all their points is computed once.
    """
    heavy = max(nest.statements, key=work_of)
    widest = previous_power(min(most, info.max_group_shape[0]))
    for along in heavy.order:
        short = _written_out(nest, common, along)
        for count in dict.fromkeys((min(_BESIDE, widest), min(THREADS, widest))):
            if along.size > _SHORT and count <= next_power(along.size):
                yield _spec(nest, common, Threads((along,), count), None, None, short=short)


# ---- specs


def _spec(
    nest: Nest,
    common: Sequence[Range],
    x: Threads,
    y: Threads | None,
    plan: Plan | None,
    info: DeviceInfo | None = None,
    short: Sequence[Range] = (),
) -> Spec:
    """Return a schedule with threads along `x`, and others along `y`; what is left of `common` is groups.

    With `info`, what a thread keeps of `x` or `y` in registers is written out. `plan` has the moves that come first.
    """
    cuts: list[Cut] = []
    loops, kept, threads, vectors = list[Place](), list[Place](), list[Place](), list[Place]()
    for axis in (x,) if y is None else (y, x):
        for range_ in axis.ranges:
            steps = _kept(range_, axis, y, info) if range_ not in common and info is not None else 1
            parts = (Part(steps, Kind.REPEAT), Part(axis.count, Kind.LOCAL), Part(axis.lanes, Kind.VECTOR))
            cuts.append(Cut(range_.label, parts))
            for number, places in enumerate((loops, kept, threads, vectors)):
                places.append(Place(range_.label, number))
    for range_ in short:
        cuts.append(Cut(range_.label, (Part(range_.size, _kind(nest, range_)),)))
        vectors.insert(0, Place(range_.label, 1))
    taken = {cut.range for cut in cuts}
    groups = tuple(Place(range_.label, 0) for range_ in common)
    others = [Place(r.label, 0) for r in nest.ranges if r.label not in taken and r not in common]
    own = [place for place in loops if place not in groups]
    first = () if plan is None else tuple(plan.moves)
    order = (*groups, *others, *own, *kept, *threads, *vectors)
    return Spec(tuple(cuts), order, first=first, groups=groups)


def _kept(range_: Range, axis: Threads, y: Threads | None, info: DeviceInfo) -> int:
    """Return how many steps of a loop along a range are written out: all, if a thread has registers for them."""
    steps = -(-range_.size // (axis.count * axis.lanes))
    threads = axis.count * (y.count if y is not None and y is not axis else 1)
    if steps <= _KEPT and steps * axis.lanes * max(THREADS, threads) <= info.registers // 2 * THREADS:
        return steps
    return next((count for count in (4, 3, 2) if range_.size % (count * axis.count * axis.lanes) == 0), 1)


def _written_out(nest: Nest, common: Sequence[Range], along: Range) -> list[Range]:
    """Return the short ranges beside `along` that may all be written out."""
    cuts: list[Cut] = []
    short: list[Range] = []
    for range_ in reversed(nest.ranges):
        if 1 < range_.size <= _SHORT and range_ is not along and range_ not in common:
            more = [*cuts, Cut(range_.label, (Part(range_.size, Kind.UNROLL),))]
            if written_out(nest, Spec(tuple(more))) <= MOST_WRITTEN_OUT:
                cuts, short = more, [range_, *short]
    return short


def _kind(nest: Nest, range_: Range) -> Kind:
    is_combined = any(isinstance(s, Compute) and range_ in s.reduced for s in nest.statements)
    return Kind.REPEAT if is_combined else Kind.UNROLL
