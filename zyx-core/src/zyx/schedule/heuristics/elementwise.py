"""Share the points that nothing is combined over out to groups of threads, whatever the shape of the results.

    elementwise over f32[4270969, 7], broadcast    r0+r1 = groups, 256 threads, vectors of 4;  r0 = (r0+r1) // 7
    the last two axes of f16[9000, 3, 7, 5] swapped    r0+r1+r2 = groups, 8 written out, 256 threads

All these ranges count as one number, of which each group has as many neighbouring points as any other: short or odd
axes leave no threads idle, and those of one row end where those of the next one begin. What is read by rows finds its
place by quotients and remainders of constants.

1. Where what is accessed lies side by side along that number, or is small, a thread has a vector of it.
2. Otherwise, of what only moves, a thread has several points, neighbours of those of the neighbouring threads each
   time, and reads them all before it stores the first: so more bytes are on their way from memory.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from zyx.errors import ScheduleError
from zyx.ir.accesses import below, expressions_of, reads_in
from zyx.ir.nest import Kind, Store
from zyx.ir.powers import previous_power
from zyx.schedule.facts import whole_lanes
from zyx.schedule.moves import Reorder, Stage
from zyx.schedule.moves.ranges import statement_labels
from zyx.schedule.moves.values import reads_of_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend.info import DeviceInfo
    from zyx.ir.expr import Range
    from zyx.ir.nest import Nest
    from zyx.schedule.plan import Plan

#: Threads of a group, if the device allows as many.
_THREADS: Final = 256
#: Work by vectors, or several points a thread, leaves each thread that a device can have so many of them.
_VECTORS_OF_A_THREAD: Final = 1
#: Positions that are divided fit 32 bits: divisions of more are slow.
_MOST_POINTS: Final = 1 << 31
#: Bytes that a thread has on their way from memory, if that takes no more points than these, nor longer statements.
_BYTES_ON_THEIR_WAY: Final = 16
_MOST_POINTS_OF_A_THREAD: Final = 8
_LONGEST_STATEMENT: Final = 96
#: Fewest rows of one point of a thread: that of the last one may have none of them.
_LEAST_ROWS: Final = 4


def share_out(plan: Plan, parallel: Sequence[Range], info: DeviceInfo) -> None:
    """Make groups and threads of the ranges `parallel`, which all statements of `plan` have and none combines over."""
    sizes = [range_.size for range_ in parallel]
    *outer, inner = _merged(plan, parallel)
    for range_ in outer:
        plan.mark(range_, Kind.GROUP)
    threads = min(_THREADS, info.max_group_threads, info.max_group_shape[0])
    at_once = info.units * info.max_group_threads * _VECTORS_OF_A_THREAD
    lanes = whole_lanes(plan.nest, inner, info) if math.prod(sizes) >= at_once else 1
    points = _points_of_a_thread(plan.nest, inner) if lanes == 1 and not outer else 1
    several = None
    if points > 1 and inner.size >= at_once * points:
        several, inner = plan.split(inner, part_of_a_point(sizes, points))
        plan.mark(several, Kind.UNROLL)
    if inner.size <= threads:
        plan.mark(inner, Kind.LOCAL)
    else:
        group, inner = plan.split(inner, threads * lanes)
        plan.mark(group, Kind.GROUP)
        if lanes > 1:
            inner, vector = plan.split(inner, lanes)
            plan.mark(vector, Kind.VECTOR)
        plan.mark(inner, Kind.LOCAL)
    if several is not None:
        _read_first(plan, several)


def part_of_a_point(sizes: Sequence[int], points: int) -> int:
    """Return how far apart the points of a thread are, of as many as ranges of `sizes` have.

    That is a number of whole rows, the longest there are: their places in these are the same then, and computed once.
    """
    row = math.prod(sizes)
    for size in sizes:
        row //= size
        rows = math.prod(sizes) // row
        if rows >= points * _LEAST_ROWS:
            return -(-rows // points) * row
    return -(-math.prod(sizes) // points)


def _merged(plan: Plan, parallel: Sequence[Range]) -> list[Range]:
    """Return `parallel` with as many of the inner ranges merged into one as can be."""
    for statement, label in statement_labels(plan.nest).items():
        wanted = (*parallel, *(range_ for range_ in statement.order if range_ not in parallel))
        if wanted != statement.order:
            try:
                plan.do(Reorder(label, tuple(range_.label for range_ in wanted)))
            except ScheduleError:
                return list(parallel)
    return plan.merge_inner(parallel, lambda outer, inner: outer.size * inner.size < _MOST_POINTS)


def _points_of_a_thread(nest: Nest, range_: Range) -> int:
    """Return how many points a thread is to have, of a nest that moves elements one by one; else 1."""
    if len(nest.statements) != 1:
        return 1
    (statement,) = nest.statements
    is_simple = isinstance(statement, Store) and statement.combine is None and not statement.serial
    if not is_simple or statement.order != (range_,) or len(expressions_of(statement)) > _LONGEST_STATEMENT:
        return 1
    reads = [read for read in reads_in(statement) if read.free & range_.bit]
    nbytes = sum(read.dtype.itemsize for read in reads if read.mask is None)
    nbytes += max((read.dtype.itemsize for read in reads if read.mask is not None), default=0)  # of parts, one is read
    wanted = min(_BYTES_ON_THEIR_WAY // max(nbytes, 1), _MOST_POINTS_OF_A_THREAD) if nbytes else 1
    return previous_power(wanted)


def _read_first(plan: Plan, several: Range) -> None:
    """Let a thread read what it needs for all points of `several` before it computes the first.

    Compilers leave a load behind a store that is written in front of it, as both might be of one place.
    """
    while True:
        (statement,) = (s for s in plan.nest.statements if isinstance(s, Store))
        reads = [read for read in reads_of_value(statement) if read.free & several.bit]
        if not reads:
            return
        known = set(reads)
        read = next(r for r in reads if known.isdisjoint(below(r.index)))
        same = [other for other in reads_of_value(statement) if other.param is read.param]
        plan.do(Stage("s0", read.param.number, (), same.index(read)))
