"""Making tensors of data, numbers and sequences."""

import math

import ml_dtypes
import numpy as np
import pytest

import zyx
from zyx import dtype as dtypes
from zyx.errors import DTypeError, ShapeError, SharingError

DTYPES = [dtype.name for dtype in dtypes.ALL]


@pytest.mark.parametrize(
    ("data", "dtype", "shape"),
    [
        (1.5, "float32", ()), (2, "int64", ()), (True, "bool", ()), ([1, 2], "int64", (2,)),
        ([1.0, 2], "float32", (2,)),
        ([[True], [False]], "bool", (2, 1)), ([], "float32", (0,)), ([[], []], "float32", (2, 0)),
        ((1, (2)), "int64", (2,)),
        (np.float32(1), "float32", ()), (np.float64(1), "float64", ()), (np.ones(2, np.float16), "float16", (2,)),
        ([np.float64(1)], "float64", (1,)), (range(3), "int64", (3,)), ([2**63], "uint64", (1,)),
        (np.ones(2, ml_dtypes.bfloat16), "bfloat16", (2,)), (np.ones(2, ">f4"), "float32", (2,)),
    ],
    ids=lambda value: repr(value).partition(" at 0x")[0],
)  # fmt: skip
def test_data_keeps_its_dtype_and_python_numbers_have_defaults(data, dtype, shape):
    found = zyx.Tensor(data)
    assert found.dtype.name == dtype
    assert found.shape == shape
    assert np.array_equal(found.numpy(), np.asarray(data))
    assert zyx.asarray(data).dtype is found.dtype


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_dtype_converts(dtype):
    for data in ([1.7, 0.0], np.array([1.7, 0.0]), zyx.Tensor([1.7, 0.0])):
        found = zyx.Tensor(data, dtype)
        assert found.dtype.name == dtype
        assert found.numpy().astype(np.float64)[0] in (1.0, pytest.approx(1.7, rel=0.01))


def test_double_precision_data_is_not_rounded_on_the_way():
    assert zyx.Tensor([0.1], "float64").item() == 0.1
    assert zyx.Tensor(0.1, "float64").item() == 0.1
    assert zyx.Tensor(2**53 + 1).item() == 2**53 + 1


def test_strided_arrays_are_taken_as_they_look():
    x = np.arange(24.0).reshape(4, 6)
    assert np.array_equal(zyx.Tensor(x[::2, ::-3]).numpy(), x[::2, ::-3])
    assert np.array_equal(zyx.Tensor(x.T).numpy(), x.T)


def test_later_changes_of_an_array_do_not_reach_the_tensor():
    x = np.ones(3)
    found = zyx.Tensor(x)
    x[0] = 7
    assert found.tolist() == [1.0, 1.0, 1.0]


def test_nested_tensors_are_read():
    assert zyx.Tensor([zyx.Tensor([1.0, 2.0]), zyx.Tensor([3.0, 4.0])]).tolist() == [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize(
    ("data", "error", "text"),
    [
        ([[1, 2], [3]], ShapeError, r"row \[0\] has 2 elements, row \[1\] has 1 elements"),
        ([[[1], [2]], [[3], [4, 5]]], ShapeError, r"row \[1\]\[0\] has 1 elements, row \[1\]\[1\] has 2 elements"),
        ([1, [2]], ShapeError, r"row \[0\] has no elements, being a number, row \[1\] has 1 elements"),
        ("text", DTypeError, "numbers"),
        ([None], DTypeError, "NumPy's object"), ([2**70], DTypeError, "NumPy's object"),
        (2**70, DTypeError, "does not fit int64"),
        (np.array(["a"]), DTypeError, "NumPy's <U1"), (object(), DTypeError, "NumPy's object"),
        (np.array([1], "datetime64[s]"), DTypeError, "datetime64"),
    ],
    ids=lambda value: repr(value).partition(" at 0x")[0],
)  # fmt: skip
def test_what_is_no_tensor_is_refused_with_the_reason(data, error, text):
    with pytest.raises(error, match=text):
        zyx.Tensor(data)


def test_asarray_copies_when_asked_and_refuses_when_told_not_to():
    x = zyx.ones(3) + 1
    assert zyx.asarray(x).node is x.node
    assert zyx.asarray(x, copy=False).node is x.node
    assert zyx.asarray(x, copy=True).node is not x.node
    assert zyx.asarray(x, copy=True).tolist() == [2.0, 2.0, 2.0]
    assert zyx.asarray(x, "int8").dtype is zyx.int8
    for data, options in ((np.ones(6)[::2], {}), ([1.0], {}), (x, {"dtype": "int8"})):
        with pytest.raises(SharingError, match="copy"):
            zyx.asarray(data, copy=False, **options)


def test_devices_are_taken_by_name():
    assert zyx.Tensor([1.0], device="other:0").device == "other:0"
    assert zyx.zeros(3, device="other:0").device == "other:0"
    assert zyx.asarray(zyx.ones(3), device="other:0").device == "other:0"
    assert zyx.ones(3).to("other:0").tolist() == [1.0, 1.0, 1.0]
    assert zyx.Tensor([1.0]).to_device("other:0").device == "other:0"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 0)])
