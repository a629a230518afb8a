"""Keep the arrays of a thread within what a device can have.

Values are computed anew where they are read:

    v1[r0, r1, r2] = exp(p1[..] - v0[r0])      r0 < 64 threads;  r1, r2 loops: an array of all their points a thread
    v2[r0] = sum(r1, r2) of v1[r0, r1, r2]
    p0[..] = v1[r0, r1, r2] / v2[r0]           =>    exp is computed twice, and nothing is kept

The largest go first. What was combined cannot be computed anew, and stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.lowering.arrays import arrays_of
from zyx.nest.data import Compute
from zyx.schedule.moves import Inline

if TYPE_CHECKING:
    from zyx.backend.info import DeviceInfo
    from zyx.schedule.plan import Plan


def keep_arrays_small(plan: Plan, info: DeviceInfo) -> None:
    """Leave the threads of `plan` no more bytes of arrays than a device can have, and than pay, if that can be.

    The only thread of a group has the local memory for its arrays, others have memory of their own.
    """
    while True:
        found = arrays_of(plan.nest)
        if found is None or not found.own:
            return
        # Arrays are no registers, but memory: what they are computed from is there as fast a second time.
        limit = min(info.private_bytes, info.registers) if found.axes else info.local_bytes
        if sum(found.own.values()) <= limit:
            return
        plain = [s.value for s in plan.nest.statements if isinstance(s, Compute) and s.op is None]
        own = {value: found.own[value] for value in plain if found.own.get(value)}
        if not own:
            return
        plan.do(Inline(repr(max(own, key=own.__getitem__))))
