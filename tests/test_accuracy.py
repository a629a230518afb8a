"""Sums, means, variances and running sums of many float32 are as precise as sums by pairs, on the default device.

A relative error may be ten times that of NumPy's sum by pairs of the same numbers along a contiguous axis, or of one
rounding, whichever is more. The exact values are those of float64.
"""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

import zyx

EPSILON = float(np.finfo(np.float32).eps)

KINDS = ["uniform", "constant", "offset"]
BY_KIND = pytest.mark.parametrize("kind", KINDS)


def draw(kind, *shape):
    rng = np.random.default_rng(math.prod(shape))
    if kind == "constant":
        return np.full(shape, 0.1, np.float32)
    if kind == "uniform":
        return rng.random(shape, np.float32)
    return rng.standard_normal(shape, np.float32) + np.float32(10)


def error_of(found, exact):
    return float(np.max(np.abs(np.asarray(found, np.float64) - exact) / np.abs(exact)))


def bound(x, axis=None):
    lines = x.reshape(1, -1) if axis is None else np.ascontiguousarray(np.moveaxis(x, axis, -1))
    return 10 * max(error_of(lines.sum(-1, dtype=np.float32), lines.sum(-1, dtype=np.float64)), EPSILON)


def check_sums(x):
    """Compare sums of all numbers of `x`, and along axes of shapes that it takes."""
    assert error_of(zyx.sum(zyx.asarray(x)).numpy(), x.sum(dtype=np.float64)) <= bound(x)
    part = x[: x.size // 64 * 64]
    for shape, axis in (((-1, 4), 0), ((4, -1), 1), ((4, -1, 4), 1), ((-1, 64), 0), ((64, -1), 0), ((64, -1), 1)):
        y = part.reshape(shape)
        found = zyx.sum(zyx.asarray(y), axis=axis).numpy()
        assert error_of(found, y.sum(axis, dtype=np.float64)) <= bound(y, axis), (shape, axis)


@BY_KIND
@pytest.mark.parametrize("count", [1 << 12, 99_991, 1 << 20])
def test_sums_are_as_precise_as_sums_by_pairs(kind, count):
    check_sums(draw(kind, count))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_sums_of_any_number_are_as_precise_as_sums_by_pairs(seed):
    check_sums(draw(KINDS[seed % len(KINDS)], int(2 ** random.Random(seed).uniform(12, 27))))


@pytest.mark.slow
def test_the_longest_sums_are_as_precise_as_sums_by_pairs():
    check_sums(draw("constant", 1 << 27))  # whose errors go in one direction


@BY_KIND
def test_means_norms_and_products_of_vectors_are_as_precise(kind):
    x = draw(kind, 500_009)
    wide = x.astype(np.float64)
    device_x = zyx.asarray(x)
    assert error_of(zyx.mean(device_x).numpy(), wide.mean()) <= bound(x)
    assert error_of(zyx.norm(device_x).numpy(), math.sqrt((wide * wide).sum())) <= bound(x * x)
    assert error_of((device_x @ device_x).numpy(), (wide * wide).sum()) <= bound(x * x)


@BY_KIND
def test_products_of_matrices_with_a_long_depth_are_as_precise_as_sums_of_products(kind):
    a, b = draw(kind, 3, 1 << 16), draw(kind, 1 << 16, 5)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    with zyx.settings(autotune={"library_kernels": "off"}):  # libraries add up as they like: cuBLASLt to 3.6e-6 here
        found = (zyx.asarray(a) @ zyx.asarray(b)).numpy()
    assert error_of(found, exact) <= bound(a[:, None] * b.T[None], 2)


@BY_KIND
@pytest.mark.parametrize("shape, axis", [((50_021,), 0), ((20_000, 3), 0), ((3, 20_000), 1)], ids=str)
def test_running_sums_are_as_precise_as_sums_by_pairs_at_every_place(kind, shape, axis):
    x = draw(kind, *shape)
    found = zyx.cumulative_sum(zyx.asarray(x), axis=axis).numpy()
    assert error_of(found, np.cumsum(x, axis, dtype=np.float64)) <= bound(x, axis)


@pytest.mark.slow
@BY_KIND
def test_long_running_sums_are_as_precise_as_sums_by_pairs(kind):
    x = draw(kind, 10_000_019)
    found = zyx.cumulative_sum(zyx.asarray(x)).numpy()
    assert error_of(found, np.cumsum(x, dtype=np.float64)) <= bound(x)


@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan])
def test_infinities_and_nan_go_through_sums_of_blocks(special):
    x = draw("uniform", 100_003)
    x[54_321] = special
    assert repr(zyx.sum(zyx.asarray(x)).item()) == repr(special)
    found = zyx.cumulative_sum(zyx.asarray(x[50_000:])).numpy()
    assert np.isfinite(found[:4_321]).all()
    np.testing.assert_array_equal(found[4_321:], special)


