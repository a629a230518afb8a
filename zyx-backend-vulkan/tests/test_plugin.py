"""The business card: cheap to import, found by core, configured by the user, and honest about what is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from zyx.drivers import vulkan_loader
from zyx.errors import NoDeviceError, SettingsError
from zyx.plugins.choose import choose_device
from zyx.plugins.discover import installed
from zyx.plugins.manager import PluginManager
from zyx.plugins.opening import OpenedBackends
from zyx.plugins.state import BackendState
from zyx.settings.load import load_settings
from zyx_backend_vulkan import plugin

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from zyx.backend import Device
    from zyx.runtime.runtime import Runtime
    from zyx_backend_vulkan.device import VulkanDevice

#: Prints what became of the backend in a process of its own, since a driver is looked for once in a process.
REPORT = """
from zyx.plugins.manager import PluginManager
from zyx.plugins.opening import open_backends
from zyx.settings.record import Settings
opened = open_backends(PluginManager(Settings()), ["vulkan"])
report = next(report for report in opened.reports if report.name == "vulkan")
print(report.state.value, "|", report.reason)
opened.close()
"""


def opened(tmp_path: Path, **variables: str) -> OpenedBackends:
    environ = {"ZYX_CACHE_DIR": str(tmp_path / "cache"), **variables}
    own = [entry for entry in installed()[0] if entry.name == "vulkan"]
    return OpenedBackends(PluginManager(load_settings(environ=environ), own))


def run(script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, **variables}
    environ.pop("XDG_RUNTIME_DIR", None)
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120, env=environ
    )


def test_importing_the_card_loads_no_driver():
    result = run("import sys, zyx_backend_vulkan.plugin; print('vulkan' in sys.modules)")
    assert result.stdout.strip() == "False"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems show their GPUs elsewhere")
def test_where_linux_shows_no_gpu_the_backend_is_not_opened_for_a_guess(monkeypatch, tmp_path):
    for variable in ("VK_DRIVER_FILES", "VK_ADD_DRIVER_FILES", "VK_ICD_FILENAMES"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(vulkan_loader, "DEVICE_FILES", tmp_path)
    assert not plugin.zyx_may_have_devices()
    with monkeypatch.context() as one:
        one.setenv("VK_DRIVER_FILES", "/there/lvp_icd.json")
        assert plugin.zyx_may_have_devices()
    (tmp_path / "dri").mkdir()
    (tmp_path / "dri" / "card0").touch()  # a screen, with nothing that computes
    assert not plugin.zyx_may_have_devices()
    (tmp_path / "dri" / "renderD128").touch()
    assert plugin.zyx_may_have_devices()


def state_of(result: subprocess.CompletedProcess[str]) -> tuple[str, str]:
    state, _, reason = result.stdout.partition(" | ")
    return state, reason


def test_without_the_binding_the_state_is_no_driver_and_the_reason_says_what_to_install():
    state, reason = state_of(run(f"import sys; sys.modules['vulkan'] = None\n{REPORT}"))
    assert state == BackendState.NO_DRIVER.value
    assert "pip install 'vulkan>=1.3.275.1,<1.4'" in reason


def test_a_module_of_zyx_that_is_missing_is_no_driver_that_is_missing(device: Device):
    state, reason = state_of(run(f"import sys; sys.modules['zyx.drivers.opening'] = None\n{REPORT}"))
    assert state == BackendState.WRONG_API_VERSION.value
    assert "zyx.drivers.opening" in reason


#: Lets the binding find no library.
NO_LOADER = """
import sys
from types import ModuleType
cache = sys.modules["vulkan._vulkancache"] = ModuleType("vulkan._vulkancache")
class cache_ffi:
    def dlopen(name):
        raise OSError(f"cannot load library {name}")
