"""Means of integers, and their variances, exact until they are rounded to floats.

A float32 holds integers up to 2**24, and seconds since 1970 only to 128 of them. So integers are added as such: halves
of 32 bits apart where there are 64, whose sums do not wrap. The quotient by their number is an integer and a rest of
at most half of it, and distances are differences of integers:

    7, 8, 8    =>    sum 23    =>    mean 8, rest -1 of 3    =>    distances -1 + 1/3, 1/3, 1/3

No number of elements beyond 2**30 is foreseen: sums of halves would wrap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.functions.formulas import count
from zyx.ops import BinaryOp
from zyx.shape import as_float

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.dtype import DType
    from zyx.functions.term import Term

_UNIT: Final = 2.0**-32


def integer_mean(x: Term, axes: Sequence[int], dtype: DType) -> Term:
    """Return the mean of the integers `x` along `axes`, which keep size 1 and have elements, as floats of `dtype`."""
    whole, rest = _quotient(x, axes)
    return whole.cast(dtype) + rest.cast(dtype) / as_float(count(x, axes))


def integer_variance(x: Term, axes: Sequence[int], divisor: float, dtype: DType) -> Term:
    """Return the sum of the squared distances of the integers `x` from their mean, over `divisor`; see `integer_mean`.

    A float32 holds every variance of integers of 64 bits, but not the sum of a few such squares: their unit is 2**64.
    """
    whole, rest = _quotient(x, axes)
    fraction = rest.cast(dtype) / as_float(count(x, axes))
    if x.dtype.bits < 64:
        apart = _difference(x, whole).cast(dtype) - fraction
        return (apart * apart).sum(axes) / divisor
    apart = (_wide_difference(x, whole, dtype) - fraction) * _UNIT
    return (apart * apart).sum(axes) / divisor * (1 / _UNIT**2)


def _quotient(x: Term, axes: Sequence[int]) -> tuple[Term, Term]:
    """Return the integer next to the mean, of 64 bits and signed as `x` is, and int64 what is left of the sum."""
    number = count(x, axes)
    if x.dtype.bits < 64:
        whole, rest = _divide(x.cast(dtypes.int64).sum(axes), number)
    else:
        high = x.binary(BinaryOp.SHR, 32).cast(dtypes.int64).sum(axes)
        low = (x & 0xFFFFFFFF).cast(dtypes.int64).sum(axes)
        upper, carried = _divide(high, number)
        whole, rest = _divide(carried.binary(BinaryOp.SHL, 32) + low, number)
        whole = upper.binary(BinaryOp.SHL, 32) + whole
    above = rest > rest.like(number) - rest
    whole, rest = whole + above.cast(dtypes.int64), above.where(rest - number, rest)
    return whole.cast(dtypes.uint64 if x.dtype.is_unsigned else dtypes.int64), rest


def _divide(total: Term, number: int) -> tuple[Term, Term]:
    """Return quotient, rounded down, and rest, 0 or more."""
    quotient, rest = total / number, total.modulo(number)
    below = rest < 0
    return quotient - below.cast(dtypes.int64), below.where(rest + number, rest)


def _difference(x: Term, whole: Term) -> Term:
    return x.cast(dtypes.int64) - whole.cast(dtypes.int64)


def _wide_difference(x: Term, whole: Term, dtype: DType) -> Term:
    """Return ``x - whole`` of integers of 64 bits, whose difference may have 65: that of their halves does not."""
    halves = _difference(x.binary(BinaryOp.SHR, 1), whole.binary(BinaryOp.SHR, 1))
    return halves.cast(dtype) * 2.0 + _difference(x & 1, whole & 1).cast(dtype)
