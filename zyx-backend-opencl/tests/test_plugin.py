"""The business card: cheap to import, found by core, configured by the user, and honest about what is missing."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import zyx
from zyx.errors import NoDeviceError, SettingsError
from zyx.plugins.choose import choose_device
from zyx.plugins.discover import installed
from zyx.plugins.manager import PluginManager
from zyx.plugins.opening import OpenedBackends
from zyx.plugins.state import BackendState
from zyx.runtime.runtime import use
from zyx.settings.load import load_settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from zyx.backend import Device
    from zyx.runtime.runtime import Runtime


def opened(tmp_path: Path, **variables: str) -> OpenedBackends:
    environ = {"ZYX_CACHE_DIR": str(tmp_path / "cache"), **variables}
    own = [entry for entry in installed()[0] if entry.name == "opencl"]
    return OpenedBackends(PluginManager(load_settings(environ=environ), own))


def test_importing_the_card_loads_no_driver():
    script = "import sys, zyx_backend_opencl.plugin; print('pyopencl' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout.strip() == "False"


def test_without_pyopencl_the_state_is_no_driver_and_the_reason_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("start", "driver", "device", "memory", "work", "program", "sequence"):
        monkeypatch.delitem(sys.modules, f"zyx_backend_opencl.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    report = opened(tmp_path).open("opencl")
    assert report.state is BackendState.NO_DRIVER
    assert "pip install pyopencl" in report.reason


def test_a_module_of_zyx_that_is_missing_is_no_driver_that_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("start", "driver", "device", "memory", "work", "program", "sequence"):
        monkeypatch.delitem(sys.modules, f"zyx_backend_opencl.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "zyx.drivers.opening", None)
    report = opened(tmp_path).open("opencl")
    assert report.state is BackendState.WRONG_API_VERSION
    assert "zyx.drivers.opening" in report.reason
    assert "pyopencl" not in report.reason
    assert report.advice == "pip install --upgrade zyx-core zyx-backend-opencl"


def test_every_device_is_listed_with_a_pool_of_its_own(device: Device, tmp_path: Path):
    backends = opened(tmp_path)
    report = backends.open("opencl")
    assert report.state is BackendState.READY
    assert report.devices == tuple(f"opencl:{number}" for number in range(len(report.devices)))
    pools = [backends.devices[name].memory_pool for name in report.devices]
    assert [pool.name for pool in pools] == [f"{name} memory" for name in report.devices]
    backends.close()


def test_a_device_is_chosen_by_number_and_by_a_part_of_its_name(device: Device, runtime: Runtime):
    name = device.info.model.split()[0].upper()
    for text in ("opencl", "opencl:0", f"opencl:{name}"):
        assert choose_device(text, runtime.backends).device is device
    with use(runtime):
        assert zyx.Tensor([1.0, 2.0], device=f"opencl:{name}").device == "opencl:0"


@pytest.mark.parametrize("name", ["opencl:77", "opencl:abacus"])
def test_a_device_that_does_not_exist_is_an_error_that_lists_those_that_do(device: Device, runtime: Runtime, name: str):
    with pytest.raises(NoDeviceError) as refused:
        choose_device(name, runtime.backends)
    assert f"no device '{name}'" in str(refused.value)
    assert f"opencl:0 ({device.info.model})" in str(refused.value)


def test_platforms_and_devices_can_be_left_out_by_name(device: Device, tmp_path: Path):
    platform = device.pool.session.device.platform
    only = opened(tmp_path, ZYX_OPENCL_PLATFORMS=f"no such,{platform[:8].upper()}")
    assert "opencl:0" in only.open("opencl").devices
    only.close()
    report = opened(tmp_path, ZYX_OPENCL_DEVICES="abacus").open("opencl")
    assert report.state is BackendState.NO_DEVICE
    assert "abacus" in report.reason
    assert platform in report.reason


def test_a_setting_of_the_wrong_type_is_an_error(tmp_path: Path):
    with pytest.raises(SettingsError, match="out_of_order"):
        opened(tmp_path, ZYX_OPENCL_OUT_OF_ORDER="perhaps").open("opencl")


def test_a_tensor_is_computed(fresh: Callable[..., Runtime]):
    with use(fresh()):
        x = zyx.Tensor([1.0, 2.0, 4.0])
        assert ((x + 1).numpy() == [2.0, 3.0, 5.0]).all()
        assert x.device == "opencl:0"
        assert (x @ x).item() == 21.0


def test_every_device_computes_and_takes_what_the_others_have(fresh: Callable[..., Runtime]):
    with use(fresh()) as runtime:
        names = [device.name for device in runtime.devices if device.name.startswith("opencl:")]
        for name in names:
            x = zyx.Tensor([1.0, 2.0, 4.0], device=name) + 1
            for other in names:
                y = x.to(other) * 2
                assert y.device == other
                assert y.numpy().tolist() == [4.0, 6.0, 10.0]
