"""hipBLASLt as a candidate, on the fake one: descriptors, layouts and strides of every kind of product."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.backend import Launch, Slot
from zyx.backend.library import Gemm
from zyx.errors import AllocationError, InitializationError, LaunchError, UnsupportedError
from zyx.runtime.runtime import use
from zyx.tensor.tensor import Tensor
from zyx_backend_hip.start import library_kernels

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from fake_hip import Fake

    from zyx.runtime.runtime import Runtime
    from zyx_backend_hip.device import HipDevice

F32 = dtypes.float32
TYPES = {dtypes.float32: np.float32, dtypes.float16: np.float16, dtypes.bfloat16: ml_dtypes.bfloat16}
GEMM = Gemm(1, 2, 2, 2, F32, F32)
ALLOC_FAILED, NOT_SUPPORTED = 2, 7
#: What the library makes.
MADE = ("handles of hipBLASLt", "descriptors of products", "layouts", "preferences")


def product(device: HipDevice, gemm: Gemm, *, captured: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return what the library computes and what NumPy does."""
    rng = np.random.default_rng(1)
    a = rng.integers(-3, 4, (gemm.batch, *((gemm.k, gemm.m) if gemm.transpose_a else (gemm.m, gemm.k))))
    b_shape = (gemm.n, gemm.k) if gemm.transpose_b else (gemm.k, gemm.n)
    b = rng.integers(-3, 4, (1 if gemm.shared_b else gemm.batch, *b_shape))
    expected = (a.swapaxes(1, 2) if gemm.transpose_a else a) @ (b.swapaxes(1, 2) if gemm.transpose_b else b)
    (library,) = library_kernels(device)
    assert library.name == "hipBLASLt 1000"
    program = library.prepare(gemm)
    pool, buffers = device.pool, []
    for array in (a.astype(TYPES[gemm.dtype]), b.astype(TYPES[gemm.dtype])):
        buffer, event = pool.allocate(array.nbytes)
        pool.sync_events([pool.host_to_pool(memoryview(array.view(np.uint8).reshape(-1)), buffer, [event])])
        buffers.append(buffer)
    result = np.empty(expected.shape, TYPES[gemm.out_dtype])
    out, event = pool.allocate(result.nbytes)
    if captured:
        program = device.capture([Launch(program, (Slot(0), Slot(1), Slot(2)))] * 2, 3)
        for _ in range(3):
            event = device.launch(program, [*buffers, out], [event])
    else:
        event = device.launch(program, [*buffers, out], [event])
    pool.pool_to_host(out, memoryview(result.view(np.uint8).reshape(-1)), [event])
    return result.astype(np.float64), expected


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize(("batch", "shared"), [(1, False), (3, False), (3, True)])
def test_products_of_every_layout(
    device: HipDevice, dtype: dtypes.DType, transposed: tuple[bool, bool], batch: int, shared: bool
):
    result, expected = product(device, Gemm(batch, 5, 7, 11, dtype, dtype, *transposed, shared))
    np.testing.assert_array_equal(result, expected)


def test_halves_are_summed_into_float32(device: HipDevice):
    result, expected = product(device, Gemm(2, 4, 6, 8, dtypes.float16, dtypes.float32))
    np.testing.assert_array_equal(result, expected)


def test_a_sequence_with_products_in_it_is_recorded(device: HipDevice, fake: Fake):
    played = fake.count("hipGraphLaunch")
    result, expected = product(device, Gemm(1, 4, 6, 8, dtypes.float32, dtypes.float32), captured=True)
    np.testing.assert_array_equal(result, expected)
    assert fake.count("hipGraphLaunch") == played + 2


def test_what_it_does_not_compute_is_refused(device: HipDevice, fake: Fake):
    (library,) = library_kernels(device)
    with pytest.raises(UnsupportedError, match="no product of float64"):
        library.prepare(Gemm(1, 2, 2, 2, dtypes.float64, dtypes.float64))
    with pytest.raises(UnsupportedError, match="no product of float32 into float16"):
        library.prepare(Gemm(1, 2, 2, 2, F32, dtypes.float16))
    fake.fail("hipblasLtMatmulAlgoGetHeuristic", NOT_SUPPORTED)
    refused = r"hipBLASLt refuses Gemm.*: hipblasLtMatmulAlgoGetHeuristic: HIPBLAS_STATUS_NOT_SUPPORTED \(7\)"
    with pytest.raises(UnsupportedError, match=refused):
        library.prepare(GEMM)


#: How often each function is called for a batch.
CALLS = {
    "MatmulDescCreate": 1, "MatmulDescSetAttribute": 2, "MatrixLayoutCreate": 3, "MatrixLayoutSetAttribute": 6,
    "MatmulPreferenceCreate": 1, "MatmulPreferenceSetAttribute": 1, "MatmulAlgoGetHeuristic": 1,
}  # fmt: skip


