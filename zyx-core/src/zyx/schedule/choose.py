"""Choose the schedule of a nest at once, without measuring: of a few, that which is expected to take least."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from zyx.schedule.contraction import find_contraction
from zyx.schedule.plan import Plan, simplify_ranges
from zyx.schedule.search import search
from zyx.schedule.seeds.processors import seeds
from zyx.schedule.seeds.products import product_seeds, product_variants

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
    found = find_contraction(plan.nest) if info.vector_bytes else None
    if info.max_group_threads > 1:
        from zyx.schedule.seeds.groups import THREADS, group_seeds

        search(
            plan, info, group_seeds(plan.nest, found, info, is_alone=is_alone), most_threads=0 if is_alone else THREADS
        )
    elif found is not None:
        search(plan, info, product_seeds(plan.nest, found, info), partial(product_variants, plan.nest, found, info))
    else:
        search(plan, info, seeds(plan.nest, info))
    return plan.nest, plan.moves
