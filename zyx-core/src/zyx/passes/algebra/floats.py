"""Identities of floats that are exact, also for NaN, infinities and signed zeros; so there are few.

``x + 0.0`` is not ``x`` if that is -0.0, ``x - x`` and ``x * 0.0`` may be NaN, and sums are not regrouped.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from zyx.kernel import data as k
from zyx.ops import BinaryOp, UnaryOp

if TYPE_CHECKING:
    from zyx.dtype import DType
    from zyx.kernel.data import ValueId
    from zyx.passes.algebra.simplifier import Simplifier

_ARITHMETIC: Final = (BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.DIV)
_ROUNDING: Final = (UnaryOp.FLOOR, UnaryOp.TRUNC)


def simplify_unary(s: Simplifier, op: k.Unary) -> ValueId | None:
    """Return what equals a unary operation on floats, or None."""
    x = op.x
    inner = s.ops[x]
    match op.op:
        case UnaryOp.NEG:
            return s.as_unary(x, UnaryOp.NEG)
        case UnaryOp.ABS if isinstance(inner, k.Unary):
            if inner.op in (UnaryOp.ABS, UnaryOp.EXP, UnaryOp.EXP2):  # of EXP the sign of a NaN may differ
                return x
            return s.unary(UnaryOp.ABS, inner.x) if inner.op is UnaryOp.NEG else None
        case UnaryOp.FLOOR | UnaryOp.TRUNC:
            if isinstance(inner, k.Unary) and inner.op in _ROUNDING:
                return x
            return x if isinstance(inner, k.Cast) and not s.type_of(inner.x).dtype.is_float else None
        case _:
            return None


def simplify_binary(s: Simplifier, op: k.Binary) -> ValueId | None:
    """Return what equals a binary operation, not a comparison, on floats, or None."""
    x, y = op.x, op.y
    constant = s.constant(y)
    if op.op in _ARITHMETIC:
        for operand, value in ((y, constant), (x, s.constant(x))):
            if value is not None and math.isnan(value):  # what drivers make of NaNs that they know is not always one
                return operand
    match op.op:
        case BinaryOp.ADD:
            if constant == 0 and math.copysign(1, constant) < 0:
                return x
            for left, right in ((x, y), (y, x)):
                negated = s.as_unary(right, UnaryOp.NEG)
                if negated is not None:
                    return s.binary(BinaryOp.SUB, left, negated)
        case BinaryOp.SUB:
            if constant == 0 and math.copysign(1, constant) > 0:
                return x
            negated = s.as_unary(y, UnaryOp.NEG)
            return None if negated is None else s.binary(BinaryOp.ADD, x, negated)
        case BinaryOp.MUL:
            if constant == 1:
                return x
            if constant == -1:
                return s.unary(UnaryOp.NEG, x)
            first, second = s.as_unary(x, UnaryOp.NEG), s.as_unary(y, UnaryOp.NEG)
            return None if first is None or second is None else s.binary(BinaryOp.MUL, first, second)
        case BinaryOp.DIV:
            if constant == 1:
                return x
            if constant == -1:
                return s.unary(UnaryOp.NEG, x)
            inverse = None if constant is None else _exact_inverse(float(constant), op.type.dtype)
            return None if inverse is None else s.binary(BinaryOp.MUL, x, s.like(inverse, x))
        case BinaryOp.MAX | BinaryOp.MIN:
            bound = -math.inf if op.op is BinaryOp.MAX else math.inf
            return x if x == y or constant == bound else None
        case BinaryOp.POW if constant == 0:
            return s.like(1.0, x)
        case BinaryOp.POW if constant == 1:
            return x
        case _:
            pass
    return None


def _exact_inverse(value: float, dtype: DType) -> float | None:
    """Return 1 / value if both are powers of two, and the inverse is a normal number of `dtype`."""
    if math.frexp(value)[0] not in (0.5, -0.5):
        return None
    inverse = 1 / value  # infinite, if `value` is subnormal
    least = {16: 2.0**-14, 32: 2.0**-126, 64: 2.0**-1022}[dtype.bits]
    fits = least <= abs(inverse) < math.inf and float(dtype.to_scalar(inverse)) == inverse
    return inverse if fits else None
