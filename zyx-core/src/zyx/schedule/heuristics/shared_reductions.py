"""Let the threads of a group combine rows, or columns, together.

    softmax over the rows of f32[4096, 1000]     r0 = r0.0 groups, r0.1 < 8 rows of a group;
                                                 r1 = r1.0 written out, r1.1 < 32 threads, r1.2 < 4 vectors
    softmax over the rows of f32[1000, 9907]     r0 groups;  r1 = r1.0 written out, r1.1 < 1024 threads
    variance of f32[3, 1299, 8689] over 0 and 2  r1 groups;  r0 loop;  r2 = r2.0 loop, r2.1 < 256 threads
    sums of the columns of f32[m, n]             r1 = r1.0 groups, r1.1 < 32 threads;  r0 = r0.0 loop, r0.1 < 16 threads

What lies side by side in memory is read by neighbouring threads. If that is what is combined, the threads of a group
share each row: as few of them as leave every thread some elements, so that short rows need no meeting of threads that
do not run in step; as many as a group may have where rows are too few for all units. If it is the results, neighbouring
threads have neighbouring columns, and several threads share each column where there are too few of them.

Sizes need not fit: points past the end are masked off, in the last step of a loop only.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import TYPE_CHECKING, Final

from zyx.ir.accesses import reads_in, serial_ranges, stride_along
from zyx.ir.nest import Compute, Kind, Scan, Store
from zyx.ir.powers import next_power, previous_power
from zyx.schedule.facts import lanes_of
from zyx.schedule.moves import Reorder, Split
from zyx.schedule.moves.ranges import statement_labels
from zyx.schedule.plan import work_of
from zyx.schedule.swaps import swap_along

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zyx.backend.info import DeviceInfo
    from zyx.ir.expr import Range
    from zyx.ir.nest import Nest, Statement
    from zyx.schedule.plan import Plan

#: Fewer points than this are combined by one thread.
_FEWEST_POINTS: Final = 8
#: Steps of a thread along a row, each of a vector or a scalar, that are worth having before other threads share it:
#: where there are rows enough, and where there are too few for all units.
_STEPS: Final = 8
_STEPS_OF_FEW_ROWS: Final = 4
#: Threads of a group: where there are rows enough, and so many that units can hold several groups.
_THREADS: Final = 256
#: A thread keeps so many elements of a row in registers, a part of those it has: written out, all that is computed from
#: them reads them once. Groups of more threads leave each of them fewer.
_KEPT_STEPS: Final = 16
_KEPT_PART: Final = 2
#: A reduction, what follows for its result, and its store read a row once anyway.
_STATEMENTS_OF_ONE_READING: Final = 2
#: Of longer rows it loads so many vectors at a time, or fewer if these do not divide the row.
_STEPS_AT_A_TIME: Final = (4, 3, 2)
#: Threads along columns: as many as read whole lines, or whole parts of lines where columns are few.
_MOST_COLUMNS: Final = 32
_FEWEST_COLUMNS: Final = 8
#: Threads of a group that keep columns which would be read twice otherwise, and points of a column that one keeps.
_MOST_KEEPING: Final = 512
_KEPT_BY_ONE: Final = 32
#: Threads that keep a unit busy: more wait for their turn.
_THREADS_OF_A_UNIT: Final = 1024


def share_reductions(plan: Plan, info: DeviceInfo, *, is_alone: bool) -> bool:
    """Schedule the nest of `plan` so that threads of a group combine together; return whether that is worth it.

    If the nest is not alone in its launch, a group has no more threads than elements are shared out to: all nests of a
    launch have groups of one size.
    """
    nest = plan.nest
    if any(isinstance(s, Scan) or (isinstance(s, Store) and s.serial) for s in nest.statements):
        return False
    parallel = common_ranges(nest)
    shared = shared_ranges(nest, parallel)
    if not shared:
        return is_alone and _share_two_ranges(plan, parallel, info)
    column = _column(nest, parallel, shared)
    if column is not None:
        can_stand = len(info.max_group_shape) > 1
        return can_stand and _share_columns(plan, parallel, column, shared, info, is_alone=is_alone)
    return share_rows(plan, parallel, shared, info, is_alone=is_alone)


def common_ranges(nest: Nest) -> list[Range]:
    """Return the ranges that every statement has and none combines over, in the order of the last statement."""
    serial = {range_ for statement in nest.statements for range_ in serial_ranges(statement)}
    return [
        range_
        for range_ in nest.statements[-1].order
        if range_ not in serial and all(range_ in statement.order for statement in nest.statements)
    ]


def shared_ranges(nest: Nest, parallel: Sequence[Range]) -> list[Range]:
    """Return ranges of which every statement that is not parallel only has one, or none if there is no such choice.

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
    return sum(work for step, work in _steps(statements, range_) if step == 1)


