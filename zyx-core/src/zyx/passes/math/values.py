"""Write arithmetic on kernel values as formulas.

`KernelValue` pairs a value with the kernel that grows around it, so that ``(x * x + 1.0).sqrt()`` appends three
operations and a literal. Python numbers stand for literals of the type of the value they meet, rounded to it.
Comparisons are methods, for `==` is Python's; and nothing is fused by itself: `mad` is called where it is meant.

`Format` is what the formulas need to know of a float type: its integer twins, where the exponent lies, its limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from zyx import dtype as dtypes
from zyx.kernel import data as k
from zyx.ops import BinaryOp, UnaryOp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.dtype import DType
    from zyx.kernel.build import Builder
    from zyx.kernel.data import ValueId

Number: TypeAlias = int | float


@dataclass(frozen=True, slots=True, eq=False)
class Format:
    """A binary floating-point type.

    Attributes:
        dtype: The type.
        unsigned: The unsigned integer type of the same size.
        signed: The signed integer type of the same size.
        mantissa: Stored bits of the significand: the exponent begins above them.
        bias: What is added to the exponent of a normal number to make its stored exponent; also the largest exponent.
    """

    dtype: DType
    unsigned: DType
    signed: DType
    mantissa: int
    bias: int

    @property
    def rounder(self) -> float:
        """1.5 * 2**mantissa: adding it to a small number rounds that to an integer, which then is in the low bits."""
        return 1.5 * 2.0**self.mantissa

    @property
    def tiny(self) -> float:
        """The least positive normal number."""
        return 2.0 ** (1 - self.bias)

    @property
    def sign_bit(self) -> int:
        """The sign, as a mask."""
        return 1 << (self.unsigned.bits - 1)

    def bits_of(self, value: float) -> int:
        """Return the bits of `value`, rounded to the format, as an unsigned integer."""
        return int(self.dtype.numpy.type(value).view(self.unsigned.numpy))


F32: Final = Format(dtypes.float32, dtypes.uint32, dtypes.int32, 23, 127)
F64: Final = Format(dtypes.float64, dtypes.uint64, dtypes.int64, 52, 1023)
FORMATS: Final = {dtypes.float32: F32, dtypes.float64: F64}

#: pi / 2 in two parts, each rounded to the type.
HALF_PI: Final = {
    dtypes.float32: (1.5707963705062866, -4.371138828673793e-08),
    dtypes.float64: (1.5707963267948966, 6.123233995736766e-17),
}


class KernelValue:
    """A value of a growing kernel.

    Attributes:
        builder: The kernel.
        id: The value in it.
    """

    __slots__ = ("builder", "id")

    def __init__(self, builder: Builder, value: ValueId) -> None:
        self.builder = builder
        self.id = value

    def like(self, number: Number) -> KernelValue:
        """Return a literal of this value's type."""
        return KernelValue(self.builder, self.builder.like(number, self.id))

    def _unary(self, op: UnaryOp) -> KernelValue:
        return KernelValue(self.builder, self.builder.unary(op, self.id))

    def _binary(self, op: BinaryOp, other: KernelValue | Number) -> KernelValue:
        other = other if isinstance(other, KernelValue) else self.like(other)
        return KernelValue(self.builder, self.builder.binary(op, self.id, other.id))

    def __neg__(self) -> KernelValue:
        return self._unary(UnaryOp.NEG)

    def __invert__(self) -> KernelValue:
        return self._unary(UnaryOp.NOT)

    def __abs__(self) -> KernelValue:
        return self._unary(UnaryOp.ABS)

    def floor(self) -> KernelValue:
        """Round down."""
        return self._unary(UnaryOp.FLOOR)

    def trunc(self) -> KernelValue:
        """Round towards zero."""
        return self._unary(UnaryOp.TRUNC)

    def sqrt(self) -> KernelValue:
        """Return the square root."""
        return self._unary(UnaryOp.SQRT)

    def __add__(self, other: KernelValue | Number) -> KernelValue:
        return self._binary(BinaryOp.ADD, other)

    def __sub__(self, other: KernelValue | Number) -> KernelValue:
        return self._binary(BinaryOp.SUB, other)

    def __rsub__(self, other: Number) -> KernelValue:
        return self.like(other) - self

    def __mul__(self, other: KernelValue | Number) -> KernelValue:
        return self._binary(BinaryOp.MUL, other)

    def __truediv__(self, other: KernelValue | Number) -> KernelValue:
        return self._binary(BinaryOp.DIV, other)

    def __rtruediv__(self, other: Number) -> KernelValue:
        return self.like(other) / self

    def __and__(self, other: KernelValue | Number) -> KernelValue:
        return self._binary(BinaryOp.AND, other)

    def __or__(self, other: KernelValue | Number) -> KernelValue:
        return self._binary(BinaryOp.OR, other)

    def __xor__(self, other: KernelValue | Number) -> KernelValue:
        return self._binary(BinaryOp.XOR, other)

    def __lshift__(self, other: KernelValue | Number) -> KernelValue:
        return self._binary(BinaryOp.SHL, other)

    def __rshift__(self, other: KernelValue | Number) -> KernelValue:
        return self._binary(BinaryOp.SHR, other)

    def lt(self, other: KernelValue | Number) -> KernelValue:
        """Whether this is less than `other`; so are the next ones."""
        return self._binary(BinaryOp.LT, other)

    def le(self, other: KernelValue | Number) -> KernelValue:
        """Less or equal."""
        return self._binary(BinaryOp.LE, other)

    def gt(self, other: KernelValue | Number) -> KernelValue:
        """Greater."""
        other = other if isinstance(other, KernelValue) else self.like(other)
        return other.lt(self)

    def ge(self, other: KernelValue | Number) -> KernelValue:
        """Greater or equal."""
        other = other if isinstance(other, KernelValue) else self.like(other)
        return other.le(self)

    def eq(self, other: KernelValue | Number) -> KernelValue:
        """Equal."""
        return self._binary(BinaryOp.EQ, other)

    def ne(self, other: KernelValue | Number) -> KernelValue:
        """Not equal: true if one is NaN."""
        return self._binary(BinaryOp.NE, other)

    def cast(self, dtype: DType) -> KernelValue:
        """Convert."""
        return KernelValue(self.builder, self.builder.cast(self.id, dtype))

    def bitcast(self, dtype: DType) -> KernelValue:
        """Read the bits as another type of the same size."""
        return KernelValue(self.builder, self.builder.bitcast(self.id, dtype))

    @property
    def format(self) -> Format:
        """The format of this float32 or float64 value."""
        return FORMATS[self.builder.type_of(self.id).dtype]

    @property
    def bits(self) -> KernelValue:
        """The bits of this float value as an unsigned integer."""
        return self.bitcast(self.format.unsigned)


