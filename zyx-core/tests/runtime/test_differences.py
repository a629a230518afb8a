"""How far a result may be off before it is called wrong."""

from __future__ import annotations

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.graph import Graph
from zyx.graph.evaluate import evaluate
from zyx.ops import BinaryOp, UnaryOp
from zyx.runtime.differences import Expected, first_difference, shifted


def wanted(values, dtype=dtypes.float32, exact=None, **given):
    plain = np.asarray(values, dtype.numpy)
    exact = plain.astype(np.float64) if exact is None and dtype.is_float else exact
    flat = None if exact is None else np.asarray(exact).reshape(-1)
    return Expected(plain.shape, dtype, given.pop("kept", plain.shape), plain.reshape(-1), flat, **given)


def found(values, dtype=dtypes.float32):
    return np.asarray(values, dtype.numpy).reshape(-1)


def test_what_is_the_same_does_not_differ_infinities_and_nan_with_it():
    values = [1.0, -np.inf, np.nan, np.inf, 0.0]
    assert first_difference([wanted(values)], [found(values)]) is None


@pytest.mark.parametrize(
    ("mine", "right"), [(np.inf, 1.0), (1.0, np.inf), (np.nan, 1.0), (1.0, np.nan), (np.inf, -np.inf)]
)
def test_what_is_no_number_differs_from_one(mine, right):
    difference = first_difference([wanted([2.0, right])], [found([2.0, mine])])
    assert difference is not None
    assert (difference.wrong, difference.position) == (1, (1,))


def test_floats_may_be_off_by_a_part_of_their_size_or_of_the_mean():
    right = wanted([[1000.0, 1.0], [1.0, 1.0]])
    assert first_difference([right], [found([1000.05, 1.01, 1.0, 1.0])]) is None  # of the mean, 250.75
    difference = first_difference([right], [found([1000.05, 1.0, 1.04, 1.05])])
    assert difference is not None
    assert (difference.wrong, difference.size, difference.position) == (2, 4, (1, 1))
    assert difference.largest == pytest.approx(0.05, rel=1e-5)
    assert "2 of 4 elements by more than 0.0001 of their size, most at [1, 1]: 1.04999995 for 1," in str(difference)


def test_floats_may_be_off_by_several_times_what_numpy_is_off():
    right = wanted([1.0, 1.0], exact=[1.0, 1.001])
    assert first_difference([right], [found([1.0, 1.008])]) is None
    assert first_difference([right], [found([1.0, 1.01])]) is not None


def test_integers_have_to_be_the_same_unless_they_come_from_floats_that_may_be_off():
    assert first_difference([wanted([1, 2], dtypes.int32)], [found([1, 3], dtypes.int32)]) is not None
    between = wanted([1, 2], dtypes.int32, others=(np.array([1, 4], np.int32),))
    assert first_difference([between], [found([1, 3], dtypes.int32)]) is None
    assert first_difference([between], [found([1, 5], dtypes.int32)]) is not None


def test_what_is_of_no_use_is_not_compared():
    right = wanted(np.ones((2, 3)), kept=(2, 2))
    assert first_difference([right], [found([1, 1, 7, 1, 1, 7])]) is None
    assert first_difference([right], [found([1, 1, 7, 1, 7, 7])]) is not None


def test_a_tolerance_can_be_given_and_results_are_numbered():
    rights, mine = [wanted([1.0]), wanted([1.0])], [found([1.0]), found([1.00001])]
    assert first_difference(rights, mine) is None
    difference = first_difference(rights, mine, 1e-6)
    assert difference is not None
    assert (difference.result, difference.tolerance) == (1, 1e-6)


def test_floats_that_are_computed_are_shifted_before_they_are_rounded_and_others_are_not():
    graph = Graph()
    x = graph.leaf((3,), dtypes.float32, "c:0", np.array([0.99999, 1.5, 2.00001], np.float32))
    assert shifted([graph.unary(UnaryOp.FLOOR, x)]) == []
    total = graph.binary(BinaryOp.ADD, x, x)
    values = [evaluate(outputs)[0].tolist() for outputs in shifted([graph.unary(UnaryOp.FLOOR, total)])]
    assert values == [[2.0, 3.0, 4.0], [1.0, 2.0, 3.0]]
