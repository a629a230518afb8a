"""The arctangent.

    |x| <= 1     t = |x|,        atan |x| = t + t**3 * P(t**2)
    otherwise    t = 1 / |x|,    atan |x| = pi / 2 - (t + t**3 * P(t**2))

Coefficients: Remez exchange in 400 bits for the least relative error over t <= 1, rounded to the format one after the
other, lowest power first, with the rest fitted again after each; relative errors 2.7e-9 and 5.5e-18.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.passes.math.values import HALF_PI, KernelValue, mad, polynomial, where

if TYPE_CHECKING:
    from zyx.kernel.build import Builder
    from zyx.kernel.data import ValueId

# (atan(t) - t) / t**3 in powers of t**2.
_ATAN: Final = {
    dtypes.float32: (
        -0.33333298563957214, 0.1999852955341339, -0.14264015853405, 0.10950877517461777, -0.08399280160665512,
        0.05788049474358559, -0.03109550103545189, 0.010867494158446789, -0.0017824505921453238,
    ),
    dtypes.float64: (
        -0.3333333333333307, 0.19999999999951745, -0.14285714282587808, 0.1111111100733378, -0.09090907007655438,
        0.07692279887269686, -0.06666404410151647, 0.05880529731492411, -0.05253526451150295, 0.04722347287767936,
        -0.04219240897497989, 0.036643108175693245, -0.02990566932463104, 0.021986985910405658, -0.013902493865433171,
        0.007197827000988333, -0.0028855803378944923, 0.0008315500539697971, -0.00015220941468509672,
        1.3229884641981402e-05,
    ),
}  # fmt: skip


def atan(b: Builder, x: ValueId) -> ValueId:
    """Return the arctangent, to 1.6 ulp (1.8 where `Mad` rounds twice); special values as in C99.

    Exact for subnormal numbers.
    """
    x_ = KernelValue(b, x)
    f = x_.format
    magnitude = abs(x_)
    is_above_one = magnitude.gt(1.0)
    t = where(is_above_one, 1.0 / magnitude, magnitude)
    square = t * t
    angle = mad(t * square, polynomial(square, _ATAN[f.dtype]), t)
    half_pi, half_pi_low = HALF_PI[f.dtype]
    angle = where(is_above_one, half_pi - (angle - half_pi_low), angle)
    return (angle.bits | (x_.bits & f.sign_bit)).bitcast(f.dtype).id
