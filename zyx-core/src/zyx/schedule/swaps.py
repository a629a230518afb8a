"""Let threads that run in step combine what they have without local memory, where the device can."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zyx.lowering.combine_threads import swapped_as
from zyx.nest.accesses import combined_ranges
from zyx.nest.data import Store
from zyx.schedule.moves import SwapReduce

if TYPE_CHECKING:
    from zyx.backend.info import DeviceInfo
    from zyx.nest.expr import Range
    from zyx.schedule.plan import Plan


def swap_along(plan: Plan, threads: Range, info: DeviceInfo) -> None:
    """Let the threads along a range swap values, if the device swaps those of every reduction and scan over it."""
    together = math.gcd(info.subgroup_size, threads.size)
    reductions = [s for s in plan.nest.statements if not isinstance(s, Store) and threads in combined_ranges(s)]
    if together > 1 and reductions and all(swapped_as(s.value.dtype) in info.swaps for s in reductions):
        plan.do(SwapReduce(threads.label, together))
