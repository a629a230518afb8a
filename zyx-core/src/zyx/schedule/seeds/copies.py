"""Copies of the factors of a product, laid out as its inner loops read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.nest.accesses import reads_in
from zyx.nest.data import Compute
from zyx.schedule.moves import Stage
from zyx.schedule.moves.ranges import find_statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.nest import expr as e
    from zyx.nest.expr import Range
    from zyx.schedule.plan import Plan


def stage_read(
    plan: Plan,
    statement: Compute,
    read: e.Read,
    ranges: Sequence[Range],
    *,
    skew: tuple[str, str, int] | None = None,
    converted: bool = False,
) -> Compute:
    """Let `statement` read from a copy that is laid out along `ranges`, and return what makes the copy.

    `skew` and `converted` are those of `Stage`.
    """
    same = [other for other in reads_in(statement) if other.param is read.param]
    place = same.index(read) if len(same) > 1 else None
    labels = tuple([range_.label for range_ in ranges])
    plan.do(Stage(repr(statement.value), read.param.number, labels, place, skew, converted))
    user = find_statement(plan.nest, repr(statement.value))
    copy = plan.nest.statements[plan.nest.statements.index(user) - 1]
    assert isinstance(copy, Compute)
    return copy


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
    statement = find_statement(plan.nest, value)
    assert isinstance(statement, Compute)
    read = next(r for r in reads_in(statement) if any(r.index.free & range_.bit for range_ in side))
    return list(stage_read(plan, statement, read, tile, skew=skew, converted=converted).value.ranges[-len(tile) :])
