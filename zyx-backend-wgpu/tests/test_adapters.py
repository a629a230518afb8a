"""Several adapters, of which some do not start: the real one listed again and again, by a driver that fails as told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zyx
from zyx.errors import AllocationError, InitializationError
from zyx.plugins.discover import installed
from zyx.plugins.manager import PluginManager
from zyx.plugins.opening import OpenedBackends
from zyx.plugins.state import BackendState
from zyx.runtime.runtime import use
from zyx.settings.load import load_settings
from zyx_backend_wgpu.errors import Cause, Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from zyx.backend import Device
    from zyx.runtime.runtime import Runtime


@pytest.fixture
def backends(device: Device, tmp_path: Path) -> Iterator[OpenedBackends]:
    """This backend, not open yet."""
    del device  # there is one
    own = [entry for entry in installed()[0] if entry.name == "wgpu"]
    manager = PluginManager(load_settings(environ={"ZYX_CACHE_DIR": str(tmp_path / "cache")}), own)
    opened = OpenedBackends(manager)
    yield opened
    opened.close()


@pytest.fixture
def adapters(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """``adapters(True, False)`` makes the driver list as many adapters, of which those that are False refuse."""
    from zyx_backend_wgpu import driver

    def make(*starts: bool) -> None:
        listed = [driver.list_adapters()[0] for _ in starts]
        refusing = {id(adapter) for adapter, does_start in zip(listed, starts, strict=True) if not does_start}
        good = driver.Session

        def session(adapter: driver.ListedAdapter, *args: object) -> driver.Session:
            if id(adapter) in refusing:
                raise InitializationError(f"{adapter} does not start: half-way through")
            return good(adapter, *args)  # type: ignore[arg-type]  # as they came

        monkeypatch.setattr(driver, "list_adapters", lambda **_: listed)
        monkeypatch.setattr(driver, "Session", session)

    return make


def add_one(device: Device, value: int) -> int:
    """Upload a number to a device, and return what comes back."""
    pool = device.memory_pool
    buffer, event = pool.allocate(4)
    data = np.array([value], np.int32)
    pool.sync_events([pool.host_to_pool(data.view(np.uint8).data, buffer, [event])])
    result = np.zeros(1, np.int32)
    pool.pool_to_host(buffer, result.view(np.uint8).data)
    pool.deallocate(buffer)
    return int(result[0])


def test_each_adapter_is_a_device_with_memory_of_its_own(backends: OpenedBackends, adapters: Callable[..., None]):
    adapters(True, True, True)
    report = backends.open("wgpu")
    assert report is not None
    assert report.devices == ("wgpu:0", "wgpu:1", "wgpu:2")
    devices = [backends.devices[name] for name in report.devices]
    assert len({id(device.memory_pool) for device in devices}) == 3
    assert [add_one(device, number) for number, device in enumerate(devices)] == [0, 1, 2]


def test_an_adapter_that_refuses_is_left_out_with_a_note(backends: OpenedBackends, adapters: Callable[..., None]):
    adapters(False, True)
    report = backends.open("wgpu")
    assert report is not None
    assert (report.state, report.devices) == (BackendState.READY, ("wgpu:0",))
    assert any("left out" in note and "half-way through" in note for note in report.notes)
    assert add_one(backends.devices["wgpu:0"], 7) == 7


def test_if_all_adapters_refuse_the_reasons_are_kept(backends: OpenedBackends, adapters: Callable[..., None]):
    adapters(False, False)
    report = backends.open("wgpu")
    assert report is not None
    assert report.state is BackendState.DRIVER_REFUSED
    assert report.reason.count("half-way through") == 2


@pytest.mark.parametrize(("told", "taken"), [(0, 32), (16, 16), (64, 64)])
def test_threads_in_step_are_as_many_as_the_driver_tells_or_else_32(
    fresh: Callable[..., Runtime], monkeypatch: pytest.MonkeyPatch, told: int, taken: int
):
    fresh()  # skips where there is no device
    from zyx_backend_wgpu import driver

    ask = driver.libf.wgpuAdapterGetInfo

    def tell(adapter: object, info: Any) -> object:
        status = ask(adapter, info)
        info.subgroupMinSize = told
        return status

    monkeypatch.setattr(driver.libf, "wgpuAdapterGetInfo", tell)
    assert fresh().device().info.warp_size == taken


def test_a_driver_that_does_not_run_the_first_kernel_is_an_initialization_error(
    backends: OpenedBackends, monkeypatch: pytest.MonkeyPatch
):
    from zyx_backend_wgpu import driver

    def refuse(*_: object) -> None:
        raise Fault(Cause.REFUSED, "no shaders today")

    monkeypatch.setattr(driver.Session, "build", refuse)
    report = backends.open("wgpu")
    assert report is not None
    assert report.state is BackendState.DRIVER_REFUSED
    assert "does not work: no shaders today" in report.reason


def test_a_plan_that_runs_out_of_memory_names_the_device_and_gives_back_what_it_took(fresh: Callable[..., Runtime]):
    runtime = fresh(memory_bytes=1 << 20)
    pool = runtime.device().memory_pool
    with use(runtime):
        x = zyx.Tensor(np.ones((300, 300), np.float32)).realize()
        before = pool.free_bytes
        with pytest.raises(AllocationError, match="wgpu:0 memory has no room"):
            (x @ x @ x @ x + (x @ x).exp()).realize()
        runtime.memory.reclaim()
        assert pool.free_bytes == before
        assert float((x + 1.0).sum().item()) == 180_000.0