def _scattered_work(statements: Iterable[Statement], range_: Range) -> int:
    """Return how many elements are read by other steps along a range than of one and none."""
    return sum(work for step, work in _steps(statements, range_) if step not in (0, 1))


def _steps(statements: Iterable[Statement], range_: Range) -> Iterable[tuple[int | None, int]]:
    for statement in statements:
        for read in reads_in(statement):
            yield stride_along(read.index, range_), work_of(statement)


def _column(nest: Nest, parallel: Sequence[Range], shared: Sequence[Range]) -> Range | None:
    """Return the parallel range along which more is read side by side than along those that are shared, if any."""
    combining = [s for s in nest.statements if any(range_ in s.order for range_ in shared)]
    scattered = contiguous = 0
    for range_ in shared:
        own = [statement for statement in combining if range_ in statement.order]
        scattered += _scattered_work(own, range_)
        contiguous += contiguous_work(own, range_)
    rated = [(_scattered_work(combining, r), -contiguous_work(combining, r), -i) for i, r in enumerate(parallel)]
    if not rated or min(rated)[:2] >= (scattered, -contiguous):
        return None
    return parallel[-min(rated)[2]]


# ---- rows


def share_rows(
    plan: Plan, parallel: Sequence[Range], shared: Sequence[Range], info: DeviceInfo, *, is_alone: bool
) -> bool:
    """Let the threads of a group share each row, or each of several; return whether that is worth it."""
    rows = math.prod(range_.size for range_ in parallel)
    longest = max(range_.size for range_ in shared)
    if longest < _FEWEST_POINTS:
        return False
    lanes = {range_: lanes_along(plan.nest, range_, info) for range_ in shared}
    steps = max(-(-range_.size // lanes[range_]) for range_ in shared)
    most = previous_power(min(info.max_group_threads, info.max_group_shape[0]))
    most = most if is_alone else min(most, _THREADS)
    threads = _threads_of_a_row(plan.nest, steps, rows, most, info)
    beside = min(_THREADS // threads, most // threads, rows // max(1, info.units)) if parallel else 1
    beside = min(previous_power(beside), info.max_group_shape[1]) if len(info.max_group_shape) > 1 else 1
    parallel = plan.merge_inner(parallel, lambda _, inner: inner.size < beside)
    for range_ in parallel:
        plan.mark(range_, Kind.GROUP)
    if beside > 1 and parallel[-1].size >= beside:
        last = parallel[-1]
        plan.do(Split(last.label, beside))  # all written once: threads that meet do so outside of branches
        plan.mark(plan.range(f"{last.label}.0"), Kind.GROUP)
        plan.mark(plan.range(f"{last.label}.1"), Kind.LOCAL)
    for range_ in shared:
        rest = range_
        if lanes[range_] > 1:
            rest, vector = plan.split(range_, lanes[range_])
            plan.mark(vector, Kind.VECTOR)
        loop, local = plan.split(rest, threads)
        plan.mark(local, Kind.LOCAL)
        swap_along(plan, local, info)
        _write_out(plan, loop, lanes[range_], threads, info)
    return True


def _threads_of_a_row(nest: Nest, steps: int, rows: int, most: int, info: DeviceInfo) -> int:
    """Return how many threads share a row of so many vectors, or scalars: a power of two, at most `most`."""
    threads = min(next_power(-(-steps // _STEPS)), _THREADS)
    if rows < 2 * info.units:  # few groups: each has as many threads as have something to do
        threads = max(min(next_power(steps), _THREADS), min(next_power(-(-steps // _STEPS_OF_FEW_ROWS)), most))
    if len(nest.statements) > _STATEMENTS_OF_ONE_READING and -(-steps // threads) > _KEPT_STEPS:
        enough = next_power(-(-steps // _KEPT_STEPS))  # that keep the row, so that it is read once
        threads = enough if enough <= most else threads
    return min(max(threads, min(info.warp_size, next_power(steps))), most)


def lanes_along(nest: Nest, range_: Range, info: DeviceInfo) -> int:
    """Return how many elements a thread takes at a time along a range: 1 if not all of them lie side by side."""
    concerned = [statement for statement in nest.statements if range_ in statement.order]
    lanes = min(lanes_of(statement, info) for statement in concerned)
    return lanes if lanes > 1 and range_.size % lanes == 0 and _lies_side_by_side(nest, range_) else 1


def _lies_side_by_side(nest: Nest, range_: Range) -> bool:
    """Whether all that is accessed lies side by side along a range, or stays the same, and is there at every point."""
    steps: set[int | None] = set()
    for statement in nest.statements:
        if range_ not in statement.order:
            continue
        for read in reads_in(statement):
            is_whole = read.mask is None or not read.mask.free & range_.bit
            steps.add(stride_along(read.index, range_) if is_whole else None)
        if isinstance(statement, Store):
            is_whole = statement.mask is None or not statement.mask.free & range_.bit
            steps.add(stride_along(statement.index, range_) if is_whole and statement.combine is None else None)
            if stride_along(statement.index, range_) != 1:
                return False
    return 1 in steps and steps <= {0, 1}


def _write_out(plan: Plan, loop: Range, lanes: int, threads: int, info: DeviceInfo) -> None:
    """Let a thread keep its part of a row, a loop over vectors of `lanes`, if it fits; else load a few at a time."""
    kept = info.registers // _KEPT_PART // max(1, threads // _THREADS)
    if loop.size <= _KEPT_STEPS and loop.size * lanes <= kept:
        plan.mark(loop, Kind.REPEAT)
        return
    few = next((count for count in _STEPS_AT_A_TIME if loop.size % count == 0), 1)
    if few > 1 and lanes > 1 and loop not in plan.nest.peeled:
        _, inner = plan.split(loop, few)
        plan.mark(inner, Kind.REPEAT)


# ---- both


def _share_two_ranges(plan: Plan, parallel: Sequence[Range], info: DeviceInfo) -> bool:
    """Let the threads of a group stand along two ranges, of which every statement has one or both.

    For small kernels that combine rows and columns of one matrix: otherwise one thread would do it all.
    """
    nest = plan.nest
    inside = _inside(nest, parallel)
    rows = math.prod(range_.size for range_ in parallel)
    if not inside or rows >= info.units * info.warp_size or len(info.max_group_shape) < 2:
        return False
    ranges = [r for r in nest.ranges if r not in parallel]
    pairs = [
        (first, second)
        for first, second in itertools.combinations(ranges, 2)
        if all(first in s.order or second in s.order for s in inside)
    ]
    if not pairs:
        return False
    pair = max(pairs, key=lambda pair: pair[0].size * pair[1].size)
    beside = max(pair, key=lambda range_: (contiguous_work(inside, range_), range_.size))
    other = pair[0] if beside is pair[1] else pair[1]
    for range_ in parallel:
        plan.mark(range_, Kind.GROUP)
    most = previous_power(info.max_group_threads)
    threads = min(next_power(beside.size), max(1, info.warp_size), previous_power(info.max_group_shape[0]), most)
    _, row = plan.split(other, min(next_power(other.size), most // threads, previous_power(info.max_group_shape[1])))
    _, column = plan.split(beside, threads)
    # Threads combine what they have when all loops that go on combining are over, and so come inside of the others.
    for statement, label in statement_labels(plan.nest).items():
        combined = statement.reduced if isinstance(statement, Compute) else ()
        loops = [range_ for range_ in statement.order if range_ not in (row, column)]
        loops.sort(key=combined.__contains__)
        threads_along = [range_ for range_ in (row, column) if range_ in statement.order]
        plan.do(Reorder(label, tuple(range_.label for range_ in (*loops, *threads_along))))
    plan.mark(row, Kind.LOCAL)
    plan.mark(column, Kind.LOCAL)
    return True


# ---- columns


def _share_columns(
    plan: Plan,
    parallel: Sequence[Range],
    column: Range,
    shared: Sequence[Range],
    info: DeviceInfo,
    *,
    is_alone: bool,
) -> bool:
    """Let neighbouring threads combine neighbouring columns, several threads each; return whether that is worth it."""
    results = math.prod(range_.size for range_ in parallel)
    longest = max(range_.size for range_ in shared)
    # Threads for each result, to keep all units busy, or all that is read:
    across = next_power(-(-info.units * _THREADS_OF_A_UNIT // results))
    keeping = _threads_that_keep(plan.nest, parallel, shared, info)
    if max(across, keeping) < 2 or longest < 2 * _FEWEST_POINTS:
        return False
    columns = min(_MOST_COLUMNS, next_power(column.size), info.max_group_shape[0])
    others = results // column.size
    while columns > _FEWEST_COLUMNS and -(-column.size // columns) * others < info.units:
        columns //= 2
    most = info.max_group_threads if is_alone else min(_THREADS, info.max_group_threads)
    most_across = min(longest // _FEWEST_POINTS, most // columns, info.max_group_shape[1])
    across = min(across, previous_power(most_across))
    while keeping * columns > min(_MOST_KEEPING, most) and columns > _FEWEST_COLUMNS:
        columns //= 2
    is_kept = 1 < keeping <= info.max_group_shape[1] and keeping * columns <= min(_MOST_KEEPING, most)
    across = max(across, keeping) if is_kept else across
    if across < 2:
        return False
    for range_ in parallel:
        if range_ is not column:
            plan.mark(range_, Kind.GROUP)
    plan.do(Split(column.label, columns))  # all written once: what masks the last columns is known outside of loops
    group, beside = plan.range(f"{column.label}.0"), plan.range(f"{column.label}.1")
    plan.mark(group, Kind.GROUP)
    split = [plan.split(range_, across) for range_ in shared]
    plan.order([range_ for pair in split for range_ in pair] + [beside])  # the last one is of neighbouring threads
    for loop, row in split:
        plan.mark(row, Kind.LOCAL)
        if is_kept:
            _write_out(plan, loop, 1, across * columns, info)
    plan.mark(beside, Kind.LOCAL)
    return True


def _threads_that_keep(nest: Nest, parallel: Sequence[Range], shared: Sequence[Range], info: DeviceInfo) -> int:
    """Return among how many threads the points of a column are few enough for each to keep its own in registers.

    0 if that spares nothing: a thread keeps a whole column, columns are read once only, or the last cache still has
    them when they are read again; or if there is more to a column, in loops around that of its points.
    """
    longest = max(range_.size for range_ in shared)
    reads = [
        read for s in nest.statements for read in reads_in(s) if any(r in s.order and read.free & r.bit for r in shared)
    ]
    again = {read.param for read, count in Counter(reads).items() if count > 1}
    nbytes = sum(param.length * param.dtype.itemsize for param in again)
    has_others = any(r not in parallel and r not in shared for r in nest.ranges)
    if has_others or longest <= _KEPT_BY_ONE or 2 * nbytes <= sum(info.cache_bytes[-1:]):
        return 0
    return next_power(-(-longest // _KEPT_STEPS))
