"""Identities of bools, comparisons of floats among them, and of choices.

What is decided by ranges, such as ``x and false``, is a constant before it comes here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.kernel import data as k
from zyx.ops import COMPARISONS, BinaryOp, UnaryOp

if TYPE_CHECKING:
    from zyx.kernel.data import ValueId
    from zyx.passes.algebra.simplifier import Simplifier

#: The comparison that holds where another does not: for integers and bools, and with operands exchanged or not.
_OPPOSITE: Final = {
    BinaryOp.LT: (BinaryOp.LE, True),
    BinaryOp.LE: (BinaryOp.LT, True),
    BinaryOp.EQ: (BinaryOp.NE, False),
    BinaryOp.NE: (BinaryOp.EQ, False),
}


def simplify_not(s: Simplifier, op: k.Unary) -> ValueId | None:
    """Return what equals the opposite of a bool, or None."""
    inner = s.ops[op.x]
    if isinstance(inner, k.Unary) and inner.op is UnaryOp.NOT:
        return inner.x
    if not isinstance(inner, k.Binary) or inner.op not in COMPARISONS:
        return None
    opposite, exchanged = _OPPOSITE[inner.op]
    if exchanged and s.type_of(inner.x).dtype.is_float:
        return None  # with NaN, neither holds
    return s.binary(opposite, *((inner.y, inner.x) if exchanged else (inner.x, inner.y)))


def simplify_binary(s: Simplifier, op: k.Binary) -> ValueId | None:
    """Return what equals a binary operation or comparison of bools, or None."""
    x, y = op.x, op.y
    constant = s.integer(y)
    match op.op:
        case BinaryOp.AND | BinaryOp.MIN:
            return x if constant == 1 or x == y else None
        case BinaryOp.OR | BinaryOp.MAX:
            return x if constant == 0 or x == y else None
        case BinaryOp.XOR | BinaryOp.NE | BinaryOp.EQ:
            same = op.op is BinaryOp.EQ
            if x == y:
                return s.const(same, op.type.dtype, op.type.lanes)
            if constant is None:
                return None
            return x if bool(constant) is same else s.unary(UnaryOp.NOT, x)
        case _:
            return None


def simplify_where(s: Simplifier, op: k.Where) -> ValueId | None:
    """Return what equals a choice, or None."""
    condition, x, y = op.condition, op.x, op.y
    if x == y:
        return x
    known = s.bounds.range_of(condition)
    if known[0] == known[1]:
        return x if known[0] else y
    negated = s.as_unary(condition, UnaryOp.NOT)
    if negated is not None:
        return s.add(k.Where(negated, y, x, op.type))
    if op.type.dtype.is_bool and s.type_of(condition).lanes == op.type.lanes:
        if (s.integer(x), s.integer(y)) == (1, 0):
            return condition
        if (s.integer(x), s.integer(y)) == (0, 1):
            return s.unary(UnaryOp.NOT, condition)
    if s.ops[x] == s.ops[y] and isinstance(s.ops[x], k.Const):
        return x
    return None
