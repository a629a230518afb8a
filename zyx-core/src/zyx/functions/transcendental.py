"""Functions of elements: exponentials, logarithms, roots, trigonometry, the error function.

Functions of real numbers take integers and bools as float32. What is composed of several operations is computed in
float32 for float16 and bfloat16, and rounded once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.errors import ArgumentError
from zyx.functions import complex_numbers
from zyx.functions.formulas import magnitude, odd, polar_angle
from zyx.functions.operands import (
    by_float_formula,
    by_float_formula_of,
    float_dtype,
    require,
)
from zyx.lazy_import import lazy_import
from zyx.ops import UnaryOp
from zyx.runtime.handle import Handle

if TYPE_CHECKING:
    from zyx.functions import Tensor, inverse_erf
    from zyx.functions.operands import Operand
    from zyx.functions.term import Term
else:
    inverse_erf = lazy_import("zyx.functions.inverse_erf", globals())

__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cos",
    "cosh",
    "erf",
    "erfinv",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "reciprocal",
    "rsqrt",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
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
    """Return e to the power of each element.

    Raises:
        DTypeError: `x` is no tensor.

    >>> zyx.exp(zyx.Tensor([0.0])).tolist()
    [1.0]
    """
    return _float_unary(UnaryOp.EXP, x)


def exp2(x: Tensor) -> Tensor:
    """Return 2 to the power of each element.

    Raises:
        DTypeError: `x` is no tensor.

    >>> [round(v, 4) for v in zyx.exp2(zyx.Tensor([0.0, 3.0])).tolist()]
    [1.0, 8.0]
    """
    return _float_unary(UnaryOp.EXP2, x)


def expm1(x: Tensor) -> Tensor:
    """Return ``exp(x) - 1`` of each element, accurate near 0.

    Raises:
        DTypeError: `x` is no tensor.

    >>> [round(v, 4) for v in zyx.expm1(zyx.Tensor([0.0, 1.0])).tolist()]
    [0.0, 1.7183]
    """
    return _float_unary(UnaryOp.EXPM1, x)


def log(x: Tensor, base: float | None = None) -> Tensor:
    """Return the logarithm of each element: natural, or to a positive `base`.

    Raises:
        DTypeError: `x` is no tensor.
        ArgumentError: A `base` that is no number above 0 other than 1.

    >>> [round(v, 4) for v in zyx.log(zyx.Tensor([1.0, 8.0]), 2).tolist()]
    [0.0, 3.0]
    """
    if base is None:
        return _float_unary(UnaryOp.LOG, x)
    try:
        scale = 1.0 / math.log2(base)
    except (TypeError, ValueError, ZeroDivisionError) as error:
        raise ArgumentError(f"log: base is a number above 0 other than 1, not {base!r}") from error

    def formula(t: Term) -> Term:
        return t.unary(UnaryOp.LOG2) * scale

    return by_float_formula(x, "log", formula, formula)


def log2(x: Tensor) -> Tensor:
    """Return the logarithm of each element to base 2.

    Raises:
        DTypeError: `x` is no tensor.

    >>> [round(v, 4) for v in zyx.log2(zyx.Tensor([1.0, 8.0])).tolist()]
    [0.0, 3.0]
    """
    return _float_unary(UnaryOp.LOG2, x)


def log10(x: Tensor) -> Tensor:
    """Return the logarithm of each element to base 10, to 2.2 ulp.

    Raises:
        DTypeError: `x` is no tensor.

    >>> [round(v, 4) for v in zyx.log10(zyx.Tensor([1.0, 1000.0])).tolist()]
    [0.0, 3.0]
    """

    def formula(t: Term) -> Term:
        return t.log() * LOG10_E

    return by_float_formula(x, "log10", formula, formula)


def log1p(x: Tensor) -> Tensor:
    """Return ``log(1 + x)`` of each element, accurate near 0.

    Raises:
        DTypeError: `x` is no tensor.

    >>> [round(v, 4) for v in zyx.log1p(zyx.Tensor([0.0, 1.0])).tolist()]
    [0.0, 0.6931]
    """
    return _float_unary(UnaryOp.LOG1P, x)


def sqrt(x: Tensor) -> Tensor:
    """Return the square root of each element; NaN of negative ones. At 0 its slope is infinite; see `norm`.

    Raises:
        DTypeError: `x` is no tensor.

    >>> [round(v, 4) for v in zyx.sqrt(zyx.Tensor([4.0, 9.0])).tolist()]
    [2.0, 3.0]
    """
    return _float_unary(UnaryOp.SQRT, x)


def rsqrt(x: Tensor) -> Tensor:
    """Return ``1 / sqrt(x)`` of each element.

    Raises:
        DTypeError: `x` is no tensor.

    >>> [round(v, 4) for v in zyx.rsqrt(zyx.Tensor([1.0, 4.0])).tolist()]
    [1.0, 0.5]
    """

    def formula(t: Term) -> Term:
        return t.sqrt().reciprocal()

    return by_float_formula(x, "rsqrt", formula, formula)


def reciprocal(x: Tensor) -> Tensor:
    """Return ``1 / x`` of each element.

    Raises:
        DTypeError: `x` is no tensor.

    >>> [round(v, 4) for v in zyx.reciprocal(zyx.Tensor([2.0, 4.0])).tolist()]
    [0.5, 0.25]
    """
    return _float_unary(UnaryOp.RECIPROCAL, x)


def logaddexp(x: Operand, y: Operand) -> Tensor:
    """Return ``log(exp(x) + exp(y))`` without overflow, in the shape that both broadcast to.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: Neither is a tensor, or one is complex.

    >>> round(zyx.logaddexp(zyx.Tensor(0.0), 0.0).item(), 4)
    0.6931
    """

    def formula(a: Term, b: Term) -> Term:
        swap = a < b
        endless = (a == b) & (a.abs() == math.inf)  # which have no difference, and half of the gradient each
        top, low = endless.where((a + b) * 0.5, swap.where(b, a)), swap.where(a, b)
        return top + endless.where(0.0, low - top).exp().log1p()

    return by_float_formula_of((x, y), "logaddexp", formula)


# ---- trigonometry


def sin(x: Tensor) -> Tensor:
    """Return the sine of each element, an angle in radians.

    Raises:
        DTypeError: `x` is no tensor.

    >>> [round(v, 4) for v in zyx.sin(zyx.Tensor([0.0, 1.0])).tolist()]
    [0.0, 0.8415]
    """
    return _float_unary(UnaryOp.SIN, x)


def cos(x: Tensor) -> Tensor:
    """Return the cosine of each element, an angle in radians.

    Raises:
        DTypeError: `x` is no tensor.

    >>> [round(v, 4) for v in zyx.cos(zyx.Tensor([0.0, 1.0])).tolist()]
    [1.0, 0.5403]
    """
    return _float_unary(UnaryOp.COS, x)


def tan(x: Tensor) -> Tensor:
    """Return the tangent of each element, an angle in radians, to 3.5 ulp.

    Raises:
        DTypeError: `x` is no tensor.

    >>> [round(v, 4) for v in zyx.tan(zyx.Tensor([0.0, 1.0])).tolist()]
    [0.0, 1.5574]
    """
    return by_float_formula(x, "tan", lambda t: t.unary(UnaryOp.SIN) / t.unary(UnaryOp.COS), complex_numbers.tan)


def asin(x: Tensor) -> Tensor:
    """Return the angle, -pi/2 to pi/2, whose sine each element is, to 2.5 ulp; NaN outside -1 to 1.

    Raises:
        DTypeError: `x` is no tensor.

    >>> [round(v, 4) for v in zyx.asin(zyx.Tensor([0.0, 1.0])).tolist()]
    [0.0, 1.5708]
    """

    def formula(t: Term) -> Term:
        end, inner = _ends(t)
        near = 2.0 * (inner / (((1.0 - inner) * (1.0 + inner)).sqrt() + 1.0)).atan()
        return end.where(odd(t, math.pi / 2 - (2.0 - magnitude(t) * 2.0).sqrt()), near)

    return by_float_formula(x, "asin", formula, complex_numbers.asin)


def acos(x: Tensor) -> Tensor:
    """Return the angle, 0 to pi, whose cosine each element is, to 2.3 ulp; NaN outside -1 to 1.

    Raises:
        DTypeError: `x` is no tensor.

    >>> [round(v, 4) for v in zyx.acos(zyx.Tensor([1.0, 0.0])).tolist()]
    [0.0, 1.5708]
    """

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
    """Return the angle, -pi/2 to pi/2, whose tangent each element is.

    Raises:
        DTypeError: `x` is no tensor.

    >>> [round(v, 4) for v in zyx.atan(zyx.Tensor([0.0, 1.0])).tolist()]
    [0.0, 0.7854]
    """
    return _float_unary(UnaryOp.ATAN, x)


def atan2(y: Operand, x: Operand) -> Tensor:
    """Return the angle, -pi to pi, of each point of elements (x, y); signed zeros and infinities as in C.

    The gradient at (0, 0) is 0.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: Neither is a tensor, or one is complex.

    >>> [round(v, 4) for v in zyx.atan2(zyx.Tensor([0.0, 1.0]), zyx.Tensor([1.0, 0.0])).tolist()]
    [0.0, 1.5708]
    """
    return by_float_formula_of((y, x), "atan2", polar_angle)


def sinh(x: Tensor) -> Tensor:
    """Return the hyperbolic sine of each element, to 2.4 ulp.

    Raises:
        DTypeError: `x` is no tensor.

    >>> [round(v, 4) for v in zyx.sinh(zyx.Tensor([0.0, 1.0])).tolist()]
    [0.0, 1.1752]
    """

    def formula(t: Term) -> Term:
        size = magnitude(t)
        large, reduced, half = _before_overflow(size)
        power = reduced.expm1()
        inner = large.where(1.0, power)
        return odd(t, power * half + inner / (inner + 1.0) * 0.5)

    return by_float_formula(x, "sinh", formula, complex_numbers.sinh)


def cosh(x: Tensor) -> Tensor:
    """Return the hyperbolic cosine of each element, to 2 ulp.

    Raises:
        DTypeError: `x` is no tensor.

    >>> [round(v, 4) for v in zyx.cosh(zyx.Tensor([0.0, 1.0])).tolist()]
    [1.0, 1.5431]
    """

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
    """Return the hyperbolic tangent of each element.

    Raises:
        DTypeError: `x` is no tensor.

    >>> [round(v, 4) for v in zyx.tanh(zyx.Tensor([0.0, 1.0])).tolist()]
    [0.0, 0.7616]
    """
    return _float_unary(UnaryOp.TANH, x)


def asinh(x: Tensor) -> Tensor:
    """Return the number whose hyperbolic sine each element is.

    Raises:
        DTypeError: `x` is no tensor.

    >>> [round(v, 4) for v in zyx.asinh(zyx.Tensor([0.0, 1.0])).tolist()]
    [0.0, 0.8814]
    """

    def formula(t: Term) -> Term:
        size = magnitude(t)
        large = size > 1e9  # whose square still fits float32; 1 is lost beside it
        inner = large.where(1.0, size)
        near = (inner + inner * inner / ((inner * inner + 1.0).sqrt() + 1.0)).log1p()
        return odd(t, large.where(large.where(size, 1.0).log() + LN_2, near))

    return by_float_formula(x, "asinh", formula, complex_numbers.asinh)


def acosh(x: Tensor) -> Tensor:
    """Return the number >= 0 whose hyperbolic cosine each element is, to 2.7 ulp; NaN below 1.

    Raises:
        DTypeError: `x` is no tensor.

    >>> [round(v, 4) for v in zyx.acosh(zyx.Tensor([1.0, 2.0])).tolist()]
    [0.0, 1.317]
    """

    def formula(t: Term) -> Term:
        large, end = t > 1e9, t == 1.0
        below = (t < 1).where(t.like(math.nan), 0.0)  # added, so that slopes there are NaN as well
        above = (large | end).where(1.0, t - 1.0 + below)
        near = (above + (above * (above + 2.0)).sqrt()).log1p()
        near = end.where((t * 2.0 - 2.0).sqrt(), near)  # as of `_ends`
        return large.where(large.where(t, 1.0).log() + LN_2, near)

    return by_float_formula(x, "acosh", formula, complex_numbers.acosh)


def atanh(x: Tensor) -> Tensor:
    """Return the number whose hyperbolic tangent each element is; NaN outside -1 to 1.

    Raises:
        DTypeError: `x` is no tensor.

    >>> [round(v, 4) for v in zyx.atanh(zyx.Tensor([0.0, 0.5])).tolist()]
    [0.0, 0.5493]
    """
    return by_float_formula(x, "atanh", lambda t: 0.5 * (t.log1p() - (-t).log1p()), complex_numbers.atanh)


# ---- error function


def erf(x: Tensor) -> Tensor:
    """Return the error function of each element.

    Raises:
        DTypeError: `x` is no tensor, or complex.

    >>> [round(v, 4) for v in zyx.erf(zyx.Tensor([0.0, 1.0])).tolist()]
    [0.0, 0.8427]
    """
    return _float_unary(UnaryOp.ERF, x)


def erfinv(x: Tensor) -> Tensor:
    """Return the number whose error function each element is; infinities at -1 and 1, NaN outside.

    Raises:
        DTypeError: `x` is no tensor, or complex.

    >>> [round(v, 4) for v in zyx.erfinv(zyx.Tensor([0.0, 0.5])).tolist()]
    [0.0, 0.4769]
    """
    return by_float_formula(x, "erfinv", inverse_erf.inverse_erf)
