"""Pieces, columns and grids that are written as indices, beside NumPy's."""

import numpy as np
import pytest

import zyx
from zyx.errors import ArgumentError, ShapeError

pytestmark = pytest.mark.usefixtures("interpreter")


def ours(key):
    """Return a key with tensors for its arrays."""
    if isinstance(key, tuple):
        return tuple(map(ours, key))
    return zyx.Tensor(key) if isinstance(key, np.ndarray) else key


PIECES = [
    (np.arange(3), 0, slice(1, 4)), (np.arange(3.0), [7, 8]), (slice(-1, 1, 5j),), (slice(5),), (slice(4, 0, -2), 9),
    (np.ones((2, 3)), np.zeros((1, 3))), (np.bool_(True), np.arange(2, dtype=np.int64)),
]  # fmt: skip
COLUMNS = [
    (np.ones(3), np.arange(3)), (np.ones((3, 2)), np.arange(3.0)), (slice(0, 3), slice(1, 4)), (np.arange(2), [5, 6]),
    (np.ones((2, 3, 1)), np.zeros((2, 3, 2))), (1, 2),
]  # fmt: skip
GRIDS = [
    (slice(0, 2), slice(0, 3)),
    (slice(0, 1, 5j), slice(3)),
    (slice(1, 5, 2), slice(0, 2), slice(-1, 1)),
    (slice(3),),
]


@pytest.mark.parametrize("key", PIECES, ids=str)
def test_pieces_lie_one_behind_the_other(key):
    np.testing.assert_array_equal(zyx.r_[ours(key)].numpy(), np.r_[key])


@pytest.mark.parametrize("key", COLUMNS, ids=str)
def test_columns_lie_side_by_side(key):
    np.testing.assert_array_equal(zyx.c_[ours(key)].numpy(), np.c_[key])


@pytest.mark.parametrize("key", GRIDS, ids=str)
def test_grids_are_those_of_numpy(key):
    np.testing.assert_array_equal(zyx.mgrid[key].numpy(), np.mgrid[key])
    found, wanted = zyx.ogrid[key], np.ogrid[key]
    assert len(found) == len(wanted)
    for each, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(each.numpy(), other)


def test_one_slice_is_a_range():
    assert zyx.mgrid[1:4].tolist() == zyx.ogrid[1:4].tolist() == zyx.r_[1:4].tolist() == [1, 2, 3]
    assert zyx.r_[zyx.ones(2), 3].dtype == zyx.float32


@pytest.mark.parametrize("key", ["r", ("0,2", [1]), (), slice(1, None)], ids=str)
def test_what_is_no_piece_is_refused(key):
    with pytest.raises(ArgumentError, match="r_"):
        zyx.r_[key]


@pytest.mark.parametrize("key", [3, (), (slice(2), 1), slice(None)], ids=str)
def test_what_is_no_grid_is_refused(key):
    with pytest.raises(ArgumentError, match="mgrid"):
        zyx.mgrid[key]
    with pytest.raises(ShapeError):
        zyx.c_[zyx.ones(2), zyx.ones(3)]


A, B, C = np.ones((2, 2)), np.arange(4.0).reshape(2, 2), np.arange(3.0)


@pytest.mark.parametrize(
    "blocks",
    [[[A, B], [B, A]], [A, B], [C, C], A, [[[A]], [[B]]], [[C], [C]], [[np.float64(1), C], [C, np.float64(2)]]],
)
def test_blocks_are_those_of_numpy(blocks):
    def with_tensors(part):
        return [with_tensors(each) for each in part] if isinstance(part, list) else zyx.Tensor(part)

    np.testing.assert_array_equal(zyx.block(with_tensors(blocks)).numpy(), np.block(blocks))


def test_lists_of_blocks_are_whole_and_equally_deep():
    x = zyx.ones(2)
    for blocks in ([], [[x], []], [x, [x]]):
        with pytest.raises(ArgumentError, match="block: "):
            zyx.block(blocks)
