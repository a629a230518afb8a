"""Search a few schedules of a nest, without measuring, for that which is expected to take least."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Final

from zyx.errors import ScheduleError
from zyx.estimate import estimate_below
from zyx.lowering.arrays import arrays_of, local_bytes
from zyx.lowering.thread_axes import group_shape
from zyx.schedule.apply import apply
from zyx.schedule.bound import least_seconds
from zyx.schedule.private_arrays import keep_arrays_small
from zyx.schedule.seeds.processors import neighbours
from zyx.schedule.spec import Spec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zyx.backend.info import DeviceInfo
    from zyx.nest.data import Nest
    from zyx.schedule.plan import Plan

#: Schedules that are looked at, at most: each takes about a millisecond.
_MOST: Final = 24
#: The part of an estimate that another has to be less than to be the lesser one.
_LESS: Final = 0.95
#: How many times the least that a kernel can take its estimate may be for no more schedules to be looked at.
_NEAR: Final = 1.1


def search(
    plan: Plan,
    info: DeviceInfo,
    specs: Iterable[Spec | Plan],
    variants: Callable[[Spec], Iterable[Spec]] | None = None,
    *,
    most_threads: int = 0,
) -> None:
    """Schedule the nest of `plan` by the best of `specs`, of the variants of that, and of the neighbours of those.

    Args:
        plan: A plan whose ranges are simplified. It stays as it is where no spec does.
        info: The device.
        specs: The likeliest first; or plans for the nest of `plan` that are written already.
        variants: Returns what to look at beside the best one of `specs`.
        most_threads: Threads that a group may have; 0 for as many as the device allows.
    """
    looked_at: dict[Spec | Plan, Plan | None] = {}
    best: Spec | Plan | None = None
    shortest = math.inf

    def look(spec: Spec | Plan) -> bool:
        """Look at a spec, and return whether nothing can be much better."""
        nonlocal best, shortest
        if spec in looked_at:
            return False
        try:
            other = applied(plan, spec, info, most_threads)
            found = estimate_below(other.nest, info, _LESS * shortest)
        except ScheduleError:
            looked_at[spec] = None
            return False
        looked_at[spec] = other
        if found is None:
            return False
        if found.seconds < _LESS * shortest:
            best, shortest = spec, found.seconds
        return found.seconds <= _NEAR * least_seconds(found, plan.nest)

    is_near = any(look(spec) for spec in specs)
    if isinstance(best, Spec) and variants is not None and not is_near:
        is_near = any(look(spec) for spec in variants(best))
    start: Spec | None = None
    while not is_near and isinstance(best, Spec) and best is not start and len(looked_at) < _MOST:
        start = best
        around = itertools.islice(neighbours(plan.nest, start), _MOST - len(looked_at))
        is_near = any(look(spec) for spec in around)
    chosen = None if best is None else looked_at[best]
    if chosen is not None:
        plan.become(chosen)


def applied(plan: Plan, spec: Spec | Plan, info: DeviceInfo, most_threads: int = 0) -> Plan:
    """Return a copy of `plan` that is scheduled as a spec, or a plan for its nest, says.

    Raises:
        ScheduleError: The spec does not fit the nest, or takes more than a group has.
    """
    other = plan.copy()
    if isinstance(spec, Spec):
        apply(other, spec, info)
    else:
        other.nest, other.moves = spec.nest, [*plan.moves, *spec.moves]
    if not isinstance(spec, Spec) or not spec.staged:  # the arrays of which are wanted
        keep_arrays_small(other, info)
    if not has_room(other.nest, info, most_threads):
        raise ScheduleError("this takes more threads, or local memory, than a group has")
    return other


def has_room(nest: Nest, info: DeviceInfo, most_threads: int = 0) -> bool:
    """Whether a grid of the device has so many groups, and a group so many threads and the local memory for them."""
    found = arrays_of(nest)
    sizes = group_shape([axis[0].size for axis in found.axes] if found is not None else [])
    most = most_threads or info.max_group_threads
    fits = len(sizes) <= len(info.max_group_shape) and all(map(int.__le__, sizes, info.max_group_shape))
    fits = fits and math.prod(range_.size for range_ in nest.grid) <= math.prod(info.max_groups)
    return fits and math.prod(sizes) <= most and local_bytes(nest) <= info.local_bytes
