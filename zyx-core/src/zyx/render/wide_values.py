"""Compute in 32 bits, for languages without smaller values: integers stay in the range of their type, halves are bits.

    %1 = load %0[%i] : u8              %1 = load %0[%i] : u32
    %2 = add %1, %1 : u8          =>   %2 = add %1, %1 : u32
                                       %3 = and %2, 255 : u32

uint8 and uint16 become uint32, int8 and int16 become int32. float16 and bfloat16 become the uint32 of their bits, into
which only conversions look (`zyx.render.half_bits`). In memory that is indexed, bools become uint32 as well.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.errors import UnsupportedError
from zyx.kernel import data as k
from zyx.kernel.data import Memory, Type
from zyx.kernel.rewrite import DROPPED, Rewriter
from zyx.ops import COMPARISONS, BinaryOp, UnaryOp
from zyx.render.half_bits import float_of_half, half_bits, half_of_float

if TYPE_CHECKING:
    from collections.abc import Collection

    from zyx.dtype import DType
    from zyx.kernel.data import Kernel, Op, Value, ValueId

#: Operations on integers of few bits whose results are of as few bits, also where they are done in more.
_WITHIN: Final = frozenset(
    {BinaryOp.MAX, BinaryOp.MIN, BinaryOp.AND, BinaryOp.OR, BinaryOp.XOR, BinaryOp.MOD, BinaryOp.SHR}
)


def in_wide_values(kernel: Kernel, narrow: Collection[DType]) -> Kernel:
    """Return `kernel` with values of 32 bits in place of those of `narrow` types, also where it is launched with these.

    Args:
        kernel: What to change; without such values it stays as it is. Its buffers are not of these types:
            `zyx.render.words` sees to that.
        narrow: Types of 8 and 16 bits; bools stay what they are. A half that is not among them is converted by way of
            float32.

    Raises:
        UnsupportedError: Arithmetic on a narrow half, a conversion to a half of what float32 does not hold, or an
            `Atomic` on a narrow array.
    """
    return _Widener(kernel, narrow).widened()


class _Widener:
    """Writes one kernel anew."""

    def __init__(self, kernel: Kernel, narrow: Collection[DType]) -> None:
        self.kernel = kernel
        self.narrow = frozenset(dtype for dtype in narrow if not dtype.is_bool)
        self.writer = Rewriter()
        self.indexed = {array for array, index in _accesses(kernel) if not isinstance(kernel.ops[index], k.Const)}

    def widened(self) -> Kernel:
        """Return the kernel."""
        signed = [
            i
            for i, op in enumerate(self.kernel.ops)
            if isinstance(op, k.Variable) and op.type.dtype in self.narrow and self.wide(op.type.dtype) is dtypes.int32
        ]

        def extend() -> None:
            """Give arguments, which come as bits with zeros above, their sign."""
            for i in signed:
                self.writer.renamed[i] = self.wrapped(self.writer.renamed[i], self.value(i).type.dtype)

        return self.writer.rewrite(self.kernel, self.rule, extend if signed else None)

    def value(self, number: ValueId) -> Value:
        """Return an operation of the old kernel that has a result."""
        op = self.kernel.ops[number]
        assert isinstance(op, k.Value)
        return op

    def wide(self, dtype: DType) -> DType:
        """Return what values of a type become."""
        if dtype not in self.narrow:
            return dtype
        return dtypes.int32 if dtype.is_integer and not dtype.is_unsigned else dtypes.uint32

    def rule(self, op: Op) -> ValueId | None:
        """Write what an operation becomes; None if it stays."""
        b, number = self.writer, len(self.writer.renamed)
        old = self.kernel.ops[number]
        match op:
            case k.Define(dtype=dtype):
                is_number = dtype.is_bool and (op.memory is Memory.LOCAL or number in self.indexed)
                held = dtypes.uint32 if is_number and op.memory is not Memory.GLOBAL else self.wide(dtype)
                return None if held is dtype else b.append(dataclasses.replace(op, dtype=held))
            case k.Load() if self.holds_bools(op.source, op.type.dtype):
                bits = b.append(dataclasses.replace(op, type=Type(dtypes.uint32, op.type.lanes)))
                return b.binary(BinaryOp.NE, bits, b.like(0, bits))
            case k.Store() if self.holds_bools(op.target, b.type_of(op.value).dtype):
                b.append(dataclasses.replace(op, value=b.cast(op.value, dtypes.uint32)))
                return DROPPED
            case k.Atomic():
                array = self.kernel.ops[op.target]
                if isinstance(array, k.Define) and array.dtype in self.narrow:
                    raise self.unsupported(f"atomic {op.op.value} of {array.dtype}")
                return None
            case k.Const(value=value, type=type_) if type_.dtype in self.narrow:
                bits = half_bits(float(value), type_.dtype) if type_.dtype.is_float else int(value)
                return b.const(bits, self.wide(type_.dtype), type_.lanes)
            case k.Unary() | k.Mad() if op.type.dtype in self.narrow:
                what = op.op.value if isinstance(op, k.Unary) else "mad"
                stays = isinstance(op, k.Unary) and op.op is UnaryOp.ABS and op.type.dtype.is_unsigned
                return self.arithmetic(op, what, op.type.dtype, stays=stays)
            case k.Binary():
                assert isinstance(old, k.Binary)
                dtype = self.value(old.x).type.dtype
                stays = op.op in _WITHIN or op.op in COMPARISONS or (op.op is BinaryOp.DIV and dtype.is_unsigned)
                return self.arithmetic(op, op.op.value, dtype, stays=stays) if dtype in self.narrow else None
            case k.Cast():
                assert isinstance(old, k.Cast)
                return self.cast(op.x, self.value(old.x).type.dtype, op.type)
            case k.Bitcast():
                assert isinstance(old, k.Bitcast)
                return self.bitcast(op.x, self.value(old.x).type.dtype, op.type.dtype)
            case _ if isinstance(op, k.Value) and op.type.dtype in self.narrow:
                return b.append(dataclasses.replace(op, type=self.wide_type(op.type)))
            case _:
                return None

    def wide_type(self, type_: Type) -> Type:
        """Return a type with as many lanes."""
        return Type(self.wide(type_.dtype), type_.lanes)

    def holds_bools(self, array: ValueId, dtype: DType) -> bool:
        """Whether an array has numbers for the bools that are loaded or stored."""
        define = self.writer.ops[array]
        return dtype.is_bool and isinstance(define, k.Define) and not define.dtype.is_bool

    def unsupported(self, what: str) -> UnsupportedError:
        """Return the error for what there is no form for."""
        number = len(self.writer.renamed)
        return UnsupportedError(f"kernel {self.kernel.name}, operation %{number}: there is no native form of {what}")

    # ---- values

    def arithmetic(self, op: k.Unary | k.Mad | k.Binary, what: str, dtype: DType, *, stays: bool) -> ValueId:
        """Write an operation on a narrow type, and bring its result back into the range of that."""
        if dtype.is_float:
            raise self.unsupported(f"{what} of {dtype}")
        result = self.writer.append(dataclasses.replace(op, type=self.wide_type(op.type)))
        return result if stays else self.wrapped(result, dtype)

    def wrapped(self, value: ValueId, dtype: DType) -> ValueId:
        """Return the lowest bits of an integer as a value of a narrow type."""
        b = self.writer
        if self.wide(dtype) is dtypes.uint32:
            return b.binary(BinaryOp.AND, value, b.like((1 << dtype.bits) - 1, value))
        distance = b.like(32 - dtype.bits, value)
        return b.binary(BinaryOp.SHR, b.binary(BinaryOp.SHL, value, distance), distance)

    def cast(self, x: ValueId, source: DType, type_: Type) -> ValueId | None:
        """Write a conversion; None if it stays."""
        b, target = self.writer, type_.dtype
        if source is target:
            return x
        if not any(dtype in self.narrow or _is_half(dtype) for dtype in (source, target)):
            return None
        if _is_half(source):
            if source not in self.narrow and (target is dtypes.float32 or target.is_bool):
                return None
            if source in self.narrow and target.is_bool:  # any bit but the sign
                bits = b.binary(BinaryOp.AND, x, b.like(0x7FFF, x))
                return b.binary(BinaryOp.NE, bits, b.like(0, bits))
            x = float_of_half(b, x, source) if source in self.narrow else b.cast(x, dtypes.float32)
            source = dtypes.float32
        if _is_half(target):
            if source.bits > 16 and source is not dtypes.float32:
                raise self.unsupported(f"conversion of {source} to {target}")
            if source.is_bool:
                one, zero = (b.const(half_bits(number, target), dtypes.uint32, type_.lanes) for number in (1.0, 0.0))
                return b.where(x, one, zero) if target in self.narrow else None
            single = self.convert(x, source, dtypes.float32)
            return half_of_float(b, single, target) if target in self.narrow else b.cast(single, target)
        return self.convert(x, source, target)

    def convert(self, x: ValueId, source: DType, target: DType) -> ValueId:
        """Write a conversion between types that are no halves; `x` is wide."""
        b = self.writer
        value = b.cast(x, self.wide(target))
        if target not in self.narrow or source.is_bool:
            return value
        if source.is_float:  # saturated to the range of the wide type
            value = b.binary(BinaryOp.MIN, value, b.like(int(target.max), value))
            return value if target.is_unsigned else b.binary(BinaryOp.MAX, value, b.like(int(target.min), value))
        is_within = target.min <= source.min and source.max <= target.max
        return value if is_within else self.wrapped(value, target)

    def bitcast(self, x: ValueId, source: DType, target: DType) -> ValueId | None:
        """Write a reading of bits as another type; None if it stays."""
        b = self.writer
        if source not in self.narrow and target not in self.narrow:
            return None
        if source not in self.narrow:  # a half of the language's own
            x, source = b.cast(b.bitcast(x, dtypes.uint16), dtypes.uint32), dtypes.uint16
        bits = self.wide(source)
        if target not in self.narrow:
            unsigned = x if bits is dtypes.uint32 else self.convert(x, source, dtypes.uint16)
            return b.bitcast(b.cast(unsigned, dtypes.uint16), target)
        return x if bits is self.wide(target) else self.wrapped(b.cast(x, self.wide(target)), target)


def _is_half(dtype: DType) -> bool:
    return dtype.is_float and dtype.bits == 16


def _accesses(kernel: Kernel) -> list[tuple[ValueId, ValueId]]:
    """Return array and index of each access."""
    loads = [(op.source, op.index) for op in kernel.ops if isinstance(op, k.Load)]
    return loads + [(op.target, op.index) for op in kernel.ops if isinstance(op, k.Store | k.Atomic)]
