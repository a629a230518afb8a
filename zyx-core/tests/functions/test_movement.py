"""Shapes and orders of axes against NumPy, alone and in chains."""

import numpy as np
import pytest

import zyx
from zyx.errors import ShapeError

X = np.arange(24.0).reshape(2, 3, 4)


def check(found, wanted):
    assert isinstance(found, zyx.Tensor)
    assert found.shape == wanted.shape
    assert np.array_equal(found.numpy(), wanted)


def test_reshape_takes_sizes_or_a_tuple_and_works_one_out():
    x = zyx.Tensor(X)
    check(x.reshape(6, 4), X.reshape(6, 4))
    check(x.reshape((6, -1)), X.reshape(6, 4))
    check(zyx.reshape(x, (-1,)), X.reshape(-1))
    check(zyx.reshape(x, [4, 6], copy=True), X.reshape(4, 6))
    check(zyx.zeros(0, 3).reshape(3, 0), np.zeros((3, 0), np.float32))
    check(zyx.Tensor(5.0).reshape(1, 1), np.full((1, 1), 5.0, np.float32))
    check(zyx.ones(1, 1).reshape(()), np.ones((), np.float32))


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ((5, 5), r"cannot reshape \(2, 3, 4\) \(24 elements\) to \(5, 5\) \(25 elements\)"),
        ((-1, -1), "only one size"), ((-1, 7), "no multiple of 7"), ((-2, 12), "negative size"), ((2.5,), "an integer"),
    ],
)  # fmt: skip
def test_reshape_says_what_does_not_fit(shape, text):
    with pytest.raises(ShapeError, match=text):
        zyx.Tensor(X).reshape(shape)


def test_flatten_ravel_and_unflatten():
    x = zyx.Tensor(X)
    check(x.flatten(), X.reshape(-1))
    check(x.flatten(1), X.reshape(2, 12))
    check(x.flatten(0, 1), X.reshape(6, 4))
    check(x.flatten(-2, -1), X.reshape(2, 12))
    check(zyx.Tensor(1.0).flatten(), np.ones(1, np.float32))
    check(x.ravel(), X.reshape(-1))
    check(zyx.zeros(0, 3).ravel(), np.zeros(0, np.float32))
    check(x.unflatten(2, (2, -1)), X.reshape(2, 3, 2, 2))
    with pytest.raises(ShapeError, match="start_axis 2 lies behind end_axis 0"):
        x.flatten(2, 0)


def test_axes_of_size_one_come_and_go():
    x = zyx.Tensor(X)
    for axis in (0, 1, 3, -1, -4, (0, 2), (0, -1)):
        check(zyx.expand_dims(x, axis), np.expand_dims(X, axis))
    y = X.reshape(1, 2, 1, 12)
    for axis in (0, 2, -2, (0, 2), None):
        check(zyx.squeeze(zyx.Tensor(y), axis), np.squeeze(y, axis))
    assert zyx.squeeze(zyx.ones(1, 1)).shape == ()
    with pytest.raises(ShapeError, match=r"cannot squeeze axis 1 of \(1, 2, 1, 12\): its size is 2"):
        zyx.squeeze(zyx.Tensor(y), 1)
    with pytest.raises(ShapeError, match="out of range"):
        zyx.expand_dims(x, 5)


def test_broadcasting():
    x = np.arange(3.0).reshape(3, 1)
    check(zyx.broadcast_to(zyx.Tensor(x), (2, 3, 4)), np.broadcast_to(x, (2, 3, 4)))
    check(zyx.Tensor(x).expand(2, -1, 4), np.broadcast_to(x, (2, 3, 4)))
    check(zyx.broadcast_to(zyx.Tensor(x), (0, 3, 1)), np.broadcast_to(x, (0, 3, 1)))
    first, second = zyx.broadcast_arrays(zyx.Tensor(x), zyx.ones(4))
    assert first.shape == second.shape == (3, 4)
    for shape in ((3,), (2, 4), (3, 2, 1)):
        with pytest.raises(ShapeError, match="broadcast"):
            zyx.broadcast_to(zyx.Tensor(x), shape)


def test_orders_of_axes():
    x = zyx.Tensor(X)
    check(x.permute_dims(-1, 0, 1), X.transpose(2, 0, 1))
    check(x.transpose(), X.transpose())
    check(x.transpose((1, 0, 2)), X.transpose(1, 0, 2))
    check(x.transpose(1, 0, 2), X.transpose(1, 0, 2))
    check(x.transpose(0, -1), X.swapaxes(0, 2))
    check(x.t(), X.swapaxes(1, 2))
    check(zyx.ones(3).t(), np.ones(3, np.float32))
    for source, target in (((0, 1), (2, 0)), ((-1, -2), (0, 1))):
        check(zyx.moveaxis(x, source, target), np.moveaxis(X, source, target))


