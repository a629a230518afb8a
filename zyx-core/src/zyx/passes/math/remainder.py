"""Remainders of floats whose quotient is moderate, in a few operations.

    x - trunc(x / y) * y          rounded once, which is exact: the remainder of x by y has no more digits than y

The rounded quotient may lie beyond the integer that the exact one is short of: the result has the other sign then, and
gets a y back; devices that divide less well may be short of it by one. Quotients that are too large for that, and those
of zeros, infinities and NaN, are left to a slower way, in a branch that a vector enters if one of its lanes needs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx.passes.math.values import KernelValue, any_lane, mad, where

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.kernel.build import Builder
    from zyx.kernel.data import ValueId


def remainder(b: Builder, x: ValueId, y: ValueId, scratch: ValueId, slow: Callable[[], ValueId]) -> ValueId:
    """Return what C's ``fmod`` gives, exactly, on a device whose `Mad` rounds once.

    Args:
        b: Where to write.
        x: The dividend.
        y: The divisor.
        scratch: Register memory for one value of the type of `x`.
        slow: Writes the remainder of any numbers.
    """
    x_, y_ = KernelValue(b, x), KernelValue(b, y)
    f = x_.format
    ratio = x_ / y_
    whole = ratio.trunc()
    rest = mad(-whole, y_, x_)
    sign = x_.bits & f.sign_bit
    back = (abs(y_).bits | sign).bitcast(f.dtype)  # y with the sign of x
    is_beyond = rest.ne(0.0) & ((rest.bits & f.sign_bit) ^ sign).ne(0)
    rest = where(is_beyond, rest + back, rest)
    rest = where(abs(rest).ge(abs(y_)), rest - back, rest)
    quick = where(whole.eq(0.0), x_, (abs(rest).bits | sign).bitcast(f.dtype))  # nor is infinity multiplied by 0

    zero = b.const(0, dtypes.int32)
    b.store(scratch, zero, quick.id)
    is_large = ~abs(ratio).lt(2.0 ** (f.mantissa - 3))  # so is NaN
    b.open_if(any_lane(is_large))
    b.store(scratch, zero, where(is_large, KernelValue(b, slow()), quick).id)
    b.end_if()
    return b.load(scratch, zero)
