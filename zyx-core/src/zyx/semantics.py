"""The scalar operations on NumPy arrays, exactly as `zyx.ops` pins them; the interpreters compute with these.

Operands are arrays of one of the thirteen types, of any shapes that broadcast; results are of the type that the
operation gives. Arithmetic, comparisons, square roots and casts are correctly rounded: there is one right result, bit
by bit, but for the sign and payload of a NaN. Transcendental functions and powers of floats are computed in float64 and
rounded to the type, so they are as good as the C library's double functions: within one unit in the last place.

No operation warns: what floating-point hardware flags (overflow, division by zero, invalid) is a value here.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from zyx import dtype as dtypes
from zyx.dtype import DType, as_dtype
from zyx.ops import BinaryOp, ReduceOp, UnaryOp, binary_ops, unary_ops

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

Array: TypeAlias = "npt.NDArray[Any]"
UnaryFunction: TypeAlias = "Callable[[Array], Array]"
BinaryFunction: TypeAlias = "Callable[[Array, Array], Array]"


def apply_unary(op: UnaryOp, x: Array) -> Array:
    """Return `op` of each element; the result has the type of `x`.

    Raises:
        KeyError: `op` does not exist for the type.
    """
    with np.errstate(all="ignore"):
        return np.asarray(unary_function(op, as_dtype(x.dtype))(x))


def apply_binary(op: BinaryOp, x: Array, y: Array) -> Array:
    """Return `op` of each pair of elements; the result has the type of the operands, or is bool for comparisons.

    Raises:
        KeyError: `op` does not exist for the type.
    """
    with np.errstate(all="ignore"):
        return np.asarray(binary_function(op, as_dtype(x.dtype))(x, y))


def apply_cast(x: Array, dtype: DType) -> Array:
    """Return `x` converted: rounded once, saturated or wrapped; `x` itself if it has the type already."""
    with np.errstate(all="ignore"):
        return np.asarray(cast_function(as_dtype(x.dtype), dtype)(x))


def apply_bitcast(x: Array, dtype: DType) -> Array:
    """Return the bits of `x` read as `dtype`, which is of the same size; neither is bool."""
    return x.view(dtype.numpy)


def apply_mad(x: Array, y: Array, z: Array) -> Array:
    """Return ``x * y + z``, floats rounded after the product and after the sum."""
    return apply_binary(BinaryOp.ADD, apply_binary(BinaryOp.MUL, x, y), z)


def reduce_ufunc(op: ReduceOp) -> np.ufunc:
    """Return the NumPy function with a ``reduce`` and an ``at`` that combines as `op` does."""
    return _REDUCE[op]


# The functions below are what the `apply_` ones look up. They expect ``np.errstate(all="ignore")`` around them, which
# costs more than many of them, so an interpreter sets it once; and of arrays of rank 0 they make NumPy scalars.


@functools.cache
def unary_function(op: UnaryOp, dtype: DType) -> UnaryFunction:
    """Return what computes `op` on arrays of `dtype`.

    Raises:
        KeyError: `op` does not exist for `dtype`.
    """
    if op not in unary_ops(dtype):
        raise KeyError(f"{op.value} is not defined for {dtype}")
    if op in _WIDE_UNARY:
        return _through_unary(_WIDE_UNARY[op], dtype, dtypes.complex128 if dtype.is_complex else dtypes.float64)
    return _through_unary(_UNARY[op], dtype, dtypes.accumulator(dtype))


@functools.cache
def binary_function(op: BinaryOp, dtype: DType) -> BinaryFunction:
    """Return what computes `op` on two arrays of `dtype`.

    Raises:
        KeyError: `op` does not exist for `dtype`.
    """
    if op not in binary_ops(dtype):
        raise KeyError(f"{op.value} is not defined for {dtype}")
    if dtype.is_complex:
        return _COMPARE.get(op) or (np.power if op is BinaryOp.POW else _FLOAT[op])
    if not dtype.is_float:
        return _INTEGER[op]
    if op in _COMPARE:
        compare, wide = _COMPARE[op], dtypes.accumulator(dtype).numpy
        if dtype.numpy == wide:
            return compare
        return lambda x, y: compare(x.astype(wide), y.astype(wide))
    if op is BinaryOp.POW:
        return _through_binary(_float_power, dtype, dtypes.float64)
    return _through_binary(_FLOAT[op], dtype, dtypes.accumulator(dtype))


@functools.cache
def cast_function(source: DType, target: DType) -> UnaryFunction:
    """Return what converts arrays of `source` to `target`."""
    if source is target:
        return lambda x: x
    numpy_dtype = target.numpy
    if target.is_bool:
        return lambda x: x != 0
    if target.is_integer and source.is_float:
        return lambda x: _truncate_and_saturate(x, target)
    if target is dtypes.bfloat16 and source.bits >= 32 and source is not dtypes.float32:
        return lambda x: _float32_rounded_to_odd(x).astype(numpy_dtype)
    if target is dtypes.float16 and source is dtypes.bfloat16:
        return lambda x: x.astype(np.float32).astype(numpy_dtype)
    return lambda x: x.astype(numpy_dtype)


def _through_unary(function: UnaryFunction, dtype: DType, wide: DType) -> UnaryFunction:
    """Return `function` computed in `wide` and rounded back."""
    if dtype is wide:
        return function
    narrow, numpy_dtype = cast_function(wide, dtype), wide.numpy
    return lambda x: narrow(function(x.astype(numpy_dtype)))


def _through_binary(function: BinaryFunction, dtype: DType, wide: DType) -> BinaryFunction:
    """Return `function` computed in `wide` and rounded back.

    For the basic operations on float16 and bfloat16 in float32 that gives the correctly rounded result, since float32
    has more than twice their digits plus two (Figueroa, "When is double rounding innocuous?", 1995).
    """
    if dtype is wide:
        return function
    narrow, numpy_dtype = cast_function(wide, dtype), wide.numpy
    return lambda x, y: narrow(function(x.astype(numpy_dtype), y.astype(numpy_dtype)))


def _truncate_and_saturate(x: Array, target: DType) -> Array:
    """Convert floats to integers: toward zero, clamped to the range, NaN as 0."""
    wide = x.astype(np.float64)
    low, end = float(target.min), float(int(target.max) + 1)  # both exact: powers of two, or 0
    inside = (wide >= low) & (wide < end)
    result = np.where(inside, wide, 0.0).astype(target.numpy)
    result = np.where(wide >= end, target.numpy.type(target.max), result)
    return np.where(wide < low, target.numpy.type(target.min), result)


def _float32_rounded_to_odd(x: Array) -> Array:
    """Return float64 or integers as the float32 next to them whose last bit is odd; exact ones as they are.

    Rounding that to nearest in fewer digits gives what rounding `x` itself would, which rounding twice to nearest does
    not (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd",
    2008).
    """
    if x.dtype.itemsize == 8 and x.dtype.kind != "f":
        # The same trick, to reach float64: the low 11 bits of integers that need more than 53 become one.
        small = (x < (1 << 53)) & (x > -(1 << 53)) if x.dtype.kind == "i" else x < (1 << 53)
        odd = ((x >> 11) | ((x & 2047) != 0)).astype(np.float64) * 2048.0
        x = np.where(small, x.astype(np.float64), odd)
    else:
        x = x.astype(np.float64)
    nearest = x.astype(np.float32)
    back = nearest.astype(np.float64)
    bits = nearest.view(np.int32)  # sign and magnitude: subtracting 1 goes toward zero
    bits = np.where(np.abs(back) > np.abs(x), bits - 1, bits)
    bits = np.where((back == x) | np.isnan(x), bits, bits | 1)
    return bits.view(np.float32)


def _reciprocal(x: Array) -> Array:
    result: Array = np.divide(x.dtype.type(1), x)
    return result


def _float_power(x: Array, y: Array) -> Array:
    """Powers of float64. For a single exponent of 1/2, NumPy takes square roots, which differ for -0 and -infinity."""
    x, y = np.broadcast_arrays(x, y)
    result: Array = np.power(x, np.array(y, ndmin=1)).reshape(x.shape)
    return result


def _erf(x: Array) -> Array:
    return np.asarray(_ERF(x), dtype=np.float64)


_ERF: Final = np.frompyfunc(math.erf, 1, 1)


def _divide(x: Array, y: Array) -> Array:
    """Integer quotient toward zero; 0 by zero. NumPy's own rounds down, so the remainder goes first."""
    if x.dtype.kind == "u":
        quotient: Array = np.floor_divide(x, y)
    else:
        quotient = np.floor_divide(np.subtract(x, np.fmod(x, y)), y)
    return quotient


