"""Convolution, attention, reductions and functions of elements through the flat interface, beside NumPy in float64."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.compute import BinaryOp, ReduceOp, Region, UnaryOp
from zyx.errors import InvalidArgumentError
from zyx.testing.flat import backend_of, download, require_dtype, upload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zyx.compute import ComputeBackend
    from zyx.dtype import DType
    from zyx.runtime.runtime import Runtime
    from zyx.testing.values import Array

_FLOATS: Final = {dtypes.float16: 4e-3, dtypes.bfloat16: 3e-2, dtypes.float32: 4e-6, dtypes.float64: 1e-13}
_UNARY: Final[dict[UnaryOp, Callable[[Array], Array]]] = {
    UnaryOp.RELU: lambda x: np.maximum(x, 0),
    UnaryOp.SIGMOID: lambda x: 1 / (1 + np.exp(-x)),
    UnaryOp.TANH: np.tanh,
    UnaryOp.EXP: np.exp,
    UnaryOp.LOG: np.log,
    UnaryOp.SQRT: np.sqrt,
    UnaryOp.ABS: np.abs,
    UnaryOp.NEG: np.negative,
}
_BINARY: Final[dict[BinaryOp, Callable[[Array, Array], Array]]] = {
    BinaryOp.ADD: np.add,
    BinaryOp.SUB: np.subtract,
    BinaryOp.MUL: np.multiply,
    BinaryOp.DIV: np.divide,
    BinaryOp.MAX: np.maximum,
    BinaryOp.MIN: np.minimum,
    BinaryOp.POW: np.power,
}
_REDUCED: Final[dict[ReduceOp, Callable[..., Any]]] = {
    ReduceOp.SUM: np.sum,
    ReduceOp.MAX: np.max,
    ReduceOp.MIN: np.min,
    ReduceOp.MEAN: np.mean,
}


@pytest.fixture
def backend(runtime: Runtime) -> Iterator[ComputeBackend]:
    """The flat interface on the device."""
    with backend_of(runtime) as opened:
        yield opened


def drawn(shape: tuple[int, ...], dtype: DType = dtypes.float32, seed: int = 1) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32).astype(dtype.numpy)


def check(found: Array, wanted: Array, dtype: DType = dtypes.float32) -> None:
    assert found.shape == wanted.shape
    assert np.abs(found.astype(np.float64) - wanted).max() <= _FLOATS[dtype] * max(1.0, np.abs(wanted).max())


# ---- convolution


@pytest.mark.parametrize("dtype", _FLOATS, ids=lambda dtype: dtype.short)
@pytest.mark.parametrize(
    ("images", "filters", "stride", "padding"),
    [
        ((2, 3, 9, 8), (4, 3, 3, 3), (1, 1), (1, 1)),
        ((1, 2, 7, 11), (3, 2, 2, 5), (2, 3), (0, 2)),
        ((3, 1, 5, 5), (1, 1, 5, 5), (1, 1), (0, 0)),
        ((2, 4, 6, 6), (5, 4, 1, 1), (4, 1), (3, 0)),
    ],
)
def test_a_convolution_is_that_of_its_definition(
    backend: ComputeBackend,
    images: tuple[int, int, int, int],
    filters: tuple[int, int, int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    dtype: DType,
) -> None:
    require_dtype(backend, dtype)
    x, w = drawn(images, dtype), drawn(filters, dtype, 2)
    wanted = convolved(x.astype(np.float64), w.astype(np.float64), stride, padding)
    out = backend.alloc(wanted.size * dtype.itemsize)
    backend.conv2d_forward(
        upload(backend, x), images, upload(backend, w), filters, out, wanted.shape, stride, padding, dtype=dtype
    )
    check(download(backend, out, np.empty(wanted.shape, dtype.numpy)), wanted, dtype)


def convolved(x: Array, w: Array, stride: tuple[int, int], padding: tuple[int, int]) -> Array:
    padded = np.pad(x, [(0, 0), (0, 0), *((width, width) for width in padding)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], (2, 3))[:, :, :: stride[0], :: stride[1]]
    result: Array = np.einsum("nchwij,kcij->nkhw", windows, w)
    return result


def test_without_channels_a_convolution_is_zero(backend: ComputeBackend) -> None:
    out = upload(backend, np.full((1, 2, 3, 3), np.nan, np.float32))
    backend.conv2d_forward(0, (1, 0, 3, 3), 0, (2, 0, 1, 1), out, (1, 2, 3, 3), (1, 1), (0, 0))
    assert not download(backend, out, np.empty((1, 2, 3, 3), np.float32)).any()
    backend.conv2d_forward(0, (0, 1, 3, 3), 0, (2, 1, 1, 1), 0, (0, 2, 3, 3), (1, 1), (0, 0))


# ---- attention


@pytest.mark.parametrize("dtype", _FLOATS, ids=lambda dtype: dtype.short)
@pytest.mark.parametrize(("queries", "keys"), [(4, 4), (1, 6), (5, 3), (33, 40)])
@pytest.mark.parametrize("causal", ["no", "last", "first", "far"])
def test_attention_is_that_of_its_definition(
    backend: ComputeBackend, queries: int, keys: int, causal: str, dtype: DType
) -> None:
    require_dtype(backend, dtype)
    q, k, v = (drawn((2, 3, n, 8), dtype, i) for i, n in enumerate((queries, keys, keys)))
    offset = {"no": None, "last": None, "first": 0, "far": -queries}[causal]
    out = upload(backend, np.full_like(q, np.nan))
    a, b, c = (upload(backend, x) for x in (q, k, v))
    backend.attention(a, b, c, out, 2, 3, queries, keys, 8, 0.5, causal != "no", causal_offset=offset, dtype=dtype)
    scores = 0.5 * (q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2))
    if causal != "no":
        reach = np.arange(queries)[:, None] + (keys - queries if offset is None else offset)
        scores = np.where(np.arange(keys) <= reach, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    powers = np.exp(scores - np.where(np.isinf(top), 0, top))
    total = powers.sum(-1, keepdims=True)
    wanted = powers / np.where(total == 0, 1, total) @ v.astype(np.float64)
    check(download(backend, out, q), wanted, dtype)


def test_the_scale_is_that_of_the_width_if_none_is_given(backend: ComputeBackend) -> None:
    q, k, v = (drawn((1, 1, 3, 4), seed=i) for i in range(3))
    a, b, c = (upload(backend, x) for x in (q, k, v))
    found = []
    for scale in (None, 0.5):
        out = backend.alloc(q.nbytes)
        backend.attention(a, b, c, out, 1, 1, 3, 3, 4, scale)
        found.append(download(backend, out, q))
    check(found[0], found[1].astype(np.float64))


def test_large_scores_do_not_overflow(backend: ComputeBackend) -> None:
    q = np.full((1, 1, 2, 4), 100, np.float32)
    out, handle = backend.alloc(q.nbytes), upload(backend, q)
    backend.attention(handle, handle, handle, out, 1, 1, 2, 2, 4, 1000.0)
    check(download(backend, out, q), q.astype(np.float64))


def test_attention_without_keys_is_zero_and_without_queries_nothing(backend: ComputeBackend) -> None:
    q = drawn((1, 2, 3, 4))
    handle, out = upload(backend, q), upload(backend, q)
    backend.attention(handle, 0, 0, out, 1, 2, 3, 0, 4, 1.0)
    assert not download(backend, out, q).any()
    for sizes in ((0, 2, 3, 3, 4), (1, 0, 3, 3, 4), (1, 2, 0, 3, 4), (1, 2, 3, 3, 0)):
        backend.attention(0, 0, 0, 0, *sizes)


# ---- reductions


@pytest.mark.parametrize("dtype", [*_FLOATS, dtypes.int32, dtypes.uint8], ids=lambda dtype: dtype.short)
@pytest.mark.parametrize("op", ReduceOp)
def test_a_reduction_is_that_of_numpy(backend: ComputeBackend, op: ReduceOp, dtype: DType) -> None:
    require_dtype(backend, dtype)
    if op is ReduceOp.MEAN and dtype.is_integer:
        pytest.skip("there is no mean of integers among them")
    for shape in ((7,), (300,), (3, 5, 4), (2, 1, 3, 6)):
        x = drawn(shape, dtype) if dtype.is_float else np.arange(math.prod(shape)).reshape(shape).astype(dtype.numpy)
        handle = upload(backend, x)
        for axis in (*range(len(shape)), -1):
            wide = x.astype(np.float64) if dtype.is_float else x.astype(np.int64)
            wanted = _REDUCED[op](wide, axis)
            out = backend.alloc(max(wanted.size * dtype.itemsize, 1))
            backend.reduce(op, handle, out, shape, axis, dtype=dtype)
            found = download(backend, out, np.empty(wanted.shape, dtype.numpy))
            if dtype.is_float:
                check(found, wanted, dtype)
            else:
                assert np.array_equal(found, wanted.astype(dtype.numpy))


@pytest.mark.parametrize("op", ReduceOp)
def test_a_reduction_of_nan_is_nan(backend: ComputeBackend, op: ReduceOp) -> None:
    x = np.array([[1, np.nan, 2], [1, 2, 3]], np.float32)
    handle, out = upload(backend, x), backend.alloc(8)
    backend.reduce(op, handle, out, (2, 3), 1)
    found = download(backend, out, np.empty(2, np.float32))
    assert np.isnan(found[0])
    assert found[1] == _REDUCED[op](x[1])


def test_reductions_along_no_elements(backend: ComputeBackend) -> None:
    out = upload(backend, np.full(3, 7, np.float32))
    backend.reduce("sum", 0, out, (0, 3), 0)
    assert not download(backend, out, np.empty(3, np.float32)).any()
    backend.reduce("mean", 0, out, (0, 3), 0)
    assert np.isnan(download(backend, out, np.empty(3, np.float32))).all()
    for op in ("max", "min"):
        with pytest.raises(InvalidArgumentError, match=rf"ComputeBackend.reduce: shape .*{op.upper()}"):
            backend.reduce(op, 0, out, (0, 3), 0)
    backend.reduce("max", 0, 0, (3, 0), 0)


# ---- functions of elements


@pytest.mark.parametrize("dtype", [*_FLOATS, dtypes.int32], ids=lambda dtype: dtype.short)
@pytest.mark.parametrize("op", UnaryOp)
def test_a_function_of_elements_is_that_of_numpy(backend: ComputeBackend, op: UnaryOp, dtype: DType) -> None:
    require_dtype(backend, dtype)
    if dtype.is_integer and op not in (UnaryOp.RELU, UnaryOp.ABS, UnaryOp.NEG):
        handle = backend.alloc(64)
        with pytest.raises(
            InvalidArgumentError, match=f"unary: op is UnaryOp.{op.name}; expected one of RELU, ABS, NEG"
        ):
            backend.unary(op, handle, handle, 1, dtype=dtype)
        return
    x = drawn((70,), dtype) if dtype.is_float else np.arange(-35, 35, dtype=np.int32)
    if op in (UnaryOp.LOG, UnaryOp.SQRT):
        x = np.abs(x)
    wanted = _UNARY[op](x.astype(np.float64))
    handle, out = upload(backend, x), upload(backend, np.zeros(80, dtype.numpy))
    backend.unary(op, handle, out, 70, dtype=dtype)
    found = download(backend, out, np.empty(80, dtype.numpy))
    tolerance = _FLOATS.get(dtype, 0.0)
    assert np.abs(found[:70].astype(np.float64) - wanted).max() <= tolerance * np.abs(wanted).max()
    assert not found[70:].any(), "more elements than n were written"
    backend.unary(op, handle, handle, 70, dtype=dtype)
    assert np.array_equal(download(backend, handle, x), found[:70]), "in place it is another"


@pytest.mark.parametrize("dtype", [*_FLOATS, dtypes.int32], ids=lambda dtype: dtype.short)
@pytest.mark.parametrize("op", BinaryOp)
def test_a_function_of_pairs_is_that_of_numpy(backend: ComputeBackend, op: BinaryOp, dtype: DType) -> None:
    require_dtype(backend, dtype)
    if dtype.is_integer and op in (BinaryOp.DIV, BinaryOp.POW):
        pytest.skip("not defined for integers among them")
    x, y = (drawn((70,), dtype, i) if dtype.is_float else np.arange(70, dtype=np.int32) * (i + 1) for i in (1, 2))
    if op is BinaryOp.POW:
        x = np.abs(x)
    wanted = _BINARY[op](x.astype(np.float64), y.astype(np.float64))
    a, b, out = upload(backend, x), upload(backend, y), backend.alloc(x.nbytes)
    backend.binary(op, a, b, out, 70, dtype=dtype)
    found = download(backend, out, x)
    tolerance = _FLOATS.get(dtype, 0.0)
    assert np.abs(found.astype(np.float64) - wanted).max() <= tolerance * np.abs(wanted).max()
    backend.binary(op, a, b, b, 70, dtype=dtype)
    assert np.array_equal(download(backend, b, x), found)
    backend.binary(op, a, a, a, 70, dtype=dtype)
    again = _BINARY[op](x.astype(np.float64), x.astype(np.float64))
    assert np.abs(download(backend, a, x).astype(np.float64) - again).max() <= tolerance * np.abs(again).max()


def test_the_greater_of_nan_is_nan(backend: ComputeBackend) -> None:
    x, y = np.array([np.nan, 1, 2], np.float32), np.array([1, np.nan, 3], np.float32)
    a, b, out = upload(backend, x), upload(backend, y), backend.alloc(12)
    for op in ("max", "min"):
        backend.binary(op, a, b, out, 3)
        assert np.array_equal(download(backend, out, x), _BINARY[BinaryOp(op)](x, y), equal_nan=True)
    backend.unary("relu", a, out, 3)
    assert np.array_equal(download(backend, out, x), x, equal_nan=True)


def test_complex_numbers_have_the_functions_that_are_said(backend: ComputeBackend) -> None:
    x = (drawn((20,)) + 1j * drawn((20,), seed=2)).astype(np.complex64)
    handle, out = upload(backend, x), backend.alloc(x.nbytes)
    backend.binary("mul", handle, handle, out, 20, dtype="complex64")
    assert np.allclose(download(backend, out, x), x * x, rtol=1e-5, atol=1e-5)
    backend.unary("exp", handle, out, 20, dtype="complex64")
    assert np.allclose(download(backend, out, x), np.exp(x), rtol=1e-5, atol=1e-5)
    backend.reduce("sum", handle, Region(out, 8), (4, 5), 0, dtype="complex64")
    assert np.allclose(download(backend, out, x)[1:6], x.reshape(4, 5).sum(0), rtol=1e-5, atol=1e-5)
    with pytest.raises(
        InvalidArgumentError, match=r"op is ReduceOp.MAX; expected one of SUM, MEAN, which there are of c"
    ):
        backend.reduce("max", handle, out, (20,), 0, dtype="complex64")


def test_of_nothing_no_handle_is_needed(backend: ComputeBackend) -> None:
    backend.unary("exp", 0, 0, 0)
    backend.binary("add", 0, 0, 0, 0)


def test_more_elements_than_groups_of_threads_along_an_axis(backend: ComputeBackend) -> None:
    n = 65_536 * 5 + 3
    x = np.arange(n, dtype=np.int32)
    a, out = upload(backend, x), backend.alloc(x.nbytes)
    backend.binary("add", a, a, out, n, dtype="int32")
    assert np.array_equal(download(backend, out, x), 2 * x)
    backend.reduce("sum", a, out, (n, 1), 1, dtype="int32")
    assert np.array_equal(download(backend, out, x), x)
