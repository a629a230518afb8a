"""What is peculiar to reductions: dtypes, empty axes, NaN, ties, digits; test_rows.py has their values."""

import math
from fractions import Fraction

import numpy as np
import pytest

import zyx
from zyx.errors import DTypeError, ShapeError

DATA = np.random.default_rng(7).standard_normal((3, 4, 5))


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "mean", "var", "std"])
def test_along_no_axes_each_element_is_reduced_by_itself(name):
    found = getattr(zyx, name)(zyx.Tensor(DATA), axis=())
    assert np.array_equal(found.numpy(), getattr(np, name)(DATA, axis=()))
    assert np.array_equal(zyx.any(zyx.Tensor(DATA), axis=()).numpy(), DATA != 0)
    assert zyx.count_nonzero(zyx.Tensor(DATA), axis=()).dtype is zyx.int64


@pytest.mark.parametrize(
    ("dtype", "wanted"),
    [
        ("bool", "int64"), ("int8", "int64"), ("int64", "int64"), ("uint8", "uint64"), ("uint32", "uint64"),
        ("float16", "float16"), ("bfloat16", "bfloat16"), ("float32", "float32"), ("float64", "float64"),
    ],
)  # fmt: skip
def test_sums_and_products_have_wide_integers_and_floats_as_they_are(dtype, wanted):
    x = zyx.ones(3, dtype=dtype)
    assert x.sum().dtype.name == wanted
    assert x.prod().dtype.name == wanted
    assert x.cumulative_sum().dtype.name == wanted
    assert x.sum().item() == 3


def test_small_integers_do_not_overflow_in_sums_unless_told_to():
    x = zyx.full(200, 100, dtype="int8")
    assert x.sum().item() == 20000
    assert x.sum(dtype="int8").item() == 20000 % 256


def test_a_dtype_is_that_of_the_additions_too():
    assert zyx.Tensor([1.5, 1.5]).sum(dtype=zyx.int32).item() == 2
    assert zyx.Tensor([1, 2]).mean(dtype=zyx.float64).dtype is zyx.float64


def test_half_precision_is_summed_in_single():
    x = zyx.ones(4096, dtype="float16")
    assert x.sum().item() == 4096.0
    assert zyx.full(100000, 0.5, dtype="float16").mean().item() == 0.5
    assert zyx.ones(1000, dtype="bfloat16").sum().item() == 1000.0


def test_mean_of_integers_is_float32():
    found = zyx.Tensor([1, 2]).mean()
    assert found.dtype is zyx.float32
    assert found.item() == 1.5
    assert zyx.Tensor([True, False]).mean().item() == 0.5


def test_sums_of_no_elements_are_neutral_and_means_nan():
    x = zyx.zeros(0, 3)
    assert x.sum(axis=0).tolist() == [0.0, 0.0, 0.0]
    assert x.prod(axis=0).tolist() == [1.0, 1.0, 1.0]
    assert x.any().item() is False
    assert x.all().item() is True
    assert np.isnan(x.mean(axis=0).numpy()).all()
    assert x.sum(axis=1).shape == (0,)
    assert x.mean(axis=1).shape == (0,)


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin", "logsumexp", "median"])
def test_extremes_of_no_elements_are_an_error(name):
    with pytest.raises(ShapeError, match="of no elements: axis 0 of"):
        getattr(zyx, name)(zyx.zeros(0, 3), axis=0)


def test_extremes_of_infinities_and_nan():
    x = zyx.Tensor([[-math.inf, -math.inf], [math.nan, 1.0]])
    assert x.max(axis=1).tolist()[0] == -math.inf
    assert np.isnan(x.max(axis=1).numpy()[1])
    assert np.isnan(x.min(axis=1).numpy()[1])
    assert zyx.Tensor([-128, -128], zyx.int8).max().item() == -128


def test_extremes_of_bools_and_integers_keep_the_dtype():
    assert zyx.Tensor([True, False]).max().tolist() is True
    assert zyx.Tensor([3, 5], zyx.uint16).min().dtype is zyx.uint16
    low, high = zyx.aminmax(zyx.Tensor([3, 5]))
    assert (low.item(), high.item()) == (3, 5)


