"""Functions of one operand, element by element: exponentials, trigonometry, parts of numbers, tests.

Functions of real numbers take integers and bools as float32. What is composed of several operations is computed in
float32 for float16 and bfloat16, and rounded once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.errors import DTypeError
from zyx.functions import complex_numbers
from zyx.functions.formulas import copy_sign, hypotenuse, is_finite, magnitude, odd, polar_angle, sign_bit
from zyx.functions.operands import (
    align,
    by_float_formula,
    by_float_formula_of,
    float_dtype,
    require,
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
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "copysign", "cos", "cosh", "deg2rad",
    "erf", "erfinv", "exp", "exp2", "expm1", "floor", "frac", "hypot", "isfinite", "isinf", "isnan", "log", "log1p",
    "log2", "log10", "logaddexp", "negative", "nextafter", "positive", "rad2deg", "reciprocal", "round", "rsqrt",
    "sign", "signbit", "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc",
]  # fmt: skip

LN_2: Final = math.log(2)
LOG10_E: Final = 0.4342944819032518


def _float_unary(op: UnaryOp, x: object) -> Tensor:
    tensor = x if isinstance(x, Handle) else require(x, op._value_)  # `value` is two calls
    runtime = tensor.runtime
    node = runtime.current_node(tensor)
    if not node.dtype.is_inexact:
        node = runtime.graph.cast(node, float_dtype(node.dtype))
    return tensor.like(runtime.graph.unary(op, node))  # type: ignore[return-value]  # `Tensor` is the one class of handles


# ---- exponentials and logarithms


def exp(x: Tensor) -> Tensor:
    """Return e to the power of `x`."""
    return _float_unary(UnaryOp.EXP, x)


def exp2(x: Tensor) -> Tensor:
    """Return 2 to the power of `x`."""
    return _float_unary(UnaryOp.EXP2, x)


def expm1(x: Tensor) -> Tensor:
    """Return ``exp(x) - 1``, accurate near 0."""
    return _float_unary(UnaryOp.EXPM1, x)


def log(x: Tensor, base: float | None = None) -> Tensor:
    """Return the logarithm of `x`: natural, or to a positive `base`."""
    if base is None:
        return _float_unary(UnaryOp.LOG, x)
    scale = 1.0 / math.log2(base)

    def formula(t: Term) -> Term:
        return t.unary(UnaryOp.LOG2) * scale

    return by_float_formula(x, "log", formula, formula)


def log2(x: Tensor) -> Tensor:
    """Return the logarithm to base 2."""
    return _float_unary(UnaryOp.LOG2, x)


def log10(x: Tensor) -> Tensor:
    """Return the logarithm to base 10, to 2.2 ulp."""

    def formula(t: Term) -> Term:
        return t.log() * LOG10_E

    return by_float_formula(x, "log10", formula, formula)


def log1p(x: Tensor) -> Tensor:
    """Return ``log(1 + x)``, accurate near 0."""
    return _float_unary(UnaryOp.LOG1P, x)


def sqrt(x: Tensor) -> Tensor:
    """Return the square root; NaN of negative numbers. At 0 its slope is infinite, see `norm` for lengths."""
    return _float_unary(UnaryOp.SQRT, x)


def rsqrt(x: Tensor) -> Tensor:
    """Return ``1 / sqrt(x)``."""

    def formula(t: Term) -> Term:
        return t.sqrt().reciprocal()

    return by_float_formula(x, "rsqrt", formula, formula)


def reciprocal(x: Tensor) -> Tensor:
    """Return ``1 / x``."""
    return _float_unary(UnaryOp.RECIPROCAL, x)


def square(x: Tensor) -> Tensor:
    """Return ``x * x``."""
    term = term_of(x, "square")
    return wrap((term * term).node, x)


def logaddexp(x: Operand, y: Operand) -> Tensor:
    """Return ``log(exp(x) + exp(y))`` without overflow."""

    def formula(a: Term, b: Term) -> Term:
        swap = a < b
        endless = (a == b) & (a.abs() == math.inf)  # which have no difference, and half of the gradient each
        top, low = endless.where((a + b) * 0.5, swap.where(b, a)), swap.where(a, b)
        return top + endless.where(0.0, low - top).exp().log1p()

    return by_float_formula_of((x, y), "logaddexp", formula)


# ---- trigonometry


def sin(x: Tensor) -> Tensor:
    """Return the sine of an angle in radians."""
    return _float_unary(UnaryOp.SIN, x)


def cos(x: Tensor) -> Tensor:
    """Return the cosine of an angle in radians."""
    return _float_unary(UnaryOp.COS, x)


def tan(x: Tensor) -> Tensor:
    """Return the tangent of an angle in radians, to 3.5 ulp."""
    return by_float_formula(x, "tan", lambda t: t.unary(UnaryOp.SIN) / t.unary(UnaryOp.COS), complex_numbers.tan)


def asin(x: Tensor) -> Tensor:
    """Return the angle, -pi/2 to pi/2, whose sine is `x`, to 2.5 ulp; NaN outside -1 to 1."""

    def formula(t: Term) -> Term:
        end, inner = _ends(t)
        near = 2.0 * (inner / (((1.0 - inner) * (1.0 + inner)).sqrt() + 1.0)).atan()
        return end.where(odd(t, math.pi / 2 - (2.0 - magnitude(t) * 2.0).sqrt()), near)

    return by_float_formula(x, "asin", formula, complex_numbers.asin)


def acos(x: Tensor) -> Tensor:
    """Return the angle, 0 to pi, whose cosine is `x`, to 2.3 ulp; NaN outside -1 to 1."""

    def formula(t: Term) -> Term:
        end, inner = _ends(t)
        near = 2.0 * ((1.0 - inner) / (1.0 + inner)).sqrt().atan()
        root = (2.0 - magnitude(t) * 2.0).sqrt()
        return end.where((t < 0).where(math.pi - root, root), near)

    return by_float_formula(x, "acos", formula, complex_numbers.acos)


def _ends(t: Term) -> tuple[Term, Term]:
    """Return where `t` is -1 or 1, and `t` with 0 there.

    The formula of a function whose slope is infinite at an end of its domain adds up infinities of both signs there.
    The first terms of its expansion about that end have the same value, and slopes of both orders.
    """
    end = t.abs() == 1.0
    return end, end.where(0.0, t)


def atan(x: Tensor) -> Tensor:
    """Return the angle, -pi/2 to pi/2, whose tangent is `x`."""
    return _float_unary(UnaryOp.ATAN, x)


def atan2(y: Operand, x: Operand) -> Tensor:
    """Return the angle, -pi to pi, of the point (x, y); signed zeros and infinities as in C.

    The gradient at (0, 0) is 0.
    """
    return by_float_formula_of((y, x), "atan2", polar_angle)


def sinh(x: Tensor) -> Tensor:
    """Return the hyperbolic sine, to 2.4 ulp."""

    def formula(t: Term) -> Term:
        size = magnitude(t)
        large, reduced, half = _before_overflow(size)
        power = reduced.expm1()
        inner = large.where(1.0, power)
        return odd(t, power * half + inner / (inner + 1.0) * 0.5)

    return by_float_formula(x, "sinh", formula, complex_numbers.sinh)


def cosh(x: Tensor) -> Tensor:
    """Return the hyperbolic cosine, to 2 ulp."""

    def formula(t: Term) -> Term:
        large, reduced, half = _before_overflow(magnitude(t))
        power = reduced.exp() * half
        return power + large.where(0.0, 0.25 / large.where(1.0, power))  # beside the large it is lost

    return by_float_formula(x, "cosh", formula, complex_numbers.cosh)


def _before_overflow(size: Term) -> tuple[Term, Term, Term]:
    """Return (where exp(size) may overflow, what to take it of, and what makes the result half of exp(size)).

    There 1 is taken off, which is exact, and the result multiplied by e.
    """
    large = size > (709.0 if size.dtype is dtypes.float64 else 88.0)
    return large, large.where(size - 1.0, size), large.where(math.e / 2, size.like(0.5))


def tanh(x: Tensor) -> Tensor:
    """Return the hyperbolic tangent."""
    return _float_unary(UnaryOp.TANH, x)


def asinh(x: Tensor) -> Tensor:
    """Return the number whose hyperbolic sine is `x`."""

    def formula(t: Term) -> Term:
        size = magnitude(t)
        large = size > 1e9  # whose square still fits float32; 1 is lost beside it
        inner = large.where(1.0, size)
        near = (inner + inner * inner / ((inner * inner + 1.0).sqrt() + 1.0)).log1p()
        return odd(t, large.where(large.where(size, 1.0).log() + LN_2, near))

    return by_float_formula(x, "asinh", formula, complex_numbers.asinh)


def acosh(x: Tensor) -> Tensor:
    """Return the number >= 0 whose hyperbolic cosine is `x`, to 2.7 ulp; NaN below 1."""

    def formula(t: Term) -> Term:
        large, end = t > 1e9, t == 1.0
        below = (t < 1).where(t.like(math.nan), 0.0)  # added, so that slopes there are NaN as well
        above = (large | end).where(1.0, t - 1.0 + below)
        near = (above + (above * (above + 2.0)).sqrt()).log1p()
        near = end.where((t * 2.0 - 2.0).sqrt(), near)  # as of `_ends`
        return large.where(large.where(t, 1.0).log() + LN_2, near)

    return by_float_formula(x, "acosh", formula, complex_numbers.acosh)


def atanh(x: Tensor) -> Tensor:
    """Return the number whose hyperbolic tangent is `x`; NaN outside -1 to 1."""
    return by_float_formula(x, "atanh", lambda t: 0.5 * (t.log1p() - (-t).log1p()), complex_numbers.atanh)


def hypot(x: Operand, y: Operand) -> Tensor:
    """Return ``sqrt(x**2 + y**2)`` without overflow; infinity beside NaN is infinity. At (0, 0) its gradient is 0."""
    return by_float_formula_of((x, y), "hypot", hypotenuse)


def deg2rad(x: Tensor) -> Tensor:
    """Return an angle in degrees as radians."""
    return by_float_formula(x, "deg2rad", lambda t: t * (math.pi / 180))


def rad2deg(x: Tensor) -> Tensor:
    """Return an angle in radians as degrees."""
    return by_float_formula(x, "rad2deg", lambda t: t * (180 / math.pi))


# ---- error function


def erf(x: Tensor) -> Tensor:
    """Return the error function."""
    return _float_unary(UnaryOp.ERF, x)


def erfinv(x: Tensor) -> Tensor:
    """Return the number whose error function is `x`; infinities at -1 and 1, NaN outside."""
    from zyx.functions.inverse_erf import inverse_erf  # which most programs do without

    return by_float_formula(x, "erfinv", inverse_erf)


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
    """Return the magnitude, a real number also of complex ones; the least integer gives itself."""
    if (result := complex_numbers.of_term(x, "abs", complex_numbers.magnitude)) is not None:
        return result
    term = _number(x, "abs")
    return wrap(term.abs().node, x)


def negative(x: Tensor) -> Tensor:
    """Return ``-x``; unsigned integers wrap."""
    if isinstance(x, Handle):  # without terms, which take as long as all the rest
        runtime = x.runtime
        node = runtime.current_node(x)
        if not node.dtype.is_bool:
            return x.like(runtime.graph.unary(UnaryOp.NEG, node))
    return wrap((-_number(x, "negative")).node, x)


def positive(x: Tensor) -> Tensor:
    """Return `x`."""
    return wrap(_number(x, "positive").node, x)


def sign(x: Tensor) -> Tensor:
    """Return -1, 0 or 1; NaN of NaN. Of complex numbers it is ``x / abs(x)``, and 0 of 0."""
    if (result := complex_numbers.of_term(x, "sign", complex_numbers.sign)) is not None:
        return result
    t = _number(x, "sign")
    if t.dtype.is_float:  # zeros first: drivers make of other orders a function of their own, which leaves -0 as it is
        above = (t > 0).where(t.like(1), math.nan)
        return wrap((t == 0).where(0.0, (t < 0).where(-1.0, above)).node, x)
    below: Term | Scalar = 0 if t.dtype.is_unsigned else (t < 0).where(t.like(-1), 0)
    return wrap((t > 0).where(t.like(1), below).node, x)


def signbit(x: Tensor) -> Tensor:
    """Tell where the sign is minus, of zeros and NaN too."""
    return wrap(sign_bit(_real_number(x, "signbit")).node, x)


def copysign(x: Operand, y: Operand) -> Tensor:
    """Return the magnitude of `x` with the sign of `y`."""
    like, (left, right) = align((x, y), "copysign", floating=True)
    require_real(left.dtype, "copysign")
    size = left.abs()  # whose slope at 0 is 0
    return wrap(sign_bit(right).where(-size, size).node, like)


def frac(x: Tensor) -> Tensor:
    """Return ``x - trunc(x)``, which has the sign of `x`."""
    t = _real_number(x, "frac")
    return wrap((t - t.trunc() if t.dtype.is_float else t.like(0)).node, x)


def nextafter(x: Operand, y: Operand) -> Tensor:
    """Return the number next to `x` in the direction of `y`; the gradient is that of `x`."""
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


# ---- rounding: integers stay as they are


def floor(x: Tensor) -> Tensor:
    """Round down."""
    t = _real_number(x, "floor")
    return wrap((t.floor() if t.dtype.is_float else t).node, x)


def ceil(x: Tensor) -> Tensor:
    """Round up."""
    t = _real_number(x, "ceil")
    return wrap((-(-t).floor() if t.dtype.is_float else t).node, x)


def trunc(x: Tensor) -> Tensor:
    """Round toward zero."""
    t = _real_number(x, "trunc")
    return wrap((t.trunc() if t.dtype.is_float else t).node, x)


def round(x: Tensor, decimals: int = 0) -> Tensor:  # the Array API's name
    """Round to `decimals` digits after the point, halves to the even neighbour.

    Negative `decimals` round to tens, hundreds and so on, integers as well, whose dtype stays: what it does not hold
    wraps, as 130 does, to which 127 of int8 is rounded. Of complex numbers both parts are rounded.
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
    """Tell where a number is NaN."""
    if (result := complex_numbers.of_term(x, "isnan", complex_numbers.either(Term.is_nan))) is not None:
        return result
    t = term_of(x, "isnan")
    return wrap((t.is_nan() if t.dtype.is_float else t.like(0).cast(dtypes.bool_)).node, x)


def _is_infinite(t: Term) -> Term:
    return t.abs() == math.inf


def isinf(x: Tensor) -> Tensor:
    """Tell where a number is infinite, of either sign."""
    if (result := complex_numbers.of_term(x, "isinf", complex_numbers.either(_is_infinite))) is not None:
        return result
    t = term_of(x, "isinf")
    return wrap((_is_infinite(t) if t.dtype.is_float else t.like(0).cast(dtypes.bool_)).node, x)


def isfinite(x: Tensor) -> Tensor:
    """Tell where a number is neither infinite nor NaN."""
    if (result := complex_numbers.of_term(x, "isfinite", complex_numbers.both(is_finite))) is not None:
        return result
    t = term_of(x, "isfinite")
    return wrap((is_finite(t) if t.dtype.is_float else t.like(1).cast(dtypes.bool_)).node, x)
