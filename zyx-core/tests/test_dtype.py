"""Numbers as an element type holds them."""

from __future__ import annotations

import copy
import math
import pickle
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from zyx import dtype as dtypes

LARGEST = float(np.finfo(np.float32).max)
HALF_STEP = 2.0**103  # above the largest, everything from here on is infinity


@given(value=st.floats())
@example(value=LARGEST + HALF_STEP)
@example(value=math.nextafter(LARGEST + HALF_STEP, 0))
@example(value=-LARGEST - HALF_STEP)
@example(value=2.0**-150)
@example(value=math.nextafter(2.0**-150, 1))
@example(value=1 + 2.0**-24)
@example(value=1 + 3 * 2.0**-24)
@example(value=-0.0)
@pytest.mark.parametrize("dtype", [t for t in dtypes.ALL if t.is_float], ids=str)
def test_floats_are_rounded_as_numpy_rounds_arrays_of_them(dtype, value):
    with np.errstate(over="ignore"):
        expected = np.array([value]).astype(dtype.numpy).astype(np.float64)
    found = np.array([dtype.to_scalar(value)])
    np.testing.assert_array_equal(found, expected)
    assert math.isnan(value) or np.signbit(found) == np.signbit(expected)


@given(value=st.integers(-(1 << 200), 1 << 200))
@pytest.mark.parametrize("dtype", [t for t in dtypes.ALL if t.is_integer], ids=str)
def test_integers_wrap_around(dtype, value):
    found = dtype.to_scalar(value)
    assert dtype.min <= found <= dtype.max
    assert (found - value) % (1 << dtype.bits) == 0


@pytest.mark.parametrize(("value", "expected"), [(0, False), (-0.0, False), (0.1, True), (2, True), (math.nan, True)])
def test_any_number_but_zero_is_true(value, expected):
    assert dtypes.bool_.to_scalar(value) is expected


def test_a_dtype_cannot_be_changed():
    with pytest.raises(AttributeError, match=r"'bits' of zyx.float32 cannot be set"):
        dtypes.float32.bits = 16
    with pytest.raises(AttributeError, match=r"'bits' of zyx.float32 cannot be deleted"):
        del dtypes.float32.bits
    assert dtypes.float32.bits == 32


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_a_dtype_is_equal_to_its_name_and_to_numpys_type_and_to_nothing_else(dtype):
    assert dtype == dtype.name
    assert dtype.name == dtype
    assert dtype == dtype.numpy
    assert dtype.numpy == dtype
    assert dtype == dtype.numpy.type
    assert hash(dtype) == hash(dtype.name)
    assert {dtype.name: 1}[dtype] == 1
    for other in dtypes.ALL:
        if other is not dtype:
            assert dtype != other
            assert dtype != other.name
            assert dtype != other.numpy
    assert dtype != 3
    assert dtype != "float"
    assert dtype is not None
    assert dtype not in (None, float, [])


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_numpy_takes_a_dtype(dtype):
    assert np.dtype(dtype) == dtype.numpy
    assert np.zeros(2, dtype).dtype == dtype
    assert np.ones(2).astype(dtype).dtype == dtype.numpy


def test_kinds_are_numpys_letters_in_the_order_of_promotion():
    assert [kind.value for kind in dtypes.Kind] == ["b", "u", "i", "f", "c"]
    for dtype in (*dtypes.ALL, *dtypes.COMPLEX):
        if dtype is not dtypes.bfloat16:
            assert dtype.kind == dtype.numpy.kind
        assert dtype.kind not in "USVOMm"  # as scikit-learn asks


def test_copies_are_the_one_object():
    for dtype in dtypes.ALL:
        assert copy.deepcopy(dtype) is copy.copy(dtype) is pickle.loads(pickle.dumps(dtype)) is dtype


def rounded_once(value, digits):
    """Return `value` rounded to so many binary digits, half to even, exactly."""
    exact = Fraction(value)
    if not exact:
        return 0.0
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    unit = Fraction(2) ** (exponent - digits + 1)
    return float(round(exact / unit) * unit)


@pytest.mark.parametrize(("dtype", "digits"), [(dtypes.float32, 24), (dtypes.bfloat16, 8), (dtypes.float16, 11)])
def test_constants_are_rounded_once(dtype, digits):
    draw = random.Random(digits)
    most = 15 if dtype is dtypes.float16 else 63
    integers = [(1 << 54) + (1 << 30) + 1, (1 << 63) - 1, -(1 << 63), (1 << 64) - 1, -(2**62) - 2**38 - 1]
    integers = [] if dtype is dtypes.float16 else integers
    for _ in range(2000):
        top = draw.randint(digits, most)
        half = (draw.getrandbits(digits - 1) | 1 << (digits - 1)) * 2 + 1  # half way between two numbers
        integers.append(draw.choice([-1, 1]) * ((half << max(0, top - digits - 1)) + draw.choice([-1, 0, 1])))
    for value in integers:
        if abs(value) < 1 << 64 and (dtype is not dtypes.float16 or abs(value) < 65504):
            assert dtype.to_scalar(value) == rounded_once(value, digits), value
    for _ in range(2000):
        half = 1 + (2 * draw.getrandbits(digits - 1) + 1) * 2.0**-digits
        value = draw.choice([-1, 1]) * half * (1 + draw.choice([-1, 0, 1]) * 2.0 ** -draw.randint(digits + 2, 51))
        assert dtype.to_scalar(value) == rounded_once(value, digits), value


def test_constants_beyond_the_range_are_infinite_and_nan_stays():
    for dtype in dtypes.FLOATS:
        assert dtype.to_scalar(-math.inf) == -math.inf
        assert math.isnan(dtype.to_scalar(math.nan))
        if dtype is not dtypes.float64:
            assert dtype.to_scalar(10**400) == math.inf
            assert dtype.to_scalar(3.4028235677973366e38) == math.inf
