"""Schedules for machines with many threads: graphics processors, and the interpreter, whose threads are elements.

    elementwise over f32[n]                r0 = r0.0 groups, r0.1 threads of a group
    softmax over the rows of f32[m, n]     r0 groups;  r1 = r1.0 loop, r1.1 threads, which reduce the row together
    products of matrices                   one thread a result

1. Ranges that no statement combines over, and that all have, become groups.
2. If what is inside is combined over one range, the threads of a group share that range; otherwise the innermost of the
   group ranges is shared out over groups and threads.
3. Everything else is a loop within a thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.ir.nest import Compute, Kind, Scan, Store
from zyx.schedule.heuristics.plan import Plan, serial_ranges

if TYPE_CHECKING:
    from zyx.backend.info import DeviceInfo
    from zyx.ir.expr import Range
    from zyx.ir.nest import Nest

#: Threads of a group, if the device allows as many.
_THREADS: Final = 256
#: A reduction over fewer points than this is left to one thread.
_SHARED_REDUCTION: Final = 64


def schedule_threads(plan: Plan, info: DeviceInfo, *, can_meet: bool = True) -> None:
    """Schedule the nest of `plan`; if the threads of a group cannot meet, each thread reduces by itself."""
    threads = min(_THREADS, info.max_group_threads, info.max_group_shape[0])
    parallel = _parallel(plan.nest)
    shared = _shared(plan.nest, parallel) if can_meet else []
    count = 1
    for range_ in parallel:
        count *= range_.size
    if shared and shared[0].size >= _SHARED_REDUCTION and count < info.units * info.max_group_threads * 64:
        for range_ in parallel:
            plan.mark(range_, Kind.GROUP)
        for range_ in shared:
            _, local = plan.split(range_, min(threads, 1 << (range_.size - 1).bit_length()))
            plan.mark(local, Kind.LOCAL)
        return
    if not parallel:
        return
    *outer, inner = parallel
    for range_ in outer:
        plan.mark(range_, Kind.GROUP)
    if inner.size <= threads:
        plan.mark(inner, Kind.LOCAL)
        return
    group, local = plan.split(inner, threads)
    plan.mark(group, Kind.GROUP)
    plan.mark(local, Kind.LOCAL)


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
