"""Sine and cosine.

    x = n * pi / 2 + r, |r| <= pi / 4        sin x = sin r, cos r, -sin r or -cos r, by the last two bits of n

Up to a limit, n times pi / 2 is subtracted in parts, so that r is precise to its last digit. The limit is 2**17 for
float32 and 2**30 for float64 where `Mad` rounds once; where it rounds twice, there are more and shorter parts, which
reach 2**13 and 2**20. Beyond, `zyx.passes.math.large_angles` finds r in integer arithmetic. That costs six times as
much, so it stands in a branch, which a vector enters if one of its lanes needs it:

    %y = <sine of moderate x>                          every vector
    store %scratch[0], %y
    %any = <or over the lanes of abs(x) >= limit>
    if %any                                            hardly ever
      store %scratch[0], where(abs(x) >= limit, <sine of large x>, %y)
    endif
    %result = load %scratch[0]

Coefficients: Remez exchange in 400 bits for the least relative error over |r| <= 1.02 pi / 4, rounded to the format
one after the other, lowest power first, with the rest fitted again after each; relative errors of the sine 4.7e-9 and
4.8e-18, of the cosine 1.6e-10 and 7.8e-20.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.passes.math.exponential import round_quotient
from zyx.passes.math.large_angles import reduce_large
from zyx.passes.math.values import KernelValue, any_lane, mad, polynomial, where

if TYPE_CHECKING:
    from zyx.kernel.build import Builder
    from zyx.kernel.data import ValueId

# (sin(r) - r) / r**3 in powers of r**2.
_SIN: Final = {
    dtypes.float32: (-0.16666653752326965, 0.008332093246281147, -0.0001950514706550166),
    dtypes.float64: (
        -0.1666666666666662, 0.008333333333319703, -0.00019841269827609596, 2.755731292188679e-06,
        -2.5050636669278355e-08, 1.5889717874359585e-10,
    ),
}  # fmt: skip
# cos(r) in powers of r**2.
_COS: Final = {
    dtypes.float32: (1.0, -0.5, 0.04166664183139801, -0.0013887130189687014, 2.4412080165348016e-05),
    dtypes.float64: (
        1.0, -0.5, 0.041666666666666574, -0.0013888888888869719, 2.4801587286729127e-05, -2.755731355805041e-07,
        2.087561558117393e-09, -1.1354090668434451e-11,
    ),
}  # fmt: skip
# By whether `Mad` rounds once: the |x| from which angles are large, and the parts of pi / 2. Where it does not, the
# products of n with all parts but the last are exact.
_PARTS: Final = {
    (dtypes.float32, True): (2.0**17, (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15)),
    (dtypes.float64, True): (2.0**30, (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)),
    (dtypes.float32, False): (
        2.0**13,
        (1.5703125, 0.0004837512969970703, 7.549533620476723e-08, 2.5632829192545614e-12, 6.123234262925839e-17),
    ),
    (dtypes.float64, False): (
        2.0**20,
        (1.5707963267341256, 6.077100506303966e-11, 2.0222662487111665e-21, 8.4784276603689e-32),
    ),
}


def sin(b: Builder, x: ValueId, scratch: ValueId, *, has_fma: bool = True, has_uint64: bool = True) -> ValueId:
    """Return the sine of any x, to 1.6 ulp (2.6 where `Mad` rounds twice), never beyond [-1, 1].

    Exact for subnormal numbers; special values as in C99.

    Args:
        b: Where to write.
        x: The angle in radians.
        scratch: Register memory for one value of the type of `x`.
        has_fma: Whether `Mad` rounds once.
        has_uint64: Whether 64-bit integers may be used for a float32.
    """
    x_ = KernelValue(b, x)
    result = _sine(x_, scratch, 0, has_fma=has_fma, has_uint64=has_uint64)
    return where(x_.eq(0.0), x_, result).id  # the sums above lose the sign of zero


def cos(b: Builder, x: ValueId, scratch: ValueId, *, has_fma: bool = True, has_uint64: bool = True) -> ValueId:
    """Return the cosine of any x, otherwise like `sin`."""
    return _sine(KernelValue(b, x), scratch, 1, has_fma=has_fma, has_uint64=has_uint64).id


def _sine(x: KernelValue, scratch: ValueId, quadrants: int, *, has_fma: bool, has_uint64: bool) -> KernelValue:
    """Return the sine of ``x + quadrants * pi / 2``."""
    b, f = x.builder, x.format
    limit, parts = _PARTS[f.dtype, has_fma]
    n, shifted = round_quotient(x, 2 / math.pi, quadrants)
    r = x
    for part in parts:
        r = mad(n, -part, r)
    moderate = _of_quadrant(r, shifted.bits)

    zero = b.const(0, dtypes.int32)
    b.store(scratch, zero, moderate.id)
    is_large = abs(x).ge(limit)
    b.open_if(any_lane(is_large))
    r, quadrant = reduce_large(x, limit, has_uint64=has_uint64)
    large = _of_quadrant(r, quadrant + quadrants)
    is_finite = abs(x).lt(math.inf)  # of infinity, the other formula made NaN
    b.store(scratch, zero, where(is_large & is_finite, large, moderate).id)
    b.end_if()
    return KernelValue(b, b.load(scratch, zero))


def _of_quadrant(r: KernelValue, quadrant: KernelValue) -> KernelValue:
    """Return the sine of ``r + quadrant * pi / 2``; the low two bits of `quadrant` count."""
    f = r.format
    square = r * r
    sine = mad(r * square, polynomial(square, _SIN[f.dtype]), r)
    cosine = polynomial(square, _COS[f.dtype])
    result = where((quadrant & 1).eq(0), sine, cosine)
    sign = (quadrant << (f.unsigned.bits - 2)) & f.sign_bit
    return (result.bits ^ sign).bitcast(f.dtype)
