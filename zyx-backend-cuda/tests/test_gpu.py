"""What needs a GPU: each driver's streams, graphs and copies, tensor cores, and life beside other libraries."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

import zyx
from zyx import dtype as dtypes
from zyx.backend import Launch, Slot
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.kernel.wmma import fragment_lanes
from zyx.ops import BinaryOp
from zyx.runtime.runtime import Runtime, use
from zyx.testing.launching import download, expected, prepare, run_on, upload

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.kernel.data import Kernel
    from zyx_backend_cuda.device import CudaDevice


@pytest.fixture
def device(gpu: Runtime) -> CudaDevice:
    return gpu.device()  # type: ignore[return-value]


def test_a_tensor_is_computed(gpu: Runtime):
    with use(gpu):
        x = zyx.Tensor([1.0, 2.0, 4.0])
        assert ((x + 1).numpy() == [2.0, 3.0, 5.0]).all()
        assert x.device == "cuda:0"
        assert (x @ x).item() == 21.0


@pytest.mark.parametrize("nbytes", [1, 4_194_303, 4_194_304, 40_000_001, 100_000_000])
def test_transfers_of_every_size_come_back(device: CudaDevice, nbytes: int):
    data = np.random.default_rng(nbytes).integers(0, 256, nbytes, np.uint8)
    buffer = upload(device.pool, data)
    np.testing.assert_array_equal(download(device.pool, buffer, data), data)
    device.pool.deallocate(buffer)


def test_a_sequence_becomes_one_graph_launch(device: CudaDevice, add: Callable[..., Kernel], monkeypatch):
    programs = [device.compile(add(number)) for number in (1, 10, 100)]
    captured = device.capture([Launch(program, (Slot(0),)) for program in programs], 1)
    played = []
    play = device.pool.session.play
    monkeypatch.setattr(device.pool.session, "play", lambda *args: (played.append(1), play(*args)))
    buffer = upload(device.pool, np.zeros(64, np.int32))
    for turn in range(1, 6):
        event = device.launch(captured, [buffer])
        device.pool.sync_events([event])
        assert download(device.pool, buffer, np.zeros(64, np.int32)).tolist() == [111 * turn] * 64
    assert len(played) == 4
    device.release(captured)
    device.pool.deallocate(buffer)


@pytest.mark.parametrize("library", [True, False], ids=["library", "generated"])
def test_float32_products_leave_bits_out_only_where_that_is_asked_for(
    open_gpu: Callable[..., Runtime], library: bool, monkeypatch: pytest.MonkeyPatch
):
    """Then numbers of 12 significant bits are rounded to 11."""
    if not library:
        monkeypatch.setattr("zyx_backend_cuda.start.candidates", lambda _: ())
    size = 1024  # smaller ones are left to threads that add up in float32
    x, one = np.full((size, size), 1 + 2**-11, np.float32), np.eye(size, dtype=np.float32)
    found = []
    for tf32 in (False, True):
        runtime = open_gpu(tf32=tf32)
        with use(runtime):
            found.append((zyx.asarray(x) @ zyx.asarray(one)).numpy())
            can = any(dtype is dtypes.float32 for _, dtype in runtime.device().info.wmma)
        runtime.close()
    np.testing.assert_array_equal(found[0], x)
    # What the library does with the last bits is its own affair: it may cut them off.
    assert not can or found[1][0, 0] in ((1 + 2**-10, 1.0) if library else (1 + 2**-10,))


@pytest.mark.parametrize(
    ("dims", "half"),
    [((16, 8, 8), dtypes.float16), ((16, 8, 16), dtypes.float16), ((16, 8, 8), dtypes.bfloat16),
     ((16, 8, 16), dtypes.bfloat16), ((16, 8, 8), dtypes.float32)],
    ids=str,
)  # fmt: skip
def test_tensor_cores_multiply_fragments(
    open_gpu: Callable[..., Runtime], dims: tuple[int, int, int], half: dtypes.DType
):
    runtime = open_gpu(tf32=True)
    device = runtime.device()
    if (dims, half) not in device.info.wmma:
        pytest.skip(f"{device.info.model} has no tensor cores for {half}")
    lanes = fragment_lanes(dims)
    b = Builder()
    arrays = [
        b.define(k.Memory.GLOBAL, dtype, 32 * count)
        for dtype, count in zip((half, half, dtypes.float32), lanes, strict=True)
    ]
    thread = b.index(k.Axis.LOCAL, 0, 32)
    loaded = []
    for array, count in zip(arrays, lanes, strict=True):
        at = b.binary(BinaryOp.MUL, thread, b.const(count, dtypes.int64))
        loaded.append((b.load(array, at, lanes=count), at))
    b.store(arrays[2], loaded[2][1], b.wmma(dims, loaded[0][0], loaded[1][0], loaded[2][0]))
    kernel = prepare(b.finish("fragments"), device)
    random = np.random.default_rng(3)
    given = [
        random.integers(-4, 5, 32 * count).astype(dtype.numpy)
        for dtype, count in zip((half, half, dtypes.float32), lanes, strict=True)
    ]
    for found, wanted in zip(run_on(device, kernel, given), expected(kernel, given), strict=True):
        np.testing.assert_array_equal(found, wanted)
    runtime.close()


def run_script(text: str, driver: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "ZYX_CUDA_DRIVER": driver, "ZYX_DEVICE": "cuda"}
    return subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=False, timeout=120, env=variables
    )


@pytest.mark.parametrize("driver", ["pycuda", "cuda-bindings"])
def test_a_process_ends_quietly_with_everything_in_use(gpu: Runtime, driver: str):
    del gpu
    if driver == "pycuda":
        pytest.importorskip("pycuda.driver", reason="pycuda is not installed")
    script = "import zyx; x = zyx.ones((100, 100)); y = x @ x; y.numpy(); z = y + 1; print(y.sum().item())"
    result = run_script(script, driver)
    assert (result.stdout.strip(), result.stderr, result.returncode) == ("1000000.0", "", 0)


@pytest.mark.parametrize("driver", ["pycuda", "cuda-bindings"])
def test_pytorch_works_in_the_same_process(gpu: Runtime, driver: str):
    del gpu
    pytest.importorskip("torch", reason="PyTorch is not installed")
    if driver == "pycuda":
        pytest.importorskip("pycuda.driver", reason="pycuda is not installed")
    script = (
        "import torch, zyx\n"
        "a = torch.ones(64, 64, device='cuda')\n"
        "x = zyx.ones((64, 64)) @ zyx.ones((64, 64))\n"
        "b = (a @ a).cpu().numpy()\n"
        "assert (b == x.numpy()).all()\n"
        "print(torch.cuda.current_device(), (a + a).sum().item(), (x + x).sum().item())\n"
    )
    result = run_script(script, driver)
    assert (result.stdout.strip(), result.returncode) == ("0 8192.0 524288.0", 0), result.stderr
