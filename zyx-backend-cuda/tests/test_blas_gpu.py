"""cuBLASLt itself: that descriptors take what they are given, which needs no GPU, and what products give, on one."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import numpy as np
import pytest
from fake_blas import ATTRIBUTES

import zyx
from zyx import dtype as dtypes
from zyx.backend import Launch, Slot
from zyx.backend.library import Gemm
from zyx.errors import DriverNotFoundError, UnsupportedError
from zyx.runtime.runtime import use
from zyx.testing.launching import download, upload
from zyx_backend_cuda.libraries import load_library
from zyx_backend_cuda.start import library_kernels

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.backend.library import LibraryKernel
    from zyx.runtime.runtime import Runtime
    from zyx_backend_cuda.device import CudaDevice
    from zyx_backend_cuda.memory import CudaBuffer

F32, F64, F16, BF16 = dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16


@pytest.fixture
def device(gpu: Runtime) -> CudaDevice:
    return gpu.device()  # type: ignore[return-value]


@pytest.fixture
def kernel(device: CudaDevice) -> LibraryKernel:
    try:
        kernels = library_kernels(device)
    except DriverNotFoundError as error:
        pytest.skip(str(error))
    if not kernels:
        pytest.skip("cuBLASLt is not found")
    return kernels[0]


def multiplied(
    device: CudaDevice, kernel: LibraryKernel, gemm: Gemm, a: np.ndarray, b: np.ndarray, *, captured: bool = False
) -> np.ndarray:
    """Return what the library gives for operands as they are stored, once or from a graph."""
    program = kernel.prepare(gemm)
    shape = (gemm.batch, gemm.m, gemm.n)
    buffers = [upload(device.pool, x) for x in (a, b, np.zeros(shape, gemm.out_dtype.numpy))]
    run = device.capture([Launch(program, (Slot(0), Slot(1), Slot(2)))] * 2, 3) if captured else program
    for _ in range(3 if captured else 1):
        device.pool.sync_events([device.launch(run, buffers)])
    result = download(device.pool, buffers[2], np.zeros(shape, gemm.out_dtype.numpy))
    for buffer in buffers:
        device.pool.deallocate(buffer)
    return result


def test_descriptors_of_the_library_take_the_attributes_that_it_is_given():
    native = load_library("cublasLt")
    if native is None:
        pytest.skip("cuBLASLt is not found: pip install 'nvidia-cublas>=13,<14'")
    made = {
        "desc": ("MatmulDesc", (68, 0)),
        "layout": ("MatrixLayout", (14, ctypes.c_uint64(8), ctypes.c_uint64(8), ctypes.c_int64(8))),
        "preference": ("MatmulPreference", ()),
    }
    for kind, (name, arguments) in made.items():
        handle = ctypes.c_void_p()
        assert native[f"cublasLt{name}Create"](ctypes.byref(handle), *arguments) == 0
        for attribute, type_ in ATTRIBUTES[kind].items():
            size, written, found = ctypes.c_size_t(ctypes.sizeof(type_)), ctypes.c_size_t(), type_()
            value = type_(1)
            assert native[f"cublasLt{name}SetAttribute"](handle, attribute, ctypes.byref(value), size) == 0
            get = native[f"cublasLt{name}GetAttribute"]
            assert get(handle, attribute, ctypes.byref(found), size, ctypes.byref(written)) == 0
            assert (found.value, written.value) == (1, size.value)
        assert native[f"cublasLt{name}Destroy"](handle) == 0


@pytest.mark.parametrize("dtype", [F32, F64, F16, BF16], ids=str)
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)], ids=str)
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("captured", [False, True])
def test_products_of_every_layout_plain_and_in_graphs(
    device: CudaDevice, kernel: LibraryKernel, dtype: dtypes.DType, transposed, shared: bool, captured: bool
):
    batch, m, n, depth = 3, 5, 7, 9
    random = np.random.default_rng(1)
    a, b = (
        random.integers(-4, 5, shape).astype(dtype.numpy)
        for shape in ((batch, m, depth), (1 if shared else batch, depth, n))
    )
    stored = [
        np.ascontiguousarray(x.swapaxes(1, 2) if turned else x) for x, turned in zip((a, b), transposed, strict=True)
    ]
    wanted = (a.astype(np.float64) @ b.astype(np.float64)).astype(dtype.numpy)
    gemm = Gemm(batch, m, n, depth, dtype, dtype, *transposed, shared_b=shared)
    np.testing.assert_array_equal(multiplied(device, kernel, gemm, *stored, captured=captured), wanted)


@pytest.mark.parametrize("half", [F16, BF16], ids=str)
def test_halves_are_summed_in_float32(device: CudaDevice, kernel: LibraryKernel, half: dtypes.DType):
    """65536 ones: a sum in the operands' type would stop at 2048 or at 256, and one in pieces of it lose digits."""
    depth = 1 << 16
    a, b = np.ones((1, 16, depth), half.numpy), np.ones((1, depth, 16), half.numpy)
    a[0, :, 0] = 1.5
    result = multiplied(device, kernel, Gemm(1, 16, 16, depth, half, F32), a, b)
    np.testing.assert_array_equal(result, np.full((1, 16, 16), depth + 0.5, np.float32))
    scaled = multiplied(device, kernel, Gemm(1, 16, 16, depth, half, half), a / np.array(4, half.numpy), b)
    np.testing.assert_array_equal(scaled, np.full((1, 16, 16), (depth + 0.5) / 4).astype(half.numpy))


