"""Schedules of scans for machines with many threads.

    along the rows of f32[8, 1 << 20]      r0 groups;  r1 = r1.0 loop, r1.1 < 4 written out, r1.2 < 256 threads, which
                                           scan together (`zyx.lowering.scan_threads`), r1.3 < 4 vectors
    along the rows of f32[100000, 39]      r0 = r0.0 groups, r0.1 < 32 threads;  r1 = r1.0 loop, r1.1 < 8 threads
    down the columns of f32[500, 9000]     r1 = r1.0 groups, r1.1 < 256 threads;  r0 = r0.0 loop, r0.1 < 8 written out

1. Where the scanned elements lie side by side, or rows are too few to give every thread one, threads share a row, and
   neighbouring threads have neighbouring elements. As many share it as leaves few of them idle at its end; if these
   are few, a group has several rows.
2. Else each thread has a column, neighbouring threads neighbouring columns. It loads several elements before it needs
   the first, as there is nothing else to do while they are on their way.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from zyx.ir.accesses import reads_in, stride_along
from zyx.ir.nest import Compute, Kind, Scan, Store
from zyx.schedule.facts import lanes_of
from zyx.schedule.moves import Split
from zyx.schedule.moves.ranges import find_range
from zyx.schedule.swaps import swap_along

if TYPE_CHECKING:
    from zyx.backend.info import DeviceInfo
    from zyx.ir.expr import Expr, Range
    from zyx.ir.nest import Nest, Statement
    from zyx.ir.pool import Pool
    from zyx.schedule.plan import Plan

#: Threads of a group, if the device allows as many.
_THREADS: Final = 256
#: Bytes that memory moves at a time: where the elements of a column are less far apart, they count as side by side.
SECTOR_BYTES: Final = 32
#: Fewer rows than this many for each unit are too few to give each thread one, unless more elements than this would be
#: read far apart.
_ROWS_OF_A_UNIT: Final = 128
_MOST_FAR_APART: Final = 1 << 21
#: Shorter rows are left to one thread.
_SHORTEST_SHARED: Final = 8
#: More threads are better if they cost no more than so many times as much; the second where the device has threads to
#: spare.
_NEARLY: Final = 1.05
_NEARLY_OF_FEW: Final = 1.5
#: Part of the threads that may be idle at the end of columns, one in so many.
_IDLE: Final = 6
#: Vectors of a row, or elements of a column, that a thread loads at a time.
_VECTORS_AT_A_TIME: Final = 4
_ELEMENTS_AT_A_TIME: Final = 8
#: Vectors at a time where threads scan through local memory, which takes a store and a load of each in every step.
_BY_MEMORY: Final = 2
#: Columns of so few elements are written out.
_SHORT_COLUMN: Final = 16


def schedule_scan(plan: Plan, info: DeviceInfo, *, can_meet: bool = True) -> bool:
    """Schedule the nest of `plan` if all it does is to scan along the same ranges, and to store; return whether it is.

    Of several such ranges, into which what is read divides the axis, the innermost is shared or loaded from at a time.
    """
    nest = plan.nest
    scanned = next((statement.along for statement in nest.statements if isinstance(statement, Scan)), ())
    if not scanned:
        return False
    parallel = [range_ for range_ in nest.statements[-1].order if range_ not in scanned]
    if not all(_fits(statement, scanned, parallel) for statement in nest.statements):
        return False
    along = scanned[-1]
    rows = math.prod(range_.size for range_ in parallel)
    is_near = _step_bytes(nest, along) < SECTOR_BYTES
    are_few = rows < info.units * _ROWS_OF_A_UNIT and rows * along.size <= _MOST_FAR_APART
    if can_meet and along.size >= _SHORTEST_SHARED and (is_near or are_few):
        _share_rows(plan, parallel, along, info)
    else:
        _columns(plan, parallel, along, info)
    return True


def _fits(statement: Statement, scanned: tuple[Range, ...], parallel: list[Range]) -> bool:
    every = {*scanned, *parallel}
    match statement:
        case Scan():
            return statement.along == scanned and set(statement.order) == every
        case Compute():
            return statement.op is None and set(statement.order) <= every
        case Store():
            return statement.combine is None and not statement.serial and set(statement.order) == every


def _step_bytes(nest: Nest, along: Range) -> int:
    """Return how far apart neighbours along a range are stored, at most."""
    steps = [
        (stride_along(statement.index, along), statement.param.dtype.itemsize)
        for statement in nest.statements
        if isinstance(statement, Store)
    ]
    return max(SECTOR_BYTES if step is None else abs(step) * itemsize for step, itemsize in steps)


def _share_rows(plan: Plan, parallel: list[Range], along: Range, info: DeviceInfo) -> None:
    """Let threads scan a row together."""
    most = min(_THREADS, info.max_group_threads, info.max_group_shape[0])
    lanes = _lanes(plan.nest, along, info)
    rest = along
    inner: list[Range] = []
    if lanes > 1:
        rest, vector = plan.split(along, lanes)
        plan.mark(vector, Kind.VECTOR)
        inner = [vector]
    itemsize = min(scan.value.dtype.itemsize for scan in plan.nest.statements if isinstance(scan, Scan))
    rows = math.prod(range_.size for range_ in parallel)
    nearly = _NEARLY_OF_FEW if rows * rest.size < info.units * info.max_group_threads else _NEARLY
    beside = max(1, _step_bytes(plan.nest, along) // itemsize)  # rows whose elements lie between those of one row
    most_of_a_row = max(most // beside, min(info.warp_size, most))
    if info.subgroup_size > 1 and rows * info.subgroup_size >= info.units * info.max_group_threads:
        most_of_a_row = min(most_of_a_row, info.subgroup_size)  # these need not meet, and there are enough of them
    threads = _threads_of_a_row(rest.size, most_of_a_row, lanes * itemsize, nearly)
    rounds = -(-rest.size // threads)
    at_a_time = max(_VECTORS_AT_A_TIME, _ELEMENTS_AT_A_TIME // lanes) if info.subgroup_size > 1 else _BY_MEMORY
    at_a_time = rounds if rounds <= 2 * at_a_time else at_a_time
    together = rest
    if at_a_time < rounds:
        _, together = plan.split(rest, threads * at_a_time)
    several, local = plan.split(together, threads)
    plan.mark(several, Kind.REPEAT)
    inner = [several, local, *inner]
    plan.mark(local, Kind.LOCAL)
    swap_along(plan, local, info)
    has_axes = len(info.max_group_shape) > 1 and info.max_group_shape[1] > 1
    beside = min(most // threads, info.max_group_shape[1]) if has_axes else 1
    for range_ in reversed(parallel):
        if beside > 1:
            _share(plan, range_, beside)
            beside = 1  # threads have no more than two axes here
        else:
            plan.mark(range_, Kind.GROUP)
    plan.order([*_loops(plan.nest), *inner])


def _columns(plan: Plan, parallel: list[Range], along: Range, info: DeviceInfo) -> None:
    """Give each thread a column."""
    most = min(_THREADS, info.max_group_threads, info.max_group_shape[0])
    inner: list[Range] = []
    if along.size <= _SHORT_COLUMN:
        plan.mark(along, Kind.REPEAT)
        inner = [along]
    elif along.size >= 2 * _ELEMENTS_AT_A_TIME:
        _, several = plan.split(along, _ELEMENTS_AT_A_TIME)
        plan.mark(several, Kind.REPEAT)
        inner = [several]
    if not parallel:
        plan.order(inner)
        return
    *outer, column = parallel
    rows = math.prod(range_.size for range_ in parallel)
    lanes = _lanes(plan.nest, column, info)
    if lanes > 1 and rows >= info.units * info.max_group_threads * lanes:
        column, vector = plan.split(column, lanes)
        plan.mark(vector, Kind.VECTOR)
        inner = [*inner, vector]
    if column.size > most // 2:
        _share(plan, column, _block_of(column.size, most, info))
    else:
        plan.mark(column, Kind.LOCAL)
        if outer and len(info.max_group_shape) > 1:
            _share(plan, outer.pop(), min(most // column.size, info.max_group_shape[1]))
    for range_ in outer:
        plan.mark(range_, Kind.GROUP)
    plan.order([*_loops(plan.nest), *inner])


def _share(plan: Plan, range_: Range, threads: int) -> None:
    """Share a range out over threads and, if there are more points, groups.

    No point is written out apart: what it saves is a comparison a thread, and what it takes is all code once more.
    """
    if range_.size <= threads:
        plan.mark(range_, Kind.LOCAL)
        return
    plan.do(Split(range_.label, threads))
    plan.mark(plan.range(f"{range_.label}.0"), Kind.GROUP)
    plan.mark(plan.range(f"{range_.label}.1"), Kind.LOCAL)


def _loops(nest: Nest) -> list[Range]:
    """Return the ranges that threads go over one by one."""
    return [range_ for range_ in nest.ranges if nest.kind(range_) is Kind.LOOP]


def _threads_of_a_row(size: int, most: int, bytes_of_a_thread: int, nearly: float) -> int:
    """Return a power of two up to `most`: as many threads as share `size` points with few of them idle at the end.

    Fewer threads than reach over a sector of memory fetch it several times, from a cache for the most part.
    """

    def cost(threads: int) -> float:
        idle = -(-size // threads) * threads / size
        return idle * math.sqrt(max(1.0, SECTOR_BYTES / (threads * bytes_of_a_thread)))

    candidates = [1 << power for power in range(min(most, 2 * size - 1).bit_length())]
    least = min(map(cost, candidates))
    return max(threads for threads in candidates if cost(threads) <= nearly * least)


def _block_of(size: int, most: int, info: DeviceInfo) -> int:
    """Return how many of `size` columns a group has: those that leave fewest threads idle, the most of them."""
    step = max(info.warp_size, 1)
    candidates = range(step * max(1, most // 4 // step), most + 1, step)
    return min(candidates, key=lambda block: (-size % block / size > 1 / _IDLE, -(-size // block)), default=most)


def _lanes(nest: Nest, range_: Range, info: DeviceInfo) -> int:
    """Return the lanes of vectors along a range, 1 if not all that is accessed lies in whole and aligned ones."""
    lanes = min(lanes_of(statement, info) for statement in nest.statements)
    if lanes == 1 or range_.size % lanes:
        return 1
    parts = Split(range_.label, lanes).apply(nest)
    vector = find_range(parts, f"{range_.label}.1")
    return lanes if all(_has_vectors(parts.pool, statement, vector) for statement in parts.statements) else 1


def _has_vectors(pool: Pool, statement: Statement, vector: Range) -> bool:
    """Whether all that a statement accesses lies in whole and aligned vectors, or is the same for all lanes."""
    accesses: list[tuple[Expr, Expr | None]] = [(read.index, read.mask) for read in reads_in(statement)]
    if isinstance(statement, Store):
        accesses.append((statement.index, statement.mask))
    for index, mask in accesses:
        if mask is not None and mask.free & vector.bit:
            return False
        if index.free & vector.bit:
            (first,) = pool.substitute([index], {vector: pool.index(0)})
            if stride_along(index, vector) != 1 or pool.modulo(first, vector.size) is not pool.index(0):
                return False
    return True