def where(condition: KernelValue, x: KernelValue | Number, y: KernelValue | Number) -> KernelValue:
    """Choose `x` where `condition` holds, else `y`; at most one of them is a number."""
    x, y = _alike(x, y)
    return KernelValue(condition.builder, condition.builder.where(condition.id, x.id, y.id))


def mad(x: KernelValue, y: KernelValue | Number, z: KernelValue | Number) -> KernelValue:
    """Return ``x * y + z``."""
    y = y if isinstance(y, KernelValue) else x.like(y)
    z = z if isinstance(z, KernelValue) else x.like(z)
    return KernelValue(x.builder, x.builder.mad(x.id, y.id, z.id))


def any_lane(condition: KernelValue) -> ValueId:
    """Return whether `condition` holds in at least one lane, as a scalar.

    By folding the vector on itself in full width, which compilers know as one test of a mask register.
    """
    b = condition.builder
    type_ = b.type_of(condition.id)
    if type_.lanes == 1:
        return condition.id
    remaining = type_.lanes
    while remaining > 1:
        half = (remaining + 1) // 2
        upper = tuple(half + lane % (remaining - half) for lane in range(type_.lanes))
        condition = condition | KernelValue(b, b.add(k.Shuffle(condition.id, condition.id, upper, type_)))
        remaining = half
    return b.devectorize(condition.id, 0)


def at_least(x: KernelValue, low: Number) -> KernelValue:
    """Return `x` or, where that is less, `low`; NaN stays. Unlike `MAX`, this is one instruction on every processor."""
    return where(x.lt(low), low, x)


def at_most(x: KernelValue, high: Number) -> KernelValue:
    """Return `x` or, where that is greater, `high`; NaN stays."""
    return where(x.gt(high), high, x)


def polynomial(x: KernelValue, coefficients: Sequence[float]) -> KernelValue:
    """Return ``c[0] + c[1] * x + c[2] * x**2 + ...`` by Horner's rule, for at least two coefficients."""
    result = mad(x, coefficients[-1], coefficients[-2])
    for coefficient in reversed(coefficients[:-2]):
        result = mad(result, x, coefficient)
    return result


def _alike(x: KernelValue | Number, y: KernelValue | Number) -> tuple[KernelValue, KernelValue]:
    if isinstance(x, KernelValue):
        return x, y if isinstance(y, KernelValue) else x.like(y)
    assert isinstance(y, KernelValue), "a choice between two numbers has no type"
    return y.like(x), y
