"""hipBLASLt as a candidate, on the fake one: descriptors, layouts and strides of every kind of product."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.backend import Launch, Slot
from zyx.backend.library import Gemm
from zyx.errors import UnsupportedError
from zyx_backend_hip.start import library_kernels

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from fake_hip import Fake

    from zyx.runtime.runtime import Runtime
    from zyx_backend_hip.device import HipDevice

TYPES = {dtypes.float32: np.float32, dtypes.float16: np.float16, dtypes.bfloat16: ml_dtypes.bfloat16}


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
    fake.fail("hipblasLtMatmulAlgoGetHeuristic", 15)
    with pytest.raises(UnsupportedError, match="hipBLASLt refuses"):
        library.prepare(Gemm(1, 2, 2, 2, dtypes.float32, dtypes.float32))


def test_without_the_library_or_by_the_configuration_there_are_no_candidates(
    fresh: Callable[..., Runtime], tmp_path: Path
):
    assert library_kernels(fresh(blas=str(tmp_path / "nowhere.so")).device()) == ()
    assert library_kernels(fresh(use_blas=False).device()) == ()
