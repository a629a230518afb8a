"""Replace powers of integers by products: a literal exponent by squarings, any other by a loop over its bits.

    %2 = const 5 : i32              %2 = const 5 : i32
    %3 = pow %1, %2 : i32     =>    %3 = mul %1, %1 : i32
                                    %4 = mul %3, %3 : i32
                                    %5 = mul %4, %1 : i32

The loop keeps the product so far, the power of the base and the rest of the exponent in registers; it has as many
iterations as the exponent has bits, by its range. Negative exponents give 0, unless the base is 1 or -1. A power of 2
is a shift.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx.kernel import data as k
from zyx.ops import BinaryOp
from zyx.passes.rules import Rules, applied

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend.info import DeviceInfo
    from zyx.kernel.data import Kernel, Op, Type, ValueId
    from zyx.kernel.rewrite import BoundedRewriter


def decompose_integer_power(kernel: Kernel, info: DeviceInfo | None = None) -> Kernel:
    """Return `kernel` without `POW` of integers, but for the dtypes that `info` lists it for."""
    return applied(kernel, IntegerPowers(info))


class IntegerPowers(Rules):
    """Writes powers of integers, but for the dtypes that `info` lists them for."""

    looks_at = frozenset({BinaryOp.POW})

    def __init__(self, info: DeviceInfo | None = None) -> None:
        self._info = info
        self._registers: dict[Type, _Registers] = {}

    def define(self, b: BoundedRewriter, ops: Sequence[k.Binary]) -> None:
        """Define what loops use, for each type of which there are powers."""
        for op in ops:
            if self._is_written(op) and op.type not in self._registers:
                self._registers[op.type] = _Registers(b, op.type)

    def write(self, b: BoundedRewriter, op: k.Binary) -> ValueId | None:
        """Return the power."""
        return _power(b, op, self._registers) if self._is_written(op) else None

    def _is_written(self, op: k.Binary) -> bool:
        if not op.type.dtype.is_integer:
            return False
        capability = None if self._info is None else self._info.capabilities.get(op.type.dtype)
        return capability is None or BinaryOp.POW not in capability.binary


def _is_two(op: Op) -> bool:
    return isinstance(op, k.Const) and op.value == 2


class _Registers:
    """What the loops on values of one type use, one loop after the other."""

    def __init__(self, rewriter: BoundedRewriter, type_: Type) -> None:
        self.product, self.base, self.exponent = (
            rewriter.define(k.Memory.REGISTER, type_.dtype, 1, lanes=type_.lanes) for _ in range(3)
        )


def _power(r: BoundedRewriter, op: k.Binary, registers: dict[Type, _Registers]) -> ValueId:
    base, exponent = op.x, op.y
    known_exponent = r.ops[exponent]
    if _is_two(r.ops[base]):
        return r.binary(BinaryOp.SHL, r.like(1, base), exponent)
    low, high = r.bounds.range_of(exponent)
    if isinstance(known_exponent, k.Const):
        result = _by_squaring(r, base, int(known_exponent.value)) if low >= 0 else r.like(0, base)
    else:
        result = _by_loop(r, base, exponent, max(high, 0).bit_length(), registers[op.type])
    if low >= 0:
        return result
    is_odd = r.binary(BinaryOp.NE, r.binary(BinaryOp.AND, exponent, r.like(1, base)), r.like(0, base))
    is_unit = r.binary(
        BinaryOp.OR, r.binary(BinaryOp.EQ, base, r.like(1, base)), r.binary(BinaryOp.EQ, base, r.like(-1, base))
    )
    inverse = r.where(is_unit, r.where(is_odd, base, r.like(1, base)), r.like(0, base))
    return r.where(r.binary(BinaryOp.LT, exponent, r.like(0, base)), inverse, result)


def _by_squaring(r: BoundedRewriter, base: ValueId, exponent: int) -> ValueId:
    """Return ``base ** exponent`` for a literal exponent, not negative."""
    result: ValueId | None = None
    while exponent:
        if exponent & 1:
            result = base if result is None else r.binary(BinaryOp.MUL, result, base)
        exponent >>= 1
        if exponent:
            base = r.binary(BinaryOp.MUL, base, base)
    return r.like(1, base) if result is None else result


def _by_loop(r: BoundedRewriter, base: ValueId, exponent: ValueId, bits: int, registers: _Registers) -> ValueId:
    """Return ``base ** exponent`` where the exponent is not negative and below ``2 ** bits``."""
    first = r.const(0, dtypes.int32)
    one, zero = r.like(1, base), r.like(0, base)
    r.store(registers.product, first, one)
    r.store(registers.base, first, base)
    r.store(registers.exponent, first, exponent)
    r.loop(bits, dtypes.int32)
    product, power, rest = (r.load(each, first) for each in (registers.product, registers.base, registers.exponent))
    is_odd = r.binary(BinaryOp.NE, r.binary(BinaryOp.AND, rest, one), zero)
    r.store(registers.product, first, r.where(is_odd, r.binary(BinaryOp.MUL, product, power), product))
    r.store(registers.base, first, r.binary(BinaryOp.MUL, power, power))
    r.store(registers.exponent, first, r.binary(BinaryOp.SHR, rest, one))
    r.end_loop()
    return r.load(registers.product, first)
