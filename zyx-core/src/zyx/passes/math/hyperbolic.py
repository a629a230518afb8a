"""The hyperbolic tangent.

    |x| = n * ln(2) / 2 + r,  |r| <= ln(2) / 4,  s = 2**n,  T = tanh r by a short polynomial

    tanh |x| = ((s - 1) + (s + 1) T) / ((s + 1) + (s - 1) T)           as n and r are added
             = B + ((s - 1) - B (s + 1) + ((s + 1) - B (s - 1)) T) / ((s + 1) + (s - 1) T)

The second line holds for any B. With B = n / 4, but 1 at most, the quotient is so much smaller than the sum that its
rounding errors hardly count; and for n = 0 it is T itself, so results near 0 are precise.

Coefficients: Remez exchange in 400 bits for the least relative error over |r| <= 0.1737, rounded to the format one
after the other, lowest power first, with the rest fitted again after each; relative errors 1.7e-10 and 4.3e-18.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.passes.math.exponential import LOG2_E, round_quotient
from zyx.passes.math.values import F32, KernelValue, at_most, mad, polynomial

if TYPE_CHECKING:
    from zyx.kernel.build import Builder
    from zyx.kernel.data import ValueId

# ln(2) / 2 in two parts of float64. Rounded to float32, the first alone is off by less than an eighth of an ulp.
_HALF_LN2: Final = 0.34657359027997264
_HALF_LN2_LOW: Final = 1.1595234069231498e-17
# |x| from which the result rounds to 1.
_SATURATION: Final = {dtypes.float32: 10.0, dtypes.float64: 20.0}
# (tanh(r) - r) / r**3 in powers of r**2.
_TANH: Final = {
    dtypes.float32: (-0.33333322405815125, 0.1333114206790924, -0.052715204656124115),
    dtypes.float64: (
        -0.3333333333333246, 0.1333333333277025, -0.05396825275878462, 0.021869368991759154, -0.00885725134977776,
        0.0034441318593288776,
    ),
}  # fmt: skip


def tanh(b: Builder, x: ValueId) -> ValueId:
    """Return the hyperbolic tangent, to 1.9 ulp; exact for subnormal numbers; special values as in C99."""
    x_ = KernelValue(b, x)
    f = x_.format
    magnitude = at_most(abs(x_), _SATURATION[f.dtype])
    n, shifted = round_quotient(magnitude, 2 * LOG2_E, f.bias)
    r = mad(n, -_HALF_LN2, magnitude)
    square = r * r
    cube, series = r * square, polynomial(square, _TANH[f.dtype])
    if f is F32:
        t = mad(cube, series, r)
        summands = [t]
    else:
        rest = mad(cube, series, n * -_HALF_LN2_LOW)
        t = r + rest
        summands = [r, rest]

    power = (shifted.bits << f.mantissa).bitcast(f.dtype)
    above, below = power + 1.0, power - 1.0
    base = at_most(n * 0.25, 1.0)
    factor, numerator = mad(-base, below, above), mad(-base, above, below)
    for summand in summands:
        numerator = mad(factor, summand, numerator)
    result = base + numerator / mad(below, t, above)
    sign = x_.bits & f.sign_bit
    return (result.bits | sign).bitcast(f.dtype).id
