"""Copies of the factors of a sum of products, by the threads of a group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.ir.nest import Compute
from zyx.schedule.accesses import reads_in
from zyx.schedule.moves import Merge, Stage
from zyx.schedule.moves.ranges import find_statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.ir.expr import Range
    from zyx.schedule.heuristics.plan import Plan


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
