"""Choose how wide the vectors of scans are by what their schedules are expected to take (`zyx.estimate`).

    along 5 rows of 4217 elements, vectors of 16     each row by itself, one element after the other
                                   vectors of 4      4 rows side by side, and one more

Wide vectors want as many independent scans as they have lanes. Where there are fewer, narrower ones may be faster by as
much as they have lanes, or slower, if most of them are idle.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from zyx.errors import ScheduleError
from zyx.estimate import estimate
from zyx.ir.nest import Scan
from zyx.schedule.heuristics.loops import schedule_loops
from zyx.schedule.heuristics.plan import Plan

if TYPE_CHECKING:
    from zyx.backend.info import DeviceInfo

#: Narrowest vectors that processors have.
_NARROWEST_BYTES: Final = 16
#: A narrower schedule has to be expected to take no more than this part of the time.
_SURELY: Final = 0.95


def schedule_by_width(plan: Plan, info: DeviceInfo) -> None:
    """Schedule the nest of `plan` by `schedule_loops`, for vectors of the width that is expected to be the fastest."""
    if not any(isinstance(statement, Scan) for statement in plan.nest.statements):
        schedule_loops(plan, info)
        return
    before, moves = plan.nest, list(plan.moves)
    schedule_loops(plan, info)
    width = info.vector_bytes // 2
    try:
        shortest = estimate(plan.nest, info).seconds
        while width >= _NARROWEST_BYTES:
            other = Plan(before)
            schedule_loops(other, replace(info, vector_bytes=width))
            seconds = estimate(other.nest, info).seconds
            if seconds < _SURELY * shortest:
                shortest, plan.nest, plan.moves = seconds, other.nest, [*moves, *other.moves]
            width //= 2
    except ScheduleError:  # lowering refuses it, too, and tells why; what was chosen so far is as good as without this
        return
