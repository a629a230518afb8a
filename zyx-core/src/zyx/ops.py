"""The scalar operations, and the facts about them that every layer shares.

Semantics are pinned here once, for all backends, passes and interpreters:

* Integers wrap. `DIV` truncates toward zero, `MOD` takes the dividend's sign; by zero both give 0, and the least
  integer by -1 gives itself (`DIV`) and 0 (`MOD`). `SHL` and `SHR` by the width or more, or by a negative amount,
  give what infinitely many single shifts would: 0, or -1 for `SHR` of a negative number. `POW` with a negative
  exponent gives the truncated quotient: 0, unless the base is 1 or -1.
* Floats follow IEEE 754 with NaN and infinities kept. `MAX` and `MIN` give NaN if an operand is NaN. Comparisons with
  NaN are false, but for `NE`. The sign of a zero that `MAX` or `MIN` picks of two zeros is not fixed. float16 and
  bfloat16 round after every operation.
* Casts to integers truncate and saturate, NaN becomes 0; between integers they wrap; to bool they test for nonzero.
* bool knows `NOT`, `AND`, `OR`, `XOR`, `MAX` (or), `MIN` (and), comparisons and casts.
* Complex numbers, which no kernel has (`zyx.pairs`), know what is analytic, and whether two are equal. Special cases
  are those of C99, annex G, but that `MUL` is the plain formula and `DIV` is Smith's.
"""

from __future__ import annotations

import enum
import functools
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from zyx.dtype import DType, Scalar


class UnaryOp(enum.Enum):
    """Operations of one operand; the result has its type."""

    NEG = "neg"
    NOT = "not"
    ABS = "abs"
    FLOOR = "floor"
    TRUNC = "trunc"
    SQRT = "sqrt"
    RECIPROCAL = "reciprocal"
    EXP = "exp"
    EXP2 = "exp2"
    EXPM1 = "expm1"
    LOG = "log"
    LOG2 = "log2"
    LOG1P = "log1p"
    SIN = "sin"
    COS = "cos"
    TANH = "tanh"
    ATAN = "atan"
    ERF = "erf"

    __hash__ = object.__hash__  # Enum's own is Python code, and ops are in the keys of every cache

    def __repr__(self) -> str:
        return f"UnaryOp.{self.name}"


class BinaryOp(enum.Enum):
    """Operations of two operands of one type; the result has that type, or bool for comparisons."""

    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    MOD = "mod"
    POW = "pow"
    MAX = "max"
    MIN = "min"
    AND = "and"
    OR = "or"
    XOR = "xor"
    SHL = "shl"
    SHR = "shr"
    LT = "lt"
    LE = "le"
    EQ = "eq"
    NE = "ne"

    __hash__ = object.__hash__  # Enum's own is Python code, and ops are in the keys of every cache

    def __repr__(self) -> str:
        return f"BinaryOp.{self.name}"


class FourierKind(enum.Enum):
    """What a transform takes and gives: complex numbers both times, or real ones on one side.

    Of the transform of n real numbers, n even, the first ``n / 2 + 1`` elements say all: the others are conjugates of
    these. `TO_REAL` takes such a half, and has it that the imaginary parts of its first and last element are 0.
    """

    COMPLEX = "complex"
    FROM_REAL = "from real"
    TO_REAL = "to real"

    def __repr__(self) -> str:
        return f"FourierKind.{self.name}"


class ReduceOp(enum.Enum):
    """Operations that combine many values; each is a `BinaryOp` that is associative and commutative (`binary`)."""

    SUM = "sum"
    PROD = "prod"
    MAX = "max"
    MIN = "min"
    OR = "or"
    AND = "and"
    XOR = "xor"

    __hash__ = object.__hash__  # Enum's own is Python code, and ops are in the keys of every cache

    def __repr__(self) -> str:
        return f"ReduceOp.{self.name}"

    @property
    def binary(self) -> BinaryOp:
        """The operation of two operands."""
        return _BINARY_OF[self]


