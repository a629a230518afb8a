"""Functions of one operand, element by element: signs and parts of numbers, rounding, tests.

Integers stay integers; functions of real numbers refuse complex ones.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx.errors import DTypeError
from zyx.functions import complex_numbers
from zyx.functions.formulas import copy_sign, hypotenuse, is_finite, sign_bit
from zyx.functions.operands import (
    align,
    by_float_formula,
    by_float_formula_of,
    require_real,
    term_of,
    wrap,
)
from zyx.functions.term import Term, signed_of
from zyx.integers import as_integer
from zyx.ops import UnaryOp
from zyx.runtime.handle import Handle

if TYPE_CHECKING:
    from zyx.dtype import Scalar
    from zyx.functions import Tensor
    from zyx.functions.operands import Operand

__all__ = [
    "abs", "ceil", "copysign", "deg2rad", "floor", "frac", "hypot", "isfinite", "isinf", "isnan", "negative",
    "nextafter", "positive", "rad2deg", "round", "sign", "signbit", "square", "trunc",
]  # fmt: skip


# ---- signs and parts


def _number(x: object, what: str) -> Term:
    term = term_of(x, what)
    if term.dtype.is_bool:
        raise DTypeError(f"{what} takes numbers, not bool; cast with .astype(...)")
    return term


def _real_number(x: object, what: str) -> Term:
    term = _number(x, what)
    require_real(term.dtype, what)
    return term


def abs(x: Tensor) -> Tensor:  # the Array API's name
    """Return the magnitude of each element, real also of complex numbers; the least integer gives itself.

    Raises:
        DTypeError: `x` is no tensor, or of bools.

    >>> zyx.abs(zyx.Tensor([-2, 3])).tolist()
    [2, 3]
    """
    if (result := complex_numbers.of_term(x, "abs", complex_numbers.magnitude)) is not None:
        return result
    term = _number(x, "abs")
    return wrap(term.abs().node, x)


def negative(x: Tensor) -> Tensor:
    """Return ``-x`` of each element; unsigned integers wrap.

    Raises:
        DTypeError: `x` is no tensor, or of bools.

    >>> zyx.negative(zyx.Tensor([-2, 3])).tolist()
    [2, -3]
    """
    if isinstance(x, Handle):  # without terms, which take as long as all the rest
        runtime = x.runtime
        node = runtime.current_node(x)
        if not node.dtype.is_bool:
            return x.like(runtime.graph.unary(UnaryOp.NEG, node))
    return wrap((-_number(x, "negative")).node, x)


def positive(x: Tensor) -> Tensor:
    """Return the elements of `x`, as ``+x`` does.

    Raises:
        DTypeError: `x` is no tensor, or of bools.

    >>> zyx.positive(zyx.Tensor([-2, 3])).tolist()
    [-2, 3]
    """
    return wrap(_number(x, "positive").node, x)


def sign(x: Tensor) -> Tensor:
    """Return -1, 0 or 1, the sign of each element; NaN of NaN. Of complex numbers it is ``x / abs(x)``, and 0 of 0.

    Raises:
        DTypeError: `x` is no tensor, or of bools.

    >>> zyx.sign(zyx.Tensor([-2, 0, 3])).tolist()
    [-1, 0, 1]
    """
    if (result := complex_numbers.of_term(x, "sign", complex_numbers.sign)) is not None:
        return result
    t = _number(x, "sign")
    if t.dtype.is_float:  # zeros first: drivers make of other orders a function of their own, which leaves -0 as it is
        above = (t > 0).where(t.like(1), math.nan)
        return wrap((t == 0).where(0.0, (t < 0).where(-1.0, above)).node, x)
    below: Term | Scalar = 0 if t.dtype.is_unsigned else (t < 0).where(t.like(-1), 0)
    return wrap((t > 0).where(t.like(1), below).node, x)


def signbit(x: Tensor) -> Tensor:
    """Tell which elements have the sign minus, zeros and NaN too.

    Raises:
        DTypeError: `x` is no tensor, or of bools or complex numbers.

    >>> zyx.signbit(zyx.Tensor([-2.0, 0.0, -0.0])).tolist()
    [True, False, True]
    """
    return wrap(sign_bit(_real_number(x, "signbit")).node, x)


def copysign(x: Operand, y: Operand) -> Tensor:
    """Return the magnitude of `x` with the sign of `y`, in the shape that both broadcast to.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: Neither is a tensor, or one is complex.

    >>> zyx.copysign(zyx.Tensor([2.0, 3.0]), zyx.Tensor([-1.0, 1.0])).tolist()
    [-2.0, 3.0]
    """
    like, (left, right) = align((x, y), "copysign", floating=True)
    require_real(left.dtype, "copysign")
    size = left.abs()  # whose slope at 0 is 0
    return wrap(sign_bit(right).where(-size, size).node, like)


def frac(x: Tensor) -> Tensor:
    """Return ``x - trunc(x)`` of each element, which has the sign of `x`.

    Raises:
        DTypeError: `x` is no tensor, or of bools or complex numbers.

    >>> zyx.frac(zyx.Tensor([2.5, -1.25])).tolist()
    [0.5, -0.25]
    """
    t = _real_number(x, "frac")
    return wrap((t - t.trunc() if t.dtype.is_float else t.like(0)).node, x)


def nextafter(x: Operand, y: Operand) -> Tensor:
    """Return the number next to each element of `x` in the direction of `y`; the gradient is that of `x`.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: Neither is a tensor, or one is complex.

    >>> zyx.nextafter(zyx.Tensor([1.0]), 2.0).item() > 1
    True
    """
    like, (left, right) = align((x, y), "nextafter", floating=True)
    require_real(left.dtype, "nextafter")
    bits = left.bitcast(signed_of(left.dtype))
    # Floats of one sign are ordered as their bits: away from zero is one more.
    step = ((left < right) == (left > 0)).where(bits.like(1), -1)
    moved = (bits + step).bitcast(left.dtype)
    least = copy_sign(bits.like(1).bitcast(left.dtype), right)
    moved = (left == 0).where(least, moved)
    moved = (left == right).where(right, moved)
    found = (left.is_nan() | right.is_nan()).where(math.nan, moved)
    slope = (left.abs() < math.inf).where(left, 0.0)  # of `found`, which has none: what is added is 0
    return wrap((found == 0.0).where(found, found + (slope - slope.detach())).node, like)


def square(x: Tensor) -> Tensor:
    """Return ``x * x`` of each element.

    Raises:
        DTypeError: `x` is no tensor, or of bools.

    >>> zyx.square(zyx.Tensor([3, -4])).tolist()
    [9, 16]
    """
    term = term_of(x, "square")
    return wrap((term * term).node, x)


def hypot(x: Operand, y: Operand) -> Tensor:
    """Return ``sqrt(x**2 + y**2)`` without overflow; infinity beside NaN is infinity. At (0, 0) its gradient is 0.

    The result has the shape that both broadcast to.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: Neither is a tensor, or one is complex.

    >>> round(zyx.hypot(zyx.Tensor(3.0), 4.0).item(), 4)
    5.0
    """
    return by_float_formula_of((x, y), "hypot", hypotenuse)


# ---- units of angles


def deg2rad(x: Tensor) -> Tensor:
    """Return each element, an angle in degrees, as radians.

    Raises:
        DTypeError: `x` is no tensor, or complex.

    >>> [round(v, 4) for v in zyx.deg2rad(zyx.Tensor([0.0, 180.0])).tolist()]
    [0.0, 3.1416]
    """
    return by_float_formula(x, "deg2rad", lambda t: t * (math.pi / 180))


def rad2deg(x: Tensor) -> Tensor:
    """Return each element, an angle in radians, as degrees.

    Raises:
        DTypeError: `x` is no tensor, or complex.

    >>> [round(v, 2) for v in zyx.rad2deg(zyx.Tensor([0.0, zyx.pi])).tolist()]
    [0.0, 180.0]
    """
    return by_float_formula(x, "rad2deg", lambda t: t * (180 / math.pi))


# ---- rounding: integers stay as they are


def floor(x: Tensor) -> Tensor:
    """Round each element down.

    Raises:
        DTypeError: `x` is no tensor, or of bools or complex numbers.

    >>> zyx.floor(zyx.Tensor([1.5, -1.5])).tolist()
    [1.0, -2.0]
    """
    t = _real_number(x, "floor")
    return wrap((t.floor() if t.dtype.is_float else t).node, x)


def ceil(x: Tensor) -> Tensor:
    """Round each element up.

    Raises:
        DTypeError: `x` is no tensor, or of bools or complex numbers.

    >>> zyx.ceil(zyx.Tensor([1.5, -1.5])).tolist()
    [2.0, -1.0]
    """
    t = _real_number(x, "ceil")
    return wrap((-(-t).floor() if t.dtype.is_float else t).node, x)


def trunc(x: Tensor) -> Tensor:
    """Round each element toward zero.

    Raises:
        DTypeError: `x` is no tensor, or of bools or complex numbers.

    >>> zyx.trunc(zyx.Tensor([1.5, -1.5])).tolist()
    [1.0, -1.0]
    """
    t = _real_number(x, "trunc")
    return wrap((t.trunc() if t.dtype.is_float else t).node, x)


def round(x: Tensor, decimals: int = 0) -> Tensor:  # the Array API's name
    """Round to `decimals` digits after the point, halves to the even neighbour.

    Negative `decimals` round to tens, hundreds and so on, integers as well, whose dtype stays: what it does not hold
    wraps, as 130 does, to which 127 of int8 is rounded. Of complex numbers both parts are rounded.

    Elementwise: the result has the shape of `x`.

    Raises:
        DTypeError: `x` is no tensor, or of bools.
        IntegerError: `decimals` is no integer.

    >>> zyx.round(zyx.Tensor([0.5, 1.5, 2.4])).tolist()
    [0.0, 2.0, 2.0]
    """
    decimals = as_integer(decimals, "decimals")

    def formula(t: Term) -> Term:
        return _round_half_even(t * 10.0**decimals) / 10.0**decimals if decimals else _round_half_even(t)

    if (result := complex_numbers.of_term(x, "round", complex_numbers.of_parts(formula))) is not None:
        return result
    t = _real_number(x, "round")
    if not t.dtype.is_float:
        return wrap((t if decimals >= 0 else _round_integers(t, 10**-decimals)).node, x)
    if not decimals:
        return wrap(_round_half_even(t).node, x)
    return by_float_formula(x, "round", formula)


def _round_integers(t: Term, unit: int) -> Term:
    """Round integers to multiples of `unit`, an even number, halves to the even multiple."""
    greatest, half = int(t.dtype.max), unit // 2
    if half > greatest:
        return t.like(0)
    is_held = unit <= greatest
    count = t / t.like(unit) if is_held else t.like(0)
    whole = count * unit if is_held else count
    rest = t - whole
    is_odd = (count & t.like(1)) != 0
    bits = t.dtype.bits
    step = unit if is_held else (unit + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
    up = (rest > half) | ((rest == half) & is_odd)
    found = up.where(whole + t.like(step), whole)
    if int(t.dtype.min) == 0:
        return found
    down = (rest < -half) | ((rest == -half) & is_odd)
    return down.where(whole - t.like(step), found)


def _round_half_even(t: Term) -> Term:
    whole = t.trunc()
    rest = (t - whole).abs()  # exact, as no larger than t; NaN of infinities, which compares false
    up = (rest > 0.5) | ((rest == 0.5) & (whole.modulo(2.0) != 0))
    return up.where(whole + (t < 0).where(t.like(-1.0), 1.0), whole)


# ---- tests


def isnan(x: Tensor) -> Tensor:
    """Tell which elements are NaN.

    Raises:
        DTypeError: `x` is no tensor.

    >>> zyx.isnan(zyx.Tensor([1.0, zyx.inf, zyx.nan])).tolist()
    [False, False, True]
    """
    if (result := complex_numbers.of_term(x, "isnan", complex_numbers.either(Term.is_nan))) is not None:
        return result
    t = term_of(x, "isnan")
    return wrap((t.is_nan() if t.dtype.is_float else t.like(0).cast(dtypes.bool_)).node, x)


def _is_infinite(t: Term) -> Term:
    return t.abs() == math.inf


def isinf(x: Tensor) -> Tensor:
    """Tell which elements are infinite, of either sign.

    Raises:
        DTypeError: `x` is no tensor.

    >>> zyx.isinf(zyx.Tensor([1.0, zyx.inf, zyx.nan])).tolist()
    [False, True, False]
    """
    if (result := complex_numbers.of_term(x, "isinf", complex_numbers.either(_is_infinite))) is not None:
        return result
    t = term_of(x, "isinf")
    return wrap((_is_infinite(t) if t.dtype.is_float else t.like(0).cast(dtypes.bool_)).node, x)


def isfinite(x: Tensor) -> Tensor:
    """Tell which elements are neither infinite nor NaN.

    Raises:
        DTypeError: `x` is no tensor.

    >>> zyx.isfinite(zyx.Tensor([1.0, zyx.inf, zyx.nan])).tolist()
    [True, False, False]
    """
    if (result := complex_numbers.of_term(x, "isfinite", complex_numbers.both(is_finite))) is not None:
        return result
    t = term_of(x, "isfinite")
    return wrap((is_finite(t) if t.dtype.is_float else t.like(1).cast(dtypes.bool_)).node, x)
