"""A nest of dynamic sizes with their greatest values, for which its schedule is chosen."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zyx.nest import expr as e
from zyx.nest.rebuild import roots_of, transform, with_roots

if TYPE_CHECKING:
    from zyx.nest.data import Nest
    from zyx.nest.expr import Expr


def at_greatest(nest: Nest) -> Nest:
    """Return `nest` with their greatest values for the numbers that have one; itself if there are none."""
    if not any(param.by_value for param in nest.params):
        return nest
    pool = nest.pool
    memo: dict[Expr, Expr] = {}

    def change(expr: Expr) -> Expr:
        return pool.index(expr.high) if isinstance(expr, e.Within) and _is_bounded(expr.x) else expr

    statements = []
    for statement in nest.statements:
        roots = roots_of(statement)
        statements.append(with_roots(statement, [transform(pool, root, change, memo) for root in roots]))
    return replace(nest, statements=tuple(statements))


def _is_bounded(index: Expr) -> bool:
    """Whether an index is a number between two others."""
    while isinstance(index, e.Convert | e.Apply2):
        if isinstance(index, e.Apply2) and not isinstance(index.y, e.Literal):
            return False
        index = index.x
    return isinstance(index, e.Number)
