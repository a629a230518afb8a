"""float16 and bfloat16 by integer arithmetic, in kernels: a half is the uint32 of its bits, with zeros above.

Conversions round to nearest, ties to even, and keep what is below the normal range of float16 also where the device
flushes that of float32 to zero. `zyx.render.halves` has the same as text, for languages with functions.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx.ops import BinaryOp

if TYPE_CHECKING:
    from zyx.dtype import DType
    from zyx.kernel.build import Builder
    from zyx.kernel.data import ValueId


def half_bits(value: float, dtype: DType) -> int:
    """Return the bits of a number that a half type holds."""
    packed = struct.pack("<e", value) if dtype is dtypes.float16 else struct.pack("<f", value)[2:]
    return int.from_bytes(packed, "little")


def float_of_half(b: Builder, bits: ValueId, dtype: DType) -> ValueId:
    """Write the conversion of a half of `dtype`, given by its bits, to float32, which holds all of them."""
    u = _Uint32(b, bits)
    if dtype is dtypes.bfloat16:
        return b.bitcast(u.shl(bits, 16), dtypes.float32)
    size = u.bits(bits, 0x7FFF)
    exact = b.cast(size, dtypes.float32)
    small = b.bitcast(b.binary(BinaryOp.MUL, exact, b.like(2.0**-24, exact)), dtypes.uint32)
    is_finite = u.less(size, u.const(0x7C00))
    normal = u.add(u.shl(size, 13), b.where(is_finite, u.const(112 << 23), u.const(224 << 23)))
    magnitude = b.where(u.less(size, u.const(0x400)), small, normal)
    sign = u.shl(u.bits(bits, 0x8000), 16)
    return b.bitcast(b.binary(BinaryOp.OR, magnitude, sign), dtypes.float32)


def half_of_float(b: Builder, x: ValueId, dtype: DType) -> ValueId:
    """Write the conversion of a float32 to the bits of a half of `dtype`."""
    bits = b.bitcast(x, dtypes.uint32)
    u = _Uint32(b, bits)
    size = u.bits(bits, 0x7FFFFFFF)
    is_nan = u.less(u.const(0x7F800000), size)
    if dtype is dtypes.bfloat16:
        high = u.shr(bits, 16)
        rounded = u.shr(u.add(u.add(bits, u.const(0x7FFF)), u.bits(high, 1)), 16)
        return b.where(is_nan, b.binary(BinaryOp.OR, high, u.const(64)), rounded)
    # Normal results: exponent less 112, round off 13 digits. Smaller ones: adding 1/2 rounds to multiples of 2**-24.
    odd = u.bits(u.shr(size, 13), 1)
    normal = u.shr(u.add(u.add(u.subtract(size, 112 << 23), u.const(0xFFF)), odd), 13)
    magnitude = b.bitcast(size, dtypes.float32)
    half = b.binary(BinaryOp.ADD, magnitude, b.like(0.5, magnitude))
    small = u.subtract(b.bitcast(half, dtypes.uint32), 126 << 23)
    finite = b.where(u.less(size, u.const(113 << 23)), small, normal)
    large = b.where(is_nan, u.const(0x7E00), u.const(0x7C00))
    found = b.where(u.less(size, u.const(143 << 23)), finite, large)
    return b.binary(BinaryOp.OR, found, u.bits(u.shr(bits, 16), 0x8000))


class _Uint32:
    """Writes arithmetic on numbers that are like one that is there."""

    def __init__(self, b: Builder, like: ValueId) -> None:
        self.b = b
        self.like = like

    def const(self, value: int) -> ValueId:
        return self.b.like(value, self.like)

    def add(self, x: ValueId, y: ValueId) -> ValueId:
        return self.b.binary(BinaryOp.ADD, x, y)

    def subtract(self, x: ValueId, value: int) -> ValueId:
        return self.b.binary(BinaryOp.SUB, x, self.const(value))

    def shl(self, x: ValueId, distance: int) -> ValueId:
        return self.b.binary(BinaryOp.SHL, x, self.const(distance))

    def shr(self, x: ValueId, distance: int) -> ValueId:
        return self.b.binary(BinaryOp.SHR, x, self.const(distance))

    def bits(self, x: ValueId, mask: int) -> ValueId:
        return self.b.binary(BinaryOp.AND, x, self.const(mask))

    def less(self, x: ValueId, y: ValueId) -> ValueId:
        return self.b.binary(BinaryOp.LT, x, y)
