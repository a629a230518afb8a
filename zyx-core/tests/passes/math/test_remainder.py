"""Remainders of moderate quotients are exact where `Mad` rounds once, and the others are left to the slower way."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.kernel.verify import verify
from zyx.ops import BinaryOp
from zyx.passes.math.remainder import remainder


def quick(dtype, count):
    """A kernel of remainders whose slower way gives 77, and the same with an exact one."""
    kernels = []
    for is_exact in (False, True):
        b = Builder()
        sources = [b.define(k.Memory.GLOBAL, dtype, count, mutable=False) for _ in range(2)]
        target = b.define(k.Memory.GLOBAL, dtype, count)
        scratch = b.define(k.Memory.REGISTER, dtype, 1)
        place = b.index(k.Axis.GROUP, 0, count)
        x, y = (b.load(source, place) for source in sources)

        def slow(b=b, x=x, y=y, is_exact=is_exact):
            return b.binary(BinaryOp.MOD, x, y) if is_exact else b.like(77.0, x)

        b.store(target, place, remainder(b, x, y, scratch, slow))
        kernels.append(b.finish("remainder"))
        verify(kernels[-1])
    return kernels


def check(bench, x, y, most_left):
    """Check that what is exact is, bit by bit, and return which were left to the slower way, up to a part of them."""
    inexact, exact = (bench.run_fused(kernel, [x, y]) for kernel in quick(dtypes.as_dtype(x.dtype), len(x)))
    with np.errstate(all="ignore"):
        wanted = np.fmod(x, y)
    np.testing.assert_array_equal(exact, wanted)
    assert (np.signbit(exact) == np.signbit(wanted))[~np.isnan(wanted)].all()
    left = (inexact == 77.0) & (wanted != 77.0)
    assert left.mean() <= most_left
    return left


BY_DTYPE = pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=lambda dtype: dtype.__name__)


@BY_DTYPE
def test_special_and_extreme_numbers(bench, dtype):
    limits = np.finfo(dtype)
    subnormal = float(limits.smallest_subnormal)
    values = [0.0, 1.0, 1.5, 3.0, 0.1, 7.25, 1e10, math.inf, math.nan, float(limits.max), float(limits.tiny),
              subnormal, 3 * subnormal, float(limits.tiny) * 0.75]  # fmt: skip
    values += [-value for value in values]
    pairs = np.array(list(itertools.product(values, values))).astype(dtype)
    x, y = (np.ascontiguousarray(pairs[:, number]) for number in range(2))
    left = check(bench, x, y, 1.0)
    assert left[(y == 0) | np.isinf(x) | np.isnan(x) | np.isnan(y)].all()
    assert not left[np.isfinite(x) & (abs(x) / 8 <= abs(y)) & (y != 0)].any()


@BY_DTYPE
@pytest.mark.parametrize("seed", range(8))
def test_numbers_next_to_multiples(bench, dtype, seed):
    """Whose quotients are rounded to integers that they are short of."""
    rng = np.random.default_rng(seed)
    y = (rng.standard_normal(512) * 10.0 ** rng.integers(-20, 20, 512)).astype(dtype)
    x = (y * np.floor(2.0 ** rng.uniform(0, np.finfo(dtype).nmant - 4, 512))).astype(dtype)
    for _ in range(2):
        ends = rng.choice([-np.inf, np.inf], 512).astype(dtype)
        x = np.where(rng.random(512) < 0.5, x, np.nextafter(x, ends)).astype(dtype)
    check(bench, x, y, 0.0)


@BY_DTYPE
@pytest.mark.parametrize("seed", range(8))
def test_any_bits(bench, dtype, seed):
    rng = np.random.default_rng(seed)
    word = np.dtype(f"u{np.dtype(dtype).itemsize}")
    x, y = (rng.integers(0, np.iinfo(word).max, 512, dtype=word, endpoint=True).view(dtype) for _ in range(2))
    check(bench, x, y, 0.6)
