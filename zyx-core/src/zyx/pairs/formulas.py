"""Functions of complex numbers as formulas of their real and imaginary parts.

A number is a pair of reals, (x, y). Special cases are those of the Array API 2024.12, which are those of C99, annex G,
but for the sign of some zeros.
Formulas of one operand are named as `UnaryOp` has them; the others that the standard knows follow from these:
``sinh z = -i sin iz``, ``tan z = -i tanh iz``, ``atanh z = -i atan iz``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, TypeAlias

from zyx.ops import BinaryOp, UnaryOp
from zyx.pairs.real import LN_2, Real, atan2, exp_times, hypot, ordered, sinh_and_cosh

if TYPE_CHECKING:
    from collections.abc import Callable

Pair: TypeAlias = tuple[Real, Real]


def times_i(z: Pair) -> Pair:
    """Return ``i * z``; exact."""
    return -z[1], z[0]


def times_minus_i(z: Pair) -> Pair:
    """Return ``-i * z``; exact."""
    return z[1], -z[0]


def multiply(z: Pair, w: Pair) -> Pair:
    """Return the product, by the plain formula as NumPy and PyTorch have it."""
    (a, b), (c, d) = z, w
    return a * c - b * d, a * d + b * c


def divide(z: Pair, w: Pair) -> Pair:
    """Return the quotient by Smith's formula, which overflows only where the quotient is near to it.

    Smith, "Algorithm 116: complex division", CACM 5, 1962. By zero each part is divided, as NumPy does.
    """
    (a, b), (c, d) = z, w
    is_steep = c.abs() < d.abs()
    large, small = is_steep.where(d, c), is_steep.where(c, d)
    is_zero = large.equals(0.0)
    ratio = is_zero.where(0.0, small / large)
    whole = is_zero.where(large.abs(), large + small * ratio)
    first, second = is_steep.where(b, a), is_steep.where(a, b)
    real = (first + second * ratio) / whole
    imaginary = is_steep.where(b * ratio - a, b - a * ratio) / whole
    return real, imaginary


def reciprocal(z: Pair) -> Pair:
    """Return ``1 / z``."""
    return divide((z[0].like(1.0), z[0].like(0.0)), z)


def exp(z: Pair) -> Pair:
    """Return ``exp(x) * (cos y + i sin y)``."""
    x, y = z
    vanishes = x.equals(-math.inf) & ~y.is_finite()
    is_real = y.equals(0.0)
    real = exp_times(x, is_real.where(1.0, y.cos()))
    imaginary = is_real.where(y, exp_times(x, y.sin()))
    endless = x.equals(math.inf) & ~y.is_finite()
    real = endless.where(math.inf, vanishes.where(0.0, real))
    return real, vanishes.where(0.0, imaginary)


def exp2(z: Pair) -> Pair:
    """Return 2 to the power of `z`."""
    return exp((z[0] * LN_2, z[1] * LN_2))


def expm1(z: Pair) -> Pair:
    """Return ``exp(z) - 1``; the real part is ``expm1(x) * cos(y) - 2 * sin(y / 2)**2``, exact near 0."""
    x, y = z
    half = (y * 0.5).sin()
    is_small = x.abs() < 1.0
    near = is_small.where(x, 0.0).expm1() * y.cos() - half * half * 2.0
    far, imaginary = exp(z)
    real = y.equals(0.0).where(x.expm1(), is_small.where(near, far - 1.0))
    return real.equals(0.0).where(0.0, real), imaginary  # also of -0, as the standard has it


def log_of_size(x: Real, y: Real) -> Real:
    """Return ``log(hypot(x, y))``; near 1 what is over it is summed up, with its square exact."""
    large, small = ordered(x, y)
    is_near = (large > 0.5) & (large < 2.0)
    inner, beside = is_near.where(large, 1.0), is_near.where(small, 0.0)
    high, low = _square(inner)
    other_high, other_low = _square(beside)
    over = ((high - 1.0) + other_high) + (low + other_low)
    near = over.log1p() * 0.5
    ratio = (large.equals(0.0) | large.equals(math.inf)).where(0.0, small / large)
    far = large.log() + (ratio * ratio).log1p() * 0.5
    size = is_near.where(near, far)
    return (x.is_infinite() | y.is_infinite()).where(math.inf, (x.is_nan() | y.is_nan()).where(math.nan, size))


def _square(x: Real) -> tuple[Real, Real]:
    """Return the square of `x` and its rounding error, by halves of the digits: Dekker, 1971."""
    bits = x * (134217729.0 if x.is_double else 4097.0)
    high = bits - (bits - x)
    low = x - high
    square = x * x
    return square, ((high * high - square) + high * low * 2.0) + low * low


def log(z: Pair) -> Pair:
    """Return ``log(abs(z)) + i * angle(z)``."""
    return log_of_size(*z), atan2(z[1], z[0])


def log2(z: Pair) -> Pair:
    """Return the logarithm to base 2."""
    real, imaginary = log(z)
    return real * (1 / LN_2), imaginary * (1 / LN_2)


def log1p(z: Pair) -> Pair:
    """Return ``log(1 + z)``; near 0 the real part is ``log1p(x * (2 + x) + y * y) / 2``."""
    x, y = z
    is_small = (x.abs() < 0.5) & (y.abs() < 0.5)
    inner, beside = is_small.where(x, 0.0), is_small.where(y, 0.0)
    near = (inner * (inner + 2.0) + beside * beside).log1p() * 0.5
    one = x + 1.0
    return is_small.where(near, log_of_size(one, y)), atan2(y, one)


def sqrt(z: Pair) -> Pair:
    """Return the root whose real part is not negative; the sign of the imaginary part stays.

    Kahan, "Branch cuts for complex elementary functions", 1987: of ``t = sqrt((abs(x) + abs(z)) / 2)`` and
    ``abs(y) / 2 / t`` one is the real part. What is very large or small is scaled by a power of 4 before.
    """
    x, y = z
    large, _ = ordered(x, y)
    down, up = (2.0**-4, 2.0**108) if x.is_double else (2.0**-4, 2.0**48)
    is_small = large < (1e-290 if x.is_double else 1e-30)
    scale = is_small.where(x.like(up), down)
    back = is_small.where(x.like(up**-0.5), down**-0.5)
    a, b = x.abs() * scale, y.abs() * scale
    first = ((a + hypot(a, b)) * 0.5).sqrt()
    second = b / first.equals(0.0).where(1.0, first) * 0.5
    first, second = first * back, second * back
    is_left = x.is_negative()
    real, imaginary = is_left.where(second, first), is_left.where(first, second)
    # An infinite part decides: of y both, of x the one that is the root of it.
    to_right, to_left = x.equals(math.inf), x.equals(-math.inf)
    real = to_right.where(math.inf, to_left.where(y.is_nan().where(math.nan, y.like(0.0)), real))
    imaginary = to_left.where(math.inf, to_right.where(y.is_nan().where(math.nan, y.like(0.0)), imaginary))
    is_endless = y.is_infinite()
    real, imaginary = is_endless.where(math.inf, real), is_endless.where(math.inf, imaginary)
    imaginary = (x.is_nan() & ~is_endless).where(math.nan, imaginary)
    return real, imaginary.with_sign_of(y)


def sinh(z: Pair) -> Pair:
    """Return ``sinh x cos y + i cosh x sin y``."""
    x, y = z
    sine, cosine = sinh_and_cosh(x)
    is_large = x.abs() > (700.0 if x.is_double else 85.0)
    size = x.abs()
    real = is_large.where(exp_times(size, y.cos() * 0.5).with_sign_of_product(x), sine * y.cos())
    imaginary = is_large.where(exp_times(size, y.sin() * 0.5), cosine * y.sin())
    no_angle = ~y.is_finite()
    real = (no_angle & x.equals(0.0)).where(x, (no_angle & x.is_infinite()).where(x, real))
    real = y.equals(0.0).where(sine, real)
    return real, y.equals(0.0).where(y, imaginary)


def cosh(z: Pair) -> Pair:
    """Return ``cosh x cos y + i sinh x sin y``."""
    x, y = z
    sine, cosine = sinh_and_cosh(x)
    is_large = x.abs() > (700.0 if x.is_double else 85.0)
    size = x.abs()
    real = is_large.where(exp_times(size, y.cos() * 0.5), cosine * y.cos())
    imaginary = is_large.where(exp_times(size, y.sin() * 0.5).with_sign_of_product(x), sine * y.sin())
    no_angle = ~y.is_finite()
    real = (no_angle & x.is_infinite()).where(math.inf, real)
    real = y.equals(0.0).where(cosine, real)
    flat = x.like(0.0).with_sign_of(y).with_sign_of_product(x)
    return real, (y.equals(0.0) | (x.equals(0.0) & no_angle)).where(flat, imaginary)


def sin(z: Pair) -> Pair:
    """Return ``-i sinh iz``."""
    return times_minus_i(sinh(times_i(z)))


def cos(z: Pair) -> Pair:
    """Return ``cosh iz``."""
    return cosh(times_i(z))


def tanh(z: Pair) -> Pair:
    """Return ``(sinh x cosh x + i sin y cos y) / (sinh(x)**2 + cos(y)**2)``; far out it is 1 or -1 and what is left."""
    x, y = z
    is_far = x.abs() > (22.0 if x.is_double else 11.0)
    no_angle = ~y.is_finite()
    sine, cosine = sinh_and_cosh(is_far.where(0.0, x))
    across, along = y.sin(), y.cos()
    whole = sine * sine + along * along
    near = sine * cosine / whole, across * along / whole
    rest = across * along * 4.0 * (x.abs() * -2.0).exp()
    rest = x.is_infinite().where(x.like(0.0).with_sign_of(y), rest)  # as the standard has it; C99 takes sin(2 y)
    real = is_far.where(x.like(1.0).with_sign_of(x), near[0])
    imaginary = is_far.where(rest, near[1])
    real = (x.equals(0.0) & no_angle).where(x, real)
    imaginary = (is_far & no_angle & x.is_finite()).where(math.nan, imaginary)
    real = (is_far & no_angle & x.is_finite()).where(math.nan, real)
    is_real = y.equals(0.0)
    return is_real.where(x.unary(UnaryOp.TANH), real), is_real.where(y, imaginary)


def atanh(z: Pair) -> Pair:
    """Return ``log1p(4 x / ((1 - x)**2 + y**2)) / 4 + i atan2(2 y, (1 - x) * (1 + x) - y**2) / 2`` of x >= 0.

    It is odd; far out the real part is that of 1 / z, and the imaginary one pi / 2. FreeBSD's catrig.c has the same.
    """
    x, y = z
    size, height = x.abs(), y.abs()
    is_far = (size > (1e8 if x.is_double else 1e4)) | (height > (1e8 if x.is_double else 1e4))
    a, b = is_far.where(1.0, size), is_far.where(1.0, height)
    rest = 1.0 - a
    whole = rest * rest + b * b
    near = (a * 4.0 / whole).log1p() * 0.25
    is_beside = a.equals(1.0) & (b < (1e-150 if x.is_double else 1e-18)) & (b > 0.0)  # the square would be lost
    near = is_beside.where((b.log() - LN_2) * -0.5, near)
    far = divide((x.like(1.0), x.like(0.0)), (size, y))[0]
    is_endless = size.is_infinite() | height.is_infinite()
    far = is_endless.where(0.0, far)
    real = is_far.where(far, near)
    angle = atan2(b * 2.0, rest * (a + 1.0) - b * b) * 0.5
    imaginary = is_far.where(math.pi / 2, angle)
    imaginary = (x.is_nan() & ~height.is_infinite()).where(math.nan, imaginary)
    imaginary = y.is_nan().where(math.nan, imaginary)
    real = (y.is_nan() & ~size.is_infinite()).where(
        math.nan, (x.is_nan() & ~height.is_infinite()).where(math.nan, real)
    )
    real = (x.equals(0.0)).where(0.0, real)
    real = (y.equals(0.0) & (size < 1.0)).where((size.log1p() - (-size).log1p()) * 0.5, real)
    return real.with_sign_of(x), imaginary.with_sign_of(y)


def atan(z: Pair) -> Pair:
    """Return ``-i atanh iz``."""
    return times_minus_i(atanh(times_i(z)))


def power(z: Pair, w: Pair) -> Pair:
    """Return ``exp(w * log z)``; of zero to the power of 0 is 1, to one with a positive real part 0, else NaN."""
    is_zero = z[0].equals(0.0) & z[1].equals(0.0)
    is_one = w[0].equals(0.0) & w[1].equals(0.0)
    inner = is_zero.where(1.0, z[0]), z[1]
    real, imaginary = exp(multiply(w, log(inner)))
    at_zero = (w[0] > 0.0).where(w[0].like(0.0), math.nan)
    real, imaginary = is_zero.where(at_zero, real), is_zero.where(at_zero, imaginary)
    return is_one.where(1.0, real), is_one.where(0.0, imaginary)


UNARY: Final[dict[UnaryOp, Callable[[Pair], Pair]]] = {
    UnaryOp.NEG: lambda z: (-z[0], -z[1]),
    UnaryOp.SQRT: sqrt,
    UnaryOp.RECIPROCAL: reciprocal,
    UnaryOp.EXP: exp,
    UnaryOp.EXP2: exp2,
    UnaryOp.EXPM1: expm1,
    UnaryOp.LOG: log,
    UnaryOp.LOG2: log2,
    UnaryOp.LOG1P: log1p,
    UnaryOp.SIN: sin,
    UnaryOp.COS: cos,
    UnaryOp.TANH: tanh,
    UnaryOp.ATAN: atan,
}
"""The formula of each operation that complex numbers have."""

BINARY: Final[dict[BinaryOp, Callable[[Pair, Pair], Pair]]] = {
    BinaryOp.ADD: lambda z, w: (z[0] + w[0], z[1] + w[1]),
    BinaryOp.SUB: lambda z, w: (z[0] - w[0], z[1] - w[1]),
    BinaryOp.MUL: multiply,
    BinaryOp.DIV: divide,
    BinaryOp.POW: power,
}
"""The same of two operands; comparisons, which give bools, are apart."""
