"""More functions of single elements, under NumPy's and PyTorch's names; each is put together from those of `zyx`.

Sources of formulas: DLMF 5.5 and 5.11 (gamma function), 7.12 (error function), and the definitions.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx import shape as shapes
from zyx.errors import DTypeError
from zyx.functions import arithmetic, elementwise, take_habits
from zyx.functions.choosing import where
from zyx.functions.operands import align, by_float_formula, by_float_formula_of, float_dtype, require, term_of, wrap
from zyx.ops import BinaryOp, UnaryOp

if TYPE_CHECKING:
    from zyx.functions import Tensor
    from zyx.functions.operands import Operand
    from zyx.functions.term import Term

__all__ = [
    "bitwise_count",
    "cbrt",
    "digamma",
    "divmod",
    "erfc",
    "fix",
    "float_power",
    "fmax",
    "fmin",
    "frexp",
    "gcd",
    "heaviside",
    "iscomplex",
    "isneginf",
    "isposinf",
    "isreal",
    "lcm",
    "ldexp",
    "lgamma",
    "logaddexp2",
    "logcumsumexp",
    "logit",
    "modf",
    "rint",
    "rsub",
    "sgn",
    "sinc",
    "xlogy",
]  # fmt: skip


def cbrt(x: Tensor) -> Tensor:
    """Return the real cube root, also of negative numbers."""

    def formula(t: Term) -> Term:
        size = t.abs()
        is_ordinary = (size > 0) & (size < math.inf)
        inner = is_ordinary.where(size, 1.0)
        root = (inner.log() * (1 / 3)).exp()
        root = root - (root * root * root - inner) / (3.0 * root * root)  # one step of Newton's, to the last bits
        return is_ordinary.where((t < 0).where(-root, root), t)

    return by_float_formula(x, "cbrt", formula)


def sinc(x: Tensor) -> Tensor:
    """Return ``sin(pi x) / (pi x)``, at 0 its limit, 1."""

    def formula(t: Term) -> Term:
        angle = t * math.pi
        near = angle.abs() < 1e-2
        inner = near.where(1.0, angle)
        square = angle * angle
        return near.where(1.0 - square * (1 / 6) * (1.0 - square * (1 / 20)), inner.unary(UnaryOp.SIN) / inner)

    return by_float_formula(x, "sinc", formula)


def logit(x: Tensor, eps: float | None = None) -> Tensor:
    """Return ``log(x / (1 - x))``; with `eps`, of `x` bounded by `eps` and ``1 - eps``. Outside of 0 to 1 it is NaN."""
    base = require(x, "logit")
    if eps is not None:
        base = base.astype(float_dtype(base.node.dtype)).clip(eps, 1 - eps)
    return by_float_formula(base, "logit", lambda t: t.log() - (-t).log1p())


def xlogy(x: Operand, y: Operand) -> Tensor:
    """Return ``x * log(y)``, which is 0 where `x` is, unless `y` is NaN."""

    def formula(a: Term, b: Term) -> Term:
        is_zero = (a == 0.0) & (b == b)  # noqa: PLR0124  # what is no NaN
        return is_zero.where(0.0, a * is_zero.where(1.0, b).log())

    return by_float_formula_of((x, y), "xlogy", formula)


def logaddexp2(x: Operand, y: Operand) -> Tensor:
    """Return ``log2(2**x + 2**y)`` without overflow."""
    like, (a, b) = align((x, y), "logaddexp2", floating=True)
    first, second = wrap(a.node, like) * math.log(2.0), wrap(b.node, like) * math.log(2.0)
    return elementwise.logaddexp(first, second) * (1 / math.log(2.0))


def logcumsumexp(x: Tensor, axis: int = -1) -> Tensor:
    """Return the logarithms of running sums of ``exp(x)`` along `axis`, without overflow of the greatest.

    A sum is kept as the greatest of its elements, and the sum of exponentials of what they are below that. Each step
    adds to every sum the one that ends where it begins, so that sums are of twice as many elements: n take as many
    steps as n has binary digits, each of the size of `x`. Hillis and Steele, "Data parallel algorithms", 1986.
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

    Raises:
        UnsupportedError: When it is computed, on a device without float64.
    """
    like, (a, b) = align((x, y), "float_power", floating=True)
    dtype = dtypes.complex128 if a.dtype.is_complex else dtypes.float64
    return arithmetic.pow(wrap(a.node, like).astype(dtype), wrap(b.node, like).astype(dtype))


def fmax(x: Operand, y: Operand) -> Tensor:
    """Return the greater one of both; of NaN and a number, the number."""
    return _without_nan(arithmetic.maximum, x, y, "fmax")


def fmin(x: Operand, y: Operand) -> Tensor:
    """Return the lesser one of both; of NaN and a number, the number."""
    return _without_nan(arithmetic.minimum, x, y, "fmin")


def _without_nan(choose: object, x: Operand, y: Operand, what: str) -> Tensor:
    like, terms = align((x, y), what)
    a, b = (wrap(term.node, like) for term in terms)
    if not a.node.dtype.is_float:
        return arithmetic.maximum(a, b) if choose is arithmetic.maximum else arithmetic.minimum(a, b)
    first, second = where(elementwise.isnan(a), b, a), where(elementwise.isnan(b), a, b)
    return arithmetic.maximum(first, second) if choose is arithmetic.maximum else arithmetic.minimum(first, second)


def heaviside(x: Operand, values: Operand) -> Tensor:
    """Return 0 where `x` is below 0, 1 where it is above, and `values` where it is 0; NaN stays."""
    like, terms = align((x, values), "heaviside")
    a, b = (wrap(term.node, like) for term in terms)
    step = where(a == 0, b, where(a > 0, 1, 0).astype(a.node.dtype))
    return where(elementwise.isnan(a), a, step) if a.node.dtype.is_float else step


def isposinf(x: Tensor) -> Tensor:
    """Tell which elements are positive infinity."""
    return _is_infinity(x, math.inf, "isposinf")


def isneginf(x: Tensor) -> Tensor:
    """Tell which elements are negative infinity."""
    return _is_infinity(x, -math.inf, "isneginf")


def _is_infinity(x: Tensor, value: float, what: str) -> Tensor:
    base = require(x, what)
    if base.node.dtype.is_complex:
        raise DTypeError(f"{what} takes real numbers, not {base.node.dtype}; complex ones have no sign")
    return base == value if base.node.dtype.is_float else elementwise.isinf(base)


def isreal(x: Tensor) -> Tensor:
    """Tell which elements have no imaginary part."""
    base = require(x, "isreal")
    return (
        base.imag == 0
        if base.node.dtype.is_complex
        else wrap(base.runtime.graph.const(True, dtypes.bool_, base.node.device, base.node.shape), base)
    )


def iscomplex(x: Tensor) -> Tensor:
    """Tell which elements have an imaginary part that is not 0."""
    return arithmetic.logical_not(isreal(x))


def fix(x: Tensor) -> Tensor:
    """Return the whole number next to each element towards 0."""
    return elementwise.trunc(x)


def rint(x: Tensor) -> Tensor:
    """Return the whole number next to each element, of two the even one."""
    return elementwise.round(x)


def sgn(x: Tensor) -> Tensor:
    """Return the sign; of complex numbers what has size 1 and the same angle, 0 at 0."""
    return elementwise.sign(x)


def rsub(x: Operand, y: Operand, *, alpha: float = 1) -> Tensor:
    """Return ``y - alpha * x``."""
    return arithmetic.subtract(y, x if alpha == 1 else arithmetic.multiply(x, alpha))


def modf(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the fraction and the whole number next to it towards 0, both with the sign of `x`."""
    base = require(x, "modf")
    base = base.astype(float_dtype(base.node.dtype))
    whole = elementwise.trunc(base)
    rest = elementwise.copysign(where(elementwise.isinf(base), 0.0, base - whole), base.detach())
    return rest, whole


