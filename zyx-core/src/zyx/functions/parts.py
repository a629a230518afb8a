"""Parts, signs and bits of numbers, rounding, and choices between two, under NumPy's and PyTorch's names.

Each is put together from functions of `zyx`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.errors import DTypeError
from zyx.functions import arithmetic, elementwise, logic, take_habits, transcendental
from zyx.functions.choosing import where
from zyx.functions.operands import align, float_dtype, require, term_of, wrap
from zyx.ops import BinaryOp

if TYPE_CHECKING:
    from zyx.functions import Tensor
    from zyx.functions.operands import Operand

__all__ = [
    "bitwise_count", "divmod", "fix", "fmax", "fmin", "frexp", "gcd", "heaviside", "iscomplex", "isneginf",
    "isposinf", "isreal", "lcm", "ldexp", "modf", "rint", "rsub", "sgn",
]  # fmt: skip


def fmax(x: Operand, y: Operand) -> Tensor:
    """Return the greater of each two elements; of NaN and a number, the number.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: Neither is a tensor, or one is complex.

    >>> zyx.fmax(zyx.Tensor([zyx.nan, 1.0]), zyx.Tensor([2.0, 3.0])).tolist()
    [2.0, 3.0]
    """
    return _without_nan(arithmetic.maximum, x, y, "fmax")


def fmin(x: Operand, y: Operand) -> Tensor:
    """Return the lesser of each two elements; of NaN and a number, the number.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: Neither is a tensor, or one is complex.

    >>> zyx.fmin(zyx.Tensor([zyx.nan, 1.0]), zyx.Tensor([2.0, 3.0])).tolist()
    [2.0, 1.0]
    """
    return _without_nan(arithmetic.minimum, x, y, "fmin")


def _without_nan(choose: object, x: Operand, y: Operand, what: str) -> Tensor:
    like, terms = align((x, y), what)
    a, b = (wrap(term.node, like) for term in terms)
    if not a.node.dtype.is_float:
        return arithmetic.maximum(a, b) if choose is arithmetic.maximum else arithmetic.minimum(a, b)
    first, second = where(elementwise.isnan(a), b, a), where(elementwise.isnan(b), a, b)
    return arithmetic.maximum(first, second) if choose is arithmetic.maximum else arithmetic.minimum(first, second)


def heaviside(x: Operand, values: Operand) -> Tensor:
    """Return 0 where `x` is below 0, 1 where it is above, and `values` where it is 0; NaN stays.

    The result has the shape that both broadcast to.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: Neither is a tensor, or one is complex.

    >>> zyx.heaviside(zyx.Tensor([-1.0, 0.0, 2.0]), 0.5).tolist()
    [0.0, 0.5, 1.0]
    """
    like, terms = align((x, values), "heaviside")
    a, b = (wrap(term.node, like) for term in terms)
    step = where(a == 0, b, where(a > 0, 1, 0).astype(a.node.dtype))
    return where(elementwise.isnan(a), a, step) if a.node.dtype.is_float else step


def isposinf(x: Tensor) -> Tensor:
    """Tell which elements are positive infinity.

    Raises:
        DTypeError: `x` is no tensor, or complex.

    >>> zyx.isposinf(zyx.Tensor([1.0, zyx.inf, -zyx.inf])).tolist()
    [False, True, False]
    """
    return _is_infinity(x, math.inf, "isposinf")


def isneginf(x: Tensor) -> Tensor:
    """Tell which elements are negative infinity.

    Raises:
        DTypeError: `x` is no tensor, or complex.

    >>> zyx.isneginf(zyx.Tensor([1.0, zyx.inf, -zyx.inf])).tolist()
    [False, False, True]
    """
    return _is_infinity(x, -math.inf, "isneginf")


def _is_infinity(x: Tensor, value: float, what: str) -> Tensor:
    base = require(x, what)
    if base.node.dtype.is_complex:
        raise DTypeError(f"{what} takes real numbers, not {base.node.dtype}; complex ones have no sign")
    return base == value if base.node.dtype.is_float else elementwise.isinf(base)


def isreal(x: Tensor) -> Tensor:
    """Tell which elements have no imaginary part.

    Raises:
        DTypeError: `x` is no tensor.

    >>> zyx.isreal(zyx.Tensor([1 + 0j, 1 + 2j])).tolist()
    [True, False]
    """
    base = require(x, "isreal")
    return (
        base.imag == 0
        if base.node.dtype.is_complex
        else wrap(base.runtime.graph.const(True, dtypes.bool_, base.node.device, base.node.shape), base)
    )


def iscomplex(x: Tensor) -> Tensor:
    """Tell which elements have an imaginary part that is not 0.

    Raises:
        DTypeError: `x` is no tensor.

    >>> zyx.iscomplex(zyx.Tensor([1 + 0j, 1 + 2j])).tolist()
    [False, True]
    """
    return logic.logical_not(isreal(x))


def fix(x: Tensor) -> Tensor:
    """Return the whole number next to each element towards 0.

    Raises:
        DTypeError: `x` is no tensor, or of bools or complex numbers.

    >>> zyx.fix(zyx.Tensor([1.5, -1.5])).tolist()
    [1.0, -1.0]
    """
    return elementwise.trunc(x)


def rint(x: Tensor) -> Tensor:
    """Return the whole number next to each element, of two the even one.

    Raises:
        DTypeError: `x` is no tensor, or of bools.

    >>> zyx.rint(zyx.Tensor([0.5, 1.5, 2.4])).tolist()
    [0.0, 2.0, 2.0]
    """
    return elementwise.round(x)


def sgn(x: Tensor) -> Tensor:
    """Return the sign of each element; of complex numbers what has size 1 and the same angle, 0 at 0.

    Raises:
        DTypeError: `x` is no tensor, or of bools.

    >>> zyx.sgn(zyx.Tensor([-2, 0, 3])).tolist()
    [-1, 0, 1]
    """
    return elementwise.sign(x)


def rsub(x: Operand, y: Operand, *, alpha: float = 1) -> Tensor:
    """Return ``y - alpha * x``, in the shape that both broadcast to.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: Neither is a tensor, or both are of bools.

    >>> zyx.rsub(zyx.Tensor([1, 2]), 10, alpha=2).tolist()
    [8, 6]
    """
    return arithmetic.subtract(y, x if alpha == 1 else arithmetic.multiply(x, alpha))


def modf(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the fraction of each element and the whole number next to it towards 0, both with the sign of `x`.

    Raises:
        DTypeError: `x` is no tensor, or complex.

    >>> [part.tolist() for part in zyx.modf(zyx.Tensor([2.5, -1.25]))]
    [[0.5, -0.25], [2.0, -1.0]]
    """
    base = require(x, "modf")
    base = base.astype(float_dtype(base.node.dtype))
    whole = elementwise.trunc(base)
    rest = elementwise.copysign(where(elementwise.isinf(base), 0.0, base - whole), base.detach())
    return rest, whole


