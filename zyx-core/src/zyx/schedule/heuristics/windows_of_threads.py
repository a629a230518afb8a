"""Let a thread have neighbouring windows where these overlap, and load what they have in common once.

    p0[c, y, x] = sum(ky, kx) of p1[c, y + ky, x + kx] * p2[c, ky, kx]      ky, kx < 3

    y = y.0, y.1 < 4 written out;  ky, kx written out: 6 x 3 elements are loaded for 4 results, instead of 36

Depthwise convolutions and pooling are such sums. Windows that neighbouring threads have overlap too, but these load
side by side what is in the caches anyway.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from zyx.ir.accesses import expressions_of, reads_in, stride_along
from zyx.ir.nest import Compute, Kind, Scan, Store
from zyx.schedule.moves import Split

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend.info import DeviceInfo
    from zyx.ir.expr import Range
    from zyx.ir.nest import Nest
    from zyx.schedule.plan import Plan

#: How many windows a thread may have, the best number first, and points of all of them that are written out.
_WINDOWS: Final = (4, 5, 6, 3, 7, 2)
_WRITTEN_OUT: Final = 1 << 7
#: Points of a loop that is written out anyway, and how long all that may be, in expressions.
_SHORT: Final = 32
_LENGTH: Final = 640
#: What part of its loads a thread must be spared.
_SPARED: Final = 0.25


def widen_windows(plan: Plan, parallel: Sequence[Range], info: DeviceInfo) -> list[Range]:
    """Give threads several windows where that spares loads, and return what is left of `parallel` to share out.

    Other short loops of a thread are written out as well: all it loads is on its way at once, and stays in registers.
    """
    found = _overlap(plan.nest, parallel)
    if found is not None:
        statement, rows, step, size = found
        taps = math.prod(range_.size for range_ in statement.reduced)
        points = math.prod(range_.size for range_ in parallel)
        for count in _WINDOWS:
            spared = 1 - ((count - 1) * step + size) / (count * size)
            is_even = rows.size % count == 0  # what exists for some windows only would be loaded for each
            is_busy = points >= info.units * info.max_group_threads * count
            if is_even and is_busy and taps * count <= _WRITTEN_OUT and spared >= _SPARED:
                plan.do(Split(rows.label, count))
                outer, inner = plan.range(f"{rows.label}.0"), plan.range(f"{rows.label}.1")
                plan.mark(inner, Kind.UNROLL)
                for range_ in statement.reduced:
                    plan.mark(range_, Kind.REPEAT)
                return [outer if range_ is rows else range_ for range_ in parallel]
    _write_out(plan, parallel)
    return list(parallel)


def _write_out(plan: Plan, parallel: Sequence[Range]) -> None:
    """Write out the loops of a thread if they are short, of reductions that have no others around them."""
    nest = plan.nest
    inside = dict.fromkeys(r for statement in nest.statements for r in statement.order if r not in parallel)
    if any(isinstance(s, Scan) or (isinstance(s, Store) and (s.combine or s.serial)) for s in nest.statements):
        return
    length = 0
    for statement in nest.statements:
        taps = math.prod(range_.size for range_ in statement.order if range_ in inside)
        if taps > _SHORT:
            return
        length += taps * len(expressions_of(statement))
    if length <= _LENGTH:
        for range_ in inside:
            plan.mark(range_, Kind.REPEAT)


def _overlap(nest: Nest, parallel: Sequence[Range]) -> tuple[Compute, Range, int, int] | None:
    """Return (sum, range, step, size): windows of `size` points, each `step` points from the next one along the range.

    Of several ranges, that of the windows that overlap most; threads stand along the last one.
    """
    sums = [statement for statement in nest.statements if isinstance(statement, Compute) and statement.op is not None]
    if len(sums) != 1 or any(isinstance(s, Scan) or (isinstance(s, Store) and s.combine) for s in nest.statements):
        return None
    (statement,) = sums
    best: tuple[Compute, Range, int, int] | None = None
    for read in reads_in(statement):
        for rows in parallel[:-1]:
            far = stride_along(read.index, rows)
            for along in statement.reduced:
                near = stride_along(read.index, along)
                if not far or not near or far % near or not 0 < far // near < along.size:
                    continue
                step = far // near
                if best is None or step * best[3] < best[2] * along.size:
                    best = statement, rows, step, along.size
    return best
