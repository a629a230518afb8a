"""Zeros with their signs, infinities, NaN, subnormal numbers, overflow and underflow: exact values."""

from __future__ import annotations

import math

import numpy as np
import pytest

from zyx.ops import UnaryOp

INF, NAN = math.inf, math.nan
HALF_PI = math.pi / 2
PAIRS = {
    UnaryOp.EXP: [(0.0, 1), (-0.0, 1), (INF, INF), (-INF, 0.0), (1e4, INF), (-1e4, 0.0)],
    UnaryOp.EXP2: [(0.0, 1), (-0.0, 1), (INF, INF), (-INF, 0.0), (5, 32), (-3, 0.125), (2000, INF), (-2000, 0.0)],
    UnaryOp.EXPM1: [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1), (1e4, INF), (-1e4, -1)],
    UnaryOp.LOG: [(0.0, -INF), (-0.0, -INF), (1, 0.0), (INF, INF), (-INF, NAN), (-1, NAN), (-1e-30, NAN)],
    UnaryOp.LOG2: [(0.0, -INF), (-0.0, -INF), (1, 0.0), (8, 3), (0.25, -2), (INF, INF), (-INF, NAN), (-1, NAN)],
    UnaryOp.LOG1P: [(0.0, 0.0), (-0.0, -0.0), (-1, -INF), (INF, INF), (-INF, NAN), (-1.5, NAN)],
    UnaryOp.SIN: [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    UnaryOp.COS: [(0.0, 1), (-0.0, 1), (INF, NAN), (-INF, NAN)],
    UnaryOp.TANH: [(0.0, 0.0), (-0.0, -0.0), (INF, 1), (-INF, -1), (1e4, 1), (-25, -1)],
    UnaryOp.ATAN: [(0.0, 0.0), (-0.0, -0.0), (INF, HALF_PI), (-INF, -HALF_PI), (1e30, HALF_PI)],
    UnaryOp.ERF: [(0.0, 0.0), (-0.0, -0.0), (INF, 1), (-INF, -1), (1e4, 1), (-7, -1)],
}
# What is itself to the first digits: the functions with slope 1 at 0.
IDENTITIES = (UnaryOp.EXPM1, UnaryOp.LOG1P, UnaryOp.SIN, UnaryOp.TANH, UnaryOp.ATAN)
FLOATS = [np.float32, np.float64]


def same(got, expected):
    is_equal = (got == expected) & (np.signbit(got) == np.signbit(expected))
    return is_equal | (np.isnan(got) & np.isnan(expected))


@pytest.mark.parametrize("has_fma", [True, False], ids=["fused", "unfused"])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", PAIRS, ids=lambda op: op.value)
def test_special_values_are_exact(bench, op, dtype, has_fma):
    x, expected = (np.array(column, dtype) for column in zip((NAN, NAN), *PAIRS[op], strict=True))
    got = bench.evaluate(op, x, has_fma=has_fma)
    wrong = ~same(got, expected)
    assert not wrong.any(), [*zip(x[wrong], got[wrong], expected[wrong], strict=True)]


@pytest.mark.parametrize("has_fma", [True, False], ids=["fused", "unfused"])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", IDENTITIES, ids=lambda op: op.value)
def test_subnormal_numbers_are_their_own_results(bench, op, dtype, has_fma):
    least = np.finfo(dtype).smallest_subnormal
    x = np.array([least, -least, 3 * least, -5 * least, np.finfo(dtype).smallest_normal - least])
    got = bench.evaluate(op, x, has_fma=has_fma)
    assert (got == x).all(), [*zip(x, got, strict=True)]


@pytest.mark.parametrize("dtype", FLOATS)
def test_integral_powers_of_two_are_exact_down_to_the_least_subnormal_number(bench, dtype):
    info = np.finfo(dtype)
    exponents = np.arange(info.minexp - info.nmant, info.maxexp)
    powers = np.ldexp(dtype(1), exponents)
    assert (bench.evaluate(UnaryOp.EXP2, exponents.astype(dtype)) == powers).all()
    assert (bench.evaluate(UnaryOp.LOG2, powers) == exponents).all()


@pytest.mark.parametrize("op", [UnaryOp.TANH, UnaryOp.ERF, UnaryOp.SIN, UnaryOp.COS], ids=lambda op: op.value)
@pytest.mark.parametrize("dtype", FLOATS)
def test_bounded_functions_never_leave_their_bounds(bench, op, dtype):
    x = np.random.default_rng(1).normal(0, 3, 20_000).astype(dtype)
    near = np.arange(-200, 200) * np.finfo(dtype).eps
    x = np.concatenate([x, (HALF_PI * (1 + near)).astype(dtype), near.astype(dtype)])
    for has_fma in (True, False):
        assert np.abs(bench.evaluate(op, x, has_fma=has_fma)).max() <= 1
