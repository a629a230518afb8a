"""What is peculiar to running combinations and differences; test_rows.py has their values."""

import math

import numpy as np
import pytest

import zyx
from zyx.errors import ShapeError
from zyx.runtime.runtime import Runtime, use

X = np.random.default_rng(4).standard_normal((3, 4, 5))


def test_an_axis_may_be_left_out_for_rank_one():
    assert zyx.cumulative_sum(zyx.Tensor([1, 2, 3])).tolist() == [1, 3, 6]
    assert np.allclose(zyx.cumsum(zyx.Tensor(X)).numpy(), np.cumsum(X))
    assert np.allclose(zyx.cumprod(zyx.Tensor(X)).numpy(), np.cumprod(X))
    for function in (zyx.cumulative_sum, zyx.cumulative_prod, zyx.cummax):
        with pytest.raises(ShapeError, match=r"needs an axis, as the shape is \(3, 4, 5\)"):
            function(zyx.Tensor(X))


def test_dtypes_are_those_of_sums():
    assert zyx.cumulative_sum(zyx.Tensor([100, 100], zyx.int8)).tolist() == [100, 200]
    assert zyx.cumulative_sum(zyx.Tensor([1.5, 1.5]), dtype="int32").tolist() == [1, 2]
    half = zyx.cumulative_sum(zyx.ones(4096, dtype="float16"))
    assert half.dtype is zyx.float16
    assert half.numpy()[-1] == 4096.0


def test_zero_sizes_and_nan():
    assert zyx.cumulative_sum(zyx.zeros(2, 0), 1).shape == (2, 0)
    assert zyx.cumulative_sum(zyx.zeros(2, 0), 1, include_initial=True).tolist() == [[0.0], [0.0]]
    assert np.isnan(zyx.cummax(zyx.Tensor([1.0, math.nan, 2.0])).numpy()).tolist() == [False, True, True]


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("n", [0, 1, 2, 9])
def test_differences_of_what_is_longer_agree_with_numpy(axis, n):
    first = X.take([0], axis)
    wanted = np.diff(X, n, axis, prepend=first, append=first)
    assert np.allclose(zyx.diff(zyx.Tensor(X), n, axis, prepend=first, append=zyx.Tensor(first)).numpy(), wanted)


def test_differences_of_bools_compare():
    assert zyx.diff(zyx.Tensor([True, True, False])).tolist() == [False, True]
    with pytest.raises(ShapeError, match="n is at least 0"):
        zyx.diff(zyx.ones(3), n=-1)


class TestRunningSumsOfExponentials:
    """`zyx.logcumsumexp` is NumPy's ``logaddexp.accumulate``, in memory of the size of what it is given."""

    @pytest.mark.parametrize("axis", [0, 1, -1])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.filterwarnings("ignore:invalid value")
    def test_values_beside_numpy(self, axis, dtype):
        x = np.random.default_rng(3).normal(size=(5, 37, 2)).astype(dtype) * 30
        x[0, :4], x[1, 20], x[2, 30], x[3], x[4, 7, 0] = -np.inf, np.inf, np.nan, -np.inf, 1e4
        found = zyx.logcumsumexp(zyx.Tensor(x), axis).numpy()
        wanted = np.logaddexp.accumulate(x.astype(np.float64), axis)
        np.testing.assert_allclose(found, wanted, rtol=1e-5 if dtype == np.float32 else 1e-13, atol=1e-6)

    def test_half_precision_is_rounded_once(self):
        x = np.random.default_rng(4).normal(size=300).astype(np.float16)
        wanted = np.logaddexp.accumulate(x.astype(np.float64)).astype(np.float16)
        np.testing.assert_array_max_ulp(zyx.logcumsumexp(zyx.Tensor(x)).numpy(), wanted, 1)

    def test_no_axis_none_element_and_one(self):
        assert zyx.logcumsumexp(zyx.Tensor(3.0), 0).item() == 3.0
        assert zyx.logcumsumexp(zyx.zeros(2, 0), 1).shape == (2, 0)
        assert zyx.logcumsumexp(zyx.Tensor([1, 1])).tolist() == pytest.approx([1.0, 1.0 + math.log(2.0)])
        with pytest.raises(ShapeError, match="axis 2"):
            zyx.logcumsumexp(zyx.zeros(2, 3), 2)

    def test_slopes_are_as_exact_where_all_is_far_from_0(self):
        x = np.float32(10000.0) + np.array([0.5, -1.0, 2.0, 0.25, -3.0], np.float32)
        slope = zyx.grad(lambda t: zyx.logcumsumexp(t).sum())(zyx.Tensor(x)).numpy()
        parts = np.exp(x.astype(np.float64) - 10000.0)
        wanted = parts * np.cumsum((1.0 / np.cumsum(parts))[::-1])[::-1]
        np.testing.assert_allclose(slope, wanted, rtol=1e-6)

    def test_memory_grows_as_the_line_does(self):
        def peak(size):
            runtime = Runtime()
            with use(runtime), runtime.default("interpreter"):
                x = zyx.randn(size).realize()
                slope = zyx.grad(lambda t: zyx.logcumsumexp(t).sum())(x).numpy()
                assert slope[0] > slope[-1] > 0.0
                most = max(pool.peak_bytes for pool in zyx.memory_stats().values()) / x.nbytes
            runtime.close()
            return most

        assert peak(1 << 14) < 64  # of 14 steps; all pairs were 16384
