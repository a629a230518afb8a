"""Schedules for devices whose groups have several threads: those of a group along one range, whatever a nest does.

    accelerations by the differences of all pairs, f32[1531, 3]
        v0[r0, r2] = sum(r1) of (p[r2, r1] - p[r0, r1])**2      r0 < 1531 groups;  r2 = r2.0 loop, r2.1 < 256 threads;
        v1[r0, r1] = sum(r2) of (p[r2, r1] - p[r0, r1]) * f(v0)     r1 < 3 written out, innermost

Short ranges are written out inside of the threads, so that what is computed for all of their points is computed once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.ir.accesses import serial_ranges
from zyx.ir.nest import Compute, Kind, Scan, Store
from zyx.ir.powers import next_power, previous_power
from zyx.schedule.plan import work_of
from zyx.schedule.seeds import MOST_WRITTEN_OUT, written_out
from zyx.schedule.spec import Cut, Part, Place, Spec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zyx.backend.info import DeviceInfo
    from zyx.ir.expr import Range
    from zyx.ir.nest import Nest

#: Most points of a range that is written out.
_SHORT: Final = 8
#: Threads of a group at first; and how many times as many there may be.
_THREADS: Final = 32
_TIMES: Final = 4


def thread_seeds(nest: Nest, info: DeviceInfo) -> Iterator[Spec]:
    """Yield schedules of a nest without scans or stores in order: threads along each range of what has most work."""
    if any(isinstance(s, Scan) or (isinstance(s, Store) and (s.serial or s.atomic)) for s in nest.statements):
        return
    combined = {range_ for statement in nest.statements for range_ in serial_ranges(statement)}
    heavy = max(nest.statements, key=work_of)
    common = [r for r in nest.statements[-1].order if all(r in s.order for s in nest.statements) and r not in combined]
    most = previous_power(min(info.max_group_threads, info.max_group_shape[0]))
    for along in heavy.order:
        threads = min(_THREADS, most)
        while along.size > _SHORT and threads <= most:
            yield _spec(nest, common, along, threads)
            if threads >= next_power(along.size):
                break
            threads *= _TIMES


def _spec(nest: Nest, common: list[Range], along: Range, threads: int) -> Spec:
    cuts = [Cut(along.label, (Part(threads, Kind.LOCAL),))]
    short: list[Range] = []
    for range_ in reversed(nest.ranges):
        if 1 < range_.size <= _SHORT and range_ is not along and range_ not in common:
            more = [*cuts, Cut(range_.label, (Part(range_.size, _kind(nest, range_)),))]
            if written_out(nest, Spec(tuple(more))) <= MOST_WRITTEN_OUT:
                cuts, short = more, [range_, *short]
    others = [r for r in nest.ranges if r not in short and r is not along and r not in common]
    groups = [Place(range_.label, 0) for range_ in common if range_ is not along]
    groups += [Place(along.label, 0)] if along in common else []
    loops = [Place(range_.label, 0) for range_ in others]
    loops += [Place(along.label, 0)] if along not in common else []
    inner = [Place(range_.label, 1) for range_ in short]
    return Spec(tuple(cuts), (*groups, *loops, Place(along.label, 1), *inner), groups=tuple(groups))


def _kind(nest: Nest, range_: Range) -> Kind:
    is_combined = any(isinstance(s, Compute) and range_ in s.reduced for s in nest.statements)
    return Kind.REPEAT if is_combined else Kind.UNROLL
