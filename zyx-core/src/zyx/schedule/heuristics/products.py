"""What schedules for products of matrices have in common: which range is what, and copies of the factors.

c[i, j] = sum(k) of a[i, k] * b[k, j]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zyx.ir.nest import Compute, Store
from zyx.schedule.accesses import reads_in, stride_along
from zyx.schedule.heuristics.plan import serial_ranges
from zyx.schedule.moves import Merge, Stage
from zyx.schedule.moves.ranges import find_statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.ir import expr as e
    from zyx.ir.expr import Range
    from zyx.ir.nest import Nest
    from zyx.schedule.heuristics.plan import Plan

#: A range of so many points makes a side of any block.
_LONG: Final = 128


@dataclass(frozen=True, slots=True)
class Matrices:
    """The ranges of a product of matrices; of several that could be one, the longest is it.

    Attributes:
        sides: Rows and columns. The results of neighbouring columns lie side by side, if those of either do.
        reads: Their factors.
        depth: What is summed up.
        others: Other ranges of the results, and of the sum.
    """

    sides: tuple[Range, Range]
    reads: tuple[e.Read, e.Read]
    depth: Range
    others: tuple[tuple[Range, ...], tuple[Range, ...]]


def find_matrices(nest: Nest, statement: Compute, x: e.Read, y: e.Read) -> Matrices | None:
    """Return what is what in a sum of products of `x` and `y`.

    None if no factor goes along the rows alone, or none along the columns; if nothing is summed that both go along; or
    if a statement goes over the results in order.
    """
    kept = statement.value.ranges
    if not all(r in s.order and r not in serial_ranges(s) for r in kept for s in nest.statements):
        return None
    of_x = [range_ for range_ in kept if x.index.free & range_.bit and not y.free & range_.bit]
    of_y = [range_ for range_ in kept if y.index.free & range_.bit and not x.free & range_.bit]
    summed = [range_ for range_ in statement.reduced if x.index.free & y.index.free & range_.bit]
    if not of_x or not of_y or not summed:
        return None
    stores = [store for store in nest.statements if isinstance(store, Store)]
    pairs = [(_side(of_x, stores), x), (_side(of_y, stores), y)]
    if any(stride_along(store.index, pairs[0][0]) == 1 for store in stores):
        pairs.reverse()  # a thread has neighbouring results in a row
    (rows, left), (columns, right) = pairs
    depth = max(summed, key=_size)
    others = tuple(r for r in kept if r not in (rows, columns)), tuple(r for r in statement.reduced if r is not depth)
    return Matrices((rows, columns), (left, right), depth, others)


def stage_factor(
    plan: Plan,
    value: str,
    side: Sequence[Range],
    tile: Sequence[Range],
    *,
    skew: tuple[str, str, int] | None = None,
    converted: bool = False,
) -> list[Range]:
    """Copy the factor of the sum `value` that goes along one of `side`; return the ranges of the copy, those of `tile`.

    `skew` and `converted` are those of `Stage`.
    """
    reads = reads_in(find_statement(plan.nest, value))
    read = next(r for r in reads if any(r.index.free & range_.bit for range_ in side))
    same = [other for other in reads if other.param is read.param]
    place = same.index(read) if len(same) > 1 else None
    plan.do(Stage(value, read.param.number, tuple(range_.label for range_ in tile), place, skew, converted))
    user = find_statement(plan.nest, value)
    copy = plan.nest.statements[plan.nest.statements.index(user) - 1]
    assert isinstance(copy, Compute)
    return list(copy.value.ranges[-len(tile) :])


def merge(plan: Plan, ranges: Sequence[Range]) -> str:
    """Make one range of neighbours, and return its label."""
    label = ranges[0].label
    for range_ in ranges[1:]:
        plan.do(Merge(label, range_.label))
        label = f"{label}+{range_.label}"
    return label


def _side(ranges: Sequence[Range], stores: Sequence[Store]) -> Range:
    """Return the longest range, or one almost as long along which results lie side by side, as what they need may."""
    longest = max(ranges, key=_size)
    neighbours = [r for r in ranges if any(stride_along(store.index, r) == 1 for store in stores)]
    return next((r for r in neighbours if r.size >= min(_LONG, longest.size // 2)), longest)


def _size(range_: Range) -> int:
    return range_.size
