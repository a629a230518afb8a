"""Schedules for devices whose groups have several threads, of every family.

Imported where there is such a device, with all that only these need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.schedule.plan import Plan
from zyx.schedule.seeds.implicit_gemm import join_sides
from zyx.schedule.seeds.register_tiles import register_tile_seeds
from zyx.schedule.seeds.scans import scan_seeds
from zyx.schedule.seeds.skinny_products import skinny_product_seeds
from zyx.schedule.seeds.tensor_cores import tensor_core_seeds
from zyx.schedule.seeds.thread_tiles import thread_tile_seeds
from zyx.schedule.seeds.threads import THREADS, thread_seeds
from zyx.schedule.seeds.transpositions import transposition_seeds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zyx.backend.info import DeviceInfo
    from zyx.nest.data import Nest
    from zyx.schedule.contraction import Contraction
    from zyx.schedule.spec import Spec

__all__ = ["THREADS", "group_seeds"]


def group_seeds(nest: Nest, found: Contraction | None, info: DeviceInfo, *, is_alone: bool) -> Iterator[Spec | Plan]:
    """Yield schedules for a nest whose ranges are simplified.

    Args:
        nest: The nest.
        found: The sum of products in it, if there is one.
        info: The device.
        is_alone: As `zyx.schedule.choose.choose_schedule` takes it.
    """
    can_meet = is_alone or info.meets_in_branches
    if found is not None:
        if can_meet and is_alone:
            yield from skinny_product_seeds(nest, found, info)
        joined = Plan(nest)
        whole = join_sides(joined, found)
        by_warps = [*tensor_core_seeds(joined, whole, info)] if can_meet else []
        yield from by_warps
        if is_alone and not by_warps:
            yield from register_tile_seeds(joined, whole, info)
            yield from thread_tile_seeds(nest, found, info)
    if is_alone:
        yield from scan_seeds(nest, info, can_meet=can_meet)
        if can_meet:
            yield from transposition_seeds(nest, info)
    yield from thread_seeds(nest, info, can_meet=can_meet, most=0 if is_alone else THREADS)
