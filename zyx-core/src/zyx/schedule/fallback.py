"""Schedules of a nest, from the one that is best to the one that always works.

What is chosen for speed may not do: lowering refuses it, it takes more local memory than there is, a compiler does not
take it. Then the next simpler schedule is taken, for all nests of the launch:

1. what is chosen, by what the nest computes;
2. loops, vectors and threads as for anything else: no tiles of products, and no threads that meet or share memory;
3. groups, and where there are some threads, along the ranges that no statement combines over; the rest is loops;
4. the nest as it is, in one thread.

What even the last one does not fit, such as arrays that no thread may have, is divided: see `zyx.runtime.planner`.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final, NamedTuple

from zyx.errors import ScheduleError
from zyx.nest.accesses import serial_ranges
from zyx.nest.data import Kind
from zyx.schedule.apply import parallel_ranges
from zyx.schedule.choose import choose_schedule
from zyx.schedule.plan import Plan, simplify_ranges
from zyx.schedule.private_arrays import keep_arrays_small
from zyx.schedule.search import applied
from zyx.schedule.seeds.processors import seeds
from zyx.schedule.seeds.threads import THREADS, thread_seeds

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.backend.info import DeviceInfo
    from zyx.nest.data import Nest
    from zyx.schedule.moves import Move

#: Threads of a group that need nothing from each other.
_THREADS: Final = 64


class Scheduler(NamedTuple):
    """A way to schedule nests.

    Attributes:
        name: What it is, for people.
        choose: Returns a scheduled nest and the moves that led there, from a nest, the device, and whether the nest is
            alone in its launch.
    """

    name: str
    choose: Callable[[Nest, DeviceInfo, bool], tuple[Nest, list[Move]]]


def _chosen(nest: Nest, info: DeviceInfo, is_alone: bool) -> tuple[Nest, list[Move]]:
    return choose_schedule(nest, info, is_alone=is_alone)


def _general(nest: Nest, info: DeviceInfo, is_alone: bool) -> tuple[Nest, list[Move]]:
    plan = Plan(nest)
    simplify_ranges(plan)
    most = 0 if is_alone else THREADS
    has_threads = info.max_group_threads > 1
    specs = thread_seeds(plan.nest, info, can_meet=False, most=most) if has_threads else seeds(plan.nest, info)
    for spec in specs:
        with contextlib.suppress(ScheduleError):
            plan = applied(plan, spec, info, most)
            break
    return plan.nest, plan.moves


def _shared_out(nest: Nest, info: DeviceInfo, is_alone: bool) -> tuple[Nest, list[Move]]:
    plan = Plan(nest)
    # What all statements have comes first in all of them, so that little has to be kept between them.
    combined = {range_ for statement in nest.statements for range_ in serial_ranges(statement)}
    plan.order(
        [r for r in nest.ranges if r in combined or not all(r in statement.order for statement in nest.statements)]
    )
    ranges = parallel_ranges(plan.nest.statements)
    threads = min(_THREADS, info.max_group_threads, info.max_group_shape[0])
    for number, range_ in enumerate(ranges):
        if number == len(ranges) - 1 and threads > 1 and range_.size >= threads:
            group, local = plan.split(range_, threads)
            plan.mark(local, Kind.LOCAL)
            plan.mark(group, Kind.GROUP)
        else:
            plan.mark(range_, Kind.GROUP)
    keep_arrays_small(plan, info)
    return plan.nest, plan.moves


def _as_it_is(nest: Nest, info: DeviceInfo, is_alone: bool) -> tuple[Nest, list[Move]]:
    return nest, []


#: From the best to the simplest.
SCHEDULES: Final = (
    Scheduler("the schedule chosen for what it computes", _chosen),
    Scheduler("loops and threads as for anything else", _general),
    Scheduler("outer ranges shared out", _shared_out),
    Scheduler("no schedule", _as_it_is),
)
