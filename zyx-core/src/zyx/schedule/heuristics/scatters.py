"""Schedules of updates that are scattered, each combined indivisibly by a thread of its own.

    atomic, f32[n, 3] into f32[m, 3]      r0, r1 as one range: r0+r1.0 groups, r0+r1.1 threads of a group

Neighbouring threads have neighbouring updates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.errors import ScheduleError
from zyx.ir.nest import Kind, Store
from zyx.schedule.moves import Merge, Split

if TYPE_CHECKING:
    from zyx.backend.info import DeviceInfo
    from zyx.schedule.plan import Plan

#: Threads of a group.
_THREADS: Final = 256


def schedule_scatter(plan: Plan, info: DeviceInfo) -> bool:
    """Schedule the nest of `plan` if it is one of these; return whether it is."""
    (store, *others) = plan.nest.statements
    if others or not isinstance(store, Store) or not store.atomic:
        return False
    while len(order := plan.nest.statements[0].order) > 1:
        try:
            plan.do(Merge(order[-2].label, order[-1].label))
        except ScheduleError:
            break
    *outer, inner = plan.nest.statements[0].order
    for range_ in outer:
        plan.mark(range_, Kind.GROUP)
    threads = min(_THREADS, info.max_group_threads, info.max_group_shape[0])
    if inner.size <= threads:
        plan.mark(inner, Kind.LOCAL)
        return True
    plan.do(Split(inner.label, threads))  # a comparison for each thread costs less than a body for the last group
    plan.mark(plan.range(f"{inner.label}.0"), Kind.GROUP)
    plan.mark(plan.range(f"{inner.label}.1"), Kind.LOCAL)
    return True
