"""Indices, starts of slices and positions of assignment among the arguments: one trace for all that lie within."""

from __future__ import annotations

import numpy as np
import pytest

import zyx
from zyx.kernel.count import count

DATA = np.random.default_rng(3).standard_normal((20, 6)).astype(np.float32)


@pytest.fixture
def x(interpreter):
    return zyx.Tensor(DATA).realize()


@pytest.fixture
def stored(interpreter, monkeypatch):
    """What the kernels compiled since store, in bytes, as far as is known before they run."""
    found = []
    device = interpreter.device("interpreter:0")
    compile_ = type(device).compile
    monkeypatch.setattr(
        type(device), "compile", lambda self, kernel: found.append(count(kernel).stored_bytes) or compile_(self, kernel)
    )
    return found


def traces_of(function, *calls):
    for call in calls:
        function(*call)
    return len(function.traces)


def test_an_index_outside_is_an_error_of_its_call_and_of_no_other(x):
    picked = zyx.jit(lambda x, i: (x * 2)[i])
    for i in (0, 3, -1):
        np.testing.assert_array_equal(picked(x, i).numpy(), DATA[i] * 2)
    for i in (20, -21, 10**12):
        with pytest.raises(zyx.errors.IndexRangeError, match=f"index {i} is out of range for axis 0 of size 20"):
            picked(x, i)
    np.testing.assert_array_equal(picked(x, 7).numpy(), DATA[7] * 2)
    assert len(picked.traces) == 2  # for the first call, and for all others


def test_an_index_outside_at_the_second_call_is_an_error_too(x):
    picked = zyx.jit(lambda x, i: x[i])
    picked(x, 1)
    with pytest.raises(IndexError):
        picked(x, 99)
    assert traces_of(picked, (x, 2), (x, 3), (x, 4)) == 2


def test_a_slice_that_reaches_over_an_end_is_what_it_is_in_numpy(x):
    cut = zyx.jit(lambda x, i: x[i : i + 4])
    for i in (0, 5, 9, 15, 16, 17, 19, 25, -4, -6, -3, -30):
        np.testing.assert_array_equal(cut(x, i).numpy(), DATA[i : i + 4])


