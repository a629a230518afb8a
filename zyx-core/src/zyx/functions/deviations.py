"""Sums of squared distances from the mean, with no difference of large squares.

Distances are taken twice: from a number that lies among those at hand, to find their mean as precisely as they differ,
and not as they are large; and then from that mean. A float cannot hold it exactly, if its digits are those of large
numbers: what it lacks is known from the first distances, and its square is taken off. This is the corrected two-pass
algorithm on shifted data; Chan, Golub and LeVeque, "Algorithms for computing the sample variance: analysis and
recommendations", 1983. It goes over the numbers as often as one without correction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx.functions import complex_numbers
from zyx.functions.formulas import count, is_finite, mean
from zyx.functions.integer_means import integer_variance
from zyx.functions.reduction import are_large, mean_along
from zyx.shape import VaryingSize, as_float

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.dtype import DType
    from zyx.functions.term import Term


def squared_deviations(x: Term, axes: Sequence[int]) -> Term:
    """Return the sum of the squared distances from the mean along `axes`, which keep size 1; at least 0, or NaN."""
    near = _among(x, axes)
    rest = mean(x - near, axes)
    centre = near + rest
    lacking = (rest - (centre - near)).detach()  # 0 but for rounding, so no gradient flows through it
    apart = x - centre
    squares = (apart * apart).sum(axes) - lacking * lacking * as_float(count(x, axes))
    return (squares < 0).where(0.0, squares)


def _among(x: Term, axes: Sequence[int]) -> Term:
    """Return the least in magnitude of a few numbers along `axes`; 0 where none is finite.

    One that is much larger than the others would cost them their digits.
    """
    if not count(x, axes):
        return x.sum(axes)
    found = None
    varies = any(isinstance(x.shape[axis], VaryingSize) for axis in axes)  # so that half of it is no size
    for quarter in (0, 4) if varies else (0, 2, 4):
        candidate = x
        for axis in axes:
            at = (x.shape[axis] - 1) * quarter // 4
            candidate = candidate.narrow(axis, at, at + 1)
        found = candidate if found is None else (candidate.abs() < found.abs()).where(candidate, found)
    assert found is not None
    return is_finite(found).where(found, 0.0).detach()


def variance(term: Term, axes: Sequence[int], correction: float, target: DType) -> tuple[Term, Term]:
    """Return variance and mean, computed for results of `target`."""
    size = count(term, axes)
    divisor = as_float(size - correction if size > correction else 0)
    if are_large(term, axes):
        spread = integer_variance(term, axes, divisor, dtypes.accumulator(target.part))
        return spread, mean_along(term, axes, target)
    term = term.cast(dtypes.accumulator(target))
    parts = complex_numbers.parts(term) if term.dtype.is_complex else (term,)
    total = squared_deviations(parts[0], axes)
    for part in parts[1:]:
        total = total + squared_deviations(part, axes)
    return total / divisor, mean(term, axes)