def test_orders_that_are_none_are_refused():
    x = zyx.Tensor(X)
    with pytest.raises(ShapeError, match="names 2 of the 3 axes"):
        zyx.permute_dims(x, (0, 1))
    with pytest.raises(ShapeError, match="named twice"):
        zyx.permute_dims(x, (0, 0, 1))
    with pytest.raises(ShapeError, match=r"\.T is of matrices; for shape \(2, 3, 4\) use \.mT"):
        _ = x.T
    with pytest.raises(ShapeError, match="matrix_transpose needs two axes"):
        _ = zyx.ones(3).mT
    with pytest.raises(ShapeError, match="2 axes do not go to 1 positions"):
        zyx.moveaxis(x, (0, 1), (0,))


def test_parts():
    x = zyx.Tensor(X)
    check(x.shrink([(0, 2), (1, 3), (0, 1)]), X[:, 1:3, 0:1])
    check(x.narrow(2, 1, 2), X[..., 1:3])
    check(x.narrow(-1, -2, 2), X[..., 2:4])
    check(x.narrow(0, 2, 0), X[2:2])
    with pytest.raises(ShapeError, match="3 positions from 2 do not lie within axis 2 of size 4"):
        x.narrow(2, 2, 3)


def test_triangles_do_not_let_nan_leak():
    x = zyx.full((2, 2), float("nan"))
    assert zyx.tril(x).numpy()[0, 1] == 0.0
    with pytest.raises(ShapeError, match="triu needs matrices"):
        zyx.triu(zyx.ones(3))


@pytest.mark.parametrize(("size", "step", "gap"), [(1, 1, 1), (2, 1, 1), (3, 2, 1), (2, 1, 3), (2, 3, 2), (9, 1, 1)])
def test_windows_agree_with_numpy(size, step, gap):
    x = np.arange(16.0).reshape(2, 8)
    reach = gap * (size - 1) + 1
    if reach <= 8:
        wanted = np.lib.stride_tricks.sliding_window_view(x, reach, axis=1)[:, ::step, ::gap]
    else:
        wanted = np.zeros((2, 0, size))
    check(zyx.windows(zyx.Tensor(x), (size,), step, gap), wanted)


def test_windows_over_two_axes():
    x = np.arange(30.0).reshape(5, 6)
    wanted = np.lib.stride_tricks.sliding_window_view(x, (2, 3))[::2, ::1]
    check(zyx.windows(zyx.Tensor(x), (2, 3), (2, 1)), wanted)
    check(zyx.unfold(zyx.Tensor(x), 0, 2, 3), np.lib.stride_tricks.sliding_window_view(x, 2, axis=0)[::3])
    with pytest.raises(ShapeError, match=r"stride .* must be at least 1"):
        zyx.windows(zyx.Tensor(x), (2,), 0)
    with pytest.raises(ShapeError, match="at least one element"):
        zyx.windows(zyx.Tensor(x), (0,))


@pytest.mark.parametrize("k", [2**32, -(2**32), 2**31 - 1, -(2**31)])
def test_diagonals_far_beyond_the_matrix_are_none_of_it(k):
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(zyx.eye(2, 3, k=k).numpy(), np.eye(2, 3, k=int(np.clip(k, -9, 9))))
    np.testing.assert_array_equal(zyx.tril(zyx.Tensor(x), k).numpy(), np.tril(x, int(np.clip(k, -9, 9))))
    np.testing.assert_array_equal(zyx.triu(zyx.Tensor(x), k).numpy(), np.triu(x, int(np.clip(k, -9, 9))))


def test_shapes_are_broadcast_as_in_numpy():
    for shapes in ((), ((),), (3,), ((3, 1), (1, 4)), ((2, 1, 3), (3,), ()), ((0,), (1,)), ([2, 1], 5)):
        assert zyx.broadcast_shapes(*shapes) == np.broadcast_shapes(*shapes)
    for shapes in (((2,), (3,)), ((-1,), (1,)), ((2.5,),)):
        with pytest.raises(ValueError, match=r"\(2,\)|negative|integer"):
            zyx.broadcast_shapes(*shapes)