def test_bounds_may_be_computed(x):
    cut = zyx.jit(lambda x, i, n: x[2 * i + 1 - i : 3 + i, n % 3 : n % 3 + 2] + x[i // 2, 0])
    for i, n in ((1, 2), (2, 7), (4, 4), (9, 0), (5, -1)):
        expected = DATA[i + 1 : i + 3, n % 3 : n % 3 + 2] + DATA[i // 2, 0]
        np.testing.assert_array_equal(cut(x, i, n).numpy(), expected)
    assert len(cut.traces) == 2


@pytest.mark.parametrize("index", [1.0, 2.5, None])
def test_a_float_is_no_index(x, index):
    picked = zyx.jit(lambda x, i: x[i] if i is not None else x[0.5])
    picked(x, 1)
    picked(x, 2)
    with pytest.raises(zyx.errors.DTypeError):
        picked(x, index)


def test_a_bool_is_a_mask_as_it_is_outside(x):
    picked = zyx.jit(lambda x, i: x[i])
    for i in (1, 2, True, False):
        assert picked(x, i).shape == DATA[i].shape


def test_gradients_pass_through_places(x):
    @zyx.jit
    def slope(x, i):
        return zyx.grad(lambda x: (x[i : i + 2, i % 3] ** 2).sum() + zyx.roll(x, i, 0)[0].sum())(x)

    for i in (1, 2, 5, 11):
        expected = np.zeros_like(DATA)
        expected[i : i + 2, i % 3] = 2 * DATA[i : i + 2, i % 3]
        expected[-i] += 1
        np.testing.assert_allclose(slope(x, i).numpy(), expected, rtol=1e-6)
    assert len(slope.traces) == 2


def test_gradients_pass_through_what_is_written_to(x):
    @zyx.jit
    def slopes(x, y, i):
        def loss(x, y):
            written = x * 1.0
            written[i : i + 2] = y * 3.0
            return (written * written).sum()

        return zyx.grad(loss, argnums=(0, 1))(x, y)

    y = zyx.Tensor(DATA[:2] + 1)
    for i in (1, 2, 5):
        kept = DATA.copy()
        kept[i : i + 2] = 0
        of_x, of_y = slopes(x, y, i)
        np.testing.assert_allclose(of_x.numpy(), 2 * kept, rtol=1e-6)
        np.testing.assert_allclose(of_y.numpy(), 18 * (DATA[:2] + 1), rtol=1e-6)


def test_tensors_are_bounds_of_slices_and_shifts_while_a_function_is_traced(x):
    @zyx.jit
    def moved(x, p):
        y = x * 1.0
        y[:, p : p + 2] = x[:, :2]
        return y[p : p + 3], zyx.roll(x, p, 0), y

    for p in (0, 1, 3, 4):
        expected = DATA.copy()
        expected[:, p : p + 2] = DATA[:, :2]
        for found, wanted in zip(
            moved(x, zyx.Tensor(p)), (expected[p : p + 3], np.roll(DATA, p, 0), expected), strict=True
        ):
            np.testing.assert_array_equal(found.numpy(), wanted)
    assert len(moved.traces) == 1


def test_a_tensor_whose_distance_to_the_end_is_not_known_is_still_an_error(x):
    with pytest.raises(zyx.errors.TraceError):
        zyx.jit(lambda x, p, q: x[p:q])(x, zyx.Tensor(1), zyx.Tensor(3))


class Cache:
    def __init__(self):
        self.values = zyx.zeros((4, 50, 6)).realize()


@pytest.mark.parametrize("how", ["found outside", "given", "not traced"])
def test_what_is_written_to_alone_is_stored(x, stored, how):
    cache = Cache()

    def write(values, row, position):
        values[1, position : position + 2] = row
        values[:, position, 3] = 2.0
        return row * 2

    if how == "found outside":
        step = zyx.jit(lambda row, position: write(cache.values, row, position))
    elif how == "given":
        traced = zyx.jit(write)
        step = lambda row, position: traced(cache.values, row, position)  # noqa: E731
    else:
        step = lambda row, position: (write(cache.values, row, position), cache.values.realize())  # noqa: E731
    row = (x[0] * 1.0).realize()
    expected = np.zeros((4, 50, 6), np.float32)
    for position in range(5):
        step(row, position)
        if position == 0:
            stored.clear()  # what it was before is nobody's alone: all of it is stored once
        expected[1, position : position + 2] = DATA[0]
        expected[:, position, 3] = 2
    np.testing.assert_array_equal(cache.values.numpy(), expected)
    assert stored
    assert max(stored) <= 2 * 6 * 4  # of 4,800 bytes


def test_nobody_sees_what_is_written_to_another_tensor(x):
    write = zyx.jit(lambda values, position: values.__setitem__(position, 5.0))
    values = zyx.Tensor(DATA).realize()
    later, same = values * 2.0, zyx.asarray(values)
    before = values[:]
    for position in range(4):
        write(values, position)
    values[7] = 1.0
    values.realize()
    expected = DATA.copy()
    expected[:4], expected[7] = 5, 1
    np.testing.assert_array_equal(values.numpy(), expected)
    for other, wanted in ((later, DATA * 2), (before, DATA)):
        np.testing.assert_array_equal(other.numpy(), wanted)
    assert same is values or np.array_equal(same.numpy(), DATA)


def test_a_tensor_that_is_given_twice_is_written_to_for_both(x):
    @zyx.jit
    def write(a, b, position):
        a[position] = b[position + 1] * 2
        return a[position] + b[position]

    values = zyx.Tensor(DATA).realize()
    expected = DATA.copy()
    for position in range(5):
        result = write(values, values, position)
        expected[position] = expected[position + 1] * 2
        np.testing.assert_array_equal(result.numpy(), 2 * expected[position])
    np.testing.assert_array_equal(values.numpy(), expected)


def test_what_is_read_elsewhere_is_not_overwritten_before(x):
    shift = zyx.jit(lambda values, i: values.__setitem__(slice(i, i + 3), values[i + 1 : i + 4] * 2))
    values, expected = zyx.Tensor(DATA).realize(), DATA.copy()
    for i in (0, 2, 3, 7):
        shift(values, i)
        expected[i : i + 3] = expected[i + 1 : i + 4].copy() * 2
    np.testing.assert_array_equal(values.numpy(), expected)


def test_an_integer_that_a_dtype_cannot_hold_is_an_error_of_its_call(interpreter):
    plus = zyx.jit(lambda x, i: x + i)
    small = zyx.Tensor(np.arange(3, dtype=np.int8))
    for i in (1, 2, 3):
        plus(small, i)
    with pytest.raises(zyx.errors.DTypeError, match="300 does not fit int8"):
        plus(small, 300)
    below = zyx.jit(lambda x, i: x < i)
    for i in (1, 2, 3, 300, -300, 2):
        np.testing.assert_array_equal(below(small, i).numpy(), np.arange(3) < i)


def test_numbers_and_places_that_do_not_fit_are_nothing_to_lengths_that_vary(interpreter):
    plus = zyx.jit(lambda x, i: (x + i)[i % 3 : i % 3 + 2])
    for length, i in ((5, 1), (7, 2), (9, 3), (11, 4), (13, 250), (15, 5), (17, 255)):
        x = np.arange(length, dtype=np.uint8)
        np.testing.assert_array_equal(plus(zyx.Tensor(x), i).numpy(), (x + np.uint8(i))[i % 3 : i % 3 + 2])
    with pytest.raises(zyx.errors.DTypeError, match="256 does not fit uint8"):
        plus(zyx.Tensor(np.arange(19, dtype=np.uint8)), 256)
    with pytest.raises(zyx.errors.IndexRangeError):
        zyx.jit(lambda x, i: x[i])(zyx.Tensor(np.arange(19, dtype=np.uint8)), 19)
