"""cuDNN as a candidate, on one that checks every call: descriptors, algorithms, memory, failures, and what is freed."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
import pytest
from fake_blas import FakeBlas
from fake_dnn import EXECUTION_FAILED, NOT_SUPPORTED, FakeDnn
from fake_driver import FakeSession, fake_cuda

import zyx
from zyx import dtype as dtypes
from zyx.backend.library import Convolution, Gemm
from zyx.errors import LaunchError, UnsupportedError
from zyx.runtime.runtime import use
from zyx.testing.launching import download, upload
from zyx.testing.opening import open_runtime
from zyx_backend_cuda.start import library_kernels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zyx.runtime.runtime import Runtime
    from zyx_backend_cuda.device import CudaDevice

TYPES = {
    dtypes.float32: np.float32, dtypes.float64: np.float64, dtypes.float16: np.float16,
    dtypes.bfloat16: ml_dtypes.bfloat16,
}  # fmt: skip
PLAIN = Convolution(1, 1, 2, 3, (5, 6), (3, 3), (1, 1), (1, 1), (1, 1), dtypes.float32)
PROBLEMS = (
    PLAIN,
    Convolution(2, 2, 2, 2, (9, 8), (3, 2), (2, 1), (1, 0), (1, 2), dtypes.float32),
    Convolution(2, 1, 3, 4, (11,), (3,), (2,), (2,), (1,), dtypes.float32),
    Convolution(1, 1, 2, 3, (4, 5, 6), (2, 3, 2), (1, 2, 1), (0, 1, 1), (1, 1, 1), dtypes.float32),
)


@pytest.fixture
def library(session: FakeSession) -> FakeDnn:
    return FakeDnn(session)


@pytest.fixture
def blas(session: FakeSession) -> FakeBlas:
    return FakeBlas(session)


@pytest.fixture
def runtime(
    session: FakeSession, library: FakeDnn, blas: FakeBlas, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Runtime]:
    """A runtime on the paper device, with both libraries: nothing of them may be left when that is closed."""
    with fake_cuda(monkeypatch, [session], library=blas, dnn=library):
        opened = open_runtime("cuda", settings={"autotune": {"library_kernels": "prefer"}})
        yield opened
        opened.close()
    assert not library.violations
    assert not library.alive
    assert not session.alive


@pytest.fixture
def device(runtime: Runtime) -> CudaDevice:
    return runtime.device("cuda")  # type: ignore[return-value]


def kernel_of(device: CudaDevice):
    (kernel,) = [each for each in library_kernels(device) if each.serves is Convolution]
    assert kernel.name == "cuDNN 9.28.0"
    assert not kernel.unmeasured
    return kernel


def drawn(problem: Convolution) -> tuple[np.ndarray, np.ndarray, dict[str, object]]:
    """Return images, filters, and what `zyx.conv` is told."""
    rng = np.random.default_rng(0)
    channels, outputs = problem.groups * problem.in_channels, problem.groups * problem.out_channels
    shapes = (problem.batch, channels, *problem.size), (outputs, problem.in_channels, *problem.kernel)
    x, w = (rng.integers(-3, 4, shape).astype(TYPES[problem.dtype]) for shape in shapes)
    how = {"stride": problem.stride, "padding": problem.padding, "dilation": problem.dilation, "groups": problem.groups}
    return x, w, how


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_convolutions_of_every_kind(device: CudaDevice, dtype: dtypes.DType, problem: Convolution):
    problem = replace(problem, dtype=dtype)
    x, w, how = drawn(problem)
    wanted = zyx.conv(zyx.Tensor(x, device="interpreter"), zyx.Tensor(w, device="interpreter"), **how).numpy()
    buffers = [upload(device.pool, array) for array in (x, w, np.zeros_like(wanted))]
    program = kernel_of(device).prepare(problem)
    device.pool.sync_events([device.launch(program, buffers)])
    np.testing.assert_array_equal(download(device.pool, buffers[2], wanted), wanted)
    device.release(program)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_a_graph_s_convolution_is_the_library_s(runtime: Runtime, library: FakeDnn, dtype: dtypes.DType):
    x, w, how = drawn(replace(PLAIN, dtype=dtype))
    wanted = zyx.conv(zyx.Tensor(x, device="interpreter"), zyx.Tensor(w, device="interpreter"), **how).numpy()
    with use(runtime):
        np.testing.assert_array_equal(zyx.conv(zyx.Tensor(x), zyx.Tensor(w), **how).numpy(), wanted)
    assert library.counts["ConvolutionForward"] == 1


def test_a_launch_is_two_calls_and_descriptors_are_destroyed_with_the_program(device: CudaDevice, library: FakeDnn):
    program = kernel_of(device).prepare(PLAIN)
    buffers = [upload(device.pool, np.ones(size, np.float32)) for size in (60, 54, 90)]
    before = library.counts.copy()
    for _ in range(3):
        device.pool.sync_events([device.launch(program, buffers)])
    assert library.counts - before == {"SetStream": 3, "ConvolutionForward": 3}
    assert download(device.pool, buffers[2], np.empty(90, np.float32)).max() == 18.0
    device.release(program)
    assert [each["kind"] for each in library.alive.values()] == ["handle"]


@pytest.mark.parametrize(
    ("algorithms", "text"), [([(1, 0, 1 << 40)], "no algorithm works in"), ([], "no algorithm"), ([(1, 3000, 0)], "no")]
)
def test_what_no_algorithm_has_room_for_is_not_supported(
    device: CudaDevice, library: FakeDnn, algorithms: list[tuple[int, int, int]], text: str
):
    library.algorithms = algorithms
    with pytest.raises(UnsupportedError, match=text):
        kernel_of(device).prepare(PLAIN)
    assert [each["kind"] for each in library.alive.values()] == ["handle"]


def test_what_the_library_refuses_is_not_supported(device: CudaDevice, library: FakeDnn):
    library.refusals["SetConvolutionNdDescriptor"] = [NOT_SUPPORTED]
    with pytest.raises(UnsupportedError, match="cudnnSetConvolutionNdDescriptor returned STATUS_3000"):
        kernel_of(device).prepare(PLAIN)
    with pytest.raises(UnsupportedError, match="computes no"):
        kernel_of(device).prepare(Gemm(1, 2, 2, 2, dtypes.float32, dtypes.float32))
    assert [each["kind"] for each in library.alive.values()] == ["handle"]


def test_a_launch_that_fails_says_what_the_library_said(device: CudaDevice, library: FakeDnn):
    program = kernel_of(device).prepare(PLAIN)
    buffers = [upload(device.pool, np.ones(size, np.float32)) for size in (60, 54, 90)]
    library.refusals["ConvolutionForward"] = [EXECUTION_FAILED]
    with pytest.raises(LaunchError, match="STATUS_5000"):
        device.launch(program, buffers)
    device.pool.sync_events([device.launch(program, buffers)])
    device.release(program)


@pytest.mark.parametrize("is_there", [False, True])
def test_where_it_is_not_found_or_does_not_start_there_are_products_all_the_same(
    session: FakeSession,
    library: FakeDnn,
    blas: FakeBlas,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    is_there: bool,
):
    library.refusals["Create"] = [1001]
    dnn = library if is_there else None
    with fake_cuda(monkeypatch, [session], library=blas, dnn=dnn), caplog.at_level(logging.WARNING, "zyx"):
        opened = open_runtime("cuda")
        assert [kernel.serves for kernel in library_kernels(opened.device("cuda"))] == [Gemm]
        opened.close()
    assert ("does not start" in caplog.text) == is_there
