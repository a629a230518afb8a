"""Schedules for sums of products with few rows or short sums on machines with many threads: some results a thread.

    c[n, o, y, x] = sum(i, ky, kx) of image[n, i, y + ky, x + kx] * weight[o, i, ky, kx]

Where there are many points (y, x), a thread takes a few of them, and several o at each: every element of the image is
used for all these o, and every weight for all these points. Neighbouring threads have neighbouring points: they read
and store what lies side by side, and the same weights.

    n groups;  o = groups, 2 written out, 4 written out;  y+x = 2 written out, groups, 128 threads;
    i = loop, 8 loop;  ky, kx repeated

The weights for 8 of i are copied to local memory first, where a thread loads vectors of them along o.

Tiles that the threads of a group copy together (`zyx.schedule.seeds.register_tiles`) take fewer loads, but have
16 rows at least, and pay for what is missing to that, and to the part of a sum that is copied at a time.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zyx.arithmetic.parts import even_length
from zyx.errors import ScheduleError
from zyx.nest.accesses import reads_in, stride_along
from zyx.nest.data import Compute, Kind
from zyx.schedule.moves.values import conversion_of
from zyx.schedule.plan import Plan
from zyx.schedule.seeds.copies import stage_factor
from zyx.schedule.seeds.threads import part_of_a_point

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zyx.backend.info import DeviceInfo
    from zyx.nest import expr as e
    from zyx.nest.data import Nest
    from zyx.nest.expr import Range
    from zyx.schedule.contraction import Contraction

#: Threads of a group: of larger groups, fewer have room on a processor, and more of them are idle at the end.
_THREADS: Final = 128
#: So many of them leave few threads of a last group idle: other ranges are groups then.
_MANY_POINTS: Final = 1 << 12
#: Neighbouring threads read elements no farther apart than this.
_NEAR_BYTES: Final = 16
#: Rows and points of a thread, and most multiplications that are written out.
_ROWS: Final = (16, 32, 8)
_POINTS: Final = (1, 2)
_WRITTEN_OUT: Final = 640
#: Rows whose weights are one vector, and bytes of weights that are copied at a time.
_LANES: Final = 4
_COPIED_BYTES: Final = 8192
#: Steps of the sum that are worth a meeting of the threads.
_STEPS: Final = 8


@dataclass(frozen=True, slots=True)
class _Tile:
    """Results of a thread.

    Attributes:
        rows: The range of the rows.
        height: How many of them a thread has.
        points: Ranges that the weights do not depend on, the threads along the last.
        several: How many points a thread has.
    """

    rows: Range
    height: int
    points: Sequence[Range]
    several: int


def thread_tile_seeds(nest: Nest, found: Contraction, info: DeviceInfo) -> Iterator[Plan]:
    """Yield schedules of a nest whose sum of products is `found`, if its neighbouring results lie side by side."""
    kept = found.statement.value.ranges
    if not found.is_by_results or len(found.reads) != 2 or not found.is_native(info):
        return
    neighbour = kept[-1]
    if any(stride_along(store.index, neighbour) != 1 for store in found.stores):
        return
    image = next((read for read in found.reads if _is_near(read, neighbour)), None)
    weight = next((read for read in found.reads if not read.free & neighbour.bit), None)
    if image is None or weight is None:
        return
    of_weight = found.sides(weight, image).rows
    points = [range_ for range_ in kept if found.along(range_) == [image]]
    if not of_weight:
        return
    rows = max(of_weight, key=lambda range_: range_.size)
    heights = dict.fromkeys(even_length(rows.size, most) for most in _ROWS)
    for height, several in itertools.product(heights, _POINTS):
        if height * several <= info.registers // 2:
            plan = Plan(nest)
            _schedule(plan, _Tile(rows, height, points, several), info)
            yield plan


def _schedule(plan: Plan, tile: _Tile, info: DeviceInfo) -> None:
    """Schedule the nest of `plan` for threads with the results of `tile`."""
    rows = tile.rows
    groups: list[Range] = []
    if tile.height < rows.size:
        group, rows = plan.split_masked(rows, tile.height)
        plan.mark(group, Kind.GROUP)
        groups.append(group)
    plan.mark(rows, Kind.UNROLL)
    *outer, inner = tile.points
    while outer and inner.size < _MANY_POINTS:
        try:
            inner = plan.merge(outer[-1], inner)
        except ScheduleError:
            break
        outer.pop()
    several = tile.several
    sizes = [range_.size for range_ in tile.points[len(outer) :]]
    if several > 1:
        unrolled, inner = plan.split_masked(inner, part_of_a_point(sizes, several))
        plan.mark(unrolled, Kind.UNROLL)
    threads = min(_THREADS, info.max_group_threads, info.max_group_shape[0])
    if inner.size > threads:
        group, inner = plan.split_masked(inner, threads)
        plan.mark(group, Kind.GROUP)
    plan.mark(inner, Kind.LOCAL)
    statement = _sum(plan)
    for range_ in statement.value.ranges:
        if plan.nest.kind(range_) is Kind.LOOP:
            plan.mark(range_, Kind.GROUP)
    written_out = tile.height * several
    for range_ in reversed(statement.reduced):
        written_out *= range_.size
        if written_out > _WRITTEN_OUT:
            break
        plan.mark(range_, Kind.REPEAT)
    _copy_weights(plan, rows, inner.size, info)
    # Neighbouring groups have the same points: what one of them loads of the image is in the last cache for the others.
    # All results take one step of the sum, then the next: so little is kept of it.
    others = {Kind.GROUP: 0, Kind.REPEAT: 2, Kind.UNROLL: 3}
    ranges = [range_ for range_ in plan.nest.ranges if range_ not in groups]
    ranges.sort(key=lambda range_: others.get(plan.nest.kind(range_), 1))
    number = sum(plan.nest.kind(range_) is Kind.GROUP for range_ in ranges)
    plan.order([*ranges[:number], *groups, *ranges[number:]])


def _sum(plan: Plan) -> Compute:
    (statement,) = (s for s in plan.nest.statements if isinstance(s, Compute) and s.op is not None)
    return statement


def _copy_weights(plan: Plan, rows: Range, threads: int, info: DeviceInfo) -> None:
    """Let the threads of a group copy the weights of its rows to local memory, for some steps of the sum at a time."""
    statement = _sum(plan)
    weight = next(read for read in reads_in(statement) if read.index.free & rows.bit)
    summed = [range_ for range_ in statement.reduced if weight.index.free & range_.bit]
    nbytes = rows.size * conversion_of(statement, weight).dtype.itemsize
    copied: list[Range] = []
    steps = 1
    for range_ in reversed(summed):
        most = _COPIED_BYTES // (nbytes * steps)
        if range_.size > most:
            part = max(part for part in range(1, max(most, 1) + 1) if range_.size % part == 0)
            if steps * part < _STEPS:  # what is past the end is written out once more, which is little here
                part = min(most, _STEPS)
            if part > 1:
                copied.append(plan.split(range_, part)[1])
            break
        steps *= range_.size
        copied.append(range_)
    if math.prod(range_.size for range_ in copied) * rows.size < threads or info.local_bytes < 2 * _COPIED_BYTES:
        return
    side = [rows]
    lanes = math.gcd(rows.size, _LANES)
    if 1 < lanes < rows.size:
        side = list(plan.split_masked(rows, lanes))
    *ranges, vector = stage_factor(plan, repr(_sum(plan).value), side, [*reversed(copied), *side], converted=True)
    if lanes > 1:
        plan.mark(vector, Kind.VECTOR)
    else:
        ranges.append(vector)
    rest = functools.reduce(plan.merge, ranges)
    rest, together = plan.split_masked(rest, threads)
    plan.mark(together, Kind.LOCAL)
    plan.mark(rest, Kind.UNROLL)


def _is_near(read: e.Read, range_: Range) -> bool:
    step = stride_along(read.index, range_)
    return step is not None and 0 < abs(step) * read.dtype.itemsize <= _NEAR_BYTES
