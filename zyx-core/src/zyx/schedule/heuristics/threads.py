"""Schedules for machines with many threads: graphics processors, and the interpreter, whose threads are elements.

    elementwise over f32[n]                see `zyx.schedule.heuristics.elementwise`
    softmax over the rows of f32[m, n]     r0 groups;  r1 = r1.0 loop, r1.1 threads, which reduce the row together,
                                           r1.2 < 4 vectors
    sums of the columns of f32[m, n]       r0 = r0.0 groups, r0.1 < 32 threads;  r1 = r1.0 loop, r1.1 < 16 threads
    small products of matrices             one thread a result

1. Ranges that no statement combines over, and that all have, become groups.
2. If what is inside is combined over one range, the threads of a group share that range, and those that run in step
   swap what they have, where the device can; otherwise the points of these ranges are shared out over groups and
   threads (`zyx.schedule.heuristics.elementwise`).
3. Threads load vectors where all they access lies side by side; short rows are written out, so that they are read once.
   Where memory lies side by side along the groups, and not along what is combined, neighbouring threads have
   neighbouring results.
4. Everything else is a loop within a thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.ir.nest import Compute, Kind, Scan, Store
from zyx.schedule.accesses import reads_in, stride_along
from zyx.schedule.heuristics.elementwise import share_out
from zyx.schedule.heuristics.plan import Plan, serial_ranges
from zyx.schedule.heuristics.swaps import swap_along
from zyx.schedule.heuristics.vectors import lanes_of

if TYPE_CHECKING:
    from zyx.backend.info import DeviceInfo
    from zyx.ir.expr import Range
    from zyx.ir.nest import Nest

#: Threads of a group, if the device allows as many.
_THREADS: Final = 256
#: A reduction over fewer points than this is left to one thread.
_SHARED_REDUCTION: Final = 64
#: Fewest threads that share a row by vectors.
_ROW_THREADS: Final = 64
#: A thread keeps so many vectors of a row in registers: written out, all that is computed from them reads them once.
_KEPT_VECTORS: Final = 16
#: Of longer rows it loads so many vectors at a time, or fewer if these do not divide the row.
_VECTORS_AT_A_TIME: Final = (4, 3, 2)
#: Threads along the columns, and along the rows, of a matrix whose columns are combined.
_COLUMN_THREADS: Final = (32, 16)


def schedule_threads(plan: Plan, info: DeviceInfo, *, can_meet: bool = True, is_alone: bool = True) -> None:
    """Schedule the nest of `plan`.

    If the threads of a group cannot meet, each thread reduces by itself; if the nest is not alone in its launch, they
    stand along one axis.
    """
    threads = min(_THREADS, info.max_group_threads, info.max_group_shape[0])
    parallel = _parallel(plan.nest)
    shared = _shared(plan.nest, parallel) if can_meet else []
    count = 1
    for range_ in parallel:
        count *= range_.size
    if shared and shared[0].size >= _SHARED_REDUCTION and count < info.units * info.max_group_threads * 64:
        if is_alone and _share_columns(plan, parallel, shared[0], info):
            return
        for range_ in parallel:
            plan.mark(range_, Kind.GROUP)
        for range_ in shared:
            rest, together = _vectors(plan, range_, threads, info)
            loop, local = plan.split(rest, min(together, 1 << (rest.size - 1).bit_length()))
            plan.mark(local, Kind.LOCAL)
            swap_along(plan, local, info)
            if rest is not range_ and loop.size * local.size == rest.size:
                _write_out(plan, loop, range_.size // rest.size, info)
        return
    if parallel:
        share_out(plan, parallel, info)


def _write_out(plan: Plan, loop: Range, lanes: int, info: DeviceInfo) -> None:
    """Let a thread keep its part of a row, a loop over vectors of `lanes`, if it fits; else load a few at a time."""
    if loop.size <= _KEPT_VECTORS and loop.size * lanes <= info.registers // 2:
        plan.mark(loop, Kind.REPEAT)
        return
    few = next((count for count in _VECTORS_AT_A_TIME if loop.size % count == 0), 1)
    if few > 1:
        _, inner = plan.split(loop, few)
        plan.mark(inner, Kind.REPEAT)


def _parallel(nest: Nest) -> list[Range]:
    """Return the ranges that every statement has and none combines over, in the order of the last statement."""
    serial = {range_ for statement in nest.statements for range_ in serial_ranges(statement)}
    return [
        range_
        for range_ in nest.statements[-1].order
        if range_ not in serial and all(range_ in statement.order for statement in nest.statements)
    ]


def _shared(nest: Nest, parallel: list[Range]) -> list[Range]:
    """Return the range that the threads of a group can run together: the only one inside the parallel ones."""
    if any(isinstance(s, Scan) or (isinstance(s, Store) and s.serial) for s in nest.statements):
        return []
    inside = {range_ for statement in nest.statements for range_ in statement.order if range_ not in parallel}
    reduced = {range_ for s in nest.statements if isinstance(s, Compute) for range_ in s.reduced}
    return list(inside) if len(inside) == 1 and inside <= reduced else []


def _vectors(plan: Plan, range_: Range, threads: int, info: DeviceInfo) -> tuple[Range, int]:
    """Let threads load vectors along a range if all lies side by side there, and return the rest of it, and threads.

    These are as many as divide the rest, where there are enough.
    """
    concerned = [statement for statement in plan.nest.statements if range_ in statement.order]
    lanes = min(lanes_of(statement, info) for statement in concerned)
    count = range_.size // max(lanes, 1)
    while threads > 1 and count % threads:
        threads //= 2
    if lanes < 2 or range_.size % lanes or threads < _ROW_THREADS or not _lies_side_by_side(plan.nest, range_):
        return range_, min(_THREADS, info.max_group_threads, info.max_group_shape[0])
    rest, vector = plan.split(range_, lanes)
    plan.mark(vector, Kind.VECTOR)
    return rest, threads


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


def _share_columns(plan: Plan, parallel: list[Range], reduced: Range, info: DeviceInfo) -> bool:
    """Let neighbouring threads combine neighbouring columns, if that is how memory lies; return whether it does."""
    along, across = _COLUMN_THREADS
    shape = info.max_group_shape
    if not parallel or len(shape) < 2 or shape[0] < along or shape[1] < across:
        return False
    inner = parallel[-1]
    reads = [read for s in plan.nest.statements if reduced in s.order for read in reads_in(s)]
    is_fit = inner.size % along == 0 and reduced.size % across == 0 and along * across <= info.max_group_threads
    far = [read for read in reads if stride_along(read.index, reduced) not in (0, 1)]
    if not is_fit or not far or any(stride_along(read.index, inner) != 1 for read in far):
        return False
    if any(stride_along(read.index, reduced) == 1 and read.index.free & inner.bit for read in reads):
        return False
    for range_ in parallel[:-1]:
        plan.mark(range_, Kind.GROUP)
    group, column = plan.split(inner, along)
    loop, row = plan.split(reduced, across)
    plan.mark(group, Kind.GROUP)
    plan.order([loop, row, column])  # the last one is that of neighbouring threads
    plan.mark(row, Kind.LOCAL)
    plan.mark(column, Kind.LOCAL)
    return True
