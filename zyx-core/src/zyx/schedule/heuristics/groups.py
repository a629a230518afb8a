"""Schedules for devices whose groups have several threads: products by tiles, rows by threads, others a thread a point.

Imported where there is such a device, with all that only these need.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from zyx.errors import ScheduleError
from zyx.estimate import estimate
from zyx.ir.nest import Compute
from zyx.lowering.arrays import local_bytes
from zyx.schedule.apply import apply
from zyx.schedule.bound import least_seconds
from zyx.schedule.heuristics.few_rows import schedule_few_rows
from zyx.schedule.heuristics.joined import join_sides
from zyx.schedule.heuristics.private_arrays import keep_arrays_small
from zyx.schedule.heuristics.register_tiles import COST_ALONE, schedule_register_tiles
from zyx.schedule.heuristics.scans import schedule_scan
from zyx.schedule.heuristics.tensor_cores import schedule_tensor_cores
from zyx.schedule.heuristics.thread_tiles import choose_thread_tile, schedule_thread_tile
from zyx.schedule.heuristics.threads import schedule_threads
from zyx.schedule.heuristics.transpositions import schedule_transposition
from zyx.schedule.plan import Plan, simplify_ranges
from zyx.schedule.threads import thread_seeds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zyx.backend.info import DeviceInfo
    from zyx.ir.nest import Nest
    from zyx.schedule.contraction import Contraction

#: The part of an estimated time that another has to be less than to be the lesser one, for all that estimates are off.
_MUCH_LESS: Final = 0.5


def schedule_groups(nest: Nest, plan: Plan, found: Contraction | None, info: DeviceInfo, *, is_alone: bool) -> Plan:
    """Schedule `nest`, whose ranges `plan` has simplified, and return that plan, or another that is better.

    Args:
        nest: A nest that is not scheduled.
        plan: Its plan so far.
        found: The sum of products in it, if there is one.
        info: The device.
        is_alone: As `zyx.schedule.choose.choose_schedule` takes it.
    """
    _schedule_group(plan, found, info, can_meet=is_alone or info.meets_in_branches, is_alone=is_alone)
    if is_alone:
        plan = _if_much_less(nest, plan, info)
    if local_bytes(plan.nest) > info.local_bytes:
        plan = Plan(nest)
        simplify_ranges(plan)
        if not is_alone or not schedule_scan(plan, info, can_meet=False):
            schedule_threads(plan, info, can_meet=False, is_alone=is_alone)
    keep_arrays_small(plan, info)
    return plan


def _if_much_less(nest: Nest, plan: Plan, info: DeviceInfo) -> Plan:
    """Return `plan` if it has groups for all units, or else what is expected to take a small part of its time.

    Rules that were made for other nests leave most of a device idle there, or compute the same again and again.
    """
    on_tensor_cores = any(isinstance(s, Compute) and s.matrix is not None for s in plan.nest.statements)
    if on_tensor_cores or math.prod(range_.size for range_ in plan.nest.grid) >= info.units:
        return plan
    try:
        found = estimate(plan.nest, info)
    except ScheduleError:
        return plan
    most = _MUCH_LESS * found.seconds
    if least_seconds(found, nest) > most:
        return plan
    for other in _other_plans(nest, info):
        try:
            seconds = estimate(other.nest, info).seconds
        except ScheduleError:
            continue
        if seconds < most and local_bytes(other.nest) <= info.local_bytes:
            plan, most = other, seconds
    return plan


def _other_plans(nest: Nest, info: DeviceInfo) -> Iterator[Plan]:
    simple = Plan(nest)
    simplify_ranges(simple)
    other = simple.copy()
    schedule_threads(other, info)
    yield other
    for spec in thread_seeds(simple.nest, info):
        other = simple.copy()
        try:
            apply(other, spec, info)
        except ScheduleError:
            continue
        keep_arrays_small(other, info)
        yield other


def _schedule_group(plan: Plan, found: Contraction | None, info: DeviceInfo, *, can_meet: bool, is_alone: bool) -> None:
    """Schedule a nest for groups of threads, whose threads may meet."""
    if can_meet and is_alone and found is not None and schedule_few_rows(plan, found, info):
        return
    joined = plan.copy()
    whole = None if found is None else join_sides(joined, found)
    if can_meet and whole is not None and schedule_tensor_cores(joined, whole, info):
        plan.become(joined)
        return
    if is_alone and found is not None and whole is not None:
        tile = choose_thread_tile(found, info)
        if schedule_register_tiles(joined, whole, info, math.inf if tile is None else tile.cost):
            plan.become(joined)
            return
        if tile is not None and tile.cost < COST_ALONE:
            schedule_thread_tile(plan, tile, info)
            return
    if is_alone and schedule_scan(plan, info, can_meet=can_meet):
        return
    if is_alone and can_meet and schedule_transposition(plan, info):
        return
    schedule_threads(plan, info, can_meet=can_meet, is_alone=is_alone)
