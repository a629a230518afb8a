"""Schedules for machines with many threads: graphics processors, and the interpreter, whose threads are elements.

    elementwise over f32[n]                see `zyx.schedule.heuristics.elementwise`
    small products of matrices             one thread a result, shared out in the same way
    rows, and columns                      see `zyx.schedule.heuristics.shared_reductions`

Where much is combined for each result, the threads of a group do it together. Otherwise the points of the ranges that
no statement combines over, and that all have, are shared out over groups and threads; everything else is a loop within
a thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.schedule.heuristics.elementwise import share_out
from zyx.schedule.heuristics.shared_reductions import common_ranges, share_reductions
from zyx.schedule.heuristics.windows_of_threads import widen_windows

if TYPE_CHECKING:
    from zyx.backend.info import DeviceInfo
    from zyx.schedule.plan import Plan


def schedule_threads(plan: Plan, info: DeviceInfo, *, can_meet: bool = True, is_alone: bool = True) -> None:
    """Schedule the nest of `plan`.

    If the threads of a group cannot meet, each thread reduces by itself. See `share_reductions` for a nest that is not
    alone in its launch.
    """
    if can_meet and share_reductions(plan, info, is_alone=is_alone):
        return
    parallel = common_ranges(plan.nest)
    if parallel:
        share_out(plan, widen_windows(plan, parallel, info), info)
