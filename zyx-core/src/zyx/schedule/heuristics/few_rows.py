"""Schedules for products of few rows and many columns of long lines: threads that share a line use it for all rows.

    c[i, j] = sum(k) of x[i, k] * w[j, k]       i < 4;  j = j.0 groups, j.1 < 2 written out, j.2 < 8 threads;
                                                k = k.0 loop, k.1 < 32 threads, k.2 < 8 vectors

So every element of w is loaded once, side by side, as in a product with one vector. Blocks of results, as large
products have them, would compute as if there were 16 rows or more, and read pieces of lines.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from zyx.ir.accesses import step_along
from zyx.ir.nest import Compute, Kind
from zyx.ir.powers import previous_power
from zyx.schedule.heuristics.shared_reductions import lanes_along, share_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend.info import DeviceInfo
    from zyx.ir.expr import Range, Read
    from zyx.ir.nest import Nest
    from zyx.schedule.contraction import Contraction
    from zyx.schedule.plan import Plan

#: Most rows for which threads share each column of a product, and how many columns keep a unit busy.
FEW_ROWS: Final = 8
COLUMNS_OF_A_UNIT: Final = 4
#: Most numbers that a thread adds up to, and fewest points of a line.
_MOST_ACCUMULATORS: Final = 32
_SHORTEST_LINE: Final = 64


def schedule_few_rows(plan: Plan, found: Contraction, info: DeviceInfo) -> bool:
    """Schedule the nest of `plan`, whose sum of products is `found`, if it is of few rows, and of lines of memory.

    Returns:
        Whether it is; if not, the plan is as it was.
    """
    if not found.is_by_results or len(found.reads) != 2:
        return False
    x, y = found.reads
    sides = found.sides(x, y)
    for rows, columns, lines in (sides.rows, sides.columns, y), (sides.columns, sides.rows, x):
        depth = _line(sides.depth, lines)
        if depth is not None and _are_few(rows, columns, info):
            break
    else:
        return False
    lanes = lanes_along(plan.nest, depth, info)
    several = previous_power(max(1, _MOST_ACCUMULATORS // (lanes * _count(rows))))
    while several > 1 and _count(columns) < several * COLUMNS_OF_A_UNIT * info.units:
        several //= 2
    written_out = [*rows]
    if several > 1:
        written_out.insert(0, plan.split_masked(columns[-1], several)[1])
    for range_ in written_out:
        plan.mark(range_, Kind.UNROLL)
    value = found.statement.value.number
    parallel = [range_ for range_ in _sum(plan.nest, value).value.ranges if range_ not in written_out]
    share_rows(plan, parallel, [depth], info, is_alone=True)
    reduced = _sum(plan.nest, value).reduced
    vectors = [range_ for range_ in reduced if plan.nest.kind(range_) is Kind.VECTOR]
    plan.order([*(range_ for range_ in reduced if range_ not in vectors), *written_out, *vectors])
    return True


def _line(depth: Sequence[Range], read: Read) -> Range | None:
    """Return the range of the sum that `read` goes along element by element, if it is long."""
    return next((r for r in depth if step_along(read.index, r) == 1 and r.size >= _SHORTEST_LINE), None)


def _are_few(rows: Sequence[Range], columns: Sequence[Range], info: DeviceInfo) -> bool:
    """Whether the results are of few rows, and of columns enough for all units."""
    return 1 < _count(rows) <= FEW_ROWS and _count(columns) >= COLUMNS_OF_A_UNIT * info.units


def _count(ranges: Sequence[Range]) -> int:
    return math.prod(range_.size for range_ in ranges)


def _sum(nest: Nest, number: int) -> Compute:
    return next(s for s in nest.statements if isinstance(s, Compute) and s.value.number == number)
