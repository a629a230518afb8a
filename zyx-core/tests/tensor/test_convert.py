"""Values that leave: arrays, numbers, text, other libraries, pickles; and what a tensor is to Python."""

import copy
import math
import pickle

import ml_dtypes
import numpy as np
import pytest

import zyx
from zyx import dtype as dtypes
from zyx.errors import DTypeError, SettingsError, ShapeError, SharingError

DTYPES = [dtype.name for dtype in dtypes.ALL]


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_go_there_and_back_in_every_dtype(dtype):
    wanted = np.array([[0, 1], [1, 0]]).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    x = zyx.Tensor(wanted)
    assert x.dtype.name == dtype
    assert x.numpy().dtype == wanted.dtype
    assert np.array_equal(x.numpy(), wanted)
    assert x.tolist() == wanted.astype(np.float64).tolist()
    assert type(x.tolist()[0][0]) in (bool, int, float)
    back = pickle.loads(pickle.dumps(x))
    assert back.dtype is x.dtype
    assert np.array_equal(back.numpy(), wanted)


def test_arrays_are_new_each_time():
    x = zyx.ones(3)
    first = x.numpy()
    first[0] = 7
    assert x.tolist() == [1.0, 1.0, 1.0]
    assert first.flags.writeable


def test_numpy_functions_take_tensors():
    x = zyx.Tensor([1.0, 4.0])
    assert np.asarray(x).dtype == np.float32
    assert np.asarray(x, np.float64).dtype == np.float64
    assert np.sqrt(x).tolist() == [1.0, 2.0]
    assert np.array(x, copy=True).tolist() == [1.0, 4.0]
    with pytest.raises(SharingError, match="copy=False cannot be kept"):
        np.asarray(x, copy=False)


def test_one_element_is_a_number():
    assert float(zyx.Tensor([[2.5]])) == 2.5
    assert int(zyx.Tensor(2.9)) == 2
    assert bool(zyx.Tensor([0.0])) is False
    assert complex(zyx.Tensor(2)) == 2 + 0j
    assert zyx.Tensor(True).item() is True
    assert isinstance(zyx.Tensor(3, "uint8").item(), int)
    assert isinstance(zyx.Tensor(1.5, "bfloat16").item(), float)
    assert [10, 20, 30][zyx.Tensor(1)] == 20
    assert f"{zyx.Tensor(1.23456):.2f}" == "1.23"
    assert f"{zyx.Tensor([1])}".startswith("Tensor([1]")


def test_several_elements_are_no_number():
    for function in (float, int, bool, complex, zyx.Tensor.item):
        with pytest.raises(ShapeError, match=r"only a tensor of one element is a number; the shape is \(2,\)"):
            function(zyx.ones(2))
    with pytest.raises(DTypeError, match=r"an index is an integer of rank 0, not float32\[\]"):
        [1, 2][zyx.Tensor(1.0)]
    with pytest.raises(DTypeError, match=r"an index is an integer of rank 0, not int64\[1\]"):
        [1, 2][zyx.Tensor([1])]


def test_tensors_hash_by_identity_and_compare_by_element():
    x, y = zyx.ones(2), zyx.ones(2)
    assert len({x, y, x}) == 2
    assert {x: 1}[x] == 1
    assert (x == y).tolist() == [True, True]


def test_copies_are_tensors_of_their_own():
    x = zyx.ones(2)
    for twin in (copy.copy(x), copy.deepcopy(x), x.clone()):
        twin.assign([5.0, 5.0])
        assert x.tolist() == [1.0, 1.0]


def test_dlpack_goes_both_ways():
    x = zyx.Tensor([[1, 2], [3, 4]], "int16")
    assert x.__dlpack_device__() == (1, 0)
    assert np.from_dlpack(x).tolist() == [[1, 2], [3, 4]]
    array = np.arange(6.0).reshape(2, 3)[:, ::2]
    found = zyx.from_dlpack(array)
    assert found.dtype is zyx.float64
    assert found.tolist() == array.tolist()
    assert zyx.from_dlpack(x).tolist() == x.tolist()

    class Foreign:
        def __dlpack__(self, **options):
            return array.__dlpack__(**options)

        def __dlpack_device__(self):
            return array.__dlpack_device__()

    assert zyx.Tensor(Foreign()).tolist() == array.tolist()


_BOX = np.arange(24.0).reshape(4, 6)


