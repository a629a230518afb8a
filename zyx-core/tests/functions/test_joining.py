"""Joining, splitting, repeating and borders against NumPy."""

import math

import numpy as np
import pytest

import zyx
from zyx.errors import ShapeError

X = np.arange(12.0).reshape(3, 4)


def check(found, wanted):
    assert found.shape == wanted.shape
    assert np.array_equal(found.numpy(), wanted)


def test_concat_takes_parts_of_different_length_also_empty_ones():
    parts = [X[:, :1], X[:, :0], X, X[:, :2]]
    check(zyx.concat([zyx.Tensor(part) for part in parts], 1), np.concatenate(parts, 1))
    check(zyx.concat([zyx.Tensor(X)], None), X.reshape(-1))


def test_concat_keeps_negative_zeros_infinities_and_nan_where_they_are():
    found = zyx.concat([zyx.Tensor([-0.0, math.nan]), zyx.Tensor([math.inf, 1.0])]).numpy()
    assert np.signbit(found[0])
    assert np.isnan(found).tolist() == [False, True, False, False]
    assert found[2:].tolist() == [math.inf, 1.0]


def test_concat_promotes_and_takes_arrays():
    found = zyx.concat([zyx.Tensor([1, 2], zyx.int8), np.array([3.5], np.float32)])
    assert found.dtype is zyx.float32
    assert found.tolist() == [1.0, 2.0, 3.5]
    assert zyx.concat([zyx.Tensor([True]), zyx.Tensor([False])]).tolist() == [True, False]


def test_parts_that_do_not_fit_are_named():
    with pytest.raises(ShapeError, match=r"concat: shapes \(3, 4\), \(2, 5\) differ on an axis other than 0"):
        zyx.concat([zyx.Tensor(X), zyx.ones(2, 5)])
    with pytest.raises(ShapeError, match="concat takes at least one tensor"):
        zyx.concat([])
    with pytest.raises(ShapeError, match=r"stack: shapes \(3, 4\), \(4,\) differ"):
        zyx.stack([zyx.Tensor(X), zyx.ones(4)])
    with pytest.raises(ShapeError, match="differ on an axis"):
        zyx.concat([zyx.Tensor(X), zyx.ones(3)])


def test_splitting_by_size_and_by_sizes():
    x = zyx.Tensor(np.arange(10))
    assert [part.tolist() for part in x.split(4)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert [part.shape for part in x.split([3, 0, 7])] == [(3,), (0,), (7,)]
    assert [part.shape for part in x.chunk(3)] == [(4,), (4,), (2,)]
    assert [part.shape for part in zyx.Tensor(X).chunk(2, 1)] == [(3, 2), (3, 2)]
    with pytest.raises(ShapeError, match=r"sizes \[3, 3\] do not add up to 10"):
        x.split([3, 3])
    with pytest.raises(ShapeError, match="at least one position"):
        x.split(0)
    with pytest.raises(ShapeError, match="at least one part"):
        x.chunk(0)


def test_repeat_takes_a_count_for_each_position():
    check(zyx.repeat(zyx.Tensor(X), [2, 0, 1], 0), np.repeat(X, [2, 0, 1], 0))
    check(zyx.repeat(zyx.Tensor(X), zyx.Tensor([1, 2, 3, 0]), 1), np.repeat(X, [1, 2, 3, 0], 1))
    check(zyx.Tensor(X).tile(2, 1), np.tile(X, (2, 1)))
    with pytest.raises(ShapeError, match=r"\(2,\) counts for axis 0 of size 3"):
        zyx.repeat(zyx.Tensor(X), [1, 2], 0)
    with pytest.raises(ShapeError, match="repeats is an integer"):
        zyx.repeat(zyx.Tensor(X), 1.5)
    with pytest.raises(ShapeError, match="counts are at least 0"):
        zyx.repeat(zyx.Tensor(X), -1)


@pytest.mark.parametrize(("shift", "axis"), [((1, 2), (0, 1)), (3, (0, 1))])
def test_several_axes_roll_as_in_numpy(shift, axis):
    check(zyx.roll(zyx.Tensor(X), shift, axis), np.roll(X, shift, axis))


@pytest.mark.parametrize("indexing", ["xy", "ij"])
def test_meshgrid_agrees_with_numpy(indexing):
    axes = [np.arange(2.0), np.arange(3.0), np.arange(4.0)]
    for count in (1, 2, 3):
        found = zyx.meshgrid(*(zyx.Tensor(a) for a in axes[:count]), indexing=indexing)
        for ours, theirs in zip(found, np.meshgrid(*axes[:count], indexing=indexing), strict=True):
            check(ours, theirs)
    with pytest.raises(ShapeError, match="indexing is"):
        zyx.meshgrid(zyx.ones(2), indexing="yx")


@pytest.mark.parametrize(
    ("widths", "numpy_widths"),
    [(1, 1), ((1, 2), (1, 2)), (((1, 0), (0, 2)), ((1, 0), (0, 2))), (((1, 2),), (1, 2))],
)
@pytest.mark.parametrize(("mode", "theirs"), [("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")])
def test_borders_agree_with_numpy(widths, numpy_widths, mode, theirs):
    check(zyx.pad(zyx.Tensor(X), widths, mode), np.pad(X, numpy_widths, theirs))
    check(zyx.pad(zyx.Tensor(X), widths, value=-1), np.pad(X, numpy_widths, constant_values=-1))


def test_borders_of_infinity_do_not_leak():
    found = zyx.pad(zyx.Tensor([1.0]), 1, value=-math.inf).numpy()
    assert found.tolist() == [-math.inf, 1.0, -math.inf]


def test_fewer_pairs_than_axes_are_for_the_last_ones_and_negative_widths_cut():
    x = np.arange(24.0).reshape(2, 3, 4)
    check(zyx.pad(zyx.Tensor(x), ((1, 1), (0, 2))), np.pad(x, ((0, 0), (1, 1), (0, 2))))
    check(zyx.pad(zyx.Tensor(x), ((0, 0), (-1, 0), (1, -2))), np.pad(x[:, 1:, :2], ((0, 0), (0, 0), (1, 0))))


@pytest.mark.parametrize(
    ("widths", "mode", "text"),
    [
        (4, "reflect", "mode reflect adds 0 to 2 positions to axis 0"),
        (4, "circular", "mode circular adds 0 to 3 positions"),
        (-3, "replicate", "cut more than there is"), (1, "mirror", 'mode is "constant"'),
        (-5, "constant", "cut more than there is"),
        ((1, 2, 3), "constant", "one number, one pair or a pair for each axis"),
        (((1, 1),) * 3, "constant", "3 pairs of widths for 2 axes"),
    ],
)  # fmt: skip
def test_borders_that_do_not_fit_are_named(widths, mode, text):
    with pytest.raises(ShapeError, match=text):
        zyx.pad(zyx.Tensor(X), widths, mode)


@pytest.mark.parametrize("counts", [(-1,), (2, -3)])
def test_tile_refuses_negative_counts(counts):
    with pytest.raises(ShapeError, match="at least 0, not -"):
        zyx.tile(zyx.Tensor(X), counts)