@pytest.mark.parametrize(("function", "number"), [(name, n) for name, count in CALLS.items() for n in range(count)])
def test_what_fails_while_a_product_is_made_is_told_and_leaves_nothing(
    device: HipDevice, fake: Fake, function: str, number: int
):
    (library,) = library_kernels(device)
    before = fake.alive()
    fake.fail(f"hipblasLt{function}", ALLOC_FAILED, after=number)
    refused = rf"hipBLASLt refuses Gemm.*: hipblasLt{function}: HIPBLAS_STATUS_ALLOC_FAILED \(2\)"
    with pytest.raises(UnsupportedError, match=refused):
        library.prepare(Gemm(3, 4, 6, 8, F32, F32))
    after = fake.alive()
    assert {kind: after[kind] for kind in MADE} == {kind: before[kind] for kind in MADE}
    counts = {name: fake.count(f"hipblasLt{name}") for name in CALLS}
    library.prepare(Gemm(3, 4, 6, 8, F32, F32))
    assert {name: fake.count(f"hipblasLt{name}") - counts[name] for name in CALLS} == CALLS


def test_the_library_is_opened_once_and_an_algorithm_is_asked_for_once(device: HipDevice, fake: Fake):
    started, asked = fake.count("hipblasLtCreate"), fake.count("hipblasLtMatmulAlgoGetHeuristic")
    before = fake.alive()
    for _ in range(3):
        (library,) = library_kernels(device)
        library.prepare(GEMM)
    assert fake.count("hipblasLtCreate") == started + 1
    assert fake.count("hipblasLtMatmulAlgoGetHeuristic") == asked + 1
    gc.collect()
    alive = {kind: fake.alive()[kind] - before[kind] for kind in MADE}
    assert alive == {"handles of hipBLASLt": 1, "descriptors of products": 0, "layouts": 0, "preferences": 0}


@pytest.mark.parametrize(
    ("status", "kind", "text"),
    [
        (ALLOC_FAILED, AllocationError, "HIPBLAS_STATUS_ALLOC_FAILED (2)"),
        (4, LaunchError, "HIPBLAS_STATUS_MAPPING_ERROR (4)"),
        (5, LaunchError, "HIPBLAS_STATUS_EXECUTION_FAILED (5)"),
        (NOT_SUPPORTED, LaunchError, "HIPBLAS_STATUS_NOT_SUPPORTED (7)"),
    ],
)
def test_a_product_that_is_not_queued_is_an_error_with_the_status(
    device: HipDevice, fake: Fake, status: int, kind: type[Exception], text: str
):
    (library,) = library_kernels(device)
    library.prepare(Gemm(1, 5, 7, 11, F32, F32))
    fake.fail("hipblasLtMatmul", status)
    with pytest.raises(kind) as refused:
        product(device, Gemm(1, 5, 7, 11, F32, F32))
    assert f"hipblasLtMatmul: {text}" in str(refused.value)
    assert "kernel hipblaslt_1x5x7x11 on hip:0" in str(refused.value)
    result, expected = product(device, Gemm(1, 5, 7, 11, F32, F32))
    np.testing.assert_array_equal(result, expected)


def test_a_product_that_cannot_be_recorded_is_queued_launch_by_launch(device: HipDevice, fake: Fake):
    played = fake.count("hipGraphLaunch")
    fake.fail("hipblasLtMatmul", NOT_SUPPORTED, after=2)  # the first launch queues two
    result, expected = product(device, GEMM, captured=True)
    np.testing.assert_array_equal(result, expected)
    assert fake.count("hipGraphLaunch") == played


@pytest.mark.parametrize("current", [0, 1])
def test_a_library_that_does_not_start_is_told_once(device: HipDevice, fake: Fake, current: int):
    fake.native.hipSetDevice(current)  # another library may have
    fake.fail("hipblasLtCreate", 1)
    what = r"hipBLASLt does not start on hip:0: hipblasLtCreate: HIPBLAS_STATUS_NOT_INITIALIZED \(1\)"
    with pytest.raises(InitializationError, match=what):
        library_kernels(device)
    fake.native.hipSetDevice(0)
    assert library_kernels(device) == ()


def test_without_memory_to_work_in_products_are_generated(device: HipDevice, fake: Fake):
    (library,) = library_kernels(device)
    fake.fail("hipMalloc", 2)
    with pytest.raises(UnsupportedError, match="hipBLASLt on hip:0 has no memory to work in: hipMalloc"):
        library.prepare(GEMM)
    library.prepare(GEMM)


def test_without_the_library_there_are_no_candidates_and_a_note_says_what_brings_it(
    fresh: Callable[..., Runtime], tmp_path: Path
):
    runtime = fresh(blas=str(tmp_path / "nowhere.so"))
    with use(runtime):
        for size in (3, 4):
            x = Tensor(np.ones((size, size), np.float32))
            assert (x @ x).sum().item() == size**3
    (note,) = runtime.backends.open("hip").notes
    assert "the library hipblaslt is not there" in note
    assert "AMD's ROCm brings it (the package hipblaslt)" in note
    assert library_kernels(runtime.device()) == ()


def test_by_the_configuration_there_are_no_candidates(fresh: Callable[..., Runtime]):
    runtime = fresh(use_blas=False)
    assert library_kernels(runtime.device()) == ()
    assert not runtime.backends.open("hip").notes
