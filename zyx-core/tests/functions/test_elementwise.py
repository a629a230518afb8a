"""What is peculiar to functions of elements: roundings, ends of ranges, infinities; test_rows.py has their values."""

import builtins
import math
from fractions import Fraction

import numpy as np
import pytest

import zyx

FLOATS = ("float16", "float32", "float64")


def test_rounding_goes_to_even_at_any_size():
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 8388607.5, 8388608.5, 4503599627370495.5, 4503599627370496.5, 1e300])
    assert (zyx.round(zyx.Tensor(x)).numpy() == np.round(x)).all()
    assert np.signbit(zyx.round(zyx.Tensor([-0.3, -0.0])).numpy()).all()


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
@pytest.mark.parametrize("decimals", range(-21, 3))
def test_rounding_integers_to_tens(dtype, decimals):
    limits = np.iinfo(dtype)
    few = np.unique(np.clip(np.arange(-160, 300, 5), max(limits.min, -160), min(limits.max, 300)))
    ends = [limits.min, limits.min + 1, limits.max // 2, limits.max - 7, limits.max]
    halves = [sign * (5 * 10**k + by) for k in range(20) for sign in (1, -1) for by in (-1, 0, 1)]
    values = [int(v) for v in few] + [int(v) for v in (*ends, *halves) if limits.min <= v <= limits.max]
    found = zyx.round(zyx.Tensor(np.array(values, dtype)), decimals)
    assert found.dtype.name == dtype
    unit = 10 ** max(0, -decimals)
    wanted = [builtins.round(Fraction(value, unit)) * unit for value in values]  # halves to even, exactly
    assert found.tolist() == [(w - limits.min) % (1 << limits.bits) + limits.min for w in wanted]


def test_both_parts_of_complex_numbers_are_rounded():
    x = np.array([0.5 + 1.5j, -2.54 + 0.06j])
    assert np.array_equal(zyx.round(zyx.Tensor(x)).numpy(), np.round(x))
    assert np.array_equal(zyx.round(zyx.Tensor(x), 1).numpy(), np.round(x, 1))


def test_rounding_integers_is_as_numpy_does_it():
    assert zyx.round(zyx.Tensor([155, 145, -155, 999, 4]), -1).tolist() == [160, 140, -160, 1000, 0]
    x = np.arange(-1000, 1000)
    assert np.array_equal(zyx.round(zyx.Tensor(x), -2).numpy(), np.round(x, -2))


def test_rounding_to_decimals():
    x = np.array([1.2345, -1.2355, 12.5])
    assert np.allclose(zyx.round(zyx.Tensor(x), 2).numpy(), np.round(x, 2))


@pytest.mark.parametrize("dtype", FLOATS)
def test_hyperbolic_functions_do_not_overflow_before_their_result_does(dtype):
    largest = np.finfo(dtype).max.astype(np.float64)
    x = np.array([np.log(largest) + np.log(1.5), 50 if dtype != "float16" else 11], dtype=dtype)
    for name, reference in (("sinh", np.sinh), ("cosh", np.cosh)):
        wanted = reference(x.astype(np.float64)).astype(dtype)
        found = getattr(zyx, name)(zyx.Tensor(x)).numpy()
        assert np.isfinite(found).all()
        assert np.allclose(
            found.astype(np.float64), wanted.astype(np.float64), rtol=1e-2 if dtype == "float16" else 1e-5
        )


def test_inverse_hyperbolic_functions_of_huge_numbers_are_finite():
    x = np.array([1e30, -1e30, 3e38], dtype=np.float32)
    assert np.allclose(zyx.asinh(zyx.Tensor(x)).numpy(), np.arcsinh(x), rtol=1e-6)
    assert np.allclose(zyx.acosh(zyx.Tensor(np.abs(x))).numpy(), np.arccosh(np.abs(x)), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_tests_of_floats_see_signs_infinities_and_nan(dtype):
    x = zyx.Tensor([1.0, -0.0, math.inf, -math.inf, math.nan], dtype)
    assert zyx.isnan(x).tolist() == [False, False, False, False, True]
    assert zyx.isinf(x).tolist() == [False, False, True, True, False]
    assert zyx.isfinite(x).tolist() == [True, True, False, False, False]
    assert zyx.signbit(x[:4]).tolist() == [False, True, False, True]


@pytest.mark.parametrize("dtype", ["int32", "uint8", "bool"])
def test_tests_of_integers_need_no_values(dtype):
    x = zyx.Tensor(np.array([0, 1], dtype=dtype))
    assert zyx.isnan(x).tolist() == [False, False]
    assert zyx.isinf(x).tolist() == [False, False]
    assert zyx.isfinite(x).tolist() == [True, True]


def test_abs_of_infinity_is_infinity_and_of_the_least_integer_itself():
    assert zyx.abs(zyx.Tensor([-math.inf])).item() == math.inf
    assert zyx.abs(zyx.Tensor([-128], zyx.int8)).item() == -128


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_erf_and_erfinv_undo_each_other(dtype):
    x = np.array([-0.999, -0.5, -1e-3, 0.0, 0.2, 0.9, 0.99999], dtype=dtype)
    back = zyx.erf(zyx.erfinv(zyx.Tensor(x))).numpy()
    assert np.abs(back - x).max() < (3e-7 if dtype == "float32" else 1e-15)


def test_erfinv_at_the_ends_is_infinite_and_outside_nan():
    found = zyx.erfinv(zyx.Tensor([1.0, -1.0, 1.5, math.nan])).numpy()
    assert found[0] == math.inf
    assert found[1] == -math.inf
    assert np.isnan(found[2:]).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_next_float_is_numpys_of_all_pairs_of_special_values(dtype):
    values = np.array([0.0, -0.0, 1.0, -1.0, 2.5, -3.5, 1e-3, 1e30, -1e30, math.inf, -math.inf, math.nan], dtype=dtype)
    x, y = (a.reshape(-1) for a in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        wanted = np.nextafter(x, y)
    found = zyx.nextafter(zyx.Tensor(x), zyx.Tensor(y)).numpy()
    np.testing.assert_array_equal(found, wanted)
    assert (np.signbit(found) == np.signbit(wanted))[~np.isnan(wanted)].all()


def test_hypot_does_not_overflow():
    assert np.isclose(zyx.hypot(zyx.Tensor([3e38]), zyx.Tensor([1e38])).item(), np.hypot(3e38, 1e38))
    assert zyx.hypot(zyx.Tensor([3e-30]), zyx.Tensor([4e-30])).item() == pytest.approx(5e-30)


def test_numbers_are_wanted_where_a_sign_is():
    with pytest.raises(zyx.errors.DTypeError, match="abs takes numbers, not bool"):
        zyx.abs(zyx.Tensor([True]))


def test_functions_refuse_what_is_no_tensor():
    with pytest.raises(zyx.errors.DTypeError, match=r"exp takes a zyx.Tensor, not float; make one with zyx.asarray"):
        zyx.exp(2.0)