@pytest.mark.parametrize(
    "array",
    [
        _BOX[::-1],
        _BOX[::-1, ::-2],
        _BOX[2:0:-1, 1:4],
        _BOX.T[::-1],
        _BOX[:, :4],
        _BOX[::3, ::5],
        np.broadcast_to(_BOX[:, :1], (4, 3)),
        np.broadcast_to(_BOX[::-1, :1], (2, 4, 3)),
        _BOX[:0, ::-1],
        _BOX[::-1, 0],
        np.array(3.0),
        _BOX.astype(np.int8)[:, ::-1],
        (_BOX > 3)[::-1],
        (_BOX + 1j)[::-1, ::-3],
    ],
    ids=lambda array: f"{array.dtype}{array.shape}{array.strides}",
)
@pytest.mark.parametrize("writeable", [True, False])
def test_dlpack_takes_every_stride(array, writeable):
    view = array.view()
    if not writeable:
        view.flags.writeable = False
    found = zyx.from_dlpack(view)
    assert found.shape == array.shape
    assert np.array_equal(found.numpy(), array)


def test_what_dlpack_cannot_do_is_refused():
    x = zyx.ones(2)
    with pytest.raises(SharingError, match="exported to host memory"):
        x.__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError, match="copy=False"):
        x.__dlpack__(copy=False)
    with pytest.raises((BufferError, RuntimeError), match="dtype"):  # which NumPy does not know
        np.from_dlpack(x.astype(zyx.bfloat16))
    with pytest.raises(SharingError, match="copy=False"):
        zyx.from_dlpack(np.ones(4)[::2], copy=False)
    with pytest.raises(DTypeError, match="takes an object with __dlpack__, not list"):
        zyx.from_dlpack([1.0])

    class OnAnotherDevice:
        def __dlpack__(self, **options):
            raise BufferError("on the moon")

        def __dlpack_device__(self):
            return (2, 0)

    with pytest.raises(SharingError, match=r"this OnAnotherDevice is on device \(2, 0\), whose"):
        zyx.from_dlpack(OnAnotherDevice())


def test_text_has_values_dtype_and_device():
    assert repr(zyx.Tensor([1.5, -2.0])) == "Tensor([ 1.5, -2. ], dtype=float32, device=oracle:0)"
    assert repr(zyx.Tensor([[1, 2], [3, 4]])) == ("Tensor([[1, 2],\n        [3, 4]], dtype=int64, device=oracle:0)")
    assert repr(zyx.Tensor(True)) == "Tensor(True, dtype=bool, device=oracle:0)"
    assert repr(zyx.Tensor([0.1], "bfloat16")) == "Tensor([0.10009766], dtype=bfloat16, device=oracle:0)"
    assert repr(zyx.zeros(0, 3)) == "Tensor([], shape=(0, 3), dtype=float32, device=oracle:0)"
    assert repr(zyx.Tensor([math.nan, math.inf])) == "Tensor([nan, inf], dtype=float32, device=oracle:0)"


def test_text_of_large_tensors_has_gaps_and_computes_what_it_shows():
    x = zyx.arange(10**6).reshape(1000, 1000)
    text = repr(x)
    assert text.startswith("Tensor([[     0,      1,      2, ...,")
    assert text.endswith("shape=(1000, 1000), dtype=int64, device=oracle:0)")
    assert text.count("...") == 7
    assert "999999" in text
    assert not x.is_realized
    assert repr(zyx.arange(2000)).startswith("Tensor([   0,    1,    2, ..., 1997, 1998, 1999], shape=(2000,)")


def test_properties():
    x = zyx.zeros((2, 3), dtype="float16")
    assert (x.shape, x.ndim, x.size, x.numel(), x.itemsize, x.nbytes) == ((2, 3), 2, 6, 6, 2, 12)
    assert x.dtype is zyx.float16
    assert x.device == "oracle:0"
    assert not x.is_realized
    assert x.realize() is x
    assert x.is_realized


def test_realising_several_computes_them_together():
    x = zyx.ones(2) + 1
    y = x * 2
    zyx.realize(x, y)
    assert x.is_realized
    assert y.is_realized
    zyx.realize()


def test_bitcast_reads_the_bits():
    assert zyx.Tensor([1.0]).bitcast("uint32").item() == 0x3F800000
    assert zyx.Tensor([0x3F800000], "int32").bitcast(zyx.float32).item() == 1.0
    with pytest.raises(DTypeError, match="cannot read the bits of float32 as bool"):
        zyx.ones(2).bitcast("bool")


def test_detached_and_contiguous_tensors_have_the_same_values():
    x = zyx.Tensor([[1.0, 2.0], [3.0, 4.0]])
    assert x.T.contiguous().tolist() == x.detach().T.tolist() == [[1.0, 3.0], [2.0, 4.0]]


def test_the_namespace_is_that_of_the_array_api():
    x = zyx.ones(2)
    assert x.__array_namespace__() is zyx
    assert x.__array_namespace__(api_version="2025.12") is zyx
    with pytest.raises(SettingsError, match=r"version 1999.01 of the Array API"):
        x.__array_namespace__(api_version="1999.01")
