"""Products through the flat interface: transposes, leading dimensions, factors, batches; beside NumPy in float64."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.compute import Region, Transpose
from zyx.testing.flat import backend_of, download, require_dtype, upload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zyx.compute import ComputeBackend
    from zyx.dtype import DType
    from zyx.runtime.runtime import Runtime
    from zyx.testing.values import Array

#: Of the largest result, for a few sums of numbers around 1.
_TOLERANCES: Final = {
    dtypes.float16: 2e-3,
    dtypes.bfloat16: 1.6e-2,
    dtypes.float32: 2e-6,
    dtypes.float64: 1e-14,
    dtypes.complex64: 2e-6,
    dtypes.int32: 0.0,
    dtypes.uint8: 0.0,
}
_HOW: Final[dict[Transpose, Callable[[Array], Array]]] = {
    Transpose.NO_TRANS: lambda x: x,
    Transpose.TRANS: np.transpose,
    Transpose.CONJ_TRANS: lambda x: x.conj().T,
}
_PAIRS: Final = list(itertools.product(Transpose, Transpose))
_M, _N, _K = 5, 7, 6


@pytest.fixture
def backend(runtime: Runtime) -> Iterator[ComputeBackend]:
    """The flat interface on the device."""
    with backend_of(runtime) as opened:
        yield opened


def drawn(shape: tuple[int, ...], dtype: DType, seed: int) -> Array:
    """Return random values, which `dtype` holds."""
    rng = np.random.default_rng(seed)
    if dtype.is_integer:
        return rng.integers(0, 5, shape).astype(dtype.numpy)
    values = rng.standard_normal(shape)
    if dtype.is_complex:
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(dtype.numpy)


def wide(values: Array) -> Array:
    """Return values in the type in which references are computed."""
    if values.dtype.kind == "c":
        return values.astype(np.complex128)
    return values.astype(np.int64 if values.dtype.kind in "iu" else np.float64)


def stored(shape: tuple[int, int], leading: int, dtype: DType, seed: int) -> Array:
    """Return rows as they are stored, with what must not be read between them, and nothing behind the last."""
    values = drawn((shape[0], leading), dtype, seed)
    values[:, shape[1] :] = 99 if dtype.is_integer else np.nan
    return values.reshape(-1)[: (shape[0] - 1) * leading + shape[1]]


def matrix(flat: Array, shape: tuple[int, int], leading: int) -> Array:
    """Return the rows that are stored so."""
    return np.lib.stride_tricks.as_strided(flat, shape, (leading * flat.itemsize, flat.itemsize))


def check(found: Array, wanted: Array, dtype: DType) -> None:
    difference = np.abs(wide(found) - wanted).max(initial=0)
    assert difference <= _TOLERANCES[dtype] * max(1.0, np.abs(wanted).max(initial=0))


@pytest.mark.parametrize("dtype", _TOLERANCES, ids=lambda dtype: dtype.short)
@pytest.mark.parametrize("how", _PAIRS, ids=lambda how: f"{how[0].value}{how[1].value}")
def test_a_product_is_that_of_numpy(backend: ComputeBackend, how: tuple[Transpose, Transpose], dtype: DType) -> None:
    require_dtype(backend, dtype)
    first = (_M, _K) if how[0] is Transpose.NO_TRANS else (_K, _M)
    second = (_K, _N) if how[1] is Transpose.NO_TRANS else (_N, _K)
    lda, ldb, ldc = first[1] + 3, second[1], _N + 2
    a, b, c = stored(first, lda, dtype, 1), stored(second, ldb, dtype, 2), stored((_M, _N), ldc, dtype, 3)
    alpha, beta = (2, 3) if dtype.is_integer else (1.5 - 0.5j, 0.25 + 1j) if dtype.is_complex else (-1.5, 0.25)
    handles = [upload(backend, x) for x in (a, b, c)]
    backend.gemm(*how, _M, _N, _K, alpha, handles[0], lda, handles[1], ldb, beta, handles[2], ldc, dtype=dtype)
    x, y = _HOW[how[0]](wide(matrix(a, first, lda))), _HOW[how[1]](wide(matrix(b, second, ldb)))
    wanted = alpha * (x @ y) + beta * wide(matrix(c, (_M, _N), ldc))
    found = download(backend, handles[2], c)
    check(matrix(found, (_M, _N), ldc), wanted, dtype)
    between = np.ones((_M, ldc), bool)
    between[:, :_N] = False
    gaps = between.reshape(-1)[: c.size]
    assert np.array_equal(found[gaps], c[gaps], equal_nan=not dtype.is_integer), "what lies between rows was written to"
    for handle, given in zip(handles, (a, b), strict=False):
        assert np.array_equal(download(backend, handle, given), given, equal_nan=not dtype.is_integer)


@pytest.mark.parametrize("ldc", [_N, _N + 4])
def test_without_beta_nothing_of_c_is_read(backend: ComputeBackend, ldc: int) -> None:
    a, b = drawn((_M, _K), dtypes.float32, 1), drawn((_K, _N), dtypes.float32, 2)
    c = np.full((_M, ldc), np.nan, np.float32)
    left, right, out = (upload(backend, x) for x in (a, b, c))
    backend.gemm("n", "n", _M, _N, _K, 1.0, left, _K, right, _N, 0.0, out, ldc)
    found = download(backend, out, c)
    check(found[:, :_N], wide(a) @ wide(b), dtypes.float32)
    assert np.isnan(found[:, _N:]).all()


def test_without_alpha_nothing_of_a_and_b_is_read(backend: ComputeBackend) -> None:
    nan, c = np.full(_M * _K * _N, np.nan, np.float32), drawn((_M, _N), dtypes.float32, 3)
    bad, out = upload(backend, nan), upload(backend, c)
    backend.gemm("n", "n", _M, _N, _K, 0.0, bad, _K, bad, _N, 2.0, out, _N)
    assert np.array_equal(download(backend, out, c), 2 * c)
    backend.gemm("n", "n", _M, _N, _K, 0.0, bad, _K, bad, _N, 0.0, out, _N)
    assert not download(backend, out, c).any()


def test_of_no_columns_the_product_is_zero(backend: ComputeBackend) -> None:
    c = drawn((_M, _N), dtypes.float32, 3)
    out = upload(backend, c)
    backend.gemm("n", "n", _M, _N, 0, 1.0, 0, 1, 0, _N, 0.5, out, _N)
    assert np.array_equal(download(backend, out, c), c / 2)
    backend.gemm("t", "n", _M, _N, 0, 1.0, 0, _M, 0, _N, 0.0, out, _N)
    assert not download(backend, out, c).any()


@pytest.mark.parametrize(("m", "n"), [(0, 3), (3, 0), (0, 0)])
def test_without_results_no_handle_is_needed(backend: ComputeBackend, m: int, n: int) -> None:
    backend.gemm("n", "n", m, n, 4, 1.0, 0, 4, 0, max(n, 1), 1.0, 0, max(n, 1))
    backend.batched_gemm("n", "n", 2, 2, 2, 1.0, 0, 2, 0, 2, 0.0, 0, 2, 4, 4, 4, 0)
    backend.batched_gemm_by_handles("n", "n", 2, 2, 2, 1.0, [], 2, [], 2, 0.0, [], 2)


def test_products_with_nan_and_infinity_are_those_of_numpy(backend: ComputeBackend) -> None:
    a = np.array([[np.nan, 1], [np.inf, 1], [0, 1]], np.float32)
    b = np.array([[1, 0], [2, np.inf]], np.float32)
    left, right, out = upload(backend, a), upload(backend, b), upload(backend, np.zeros((3, 2), np.float32))
    backend.gemm("n", "n", 3, 2, 2, 1.0, left, 2, right, 2, 1.0, out, 2)
    with np.errstate(invalid="ignore"):
        wanted = a @ b
    assert np.array_equal(download(backend, out, wanted), wanted, equal_nan=True)


@pytest.mark.parametrize("layout", ["apart", "dense", "shared a", "interleaved"])
def test_products_in_batches_are_those_of_numpy(backend: ComputeBackend, layout: str) -> None:
    count, m, n, k = 3, 4, 5, 6
    gap = 7 if layout == "apart" else 0
    stride_a = 0 if layout == "shared a" else m * k + gap
    lda, ldb, ldc, stride_b, stride_c = k, n, n, k * n + gap, m * n + gap
    if layout == "interleaved":
        ldc, stride_c = count * n, n
    a, b, c = (drawn((count * 40,), dtypes.float32, seed) for seed in (1, 2, 3))
    handles = [upload(backend, x) for x in (a, b, c)]
    factors = (2.0, handles[0], lda, handles[1], ldb, -1.0, handles[2], ldc)
    backend.batched_gemm("n", "n", m, n, k, *factors, stride_a, stride_b, stride_c, count)
    wanted = wide(c)
    for i in range(count):
        x = matrix(wide(a)[i * stride_a :], (m, k), lda)
        y = matrix(wide(b)[i * stride_b :], (k, n), ldb)
        z = matrix(wanted[i * stride_c :], (m, n), ldc)
        z[...] = 2 * (x @ y) - z
    check(download(backend, handles[2], c), wanted, dtypes.float32)


def test_there_are_more_products_in_a_batch_than_groups_along_an_axis(backend: ComputeBackend) -> None:
    count = 65_600
    a, b = drawn((count, 1, 2), dtypes.float32, 1), drawn((count, 2, 1), dtypes.float32, 2)
    left, right, out = upload(backend, a), upload(backend, b), backend.alloc(count * 4)
    backend.batched_gemm("n", "n", 1, 1, 2, 1.0, left, 2, right, 1, 0.0, out, 1, 2, 2, 1, count)
    check(download(backend, out, np.empty((count, 1, 1), np.float32)), wide(a) @ wide(b), dtypes.float32)


def test_products_of_handles_are_those_of_numpy(backend: ComputeBackend) -> None:
    a, b, c = (drawn((3, 4, 4), dtypes.float32, seed) for seed in (1, 2, 3))
    left, right, out = ([upload(backend, x) for x in given] for given in (a, b, c))
    backend.batched_gemm_by_handles("n", "t", 4, 4, 4, 1.0, left, 4, right[:1] * 3, 4, 1.0, out, 4)
    wanted = wide(a) @ wide(b[0]).T + wide(c)
    for handle, one in zip(out, wanted, strict=True):
        check(download(backend, handle, c[0]), one, dtypes.float32)


def test_a_product_of_regions_leaves_the_rest_alone(backend: ComputeBackend) -> None:
    values = drawn((64,), dtypes.float32, 1)
    handle = upload(backend, values)
    places = [Region(handle, 4 * start) for start in (0, 16, 40)]
    backend.gemm("n", "n", 4, 4, 4, 1.0, places[0], 4, places[1], 4, 0.0, places[2], 4)
    wanted = wide(values)
    wanted[40:56] = (wanted[:16].reshape(4, 4) @ wanted[16:32].reshape(4, 4)).reshape(-1)
    check(download(backend, handle, values), wanted, dtypes.float32)


def test_a_product_too_large_for_float16_in_between_is_scaled_before_it_is_rounded(backend: ComputeBackend) -> None:
    require_dtype(backend, dtypes.float16)
    a = np.full((2, 512), 16, np.float16)
    left, out = upload(backend, a), backend.alloc(8)
    backend.gemm("n", "t", 2, 2, 512, 2.0**-10, left, 512, left, 512, 0.0, out, 2, dtype="float16")
    assert (download(backend, out, np.empty((2, 2), np.float16)) == 128).all()
