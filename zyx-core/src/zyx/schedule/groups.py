"""Schedules for devices whose groups have several threads: products by tiles, scans, transpositions; all else by specs.

Imported where there is such a device, with all that only these need.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from zyx.errors import ScheduleError
from zyx.estimate import estimate
from zyx.ir.nest import Compute
from zyx.schedule.bound import least_seconds
from zyx.schedule.private_arrays import keep_arrays_small
from zyx.schedule.search import has_room, search
from zyx.schedule.seeds.few_rows import few_rows_seeds
from zyx.schedule.seeds.joined import join_sides
from zyx.schedule.seeds.register_tiles import COST_ALONE, schedule_register_tiles
from zyx.schedule.seeds.scans import schedule_scan
from zyx.schedule.seeds.tensor_cores import schedule_tensor_cores
from zyx.schedule.seeds.thread_tiles import choose_thread_tile, schedule_thread_tile
from zyx.schedule.seeds.threads import THREADS, thread_seeds
from zyx.schedule.seeds.transpositions import schedule_transposition

if TYPE_CHECKING:
    from zyx.backend.info import DeviceInfo
    from zyx.schedule.contraction import Contraction
    from zyx.schedule.plan import Plan

#: The part of an estimated time that another has to be less than to be the lesser one, for all that estimates are off.
_MUCH_LESS: Final = 0.5


def schedule_groups(plan: Plan, found: Contraction | None, info: DeviceInfo, *, is_alone: bool) -> None:
    """Schedule the nest of `plan`.

    Args:
        plan: A plan whose ranges are simplified.
        found: The sum of products in it, if there is one.
        info: The device.
        is_alone: As `zyx.schedule.choose.choose_schedule` takes it.
    """
    can_meet = is_alone or info.meets_in_branches
    most = 0 if is_alone else THREADS
    specs = thread_seeds(plan.nest, info, can_meet=can_meet, most=most)
    if can_meet and is_alone and found is not None and search(plan, info, few_rows_seeds(plan.nest, found, info)):
        return
    for meets in dict.fromkeys((can_meet, False)):
        ruled = plan.copy()
        if _schedule_by_rule(ruled, found, info, can_meet=meets, is_alone=is_alone):
            keep_arrays_small(ruled, info)
            if has_room(ruled.nest, info, most):
                seconds = _worth_beating(ruled, info) if is_alone else 0.0
                if not seconds or not search(plan, info, specs, most_seconds=seconds):
                    plan.become(ruled)
                return
    search(plan, info, specs, most_threads=most)


def _worth_beating(plan: Plan, info: DeviceInfo) -> float:
    """Return how fast another schedule has to be: 0 where that is not to be expected.

    Rules that were made for other nests leave most of a device idle there, or compute the same again and again.
    """
    on_tensor_cores = any(isinstance(s, Compute) and s.matrix is not None for s in plan.nest.statements)
    if on_tensor_cores or math.prod(range_.size for range_ in plan.nest.grid) >= info.units:
        return 0.0
    try:
        found = estimate(plan.nest, info)
    except ScheduleError:
        return 0.0
    most = _MUCH_LESS * found.seconds
    return most if least_seconds(found, plan.nest) <= most else 0.0


def _schedule_by_rule(
    plan: Plan, found: Contraction | None, info: DeviceInfo, *, can_meet: bool, is_alone: bool
) -> bool:
    """Schedule a nest that there is a rule for; return whether there is one."""
    joined = plan.copy()
    whole = None if found is None else join_sides(joined, found)
    if can_meet and whole is not None and schedule_tensor_cores(joined, whole, info):
        plan.become(joined)
        return True
    if is_alone and found is not None and whole is not None:
        tile = choose_thread_tile(found, info)
        if schedule_register_tiles(joined, whole, info, math.inf if tile is None else tile.cost):
            plan.become(joined)
            return True
        if tile is not None and tile.cost < COST_ALONE:
            schedule_thread_tile(plan, tile, info)
            return True
    return is_alone and (
        schedule_scan(plan, info, can_meet=can_meet) or (can_meet and schedule_transposition(plan, info))
    )