def test_constants_of_all_dtypes(dtype, shape):
    for function, value in ((zyx.zeros, 0), (zyx.ones, 1), (zyx.empty, 0)):
        found = function(shape, dtype=dtype)
        assert found.dtype.name == dtype
        assert found.shape == shape
        assert (found.numpy().astype(np.float64) == value).all()
    like = zyx.zeros(shape, dtype=dtype)
    for function, value in ((zyx.zeros_like, 0), (zyx.ones_like, 1), (zyx.empty_like, 0)):
        found = function(like)
        assert found.dtype.name == dtype
        assert (found.numpy().astype(np.float64) == value).all()
    assert zyx.full_like(like, 1).dtype.name == dtype


def test_shapes_are_sizes_or_tuples():
    assert zyx.zeros(2, 3).shape == zyx.zeros((2, 3)).shape == zyx.zeros([2, 3]).shape == (2, 3)
    assert zyx.zeros(3).dtype is zyx.float32
    assert zyx.zeros(()).shape == ()
    with pytest.raises(ShapeError, match="negative size"):
        zyx.zeros(-1)
    with pytest.raises(ShapeError, match="shape is an integer"):
        zyx.zeros(1.5)


def test_full_takes_the_dtype_of_its_number():
    assert zyx.full(2, 1).dtype is zyx.int64
    assert zyx.full(2, 1.0).dtype is zyx.float32
    assert zyx.full(2, True).dtype is zyx.bool
    assert zyx.full((2, 2), math.nan).shape == (2, 2)
    assert zyx.full(2, np.int8(3)).tolist() == [3, 3]
    assert zyx.full(2, zyx.Tensor(3.0)).tolist() == [3.0, 3.0]
    with pytest.raises(DTypeError, match="300 does not fit uint8"):
        zyx.full(2, 300, "uint8")
    with pytest.raises(DTypeError, match="inf does not fit int8"):
        zyx.full(2, math.inf, "int8")
    with pytest.raises(DTypeError, match="full takes a number, not str"):
        zyx.full(2, "a")


@pytest.mark.parametrize(
    "arguments",
    [
        (5,),
        (0,),
        (-3,),
        (2, 5),
        (5, 2),
        (5, 2, -1),
        (0, 10, 3),
        (0, 9, 3),
        (10, 0, -4),
        (0.5, 3.2),
        (0, 1, 0.1),
        (1, 0, -0.25),
        (3, 3),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [None, "int8", "float32", "float64"])
def test_arange_agrees_with_numpy(arguments, dtype):
    if dtype == "int8" and any(isinstance(value, float) for value in arguments):
        return
    wanted = np.arange(*arguments, dtype=dtype)
    found = zyx.arange(*arguments, dtype=dtype)
    assert found.shape == wanted.shape
    assert np.allclose(found.numpy(), wanted, rtol=1e-6, atol=1e-7)
    if dtype is None:
        assert found.dtype is (zyx.int64 if wanted.dtype.kind == "i" else zyx.float32)


def test_arange_says_what_is_wrong():
    for arguments, error, text in [
        ((0, 5, 0), ShapeError, "step is not 0"), ((0, math.inf), ShapeError, "must be finite"),
        ((0, 300, 1, "uint8"), DTypeError, "0 .. 299 does not fit uint8"), ((3,), DTypeError, "numbers, not bools"),
        ((0, 2, 0.5, "int32"), DTypeError, "a step of 0.5 does not fit int32"),
    ]:  # fmt: skip
        with pytest.raises(error, match=text):
            zyx.arange(*arguments, **({"dtype": "bool"} if arguments == (3,) else {}))


@pytest.mark.parametrize("arguments", [(0, 1, 5), (0, 1, 1), (0, 1, 0), (1, -1, 7), (3, 3, 2), (0, 1e10, 11)], ids=str)
@pytest.mark.parametrize("endpoint", [True, False])
def test_linspace_agrees_with_numpy_and_ends_exactly(arguments, endpoint):
    wanted = np.linspace(*arguments, endpoint=endpoint, dtype=np.float32)
    found = zyx.linspace(*arguments, endpoint=endpoint).numpy()
    assert np.allclose(found, wanted, rtol=1e-6)
    if endpoint and arguments[2] > 1:
        assert found[-1] == wanted[-1]
    assert zyx.linspace(*arguments, "float64", endpoint=endpoint).dtype is zyx.float64


@pytest.mark.parametrize("arguments", [(3,), (3, 4), (4, 2, 1), (3, 3, -1), (0,), (2, 0), (3, 3, 9)], ids=str)
def test_identity_and_triangle_agree_with_numpy(arguments):
    assert np.array_equal(zyx.eye(*arguments).numpy(), np.eye(*arguments, dtype=np.float32))
    assert np.array_equal(zyx.tri(*arguments, dtype="int8").numpy(), np.tri(*arguments, dtype=np.int8))
    assert zyx.eye(*arguments, dtype="bool").dtype is zyx.bool


def test_constants_and_sequences_take_no_memory_until_they_are_read():
    for x in (zyx.zeros(10**9), zyx.arange(10**9), zyx.eye(10**5)):
        assert not x.is_realized


def test_numpy_arrays_only():
    assert zyx.from_numpy(np.ones(2)).dtype is zyx.float64
    with pytest.raises(DTypeError, match="from_numpy takes a NumPy array, not list"):
        zyx.from_numpy([1.0])
