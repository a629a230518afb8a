"""float16 and bfloat16 by integer arithmetic, as SPIR-V; the same as `zyx.render.halves` has as text.

Conversions round once, to nearest, ties to even. What float32 does not hold exactly goes through the float32 next to it
whose last bit is odd; rounding that again gives what rounding the value itself would (Boldo and Melquiond, "Emulation
of FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx_backend_vulkan.render_code import UNSIGNED

if TYPE_CHECKING:
    from zyx.dtype import DType
    from zyx_backend_vulkan.render_code import Code

#: Exponents of float16 and float32 differ by this, at the place of float32's.
_REBIAS: Final = 112 << 23
_INFINITY: Final = 0x7F800000
#: The integers up to here are float64 numbers.
_DOUBLE_BITS: Final = 53
#: Bits that an integer of 64 bits has beyond float64's, which join in the lowest one that is left.
_STICKY: Final = 1 << 11


class _Words:
    """Writes arithmetic on uint32 values of some lanes."""

    def __init__(self, m: Code, lanes: int) -> None:
        self.m = m
        self.lanes = lanes
        self.type = m.of(dtypes.uint32, lanes)

    def const(self, value: int) -> int:
        return self.m.const(value, dtypes.uint32, self.lanes)

    def op(self, name: str, x: int, y: int) -> int:
        return self.m.value(name, self.type, x, y)

    def by(self, name: str, x: int, value: int) -> int:
        return self.op(name, x, self.const(value))

    def less(self, x: int, y: int) -> int:
        return self.m.compare("ULessThan", x, y, self.lanes)

    def where(self, condition: int, x: int, y: int) -> int:
        return self.m.select(condition, x, y, dtypes.uint32, self.lanes)

    def of_float(self, x: int) -> int:
        return self.m.cast_bits(x, dtypes.uint32, self.lanes)

    def as_float(self, x: int) -> int:
        return self.m.cast_bits(x, dtypes.float32, self.lanes)


def to_single(m: Code, source: DType, lanes: int, x: int) -> int:
    """Return a half, given by its bits as uint16, as float32."""
    w = _Words(m, lanes)
    bits = m.value("UConvert", w.type, x)
    if source is dtypes.bfloat16:
        return w.as_float(w.by("ShiftLeftLogical", bits, 16))
    size = w.by("BitwiseAnd", bits, 0x7FFF)
    exact = m.value("ConvertUToF", m.of(dtypes.float32, lanes), size)
    scaled = m.exact("FMul", m.of(dtypes.float32, lanes), exact, m.const(2.0**-24, dtypes.float32, lanes))
    is_finite = w.less(size, w.const(0x7C00))
    bias = w.where(is_finite, w.const(_REBIAS), w.const(2 * _REBIAS))
    normal = w.op("IAdd", w.by("ShiftLeftLogical", size, 13), bias)
    magnitude = w.where(w.less(size, w.const(0x400)), w.of_float(scaled), normal)
    sign = w.by("ShiftLeftLogical", w.by("BitwiseAnd", bits, 0x8000), 16)
    return w.as_float(w.op("BitwiseOr", magnitude, sign))


def of_single(m: Code, target: DType, lanes: int, x: int) -> int:
    """Return the bits of a float32 that is converted to a half, as uint16."""
    w = _Words(m, lanes)
    bits = w.of_float(x)
    size = w.by("BitwiseAnd", bits, 0x7FFFFFFF)
    is_nan = w.less(w.const(_INFINITY), size)
    if target is dtypes.bfloat16:
        high = w.by("ShiftRightLogical", bits, 16)
        odd = w.by("BitwiseAnd", high, 1)
        rounded = w.by("ShiftRightLogical", w.op("IAdd", w.by("IAdd", bits, 0x7FFF), odd), 16)
        found = w.where(is_nan, w.by("BitwiseOr", high, 64), rounded)
    else:
        # Normal results: exponent less 112, 13 digits rounded off. Smaller: adding 1/2 rounds to multiples of 2**-24.
        odd = w.by("BitwiseAnd", w.by("ShiftRightLogical", size, 13), 1)
        normal = w.op("IAdd", w.by("IAdd", w.by("ISub", size, _REBIAS), 0xFFF), odd)
        half = m.const(0.5, dtypes.float32, lanes)
        sum_ = m.exact("FAdd", m.of(dtypes.float32, lanes), w.as_float(size), half)
        small = w.by("ISub", w.of_float(sum_), 126 << 23)
        is_small = w.less(size, w.const(113 << 23))
        finite = w.where(is_small, small, w.by("ShiftRightLogical", normal, 13))
        large = w.where(is_nan, w.const(0x7E00), w.const(0x7C00))
        magnitude = w.where(w.less(size, w.const(143 << 23)), finite, large)
        sign = w.by("BitwiseAnd", w.by("ShiftRightLogical", bits, 16), 0x8000)
        found = w.op("BitwiseOr", magnitude, sign)
    return m.value("UConvert", m.of(UNSIGNED[16], lanes), found)


def to_odd(m: Code, lanes: int, x: int) -> int:
    """Return a float64 as the float32 next to it whose last bit is odd; exactly if it is a float32."""
    w = _Words(m, lanes)
    single, double, flags = (m.of(dtype, lanes) for dtype in (dtypes.float32, dtypes.float64, dtypes.bool_))
    nearest = m.value("FConvert", single, x)
    back = m.value("FConvert", double, nearest)
    is_above = m.exact("FOrdGreaterThan", flags, m.glsl("FAbs", double, back), m.glsl("FAbs", double, x))
    bits = w.of_float(nearest)
    below = w.where(is_above, w.by("ISub", bits, 1), bits)
    is_other = m.value(
        "LogicalAnd", flags, m.exact("FUnordNotEqual", flags, back, x), m.exact("FOrdEqual", flags, x, x)
    )
    return w.as_float(w.where(is_other, w.by("BitwiseOr", below, 1), bits))


def shortened(m: Code, source: DType, lanes: int, x: int) -> int:
    """Return an integer of 64 bits that float64 holds, and that rounds to float32 and less as `x` does."""
    type_ = m.of(source, lanes)

    def const(value: int) -> int:
        return m.const(value, source, lanes)

    low = m.value("BitwiseAnd", type_, x, const(_STICKY - 1))
    is_inexact = m.compare("INotEqual", low, const(0), lanes)
    high = m.value("BitwiseAnd", type_, x, const(-_STICKY & (1 << 64) - 1))
    odd = m.value("BitwiseOr", type_, high, m.select(is_inexact, const(_STICKY), const(0), source, lanes))
    least, end = const(-(1 << _DOUBLE_BITS)), const(1 << _DOUBLE_BITS)
    is_small = m.compare("ULessThan" if source.is_unsigned else "SLessThan", x, end, lanes)
    if not source.is_unsigned:
        flags = m.of(dtypes.bool_, lanes)
        is_small = m.value("LogicalAnd", flags, is_small, m.compare("SLessThan", least, x, lanes))
    return m.select(is_small, x, odd, source, lanes)