def _shift_left(x: Array, y: Array) -> Array:
    bits = x.dtype.itemsize * 8
    shifted: Array = np.left_shift(x, y & (bits - 1))
    return np.where((y >= 0) & (y < bits), shifted, x.dtype.type(0))


def _shift_right(x: Array, y: Array) -> Array:
    bits = x.dtype.itemsize * 8
    distance = np.where((y >= 0) & (y < bits), y, y.dtype.type(bits - 1))
    result: Array = np.right_shift(x, distance)
    if x.dtype.kind == "i":
        return result
    return np.where(y < bits, result, x.dtype.type(0))


def _integer_power(x: Array, y: Array) -> Array:
    """Power by squaring, wrapping; a negative exponent gives the truncated quotient 1 / x**-y, 0 for x = 0."""
    x, y = np.broadcast_arrays(x, y)
    one = x.dtype.type(1)
    result, base = np.ones_like(x), x
    left = np.where(y < 0, x.dtype.type(0), y)
    while left.any():
        result = np.where(left & one != 0, np.multiply(result, base), result)
        base = np.multiply(base, base)
        left = np.right_shift(left, one)
    if x.dtype.kind == "u":
        return result
    sign = np.where(y & one != 0, x, one)  # of a base of 1 or -1
    negative = np.where((x == 1) | (x == -1), sign, x.dtype.type(0))
    return np.where(y < 0, negative, result)