def divmod(x: Operand, y: Operand) -> tuple[Tensor, Tensor]:  # Python's name
    """Return ``x // y`` and ``x % y`` in the shape that both broadcast to.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: Neither is a tensor, both are of bools, or one is complex.

    >>> [part.tolist() for part in zyx.divmod(zyx.Tensor([7, -7]), 3)]
    [[2, -3], [1, 2]]
    """
    return arithmetic.floor_divide(x, y), arithmetic.remainder(x, y)


def frexp(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return m and e such that ``x = m * 2**e`` with ``0.5 <= |m| < 1``, e int32; of 0, infinities and NaN it and 0.

    Elementwise: both have the shape of `x`.

    Raises:
        DTypeError: `x` is no tensor, or complex.

    >>> [part.tolist() for part in zyx.frexp(zyx.Tensor([8.0]))]
    [[0.5], [4]]
    """
    base = require(x, "frexp")
    base = base.astype(float_dtype(base.node.dtype))
    dtype = base.node.dtype
    wide = base.astype(dtypes.float64 if dtype.bits == 64 else dtypes.float32)
    word, shift, mask, bias = (dtypes.int64, 52, 0x7FF, 1022) if dtype.bits == 64 else (dtypes.int32, 23, 0xFF, 126)
    tiny = (wide.abs() < 2.0 ** (2 - bias)) & (wide != 0)
    up = 2.0 ** (shift + 1)
    scaled = where(tiny, wide * up, wide)
    bits = term_of(scaled.detach(), "frexp").bitcast(word)
    found = wrap((bits.binary(BinaryOp.SHR, shift) & mask).node, base)
    ordinary = elementwise.isfinite(wide) & (wide != 0)
    exponent = where(ordinary, found - bias - where(tiny, shift + 1, 0), 0).astype(dtypes.int32)
    kept = where(ordinary, found - bias, 0)
    fraction = _scaled(scaled, -kept)
    return where(ordinary, fraction, wide).astype(dtype), exponent


def _scaled(x: Tensor, exponent: Tensor) -> Tensor:
    """Return ``x * 2**exponent``, in steps whose factors are in range."""
    for _ in range(3):
        limit = 1000 if x.node.dtype.bits == 64 else 120
        step = exponent.clip(-limit, limit)
        x = x * transcendental.exp2(step.astype(x.node.dtype))
        exponent = exponent - step
    return x


def ldexp(x: Operand, exponent: Operand) -> Tensor:
    """Return ``x * 2**exponent``; `exponent` may be fractions, as in PyTorch.

    The result has the shape that both broadcast to.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: Neither is a tensor, or one is complex.

    >>> zyx.ldexp(zyx.Tensor([1.0, 3.0]), 2).tolist()
    [4.0, 12.0]
    """
    like, (a, b) = align((x, exponent), "ldexp", floating=True)
    return _scaled(wrap(a.node, like), wrap(b.node, like))


def bitwise_count(x: Tensor) -> Tensor:
    """Return how many bits of the size of each integer are 1, uint8.

    Elementwise: the result has the shape of `x`.

    Raises:
        DTypeError: No integers.

    >>> zyx.bitwise_count(zyx.Tensor([7, 8])).tolist()
    [3, 1]
    """
    base = require(x, "bitwise_count")
    if not base.node.dtype.is_integer:
        raise DTypeError(f"bitwise_count takes integers, not {base.node.dtype}")
    word = dtypes.uint64 if base.node.dtype.bits == 64 else dtypes.uint32
    size = base if base.node.dtype.is_unsigned else where(base < 0, -base, base)
    left = size.astype(dtypes.uint64 if word is dtypes.uint64 else dtypes.int64).astype(word)
    if base.node.dtype.bits < 64:
        left = left & ((1 << base.node.dtype.bits) - 1)
    masks = [int("55" * 8, 16), int("33" * 8, 16), int("0f" * 8, 16)]
    masks = [mask & ((1 << word.bits) - 1) for mask in masks]
    left = left - ((left >> 1) & masks[0])
    left = (left & masks[1]) + ((left >> 2) & masks[1])
    left = (left + (left >> 4)) & masks[2]
    for by in (8, 16, 32)[: 3 if word.bits == 64 else 2]:
        left = left + (left >> by)
    return (left & 0x7F).astype(dtypes.uint8)


#: Steps of Euclid's algorithm until the rest is 0, at most (of Fibonacci numbers), by the bits of the integers.
_STEPS: Final = {8: 13, 16: 24, 32: 47, 64: 93}


def gcd(x: Operand, y: Operand) -> Tensor:
    """Return the greatest integer that divides both, at least 0; of 0 and 0 it is 0.

    The result has the shape that both broadcast to.

    Raises:
        DTypeError: No integers.
        ShapeError: The shapes do not broadcast.

    >>> zyx.gcd(zyx.Tensor([12, 9]), 6).tolist()
    [6, 3]
    """
    like, (a, b) = align((x, y), "gcd")
    if not a.dtype.is_integer:
        raise DTypeError(f"gcd takes integers, not {a.dtype}")
    first, second = (elementwise.abs(wrap(term.node, like)) for term in (a, b))
    for _ in range(_STEPS[a.dtype.bits]):
        first, second = (
            where(second == 0, first, second),
            where(second == 0, 0, arithmetic.remainder(first, where(second == 0, 1, second))),
        )
    return first


def lcm(x: Operand, y: Operand) -> Tensor:
    """Return the least integer of at least 0 that both divide; of 0 and anything it is 0.

    The result has the shape that both broadcast to.

    Raises:
        DTypeError: No integers.
        ShapeError: The shapes do not broadcast.

    >>> zyx.lcm(zyx.Tensor([4, 6]), 6).tolist()
    [12, 6]
    """
    like, (a, b) = align((x, y), "lcm")
    if not a.dtype.is_integer:
        raise DTypeError(f"lcm takes integers, not {a.dtype}")
    first, second = (wrap(term.node, like) for term in (a, b))
    common = gcd(first, second)
    return elementwise.abs(first // where(common == 0, 1, common) * second)


take_habits(globals(), but=("divmod",))
