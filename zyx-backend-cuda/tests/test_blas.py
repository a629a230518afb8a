"""cuBLASLt as a candidate, on one that checks every call: descriptors, order, memory, failures, and what is freed."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
import pytest
from fake_blas import ALLOC_FAILED, EXECUTION_FAILED, INVALID_VALUE, NOT_SUPPORTED, FakeBlas
from fake_driver import NO_MEMORY, FakeSession, fake_cuda

import zyx
from zyx import dtype as dtypes
from zyx.backend import Launch, Slot
from zyx.backend.library import Convolution, Gemm
from zyx.errors import (
    AllocationError,
    DeviceLostError,
    DriverNotFoundError,
    InitializationError,
    LaunchError,
    UnsupportedError,
)
from zyx.runtime.runtime import use
from zyx.testing.launching import download, upload
from zyx.testing.opening import open_runtime
from zyx_backend_cuda.start import library_kernels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zyx.runtime.runtime import Runtime
    from zyx_backend_cuda.blas import GemmProgram
    from zyx_backend_cuda.device import CudaDevice
    from zyx_backend_cuda.memory import CudaBuffer

F32 = dtypes.float32
TYPES = {
    F32: np.float32, dtypes.float64: np.float64, dtypes.float16: np.float16, dtypes.bfloat16: ml_dtypes.bfloat16,
}  # fmt: skip
GEMM = Gemm(1, 5, 7, 9, F32, F32)
ILLEGAL_ADDRESS = 700


@pytest.fixture
def library(session: FakeSession) -> FakeBlas:
    return FakeBlas(session)


@pytest.fixture
def runtime(session: FakeSession, library: FakeBlas, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    """A runtime on the paper device, with the library: nothing of it may be left when that is closed."""
    with fake_cuda(monkeypatch, [session], library=library):
        opened = open_runtime("cuda")
        yield opened
        opened.close()
    assert not library.violations
    assert not library.alive
    assert not session.alive


def prepared(device: CudaDevice, gemm: Gemm) -> GemmProgram:
    (kernel,) = library_kernels(device)
    assert kernel.name == "cuBLASLt 13.1"
    assert kernel.unmeasured
    return kernel.prepare(gemm)  # type: ignore[return-value]


def operands(gemm: Gemm) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a and b as they are stored, and c."""
    random = np.random.default_rng(1)
    a = random.integers(-4, 5, (gemm.batch, gemm.m, gemm.k)).astype(TYPES[gemm.dtype])
    b = random.integers(-4, 5, (1 if gemm.shared_b else gemm.batch, gemm.k, gemm.n)).astype(TYPES[gemm.dtype])
    wanted = (a.astype(np.float64) @ b.astype(np.float64)).astype(TYPES[gemm.out_dtype])
    stored = [x.swapaxes(1, 2) if turned else x for x, turned in ((a, gemm.transpose_a), (b, gemm.transpose_b))]
    return np.ascontiguousarray(stored[0]), np.ascontiguousarray(stored[1]), wanted


def buffers_for(device: CudaDevice, gemm: Gemm) -> tuple[list[CudaBuffer], np.ndarray]:
    a, b, wanted = operands(gemm)
    return [upload(device.pool, x) for x in (a, b, np.zeros_like(wanted))], wanted  # type: ignore[misc]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)], ids=str)
@pytest.mark.parametrize(("batch", "shared"), [(1, False), (3, False), (3, True)])
def test_products_of_every_layout(
    device: CudaDevice, dtype: dtypes.DType, transposed: tuple[bool, bool], batch: int, shared: bool
):
    gemm = Gemm(batch, 5, 7, 9, dtype, dtype, *transposed, shared_b=shared)
    buffers, wanted = buffers_for(device, gemm)
    device.pool.sync_events([device.launch(prepared(device, gemm), buffers)])
    np.testing.assert_array_equal(download(device.pool, buffers[2], wanted), wanted)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_only_float32_factors_leave_bits_out_where_that_is_asked_for(
    session: FakeSession, library: FakeBlas, monkeypatch: pytest.MonkeyPatch, dtype: dtypes.DType
):
    x = np.full((3, 32), 1 + 2**-11).astype(TYPES[dtype])
    with fake_cuda(monkeypatch, [session], library=library):
        opened = open_runtime("cuda", settings={"backends": {"cuda": {"tf32": True}}})
        with use(opened):
            found = (zyx.Tensor(x) @ zyx.Tensor(np.eye(32).astype(x.dtype))).numpy()
        opened.close()
    assert library.counts["Matmul"] == 1
    assert not library.violations
    np.testing.assert_array_equal(found, np.full_like(x, 1 + 2**-10) if dtype is F32 else x)