_UNARY: Final[dict[UnaryOp, UnaryFunction]] = {
    UnaryOp.NEG: np.negative,
    UnaryOp.NOT: np.invert,
    UnaryOp.ABS: np.absolute,
    UnaryOp.FLOOR: np.floor,
    UnaryOp.TRUNC: np.trunc,
    UnaryOp.SQRT: np.sqrt,
    UnaryOp.RECIPROCAL: _reciprocal,
}
_WIDE_UNARY: Final[dict[UnaryOp, UnaryFunction]] = {
    UnaryOp.EXP: np.exp,
    UnaryOp.EXP2: np.exp2,
    UnaryOp.EXPM1: np.expm1,
    UnaryOp.LOG: np.log,
    UnaryOp.LOG2: np.log2,
    UnaryOp.LOG1P: np.log1p,
    UnaryOp.SIN: np.sin,
    UnaryOp.COS: np.cos,
    UnaryOp.TANH: np.tanh,
    UnaryOp.ATAN: np.arctan,
    UnaryOp.ERF: _erf,
}
_COMPARE: Final[dict[BinaryOp, BinaryFunction]] = {
    BinaryOp.LT: np.less,
    BinaryOp.LE: np.less_equal,
    BinaryOp.EQ: np.equal,
    BinaryOp.NE: np.not_equal,
}
_FLOAT: Final[dict[BinaryOp, BinaryFunction]] = {
    BinaryOp.ADD: np.add,
    BinaryOp.SUB: np.subtract,
    BinaryOp.MUL: np.multiply,
    BinaryOp.DIV: np.divide,
    BinaryOp.MOD: np.fmod,
    BinaryOp.MAX: np.maximum,
    BinaryOp.MIN: np.minimum,
}
_INTEGER: Final[dict[BinaryOp, BinaryFunction]] = {
    **_COMPARE,
    BinaryOp.ADD: np.add,
    BinaryOp.SUB: np.subtract,
    BinaryOp.MUL: np.multiply,
    BinaryOp.DIV: _divide,
    BinaryOp.MOD: np.fmod,  # 0 by zero, and the dividend's sign
    BinaryOp.POW: _integer_power,
    BinaryOp.MAX: np.maximum,
    BinaryOp.MIN: np.minimum,
    BinaryOp.AND: np.bitwise_and,
    BinaryOp.OR: np.bitwise_or,
    BinaryOp.XOR: np.bitwise_xor,
    BinaryOp.SHL: _shift_left,
    BinaryOp.SHR: _shift_right,
}
_REDUCE: Final[dict[ReduceOp, np.ufunc]] = {
    ReduceOp.SUM: np.add,
    ReduceOp.PROD: np.multiply,
    ReduceOp.MAX: np.maximum,
    ReduceOp.MIN: np.minimum,
    ReduceOp.OR: np.bitwise_or,
    ReduceOp.AND: np.bitwise_and,
    ReduceOp.XOR: np.bitwise_xor,
}
