"""Choose the schedule of a nest at once, without measuring: of a few, that which is expected to take least."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from zyx.errors import ScheduleError
from zyx.lazy_import import lazy_import
from zyx.schedule.contraction import find_contraction
from zyx.schedule.greatest import at_greatest
from zyx.schedule.moves import apply_moves
from zyx.schedule.plan import Plan, simplify_ranges
from zyx.schedule.search import search
from zyx.schedule.seeds.processors import seeds
from zyx.schedule.seeds.products import product_seeds, product_variants

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zyx.backend.info import DeviceInfo
    from zyx.nest.data import Nest
    from zyx.schedule.moves import Move
    from zyx.schedule.seeds import groups
    from zyx.schedule.spec import Spec
else:
    groups = lazy_import("zyx.schedule.seeds.groups", globals())


class Space(NamedTuple):
    """The schedules that a nest could have.

    Attributes:
        plan: The nest, with simplified ranges.
        seeds: Of every family, the likeliest first; made one by one.
        variants: Returns what to look at beside the best of them.
        most_threads: Threads that a group may have; 0 for as many as the device allows.
    """

    plan: Plan
    seeds: Iterable[Spec | Plan]
    variants: Callable[[Spec], Iterable[Spec]] | None = None
    most_threads: int = 0


def space_of(nest: Nest, info: DeviceInfo, *, is_alone: bool = True) -> Space:
    """Return the schedules that are looked at for a nest that is not scheduled; see `choose_schedule`."""
    plan = Plan(nest)
    simplify_ranges(plan)
    return _space(plan, info, is_alone=is_alone)


def _space(plan: Plan, info: DeviceInfo, *, is_alone: bool) -> Space:
    is_threads = info.max_group_threads > 1
    found = find_contraction(plan.nest, of_several=not is_threads) if info.vector_bytes else None
    if is_threads:
        specs = groups.group_seeds(plan.nest, found, info, is_alone=is_alone)
        return Space(plan, specs, most_threads=0 if is_alone else groups.THREADS)
    if found is not None:
        variants = partial(product_variants, plan.nest, found, info)
        return Space(plan, product_seeds(plan.nest, found, info), variants)
    return Space(plan, seeds(plan.nest, info))


def choose_schedule(nest: Nest, info: DeviceInfo, *, is_alone: bool = True) -> tuple[Nest, list[Move]]:
    """Return the scheduled nest and the moves that led there.

    Args:
        nest: A nest that is not scheduled.
        info: The device.
        is_alone: Whether the kernel is to run this nest alone, not each group one of several.
    """
    plan = Plan(nest)
    simplify_ranges(plan)
    greatest = Plan(at_greatest(plan.nest))
    if greatest.nest is not plan.nest:
        _search(greatest, info, is_alone=is_alone)
        with contextlib.suppress(ScheduleError):  # or some move needs to know that a mask holds
            return apply_moves(plan.nest, greatest.moves), [*plan.moves, *greatest.moves]
    _search(plan, info, is_alone=is_alone)
    return plan.nest, plan.moves


def _search(plan: Plan, info: DeviceInfo, *, is_alone: bool) -> None:
    space = _space(plan, info, is_alone=is_alone)
    search(plan, info, space.seeds, space.variants, most_threads=space.most_threads)