@pytest.mark.parametrize("half", [dtypes.float16, dtypes.bfloat16], ids=str)
def test_halves_are_summed_into_float32(device: CudaDevice, half: dtypes.DType):
    gemm = Gemm(2, 4, 6, 8, half, F32)
    buffers, wanted = buffers_for(device, gemm)
    device.pool.sync_events([device.launch(prepared(device, gemm), buffers)])
    np.testing.assert_array_equal(download(device.pool, buffers[2], wanted), wanted)


def test_tensors_are_multiplied_by_the_library_where_nothing_is_measured(runtime: Runtime, library: FakeBlas):
    with use(runtime):
        a, b = (np.arange(12, dtype=np.float32).reshape(shape) for shape in ((3, 4), (4, 3)))
        np.testing.assert_array_equal((zyx.Tensor(a) @ zyx.Tensor(b)).numpy(), a @ b)
    assert library.counts["Matmul"] == 1


def test_factors_of_different_dtypes_are_not_the_library_s(runtime: Runtime, library: FakeBlas):
    with use(runtime):
        a, b = (zyx.Tensor(np.ones(shape, dtype)) for shape, dtype in (((5, 32), np.float16), ((32, 8), np.float32)))
        (a @ b.astype("float16")).realize()
        assert library.counts["Matmul"] == 0
        (a @ b.softmax(axis=0).astype("float16")).realize()  # computed, and so stored as it is rounded
        assert library.counts["Matmul"] == 1


def test_a_launch_is_one_call_and_an_algorithm_is_asked_for_once(
    device: CudaDevice, library: FakeBlas, session: FakeSession
):
    programs = [prepared(device, GEMM) for _ in range(3)]
    prepared(device, Gemm(1, 5, 7, 10, F32, F32))
    assert library.counts["MatmulAlgoGetHeuristic"] == 2
    assert library.counts["Create"] == 1
    assert session.calls.count("allocate") == 1
    buffers, wanted = buffers_for(device, GEMM)
    library.counts.clear()
    session.calls.clear()
    for program in programs:
        device.pool.sync_events([device.launch(program, buffers)])
        np.testing.assert_array_equal(download(device.pool, buffers[2], wanted), wanted)
    assert library.counts == {"Matmul": 3}
    assert "allocate" not in session.calls


def test_a_batch_with_one_second_operand_is_one_tall_product(device: CudaDevice, library: FakeBlas):
    program = prepared(device, Gemm(3, 5, 7, 9, F32, F32, shared_b=True))
    assert program.name == "cublaslt_1x15x7x9"
    prepared(device, Gemm(1, 15, 7, 9, F32, F32))
    assert library.counts["MatmulAlgoGetHeuristic"] == 1


def test_memory_of_others_gets_an_algorithm_for_its_alignment(device: CudaDevice, library: FakeBlas):
    program = prepared(device, GEMM)
    a, b, wanted = operands(GEMM)
    storage, _ = device.pool.allocate(4096)
    starts, buffers = (4, 1040, 2056), []
    for start, array in zip(starts, (a, b, wanted), strict=True):
        buffer, _ = device.pool.wrap(storage.memory + start, array.nbytes, storage)
        device.pool.sync_events([device.pool.host_to_pool(memoryview(array.reshape(-1).view(np.uint8)), buffer)])
        buffers.append(buffer)
    for _ in range(2):
        device.pool.sync_events([device.launch(program, buffers)])
        np.testing.assert_array_equal(download(device.pool, buffers[2], wanted), wanted)
    assert library.asked == [(256, 256, 256, 256), (16, 4, 8, 8)]  # b comes first
    for buffer in (*buffers, storage):
        device.pool.deallocate(buffer)


def test_where_no_algorithm_takes_such_memory_the_launch_says_so(device: CudaDevice, library: FakeBlas):
    program = prepared(device, GEMM)
    (a, b, c), _ = buffers_for(device, GEMM)
    odd, _ = device.pool.wrap(c.memory + 4, c.nbytes, c)
    library.finds = False
    with pytest.raises(LaunchError, match=r"cublaslt_1x5x7x9 on cuda:0: cublasLtMatmulAlgoGetHeuristic: no algorithm"):
        device.launch(program, [a, b, odd])
    library.finds = True


def test_a_sequence_with_products_becomes_a_graph_that_runs_in_the_order_of_the_stream(
    device: CudaDevice, session: FakeSession, library: FakeBlas
):
    buffers, wanted = buffers_for(device, GEMM)
    captured = device.capture([Launch(prepared(device, GEMM), (Slot(0), Slot(1), Slot(2)))] * 2, 3)
    library.counts.clear()
    for _ in range(3):
        event = device.launch(captured, buffers)
        np.testing.assert_array_equal(download(device.pool, buffers[2], wanted), np.zeros_like(wanted))  # runs late
        device.pool.sync_events([event])
        np.testing.assert_array_equal(download(device.pool, buffers[2], wanted), wanted)
        zeros = memoryview(np.zeros_like(wanted).reshape(-1).view(np.uint8))
        device.pool.sync_events([device.pool.host_to_pool(zeros, buffers[2])])
    assert session.calls.count("play") == 2
    assert library.counts == {"Matmul": 4}
    device.release(captured)


