"""Powers: the special cases of C99, and how far off ordinary ones are."""

from __future__ import annotations

import math

import numpy as np
import pytest

from zyx.ops import BinaryOp

INF, NAN = math.inf, math.nan
BOUNDS = {True: 1.2, False: 1.5}  # by whether `Mad` rounds once

FLOATS = [np.float32, np.float64]
# The cases of C99, F.9.4.4, in its order; and more integers.
CASES = [
    (0.0, -3, INF), (-0.0, -3, -INF), (0.0, -1, INF), (-0.0, -1, -INF),
    (0.0, -2, INF), (-0.0, -2, INF), (0.0, -0.5, INF), (-0.0, -0.5, INF), (0.0, -INF, INF), (-0.0, -INF, INF),
    (0.0, 3, 0.0), (-0.0, 3, -0.0), (0.0, 2, 0.0), (-0.0, 2, 0.0), (-0.0, 0.5, 0.0), (-0.0, INF, 0.0),
    (-1, INF, 1), (-1, -INF, 1), (1, NAN, 1), (1, INF, 1), (1, -INF, 1), (1, 1e30, 1),
    (NAN, 0.0, 1), (NAN, -0.0, 1), (INF, 0.0, 1), (0.0, 0.0, 1), (-0.0, -0.0, 1), (-7, 0.0, 1),
    (-2, 0.5, NAN), (-2, -1.5, NAN), (-1, 0.5, NAN), (-1e-30, 1.25, NAN),
    (0.5, -INF, INF), (-0.5, -INF, INF), (2, -INF, 0.0), (-2, -INF, 0.0),
    (0.5, INF, 0.0), (-0.5, INF, 0.0), (2, INF, INF), (-2, INF, INF),
    (-INF, -3, -0.0), (-INF, -2, 0.0), (-INF, -0.5, 0.0), (-INF, 3, -INF), (-INF, 2, INF), (-INF, 0.5, INF),
    (INF, -2, 0.0), (INF, -0.5, 0.0), (INF, 2, INF), (INF, 0.5, INF), (INF, INF, INF), (INF, -INF, 0.0),
    (-INF, INF, INF), (-INF, -INF, 0.0),
    (NAN, 1, NAN), (NAN, INF, NAN), (2, NAN, NAN), (-1, NAN, NAN), (0.0, NAN, NAN), (INF, NAN, NAN),
    (2, 10, 1024), (-2, 3, -8), (-2, 4, 16), (-2, -3, -0.125), (3, 4, 81), (10, -1, 0.1), (9, 0.5, 3),
    (-3, 1e30, INF), (-0.3, 1e30, 0.0), (2, 5000, INF), (2, -5000, 0.0), (-2, 5001, -INF), (-2, -5001, -0.0),
]  # fmt: skip


@pytest.mark.parametrize("has_fma", [True, False], ids=["fused", "unfused"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_the_special_cases_are_those_of_c99(bench, dtype, has_fma):
    x, y, expected = (np.array(column, dtype) for column in zip(*CASES, strict=True))
    got = bench.evaluate(BinaryOp.POW, x, y, has_fma=has_fma)
    is_met = (got == expected) & (np.signbit(got) == np.signbit(expected)) | (np.isnan(got) & np.isnan(expected))
    assert is_met.all(), [*zip(x[~is_met], y[~is_met], got[~is_met], expected[~is_met], strict=True)]


@pytest.mark.parametrize("dtype", FLOATS)
def test_whether_a_large_exponent_is_odd_is_known_to_its_last_digit(bench, dtype):
    unit = 2.0 ** np.finfo(dtype).nmant  # from 2 * unit on, all numbers are even
    y = np.array([unit - 1, unit - 0.5, unit, unit + 1, 2 * unit - 1, 2 * unit, 2 * unit + 2], dtype)
    got = bench.evaluate(BinaryOp.POW, np.full_like(y, -1), y)
    assert np.array_equal(got, [-1, NAN, 1, -1, -1, 1, 1], equal_nan=True), got


def sample(dtype, count):
    """Pairs whose powers span the format, from bases of all sizes, bases near 1, small numbers, and negative bases."""
    rng = np.random.default_rng(4)
    width = np.dtype(dtype).itemsize * 8
    largest = np.finfo(dtype).maxexp
    any_base = np.abs(rng.integers(0, 2**width, count, f"u{width // 8}", endpoint=False).view(dtype))
    near_one = (1 + rng.uniform(-1, 1, count) * 2.0 ** rng.uniform(-20, -1, count)).astype(dtype)
    pairs = []
    for base in (any_base, near_one):
        base = base[np.isfinite(base) & (base > 0) & (base != 1)]
        exponent = rng.uniform(-1.15 * largest, 1.05 * largest, len(base)) / np.log2(base.astype(np.float64))
        pairs.append((base, exponent.astype(dtype)))
    pairs.append((rng.uniform(0, 10, count).astype(dtype), rng.uniform(-5, 5, count).astype(dtype)))
    pairs.append((rng.uniform(-9, 9, count).astype(dtype), rng.integers(-40, 40, count).astype(dtype)))
    return (np.concatenate(column) for column in zip(*pairs, strict=True))


@pytest.mark.parametrize("has_fma", [True, False], ids=["fused", "unfused"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_powers_are_within_the_stated_bound(bench, dtype, has_fma):
    wide = np.dtype(np.float64 if dtype is np.float32 else np.longdouble)
    if np.finfo(wide).nmant <= np.finfo(dtype).nmant:
        pytest.skip("this machine has no type of more digits than float64 to judge it by")
    x, y = sample(dtype, 30_000 if dtype is np.float32 else 4_000)
    got = bench.evaluate(BinaryOp.POW, x, y, has_fma=has_fma)
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(wide), y.astype(wide))
    errors = bench.ulps(got, exact)
    worst = int(np.argmax(errors))
    assert errors[worst] <= BOUNDS[has_fma], f"{errors[worst]} ulp: {x[worst]!r}**{y[worst]!r} gave {got[worst]!r}"
