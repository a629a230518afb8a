"""Choose the schedule of a nest at once, without measuring: of a few, that which is expected to take least."""

from __future__ import annotations

import itertools
import math
from functools import partial
from typing import TYPE_CHECKING, Final

from zyx.errors import ScheduleError
from zyx.estimate import estimate
from zyx.schedule.apply import apply
from zyx.schedule.bound import least_seconds
from zyx.schedule.contraction import find_contraction
from zyx.schedule.heuristics.scatters import schedule_scatter
from zyx.schedule.plan import Plan, simplify_ranges
from zyx.schedule.products import product_seeds, product_variants
from zyx.schedule.seeds import neighbours, seeds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zyx.backend.info import DeviceInfo
    from zyx.ir.nest import Nest
    from zyx.schedule.moves import Move
    from zyx.schedule.spec import Spec

#: Schedules that are looked at, at most: each takes about a millisecond.
_MOST: Final = 24
#: The part of an estimate that another has to be less than to be the lesser one.
_LESS: Final = 0.95
#: How many times the least that a kernel can take its estimate may be for no more schedules to be looked at.
_NEAR: Final = 1.1


def choose_schedule(nest: Nest, info: DeviceInfo, *, is_alone: bool = True) -> tuple[Nest, list[Move]]:
    """Return the scheduled nest and the moves that led there.

    Args:
        nest: A nest that is not scheduled.
        info: The device.
        is_alone: Whether the kernel is to run this nest alone, not each group one of several.
    """
    plan = Plan(nest)
    simplify_ranges(plan)
    if info.max_group_threads > 1:
        if not schedule_scatter(plan, info):
            from zyx.schedule.heuristics.groups import schedule_groups

            found = find_contraction(plan.nest) if info.vector_bytes else None
            plan = schedule_groups(nest, plan, found, info, is_alone=is_alone)
        return plan.nest, plan.moves
    found = find_contraction(plan.nest) if info.vector_bytes else None
    if found is not None:
        _search(plan, info, product_seeds(plan.nest, found, info), partial(product_variants, plan.nest, found, info))
    else:
        _search(plan, info, seeds(plan.nest, info))
    return plan.nest, plan.moves


def schedule_plainly(plan: Plan, info: DeviceInfo) -> None:
    """Schedule the nest of `plan` for a processor by the first schedule that applies, as anything else is."""
    for spec in seeds(plan.nest, info):
        other = plan.copy()
        try:
            apply(other, spec, info)
        except ScheduleError:
            continue
        plan.become(other)
        return


def _search(
    plan: Plan, info: DeviceInfo, specs: Iterable[Spec], variants: Callable[[Spec], Iterable[Spec]] | None = None
) -> None:
    """Schedule the nest of `plan` by the best of `specs`, of the variants of that, and of the neighbours of those."""
    looked_at: dict[Spec, Plan | None] = {}
    best: Spec | None = None
    shortest = math.inf

    def look(spec: Spec) -> bool:
        """Look at a spec, and return whether nothing can be much better."""
        nonlocal best, shortest
        if spec in looked_at:
            return False
        other = plan.copy()
        try:
            apply(other, spec, info)
            found = estimate(other.nest, info)
        except ScheduleError:
            looked_at[spec] = None
            return False
        looked_at[spec] = other
        if found.seconds < _LESS * shortest:
            best, shortest = spec, found.seconds
        return found.seconds <= _NEAR * least_seconds(found, plan.nest)

    is_near = any(look(spec) for spec in specs)
    if best is not None and variants is not None and not is_near:
        is_near = any(look(spec) for spec in variants(best))
    start: Spec | None = None
    while not is_near and best is not None and best is not start and len(looked_at) < _MOST:
        start = best
        around = itertools.islice(neighbours(plan.nest, start), _MOST - len(looked_at))
        is_near = any(look(spec) for spec in around)
    chosen = None if best is None else looked_at[best]
    if chosen is not None:
        plan.become(chosen)
