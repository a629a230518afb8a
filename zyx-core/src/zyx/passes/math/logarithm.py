"""Logarithms: natural, to base 2, and of 1 + x.

    x = 2**k * (1 + f),  sqrt(1/2) <= 1 + f < sqrt(2)          from the bits of x
    log x = k * ln 2 + log(1 + f)

float32 takes a polynomial in f. float64 would need twice the degree; there ``s = f / (2 + f)`` and a polynomial in s**2
are cheaper, after ``log(1 + f) = f - (f**2 / 2 - s * (f**2 / 2 + R))``, ``R = log((1 + s) / (1 - s)) / s - 2``. In
both, f itself is added last, so results near 0 are precise. For 1 + x, f is ``2**-k * x + (2**-k - 1)``, which is
rounded once, so no digit of x is lost.

The exponent is kept negated: -k as a float is +0 for k = 0, times a negative constant -0, and -0 + f keeps the sign of
f = -0.

Coefficients: Remez exchange in 400 bits for the least relative error, rounded to the format one after the other, lowest
power first, with the rest fitted again after each.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from zyx.passes.math.exponential import LN2, LOG2_E
from zyx.passes.math.values import F32, KernelValue, mad, polynomial, where

if TYPE_CHECKING:
    from zyx.kernel.build import Builder
    from zyx.kernel.data import ValueId

# (log(1 + f) - f) / f**2; relative error 4.2e-9.
_LOG_F32: Final = (
    -0.49999988079071045, 0.33333325386047363, -0.25001612305641174, 0.20002016425132751, -0.1660832315683365,
    0.14180444180965424, -0.13248439133167267, 0.12916313111782074, -0.07622625678777695,
)  # fmt: skip
# (log2(1 + f) - f * LOG2_E) / f, where LOG2_E is rounded to float32; relative error 4.7e-9.
_LOG2_F32: Final = (
    1.9199880796350044e-08, -0.7213473320007324, 0.4808982312679291, -0.3606986999511719, 0.2885695993900299,
    -0.2395648956298828, 0.20452117919921875, -0.1914490908384323, 0.18688376247882843, -0.10985057801008224,
)  # fmt: skip
# R / s**2 in powers of s**2; relative error 1.3e-18.
_LOG_F64: Final = (
    0.6666666666666734, 0.39999999999417035, 0.2857142874189477, 0.22222198621457734, 0.1818356191288201,
    0.15314110229240555, 0.14795370563393778,
)  # fmt: skip
_LEAST: Final = math.sqrt(0.5)  # of 1 + f
_LOG2_E_LOW: Final = 2.0355273740931033e-17  # log2(e) - LOG2_E


def log(b: Builder, x: ValueId) -> ValueId:
    """Return the natural logarithm, to 1 ulp, of subnormal numbers too; special values as in C99."""
    x_ = KernelValue(b, x)
    f, minus_k = split(x_)
    return _with_limits(_natural(f, minus_k), x_, 0.0).id


def log2(b: Builder, x: ValueId) -> ValueId:
    """Return the logarithm to base 2, to 1 ulp (2 where `Mad` rounds twice), exact for powers of 2; like `log`."""
    x_ = KernelValue(b, x)
    f, minus_k = split(x_)
    if x_.format is F32:
        fraction = mad(f, LOG2_E, f * polynomial(f, _LOG2_F32))
    else:
        half_square, product = _float64_parts(f)
        high = f - half_square
        low = (f - high) - half_square + product
        fraction = mad(high, LOG2_E, mad(low, LOG2_E, high * _LOG2_E_LOW))
    return _with_limits(fraction - minus_k, x_, 0.0).id


def log1p(b: Builder, x: ValueId) -> ValueId:
    """Return the natural logarithm of 1 + x, to 1.6 ulp, near 0 as well; special values as in C99.

    Exact for subnormal numbers.
    """
    x_ = KernelValue(b, x)
    format_ = x_.format
    one_plus_x = x_ + 1.0
    minus_k, shift = _exponent(one_plus_x)
    power = (shift + format_.bits_of(1.0)).bitcast(format_.dtype)  # 2**-k; garbage where that is subnormal
    near = mad(power, x_, -(1.0 - power))
    far = (one_plus_x.bitcast(format_.signed) + shift).bitcast(format_.dtype) - 1.0  # where the 1 is lost anyway
    f = where(x_.lt(2.0 ** (format_.mantissa + 8)), near, far)
    return _with_limits(_natural(f, minus_k), x_, -1.0).id


def split(x: KernelValue) -> tuple[KernelValue, KernelValue]:
    """Return ``(f, -k)`` for positive finite `x`, and anything for others."""
    format_ = x.format
    lift = format_.mantissa + 1  # subnormal numbers are multiplied by 2**lift
    is_subnormal = x.lt(format_.tiny)
    x = where(is_subnormal, x * 2.0**lift, x)
    minus_k, shift = _exponent(x)
    f = (x.bitcast(format_.signed) + shift).bitcast(format_.dtype) - 1.0
    return f, minus_k + where(is_subnormal, float(lift), x.like(0.0))


def _exponent(x: KernelValue) -> tuple[KernelValue, KernelValue]:
    """Return ``(-k, shift)`` of a positive normal number; adding the integer `shift` to its bits divides it by 2**k."""
    format_ = x.format
    bits = x.bitcast(format_.signed)
    # floor((bits - least) / 2**mantissa), with the sign turned and so the rounding.
    least = format_.bits_of(_LEAST)
    minus_k = ((least + (1 << format_.mantissa) - 1) - bits) >> format_.mantissa
    return minus_k.cast(format_.dtype), minus_k << format_.mantissa


def _natural(f: KernelValue, minus_k: KernelValue) -> KernelValue:
    """Return ``k * ln 2 + log(1 + f)``."""
    ln2_high, ln2_low = LN2[f.format.dtype]
    if f.format is F32:
        return mad(minus_k, -ln2_high, mad(f * f, polynomial(f, _LOG_F32), mad(minus_k, -ln2_low, f)))
    half_square, product = _float64_parts(f)
    return mad(minus_k, -ln2_high, f - (half_square - mad(minus_k, -ln2_low, product)))


def _float64_parts(f: KernelValue) -> tuple[KernelValue, KernelValue]:
    """Return ``(f**2 / 2, p)`` such that ``log(1 + f) = f - (f**2 / 2 - p)``."""
    s = f / (f + 2.0)
    square = s * s
    half_square = (f * 0.5) * f
    return half_square, s * mad(square, polynomial(square, _LOG_F64), half_square)


def _with_limits(result: KernelValue, x: KernelValue, pole: float) -> KernelValue:
    """Put in what the logarithm of an `x` is that is infinite, NaN, or not above the pole."""
    result = where(x.lt(math.inf), result, x)
    result = where(x.lt(pole), math.nan, result)
    return where(x.eq(pole), -math.inf, result)
