"""Schedules of scans for machines with many threads.

    along the rows of f32[8, 1 << 20]      r0 groups;  r1 = r1.0 loop, r1.1 < 4 written out, r1.2 < 256 threads, which
                                           scan together (`zyx.lowering.scan_threads`), r1.3 < 4 vectors
    along the rows of f32[100000, 39]      r0 = r0.0 groups, r0.1 < 32 threads;  r1 = r1.0 loop, r1.1 < 8 threads
    down the columns of f32[500, 9000]     r1 = r1.0 groups, r1.1 < 256 threads;  r0 = r0.0 loop, r0.1 < 8 written out

Two ways are yielded, with several numbers of threads:

1. Threads share a row, and neighbouring threads have neighbouring elements. If they are few, a group has several rows.
2. Each thread has a column, neighbouring threads neighbouring columns. It loads several elements before it needs the
   first, as there is nothing else to do while they are on their way.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from zyx.nest.accesses import reads_in, stride_along
from zyx.nest.data import Compute, Kind, Scan, Store
from zyx.schedule.facts import lanes_of
from zyx.schedule.moves import Split
from zyx.schedule.moves.ranges import find_range
from zyx.schedule.plan import Plan
from zyx.schedule.seeds.threads import THREADS
from zyx.schedule.swaps import swap_along

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zyx.backend.info import DeviceInfo
    from zyx.nest.data import Nest, Statement
    from zyx.nest.expr import Expr, Range
    from zyx.nest.pool import Pool

#: Vectors of a row, or elements of a column, that a thread loads at a time.
_VECTORS_AT_A_TIME: Final = 4
_ELEMENTS_AT_A_TIME: Final = 8
#: Vectors at a time where threads scan through local memory, which takes a store and a load of each in every step.
_BY_MEMORY: Final = 2
#: Columns of so few elements are written out.
_SHORT_COLUMN: Final = 16


def scan_seeds(nest: Nest, info: DeviceInfo, *, can_meet: bool = True) -> Iterator[Plan]:
    """Yield schedules of a nest if all it does is to scan along the same ranges, and to store.

    Of several such ranges, into which what is read divides the axis, the innermost is shared or loaded from at a time.
    """
    scanned = next((statement.along for statement in nest.statements if isinstance(statement, Scan)), ())
    parallel = [range_ for range_ in nest.statements[-1].order if range_ not in scanned]
    if not scanned or not all(_fits(statement, scanned, parallel) for statement in nest.statements):
        return
    along = scanned[-1]
    most = min(THREADS, info.max_group_threads, info.max_group_shape[0])
    lanes = _lanes(nest, along, info)
    steps = -(-along.size // lanes)
    several = [1 << power for power in range(1, min(most, 2 * steps - 1).bit_length())] if can_meet else []
    for threads in reversed(several):
        plan = Plan(nest)
        _share_rows(plan, parallel, along, lanes, threads, info)
        yield plan
    for threads in dict.fromkeys((most, min(most, max(info.warp_size, 1)))):
        plan = Plan(nest)
        _columns(plan, parallel, along, threads, info)
        yield plan


def _fits(statement: Statement, scanned: tuple[Range, ...], parallel: list[Range]) -> bool:
    every = {*scanned, *parallel}
    match statement:
        case Scan():
            return statement.along == scanned and set(statement.order) == every
        case Compute():
            return statement.op is None and set(statement.order) <= every
        case Store():
            return statement.combine is None and not statement.serial and set(statement.order) == every


def _share_rows(
    plan: Plan, parallel: Sequence[Range], along: Range, lanes: int, threads: int, info: DeviceInfo
) -> None:
    """Let so many threads scan a row together."""
    rest = along
    inner: list[Range] = []
    if lanes > 1:
        rest, vector = plan.split(along, lanes)
        plan.mark(vector, Kind.VECTOR)
        inner = [vector]
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
    deep = info.max_group_shape[1] if len(info.max_group_shape) > 1 else 1
    beside = min(THREADS // threads, info.max_group_threads // threads, deep)
    for range_ in reversed(parallel):
        if beside > 1:
            _share(plan, range_, beside)
            beside = 1  # threads have no more than two axes here
        else:
            plan.mark(range_, Kind.GROUP)
    plan.order([*_loops(plan.nest), *inner])


def _columns(plan: Plan, parallel: Sequence[Range], along: Range, most: int, info: DeviceInfo) -> None:
    """Give each thread a column, in groups of up to `most`."""
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
        _share(plan, column, most)
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
