"""What follows from where masks fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.nest import expr as e
from zyx.ops import BinaryOp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zyx.dtype import Scalar
    from zyx.nest.expr import Expr


def conjunction(mask: Expr) -> list[Expr]:
    """Return the tests that all have to hold where a mask does."""
    if isinstance(mask, e.Apply2) and mask.op is BinaryOp.AND:
        return [*conjunction(mask.x), *conjunction(mask.y)]
    return [mask]


def tests_of(expr: Expr, nothing: Scalar, of_ref: Callable[[e.Ref], Iterable[Expr]] | None = None) -> dict[Expr, None]:
    """Return the tests any one of which makes `expr` be `nothing` where it fails; a zero is 0 and not -0.0.

    Args:
        expr: The expression.
        nothing: The value.
        of_ref: Returns the tests any one of which makes a value be 0, if that is known.
    """
    match expr:
        case e.Select(condition=condition, x=x, y=e.Literal(value=value)) if str(value) == str(nothing):
            return dict.fromkeys(conjunction(condition)) | tests_of(x, nothing, of_ref)
        case e.Read(mask=mask) if mask is not None and _is_zero(nothing):
            return dict.fromkeys(conjunction(mask))
        case e.Convert(x=x) if _is_zero(nothing) and x.dtype is not e.INDEX:
            return tests_of(x, x.dtype.to_scalar(0), of_ref)
        case e.Ref() if of_ref is not None and _is_zero(nothing):
            return dict.fromkeys(of_ref(expr))
        case e.Apply2(op=BinaryOp.MUL, x=x, y=y) if _is_zero(nothing):  # of both: what is left may be infinite
            others = tests_of(y, nothing, of_ref)
            return {test: None for test in tests_of(x, nothing, of_ref) if test in others}
        case _:
            return {}


def _is_zero(value: Scalar) -> bool:
    return value == 0 and str(value) != "-0.0"
