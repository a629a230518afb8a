"""Identities of integers. Arithmetic wraps, so sums and products may be regrouped at will.

What has one possible value by its range, such as ``x * 0`` and ``x % 1``, is a constant before it comes here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.ops import BinaryOp, UnaryOp

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.kernel import data as k
    from zyx.kernel.data import ValueId
    from zyx.passes.algebra.simplifier import Simplifier

ADD, SUB, MUL, DIV, MOD = BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.DIV, BinaryOp.MOD
NEG: Final = UnaryOp.NEG


def simplify_unary(s: Simplifier, op: k.Unary) -> ValueId | None:
    """Return what equals a unary operation on integers, or None."""
    match op.op:
        case UnaryOp.NEG:
            difference = s.as_binary(op.x, SUB)
            return s.as_unary(op.x, NEG) if difference is None else s.binary(SUB, difference[1], difference[0])
        case UnaryOp.NOT:
            return s.as_unary(op.x, UnaryOp.NOT)
        case UnaryOp.ABS:
            low, high = s.bounds.range_of(op.x)
            if low >= 0:
                return op.x
            return s.unary(NEG, op.x) if high <= 0 else None
        case _:
            return None


def simplify_binary(s: Simplifier, op: k.Binary) -> ValueId | None:
    """Return what equals a binary operation, not a comparison, on integers, or None."""
    return _RULES[op.op](s, op, s.integer(op.y))


def _add(s: Simplifier, op: k.Binary, constant: int | None) -> ValueId | None:
    x, y = op.x, op.y
    if constant is not None:
        if constant == 0:
            return x
        inner = s.with_integer(x, ADD)
        return None if inner is None else s.binary(ADD, inner[0], s.like(inner[1] + constant, x))
    for left, right in ((x, y), (y, x)):
        negated = s.as_unary(right, NEG)
        if negated is not None:
            return s.binary(SUB, left, negated)
        difference = s.as_binary(left, SUB)
        if difference is not None and difference[1] == right:
            return difference[0]
    for left, right in ((x, y), (y, x)):
        inner = s.with_integer(left, ADD)
        if inner is not None:  # constants outward, where they meet others
            return s.binary(ADD, s.binary(ADD, inner[0], right), s.like(inner[1], x))
    return None


def _subtract(s: Simplifier, op: k.Binary, constant: int | None) -> ValueId | None:
    x, y = op.x, op.y
    if constant is not None:
        return s.binary(ADD, x, s.like(-constant, x))
    if x == y:
        return s.like(0, x)
    if s.integer(x) == 0:
        return s.unary(NEG, y)
    negated = s.as_unary(y, NEG)
    if negated is not None:
        return s.binary(ADD, x, negated)
    total = s.as_binary(x, ADD)
    if total is not None and y in total:
        return total[0] if total[1] == y else total[1]
    return None


def _multiply(s: Simplifier, op: k.Binary, constant: int | None) -> ValueId | None:
    x = op.x
    if constant is None:
        return None
    if constant == 1:
        return x
    if constant == op.type.dtype.wrap(-1):
        return s.unary(NEG, x)
    inner = s.with_integer(x, MUL)
    return None if inner is None else s.binary(MUL, inner[0], s.like(inner[1] * constant, x))


def _divide(s: Simplifier, op: k.Binary, constant: int | None) -> ValueId | None:
    x = op.x
    if constant == 1:
        return x
    if constant == -1:
        return s.unary(NEG, x)
    if constant is None or constant <= 0:
        return None
    inner = s.with_integer(x, DIV)
    if inner is not None and inner[1] > 0 and inner[1] * constant <= op.type.dtype.max:
        return s.binary(DIV, inner[0], s.like(inner[1] * constant, x))
    is_shift = constant & (constant - 1) == 0 and s.bounds.range_of(x)[0] >= 0
    return s.binary(BinaryOp.SHR, x, s.like(constant.bit_length() - 1, x)) if is_shift else None


def _remainder(s: Simplifier, op: k.Binary, constant: int | None) -> ValueId | None:
    x = op.x
    if constant is None:
        low, high = s.bounds.range_of(x)
        return x if low >= 0 and high < s.bounds.range_of(op.y)[0] else None
    if constant <= 0:
        return None
    low, high = s.bounds.range_of(x)
    if -constant < low and high < constant:
        return x
    inner = s.with_integer(x, MOD)
    if inner is not None and inner[1] % constant == 0 and inner[1] > 0:
        return s.binary(MOD, inner[0], s.like(constant, x))
    is_mask = constant & (constant - 1) == 0 and low >= 0
    return s.binary(BinaryOp.AND, x, s.like(constant - 1, x)) if is_mask else None


def _extreme(s: Simplifier, op: k.Binary, constant: int | None) -> ValueId | None:
    x, y = op.x, op.y
    if x == y:
        return x
    greater, less = (x, y) if op.op is BinaryOp.MAX else (y, x)
    ranges = s.bounds
    if ranges.range_of(greater)[0] >= ranges.range_of(less)[1]:
        return x
    if ranges.range_of(greater)[1] <= ranges.range_of(less)[0]:
        return y
    inner = s.with_integer(x, op.op)
    if inner is None or constant is None:
        return None
    combined = max(inner[1], constant) if op.op is BinaryOp.MAX else min(inner[1], constant)
    return s.binary(op.op, inner[0], s.like(combined, x))


def _and(s: Simplifier, op: k.Binary, constant: int | None) -> ValueId | None:
    x = op.x
    if x == op.y:
        return x
    if constant is None:
        return None
    low, high = s.bounds.range_of(x)
    if constant == op.type.dtype.wrap(-1) or (constant & (constant + 1) == 0 and low >= 0 and high <= constant):
        return x
    inner = s.with_integer(x, BinaryOp.AND)
    return None if inner is None else s.binary(BinaryOp.AND, inner[0], s.like(inner[1] & constant, x))


def _or(s: Simplifier, op: k.Binary, constant: int | None) -> ValueId | None:
    x = op.x
    if x == op.y or constant == 0:
        return x
    if constant is None:
        return None
    if constant == op.type.dtype.wrap(-1):
        return op.y
    inner = s.with_integer(x, BinaryOp.OR)
    return None if inner is None else s.binary(BinaryOp.OR, inner[0], s.like(inner[1] | constant, x))


def _xor(s: Simplifier, op: k.Binary, constant: int | None) -> ValueId | None:
    x = op.x
    if x == op.y:
        return s.like(0, x)
    if constant is None:
        return None
    if constant == 0:
        return x
    if constant == op.type.dtype.wrap(-1):
        return s.unary(UnaryOp.NOT, x)
    inner = s.with_integer(x, BinaryOp.XOR)
    return None if inner is None else s.binary(BinaryOp.XOR, inner[0], s.like(inner[1] ^ constant, x))


def _shift(s: Simplifier, op: k.Binary, constant: int | None) -> ValueId | None:
    x, bits = op.x, op.type.dtype.bits
    if constant is None:
        return None
    if constant == 0:
        return x
    if not 0 < constant < bits:  # all bits leave, but the sign
        keeps_sign = op.op is BinaryOp.SHR and not op.type.dtype.is_unsigned
        return s.binary(op.op, x, s.like(bits - 1, x)) if keeps_sign else s.like(0, x)
    inner = s.with_integer(x, op.op)
    if inner is None or not 0 < inner[1] < bits:
        return None
    return s.binary(op.op, inner[0], s.like(min(inner[1] + constant, op.type.dtype.max), x))


def _power(s: Simplifier, op: k.Binary, constant: int | None) -> ValueId | None:
    if constant == 0 or s.integer(op.x) == 1:
        return s.like(1, op.x)
    if constant == 1:
        return op.x
    return s.binary(MUL, op.x, op.x) if constant == 2 else None


_RULES: Final[dict[BinaryOp, Callable[[Simplifier, k.Binary, int | None], ValueId | None]]] = {
    ADD: _add,
    SUB: _subtract,
    MUL: _multiply,
    DIV: _divide,
    MOD: _remainder,
    BinaryOp.POW: _power,
    BinaryOp.MAX: _extreme,
    BinaryOp.MIN: _extreme,
    BinaryOp.AND: _and,
    BinaryOp.OR: _or,
    BinaryOp.XOR: _xor,
    BinaryOp.SHL: _shift,
    BinaryOp.SHR: _shift,
}