cache.ffi = cache_ffi
"""


def test_without_a_loader_the_state_is_no_driver_and_the_reason_names_its_package():
    pytest.importorskip("cffi", reason="the package vulkan is not installed")
    state, reason = state_of(run(f"{NO_LOADER}\n{REPORT}"))
    assert state == BackendState.NO_DRIVER.value
    assert "apt install libvulkan1 mesa-vulkan-drivers" in reason


def test_without_a_driver_the_state_is_no_driver_and_the_reason_names_the_packages(device: Device):
    result = run(REPORT, VK_DRIVER_FILES="/nonexistent.json", VK_ICD_FILENAMES="/nonexistent.json")
    state, reason = state_of(result)
    assert state == BackendState.NO_DRIVER.value
    assert "apt install mesa-vulkan-drivers" in reason


def test_opening_prints_nothing(device: Device):
    result = run(REPORT)
    assert result.stdout.startswith(BackendState.READY.value)
    assert result.stderr == ""


def test_every_device_is_listed_with_a_pool_of_its_own(device: Device, tmp_path: Path):
    backends = opened(tmp_path)
    report = backends.open("vulkan")
    assert report.state is BackendState.READY
    assert report.devices == tuple(f"vulkan:{number}" for number in range(len(report.devices)))
    pools = [backends.devices[name].memory_pool for name in report.devices]
    assert [pool.name for pool in pools] == [f"{name} memory" for name in report.devices]
    assert all(pool.free_bytes > 1 << 20 for pool in pools)
    backends.close()


def test_a_device_is_chosen_by_its_number_or_a_part_of_its_name(device: Device, tmp_path: Path):
    backends = opened(tmp_path)
    part = device.info.model.split()[0].upper()
    assert choose_device("vulkan:0", backends).device.name == "vulkan:0"
    assert part.lower() in choose_device(f"vulkan:{part}", backends).device.info.model.lower()
    with pytest.raises(NoDeviceError, match="vulkan:0"):
        choose_device("vulkan:99", backends)
    backends.close()


def test_devices_are_chosen_by_their_numbers_and_names(device: Device, fresh: Callable[..., Runtime], tmp_path: Path):
    part = device.info.model.split()[0].upper()
    assert part.lower() in fresh(devices=[part]).device().info.model.lower()
    assert fresh(devices=["0"]).device().info.model == device.info.model
    report = opened(tmp_path, ZYX_VULKAN_DEVICES='["no such device", "99"]').open("vulkan")
    assert report.state is BackendState.NO_DEVICE
    assert f"0: {device.info.model}" in report.reason


def test_a_setting_of_the_wrong_type_is_an_error_that_names_it(tmp_path: Path):
    with pytest.raises(SettingsError, match="memory_bytes"):
        opened(tmp_path, ZYX_VULKAN_MEMORY_BYTES="much").open("vulkan")


def test_the_memory_to_use_can_be_set(fresh: Callable[..., Runtime]):
    assert fresh(memory_bytes=12345).device().memory_pool.free_bytes == 12345


def test_limits_are_those_that_the_driver_reports(device: VulkanDevice):
    listed, info = device.pool.session.listed, device.info
    limits = listed.limits
    assert info.local_bytes == limits.maxComputeSharedMemorySize
    assert info.max_group_shape == tuple(limits.maxComputeWorkGroupSize)
    assert info.max_groups == tuple(limits.maxComputeWorkGroupCount)
    assert info.max_group_threads <= limits.maxComputeWorkGroupInvocations
    assert info.max_params < limits.maxPerStageDescriptorStorageBuffers
    assert info.max_buffer_bytes <= min(
        limits.maxStorageBufferRange, listed.properties.v11.maxMemoryAllocationSize, device.pool.heaps.capacity_bytes
    )
    assert device.dialect.push_bytes == limits.maxPushConstantsSize


def test_processors_that_a_driver_tells_count_for_what_is_assumed_of_a_kind(
    device: VulkanDevice, monkeypatch: pytest.MonkeyPatch
):
    from zyx_backend_vulkan.info import device_info

    session = device.pool.session
    listed = session.listed
    for owner, name, value in (
        (listed, "kind", "discrete GPU"), (listed, "vendor", 0x10DE), (listed.properties, "units", 0),
    ):  # fmt: skip
        monkeypatch.setattr(owner, name, value)
    assumed = device_info(session, device.pool.heaps, device.dialect, "")
    assert assumed.registers == 255
    monkeypatch.setattr(listed.properties, "units", 2 * assumed.units)
    told = device_info(session, device.pool.heaps, device.dialect, "")
    assert told.units == 2 * assumed.units
    assert told.flops_per_s == 2 * assumed.flops_per_s
    assert told.bytes_per_s == 2 * assumed.bytes_per_s
