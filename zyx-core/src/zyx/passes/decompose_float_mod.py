"""Write remainders of floats, for devices that have none, or an inexact one, or a function for one lane at a time.

    %2 = mod %0, %1 : f32     =>    %2 = <remainder of a moderate quotient>        see `zyx.passes.math.remainder`
                                    if %any is large
                                      a loop of 32 integer remainders, or the device's own remainder

The result is exact, as C's ``fmod``. What is moderate is quick where `Mad` rounds once and a group has one thread.
With ``|x| = p * 2**a`` and ``|y| = q * 2**b``, where p and q are the
significands, it is ``|x|`` itself if a < b, and else ``(p * 2**(a - b) mod q) * 2**b``, with the sign of x. A product
of p with a high power of two has too many bits for an integer, so its remainder is made step by step, shifting in a
few bits at a time. Exponents have 32 bits in any case, which take fewer instructions, and which a driver of GPUs was
seen to handle correctly where it mixed up the halves of exponents of 64.

float16 and bfloat16 are left alone: `decompose_small_floats` computes them in float32, where remainders are exact too.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.kernel import data as k
from zyx.ops import BinaryOp, UnaryOp
from zyx.passes.math.remainder import remainder
from zyx.passes.rules import Rules, applied

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend.info import DeviceInfo
    from zyx.dtype import DType
    from zyx.kernel.build import Builder
    from zyx.kernel.data import Kernel, Type, ValueId
    from zyx.kernel.rewrite import Rewriter


@dataclass(frozen=True, slots=True)
class _Format:
    """How a float is made of bits.

    Attributes:
        word: The unsigned integer of its size.
        fraction: Bits of the fraction; the significand has one more.
        bias: What is added to the exponent.
    """

    word: DType
    fraction: int
    bias: int

    @property
    def chunk(self) -> int:
        """Bits by which a remainder may be shifted up and still fit a word."""
        return self.word.bits - self.fraction - 1

    @property
    def steps(self) -> int:
        """Shifts by a chunk that cover the greatest difference of exponents."""
        return math.ceil(2 * self.bias / self.chunk)


_FORMATS: Final = {dtypes.float32: _Format(dtypes.uint32, 23, 127), dtypes.float64: _Format(dtypes.uint64, 52, 1023)}


def decompose_float_mod(kernel: Kernel, info: DeviceInfo) -> Kernel:
    """Return `kernel` without float32 and float64 remainders that `info` does not list, or that vectors are quicker at.

    From `info` come also whether `Mad` rounds once, whether the device truncates, and the threads of a group.
    """
    return applied(kernel, FloatRemainders(info))


class FloatRemainders(Rules):
    """Writes remainders of floats that the device of `info` lacks, or is slow at.

    Args:
        info: The device.
        widened: Whether other rules meanwhile make remainders of float32 of those of small floats.
    """

    looks_at = frozenset({BinaryOp.MOD})

    def __init__(self, info: DeviceInfo, *, widened: bool = False) -> None:
        self._info = info
        self._widened = widened
        self._registers: dict[Type, tuple[ValueId, ValueId]] = {}
        self._scratch: dict[Type, ValueId] = {}

    def define(self, b: Builder, ops: Sequence[k.Binary]) -> None:
        """Define two arrays for each type that is computed step by step, and one for results of a branch."""
        for op in ops:
            if not self._is_written(op):
                continue
            type_, lanes = self._computed(op.type), op.type.lanes
            if type_ not in self._registers and not self._is_native(type_):
                remainder_ = b.define(k.Memory.REGISTER, _FORMATS[type_.dtype].word, 1, lanes=lanes)
                self._registers[type_] = remainder_, b.define(k.Memory.REGISTER, dtypes.uint32, 1, lanes=lanes)
            if type_ not in self._scratch and self._is_quick(type_):
                self._scratch[type_] = b.define(k.Memory.REGISTER, type_.dtype, 1, lanes=lanes)

    def write(self, b: Rewriter, op: k.Binary) -> ValueId | None:
        """Return the remainder."""
        if op.type.dtype not in _FORMATS or not self._is_written(op):
            return None
        if not self._is_quick(op.type):
            return self._step_by_step(b, op)
        return remainder(b, op.x, op.y, self._scratch[op.type], functools.partial(self._step_by_step, b, op))

    def _step_by_step(self, b: Rewriter, op: k.Binary) -> ValueId:
        if self._is_native(op.type):
            return b.append(k.Binary(BinaryOp.MOD, op.x, op.y, op.type))  # as it is
        return _Remainder(b, op, self._registers[op.type]).write()

    def _is_written(self, op: k.Binary) -> bool:
        type_ = self._computed(op.type)
        if type_.dtype not in _FORMATS:
            return False
        return not self._is_native(type_) or (type_.lanes > 1 and self._is_quick(type_))

    def _computed(self, type_: Type) -> Type:
        is_small = self._widened and type_.dtype.is_float
        return type_._replace(dtype=dtypes.accumulator(type_.dtype)) if is_small else type_

    def _is_native(self, type_: Type) -> bool:
        capability = self._info.capabilities.get(type_.dtype)
        return capability is not None and BinaryOp.MOD in capability.binary

    def _is_quick(self, type_: Type) -> bool:
        capability = self._info.capabilities.get(type_.dtype)
        truncates = capability is not None and UnaryOp.TRUNC in capability.unary
        return truncates and self._info.has_fma and self._info.max_group_threads == 1


class _Remainder:
    """Writes one remainder."""

    def __init__(self, builder: Builder, op: k.Binary, registers: tuple[ValueId, ValueId]) -> None:
        self.builder = builder
        self.op = op
        self.format = _FORMATS[op.type.dtype]
        self.registers = registers

    def write(self) -> ValueId:
        """Return the result."""
        b, x, y = self.builder, self.op.x, self.op.y
        fraction, word = self.format.fraction, self.format.word
        infinity = (2 * self.format.bias + 1) << fraction
        x_bits, y_bits = b.bitcast(x, word), b.bitcast(y, word)
        x_size, y_size = (self.apply(BinaryOp.AND, bits, (1 << (word.bits - 1)) - 1) for bits in (x_bits, y_bits))
        (p, a), (q, c) = self.significand_and_exponent(x_size), self.significand_and_exponent(y_size)
        is_less = b.binary(BinaryOp.LT, x_size, y_size)
        distance = b.where(b.binary(BinaryOp.LT, a, c), b.like(0, a), b.binary(BinaryOp.SUB, a, c))
        remainder = self.shifted_remainder(p, q, distance)
        bits = b.bitcast(self.scaled(remainder, c), word)
        signed = b.bitcast(b.binary(BinaryOp.OR, bits, b.binary(BinaryOp.XOR, x_bits, x_size)), self.op.type.dtype)
        is_undefined = self.apply(BinaryOp.EQ, y_size, 0)
        for size, least in ((x_size, infinity), (y_size, infinity + 1)):
            is_undefined = b.binary(BinaryOp.OR, is_undefined, b.binary(BinaryOp.LE, b.like(least, size), size))
        return b.where(is_undefined, b.like(math.nan, x), b.where(is_less, x, signed))

    def apply(self, kind: BinaryOp, x: ValueId, literal: int) -> ValueId:
        """Return `kind` of a value and a literal."""
        return self.builder.binary(kind, x, self.builder.like(literal, x))

    def significand_and_exponent(self, size: ValueId) -> tuple[ValueId, ValueId]:
        """Return p and a with ``|x| = p * 2**(a - bias - fraction)``; a is at least 1, subnormal numbers having 1."""
        b, fraction = self.builder, self.format.fraction
        exponent = self.apply(BinaryOp.SHR, size, fraction)
        with_hidden_bit = self.apply(BinaryOp.OR, self.apply(BinaryOp.AND, size, (1 << fraction) - 1), 1 << fraction)
        significand = b.where(self.apply(BinaryOp.EQ, exponent, 0), size, with_hidden_bit)
        return significand, self.apply(BinaryOp.MAX, self.converted(exponent, dtypes.uint32), 1)

    def converted(self, x: ValueId, dtype: DType) -> ValueId:
        """Return an exponent or distance as an integer of another size."""
        return x if self.format.word is dtypes.uint32 else self.builder.cast(x, dtype)

    def shifted_remainder(self, p: ValueId, q: ValueId, distance: ValueId) -> ValueId:
        """Return ``p * 2**distance mod q``."""
        b = self.builder
        remainder_register, distance_register = self.registers
        first = b.const(0, dtypes.int32)
        b.store(remainder_register, first, b.binary(BinaryOp.MOD, p, q))
        b.store(distance_register, first, distance)
        b.loop(self.format.steps, dtypes.int32)
        remainder, left = b.load(remainder_register, first), b.load(distance_register, first)
        step = self.apply(BinaryOp.MIN, left, self.format.chunk)
        shifted = b.binary(BinaryOp.SHL, remainder, self.converted(step, self.format.word))
        b.store(remainder_register, first, b.binary(BinaryOp.MOD, shifted, q))
        b.store(distance_register, first, b.binary(BinaryOp.SUB, left, step))
        b.end_loop()
        return b.load(remainder_register, first)

    def scaled(self, remainder: ValueId, exponent: ValueId) -> ValueId:
        """Return ``remainder * 2**(exponent - bias - fraction)`` as a float, by two factors that are normal numbers."""
        b, fraction, bias = self.builder, self.format.fraction, self.format.bias
        dtype = self.op.type.dtype
        is_high = b.binary(BinaryOp.LT, b.like(fraction, exponent), exponent)
        high = b.where(is_high, self.apply(BinaryOp.SUB, exponent, fraction), b.like(1, exponent))
        low = b.where(is_high, b.like(bias, exponent), self.apply(BinaryOp.ADD, exponent, bias - fraction - 1))
        result = b.cast(remainder, dtype)
        for factor in (high, low):
            word = self.converted(factor, self.format.word)
            result = b.binary(BinaryOp.MUL, result, b.bitcast(self.apply(BinaryOp.SHL, word, fraction), dtype))
        return result
