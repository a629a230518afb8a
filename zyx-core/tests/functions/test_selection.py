"""Indexed reads and writes along an axis against NumPy and against loops."""

import numpy as np
import pytest
from meanings.formulas import scattered

import zyx
from zyx.errors import DTypeError, IndexRangeError, ShapeError

RNG = np.random.default_rng(5)
X = RNG.standard_normal((3, 4, 5))


def check(found, wanted):
    assert found.shape == wanted.shape
    assert np.allclose(found.numpy(), wanted)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("shape", [(), (3,), (2, 2), (0,)])
def test_take_agrees_with_numpy(axis, shape):
    index = RNG.integers(-3, 3, shape)
    for given in (index, zyx.Tensor(index)):
        check(zyx.take(zyx.Tensor(X), given, axis), np.take(X, index, axis))
    check(zyx.take(zyx.Tensor(X), index.tolist(), axis), np.take(X, index, axis))


def test_take_is_of_all_elements_unless_there_is_an_axis():
    assert zyx.take(zyx.Tensor([1.0, 2.0]), [1, 0]).tolist() == [2.0, 1.0]
    check(zyx.take(zyx.Tensor(X), [0, -1]), np.take(X, [0, -1]))
    with pytest.raises(IndexRangeError, match="index 3 is out of range for axis 0 of size 3"):
        zyx.take(zyx.Tensor(X), [3], 0)
    with pytest.raises(DTypeError, match="an index is of integers, not float"):
        zyx.take(zyx.Tensor(X), zyx.ones(2), 0)
    check(zyx.index_select(zyx.Tensor(X), 1, [2, 0]), X[:, [2, 0]])


def test_take_along_axis_broadcasts_other_axes():
    index = np.array([[[0, 4]]])
    check(zyx.take_along_axis(zyx.Tensor(X), zyx.Tensor(index), 2), X[:, :, [0, 4]])
    with pytest.raises(ShapeError, match="different ranks"):
        zyx.take_along_axis(zyx.Tensor(X), zyx.Tensor([0]), 0)


def test_gather_reads_a_smaller_index():
    index = RNG.integers(0, 4, (2, 3, 5))
    wanted = np.take_along_axis(X[:2], index, 1)
    check(zyx.gather(zyx.Tensor(X), 1, zyx.Tensor(index)), wanted)
    with pytest.raises(ShapeError, match="is larger than data"):
        zyx.gather(zyx.Tensor(X), 1, zyx.Tensor(np.zeros((4, 1, 5), int)))


