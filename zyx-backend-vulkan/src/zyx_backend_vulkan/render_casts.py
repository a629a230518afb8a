"""Conversions as SPIR-V, on scalars or vectors of up to four lanes: they round once, to nearest, and saturate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx.errors import UnsupportedError
from zyx_backend_vulkan import render_halves as halves
from zyx_backend_vulkan.render_code import UNSIGNED

if TYPE_CHECKING:
    from zyx.dtype import DType
    from zyx_backend_vulkan.render_code import Code

#: Numbers below so many bits are float32 numbers.
_SINGLE_BITS = 24


def cast(m: Code, source: DType, target: DType, lanes: int, x: int) -> int:
    """Return a value of `source` converted to `target`.

    Raises:
        UnsupportedError: There is no form of it.
    """
    if source is target:
        return x
    if target.is_bool:
        return _nonzero(m, source, lanes, x)
    if source.is_bool:
        one, zero = (m.const(target.to_scalar(number), target, lanes) for number in (1, 0))
        return m.select(x, one, zero, target, lanes)
    if _is_half(source):
        single = _to_single(m, source, lanes, x)
        return single if target is dtypes.float32 else cast(m, dtypes.float32, target, lanes, single)
    if _is_half(target):
        return _to_half(m, source, target, lanes, x)
    if source.is_float:
        if target.is_float:
            return m.value("FConvert", m.of(target, lanes), x)
        return _saturate(m, source, target, lanes, x)
    if target.is_float:
        if source.bits < 32:
            x = resized(m, source, UNSIGNED[32], lanes, x)
        return m.value("ConvertUToF" if source.is_unsigned else "ConvertSToF", m.of(target, lanes), x)
    return resized(m, source, target, lanes, x)


def bitcast(m: Code, source: DType, target: DType, lanes: int, x: int) -> int:
    """Return the bits of a value of `source` as `target`, of the same size."""
    from_, to = m.held(source), m.held(target)
    return x if from_.is_float == to.is_float else m.cast_bits(x, target, lanes)


def resized(m: Code, source: DType, target: DType, lanes: int, x: int) -> int:
    """Return an integer as one of another size; the lowest bits, or with the sign in front."""
    if source.bits == target.bits:
        return x
    is_extended = target.bits > source.bits and not source.is_unsigned
    return m.value("SConvert" if is_extended else "UConvert", m.of(target, lanes), x)


def _is_half(dtype: DType) -> bool:
    return dtype.is_float and dtype.bits == 16


def _nonzero(m: Code, source: DType, lanes: int, x: int) -> int:
    """Return whether numbers are not zero. Of floats all bits but the sign: comparisons may take denormals for zero."""
    bits = UNSIGNED[source.bits]
    if source.is_float:
        magnitude = m.const((1 << source.bits - 1) - 1, bits, lanes)
        x = m.value("BitwiseAnd", m.of(bits, lanes), bitcast(m, source, bits, lanes, x), magnitude)
    return m.compare("INotEqual", x, m.const(0, bits, lanes), lanes)


def _to_single(m: Code, source: DType, lanes: int, x: int) -> int:
    """Return a half as float32, which holds all of them."""
    if m.held(source) is source:
        return m.value("FConvert", m.of(dtypes.float32, lanes), x)
    return halves.to_single(m, source, lanes, x)


def _to_half(m: Code, source: DType, target: DType, lanes: int, x: int) -> int:
    """Return a number as a half: by way of the float32 that has all that takes part in rounding."""
    if source is dtypes.float64:
        x = halves.to_odd(m, lanes, x)
    elif source is not dtypes.float32:
        # float32 holds integers of up to 24 bits; larger ones are infinite in float16, however they are rounded.
        if source.bits <= _SINGLE_BITS or target is dtypes.float16:
            x = cast(m, source, dtypes.float32, lanes, x)
        else:
            if not m.computes(dtypes.float64):
                raise UnsupportedError(f"there is no native form of a conversion of {source} to {target}")
            x = x if source.bits == 32 else halves.shortened(m, source, lanes, x)
            x = halves.to_odd(m, lanes, cast(m, source, dtypes.float64, lanes, x))
    if m.held(target) is target and target.bits in m.target.rounds:
        return m.value("FConvert", m.of(target, lanes), x)
    bits = halves.of_single(m, target, lanes, x)
    return bits if m.held(target) is dtypes.uint16 else m.cast_bits(bits, target, lanes)


def _saturate(m: Code, source: DType, target: DType, lanes: int, x: int) -> int:
    """Return a float32 or float64 as an integer. The bounds are powers of two, which both hold; NaN becomes 0."""
    low, end = (m.const(float(bound), source, lanes) for bound in (int(target.min), int(target.max) + 1))
    flags = m.of(dtypes.bool_, lanes)
    is_above = m.exact("FOrdGreaterThanEqual", flags, x, end)
    is_below = m.exact("FOrdLessThan", flags, x, low)
    is_number = m.exact("FOrdEqual", flags, x, x)
    is_outside = m.value("LogicalOr", flags, is_above, is_below)
    is_inside = m.value("LogicalAnd", flags, m.value("LogicalNot", flags, is_outside), is_number)
    inside = m.select(is_inside, x, m.const(0.0, source, lanes), source, lanes)
    wide = UNSIGNED[max(32, target.bits)]
    number = m.value("ConvertFToU" if target.is_unsigned else "ConvertFToS", m.of(wide, lanes), inside)
    number = resized(m, wide, target, lanes, number)
    number = m.select(is_above, m.const(target.max, target, lanes), number, target, lanes)
    return m.select(is_below, m.const(target.min, target, lanes), number, target, lanes)
