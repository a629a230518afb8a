"""How far off the formulas are, against functions of more digits, on samples of their whole domains."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

from zyx.ops import TRANSCENDENTAL, UnaryOp
from zyx.semantics import apply_unary

# The bounds that the formulas state, in ulps: where `Mad` rounds once, and where it rounds twice.
BOUNDS = {
    UnaryOp.EXP: (0.9, 1.2),
    UnaryOp.EXP2: (0.9, 1.2),
    UnaryOp.EXPM1: (1.3, 1.3),
    UnaryOp.LOG: (1.0, 1.0),
    UnaryOp.LOG2: (1.0, 2.0),
    UnaryOp.LOG1P: (1.6, 1.6),
    UnaryOp.SIN: (1.6, 2.6),
    UnaryOp.COS: (1.6, 2.6),
    UnaryOp.TANH: (1.9, 1.9),
    UnaryOp.ATAN: (1.6, 1.8),
    UnaryOp.ERF: (1.6, 1.8),
}
# Where formulas change: the sample is dense there, on both sides of 0.
RANGES = {
    UnaryOp.EXP: {np.float32: [(-104, 89), (-1, 1)], np.float64: [(-746, 710), (-1, 1)]},
    UnaryOp.EXP2: {np.float32: [(-151, 129), (-1, 1)], np.float64: [(-1076, 1025), (-1, 1)]},
    UnaryOp.EXPM1: {np.float32: [(-18, 89), (-1, 1)], np.float64: [(-38, 710), (-1, 1)]},
    UnaryOp.LOG: {np.float32: [(0, 2), (0.7, 1.5)], np.float64: [(0, 2), (0.7, 1.5)]},
    UnaryOp.LOG2: {np.float32: [(0, 2), (0.7, 1.5)], np.float64: [(0, 2), (0.7, 1.5)]},
    UnaryOp.LOG1P: {np.float32: [(-1, 2), (-0.3, 0.5)], np.float64: [(-1, 2), (-0.3, 0.5)]},
    UnaryOp.SIN: {np.float32: [(-4, 4), (-2e5, 2e5)], np.float64: [(-4, 4), (-2e9, 2e9)]},
    UnaryOp.COS: {np.float32: [(-4, 4), (-2e5, 2e5)], np.float64: [(-4, 4), (-2e9, 2e9)]},
    UnaryOp.TANH: {np.float32: [(-1, 1), (-10, 10)], np.float64: [(-1, 1), (-20, 20)]},
    UnaryOp.ATAN: {np.float32: [(-1, 1), (0.9, 2)], np.float64: [(-1, 1), (0.9, 2)]},
    UnaryOp.ERF: {np.float32: [(-1, 1), (-4, 4)], np.float64: [(-1.5, 1.5), (-6, 6)]},
}
LONG_DOUBLE = {
    UnaryOp.EXP: np.exp,
    UnaryOp.EXP2: np.exp2,
    UnaryOp.EXPM1: np.expm1,
    UnaryOp.LOG: np.log,
    UnaryOp.LOG2: np.log2,
    UnaryOp.LOG1P: np.log1p,
    UnaryOp.SIN: np.sin,
    UnaryOp.COS: np.cos,
    UnaryOp.TANH: np.tanh,
    UnaryOp.ATAN: np.arctan,
}
HAS_LONG_DOUBLE = np.finfo(np.longdouble).nmant >= 63

# erf of some numbers as the sum of two: computed with 200 binary digits.
ERF_FLOAT64 = [
    ("0x1.3852afbaaee38p-1", "0x1.392ee0787790ep-1", "-0x1.7ee430e641f21p-55"),
    ("0x1.3b54d49417326p-1", "0x1.3b83b90599ce5p-1", "0x1.ea760edc150a4p-56"),
    ("0x1.f6301fbc03540p-6", "0x1.1b3d9320ad706p-5", "-0x1.0d4103f44ab45p-60"),
    ("-0x1.b6adc41af5480p-2", "-0x1.d24fc63080bbep-2", "-0x1.8ef6b7df52945p-56"),
    ("-0x1.c8c663d414f7cp-1", "-0x1.95fb7421c072bp-1", "0x1.7e9768e63481fp-55"),
    ("-0x1.ddb897ab8da00p-3", "-0x1.08b732aa36571p-2", "-0x1.e222813b461dep-56"),
    ("-0x1.76e4ccd6dc6e0p-3", "-0x1.a2582e3f320b6p-3", "0x1.098a443517f49p-58"),
    ("-0x1.d1a3612b79cb4p-1", "-0x1.9a6cce24467cep-1", "0x1.7744d961d39aap-55"),
    ("-0x1.ce12756bfef5ep-1", "-0x1.98a77553deeb8p-1", "0x1.bba4764f563b9p-55"),
    ("0x1.ff2806049862ep-1", "0x1.af1cad53fe993p-1", "-0x1.79f0358ee4f05p-57"),
    ("0x1.380d4bf987218p-2", "0x1.5582a1650a1eap-2", "0x1.bcf8ce5586554p-56"),
    ("-0x1.0fdc8ec4ffbc4p-1", "-0x1.18377c579ec12p-1", "0x1.83b7121ed0e7bp-55"),
    ("-0x1.0a746f7b7bf50p-3", "-0x1.2af9649497164p-3", "0x1.5d4da68c712a0p-59"),
    ("0x1.e59110c10d8e2p-1", "0x1.a3ea05dac4876p-1", "0x1.64f7401d23802p-55"),
    ("0x1.9738cc84b5fcap-1", "0x1.7a89153c0a1f8p-1", "0x1.38d9e8497326ap-55"),
    ("0x1.607e19e330d54p-1", "0x1.56eae6dfe148dp-1", "-0x1.b919122589748p-56"),
    ("0x1.c8e943a03b40fp+0", "0x1.fa0fa3560d38dp-1", "-0x1.2ec0350b08956p-55"),
    ("0x1.fc6d835b418d2p+0", "0x1.fd74021fdd13dp-1", "0x1.eea5136d32dc1p-56"),
    ("0x1.2d3b836baa764p+1", "0x1.ff8d6c475fcb8p-1", "0x1.4a08a7c48f7dap-55"),
    ("0x1.1f21887f536b1p+0", "0x1.c64cab7e26c62p-1", "-0x1.e9ea216c5f971p-55"),
    ("0x1.0e3b8c0ff5878p+1", "0x1.fe8d2130ac415p-1", "-0x1.1c63122e79970p-62"),
    ("0x1.8afbb467ce991p+0", "0x1.f11880e61e984p-1", "0x1.9987b40052775p-55"),
    ("0x1.6130d1bd5c8c7p+1", "0x1.fff382141df43p-1", "-0x1.c48a73794cacap-57"),
    ("0x1.20e0b6f85fb1bp+0", "0x1.c7695025b0db9p-1", "0x1.0e55720c60c03p-58"),
    ("0x1.2dded7485fb86p+1", "0x1.ff9049d5f47e7p-1", "0x1.4c7870e9636cap-56"),
    ("0x1.5ebe1ebe1f4b9p+1", "0x1.fff20923c831ep-1", "0x1.e96f2c1417611p-55"),
    ("0x1.746317feae9e9p+0", "0x1.ebb05b97b1c5ap-1", "0x1.52f91f324c349p-55"),
    ("0x1.653c18878b610p+1", "0x1.fff59fc56e7a7p-1", "-0x1.95dd2ef59c907p-57"),
    ("0x1.5f4833c2e2496p+1", "0x1.fff25fa0a06a0p-1", "-0x1.418941173488bp-55"),
    ("0x1.097b16b89ce97p+0", "0x1.b70bcc0015321p-1", "-0x1.3685157de324dp-55"),
    ("-0x1.f0525b1255318p+1", "-0x1.fffffe9a12cd5p-1", "0x1.7bc6a2c8e1ad7p-57"),
    ("-0x1.7fc5087cabf8fp+2", "-0x1.0000000000000p+0", "0x1.9eb9e55546dfap-56"),
    ("-0x1.1f5aa78478bb2p+2", "-0x1.fffffffe258f2p-1", "-0x1.139843cdd5eacp-57"),
    ("-0x1.2c28f0e8bfa68p+2", "-0x1.ffffffffb7801p-1", "-0x1.e0657628a54ecp-61"),
    ("-0x1.58f9b7730d309p+2", "-0x1.fffffffffff21p-1", "0x1.4a59bcd9c1e9ap-55"),
    ("-0x1.419c6b4c5aa0cp+2", "-0x1.fffffffffd62cp-1", "-0x1.3e0b9a13cadfcp-55"),
    ("0x1.261affaa5181dp-196", "0x1.4bdccb5d70eb9p-196", "0x1.d648cfcc45b4ap-250"),
    ("0x1.ab772f6c10aa4p-683", "0x1.e257dea1ef3a6p-683", "0x1.b122d7caea0a5p-737"),
    ("0x1.5ef2af88c60ecp-849", "0x1.8c009d6607175p-849", "0x1.648dfb4aee478p-906"),
    ("0x1.2ad2a42fd20a3p-303", "0x1.512f7924aa995p-303", "0x1.aac77a645a9fcp-357"),
    ("0x1.eb747686d3e0ep-552", "0x1.154614c31c6a0p-551", "-0x1.2dfeab7812a08p-606"),
    ("0x1.f6a6c0cd9afd0p-204", "0x1.1b97364f113e1p-203", "-0x1.d14076800e569p-257"),
    ("0x1.fffffffffffffp-1", "0x1.af767a741088ap-1", "0x1.722e53a87300ep-55"),
    ("0x1.0000000000000p+0", "0x1.af767a741088bp-1", "-0x1.c97f778122797p-56"),
    ("0x1.0000000000001p+0", "0x1.af767a741088cp-1", "-0x1.929bda9299b83p-55"),
    ("0x1.7cccccccccccdp+2", "0x1.0000000000000p+0", "-0x1.6bb60ca447d0ep-55"),
    ("0x1.799999999999ap+2", "0x1.fffffffffffffp-1", "0x1.68cd3fcb97885p-55"),
    ("0x1.0000000000000p+1", "0x1.fd9ae142795e3p-1", "0x1.972801904b9a3p-56"),
]


def test_every_function_has_a_bound():
    assert set(BOUNDS) == TRANSCENDENTAL == set(RANGES)


def sample(op, dtype, count):
    """Every exponent, random bits, and the ranges of the function."""
    rng = np.random.default_rng(list(UnaryOp).index(op))
    width = np.dtype(dtype).itemsize * 8
    unsigned = np.dtype(f"u{width // 8}")
    mantissa = np.finfo(dtype).nmant
    exponents = np.arange(2 ** (width - mantissa), dtype=unsigned) << unsigned.type(mantissa)
    edges = np.array([0, 1, 2, 2**mantissa - 2, 2**mantissa - 1, 2 ** (mantissa - 1)], unsigned)
    bits = [(exponents[:, None] | edges).ravel(), rng.integers(0, 2**width, count, unsigned, endpoint=False)]
    numbers = [rng.uniform(low, high, count).astype(dtype) for low, high in RANGES[op][dtype]]
    return np.concatenate([*(each.view(dtype) for each in bits), *numbers])


def widened(x):
    with np.errstate(invalid="ignore"):  # of signalling NaN
        return x.astype(np.float64)


def report(x, got, exact, errors):
    worst = int(np.argmax(errors))
    return f"{errors[worst]:.3f} ulp at {x[worst]!r}: {got[worst]!r}, not {exact[worst]!r}"


@pytest.mark.parametrize("has_fma", [True, False], ids=["fused", "unfused"])
@pytest.mark.parametrize("op", BOUNDS, ids=lambda op: op.value)
def test_float32_results_are_within_the_stated_bound(bench, op, has_fma):
    x = sample(op, np.float32, 50_000)
    got = bench.evaluate(op, x, has_fma=has_fma)
    exact = apply_unary(op, widened(x))
    errors = bench.ulps(got, exact)
    assert errors.max() <= BOUNDS[op][not has_fma], report(x, got, exact, errors)


@pytest.mark.skipif(not HAS_LONG_DOUBLE, reason="this machine has no type of more digits than float64 to judge it by")
@pytest.mark.parametrize("has_fma", [True, False], ids=["fused", "unfused"])
@pytest.mark.parametrize("op", LONG_DOUBLE, ids=lambda op: op.value)
def test_float64_results_are_within_the_stated_bound(bench, op, has_fma):
    x = sample(op, np.float64, 8_000)
    got = bench.evaluate(op, x, has_fma=has_fma)
    with np.errstate(all="ignore"):
        exact = LONG_DOUBLE[op](x.astype(np.longdouble))
    errors = bench.ulps(got, exact)
    assert errors.max() <= BOUNDS[op][not has_fma], report(x, got, exact, errors)


@pytest.mark.parametrize("has_fma", [True, False], ids=["fused", "unfused"])
def test_the_float64_error_function_is_within_the_stated_bound(bench, has_fma):
    x, high, low = (np.array([float.fromhex(number) for number in column]) for column in zip(*ERF_FLOAT64, strict=True))
    got = bench.evaluate(UnaryOp.ERF, x, has_fma=has_fma)
    errors = np.abs((got - high) - low) / np.spacing(high)
    assert errors.max() <= BOUNDS[UnaryOp.ERF][not has_fma], report(x, got, high, errors)


def test_the_float64_error_function_agrees_with_the_c_library(bench):
    x = sample(UnaryOp.ERF, np.float64, 3_000)
    got = bench.evaluate(UnaryOp.ERF, x)
    exact = np.array([math.erf(number) for number in x.tolist()])
    errors = bench.ulps(got, exact)
    assert errors.max() <= 3, report(x, got, exact, errors)  # the library is off by 1 as well


@functools.cache
def outside_of_the_bounds(evaluate, ulps, op):
    """Reports of what is out of bounds among every 61st number, where `Mad` rounds once, and where it rounds twice.

    Both are judged by the same exact values, which take a third of the time, so both are looked at together.
    """
    reports = {True: [], False: []}
    for first in range(0, 2**32, 2**24):
        x = np.arange(first + 17, first + 2**24, 61, dtype=np.uint32).view(np.float32)
        exact = apply_unary(op, widened(x))
        for has_fma, found in reports.items():
            got = evaluate(op, x, has_fma=has_fma)
            errors = ulps(got, exact)
            if not errors.max() <= BOUNDS[op][not has_fma]:
                found.append(report(x, got, exact, errors))
    return reports


@pytest.mark.slow
@pytest.mark.parametrize("has_fma", [True, False], ids=["fused", "unfused"])
@pytest.mark.parametrize("op", BOUNDS, ids=lambda op: op.value)
def test_float32_results_are_within_the_stated_bound_for_every_sixty_first_number(bench, op, has_fma):
    assert outside_of_the_bounds(bench.evaluate, bench.ulps, op)[has_fma] == []
