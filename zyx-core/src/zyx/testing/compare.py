"""Compare results with what they have to be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zyx.dtype import as_dtype
from zyx.testing.values import epsilon, least_positive

if TYPE_CHECKING:
    from zyx.testing.graphs import Reference
    from zyx.testing.values import Array


def assert_within(actual: Array, wanted: Reference | Array, what: str = "result") -> None:
    """Assert that `actual` has dtype and shape of the reference, and lies within its bound.

    Where the bound is 0, values are equal: NaN to NaN, and zeros of either sign to each other.
    """
    value = wanted if isinstance(wanted, np.ndarray) else wanted.value
    assert actual.dtype == value.dtype, f"{what} is of dtype {actual.dtype}, not {value.dtype}"
    assert actual.shape == value.shape, f"{what} has shape {actual.shape}, not {value.shape}"
    wrong = outside(actual, wanted)
    if wrong.any():
        place = tuple(int(index) for index in np.argwhere(wrong)[0])
        bound = 0.0 if isinstance(wanted, np.ndarray) else wanted.bound[place]
        raise AssertionError(
            f"{what} is wrong at {int(wrong.sum())} of {wrong.size} elements, first at {list(place)}: "
            f"{actual[place]!r}, not {value[place]!r}{f' (allowed error {bound:.3g})' if bound else ''}"
        )


def outside(actual: Array, wanted: Reference | Array) -> Array:
    """Return which elements of `actual` are not what `assert_within` allows, as bools."""
    value = wanted if isinstance(wanted, np.ndarray) else wanted.value
    if not as_dtype(value.dtype).is_float:
        return np.asarray(actual != value)
    with np.errstate(invalid="ignore"):  # NaN of other than the usual bits
        x, y = actual.astype(np.float64), value.astype(np.float64)
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        if isinstance(wanted, np.ndarray):
            return np.asarray(~same)
        return np.asarray(~(same | (np.abs(x - y) <= wanted.bound) | np.isinf(wanted.bound)))


def assert_same_bits(actual: Array, wanted: Array, what: str = "result") -> None:
    """Assert equality bit by bit, but for the sign and payload of NaN."""
    assert_within(actual, wanted, what)
    if as_dtype(wanted.dtype).is_float:
        with np.errstate(invalid="ignore"):
            x, y = actual.astype(np.float64), wanted.astype(np.float64)
        wrong = (np.signbit(x) != np.signbit(y)) & ~np.isnan(y)
        if wrong.any():
            place = tuple(int(index) for index in np.argwhere(wrong)[0])
            raise AssertionError(f"{what} is {actual[place]!r} at {list(place)}, not {wanted[place]!r}")


def ulps_apart(actual: Array, wanted: Array) -> Array:
    """Return how far `actual`, of a float type, is from `wanted`, in float64, in units in the last place of `wanted`.

    NaN matches NaN, an infinity itself; anything else there is infinitely far. Below the normal range a unit is the
    least positive value.
    """
    dtype = as_dtype(actual.dtype)
    with np.errstate(all="ignore"):
        x, y = actual.astype(np.float64), wanted.astype(np.float64)
        exponent = np.floor(np.log2(np.abs(y)))
        unit = np.maximum(np.where(y == 0, 0.0, 2.0**exponent) * epsilon(dtype), least_positive(dtype))
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        distance = np.abs(x - y) / unit
    return np.where(same, 0.0, np.where(np.isfinite(distance), distance, np.inf))
