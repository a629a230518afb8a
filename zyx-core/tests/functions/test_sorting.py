"""Order against NumPy: ties, NaN, directions."""

import math

import numpy as np
import pytest

import zyx
from zyx.errors import DTypeError, ShapeError

RNG = np.random.default_rng(2)


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint64", "bool"])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("descending", [False, True])
def test_sorting_agrees_with_numpy_and_keeps_the_order_of_equals(dtype, axis, descending):
    x = RNG.integers(0, 5, (4, 7, 3)).astype(dtype)
    order = np.argsort(x, axis, kind="stable")
    if descending:
        order = np.flip(x.shape[axis] - 1 - np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
    found = zyx.argsort(zyx.Tensor(x), axis, descending=descending)
    assert found.dtype is zyx.int64
    assert np.array_equal(found.numpy(), order)
    assert np.array_equal(
        zyx.sort(zyx.Tensor(x), axis, descending=descending).numpy(), np.take_along_axis(x, order, axis)
    )


def test_nan_is_greater_than_every_number():
    x = np.array([2.0, math.nan, -math.inf, math.inf, math.nan, 1.0])
    assert zyx.argsort(zyx.Tensor(x)).tolist() == np.argsort(x, kind="stable").tolist()
    assert zyx.argsort(zyx.Tensor(x), descending=True).tolist() == [1, 4, 3, 0, 5, 2]


@pytest.mark.parametrize("shape", [(0,), (1,), (3, 0)])
def test_little_is_sorted_quickly(shape):
    assert zyx.sort(zyx.ones(shape)).shape == shape
    assert zyx.argsort(zyx.ones(shape)).numpy().shape == shape


@pytest.mark.parametrize("largest", [True, False])
def test_the_greatest_few(largest):
    x = RNG.standard_normal((3, 8))
    values, places = zyx.topk(zyx.Tensor(x), 3, largest=largest)
    wanted = np.sort(x, 1)[:, ::-1][:, :3] if largest else np.sort(x, 1)[:, :3]
    assert np.array_equal(values.numpy(), wanted)
    assert np.array_equal(np.take_along_axis(x, places.numpy(), 1), wanted)
    with pytest.raises(ShapeError, match="9 of the 8 elements along axis 1"):
        zyx.topk(zyx.Tensor(x), 9)


def test_median_is_the_lower_of_the_middle():
    assert zyx.median(zyx.Tensor([[3.0, 1.0, 2.0], [4.0, math.nan, 5.0]])).tolist()[0] == 2.0
    assert math.isnan(zyx.median(zyx.Tensor([4.0, math.nan, 5.0])).item())
    assert zyx.median(zyx.Tensor([4, 1, 3, 2])).item() == 2
    assert zyx.median(zyx.ones(2, 3), axis=0, keepdims=True).shape == (1, 3)


@pytest.mark.parametrize("side", ["left", "right"])
def test_places_in_sorted_lists_agree_with_numpy(side):
    x = np.array([1.0, 2.0, 2.0, 3.0, math.nan])
    values = np.array([[0.0, 2.0, 2.5], [3.0, 9.0, math.nan]])
    found = zyx.searchsorted(zyx.Tensor(x), zyx.Tensor(values), side=side)
    assert np.array_equal(found.numpy(), np.searchsorted(x, values, side))
    assert zyx.searchsorted(zyx.Tensor([1, 2, 3]), 2, side=side).item() == np.searchsorted([1, 2, 3], 2, side)
    shuffled, sorter = np.array([3.0, 1.0, 2.0]), np.array([1, 2, 0])
    found = zyx.searchsorted(zyx.Tensor(shuffled), zyx.Tensor([2.5]), side=side, sorter=zyx.Tensor(sorter))
    assert found.item() == 2
    with pytest.raises(ShapeError, match='side is "left" or "right"'):
        zyx.searchsorted(zyx.Tensor(x), 1.0, side="middle")
    with pytest.raises(ShapeError, match="a list of rank 1"):
        zyx.searchsorted(zyx.ones(2, 2), 1.0)


@pytest.mark.parametrize("dtype", ["int8", "uint64", "float32", "float64", "complex64", "bool"])
@pytest.mark.parametrize(("first", "second"), [((3, 4), (5,)), ((), (2, 2)), ((4,), ()), ((0,), (3,)), ((3,), (0,))])
def test_elements_are_looked_up_as_in_numpy(dtype, first, second):
    rng = np.random.default_rng(3)
    a, b = (rng.integers(0, 6, shape).astype(dtype) for shape in (first, second))
    for invert in (False, True):
        found = zyx.isin(zyx.Tensor(a), zyx.Tensor(b), invert=invert)
        assert found.dtype is zyx.bool
        assert np.array_equal(found.numpy(), np.isin(a, b, invert=invert))


def test_numbers_are_looked_up_and_nan_is_nowhere():
    x = zyx.Tensor([1.0, math.nan, -0.0, math.inf])
    assert zyx.isin(x, x).tolist() == [True, False, True, True]
    assert zyx.isin(x, 0).tolist() == [False, False, True, False]
    assert zyx.isin(2, zyx.Tensor([1, 2])).tolist() is True
    for data in (1, [1.0]):
        with pytest.raises(DTypeError, match=r"isin takes at least one zyx\.Tensor"):
            zyx.isin(data, data)


@pytest.mark.parametrize("dtype", ["int32", "float32", "bfloat16", "bool"])
def test_different_values_agree_with_numpy(dtype):
    x = zyx.Tensor([[2, 0, 1], [1, 1, 2]], dtype)
    data = x.astype("float64").numpy()
    values, first, inverse, counts = np.unique(data, return_index=True, return_inverse=True, return_counts=True)
    found = zyx.unique_all(x)
    assert found.values.dtype is x.dtype
    assert np.array_equal(found.values.astype("float64").numpy(), values)
    assert np.array_equal(found.indices.numpy(), first)
    assert np.array_equal(found.inverse_indices.numpy(), inverse.reshape(2, 3))
    assert np.array_equal(found.counts.numpy(), counts)
    assert zyx.unique_counts(x).counts.tolist() == counts.tolist()
    assert zyx.unique_inverse(x).inverse_indices.shape == (2, 3)
    assert np.array_equal(zyx.unique_values(x).astype("float64").numpy(), values)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("size", [0, 1, 6, 60])
def test_different_complex_values_are_in_the_order_of_both_parts(dtype, size):
    rng = np.random.default_rng(size)
    parts = np.array([0.0, -0.0, 1.0, -1.0, 2.5, math.inf, math.nan])
    data = np.empty(size, dtype)
    data.real, data.imag = rng.choice(parts, size), rng.choice(parts, size)
    wanted = np.unique(data, return_index=True, return_inverse=True, return_counts=True, equal_nan=False)
    x = zyx.Tensor(data)
    found = zyx.unique_all(x)
    assert found.values.dtype is x.dtype
    for ours, theirs in zip(found, wanted, strict=True):
        assert np.array_equal(ours.numpy(), theirs, equal_nan=ours.dtype.is_complex)
    assert np.array_equal(zyx.unique_values(x).numpy(), wanted[0], equal_nan=True)


def test_each_nan_differs_from_the_others():
    found = zyx.unique_counts(zyx.Tensor([math.nan, 1.0, math.nan, 1.0]))
    assert found.counts.tolist() == [2, 1, 1]


@pytest.mark.parametrize("dtype", [dtype for dtype in zyx.dtype.ALL if not dtype.is_float], ids=str)
def test_extreme_integers_are_in_order(dtype):
    x = np.array([dtype.max, dtype.min, 0, 1, dtype.max, dtype.min, 1], dtype.numpy)
    assert zyx.argsort(zyx.Tensor(x)).tolist() == np.argsort(x, kind="stable").tolist()
    assert zyx.sort(zyx.Tensor(x), descending=True).tolist() == sorted(x.tolist(), reverse=True)


@pytest.mark.parametrize("dtype", [dtype for dtype in zyx.dtype.ALL if dtype.is_float], ids=str)
def test_special_floats_are_in_order(dtype):
    x = np.array([0.0, math.nan, -0.0, math.inf, -math.inf, 1.5, -1.5, 0.0, math.nan, -0.0, 2**-14], "float32")
    order = [4, 6, 0, 2, 7, 9, 10, 5, 3, 1, 8]
    assert zyx.argsort(zyx.Tensor(x, dtype)).tolist() == order
    assert zyx.argsort(zyx.Tensor(x, dtype), descending=True).tolist() == [1, 8, 3, 5, 10, 0, 2, 7, 9, 6, 4]


@pytest.mark.parametrize("size", [1, 2, 3, 31, 32, 33, 100])
@pytest.mark.parametrize("side", ["left", "right"])
def test_places_are_found_by_halving(size, side):
    x = np.sort(RNG.integers(0, 20, size))
    values = np.arange(-1, 22)
    found = zyx.searchsorted(zyx.Tensor(x), zyx.Tensor(values), side=side)
    assert np.array_equal(found.numpy(), np.searchsorted(x, values, side))


def test_different_values_of_nothing_and_of_one():
    assert [found.shape for found in zyx.unique_all(zyx.ones(0, 2))] == [(0,), (0,), (0, 2), (0,)]
    assert [found.tolist() for found in zyx.unique_all(zyx.Tensor(3))] == [[3], [0], 0, [1]]