def test_float32_is_not_rounded_to_tf32(device: CudaDevice, kernel: LibraryKernel):
    size = 512
    random = np.random.default_rng(2)
    a, b = (random.standard_normal((1, size, size)).astype(np.float32) for _ in range(2))
    result = multiplied(device, kernel, Gemm(1, size, size, size, F32, F32), a, b)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    error = np.abs(result - exact).max() / np.abs(exact).max()
    assert error < 1e-6  # with operands of TF32's 11 digits it is 3e-4 or so


def test_many_matrices_and_long_ones(device: CudaDevice, kernel: LibraryKernel):
    random = np.random.default_rng(3)
    for gemm in (Gemm(70_000, 3, 2, 4, F32, F32), Gemm(1, 200_001, 3, 2, F32, F32), Gemm(1, 1, 1, 1, F32, F32)):
        a = random.integers(-4, 5, (gemm.batch, gemm.m, gemm.k)).astype(np.float32)
        b = random.integers(-4, 5, (gemm.batch, gemm.k, gemm.n)).astype(np.float32)
        try:
            result = multiplied(device, kernel, gemm, a, b)
        except UnsupportedError:
            assert gemm.batch > 65_535  # which the library may refuse, before it is launched
            continue
        np.testing.assert_array_equal(result, a @ b)


@pytest.mark.parametrize("dtype", [F32, F16, F64], ids=str)
@pytest.mark.parametrize("start", [1, 2, 8], ids="{} elements".format)
def test_memory_of_others_may_start_anywhere(
    device: CudaDevice, kernel: LibraryKernel, dtype: dtypes.DType, start: int
):
    size, random = 128, np.random.default_rng(4)
    pool, itemsize = device.pool, dtype.itemsize
    program = kernel.prepare(Gemm(1, size, size, size, dtype, dtype))
    storage = upload(pool, np.zeros(3 * size * size * itemsize + 4096, np.uint8))
    arrays = [random.integers(-2, 3, (size, size)).astype(dtype.numpy) for _ in range(2)]
    buffers: list[CudaBuffer] = []
    for number, array in enumerate([*arrays, np.zeros_like(arrays[0])]):
        offset = (number * (size * size + 256) + start) * itemsize
        buffer, event = pool.wrap(pool.address(storage) + offset, array.nbytes, storage)
        pool.sync_events([event, pool.host_to_pool(memoryview(array.reshape(-1).view(np.uint8)), buffer)])
        buffers.append(buffer)
    pool.sync_events([device.launch(program, buffers)])
    np.testing.assert_array_equal(download(pool, buffers[2], arrays[0]), arrays[0] @ arrays[1])
    for buffer in (*buffers, storage):
        pool.deallocate(buffer)


@pytest.mark.usefixtures("kernel")
def test_tensors_are_multiplied_by_the_library_where_nothing_is_measured(gpu: Runtime, monkeypatch: pytest.MonkeyPatch):
    from zyx_backend_cuda.blas import GemmProgram

    queued: list[str] = []
    enqueue: Callable[..., None] = GemmProgram.enqueue

    def noted(self: GemmProgram, natives: object, stream: object) -> None:
        queued.append(self.name)
        enqueue(self, natives, stream)

    monkeypatch.setattr(GemmProgram, "enqueue", noted)
    with use(gpu):
        a, b = (np.random.default_rng(seed).integers(-3, 4, (33, 33)).astype(np.float32) for seed in range(2))
        np.testing.assert_array_equal((zyx.Tensor(a) @ zyx.Tensor(b)).numpy(), a @ b)
    assert queued == ["cublaslt_1x33x33x33"]
