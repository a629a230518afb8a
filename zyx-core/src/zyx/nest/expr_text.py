"""Print expressions and nests, for people and for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.nest import expr as e
from zyx.ops import BinaryOp

if TYPE_CHECKING:
    from zyx.nest.expr import Expr

_INFIX = {
    BinaryOp.ADD: "+", BinaryOp.SUB: "-", BinaryOp.MUL: "*", BinaryOp.DIV: "/", BinaryOp.MOD: "%", BinaryOp.AND: "&",
    BinaryOp.OR: "|", BinaryOp.XOR: "^", BinaryOp.SHL: "<<", BinaryOp.SHR: ">>", BinaryOp.LT: "<", BinaryOp.LE: "<=",
    BinaryOp.EQ: "==", BinaryOp.NE: "!=",
}  # fmt: skip


#: How deep an expression is shown at most.
_DEEPEST = 60


def show(expr: Expr, limit: int = 4000) -> str:
    """Return `expr` as text; what is deeper than `limit` operations or characters allow is cut with an ellipsis.

    What an expression has in common with itself is written each time: the whole may be as long as two to its depth.
    """
    counts: dict[tuple[Expr, int], int] = {}
    depth = 1
    while depth < _DEEPEST and _count(expr, depth + 1, counts) <= limit:
        depth += 1
    text = _show(expr, depth)
    return text if len(text) <= limit else text[:limit] + " ..."


def _count(expr: Expr, depth: int, counts: dict[tuple[Expr, int], int]) -> int:
    """Return how many operations are written out down to some depth."""
    if depth == 0:
        return 1
    found = counts.get((expr, depth))
    if found is None:
        found = counts[expr, depth] = 1 + sum(_count(child, depth - 1, counts) for child in expr.children)
    return found


def _show(expr: Expr, depth: int) -> str:
    if depth == 0:
        return "..."
    below = depth - 1
    match expr:
        case e.Literal(value=value):
            return (
                str(value)
                if expr.dtype is e.INDEX or expr.dtype.short in ("f32", "bool")
                else f"{value}{expr.dtype.short}"
            )
        case e.Number(param=param):
            return repr(param)
        case e.RangeRef(range=range_):
            return repr(range_)
        case e.Opaque():
            return "?"
        case e.Affine(terms=terms, constant=constant):
            parts = [_show(term, below) if factor == 1 else f"{_show(term, below)}*{factor}" for term, factor in terms]
            return "(" + " + ".join(parts + ([str(constant)] if constant else [])) + ")"
        case e.Quotient(x=x, divisor=divisor):
            return f"{_show(x, below)}//{divisor}"
        case e.Remainder(x=x, divisor=divisor):
            return f"{_show(x, below)}%{divisor}"
        case e.Within(x=x, high=high):
            return f"({_show(x, below)} within {high + 1})"
        case e.NonNegative(x=x):
            return f"({_show(x, below)} >= 0)"
        case e.IsZero(x=x):
            return f"({_show(x, below)} == 0)"
        case e.Read(param=param, index=index, mask=mask):
            return f"{param}[{_show(index, below)}" + ("]" if mask is None else f" if {_show(mask, below)}]")
        case e.Ref(value=value, indices=indices, mask=mask):
            where = "" if mask is None else f" if {_show(mask, below)}"
            return f"{value}[{', '.join(_show(index, below) for index in indices)}{where}]"
        case e.Reduction(op=op, body=body, ranges=ranges):
            return f"{op.value}({', '.join(f'{r}<{r.size}' for r in ranges)}: {_show(body, below)})"
        case e.Apply1(op=op1, x=x):
            return f"{op1.value}({_show(x, below)})"
        case e.Apply2(op=op2, x=x, y=y):
            if op2 in _INFIX:
                return f"({_show(x, below)} {_INFIX[op2]} {_show(y, below)})"
            return f"{op2.value}({_show(x, below)}, {_show(y, below)})"
        case e.Select(condition=condition, x=x, y=y):
            return f"({_show(x, below)} if {_show(condition, below)} else {_show(y, below)})"
        case e.Convert(x=x):
            return f"{expr.dtype.short}({_show(x, below)})"
        case e.Reinterpret(x=x):
            return f"bits_{expr.dtype.short}({_show(x, below)})"
        case _:
            raise TypeError(f"not an expression: {type(expr).__name__}")