def test_places_of_extremes_take_the_first_of_equals_and_the_first_nan():
    assert zyx.argmax(zyx.Tensor([1, 3, 3])).item() == 1
    assert zyx.argmin(zyx.Tensor([1, 0, 0])).item() == 1
    assert zyx.argmax(zyx.Tensor([1.0, math.nan, 5.0, math.nan])).item() == 1
    assert zyx.argmin(zyx.Tensor([1.0, math.nan, 0.0])).item() == 1
    assert zyx.argmax(zyx.Tensor([-math.inf, -math.inf])).item() == 0


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("shape", [(4096,), (3, 4099), (2, 5000, 1)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.uint32, np.bool_])
def test_places_of_extremes_along_long_axes_agree_with_numpy(name, shape, dtype):
    data = (np.random.default_rng(4).standard_normal(shape) * 50).astype(np.int8).astype(dtype)  # with many equals
    for keepdims in (False, True):
        found = getattr(zyx, name)(zyx.Tensor(data), axis=min(1, len(shape) - 1), keepdims=keepdims)
        expected = getattr(np, name)(data, axis=min(1, len(shape) - 1), keepdims=keepdims)
        assert np.array_equal(found.numpy(), expected)
    assert zyx.Tensor(data).argmax().item() == data.argmax()


def test_places_of_extremes_along_long_axes_take_nan_and_infinities_first():
    data = np.full(5001, -np.inf, np.float32)
    assert zyx.argmax(zyx.Tensor(data)).item() == 0
    assert zyx.argmin(zyx.Tensor(-data)).item() == 0
    data[4998] = 3.0
    assert zyx.argmax(zyx.Tensor(data)).item() == 4998
    data[[700, 701, 3000]] = np.nan
    assert zyx.argmax(zyx.Tensor(data)).item() == zyx.argmin(zyx.Tensor(data)).item() == 700


def test_variance_of_large_numbers_keeps_its_digits():
    x = np.array([10000.0, 10001.0, 10002.0], dtype=np.float32)
    assert zyx.Tensor(x).var().item() == pytest.approx(2 / 3)


def test_variance_of_too_few_elements_is_nan():
    assert np.isnan(zyx.Tensor([3.0]).var(correction=1).item())
    assert zyx.Tensor([3.0]).var().item() == 0.0


def test_statistics_refuse_integer_results():
    with pytest.raises(DTypeError, match="mean gives floating-point numbers, not int32"):
        zyx.mean(zyx.ones(3), dtype=zyx.int32)


def test_logsumexp_of_infinities():
    assert zyx.logsumexp(zyx.Tensor([-math.inf, -math.inf])).item() == -math.inf
    assert zyx.logsumexp(zyx.Tensor([math.inf, 0.0])).item() == math.inf
    assert zyx.logsumexp(zyx.Tensor([1e30, 1e30])).item() == pytest.approx(1e30)
    assert np.isnan(zyx.logsumexp(zyx.Tensor([math.nan, 0.0])).item())


@pytest.mark.parametrize("order", [2, 1, 0, 3, 0.5, math.inf, -math.inf])
def test_norms_of_nothing_are_0(order):
    assert zyx.norm(zyx.zeros(3), order).item() == 0.0


def test_nothing_is_normalised_to_nothing():
    assert zyx.normalize(zyx.zeros(3)).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("axis", [3, -4, (0, 0), (0, -3), 1.5])
def test_wrong_axes_are_named(axis):
    with pytest.raises(ShapeError, match="axis"):
        zyx.sum(zyx.Tensor(DATA), axis=axis)


@pytest.mark.parametrize("count", [1000, 30_000])
@pytest.mark.parametrize(("mean", "error"), [(0.0, 1e-6), (1e3, 1e-6), (1e4, 1e-6), (-1e6, 1e-5)])
def test_variance_is_precise_however_large_the_mean(count, mean, error):
    x = (np.random.default_rng(count).standard_normal(count) + mean).astype(np.float32)
    exact = x.astype(np.float64).var()
    assert zyx.var(zyx.Tensor(x)).item() == pytest.approx(exact, error)
    assert zyx.std(zyx.Tensor(x)).item() == pytest.approx(np.sqrt(exact), error)


