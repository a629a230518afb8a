"""Choose a good schedule at once, without measuring."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.schedule.contraction import find_contraction
from zyx.schedule.heuristics.plan import Plan, simplify_ranges
from zyx.schedule.heuristics.scatters import schedule_scatter
from zyx.schedule.heuristics.vector_tiles import schedule_vector_tiles
from zyx.schedule.heuristics.widths import schedule_by_width

if TYPE_CHECKING:
    from zyx.backend.info import DeviceInfo
    from zyx.ir.nest import Nest
    from zyx.schedule.moves import Move


def choose_schedule(nest: Nest, info: DeviceInfo, *, is_alone: bool = True) -> tuple[Nest, list[Move]]:
    """Return the scheduled nest and the moves that led there.

    Args:
        nest: A nest that is not scheduled.
        info: The device.
        is_alone: Whether the kernel is to run this nest alone, not each group one of several.
    """
    plan = Plan(nest)
    simplify_ranges(plan)
    if schedule_scatter(plan, info):
        return plan.nest, plan.moves
    found = find_contraction(plan.nest) if info.vector_bytes else None
    if info.max_group_threads > 1:
        from zyx.schedule.heuristics.groups import schedule_groups

        plan = schedule_groups(nest, plan, found, info, is_alone=is_alone)
    elif found is not None:
        schedule_vector_tiles(plan, found, info)
    else:
        schedule_by_width(plan, info)
    return plan.nest, plan.moves
