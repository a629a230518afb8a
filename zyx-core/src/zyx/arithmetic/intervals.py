"""Arithmetic on ranges of integers: where the result of an operation lies if the operands lie in given ranges.

A range ``(low, high)`` includes both ends. Bools are integers from 0 to 1. What may wrap around lies anywhere in the
dtype.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from zyx.ops import BinaryOp, UnaryOp

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.dtype import DType

Range: TypeAlias = tuple[int, int]

UNKNOWN_BOOL: Final[Range] = (0, 1)
_FALSE: Final[Range] = (0, 0)
_TRUE: Final[Range] = (1, 1)


def full_range(dtype: DType) -> Range:
    """Return everything that an integer type or bool holds."""
    return int(dtype.min), int(dtype.max)


def fit(low: int, high: int, dtype: DType) -> Range:
    """Return the range of values that were computed without bound and then wrapped to `dtype`."""
    least, most = int(dtype.min), int(dtype.max)
    return (low, high) if least <= low and high <= most else (least, most)


def unary_range(op: UnaryOp, x: Range, dtype: DType) -> Range:
    """Return where `op` of a value in `x` lies."""
    low, high = x
    match op:
        case UnaryOp.NEG:
            return fit(-high, -low, dtype)
        case UnaryOp.NOT if dtype.is_bool:
            return 1 - high, 1 - low
        case UnaryOp.NOT:
            return fit(-1 - high, -1 - low, dtype)
        case UnaryOp.ABS:
            return fit(low if low >= 0 else max(0, -high), max(-low, high), dtype)
        case _:
            return full_range(dtype)


def binary_range(op: BinaryOp, x: Range, y: Range, dtype: DType) -> Range:
    """Return where `op` of values in `x` and `y`, both of `dtype`, lies; comparisons give a range of bool."""
    return _BINARY[op](x, y, dtype)


def cast_range(x: Range, target: DType) -> Range:
    """Return where an integer or bool in `x`, converted to the integer type or bool `target`, lies."""
    if target.is_bool:
        return _FALSE if x == (0, 0) else _TRUE if x[0] > 0 or x[1] < 0 else UNKNOWN_BOOL
    return fit(*x, target)


def union(x: Range, y: Range) -> Range:
    """Return the least range that holds both."""
    return min(x[0], y[0]), max(x[1], y[1])


def _add(x: Range, y: Range, dtype: DType) -> Range:
    return fit(x[0] + y[0], x[1] + y[1], dtype)


def _subtract(x: Range, y: Range, dtype: DType) -> Range:
    return fit(x[0] - y[1], x[1] - y[0], dtype)


def product(x: Range, y: Range) -> Range:
    """Return where the products of numbers of two ranges lie."""
    if x[0] >= 0 and y[0] >= 0:
        return x[0] * y[0], x[1] * y[1]
    corners = (x[0] * y[0], x[0] * y[1], x[1] * y[0], x[1] * y[1])
    return min(corners), max(corners)


def _multiply(x: Range, y: Range, dtype: DType) -> Range:
    return fit(*product(x, y), dtype)


def _quotient(x: int, y: int) -> int:
    """Return ``x / y`` toward zero."""
    return x // y if (x >= 0) == (y > 0) else -(abs(x) // abs(y))


def _divide(x: Range, y: Range, dtype: DType) -> Range:
    if x[0] >= 0 and y[0] > 0:
        return x[0] // y[1], x[1] // y[0]
    # For one divisor the quotient grows or falls with x; for one x it does on either side of zero.
    divisors = {divisor for divisor in (y[0], -1, 1, y[1]) if divisor and y[0] <= divisor <= y[1]}
    quotients = [_quotient(dividend, divisor) for dividend in x for divisor in divisors]
    if y[0] <= 0 <= y[1]:
        quotients.append(0)
    return fit(min(quotients), max(quotients), dtype)


def _remainder(x: Range, y: Range, dtype: DType) -> Range:
    if x[0] >= 0 and y[0] > x[1]:
        return x
    most = max(abs(y[0]), abs(y[1]), 1) - 1
    return max(min(x[0], 0), -most), min(max(x[1], 0), most)


def _power(x: Range, y: Range, dtype: DType) -> Range:
    if x[0] < 0 or not 0 <= y[0] <= y[1] <= dtype.bits:
        return full_range(dtype)
    return fit(0, max(x[1], 1) ** y[1], dtype)


def _maximum(x: Range, y: Range, dtype: DType) -> Range:
    return max(x[0], y[0]), max(x[1], y[1])


def _minimum(x: Range, y: Range, dtype: DType) -> Range:
    return min(x[0], y[0]), min(x[1], y[1])


def _and(x: Range, y: Range, dtype: DType) -> Range:
    if dtype.is_bool:
        return min(x[0], y[0]), min(x[1], y[1])
    ends = [operand[1] for operand in (x, y) if operand[0] >= 0]
    return (0, min(ends)) if ends else full_range(dtype)


def _or(x: Range, y: Range, dtype: DType) -> Range:
    if x[0] < 0 or y[0] < 0:
        return full_range(dtype)
    return max(x[0], y[0]), (1 << max(x[1], y[1]).bit_length()) - 1


def _xor(x: Range, y: Range, dtype: DType) -> Range:
    if x[0] < 0 or y[0] < 0:
        return full_range(dtype)
    if dtype.is_bool and x[0] == x[1] and y[0] == y[1]:
        return x[0] ^ y[0], x[0] ^ y[0]
    return 0, (1 << max(x[1], y[1]).bit_length()) - 1


def _shift_left(x: Range, y: Range, dtype: DType) -> Range:
    bits = dtype.bits
    if y[0] >= 0 and y[1] < bits:
        corners = (x[0] << y[0], x[0] << y[1], x[1] << y[0], x[1] << y[1])
        return fit(min(corners), max(corners), dtype)
    return full_range(dtype)


def _shift_right(x: Range, y: Range, dtype: DType) -> Range:
    bits = dtype.bits
    # A negative distance is an infinite one.
    least = y[0] if y[0] >= 0 else 0 if y[1] >= 0 else bits
    most = min(y[1], bits) if y[0] >= 0 else bits
    corners = (x[0] >> least, x[0] >> most, x[1] >> least, x[1] >> most)
    return min(corners), max(corners)


def _less(x: Range, y: Range, dtype: DType) -> Range:
    return _TRUE if x[1] < y[0] else _FALSE if x[0] >= y[1] else UNKNOWN_BOOL


def _less_equal(x: Range, y: Range, dtype: DType) -> Range:
    return _TRUE if x[1] <= y[0] else _FALSE if x[0] > y[1] else UNKNOWN_BOOL


def _equal(x: Range, y: Range, dtype: DType) -> Range:
    if x[1] < y[0] or y[1] < x[0]:
        return _FALSE
    return _TRUE if x[0] == x[1] == y[0] == y[1] else UNKNOWN_BOOL


def _unequal(x: Range, y: Range, dtype: DType) -> Range:
    low, high = _equal(x, y, dtype)
    return 1 - high, 1 - low


_BINARY: Final[dict[BinaryOp, Callable[[Range, Range, DType], Range]]] = {
    BinaryOp.ADD: _add,
    BinaryOp.SUB: _subtract,
    BinaryOp.MUL: _multiply,
    BinaryOp.DIV: _divide,
    BinaryOp.MOD: _remainder,
    BinaryOp.POW: _power,
    BinaryOp.MAX: _maximum,
    BinaryOp.MIN: _minimum,
    BinaryOp.AND: _and,
    BinaryOp.OR: _or,
    BinaryOp.XOR: _xor,
    BinaryOp.SHL: _shift_left,
    BinaryOp.SHR: _shift_right,
    BinaryOp.LT: _less,
    BinaryOp.LE: _less_equal,
    BinaryOp.EQ: _equal,
    BinaryOp.NE: _unequal,
}
