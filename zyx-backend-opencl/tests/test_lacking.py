"""Devices that lack types or functions, and drivers that run out of memory or are lost in the middle of a plan."""

from __future__ import annotations

import gc
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from refused import Refused

import zyx
from zyx.errors import AllocationError, DeviceLostError, UnsupportedError
from zyx.runtime.runtime import use
from zyx.tensor.tensor import Tensor
from zyx_backend_opencl import driver, start

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.runtime.runtime import Runtime
    from zyx_backend_opencl.render import Features

NO_MEMORY, LOST = -4, -36


def failing(method: Callable[..., object], code: int, number: int) -> Callable[..., object]:
    """Return `method` of a session, which fails from call `number` on, counted from 1."""
    calls = [0]

    def call(*args: object) -> object:
        calls[0] += 1
        if calls[0] >= number:
            raise Refused(code)
        return method(*args)

    return call


@pytest.fixture
def lacking(monkeypatch: pytest.MonkeyPatch, fresh: Callable[..., Runtime]) -> Callable[..., Runtime]:
    """``lacking("has_f64")`` opens the device as if it had no float64."""
    features_of = start.features_of

    def open_without(*names: str) -> Runtime:
        def features(device: driver.ListedDevice) -> Features:
            return replace(features_of(device), **dict.fromkeys(names, False))

        monkeypatch.setattr(start, "features_of", features)
        return fresh()

    return open_without


@pytest.mark.parametrize(
    ("missing", "dtype", "nearest"), [("has_f64", "float64", "float32"), ("has_i64", "int64", "int32")]
)
def test_a_dtype_that_the_device_lacks_is_refused_before_anything_is_built_with_the_nearest_way_out(
    lacking: Callable[..., Runtime], monkeypatch: pytest.MonkeyPatch, missing: str, dtype: str, nearest: str
):
    runtime = lacking(missing, "has_f64", "has_i64_atomics")
    with use(runtime):
        with monkeypatch.context() as patch:
            for name in ("build", "load", "launch"):
                patch.setattr(driver.Session, name, failing(getattr(driver.Session, name), LOST, 1))
            with pytest.raises(UnsupportedError) as refused:
                (Tensor([1, 2, 3], dtype=dtype) * 2).numpy()
        for part in ("kernel", runtime.device().info.model, f"{dtype} cannot be stored; cast to {nearest}"):
            assert part in str(refused.value)
        assert (Tensor([1, 2, 3], dtype=nearest) * 2).numpy().tolist() == [2, 4, 6]


@pytest.mark.parametrize("missing", ["has_fma", "has_i64_atomics", "has_f64", "has_f16"])
def test_what_a_device_lacks_and_nobody_asks_for_changes_no_result(lacking: Callable[..., Runtime], missing: str):
    random = np.random.default_rng(0)
    x = random.standard_normal((5, 70)).astype(np.float32)
    powers = np.exp(x - x.max(1, keepdims=True))
    runtime = lacking(missing)
    assert runtime.device().info.has_fma is (missing != "has_fma" and _fuses(runtime))
    with use(runtime):
        t = Tensor(x)
        np.testing.assert_allclose(t.softmax(axis=-1).numpy(), powers / powers.sum(1, keepdims=True), rtol=1e-5)
        assert t.argmax(axis=1).numpy().tolist() == x.argmax(1).tolist()
        halves = t.astype(zyx.float16)
        assert (halves + halves).numpy().tolist() == (2 * x.astype(np.float16)).tolist()
        assert Tensor([3, 1, 2]).sum().item() == 6


def _fuses(runtime: Runtime) -> bool:
    return runtime.device().pool.session.device.fuses_multiply_add  # type: ignore[attr-defined]  # of this backend


def settled(runtime: Runtime) -> int:
    """Wait until nothing is in flight, give back what is kept for later, and return how many bytes are free."""
    gc.collect()
    runtime.memory.reclaim()
    runtime.synchronize()
    return runtime.device().memory_pool.free_bytes


def results(seed: int) -> tuple[Tensor, np.ndarray]:
    """Return a result of three kernels that need memory in between, and what it has to be."""
    x = np.random.default_rng(seed).integers(-4, 5, (40, 50 + seed)).astype(np.float32)
    t = Tensor(x)
    scaled = (t * 2.0 + 1.0).contiguous()
    centred = (scaled - scaled.sum(axis=0, keepdims=True)).contiguous()
    y = 2 * x + 1
    y = y - y.sum(0, keepdims=True)
    return centred @ centred.T, y @ y.T


@pytest.mark.parametrize("number", [1, 2])
def test_memory_that_runs_out_in_the_middle_of_a_plan_leaves_nothing_behind(
    fresh: Callable[..., Runtime], monkeypatch: pytest.MonkeyPatch, number: int
):
    runtime = fresh()
    pool = runtime.device().memory_pool
    with use(runtime):
        result, wanted = results(number)
        before = settled(runtime)
        with monkeypatch.context() as patch:
            patch.setattr(driver.Session, "allocate", failing(driver.Session.allocate, NO_MEMORY, number))
            with pytest.raises(AllocationError) as refused:
                result.numpy()
        for part in (pool.name, "bytes", "CL_MEM_OBJECT_ALLOCATION_FAILURE (-4)", "are free"):
            assert part in str(refused.value)
        del refused
        assert settled(runtime) == before
        np.testing.assert_array_equal(result.numpy(), wanted)  # the driver has memory again


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_device_that_is_lost_in_the_middle_of_a_plan_is_named_with_the_kernel(
    fresh: Callable[..., Runtime], monkeypatch: pytest.MonkeyPatch, number: int
):
    runtime = fresh()
    with use(runtime):
        result, _ = results(number)
        with monkeypatch.context() as patch:
            patch.setattr(driver.Session, "launch", failing(driver.Session.launch, LOST, number))
            with pytest.raises(DeviceLostError) as lost:
                result.numpy()
        assert "kernel " in str(lost.value)
        said = "on opencl:0: the device can do no more work in this process: CL_INVALID_COMMAND_QUEUE (-36)"
        assert said in str(lost.value)