def test_a_sequence_goes_on_when_its_product_was_released(device: CudaDevice):
    buffers, wanted = buffers_for(device, GEMM)
    program = prepared(device, GEMM)
    captured = device.capture([Launch(program, (Slot(0), Slot(1), Slot(2)))], 3)
    device.release(program)
    with pytest.raises(LaunchError, match="was released before"):
        device.launch(program, buffers)
    del program
    gc.collect()
    device.pool.sync_events([device.launch(captured, buffers)])
    np.testing.assert_array_equal(download(device.pool, buffers[2], wanted), wanted)


def test_a_product_that_nobody_has_any_more_leaves_nothing_but_its_algorithm(device: CudaDevice, library: FakeBlas):
    before = len(library.alive)
    program = prepared(device, GEMM)
    assert len(library.alive) == before + 5  # with the library's handle
    device.release(program)
    del program
    gc.collect()
    assert [made["kind"] for made in library.alive.values()] == ["handle"]
    prepared(device, GEMM)
    assert library.counts["MatmulAlgoGetHeuristic"] == 1


#: How often each function is called for a batch.
CALLS = {
    "MatmulDescCreate": 1, "MatmulDescSetAttribute": 2, "MatrixLayoutCreate": 3, "MatrixLayoutSetAttribute": 6,
    "MatmulPreferenceCreate": 1, "MatmulPreferenceSetAttribute": 6, "MatmulAlgoGetHeuristic": 1,
}  # fmt: skip


@pytest.mark.parametrize(("function", "number"), [(name, n) for name, count in CALLS.items() for n in range(count)])
def test_what_fails_while_a_product_is_made_is_told_and_leaves_nothing(
    device: CudaDevice, library: FakeBlas, function: str, number: int
):
    gemm = Gemm(3, 5, 7, 9, F32, F32)
    library.refusals[function] = [None] * number + [ALLOC_FAILED]
    refused = rf"cuBLASLt refuses Gemm.*: cublasLt{function}: CUBLAS_STATUS_ALLOC_FAILED \(3\)"
    with pytest.raises(UnsupportedError, match=refused):
        prepared(device, gemm)
    assert [made["kind"] for made in library.alive.values()] == ["handle"]
    library.counts.clear()
    prepared(device, gemm)
    assert {name: library.counts[name] for name in CALLS} == CALLS


def test_a_status_of_an_algorithm_counts_as_the_call_s(device: CudaDevice, library: FakeBlas):
    library.states = [NOT_SUPPORTED]
    with pytest.raises(UnsupportedError, match=r"cublasLtMatmulAlgoGetHeuristic: CUBLAS_STATUS_NOT_SUPPORTED \(15\)"):
        prepared(device, GEMM)
    library.finds = False
    with pytest.raises(UnsupportedError, match="no algorithm"):
        prepared(device, GEMM)
    library.finds = True
    assert [made["kind"] for made in library.alive.values()] == ["handle"]
    prepared(device, GEMM)


@pytest.mark.parametrize(
    ("problem", "why"),
    [
        (Gemm(1, 2, 2, 2, dtypes.int32, dtypes.int32), "no product of int32 into int32"),
        (Gemm(1, 2, 2, 2, F32, dtypes.float16), "no product of float32 into float16"),
        (Gemm(1, 2, 2, 2, F32, dtypes.float64), "no product of float32 into float64"),
        (Gemm(1 << 16, 1 << 15, 2, 2, F32, F32), "extents of 2147483648 and more"),
        (Gemm(1, 2, 2, 1 << 31, F32, F32), "extents of 2147483648 and more"),
        (Convolution(1, 1, 1, 1, (4,), (2,), (1,), (0,), (1,), F32), "has no Convolution"),
    ],
)
def test_what_it_does_not_compute_is_refused(device: CudaDevice, library: FakeBlas, problem: Gemm, why: str):
    with pytest.raises(UnsupportedError, match=why):
        prepared(device, problem)
    assert library.counts["MatmulDescCreate"] == 0


