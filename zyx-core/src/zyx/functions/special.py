"""More functions of single elements, under NumPy's and PyTorch's names; each is put together from those of `zyx`.

Sources of formulas: DLMF 5.5 and 5.11 (gamma function), 7.12 (error function), and the definitions.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx import shape as shapes
from zyx.functions import arithmetic, take_habits, transcendental
from zyx.functions.operands import align, by_float_formula, by_float_formula_of, float_dtype, require, wrap
from zyx.ops import UnaryOp

if TYPE_CHECKING:
    from zyx.functions import Tensor
    from zyx.functions.operands import Operand
    from zyx.functions.term import Term

__all__ = ["cbrt", "digamma", "erfc", "float_power", "lgamma", "logaddexp2", "logcumsumexp", "logit", "sinc", "xlogy"]


def cbrt(x: Tensor) -> Tensor:
    """Return the real cube root of each element, also of negative numbers.

    Raises:
        DTypeError: `x` is complex.

    >>> [round(v, 4) for v in zyx.cbrt(zyx.Tensor([-8.0, 27.0])).tolist()]
    [-2.0, 3.0]
    """

    def formula(t: Term) -> Term:
        size = t.abs()
        is_ordinary = (size > 0) & (size < math.inf)
        inner = is_ordinary.where(size, 1.0)
        root = (inner.log() * (1 / 3)).exp()
        root = root - (root * root * root - inner) / (3.0 * root * root)  # one step of Newton's, to the last bits
        return is_ordinary.where((t < 0).where(-root, root), t)

    return by_float_formula(x, "cbrt", formula)


def sinc(x: Tensor) -> Tensor:
    """Return ``sin(pi x) / (pi x)`` of each element, at 0 its limit, 1.

    Raises:
        DTypeError: `x` is no tensor, or complex.

    >>> [round(v, 4) for v in zyx.sinc(zyx.Tensor([0.0, 0.5])).tolist()]
    [1.0, 0.6366]
    """

    def formula(t: Term) -> Term:
        angle = t * math.pi
        near = angle.abs() < 1e-2
        inner = near.where(1.0, angle)
        square = angle * angle
        return near.where(1.0 - square * (1 / 6) * (1.0 - square * (1 / 20)), inner.unary(UnaryOp.SIN) / inner)

    return by_float_formula(x, "sinc", formula)


def logit(x: Tensor, eps: float | None = None) -> Tensor:
    """Return ``log(x / (1 - x))``; with `eps`, of `x` bounded by `eps` and ``1 - eps``. Outside of 0 to 1 it is NaN.

    Elementwise: the result has the shape of `x`.

    Raises:
        DTypeError: `x` is no tensor, or complex.

    >>> [round(v, 4) for v in zyx.logit(zyx.Tensor([0.5, 0.75])).tolist()]
    [0.0, 1.0986]
    """
    base = require(x, "logit")
    if eps is not None:
        base = base.astype(float_dtype(base.node.dtype)).clip(eps, 1 - eps)
    return by_float_formula(base, "logit", lambda t: t.log() - (-t).log1p())


def xlogy(x: Operand, y: Operand) -> Tensor:
    """Return ``x * log(y)``, which is 0 where `x` is, unless `y` is NaN.

    The result has the shape that both broadcast to.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: Neither is a tensor, or one is complex.

    >>> zyx.xlogy(zyx.Tensor([0.0, 2.0]), zyx.Tensor([0.0, 1.0])).tolist()
    [0.0, 0.0]
    """

    def formula(a: Term, b: Term) -> Term:
        is_zero = (a == 0.0) & (b == b)  # noqa: PLR0124  # what is no NaN
        return is_zero.where(0.0, a * is_zero.where(1.0, b).log())

    return by_float_formula_of((x, y), "xlogy", formula)


def logaddexp2(x: Operand, y: Operand) -> Tensor:
    """Return ``log2(2**x + 2**y)`` without overflow, in the shape that both broadcast to.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: Neither is a tensor, or one is complex.

    >>> round(zyx.logaddexp2(zyx.Tensor(0.0), 0.0).item(), 4)
    1.0
    """
    like, (a, b) = align((x, y), "logaddexp2", floating=True)
    first, second = wrap(a.node, like) * math.log(2.0), wrap(b.node, like) * math.log(2.0)
    return transcendental.logaddexp(first, second) * (1 / math.log(2.0))


def logcumsumexp(x: Tensor, axis: int = -1) -> Tensor:
    """Return the logarithms of running sums of ``exp(x)`` along `axis`, without overflow of the greatest.

    A sum is kept as the greatest of its elements, and the sum of exponentials of what they are below that. Each step
    adds to every sum the one that ends where it begins, so that sums are of twice as many elements: n take as many
    steps as n has binary digits, each of the size of `x`. Hillis and Steele, "Data parallel algorithms", 1986.

    Raises:
        DTypeError: `x` is no tensor, or complex.
        AxisError: `x` has no such axis.

    >>> [round(v, 4) for v in zyx.logcumsumexp(zyx.zeros(3)).tolist()]
    [0.0, 0.6931, 1.0986]
    """
    base = require(x, "logcumsumexp")
    if not base.node.ndim and axis in (0, -1):
        return base.clone()
    place = shapes.normalize_axis(axis, base.node.ndim)
    size = operator.index(base.node.shape[place])

    def formula(t: Term) -> Term:
        def before(part: Term, reach: int, value: float) -> Term:
            widths = [(reach if at == place else 0, 0) for at in range(len(part.shape))]
            return part.narrow(place, 0, size - reach).pad(widths, value)

        top = t.detach()
        finite = (top.abs() < math.inf).where(t, 0.0)
        total, reach = (finite - finite.detach()).exp(), 1  # 1, with the slope of the exponential
        while reach < size:
            other = before(top, reach, -math.inf)
            new = top.maximum(other)
            total = total * _share(top, new) + before(total, reach, 0.0) * _share(other, new)
            top, reach = new, reach * 2
        return top + total.log()

    return by_float_formula(base, "logcumsumexp", formula)


def _share(top: Term, new: Term) -> Term:
    """Return ``exp(top - new)``, which is 1 of equal infinities."""
    return (top == new).where(1.0, (top - new).exp())


def float_power(x: Operand, y: Operand) -> Tensor:
    """Return ``x ** y`` in float64, or complex128, whatever the dtypes are.

    The result has the shape that both broadcast to.

    Raises:
        UnsupportedError: When it is computed, on a device without float64.
        ShapeError: The shapes do not broadcast.
        DTypeError: Neither is a tensor, or there is no dtype that both fit into.

    >>> zyx.float_power(zyx.Tensor([1, 2]), 2).dtype.name
    'float64'
    """
    like, (a, b) = align((x, y), "float_power", floating=True)
    dtype = dtypes.complex128 if a.dtype.is_complex else dtypes.float64
    return arithmetic.pow(wrap(a.node, like).astype(dtype), wrap(b.node, like).astype(dtype))


# ---- gamma and error functions


def _stirling(t: Term) -> Term:
    """Return the logarithm of the gamma function for numbers of at least 8: DLMF 5.11.1."""
    inverse = 1.0 / t
    square = inverse * inverse
    total = square * 0.0
    for number, divisor in reversed(((1, 12), (-1, 360), (1, 1260), (-1, 1680), (1, 1188), (-691, 360360), (1, 156))):
        total = total * square + number / divisor
    return (t - 0.5) * t.log() - t + 0.5 * math.log(2 * math.pi) + total * inverse


def lgamma(x: Tensor) -> Tensor:
    """Return the logarithm of the size of the gamma function of each element; infinite at 0 and below at whole numbers.

    Recurrence and reflection (DLMF 5.5.1, 5.5.3) bring what is small to where the series of Stirling holds.

    Raises:
        DTypeError: `x` is no tensor, or complex.

    >>> [round(v, 4) for v in zyx.lgamma(zyx.Tensor([1.0, 5.0])).tolist()]
    [0.0, 3.1781]
    """

    def formula(t: Term) -> Term:
        low = t < 0.5
        is_pole = (t <= 0.0) & (t.floor() == t)
        inner = low.where(1.0 - t, t)
        is_large = inner >= 8.0
        small = is_large.where(1.0, inner)
        product, moved = small, small + 1.0
        for _ in range(7):
            product, moved = product * moved, moved + 1.0
        found = is_large.where(_stirling(is_large.where(inner, 8.0)), _stirling(moved) - product.log())
        part = t - t.floor()
        sine = (is_pole.where(0.5, low.where(part, 0.5)) * math.pi).unary(UnaryOp.SIN)
        result = low.where(math.log(math.pi) - sine.log() - found, found)
        return (is_pole | (t.abs() == math.inf)).where(math.inf, result)

    return by_float_formula(x, "lgamma", formula)


def digamma(x: Tensor) -> Tensor:
    """Return the slope of `lgamma`; NaN at whole numbers below 0, and -infinity at 0, by the sign of which it is.

    DLMF 5.5.2, 5.5.4 and 5.11.2.

    Elementwise: the result has the shape of `x`.

    Raises:
        DTypeError: `x` is no tensor, or complex.

    >>> [round(v, 4) for v in zyx.digamma(zyx.Tensor([1.0, 2.0])).tolist()]
    [-0.5772, 0.4228]
    """

    def formula(t: Term) -> Term:
        low = t < 0.5
        is_pole = (t <= 0.0) & (t.floor() == t)
        inner = low.where(1.0 - t, t)
        moved, total = inner, inner * 0.0
        for _ in range(8):
            small = moved < 8.0
            total = total - small.where(1.0 / small.where(moved, 1.0), 0.0)
            moved = small.where(moved + 1.0, moved)
        inverse = 1.0 / moved
        square = inverse * inverse
        series = square * 0.0
        for number, divisor in reversed(((1, 12), (-1, 120), (1, 252), (-1, 240), (1, 132), (-691, 32760))):
            series = series * square + number / divisor
        found = total + moved.log() - 0.5 * inverse - series * square
        angle = is_pole.where(0.25, low.where(t - t.floor(), 0.25)) * math.pi
        result = low.where(found - math.pi * angle.unary(UnaryOp.COS) / angle.unary(UnaryOp.SIN), found)
        result = (t == math.inf).where(math.inf, result)
        return (t == 0.0).where(-math.inf, is_pole.where(math.nan, result))

    return by_float_formula(x, "digamma", formula)


def erfc(x: Tensor) -> Tensor:
    """Return ``1 - erf(x)`` of each element, without the loss of digits where that is small.

    For numbers above 1 it is ``exp(-x**2) / (x sqrt(pi))`` times the continued fraction of DLMF 7.9.2.

    Raises:
        DTypeError: `x` is no tensor, or complex.

    >>> [round(v, 4) for v in zyx.erfc(zyx.Tensor([0.0, 1.0])).tolist()]
    [1.0, 0.1573]
    """

    def formula(t: Term) -> Term:
        far = t > 2.0
        inner = far.where(t, 2.0)
        # Evaluated from its end; at 2 it takes so many terms for the last bits.
        terms = 60 if t.dtype.bits == 64 else 20
        fraction = inner
        for n in range(terms, 0, -1):
            fraction = inner + (0.5 * n) / fraction
        tail = (-(inner * inner)).exp() / fraction * (1 / math.sqrt(math.pi))
        tail = (t > 30.0).where(0.0, tail)
        return far.where(tail, 1.0 - t.erf())

    return by_float_formula(x, "erfc", formula)


take_habits(globals(), but=("divmod",))
