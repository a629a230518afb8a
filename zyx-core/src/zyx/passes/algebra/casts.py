"""Identities of conversions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.kernel import data as k

if TYPE_CHECKING:
    from zyx.dtype import DType
    from zyx.kernel.data import ValueId
    from zyx.passes.algebra.simplifier import Simplifier

#: Digits that the significand of a float has, by name; integers below 2**digits are exact.
_DIGITS: Final = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}


def simplify_cast(s: Simplifier, op: k.Cast) -> ValueId | None:
    """Return what equals a conversion, or None."""
    middle, target = s.type_of(op.x).dtype, op.type.dtype
    if middle is target:
        return op.x
    inner = s.ops[op.x]
    if not isinstance(inner, k.Cast):
        return None
    source = s.type_of(inner.x).dtype
    keeps = _holds_all(middle, source)
    if not keeps and source.is_integer and middle.is_integer:
        low, high = s.bounds.range_of(inner.x)
        keeps = middle.min <= low and high <= middle.max
    if keeps:
        # A float saturates where an integer wraps, so only what fits anyhow may skip one.
        exact = source.is_float or not middle.is_float or not target.is_integer or _holds_all(target, source)
        return s.cast(inner.x, target) if exact else None
    if source.is_integer and middle.is_integer and target.is_integer and target.bits <= middle.bits:
        return s.cast(inner.x, target)  # wrapping twice is wrapping to the lesser one
    return None


def _holds_all(target: DType, source: DType) -> bool:
    """Return whether `target` has every value of `source`."""
    if source.is_bool:
        return True
    if target.is_bool:
        return False
    if source.is_float:
        return target is source or (target.is_float and target.bits > source.bits)
    digits = source.bits if source.is_unsigned else source.bits - 1
    if target.is_float:
        return digits <= _DIGITS[target.name]
    if target.is_unsigned:
        return source.is_unsigned and target.bits >= source.bits
    return target.bits - 1 >= digits


def simplify_bitcast(s: Simplifier, op: k.Bitcast) -> ValueId | None:
    """Return what equals a reinterpretation of bits, or None."""
    if s.type_of(op.x).dtype is op.type.dtype:
        return op.x
    inner = s.ops[op.x]
    return s.bitcast(inner.x, op.type.dtype) if isinstance(inner, k.Bitcast) else None
