"""Matrix products by NumPy's OpenBLAS."""

from pathlib import Path

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.backend import Launch, Slot
from zyx.backend.library import Attention, Gemm, LibraryKernel
from zyx.errors import UnsupportedError
from zyx_backend_c.blas import library_kernels
from zyx_backend_c.device import CpuDevice


@pytest.fixture(scope="module")
def library(llvm_device: CpuDevice) -> LibraryKernel:
    found = library_kernels(llvm_device)
    if not found:
        pytest.skip("this NumPy does not come with OpenBLAS")
    return found[0]


def put(device: CpuDevice, array: np.ndarray) -> object:
    buffer, event = device.memory_pool.allocate(array.nbytes)
    data = np.ascontiguousarray(array)
    device.memory_pool.sync_events([device.memory_pool.host_to_pool(memoryview(data.view(np.uint8)), buffer, [event])])
    return buffer


def get(device: CpuDevice, buffer: object, like: np.ndarray) -> np.ndarray:
    result = np.empty_like(like)
    device.memory_pool.pool_to_host(buffer, memoryview(result.view(np.uint8)))
    return result


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=str)
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("shared_b", [False, True])
def test_products_of_all_layouts_are_right(
    llvm_device: CpuDevice,
    library: LibraryKernel,
    dtype: dtypes.DType,
    transpose_a: bool,
    transpose_b: bool,
    shared_b: bool,
) -> None:
    batch, m, n, k = 3, 5, 7, 11
    rng = np.random.default_rng(0)
    a = rng.standard_normal((batch, m, k)).astype(dtype.numpy)
    b = rng.standard_normal((1 if shared_b else batch, k, n)).astype(dtype.numpy)
    out = np.full((batch, m, n), np.nan, dtype.numpy)  # a product must not read it
    problem = Gemm(batch, m, n, k, dtype, dtype, transpose_a, transpose_b, shared_b)
    program = library.prepare(problem)
    stored_a = a.transpose(0, 2, 1) if transpose_a else a
    stored_b = b.transpose(0, 2, 1) if transpose_b else b
    buffers = [put(llvm_device, array) for array in (stored_a, stored_b, out)]
    llvm_device.memory_pool.release_events([llvm_device.launch(program, buffers)])
    np.testing.assert_allclose(get(llvm_device, buffers[2], out), a @ b, rtol=1e-5, atol=1e-6)


def test_products_can_be_captured(llvm_device: CpuDevice, library: LibraryKernel) -> None:
    problem = Gemm(1, 4, 4, 4, dtypes.float32, dtypes.float32)
    program = library.prepare(problem)
    x = np.random.default_rng(1).standard_normal((4, 4)).astype(np.float32)
    first, second, third = (put(llvm_device, x) for _ in range(3))
    twice = llvm_device.capture(
        [Launch(program, (Slot(0), Slot(0), second)), Launch(program, (second, Slot(0), Slot(1)))], 2
    )
    llvm_device.memory_pool.release_events([llvm_device.launch(twice, [first, third])])
    np.testing.assert_allclose(get(llvm_device, third, x), x @ x @ x, rtol=1e-4, atol=1e-5)


def test_what_blas_has_not_is_refused(library: LibraryKernel) -> None:
    with pytest.raises(UnsupportedError, match="no product of int32 into int32"):
        library.prepare(Gemm(1, 2, 2, 2, dtypes.int32, dtypes.int32))
    with pytest.raises(UnsupportedError, match="no product of float32 into float64"):
        library.prepare(Gemm(1, 2, 2, 2, dtypes.float32, dtypes.float64))
    with pytest.raises(UnsupportedError, match="Attention"):
        library.prepare(Attention(1, 1, 1, 2, 2, 2, False, 1.0, dtypes.float32))


def test_the_name_tells_the_version(library: LibraryKernel) -> None:
    assert library.name.startswith("OpenBLAS ")
    assert library.serves is Gemm


def test_without_the_library_nothing_is_offered(llvm_device: CpuDevice, tmp_path: Path) -> None:
    assert library_kernels(llvm_device, [tmp_path, tmp_path / "missing"]) == ()
    (tmp_path / "libopenblas.so").write_bytes(b"no library")
    assert library_kernels(llvm_device, [tmp_path]) == ()


def test_the_c_compilers_device_offers_nothing(devices: dict[str, CpuDevice]) -> None:
    if "cc" in devices:
        assert library_kernels(devices["cc"]) == ()