def test_one_number_far_from_all_others_costs_them_no_digits():
    x = np.random.default_rng(1).random(999).astype(np.float32)
    for place in (0, 499, 998, 5):
        y = np.insert(x, place, np.float32(1e8))[:999]
        variance, mean = zyx.var_mean(zyx.Tensor(y))
        assert variance.item() == pytest.approx(y.astype(np.float64).var(), 1e-6)
        assert mean.item() == pytest.approx(y.mean(dtype=np.float64), 1e-6)


def test_variance_is_never_negative_and_keeps_nan():
    for value in (0.1, 1e10, 3.0):
        assert 0 <= zyx.std(zyx.full((1001,), value)).item() <= 1e-6 * value
    x = np.ones(9, np.float32)
    for special in (np.nan, np.inf):
        for place in (0, 4, 7):
            y = x.copy()
            y[place] = special
            assert np.isnan(zyx.var(zyx.Tensor(y)).item())
    assert np.isnan(zyx.var(zyx.full((5,), np.inf)).item())


def test_variance_has_first_and_second_derivatives():
    x = np.array([1e4, 1e4 + 2, 1e4 + 7, 1e4 - 3], np.float32)
    t = zyx.Tensor(x)
    with zyx.Tape() as outer:
        with zyx.Tape() as inner:
            spread = zyx.var(t)
        slope = inner.gradient(spread, t)
        first = slope[0]
    assert slope.numpy() == pytest.approx((x - x.mean(dtype=np.float64)) / 2, 1e-4)
    assert outer.gradient(first, t).numpy() == pytest.approx((np.eye(4)[0] - 0.25) / 2, 1e-4)


_SECONDS = np.arange(1_700_000_000, 1_700_000_100)  # since 1970


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("numbers", [_SECONDS, _SECONDS[:1], _SECONDS % 5, np.array([0] * 999 + [1])])
def test_statistics_of_integers_are_rounded_once(dtype, numbers):
    x = zyx.Tensor(numbers.astype(dtype))
    exact = numbers.astype(np.float64)
    for name in ("mean", "var", "std"):
        assert getattr(zyx, name)(x).item() == pytest.approx(getattr(exact, name)(), 3e-7, 0), name
        assert zyx.__dict__[name](x, dtype="float64").item() == pytest.approx(getattr(exact, name)(), 1e-12, 0), name
    table = zyx.Tensor(np.stack([numbers, numbers[::-1] // 2]).astype(dtype))
    spread = zyx.std(table, axis=1, keepdims=True, dtype="float64")
    assert np.allclose(spread.numpy()[:, 0], [exact.std(), (numbers // 2).astype(np.float64).std()], 1e-12, 0)


@pytest.mark.parametrize(
    ("dtype", "numbers"),
    [
        ("int64", [2**40 + 1, -(2**40)]),
        ("int64", [2**62, 2**62 + 2, 2**62 + 4]),
        ("int64", [-(2**63), 2**63 - 1] * 40),
        ("int64", [-(2**63)] * 3),
        ("int64", [-1] + [0] * 999),
        ("int64", [-3, 2, 2, -2]),
        ("int32", [-(2**31), 2**31 - 1, -7]),
        ("uint32", [2**32 - 1] * 9 + [0]),
        ("uint64", [2**63 + 5, 2**64 - 1, 2**63 + 7]),
        ("uint64", [2**64 - 1] * 7),
    ],
)
def test_statistics_of_integers_do_not_wrap(dtype, numbers):
    x = zyx.Tensor(np.array(numbers, dtype))
    mean = Fraction(sum(numbers), len(numbers))
    variance = sum((number - mean) ** 2 for number in numbers) / len(numbers)
    for result, error in (("float32", 1e-6), ("float64", 1e-13)):
        assert zyx.mean(x, dtype=result).item() == pytest.approx(float(mean), error, 0)
        assert zyx.var(x, dtype=result).item() == pytest.approx(float(variance), error, 0)


def test_statistics_of_no_integers_are_nan():
    x = zyx.zeros((0, 3), dtype="int64")
    assert np.isnan(zyx.mean(x, axis=0).numpy()).all()
    assert np.isnan(zyx.std(x, axis=0).numpy()).all()
