"""What an index, or a test on indices, is at a point by Python's own arithmetic: what simplified ones are held to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.nest import expr as e
from zyx.ops import BinaryOp

if TYPE_CHECKING:
    from collections.abc import Mapping


def index_value(expr: e.Expr, at: Mapping[e.Range, int]) -> int:
    """Return the value of `expr` where each range has the value that `at` has for it; a test gives 0 or 1.

    Raises:
        AssertionError: It is neither an index nor a test.
    """
    match expr:
        case e.Literal(value=value):
            return int(value)
        case e.RangeRef(range=range_):
            return at[range_]
        case e.Affine(terms=terms, constant=constant):
            return constant + sum(index_value(term, at) * factor for term, factor in terms)
        case e.Quotient(x=x, divisor=divisor):
            return index_value(x, at) // divisor
        case e.Remainder(x=x, divisor=divisor):
            return index_value(x, at) % divisor
        case e.NonNegative(x=x):
            return int(index_value(x, at) >= 0)
        case e.IsZero(x=x):
            return int(index_value(x, at) == 0)
        case e.Apply2(op=BinaryOp.AND, x=x, y=y):
            return index_value(x, at) & index_value(y, at)
        case _:
            raise AssertionError(f"{type(expr).__name__} is no index and no test")