@pytest.mark.parametrize("mean", [0.0, 1e3, 1e4, -1e6])
@pytest.mark.parametrize("shape, axis", [((60_000,), None), ((20_000, 3), 0), ((3, 20_000), 1), ((9, 20, 99), (0, 2))])
def test_variances_are_precise_however_large_the_mean(mean, shape, axis):
    x = (np.random.default_rng(7).standard_normal(shape) + mean).astype(np.float32)
    exact = x.astype(np.float64).var(axis)
    assert error_of(zyx.var(zyx.asarray(x), axis=axis).numpy(), exact) <= 1e-5
    assert error_of(zyx.std(zyx.asarray(x), axis=axis).numpy(), np.sqrt(exact)) <= 1e-5


#: What the docstrings say, in units of the last place, where products and sums are fused.
FUNCTIONS = {
    "sinh": (np.sinh, 2.4, [(-2, 2), (-89, 89)]),
    "cosh": (np.cosh, 2.0, [(-2, 2), (-89, 89)]),
    "tan": (np.tan, 3.5, [(-2, 2), (-1e5, 1e5)]),
    "asin": (np.arcsin, 2.5, [(-1, 1), (-0.01, 0.01)]),
    "acos": (np.arccos, 2.3, [(-1, 1), (0.9, 1)]),
    "acosh": (np.arccosh, 2.7, [(1, 1.01), (1, 3)]),
    "log10": (np.log10, 2.2, [(0, 2), (0.5, 0.7)]),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_composed_functions_are_as_precise_as_they_say(name, dtype):
    device = zyx.asarray([0.0]).device
    if not device.startswith("c:"):
        pytest.skip(f"the bounds are those of formulas whose products and sums are fused; {device} may round twice")
    function, bound_in_ulps, ranges = FUNCTIONS[name]
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(low, high, 200_000).astype(dtype) for low, high in ranges])
    if dtype is np.float64 and name in ("sinh", "cosh"):
        x = np.concatenate([x, rng.uniform(-710, 710, 200_000)])
    exact = function(x.astype(np.longdouble))
    found = getattr(zyx, name)(zyx.asarray(x)).numpy()
    unit = np.spacing(np.abs(exact.astype(dtype))).astype(np.longdouble)
    assert np.max(np.abs(found - exact) / unit) <= bound_in_ulps


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_hyperbolic_functions_keep_infinities_and_signs(dtype):
    x = np.array([-np.inf, np.inf, np.nan, -0.0, 0.0, 1e-30, 88.5, 89.3, 1e4], dtype)
    with np.errstate(over="ignore"):
        for name in ("sinh", "cosh"):
            wanted = getattr(np, name)(x)
            found = getattr(zyx, name)(zyx.asarray(x)).numpy()
            np.testing.assert_allclose(found, wanted, 4e-7)
            np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


def test_the_inverse_hyperbolic_cosine_below_one_is_nan():
    for x in ([-1e10, -2e19, 0.99, -1, -np.inf], np.array([-1e200, -1e10, 0.5])):
        assert np.isnan(zyx.acosh(zyx.asarray(x)).numpy()).all()
