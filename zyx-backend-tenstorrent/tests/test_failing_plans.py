"""Faults in the middle of plans: the error is the right one, nothing is kept, and other devices go on."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import numpy as np
import pytest

import zyx
from zyx.drivers.faults import Cause, Fault
from zyx.errors import AllocationError, DeviceLostError, LaunchError, NoDeviceError, TransferError
from zyx.runtime.runtime import use

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.runtime.runtime import Runtime
    from zyx_backend_tenstorrent.driver_sim import Simulator

RNG = np.random.default_rng(0)
A = RNG.standard_normal((96, 64)).astype(np.float32)
N = RNG.integers(0, 9, (96, 64)).astype(np.int32)


def in_turn(x: zyx.Tensor, n: zyx.Tensor) -> zyx.Tensor:
    """Compute on the device, on the host, since it is of integers, and on the device again."""
    first = zyx.exp(x * 0.5).contiguous()
    counted = zyx.cumulative_sum(n, axis=1).astype(zyx.float32)
    return (first + counted).contiguous() @ x.T


def wanted() -> np.ndarray:
    return (np.exp(A * np.float32(0.5)) + np.cumsum(N, axis=1)) @ A.T


def check(found: zyx.Tensor) -> None:
    np.testing.assert_allclose(found.numpy(), wanted(), rtol=1e-4, atol=1e-2)  # sums of terms of both signs, to 1e4


def live(runtime: Runtime) -> dict[str, int]:
    gc.collect()
    return {pool: use.live_bytes for pool, use in zyx.memory_stats().items()}


def failing_at(servant: Simulator, method: str, number: int, fault: Fault) -> Callable[..., object]:
    """Return what stands in for a method of a servant: its call of this number, from 0, is a fault."""
    true, calls = getattr(servant, method), iter(range(1000))

    def called(*arguments: object) -> object:
        if next(calls) == number:
            raise fault
        return true(*arguments)

    return called


def test_the_plan_of_these_tests_goes_to_the_host_and_back(fresh):
    with use(fresh()):
        y = in_turn(zyx.Tensor(A), zyx.Tensor(N))
        steps = [step for step in zyx.explain_plan(y)["steps"] if step["kind"] in {"launch", "copy"}]
        places = [step["device"] for step in steps if step["kind"] == "launch"]
        assert "copy" in {step["kind"] for step in steps}
        assert places.count("tenstorrent:0") >= 2
        assert set(places) != {"tenstorrent:0"}
        check(y)


@pytest.mark.parametrize(
    ("method", "cause", "kind", "number"),
    [
        ("run", Cause.REFUSED, LaunchError, 0),
        ("run", Cause.REFUSED, LaunchError, 1),
        ("run", Cause.DEADLOCK, LaunchError, 1),
        ("run", Cause.MEMORY, AllocationError, 1),
        ("tensor", Cause.MEMORY, AllocationError, 0),
        ("tensor", Cause.MEMORY, AllocationError, 1),
        ("matrix", Cause.REFUSED, TransferError, 0),
    ],
    ids=lambda value: getattr(value, "name", getattr(value, "__name__", str(value))),
)
def test_a_fault_in_a_plan_with_copies_keeps_nothing(method, cause, kind, number, fresh, monkeypatch):
    runtime = fresh()
    servant = runtime.device().pool.servant
    with use(runtime):
        x, n = zyx.Tensor(A).realize(), zyx.Tensor(N).realize()
        before = live(runtime)
        monkeypatch.setattr(servant, method, failing_at(servant, method, number, Fault(cause, "as asked")))
        with pytest.raises(kind, match=rf"tenstorrent:0.*{cause.value}.*as asked"):
            in_turn(x, n).numpy()
        monkeypatch.undo()
        assert live(runtime) == before
        check(in_turn(x, n))


@pytest.mark.parametrize("number", [0, 1])
def test_a_device_lost_in_the_middle_of_a_plan_is_lost_and_others_go_on(number, fresh, monkeypatch):
    runtime = fresh()
    servant = runtime.device().pool.servant
    with use(runtime):
        x, n = zyx.Tensor(A).realize(), zyx.Tensor(N).realize()
        monkeypatch.setattr(servant, "run", failing_at(servant, "run", number, Fault(Cause.LOST, "no answer")))
        with pytest.raises(DeviceLostError, match=r"tenstorrent:0.*no answer"):
            in_turn(x, n).numpy()
        monkeypatch.undo()
        with pytest.raises(NoDeviceError, match=r"lost.*no answer"):
            (x + 1).numpy()
        z = in_turn(zyx.Tensor(A, device="interpreter"), zyx.Tensor(N, device="interpreter"))
        check(z)


def test_what_no_local_memory_holds_is_computed_by_the_host(fresh, monkeypatch):
    fresh()  # or it is skipped
    monkeypatch.setattr("zyx_backend_tenstorrent.driver_sim.LOCAL_BYTES", 1000)  # less than a tile
    with use(fresh()):
        y = zyx.exp(zyx.Tensor(A) + 1)
        devices = {step["device"] for step in zyx.explain_plan(y)["steps"] if step["kind"] == "launch"}
        assert devices
        assert "tenstorrent:0" not in devices
        np.testing.assert_allclose(y.numpy(), np.exp(A + 1), rtol=1e-5)


def test_tiles_that_do_not_fit_beside_their_bytes_are_an_error_of_memory(fresh):
    pairs = np.ones((64, 64, 2), np.float32)  # matrices of 64 x 2 are mostly pads: 128 tiles of 4 KiB in all
    runtime = fresh(memory_bytes=1 << 18)
    with use(runtime):
        x = zyx.Tensor(pairs).realize()
        before = live(runtime)
        with pytest.raises(AllocationError, match=r"tenstorrent:0 memory.*bytes of tiles"):
            (x[:, :, :1] * x).numpy()
        assert live(runtime) == before
        np.testing.assert_array_equal((x + 1).numpy(), pairs + 1)