def divmod(x: Operand, y: Operand) -> tuple[Tensor, Tensor]:  # Python's name
    """Return ``x // y`` and ``x % y``."""
    return arithmetic.floor_divide(x, y), arithmetic.remainder(x, y)


def frexp(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return m and e such that ``x = m * 2**e`` with 0.5 <= |m| < 1, e int32; of 0, infinities and NaN it and 0."""
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
        x = x * elementwise.exp2(step.astype(x.node.dtype))
        exponent = exponent - step
    return x


def ldexp(x: Operand, exponent: Operand) -> Tensor:
    """Return ``x * 2**exponent``; `exponent` may be fractions, as in PyTorch."""
    like, (a, b) = align((x, exponent), "ldexp", floating=True)
    return _scaled(wrap(a.node, like), wrap(b.node, like))


def bitwise_count(x: Tensor) -> Tensor:
    """Return how many bits of the size of each integer are 1, uint8.

    Raises:
        DTypeError: No integers.
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

    Raises:
        DTypeError: No integers.
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
    """Return the least integer of at least 0 that both divide; of 0 and anything it is 0. Raises as `gcd` does."""
    like, (a, b) = align((x, y), "lcm")
    if not a.dtype.is_integer:
        raise DTypeError(f"lcm takes integers, not {a.dtype}")
    first, second = (wrap(term.node, like) for term in (a, b))
    common = gcd(first, second)
    return elementwise.abs(first // where(common == 0, 1, common) * second)


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
    """Return the logarithm of the size of the gamma function; infinite at 0 and below at whole numbers.

    Recurrence and reflection (DLMF 5.5.1, 5.5.3) bring what is small to where the series of Stirling holds.
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
    """Return ``1 - erf(x)``, without the loss of digits where that is small.

    For numbers above 1 it is ``exp(-x**2) / (x sqrt(pi))`` times the continued fraction of DLMF 7.9.2.
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