@pytest.mark.parametrize(
    ("status", "kind", "text"),
    [
        (ALLOC_FAILED, AllocationError, r"CUBLAS_STATUS_ALLOC_FAILED \(3\)"),
        (INVALID_VALUE, LaunchError, r"CUBLAS_STATUS_INVALID_VALUE \(7\)"),
        (EXECUTION_FAILED, LaunchError, r"CUBLAS_STATUS_EXECUTION_FAILED \(13\)"),
        (99, LaunchError, r"cuBLASLt status \(99\)"),
    ],
)
def test_a_product_that_is_not_queued_is_an_error_with_the_status_and_changes_nothing(
    device: CudaDevice, session: FakeSession, library: FakeBlas, status: int, kind: type[Exception], text: str
):
    program, (buffers, wanted) = prepared(device, GEMM), buffers_for(device, GEMM)
    library.refusals["Matmul"] = [status]
    with pytest.raises(kind, match=rf"cublaslt_1x5x7x9 on cuda:0: .*cublasLtMatmul: {text}"):
        device.launch(program, buffers)
    assert session.depth == 0
    device.pool.sync_events([device.launch(program, buffers)])
    np.testing.assert_array_equal(download(device.pool, buffers[2], wanted), wanted)


def test_a_device_that_is_lost_is_told_as_the_driver_tells_it(
    device: CudaDevice, session: FakeSession, library: FakeBlas
):
    program, (buffers, _) = prepared(device, GEMM), buffers_for(device, GEMM)
    library.refusals["Matmul"] = [EXECUTION_FAILED]
    session.refusals["is_done"] = [ILLEGAL_ADDRESS]
    with pytest.raises(DeviceLostError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        device.launch(program, buffers)


def test_memory_to_work_in_comes_from_what_is_idle_before_a_product_is_refused(
    device: CudaDevice, session: FakeSession, library: FakeBlas
):
    library_kernels(device)
    buffer, _ = device.pool.allocate(1 << 20)
    device.pool.deallocate(buffer)
    session.refusals["allocate"] = [NO_MEMORY, NO_MEMORY]
    with pytest.raises(UnsupportedError, match=r"cuBLASLt on cuda:0 has no memory to work in: .*OUT_OF_MEMORY"):
        prepared(device, GEMM)
    assert session.calls.count("free") == 1
    session.refusals["allocate"] = [NO_MEMORY]
    prepared(device, GEMM)
    assert library.counts["MatmulDescCreate"] == 1


def test_a_library_that_does_not_start_is_told_once(device: CudaDevice, library: FakeBlas):
    library.refusals["Create"] = [1]
    what = r"cuBLASLt 13\.1 does not start on cuda:0: cublasLtCreate: CUBLAS_STATUS_NOT_INITIALIZED \(1\)"
    with pytest.raises(InitializationError, match=what):
        library_kernels(device)
    assert library_kernels(device) == ()
    assert library.counts["Create"] == 1


def test_a_library_that_lacks_a_function_is_not_used(device: CudaDevice, library: FakeBlas):
    del library.cublasLtMatmul  # type: ignore[attr-defined]
    with pytest.raises(InitializationError, match=r"cuBLASLt is too old for cuda:0: .*cublasLtMatmul"):
        library_kernels(device)


@pytest.mark.parametrize(
    ("version", "library", "package"),
    [((13, 0), "13", "'nvidia-cublas>=13,<14'"), ((12, 4), "12", "nvidia-cublas-cu12")],
)
def test_without_the_library_products_are_generated_and_a_note_says_which_package_brings_it(
    session: FakeSession, monkeypatch: pytest.MonkeyPatch, version: tuple[int, int], library: str, package: str
):
    with fake_cuda(monkeypatch, [session]):
        runtime = open_runtime("cuda")
        runtime.device().memory_pool.driver.version = version  # type: ignore[attr-defined]
        with use(runtime):
            for size in (3, 4):
                x = zyx.Tensor(np.ones((size, size), np.float32))
                assert (x @ x).sum().item() == size**3
        (note,) = runtime.backends.open("cuda").notes
        assert f"libcublasLt.so.{library}" in note
        assert f"pip install {package}" in note
        with pytest.raises(DriverNotFoundError, match="cuBLASLt is not found"):
            runtime.device().memory_pool.kernels = None  # type: ignore[attr-defined]
            library_kernels(runtime.device())
        runtime.close()


def test_closing_with_products_in_use_frees_everything_and_they_are_not_launched_again(
    session: FakeSession, library: FakeBlas, monkeypatch: pytest.MonkeyPatch
):
    with fake_cuda(monkeypatch, [session], library=library):
        runtime = open_runtime("cuda")
        device: CudaDevice = runtime.device()  # type: ignore[assignment]
        programs = [prepared(device, Gemm(1, 5, 7, k, F32, F32)) for k in range(1, 4)]
        (buffers, _) = buffers_for(device, Gemm(1, 5, 7, 1, F32, F32))
        device.launch(programs[0], buffers)
        runtime.close()
        assert not library.alive
        assert not session.alive
        with pytest.raises(LaunchError, match="is closed"):
            device.launch(programs[0], buffers)
        programs.clear()
    assert not library.violations
    assert library.counts["Destroy"] == 1