@pytest.mark.parametrize("reduce", [None, "sum", "add", "prod", "multiply", "amax", "amin"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scatter_of_a_part_of_a_source_is_its_meaning(reduce, axis):
    index = RNG.integers(0, 3, [2, 3, 4])
    source = RNG.standard_normal((3, 3, 5))
    how = {"add": "sum", "multiply": "prod"}.get(reduce, reduce)
    check(
        zyx.scatter(zyx.Tensor(X), axis, zyx.Tensor(index), zyx.Tensor(source), reduce),
        scattered(X, axis, index, source, how),
    )


def test_scatter_takes_a_number_and_small_index_types():
    index = np.array([[0, 2]], dtype=np.int8)
    found = zyx.scatter(zyx.zeros(2, 3), 1, zyx.Tensor(index), 5.0)
    assert found.tolist() == [[5.0, 0.0, 5.0], [0.0, 0.0, 0.0]]
    wide = zyx.scatter(zyx.zeros(2, 300), 1, zyx.Tensor(index), 1.0)
    assert wide.sum().item() == 2.0


def test_scatter_of_half_precision_sums_in_single():
    index = zyx.zeros(4096, dtype="int32")
    assert zyx.scatter_add(zyx.zeros(1, dtype="float16"), 0, index, 1.0).item() == 4096.0


@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
def test_scatter_reduce_agrees_with_its_definition(reduce, include_self):
    base = np.array([1.5, -2.0, 3.0, 4.0])
    index = np.array([0, 0, 2, 0, 2])
    source = np.array([1.0, 2.0, 5.0, -3.0, 7.0])
    wanted = base.copy()
    for i in np.unique(index):
        values = source[index == i].tolist() + ([base[i]] if include_self else [])
        combine = {"sum": np.sum, "prod": np.prod, "mean": np.mean, "amax": np.max, "amin": np.min}[reduce]
        wanted[i] = combine(values)
    found = zyx.scatter_reduce(
        zyx.Tensor(base), 0, zyx.Tensor(index), zyx.Tensor(source), reduce, include_self=include_self
    )
    check(found, wanted)


def test_scatter_says_what_does_not_fit():
    x, index = zyx.Tensor(X), zyx.Tensor(np.zeros((2, 2, 2), int))
    with pytest.raises(ShapeError, match=r"source .* is smaller than index"):
        zyx.scatter(x, 0, index, zyx.ones(1, 2, 2))
    with pytest.raises(ShapeError, match="reduce is one of"):
        zyx.scatter(x, 0, index, 1.0, "average")
    with pytest.raises(ShapeError, match='reduce is "sum", "prod", "mean"'):
        zyx.scatter_reduce(x, 0, index, x, "median")
    with pytest.raises(DTypeError, match="an index is of integers"):
        zyx.scatter(x, 0, zyx.ones(2, 2, 2), 1.0)


def test_put_writes_by_place():
    wanted = X.copy()
    np.put(wanted, [0, -1, 7], [1.0, 2.0, 3.0])
    check(zyx.put(zyx.Tensor(X), [0, -1, 7], zyx.Tensor([1.0, 2.0, 3.0])), wanted)
    np.put(wanted, [[1, 2]], 9.0)
    check(zyx.put(zyx.Tensor(wanted), [[1, 2]], 9.0), wanted)
    with pytest.raises(ShapeError, match=r"values \(2,\) for indices \(1,\)"):
        zyx.put(zyx.Tensor(X), [0], zyx.ones(2))
    with pytest.raises(IndexRangeError, match="index 60 is out of range"):
        zyx.put(zyx.Tensor(X), [60], 1.0)


def test_one_hot():
    x = zyx.Tensor([[0, 2], [1, 5]])
    wanted = np.eye(6, dtype=np.int64)[x.numpy()]
    assert zyx.one_hot(x).dtype is zyx.int64
    check(zyx.one_hot(x), wanted)
    check(zyx.one_hot(x, 3), wanted[..., :3])
    check(zyx.one_hot(x, 6, axis=0), np.moveaxis(wanted, -1, 0))
    assert zyx.one_hot(x, 6, dtype="float32").dtype is zyx.float32
    assert zyx.one_hot(zyx.Tensor([200], zyx.uint8), 300).argmax().item() == 200
    assert zyx.one_hot(zyx.Tensor([-1, 1]), 2).tolist() == [[0, 0], [0, 1]]
    with pytest.raises(DTypeError, match="one_hot takes integers, not float32"):
        zyx.one_hot(zyx.ones(2))


def test_nonzero_and_masked_select_agree_with_numpy():
    mask = X > 0.5
    for found, wanted in zip(zyx.nonzero(zyx.Tensor(mask)), np.nonzero(mask), strict=True):
        assert found.dtype is zyx.int64
        check(found, wanted)
    check(zyx.masked_select(zyx.Tensor(X), zyx.Tensor(mask)), X[mask])
    check(zyx.masked_select(zyx.Tensor(X), zyx.Tensor(mask[0, 0])), X[:, :, mask[0, 0]].reshape(-1))
    with pytest.raises(ShapeError, match="nonzero takes at least one axis"):
        zyx.nonzero(zyx.Tensor(1.0))


@pytest.mark.parametrize("shapes", [((3,), (3,), (3,)), ((4, 1), (1, 3), ()), ((2, 1), (), (3,))])
def test_where_chooses_and_broadcasts(shapes):
    condition, x, y = (RNG.standard_normal(shape) for shape in shapes)
    wanted = np.where(condition > 0, x, y)
    check(zyx.where(zyx.Tensor(condition) > 0, zyx.Tensor(x), zyx.Tensor(y)), wanted)
    check((zyx.Tensor(condition) > 0).where(zyx.Tensor(x), y), wanted)


def test_where_takes_numbers_and_does_not_let_nan_leak():
    mask = zyx.Tensor([True, False])
    assert zyx.where(mask, 1.0, float("nan")).tolist()[0] == 1.0
    assert zyx.where(mask, 1.0, 0.0).dtype is zyx.float32
    assert zyx.where(mask, 1, 0).dtype is zyx.int64
    assert zyx.where(mask, zyx.Tensor([1, 2], zyx.int8), 3).dtype is zyx.int8
    assert zyx.where(zyx.Tensor([2.0, 0.0]), 1, 0).tolist() == [1, 0]
    assert zyx.where(np.array([True, False]), zyx.Tensor([1.0, 2.0]), -np.inf).tolist() == [1.0, -np.inf]


def test_masked_fill_keeps_the_dtype():
    x = zyx.Tensor([1, 2, 3], zyx.int8)
    found = zyx.masked_fill(x, zyx.Tensor([True, False, True]), 9)
    assert found.dtype is zyx.int8
    assert found.tolist() == [9, 2, 9]
    assert x.masked_fill(zyx.Tensor([[True], [False]]), zyx.Tensor(7)).tolist() == [[7, 7, 7], [1, 2, 3]]
    with pytest.raises(DTypeError, match="300 does not fit int8"):
        zyx.masked_fill(x, zyx.Tensor([True] * 3), 300)


def test_clip_bounds_on_either_side_and_passes_nan_on():
    x = np.array([-3.0, 0.5, 7.0, np.nan])
    assert np.array_equal(zyx.clip(zyx.Tensor(x), min=zyx.ones(4)).numpy(), np.clip(x, 1, None), equal_nan=True)
    assert zyx.clip(zyx.Tensor([1, 5, 9]), 2, 6).tolist() == [2, 5, 6]


def test_nan_to_num():
    x = np.array([np.nan, np.inf, -np.inf, 1.0], dtype=np.float32)
    assert np.array_equal(zyx.nan_to_num(zyx.Tensor(x)).numpy(), np.nan_to_num(x))


def test_closeness_agrees_with_numpy():
    x = np.array([1.0, 1.0, np.inf, np.inf, np.nan, 1.0, 0.0])
    y = np.array([1.0, 1.0 + 1e-6, np.inf, -np.inf, np.nan, np.inf, 1e-9])
    for equal_nan in (False, True):
        found = zyx.isclose(zyx.Tensor(x), zyx.Tensor(y), equal_nan=equal_nan)
        assert np.array_equal(found.numpy(), np.isclose(x, y, equal_nan=equal_nan))
    assert zyx.allclose(zyx.Tensor([1.0]), zyx.Tensor([1.0 + 1e-7])) is True
    assert zyx.allclose(zyx.Tensor([1.0]), 2.0) is False
    assert zyx.array_equal(zyx.Tensor([1, 2]), np.array([1, 2])) is True
    assert zyx.array_equal(zyx.Tensor([1, 2]), zyx.Tensor([[1, 2]])) is False
