"""Sines and cosines of angles of any size."""

from __future__ import annotations

import math

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.kernel import run as interpreter
from zyx.ops import UnaryOp
from zyx.passes.decompose_transcendentals import decompose_transcendentals
from zyx.passes.math.large_angles import TWO_OVER_PI

# Numbers nearer to a multiple of pi / 2 than all others of their format, and the sines and cosines of some more.
HARDEST = {np.float32: 16367173 * 2.0**72, np.float64: 6381956970095103 * 2.0**797}


def two_over_pi(digits):
    """The first binary digits of 2 / pi, after Machin: pi / 4 is 4 atan(1/5) - atan(1/239)."""
    scale = 1 << (digits + 64)

    def inverse_tangent(n):
        total, term, k = 0, scale // n, 1
        while term:
            total += term // k if k % 4 == 1 else -(term // k)
            term //= n * n
            k += 2
        return total

    quarter = 4 * inverse_tangent(5) - inverse_tangent(239)
    return (scale << digits) // (2 * quarter)


def test_the_digits_of_two_over_pi_are_right():
    digits = 4 * len(TWO_OVER_PI)
    assert int(TWO_OVER_PI, 16) == two_over_pi(digits)


def exact_sine(x, quadrants):
    """The sine of ``x + quadrants * pi / 2``, by reducing x in integers of two thousand bits."""
    bits = 2400
    numerator, denominator = abs(x).as_integer_ratio()
    turns = numerator * two_over_pi(bits) // denominator  # quarter turns, scaled
    whole, fraction = divmod(turns, 1 << bits)
    if fraction >> (bits - 1):
        whole, fraction = whole + 1, fraction - (1 << bits)
    # A fraction and a product of two float64 have more than 100 bits together; its sine, to first order, as well.
    high = fraction / (1 << bits)
    r = high * (math.pi / 2)
    sign = -1 if x < 0 else 1
    quadrant = (sign * whole + quadrants) % 4
    r *= sign
    return (math.sin(r), math.cos(r), -math.sin(r), -math.cos(r))[quadrant]


def angles(dtype):
    info = np.finfo(dtype)
    rng = np.random.default_rng(2)
    exponents = np.arange(10, info.maxexp, 1 if dtype is np.float32 else 9)
    x = np.ldexp(rng.uniform(1, 2, (4, len(exponents))), exponents).ravel()
    x = np.concatenate([x, [HARDEST[dtype], info.max, 2.0**13, 2.0**17, 2.0**20, 2.0**30, np.nextafter(2.0**17, 0)]])
    return np.concatenate([x, -x]).astype(dtype)


@pytest.mark.parametrize("has_fma", [True, False], ids=["fused", "unfused"])
@pytest.mark.parametrize("has_uint64", [True, False], ids=["uint64", "uint32"])
@pytest.mark.parametrize("op", [UnaryOp.SIN, UnaryOp.COS], ids=lambda op: op.value)
def test_float32_angles_of_any_size_are_within_the_stated_bound(bench, op, has_uint64, has_fma):
    x = angles(np.float32)
    got = bench.evaluate(op, x, has_fma=has_fma, has_uint64=has_uint64)
    exact = np.array([exact_sine(float(angle), op is UnaryOp.COS) for angle in x])
    errors = bench.ulps(got, exact)
    worst = int(np.argmax(errors))
    assert errors[worst] <= (1.6 if has_fma else 2.6), f"{errors[worst]} ulp at {x[worst]!r}"


@pytest.mark.parametrize("op", [UnaryOp.SIN, UnaryOp.COS], ids=lambda op: op.value)
def test_float64_angles_of_any_size_are_within_the_stated_bound(bench, op):
    x = angles(np.float64)
    got = bench.evaluate(op, x)
    exact = np.array([exact_sine(float(angle), op is UnaryOp.COS) for angle in x])
    errors = bench.ulps(got, exact)
    worst = int(np.argmax(errors))
    assert errors[worst] <= 1.6 + 1, f"{errors[worst]} ulp at {x[worst]!r}"  # the reference is off by up to 1


@pytest.mark.parametrize("lanes", [2, 3, 4, 8, 16])
@pytest.mark.parametrize("op", [UnaryOp.SIN, UnaryOp.COS], ids=lambda op: op.value)
def test_one_large_angle_in_a_vector_changes_no_other_lane(bench, op, lanes):
    x = np.linspace(-3, 3, lanes * lanes, dtype=np.float32)
    alone = bench.evaluate(op, x, has_fma=False)
    large = np.float32(1e30)
    vectors = x.reshape(lanes, lanes).copy()
    np.fill_diagonal(vectors, large)
    kernel = bench.elementwise(op, dtypes.float32, lanes * lanes, lanes)
    got = np.zeros_like(x)
    interpreter.run(decompose_transcendentals(kernel, bench.device(has_fma=False)), [vectors.ravel(), got])
    expected = alone.reshape(lanes, lanes).copy()
    np.fill_diagonal(expected, bench.evaluate(op, np.array([large]), has_fma=False)[0])
    assert np.array_equal(got, expected.ravel())
