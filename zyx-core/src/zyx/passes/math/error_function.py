"""The error function.

    |x| < T      x + x * P(x**2)
    otherwise    sign(x) * (1 - 2**Q(|x|)), where Q is near the base-2 logarithm of 1 - erf

Q is close to a parabola, so it takes fewer terms than the function itself. Both are computed and one is chosen. T is
1/2 for float32, 1 for float64.

Coefficients: Remez exchange in 400 bits for the least error relative to erf, rounded to the format one after the other,
lowest power first, with the rest fitted again after each; relative errors by P 1.5e-9 and 1.1e-17, by Q 4.9e-9 and
6.9e-18.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.passes.math.exponential import EXP2, round_to_integer
from zyx.passes.math.values import KernelValue, at_most, mad, polynomial, where

if TYPE_CHECKING:
    from zyx.kernel.build import Builder
    from zyx.kernel.data import ValueId

#: T of the module's formula.
SMALL: Final = {dtypes.float32: 0.5, dtypes.float64: 1.0}
#: |x| from which the result rounds to 1, and to which Q was fitted.
SATURATION: Final = {dtypes.float32: 3.95, dtypes.float64: 5.95}
#: The polynomials of the formula, the lowest power first.
P: Final = {
    dtypes.float32: (
        0.12837916612625122, -0.37612611055374146, 0.11282850801944733, -0.026758259162306786, 0.0047191595658659935,
    ),
    dtypes.float64: (
        0.12837916709551256, -0.376126389031834, 0.11283791670939722, -0.026866170642441414, 0.005223977600899653,
        -0.0008548325691487217, 0.00012055286818803264, -1.4924589035477234e-05, 1.6445687899202059e-06,
        -1.6195816002483588e-07, 1.366782929892388e-08, -7.702821858315318e-10,
    ),
}  # fmt: skip
Q: Final = {
    dtypes.float32: (
        5.251786933513358e-05, -1.6283963918685913, -0.9165090918540955, -0.1525566577911377, 0.033428117632865906,
        -0.004758008755743504, 0.0003228485002182424,
    ),
    dtypes.float64: (
        -7.255401478963666e-07, -1.6278997024112376, -0.9184826082160017, -0.14816973458950541, 0.027397021826482616,
        0.000592430909894678, -0.0027641424375424526, 0.0011118194845496695, -0.00019484681807223556,
        -2.9233442403912352e-05, 3.2923864058053476e-05, -1.2503437478851333e-05, 3.0809770227884404e-06,
        -5.38533735760945e-07, 6.697019692710023e-08, -5.675573388657875e-09, 2.950047684349193e-10,
        -7.109938918168241e-12,
    ),
}  # fmt: skip


def erf(b: Builder, x: ValueId) -> ValueId:
    """Return the error function, ``2 / sqrt(pi)`` times the integral of ``exp(-t**2)`` from 0 to x.

    To 1.6 ulp (1.8 where `Mad` rounds twice); special values as in C99.
    """
    x_ = KernelValue(b, x)
    f = x_.format
    magnitude = abs(x_)
    small = mad(magnitude, polynomial(magnitude * magnitude, P[f.dtype]), magnitude)

    exponent = polynomial(at_most(magnitude, SATURATION[f.dtype]), Q[f.dtype])
    n, shifted = round_to_integer(exponent, f.bias)
    power = (shifted.bits << f.mantissa).bitcast(f.dtype)
    large = mad(polynomial(exponent - n, EXP2[f.dtype]), -power, 1.0)

    result = where(magnitude.lt(SMALL[f.dtype]), small, large)
    return (result.bits | (x_.bits & f.sign_bit)).bitcast(f.dtype).id
