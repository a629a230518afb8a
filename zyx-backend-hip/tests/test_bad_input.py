"""Drivers that are too old, start half-way, have no memory or lose their device; what does not exist or fit."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import numpy as np
import pytest
from fake_hip import opened

from zyx import dtype as dtypes
from zyx.errors import AllocationError, DeviceLostError, NoDeviceError, UnsupportedError
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.plugins.state import BackendState
from zyx.runtime.runtime import use
from zyx.tensor.tensor import Tensor
from zyx.testing.opening import open_runtime

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from fake_hip import Fake

    from zyx.kernel.data import Kernel
    from zyx.runtime.runtime import Runtime
    from zyx_backend_hip.device import HipDevice

OUT_OF_MEMORY, OLD_DRIVER, NOT_INITIALIZED, ILLEGAL_ADDRESS = 2, 35, 3, 700

#: More calls than anything tries again.
OFTEN = 8


# ---- what does not start


@pytest.mark.parametrize("version", [40_321_331, 50_120_531])
def test_a_version_that_is_too_old_is_told_with_the_oldest_that_serves(version: int, tmp_path: Path, fake: Fake):
    fake.be(version)
    report = opened(tmp_path, **fake.section).open("hip")
    assert report.state is BackendState.DRIVER_REFUSED
    assert f"HIP {version // 10**7}.{version // 10**5 % 100} is too old, at least 5.2 is needed" in report.reason
    assert "install ROCm 5.2 or later" in report.reason


def test_the_oldest_version_that_serves_works_without_the_library_of_products(
    fake: Fake, fresh: Callable[..., Runtime]
):
    from zyx_backend_hip.start import library_kernels

    fake.be(50_221_153)
    runtime = fresh()
    assert library_kernels(runtime.device()) == ()  # the numbers of its attributes are others there
    with use(runtime):
        assert (Tensor([1, 2]) + 1).numpy().tolist() == [2, 3]


def test_a_driver_of_the_system_that_is_older_than_the_libraries_is_told_with_what_to_update(
    tmp_path: Path, fake: Fake
):
    fake.fail("hipInit", OLD_DRIVER)
    report = opened(tmp_path, **fake.section).open("hip")
    assert report.state is BackendState.DRIVER_REFUSED
    assert "hipErrorInsufficientDriver (35): update amdgpu" in report.reason


@pytest.mark.parametrize(
    ("function", "after", "left"),
    [
        ("hipStreamCreateWithFlags", 0, ()), ("hipStreamCreateWithFlags", 2, ()),
        ("hipStreamCreateWithFlags", 3, ("hip:0",)), ("hipStreamCreateWithFlags", 5, ("hip:0",)),
        ("hipMemGetInfo", 0, ()), ("hipMemGetInfo", 1, ("hip:0",)),
        ("hipGetDevice", 0, ()), ("hipGetDevice", 1, ("hip:0",)),
    ],
)  # fmt: skip
def test_devices_that_start_half_way_leave_nothing_behind(
    function: str, after: int, left: tuple[str, ...], tmp_path: Path, fake: Fake
):
    """Each of the two is selected, makes three streams, and asks for the size of its memory."""
    before = fake.alive()
    for _ in range(OFTEN):
        fake.fail(function, NOT_INITIALIZED, after)
    backends = opened(tmp_path, **fake.section)
    report = backends.open("hip")
    assert report.devices == left
    if left:
        assert report.state is BackendState.READY
        assert any("Fake Instinct 1 does not start: " in note and "(3)" in note for note in report.notes)
    else:
        assert report.state is BackendState.DRIVER_REFUSED
        assert "Fake Instinct 0 does not start" in report.reason
        assert "Fake Instinct 1 does not start" in report.reason
        assert f"{function}: hipErrorNotInitialized (3)" in report.reason
    fake.recover()
    backends.close()
    assert fake.alive() == before


def test_after_a_failure_at_the_start_another_try_works(tmp_path: Path, fake: Fake):
    fake.fail("hipGetDeviceCount", NOT_INITIALIZED)
    assert opened(tmp_path, **fake.section).open("hip").state is BackendState.DRIVER_REFUSED
    backends = opened(tmp_path, **fake.section)
    assert backends.open("hip").state is BackendState.READY
    backends.close()


@pytest.mark.parametrize("name", ["hip:2", "hip:h100"])
def test_an_index_that_does_not_exist_is_an_error_with_those_that_do(name: str, fake: Fake):
    with pytest.raises(NoDeviceError) as missing:
        open_runtime(name, settings={"backends": {"hip": fake.section}})
    for part in (name, "hip:0", "hip:1"):
        assert part in str(missing.value)


def test_a_device_is_found_by_its_index_and_by_its_architecture(fresh: Callable[..., Runtime]):
    assert fresh("hip:1").default_device == fresh("hip:gfx1100").default_device == "hip:1"


# ---- what does not fit


def wide(count: int) -> Kernel:
    """Return a kernel that adds up an element of each of so many buffers."""
    b = Builder()
    out = b.define(k.Memory.GLOBAL, dtypes.int32, 1)
    zero = b.const(0, dtypes.int64)
    for _ in range(count - 1):
        b.store(out, zero, b.load(b.define(k.Memory.GLOBAL, dtypes.int32, 1, mutable=False), zero))
    return b.finish("wide")


def large(threads: tuple[int, ...], local: int, groups: int = 1) -> Kernel:
    """Return a kernel with groups of so many threads, and so many integers of local memory."""
    b = Builder()
    x, shared = b.define(k.Memory.GLOBAL, dtypes.int32, 1), b.define(k.Memory.LOCAL, dtypes.int32, local)
    zero = b.const(0, dtypes.int64)
    b.index(k.Axis.GROUP, 0, groups)
    for axis, size in enumerate(threads):
        b.index(k.Axis.LOCAL, axis, size)
    b.store(shared, zero, b.const(1, dtypes.int32))
    b.store(x, zero, b.load(shared, zero))
    return b.finish("large")


@pytest.mark.parametrize(
    ("kernel", "limit"),
    [
        (wide(257), "at most 256 can be"),
        (large((1025,), 1), "1024"),
        (large((64, 32), 1), "1024"),
        (large((8, 8, 32), 1), "1024"),
        (large((1,), 16385), "65536"),
        (large((1024,), 1, 1 << 22), "4194304,.* groups, at most .4194303,"),
    ],
    ids=["buffers", "threads", "threads of two axes", "threads of three axes", "local memory", "groups"],
)
def test_a_kernel_over_a_limit_is_refused_before_anything_is_compiled(
    kernel: Kernel, limit: str, device: HipDevice, fake: Fake
):
    compiled = fake.count("hiprtcCreateProgram")
    with pytest.raises(UnsupportedError, match=rf"kernel {kernel.name}.*{limit}"):
        device.compile(kernel)
    assert fake.count("hiprtcCreateProgram") == compiled


def test_kernels_at_the_limits_run(device: HipDevice, fake: Fake):
    pool = device.pool
    kernels = [(wide(256), 256), (large((1024,), 16384), 1), (large((16, 8, 8), 1), 1)]
    for kernel, count in kernels:
        buffers = [pool.allocate(4)[0] for _ in range(count)]
        for number, buffer in enumerate(buffers):
            pool.sync_events([pool.host_to_pool(memoryview(np.int32(number).tobytes()), buffer)])
        pool.sync_events([device.launch(device.compile(kernel), buffers)])
        result = np.empty(1, np.int32)
        pool.pool_to_host(buffers[0], memoryview(result).cast("B"))
        assert result[0] == (255 if kernel.name == "wide" else 1)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int64", "uint8"])
@pytest.mark.parametrize("name", ["hip:0", "hip:1"])
def test_what_the_language_has_no_form_for_is_computed_by_other_means(
    fresh: Callable[..., Runtime], name: str, dtype: str
):
    """Powers, remainders of floats, transcendental functions, and everything on bfloat16."""
    runtime = fresh(name)
    x = np.array([1, 2, 3, 5])
    with use(runtime):
        t = Tensor(x, dtype=dtype)
        is_float = "float" in dtype
        np.testing.assert_allclose((t**2).astype("float32").numpy(), x**2, rtol=1e-2)
        np.testing.assert_allclose((t % 2).astype("float32").numpy(), x % 2)
        if is_float:
            np.testing.assert_allclose(t.exp().astype("float32").numpy(), np.exp(x), rtol=1e-2)


# ---- what goes wrong in the middle of a plan


def three_kernels(seed: int) -> tuple[Tensor, np.ndarray]:
    """Return a result of kernels that need memory in between, and what it has to be."""
    x = np.random.default_rng(seed).integers(-4, 5, (40, 50 + seed)).astype(np.float32)
    scaled = (Tensor(x) * 2.0 + 1.0).contiguous()
    centred = (scaled - scaled.sum(axis=0, keepdims=True)).contiguous()
    y = 2 * x + 1
    y = y - y.sum(0, keepdims=True)
    return centred @ centred.T, y @ y.T


def settle(runtime: Runtime) -> int:
    """Wait until nothing is in flight; return how many bytes are free then."""
    gc.collect()
    runtime.memory.reclaim()
    runtime.synchronize()
    return runtime.device().memory_pool.free_bytes


@pytest.mark.parametrize("number", [0, 1, 2])
def test_memory_that_runs_out_in_the_middle_of_a_plan_leaves_nothing_behind(
    fresh: Callable[..., Runtime], fake: Fake, number: int
):
    runtime = fresh(use_blas=False)
    pool = runtime.device().memory_pool
    with use(runtime):
        result, wanted = three_kernels(number)
        before = settle(runtime)
        for _ in range(OFTEN):
            fake.fail("hipMalloc", OUT_OF_MEMORY, after=number)
        with pytest.raises(AllocationError) as refused:
            result.numpy()
        for part in (pool.name, "bytes", "hipErrorOutOfMemory (2)", "are free"):
            assert part in str(refused.value)
        fake.recover()
        del refused
        assert settle(runtime) == before
        np.testing.assert_array_equal(result.numpy(), wanted)


def test_a_plan_that_needs_more_than_the_device_has_is_told_with_numbers_and_smaller_ones_run(
    fresh: Callable[..., Runtime], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("FAKE_HIP_MEMORY", str(1 << 20))
    runtime = fresh()
    with use(runtime):
        assert settle(runtime) == 1 << 20
        rows = Tensor(np.arange(500, dtype=np.float32))
        products = (rows.reshape(500, 1) * rows.reshape(1, 500)).contiguous()
        products.numpy()
        with pytest.raises(AllocationError, match=r"hip:0 memory has no room for 1000000 bytes: \d+ of 1048576 bytes"):
            (products + 1).numpy()
        with pytest.raises(AllocationError, match=r"takes 1440000 bytes; a buffer of hip:0 has at most 1048576"):
            (Tensor(np.arange(600, dtype=np.float32)).reshape(600, 1) * np.ones((1, 600), np.float32)).numpy()
        assert rows.sum().item() == 499 * 250


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_device_that_is_lost_in_the_middle_of_a_plan_is_named_with_the_kernel(
    fresh: Callable[..., Runtime], fake: Fake, number: int
):
    runtime = fresh(use_blas=False)
    with use(runtime):
        result, _ = three_kernels(number)
        fake.fail("hipModuleLaunchKernel", ILLEGAL_ADDRESS, after=number)
        with pytest.raises(DeviceLostError, match=r"kernel \w+ on hip:0: the device can do no more work.*: .*\(700\)"):
            result.numpy()


def test_a_device_that_is_lost_while_a_recorded_plan_runs_is_named_and_the_other_goes_on(
    fresh: Callable[..., Runtime], fake: Fake
):
    runtime = fresh(use_blas=False)
    with use(runtime):
        before = fake.count("hipGraphLaunch")
        for _ in range(12):  # launched, captured, recorded when the same buffers come again, played
            result, wanted = three_kernels(5)
            np.testing.assert_array_equal(result.numpy(), wanted)
        played = fake.count("hipGraphLaunch")
        assert played > before
        result, _ = three_kernels(5)
        result.realize()
        fake.lose(ILLEGAL_ADDRESS)
        with pytest.raises(
            DeviceLostError, match=r"3 kernels on hip:0 \(contig.*: the device can do no more work.*: hip"
        ):
            result.numpy()
        assert (Tensor([1, 2], device="hip:1") + 1).numpy().tolist() == [2, 3]
        assert fake.count("hipGraphLaunch") > played
