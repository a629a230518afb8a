"""Arrays of other libraries in host memory that tensors use where they are: what copy=False asks for."""

import gc
import sys

import numpy as np
import pytest

import zyx
from zyx.errors import SharingError
from zyx.runtime.runtime import Runtime, use

pytestmark = pytest.mark.usefixtures("interpreter")


@pytest.mark.parametrize("make", [zyx.asarray, zyx.from_dlpack])
@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3),
        np.arange(9, dtype="int16")[1:],
        np.ones(5, "complex64")[2:],
        np.array(5, "uint8"),
        np.ones((0, 3)),
    ],
    ids=lambda array: f"{array.dtype}{list(array.shape)}",
)
def test_the_memory_of_an_array_is_the_tensors(make, array):
    array = array.copy() if array.base is None else array
    x = make(array, copy=False)
    assert (x.shape, x.dtype.numpy) == (array.shape, array.dtype)
    assert np.array_equal((x + zyx.zeros_like(x)).numpy(), array)
    array[...] = 0
    assert not x.numpy().any()  # what is written later is seen


def test_what_was_computed_before_stays():
    array = np.ones(3)
    x = zyx.asarray(array, copy=False)
    before, later = (x * 2).numpy(), x * 2
    array[:] = 5
    assert before.tolist() == [2, 2, 2]
    assert later.tolist() == [10, 10, 10]


def test_assignments_do_not_reach_the_array():
    array = np.zeros(4)
    x = zyx.asarray(array, copy=False)
    x[1] = 7.0
    assert x.tolist() == [0, 7, 0, 0]
    y = zyx.asarray(array, copy=False)
    y += 1
    assert y.tolist() == [1, 1, 1, 1]
    step = zyx.jit(lambda z: z.assign(z + 1))
    for _ in range(3):
        step(zyx.asarray(array, copy=False))
    assert not array.any()


def test_the_array_is_kept_as_long_as_it_is_used_and_takes_no_room():
    array = np.ones(1000)
    references, used = sys.getrefcount(array), zyx.memory_stats()
    x = zyx.asarray(array, copy=False)
    later = x + 1
    assert sys.getrefcount(array) > references
    del x
    gc.collect()
    assert later.sum().item() == 2000
    del later
    gc.collect()
    assert zyx.ones(1).item() == 1
    assert zyx.Tensor([1.0]).tolist() == [1.0]  # which gives back what died
    assert sys.getrefcount(array) == references
    assert used.keys() == zyx.memory_stats().keys()


class OfDLPack:
    """Offers an array by DLPack alone."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


def test_objects_with_dlpack_are_used_where_they_are():
    array = np.zeros(2)
    for make in (zyx.asarray, zyx.from_dlpack):
        x = make(OfDLPack(array), copy=False)
        array += 1
        assert x.tolist() == array.tolist()


def test_arrays_that_must_not_be_written_to_are_read():
    array = np.ones(2)
    array.flags.writeable = False
    assert zyx.asarray(array, copy=False).tolist() == [1, 1]


UNALIGNED = np.zeros(17, np.uint8)[1:].view(np.float64)


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.ones((2, 3)).T, "one after another"), (np.ones(6)[::2], "one after another"),
        (np.ones(3)[::-1], "one after another"), (UNALIGNED, "not aligned"),
        (np.ones(3, ">f8"), "elements are >f8"), (np.array(["a"]), "elements are <U1"),
    ],
)  # fmt: skip
def test_what_needs_a_copy_is_refused(array, text):
    with pytest.raises(SharingError, match=f"asarray: this ndarray cannot be used without a copy.*{text}"):
        zyx.asarray(array, copy=False)


def test_what_is_no_array_is_refused():
    for data in (1.0, [1.0], np.float64(1), (np.ones(2),)):
        with pytest.raises(SharingError, match=r"asarray: \w+ is copied to the device; copy=False cannot be kept"):
            zyx.asarray(data, copy=False)
    with pytest.raises(SharingError, match="its elements are float64, not float32"):
        zyx.asarray(np.ones(2), "float32", copy=False)


def test_functions_that_are_traced_take_no_memory_of_others():
    with pytest.raises(SharingError, match="a function is being traced"):
        zyx.jit(lambda x: x + zyx.asarray(np.ones(2), copy=False))(zyx.ones(2))


@pytest.mark.parametrize("view_of", [lambda x: np.asarray(x, copy=False), lambda x: np.from_dlpack(x, copy=False)])
def test_values_are_viewed_where_they_are_and_stay(view_of):
    x = zyx.Tensor(np.arange(6.0).reshape(2, 3)) + 1
    view = view_of(x)
    assert np.array_equal(view, np.arange(1.0, 7.0).reshape(2, 3))
    assert np.shares_memory(view, view_of(x))
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 0.0
    x[0] = 9.0
    x += 1
    x.realize()
    assert np.array_equal(view, np.arange(1.0, 7.0).reshape(2, 3))
    del x
    gc.collect()
    others = [zyx.Tensor(np.full((2, 3), 8.0)) + i for i in range(4)]
    assert [other.numpy()[0, 0] for other in others] == [8, 9, 10, 11]
    assert np.array_equal(view, np.arange(1.0, 7.0).reshape(2, 3))


def test_views_of_values_that_would_be_others_are_refused():
    x = zyx.ones(3)
    with pytest.raises(SharingError, match="values of float32 cannot become float64"):
        np.asarray(x, "float64", copy=False)
    assert np.asarray(x, "float32", copy=False).tolist() == [1, 1, 1]
    assert np.asarray(zyx.zeros(0, 2), copy=False).shape == (0, 2)
    assert np.asarray(x.astype("bfloat16"), copy=False).dtype == zyx.bfloat16.numpy
    with pytest.raises(SharingError, match=r"__dlpack__: copy=False cannot be kept"):
        x.__dlpack__(copy=False)  # which says nothing of memory that is only read


def test_a_device_with_memory_of_its_own_is_named(monkeypatch):
    monkeypatch.setenv("ZYX_DUMMY_ENABLED", "1")
    runtime = Runtime()
    with use(runtime), pytest.raises(SharingError, match="dummy:0 does not compute in host memory"):
        zyx.asarray(np.ones(2), device="dummy:0", copy=False)
    runtime.close()
