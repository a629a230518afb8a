"""Keep the arrays of a thread within what a device can have: compute values anew where they are read.

    v1[r0, r1, r2] = exp(p1[..] - v0[r0])      r0 < 64 threads;  r1, r2 loops: an array of all their points a thread
    v2[r0] = sum(r1, r2) of v1[r0, r1, r2]
    p0[..] = v1[r0, r1, r2] / v2[r0]           =>    exp is computed twice, and nothing is kept

The largest go first. What was combined cannot be computed anew, and stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.errors import ScheduleError
from zyx.ir.nest import Compute
from zyx.schedule.moves import Inline
from zyx.schedule.storage import InArray, place_values
from zyx.schedule.tree import build_tree

if TYPE_CHECKING:
    from zyx.backend.info import DeviceInfo
    from zyx.ir.expr import Value
    from zyx.ir.nest import Nest
    from zyx.schedule.heuristics.plan import Plan

#: Bytes that no schedule comes near, so that nothing needs to be looked at.
_UNBOUNDED: Final = 1 << 40


def keep_arrays_small(plan: Plan, info: DeviceInfo) -> None:
    """Leave the threads of `plan` no more bytes of arrays than a device can have, if that can be."""
    if info.private_bytes >= _UNBOUNDED:
        return
    while sum((sizes := _private_bytes(plan.nest)).values()) > info.private_bytes:
        plain = [s.value for s in plan.nest.statements if isinstance(s, Compute) and s.op is None]
        largest = max((value for value in plain if sizes.get(value)), key=lambda value: sizes[value], default=None)
        if largest is None:
            return
        plan.do(Inline(repr(largest)))


def _private_bytes(nest: Nest) -> dict[Value, int]:
    """Return the size of each array that a thread has to itself."""
    try:
        places = place_values(nest, build_tree(nest))
    except ScheduleError:
        return {}  # a schedule that lowering refuses
    return {
        value: place.length * value.dtype.itemsize
        for value, place in places.items()
        if isinstance(place, InArray) and not place.shared
    }
