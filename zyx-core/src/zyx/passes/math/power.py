"""x to the power y.

    x**y = 2**(y * log2 |x|), with the sign of x for odd y

An error of the exponent is as large in the result, and the exponent reaches 150 (float32) or 1075 (float64), so the
logarithm needs ten more bits than the format has. It is a *pair*, a number and its rounding error:

    |x| = 2**k * m,  s = (m - 1) / (m + 1),  z = s**2            s and z are pairs
    log2 m = s * (C1 + z * (C3 + z * Q(z)))                      C1 + ... is a pair; in float64 C3 + ... too

The errors of products are exact where `Mad` rounds once; elsewhere factors are split into halves.

Coefficients: Remez exchange in 400 bits for the least error relative to the logarithm, rounded to the format one after
the other, lowest power first, with the rest fitted again after each; errors 2**-36.4 and 2**-66.3. C1 = 2 / ln 2 and
C3 = C1 / 3.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.passes.math.exponential import EXP2, EXP2_DOMAIN, round_to_integer, scale
from zyx.passes.math.logarithm import split
from zyx.passes.math.values import KernelValue, at_least, at_most, mad, polynomial, where

if TYPE_CHECKING:
    from zyx.dtype import Scalar
    from zyx.kernel.build import Builder
    from zyx.kernel.data import ValueId

# The constants of the logarithm that are pairs, the last one first.
_LEADING: Final = {
    dtypes.float32: ((2.885390043258667, 3.851925982253235e-08),),
    dtypes.float64: ((0.9617966939259756, 5.0577616648125907e-17), (2.8853900817779268, 4.0710547481862066e-17)),
}
_Q: Final = {
    dtypes.float32: (0.9617967009544373, 0.5770788192749023, 0.4119272530078888, 0.3364909291267395),
    dtypes.float64: (
        0.577078016355618, 0.41219858309193474, 0.3205989022754319, 0.26230770088359484, 0.2219840123134118,
        0.19125474741317708, 0.19038991469127667,
    ),
}  # fmt: skip
# |y| from which every x but 0, 1, -1 and infinity gives 0 or infinity; a power of 2 whose products do not overflow.
_LARGEST_EXPONENT: Final = {dtypes.float32: 2.0**33, dtypes.float64: 2.0**65}


def power(b: Builder, x: ValueId, y: ValueId, *, has_fma: bool = True) -> ValueId:
    """Return ``x**y``, with the special cases of C99 (F.9.4.4).

    ``x**0`` and ``1**y`` are 1, even of NaN; a negative x has powers for integral y only, else NaN; zeros and
    infinities keep their signs for odd y; ``(-1)**inf`` is 1. To 1.2 ulp (1.5 where `Mad` rounds twice), subnormal
    results included.

    Args:
        b: Where to write.
        x: The base.
        y: The exponent, of the type of `x`.
        has_fma: Whether `Mad` rounds once.
    """
    x_, y_ = KernelValue(b, x), KernelValue(b, y)
    f = x_.format
    magnitude = abs(x_)
    high, low = _log2(magnitude, has_fma=has_fma)
    is_finite = magnitude.lt(math.inf)
    high = where(is_finite, high, magnitude)
    high = where(magnitude.eq(0.0), -math.inf, high)

    # A finite y keeps infinity times 0 out: 1**inf is 1.
    limit = _LARGEST_EXPONENT[f.dtype]
    bounded = at_most(at_least(y_, -limit), limit)
    exponent = bounded * high
    rest = mad(bounded, low, _residual(bounded, high, -exponent, has_fma=has_fma))
    least, greatest = EXP2_DOMAIN[f.dtype]
    rest = where(abs(exponent).lt(-2 * least), rest, 0.0)  # beyond, `rest` can be anything, NaN included
    is_zero = exponent.lt(least)
    exponent = at_most(where(is_zero, 0.0, exponent), greatest)
    n, shifted = round_to_integer(exponent, 2 * f.bias)
    result = where(is_zero, 0.0, scale(polynomial((exponent - n) + rest, EXP2[f.dtype]), shifted))

    is_integral = y_.floor().eq(y_)
    half = y_ * 0.5
    is_odd = is_integral & half.floor().ne(half)
    sign = where(is_odd, x_.bits & f.sign_bit, x_.bits.like(0))
    result = (result.bits | sign).bitcast(f.dtype)
    result = where(x_.lt(0.0) & ~is_integral & is_finite, math.nan, result)
    return where(x_.eq(1.0) | y_.eq(0.0), 1.0, result).id


def _log2(x: KernelValue, *, has_fma: bool) -> tuple[KernelValue, KernelValue]:
    """Return the base-2 logarithm of a positive finite number as a pair."""
    dtype = x.format.dtype
    f, minus_k = split(x)  # m - 1
    # s = f / (m + 1): a first quotient, and the next digits of it from what is left.
    divisor = f + 2.0
    divisor_low = f - (divisor - 2.0)
    inverse = 1.0 / divisor
    s = f * inverse
    left = mad(-s, divisor_low, _residual(-s, divisor, f, has_fma=has_fma))
    s_low = left * inverse

    z = s * s
    z_low = mad(s + s, s_low, _residual(s, s, -z, has_fma=has_fma))
    total = polynomial(z, _Q[dtype])
    total_low = None
    for constant, constant_low in _LEADING[dtype]:
        term = total
        total = mad(z, term, constant)
        low = mad(z_low, term, constant_low) if total_low is None else mad(z_low, term, mad(z, total_low, constant_low))
        total_low = _residual(z, term, constant - total, has_fma=has_fma) + low
    assert total_low is not None
    product = s * total
    product_low = mad(s_low, total, mad(s, total_low, _residual(s, total, -product, has_fma=has_fma)))

    high = product - minus_k
    return high, ((-minus_k - high) + product) + product_low


def _residual(x: KernelValue, y: KernelValue, z: KernelValue, *, has_fma: bool) -> KernelValue:
    """Return ``x * y + z`` where that nearly cancels, to all digits."""
    if has_fma:
        return mad(x, y, z)
    x_high, x_low = _halves(x)
    y_high, y_low = _halves(y)
    return mad(x_low, y_low, mad(x_low, y_high, mad(x_high, y_low, mad(x_high, y_high, z))))


def _halves(x: KernelValue) -> tuple[KernelValue, KernelValue]:
    """Return two numbers of half as many digits whose sum is `x`."""
    f = x.format
    kept = (1 << f.unsigned.bits) - (1 << ((f.mantissa + 2) // 2))
    high = (x.bits & kept).bitcast(f.dtype)
    return high, x - high


def power_of_constant(b: Builder, x: ValueId, exponent: Scalar) -> ValueId | None:
    """Return the float ``x**exponent`` where that takes a few operations, off by 1.5 ulp at most; else None."""
    x_ = KernelValue(b, x)
    match exponent:
        case 0:
            result = x_.like(1)
        case 0.5:
            # The square root of -0 is -0, of minus infinity NaN; as powers they are 0 and infinity.
            result = where(x_.eq(-math.inf), math.inf, (x_ + 0.0).sqrt())
        case 1:
            result = x_
        case 2:
            result = x_ * x_
        case 3:
            result = x_ * x_ * x_
        case -1:
            result = 1.0 / x_
        case _:
            return None
    return result.id
