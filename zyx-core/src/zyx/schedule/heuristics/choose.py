"""Choose a good schedule at once, without measuring."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from zyx.errors import ScheduleError
from zyx.ir.nest import Compute
from zyx.schedule.arrays import local_bytes
from zyx.schedule.contraction import find_contraction
from zyx.schedule.estimate import estimate
from zyx.schedule.heuristics.plan import Plan, simplify_ranges
from zyx.schedule.heuristics.private_arrays import keep_arrays_small
from zyx.schedule.heuristics.register_tiles import COST_ALONE, schedule_register_tiles
from zyx.schedule.heuristics.scans import schedule_scan
from zyx.schedule.heuristics.scatters import schedule_scatter
from zyx.schedule.heuristics.tensor_cores import schedule_tensor_cores
from zyx.schedule.heuristics.thread_tiles import choose_thread_tile, schedule_thread_tile
from zyx.schedule.heuristics.threads import schedule_threads
from zyx.schedule.heuristics.transpositions import schedule_transposition
from zyx.schedule.heuristics.vector_tiles import schedule_vector_tiles
from zyx.schedule.heuristics.widths import schedule_by_width

if TYPE_CHECKING:
    from zyx.backend.info import DeviceInfo
    from zyx.ir.nest import Nest
    from zyx.schedule.contraction import Contraction
    from zyx.schedule.moves import Move

#: The part of an estimated time that another has to be less than to be the lesser one, for all that estimates are off.
_MUCH_LESS: Final = 0.5


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
        _schedule_group(plan, found, info, can_meet=is_alone or info.meets_in_branches, is_alone=is_alone)
        if is_alone and found is not None:
            plan = _with_more_groups(nest, plan, info)
        if local_bytes(plan.nest) > info.local_bytes:
            plan = Plan(nest)
            simplify_ranges(plan)
            if not is_alone or not schedule_scan(plan, info, can_meet=False):
                schedule_threads(plan, info, can_meet=False, is_alone=is_alone)
        keep_arrays_small(plan, info)
    elif found is not None:
        schedule_vector_tiles(plan, found, info)
    else:
        schedule_by_width(plan, info)
    return plan.nest, plan.moves


def _with_more_groups(nest: Nest, plan: Plan, info: DeviceInfo) -> Plan:
    """Return a plan for a product of matrices that has groups for all units, if `plan` has not and is to take longer.

    Tiles spare loads, which is little where they are few: threads that share each sum then keep more units busy.
    """
    on_tensor_cores = any(isinstance(s, Compute) and s.matrix is not None for s in plan.nest.statements)
    if on_tensor_cores or math.prod(range_.size for range_ in plan.nest.grid) >= info.units:
        return plan
    other = Plan(nest)
    simplify_ranges(other)
    schedule_threads(other, info)
    try:
        is_faster = estimate(other.nest, info).seconds < _MUCH_LESS * estimate(plan.nest, info).seconds
    except ScheduleError:
        return plan
    return other if is_faster else plan


def _schedule_group(plan: Plan, found: Contraction | None, info: DeviceInfo, *, can_meet: bool, is_alone: bool) -> None:
    """Schedule a nest for groups of threads, whose threads may meet."""
    if can_meet and found is not None and schedule_tensor_cores(plan, found, info):
        return
    if is_alone and found is not None:
        tile = choose_thread_tile(found, info)
        if schedule_register_tiles(plan, found, info, math.inf if tile is None else tile.cost):
            return
        if tile is not None and tile.cost < COST_ALONE:
            schedule_thread_tile(plan, tile, info)
            return
    if is_alone and schedule_scan(plan, info, can_meet=can_meet):
        return
    if is_alone and can_meet and schedule_transposition(plan, info):
        return
    schedule_threads(plan, info, can_meet=can_meet, is_alone=is_alone)
