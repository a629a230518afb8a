"""Count the memory of threads and groups, and keep the arrays of a thread within what a device can have.

Values are computed anew where they are read:

    v1[r0, r1, r2] = exp(p1[..] - v0[r0])      r0 < 64 threads;  r1, r2 loops: an array of all their points a thread
    v2[r0] = sum(r1, r2) of v1[r0, r1, r2]
    p0[..] = v1[r0, r1, r2] / v2[r0]           =>    exp is computed twice, and nothing is kept

The largest go first. What was combined cannot be computed anew, and stays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zyx.errors import ScheduleError
from zyx.ir.nest import Compute, Kind, Scan, Store
from zyx.schedule.accesses import combined_ranges
from zyx.schedule.moves import Inline
from zyx.schedule.storage import InArray, place_values
from zyx.schedule.thread_axes import thread_axes
from zyx.schedule.tree import build_tree

if TYPE_CHECKING:
    from zyx.backend.info import DeviceInfo
    from zyx.ir.expr import Value
    from zyx.ir.nest import Nest
    from zyx.schedule.heuristics.plan import Plan
    from zyx.schedule.thread_axes import Axis

_WRITTEN_OUT: Final = (Kind.UNROLL, Kind.REPEAT, Kind.VECTOR)


def keep_arrays_small(plan: Plan, info: DeviceInfo) -> None:
    """Leave the threads of `plan` no more bytes of arrays than a device can have, and than pay, if that can be.

    The only thread of a group has the local memory for its arrays, others have memory of their own.
    """
    while True:
        found = _arrays(plan.nest)
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


def local_bytes(nest: Nest) -> int:
    """Return the bytes of local memory that all statements of a nest take together, those of peeled points as well.

    They are arrays that threads read from each other, and what reductions and scans over threads pass on.
    """
    found = _arrays(nest)
    if found is None:
        return 0
    total = sum(found.shared.values())
    threads = math.prod(axis[0].size for axis in found.axes)
    for statement in nest.statements:
        combined = combined_ranges(statement)
        local = [range_ for range_ in combined if nest.kind(range_) is Kind.LOCAL]
        if isinstance(statement, Store) or not local:
            continue
        # A thread passes on one value, but a scan along threads one for each time that they stand along it again.
        inner = combined if isinstance(statement, Compute) else combined[combined.index(local[0]) :]
        kept = [r for r in statement.order if r not in inner and nest.kind(r) in _WRITTEN_OUT]
        together = math.prod(math.gcd(nest.swapping.get(range_, 1), range_.size) for range_ in combined)
        times = 2 if isinstance(statement, Scan) and together == 1 else 1
        values = times * max(1, threads // together) * math.prod(range_.size for range_ in kept)
        total += (
            0 if together == math.prod(range_.size for range_ in local) else values * statement.value.dtype.itemsize
        )
    return total


@dataclass(frozen=True, slots=True)
class _Arrays:
    """The bytes of the arrays of a nest.

    Attributes:
        own: Of those that each thread has to itself.
        shared: Of those that the threads of a group share.
        axes: Along which these threads stand.
    """

    own: dict[Value, int]
    shared: dict[Value, int]
    axes: list[Axis]


def _arrays(nest: Nest) -> _Arrays | None:
    """Return the arrays of a nest, None of a schedule that lowering refuses."""
    try:
        places = place_values(nest, build_tree(nest))
        axes = thread_axes(nest)
    except ScheduleError:
        return None
    sizes: tuple[dict[Value, int], dict[Value, int]] = {}, {}
    for value, place in places.items():
        if isinstance(place, InArray):
            sizes[place.shared][value] = place.length * value.dtype.itemsize
    return _Arrays(*sizes, axes)
