"""Evaluate scalar operations on constants, as a device would: results are rounded or wrapped to the dtype."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zyx.ops import TRANSCENDENTAL, BinaryOp, UnaryOp

if TYPE_CHECKING:
    from zyx.dtype import DType, Scalar


def fold_unary(op: UnaryOp, x: Scalar, dtype: DType) -> Scalar | None:
    """Return `op` of `x`, or None where the device should compute it: its last bit may differ."""
    if op in TRANSCENDENTAL:
        return None
    match op:
        case UnaryOp.NEG:
            return dtype.to_scalar(-x)
        case UnaryOp.NOT:
            return not x if dtype.is_bool else dtype.wrap(~int(x))
        case UnaryOp.ABS:
            return dtype.to_scalar(abs(x))
        case UnaryOp.FLOOR | UnaryOp.TRUNC:
            if not dtype.is_float or not math.isfinite(x):
                return x
            rounded = float(math.floor(x) if op is UnaryOp.FLOOR else math.trunc(x))
            return math.copysign(rounded, x) if rounded == 0 else rounded
        case UnaryOp.SQRT:
            return dtype.to_scalar(math.sqrt(x)) if x >= 0 else None
        case UnaryOp.RECIPROCAL:
            return dtype.to_scalar(1 / x) if x else None
        case _:  # the transcendental ones, handled above
            return None


def fold_binary(op: BinaryOp, x: Scalar, y: Scalar, dtype: DType) -> Scalar | None:
    """Return `op` of `x` and `y`, or None where it is left to the device."""
    match op:
        case BinaryOp.LT:
            return x < y
        case BinaryOp.LE:
            return x <= y
        case BinaryOp.EQ:
            return x == y
        case BinaryOp.NE:
            return x != y
        case BinaryOp.MAX | BinaryOp.MIN:
            if math.isnan(x) or math.isnan(y):
                return math.nan
            return max(x, y) if op is BinaryOp.MAX else min(x, y)
        case _:
            pass
    return _fold_float(op, float(x), float(y), dtype) if dtype.is_float else _fold_integer(op, int(x), int(y), dtype)


def _fold_float(op: BinaryOp, x: float, y: float, dtype: DType) -> Scalar | None:
    match op:
        case BinaryOp.ADD:
            return dtype.to_scalar(x + y)
        case BinaryOp.SUB:
            return dtype.to_scalar(x - y)
        case BinaryOp.MUL:
            return dtype.to_scalar(x * y)
        case BinaryOp.DIV:
            return dtype.to_scalar(x / y) if y else None
        case BinaryOp.MOD:
            return dtype.to_scalar(math.fmod(x, y)) if y and math.isfinite(x) else None
        case _:
            return None


def _fold_integer(op: BinaryOp, x: int, y: int, dtype: DType) -> Scalar | None:
    if dtype.is_bool:
        match op:
            case BinaryOp.AND:
                return bool(x and y)
            case BinaryOp.OR:
                return bool(x or y)
            case BinaryOp.XOR:
                return bool(x) != bool(y)
            case _:
                return None
    quotient = 0 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
    match op:
        case BinaryOp.ADD:
            return dtype.wrap(x + y)
        case BinaryOp.SUB:
            return dtype.wrap(x - y)
        case BinaryOp.MUL:
            return dtype.wrap(x * y)
        case BinaryOp.DIV:
            return dtype.wrap(quotient)
        case BinaryOp.MOD:
            return dtype.wrap(x - quotient * y) if y else 0
        case BinaryOp.AND:
            return x & y
        case BinaryOp.OR:
            return x | y
        case BinaryOp.XOR:
            return x ^ y
        case BinaryOp.SHL:
            return dtype.wrap(x << y) if 0 <= y < dtype.bits else 0
        case BinaryOp.SHR:
            return x >> (y if 0 <= y < dtype.bits else dtype.bits)
        case BinaryOp.POW:
            return dtype.wrap(pow(x, y, 1 << dtype.bits)) if y >= 0 else {1: 1, -1: 1 if y % 2 == 0 else -1}.get(x, 0)
        case _:  # comparisons, MAX and MIN, handled above
            return None


def fold_cast(x: Scalar, source: DType, target: DType) -> Scalar:
    """Return `x` converted: floats to integers saturate with NaN as 0, integers wrap, bool tests for nonzero."""
    if target.is_integer and source.is_float:
        if math.isnan(x):
            return 0
        return int(min(max(x, target.min), target.max))
    return target.to_scalar(x)