_BINARY_OF: Final = {
    ReduceOp.SUM: BinaryOp.ADD,
    ReduceOp.PROD: BinaryOp.MUL,
    ReduceOp.MAX: BinaryOp.MAX,
    ReduceOp.MIN: BinaryOp.MIN,
    ReduceOp.OR: BinaryOp.OR,
    ReduceOp.AND: BinaryOp.AND,
    ReduceOp.XOR: BinaryOp.XOR,
}

COMPARISONS: Final = frozenset({BinaryOp.LT, BinaryOp.LE, BinaryOp.EQ, BinaryOp.NE})
COMMUTATIVE: Final = frozenset(
    {
        BinaryOp.ADD, BinaryOp.MUL, BinaryOp.MAX, BinaryOp.MIN, BinaryOp.AND, BinaryOp.OR, BinaryOp.XOR, BinaryOp.EQ,
        BinaryOp.NE,
    }
)  # fmt: skip

_LOGIC_UNARY: Final = frozenset({UnaryOp.NOT})
_INTEGER_UNARY: Final = frozenset({UnaryOp.NOT, UnaryOp.NEG, UnaryOp.ABS})
_FLOAT_UNARY: Final = frozenset(UnaryOp) - {UnaryOp.NOT}
_BITWISE: Final = frozenset({BinaryOp.AND, BinaryOp.OR, BinaryOp.XOR})
_SHIFTS: Final = frozenset({BinaryOp.SHL, BinaryOp.SHR})
_BOOL_BINARY: Final = _BITWISE | COMPARISONS | {BinaryOp.MAX, BinaryOp.MIN}
_INTEGER_BINARY: Final = frozenset(BinaryOp)
_FLOAT_BINARY: Final = frozenset(BinaryOp) - _BITWISE - _SHIFTS

_COMPLEX_UNARY: Final = _FLOAT_UNARY - {UnaryOp.ABS, UnaryOp.FLOOR, UnaryOp.TRUNC, UnaryOp.ERF}
_COMPLEX_BINARY: Final = frozenset(
    {BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.DIV, BinaryOp.POW, BinaryOp.EQ, BinaryOp.NE}
)

TRANSCENDENTAL: Final = frozenset(
    {
        UnaryOp.EXP, UnaryOp.EXP2, UnaryOp.EXPM1, UnaryOp.LOG, UnaryOp.LOG2, UnaryOp.LOG1P,
        UnaryOp.SIN, UnaryOp.COS, UnaryOp.TANH, UnaryOp.ATAN, UnaryOp.ERF,
    }
)  # fmt: skip


def unary_ops(dtype: DType) -> frozenset[UnaryOp]:
    """Return the unary operations that exist for `dtype`."""
    if dtype.is_bool:
        return _LOGIC_UNARY
    if dtype.is_complex:
        return _COMPLEX_UNARY
    return _FLOAT_UNARY if dtype.is_float else _INTEGER_UNARY


def binary_ops(dtype: DType) -> frozenset[BinaryOp]:
    """Return the binary operations that exist for operands of `dtype`."""
    if dtype.is_bool:
        return _BOOL_BINARY
    if dtype.is_complex:
        return _COMPLEX_BINARY
    return _FLOAT_BINARY if dtype.is_float else _INTEGER_BINARY


@functools.cache
def reduce_ops(dtype: DType) -> frozenset[ReduceOp]:
    """Return the reductions that exist for `dtype`."""
    return frozenset(op for op in ReduceOp if op.binary in binary_ops(dtype))


def identity(op: ReduceOp, dtype: DType) -> Scalar:
    """Return the value that leaves every other one unchanged under `op`: minus infinity for a float `MAX`."""
    match op:
        case ReduceOp.SUM | ReduceOp.OR | ReduceOp.XOR:
            zero: Scalar = 0.0 if dtype.is_float else (False if dtype.is_bool else 0)
            return zero
        case ReduceOp.PROD:
            return 1.0 if dtype.is_float else 1
        case ReduceOp.MAX:
            return dtype.min
        case ReduceOp.MIN:
            return dtype.max
        case ReduceOp.AND:
            return dtype.max if dtype.is_unsigned or dtype.is_bool else -1
