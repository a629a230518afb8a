"""e**x, 2**x and e**x - 1.

    x = n * ln 2 + r,  |r| <= ln(2) / 2        n by adding a number so large that only integers are left
    e**x = 2**n * e**r                         e**r by a polynomial, 2**n through the exponent bits

`n` never becomes an integer by a cast: it stands in the low bits of the sum that rounded it. Scaling by 2**n takes
two steps, since 2**n alone overflows where e**x does not, and so that a subnormal result is rounded once. Where the
result is 0, as for whatever a softmax leaves out, nothing is computed near the end of the range: many processors need
a hundred times as long for an operation that underflows.

Coefficients: Remez exchange in 400 bits for the least relative error over |r| <= 0.5002 (times ln 2), rounded to the
format one after the other, lowest power first, with the rest fitted again after each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.passes.math.values import KernelValue, at_least, at_most, mad, polynomial, where

if TYPE_CHECKING:
    from zyx.kernel.build import Builder
    from zyx.kernel.data import ValueId

LOG2_E: Final = 1.4426950408889634

#: ln 2 in two parts: the first so short that its product with any n is exact, fused or not.
LN2: Final = {
    dtypes.float32: (0.693145751953125, 1.4286068203094173e-06),
    dtypes.float64: (0.6931471803691238, 1.9082149292705877e-10),
}

# Where results are finite and not 0, rounded outwards to where n is still in reach.
_EXP_DOMAIN: Final = {dtypes.float32: (-104.0, 89.0), dtypes.float64: (-746.0, 710.0)}
EXP2_DOMAIN: Final = {dtypes.float32: (-151.0, 129.0), dtypes.float64: (-1076.0, 1025.0)}
# Below, e**x - 1 rounds to -1.
_EXPM1_DOMAIN: Final = {dtypes.float32: (-20.0, 89.0), dtypes.float64: (-40.0, 710.0)}

# e**r; relative errors 3.2e-9 and 4.0e-18.
_EXP: Final = {
    dtypes.float32: (
        1.0, 1.0, 0.4999999403953552, 0.1666651964187622, 0.041668202728033066, 0.00836879014968872,
        0.0013825809583067894,
    ),
    dtypes.float64: (
        1.0, 1.0, 0.5000000000000011, 0.16666666666666458, 0.041666666666526034, 0.008333333333460017,
        0.001388888894475729, 0.00019841269592306844, 2.4801491883071758e-05, 2.755750083683557e-06,
        2.763069402943501e-07, 2.502956216795708e-08,
    ),
}  # fmt: skip
#: 2**r for |r| <= 1/2, in powers of r; relative errors 3.0e-9 and 4.4e-18.
EXP2: Final = {
    dtypes.float32: (
        1.0, 0.6931471824645996, 0.24022647738456726, 0.05550359562039375, 0.009618496522307396,
        0.0013390963431447744, 0.00015330224414356053,
    ),
    dtypes.float64: (
        1.0, 0.6931471805599453, 0.2402265069591011, 0.05550410866482182, 0.009618129107600478,
        0.0013333558146526837, 0.0001540353045063762, 1.525273364945925e-05, 1.3215437932013625e-06,
        1.0178154116715584e-07, 7.073406129092966e-09, 4.4397717179852155e-10,
    ),
}  # fmt: skip
# (e**r - 1 - r) / r**2; errors relative to e**r - 1: 1.4e-8 and 2.2e-17.
_EXPM1: Final = {
    dtypes.float32: (
        0.4999999701976776, 0.1666654646396637, 0.04166743531823158, 0.00836626160889864, 0.001387065858580172,
    ),
    dtypes.float64: (
        0.5000000000000006, 0.16666666666666674, 0.041666666666580435, 0.008333333333329153,
        0.0013888888929519878, 0.00019841269844577035, 2.4801508053777642e-05, 2.7557304662547214e-06,
        2.762490676123497e-07, 2.508315053998838e-08,
    ),
}  # fmt: skip


def exp(b: Builder, x: ValueId) -> ValueId:
    """Return e**x, to 0.9 ulp (1.2 where `Mad` rounds twice), subnormal results included; special values as in C99."""
    x_ = KernelValue(b, x)
    f = x_.format
    low, high = _EXP_DOMAIN[f.dtype]
    is_zero = x_.lt(low)
    x_ = at_most(where(is_zero, 0.0, x_), high)
    n, shifted = round_quotient(x_, LOG2_E, 2 * f.bias)
    ln2_high, ln2_low = LN2[f.dtype]
    r = mad(n, -ln2_low, mad(n, -ln2_high, x_))
    return where(is_zero, 0.0, scale(polynomial(r, _EXP[f.dtype]), shifted)).id


def exp2(b: Builder, x: ValueId) -> ValueId:
    """Return 2**x, exact for integers, otherwise like `exp`."""
    x_ = KernelValue(b, x)
    f = x_.format
    low, high = EXP2_DOMAIN[f.dtype]
    is_zero = x_.lt(low)
    x_ = at_most(where(is_zero, 0.0, x_), high)
    n, shifted = round_to_integer(x_, 2 * f.bias)
    return where(is_zero, 0.0, scale(polynomial(x_ - n, EXP2[f.dtype]), shifted)).id


def expm1(b: Builder, x: ValueId) -> ValueId:
    """Return e**x - 1, to 1.3 ulp, near 0 as well; exact for subnormal numbers; special values as in C99."""
    x_ = KernelValue(b, x)
    f = x_.format
    low, high = _EXPM1_DOMAIN[f.dtype]
    # 2**n overflows where the result does not yet, so this computes half of it.
    power, coarse, fine = _expm1_parts(at_most(at_least(x_, low), high), f.bias - 1)
    half = mad(power, fine, mad(power, coarse, power - 0.5))
    # Halves of subnormal numbers are not exact, and the sums lose the sign of zero.
    return where(abs(x_).lt(2.0 ** -(f.mantissa + 2)), x_, half + half).id


def _expm1_parts(x: KernelValue, offset: int) -> tuple[KernelValue, KernelValue, KernelValue]:
    """Return ``(power, coarse, fine)``: ``e**x = 2**n * (1 + coarse + fine)``, ``power = 2**(n + offset - bias)``.

    `coarse` is exact, and `fine` so much smaller that sums of the three lose little more than their last rounding.
    """
    f = x.format
    n, shifted = round_quotient(x, LOG2_E, offset)
    ln2_high, ln2_low = LN2[f.dtype]
    coarse = mad(n, -ln2_high, x)
    correction = n * -ln2_low
    r = coarse + correction
    fine = mad(r * r, polynomial(r, _EXPM1[f.dtype]), correction)
    return (shifted.bits << f.mantissa).bitcast(f.dtype), coarse, fine


def round_quotient(x: KernelValue, factor: float, offset: int) -> tuple[KernelValue, KernelValue]:
    """Return `n`, the integer nearest to ``x * factor``, as a float, and a float whose low bits hold ``n + offset``.

    Valid for ``abs(n) + offset < 2**(mantissa - 1)``.
    """
    rounder = x.format.rounder + offset
    shifted = mad(x, factor, rounder)
    return shifted - rounder, shifted


def round_to_integer(x: KernelValue, offset: int) -> tuple[KernelValue, KernelValue]:
    """Return the same as `round_quotient` for a factor of 1."""
    rounder = x.format.rounder + offset
    shifted = x + rounder
    return shifted - rounder, shifted


def scale(x: KernelValue, shifted: KernelValue) -> KernelValue:
    """Return ``x * 2**n`` for `x` near 1, where the low bits of `shifted` hold ``n + 2 * bias``; it is rounded once.

    In two steps of about n / 2, each of which is a normal number wherever the result is a number other than 0.
    """
    f = x.format
    total = shifted.bits
    half = total >> 1
    step = (half << f.mantissa).bitcast(f.dtype)
    other_step = ((total - half) << f.mantissa).bitcast(f.dtype)
    return x * step * other_step
