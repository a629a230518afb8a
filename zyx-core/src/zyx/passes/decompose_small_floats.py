"""Compute in float32 what a device does not compute in float16 or bfloat16, and round after every operation.

    %2 = add %0, %1 : f16     =>    %2 = cast %0 : f32
                                    %3 = cast %1 : f32
                                    %4 = add %2, %3 : f32
                                    %5 = cast %4 : f16

What is left on the small type are loads, stores, choices between values, lanes, bits, and conversions from and to
float32, which every device can do that stores the type. The results of the basic operations are those of native ones:
float32 has more than twice the digits plus two. Conversions from types that float32 does not hold round to odd on the
way, so that the whole rounds once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.kernel import data as k
from zyx.ops import BinaryOp, UnaryOp
from zyx.passes.rules import Rules, applied

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend.info import DeviceInfo
    from zyx.dtype import DType
    from zyx.kernel.build import Builder
    from zyx.kernel.data import Kernel, Op, ValueId
    from zyx.kernel.rewrite import Rewriter

_SOURCES: Final = frozenset({k.Define, k.Variable, k.Const, k.Cast, k.Bitcast})
#: To convert large integers: from 2**limit on, that many low bits become one.
_STICKY_BITS = ((24, 14), (38, 28), (52, 42))


def decompose_small_floats(kernel: Kernel, info: DeviceInfo) -> Kernel:
    """Return `kernel` with the arithmetic on float16 and bfloat16 that `info` does not list done in float32."""
    return applied(kernel, SmallFloats(info))


class SmallFloats(Rules):
    """Computes in float32 what the device of `info` does not compute in float16 or bfloat16."""

    looks_at = frozenset({k.Unary, k.Binary, k.Mad, k.Cast})

    def __init__(self, info: DeviceInfo) -> None:
        self._info = info

    def concerns(self, ops: Sequence[Op]) -> bool:
        """Whether an operation has values of a small type that come from nothing of that type."""
        for op in ops:
            if type(op) in _SOURCES and _is_small(op.dtype if isinstance(op, k.Define) else op.type.dtype):  # type: ignore[union-attr]  # of a value
                return True
        return False

    def write(self, b: Rewriter, op: Op) -> ValueId | None:
        """Return the value, rounded to the small type."""
        info = self._info
        match op:
            case k.Unary(op=kind, type=type_):
                if not _is_small(type_.dtype) or _has(info, type_.dtype, kind):
                    return None
                return b.cast(b.unary(kind, b.cast(op.x, dtypes.float32)), type_.dtype)
            case k.Binary(op=kind, x=x, y=y):
                dtype = b.type_of(x).dtype
                if not _is_small(dtype) or _has(info, dtype, kind):
                    return None
                wide = b.binary(kind, b.cast(x, dtypes.float32), b.cast(y, dtypes.float32))
                return b.cast(wide, op.type.dtype)
            case k.Mad(x=x, y=y, z=z, type=type_):
                dtype = type_.dtype
                if not _is_small(dtype) or (_has(info, dtype, BinaryOp.MUL) and _has(info, dtype, BinaryOp.ADD)):
                    return None
                return b.cast(b.mad(*(b.cast(operand, dtypes.float32) for operand in (x, y, z))), dtype)
            case k.Cast(x=x, type=type_):
                source, target = b.type_of(x).dtype, type_.dtype
                if dtypes.float32 in (source, target) or source is target:
                    return None
                # The second conversion as it is: an identity would make one of both, which is what is written here.
                if _is_small(source) and not info.can_compute(source):
                    return b.append(k.Cast(b.cast(x, dtypes.float32), type_))
                if _is_small(target) and not info.can_compute(target):
                    return b.append(k.Cast(_as_float32(b, x, source, target), type_))
                return None
            case _:
                return None


def _is_small(dtype: DType) -> bool:
    return dtype is dtypes.float16 or dtype is dtypes.bfloat16


def _has(info: DeviceInfo, dtype: DType, kind: UnaryOp | BinaryOp) -> bool:
    capability = info.capabilities.get(dtype)
    return capability is not None and (kind in capability.unary or kind in capability.binary)


def _as_float32(b: Builder, x: ValueId, source: DType, target: DType) -> ValueId:
    """Return a float32 that rounds to `target` as `x` does."""
    if source is dtypes.float64:
        return _round_to_odd(b, x)
    if source.is_integer and source.bits > 16 and target is dtypes.bfloat16:
        return _with_sticky_bits(b, x, source)
    return b.cast(x, dtypes.float32)  # holds it exactly, or it is too large for float16 anyway


def _round_to_odd(b: Builder, x: ValueId) -> ValueId:
    """Return the float32 next to a float64 whose last bit is 1, or itself if float32 holds it."""
    nearest = b.cast(x, dtypes.float32)
    back = b.cast(nearest, dtypes.float64)
    bits = b.bitcast(nearest, dtypes.int32)
    is_beyond = b.binary(BinaryOp.LT, b.unary(UnaryOp.ABS, x), b.unary(UnaryOp.ABS, back))
    toward_zero = b.where(is_beyond, b.binary(BinaryOp.SUB, bits, b.like(1, bits)), bits)
    odd = b.binary(BinaryOp.OR, toward_zero, b.like(1, bits))
    is_inexact = b.binary(
        BinaryOp.OR, is_beyond, b.binary(BinaryOp.LT, b.unary(UnaryOp.ABS, back), b.unary(UnaryOp.ABS, x))
    )
    return b.bitcast(b.where(is_inexact, odd, bits), dtypes.float32)


def _with_sticky_bits(b: Builder, x: ValueId, source: DType) -> ValueId:
    """Return a float32 of the leading bits of an integer, ten at least; the last one tells whether any below is set."""
    result = b.cast(x, dtypes.float32)
    zero = b.like(0, x)
    for limit, bits in _STICKY_BITS:
        if limit >= source.bits:
            break
        is_large = b.binary(BinaryOp.LE, b.like(1 << limit, x), x)
        if not source.is_unsigned:
            is_large = b.binary(BinaryOp.OR, is_large, b.binary(BinaryOp.LE, x, b.like(-(1 << limit), x)))
        lost = b.binary(BinaryOp.NE, b.binary(BinaryOp.AND, x, b.like((1 << bits) - 1, x)), zero)
        leading = b.binary(BinaryOp.SHR, x, b.like(bits, x))
        leading = b.where(lost, b.binary(BinaryOp.OR, leading, b.like(1, x)), leading)
        scaled = b.cast(leading, dtypes.float32)
        scaled = b.binary(BinaryOp.MUL, scaled, b.like(float(1 << bits), scaled))
        result = b.where(is_large, scaled, result)
    return result
