"""The business card: cheap to import, found by core, configured by the user, and honest about what is missing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from zyx import dtype as dtypes
from zyx.drivers import vulkan_loader
from zyx.errors import NoDeviceError, SettingsError
from zyx.plugins.choose import choose_device
from zyx.plugins.discover import installed
from zyx.plugins.manager import PluginManager
from zyx.plugins.opening import OpenedBackends
from zyx.plugins.state import BackendState
from zyx.settings.load import load_settings
from zyx_backend_wgpu import plugin

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from zyx.backend import Device
    from zyx.runtime.runtime import Runtime

#: Prints what became of the backend in a process of its own, since a driver is looked for once in a process.
REPORT = """
from zyx.plugins.manager import PluginManager
from zyx.plugins.opening import open_backends
from zyx.settings.record import Settings
opened = open_backends(PluginManager(Settings()), ["wgpu"])
report = next(report for report in opened.reports if report.name == "wgpu")
print(report.state.value, "|", report.reason)
opened.close()
"""


def opened(tmp_path: Path, **variables: str) -> OpenedBackends:
    environ = {"ZYX_CACHE_DIR": str(tmp_path / "cache"), **variables}
    own = [entry for entry in installed()[0] if entry.name == "wgpu"]
    return OpenedBackends(PluginManager(load_settings(environ=environ), own))


def run(script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, **variables}
    environ.pop("XDG_RUNTIME_DIR", None)
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120, env=environ
    )


def test_importing_the_card_loads_no_driver():
    result = run("import sys, zyx_backend_wgpu.plugin; print('wgpu' in sys.modules)")
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


def test_without_wgpu_the_state_is_no_driver_and_the_reason_says_what_to_install():
    result = run(f"import sys; sys.modules['wgpu'] = None\n{REPORT}")
    state, _, reason = result.stdout.partition(" | ")
    assert state == BackendState.NO_DRIVER.value
    assert "pip install 'wgpu>=0.32,<0.33'" in reason


def test_a_module_of_zyx_that_is_missing_is_no_driver_that_is_missing():
    pytest.importorskip("wgpu", reason="the package wgpu is not installed")
    result = run(f"import sys; sys.modules['zyx.drivers.opening'] = None\n{REPORT}")
    state, _, reason = result.stdout.partition(" | ")
    assert state == BackendState.WRONG_API_VERSION.value
    assert "zyx.drivers.opening" in reason
    assert "pip install 'wgpu" not in reason


def test_a_wgpu_without_what_is_needed_is_named_with_its_version():
    pytest.importorskip("wgpu", reason="the package wgpu is not installed")
    result = run(f"import wgpu.backends.wgpu_native as n; n._api.lib = object(); n._api.libf = object()\n{REPORT}")
    state, _, reason = result.stdout.partition(" | ")
    assert state == BackendState.NO_DRIVER.value
    assert re.search(r"wgpu \d+\.\d+\.\d+ has no wgpu\w+.*pip install 'wgpu>=0\.32,<0\.33'", reason)


def test_without_an_adapter_the_state_is_no_driver_and_the_reason_names_the_packages():
    pytest.importorskip("wgpu", reason="the package wgpu is not installed")
    result = run(REPORT, VK_DRIVER_FILES="/nonexistent.json", VK_ICD_FILENAMES="/nonexistent.json")
    state, _, reason = result.stdout.partition(" | ")
    if sys.platform != "linux":
        pytest.skip("only Vulkan can be hidden")
    assert state == BackendState.NO_DRIVER.value
    assert "apt install mesa-vulkan-drivers libvulkan1" in reason


def test_opening_prints_nothing(device: Device):
    result = run(REPORT)
    assert result.stdout.startswith(BackendState.READY.value)
    assert result.stderr == ""


def test_every_adapter_is_listed_with_a_pool_of_its_own(device: Device, tmp_path: Path):
    backends = opened(tmp_path)
    report = backends.open("wgpu")
    assert report.state is BackendState.READY
    assert report.devices == tuple(f"wgpu:{number}" for number in range(len(report.devices)))
    pools = [backends.devices[name].memory_pool for name in report.devices]
    assert [pool.name for pool in pools] == [f"{name} memory" for name in report.devices]
    assert all(pool.free_bytes > 1 << 20 for pool in pools)
    backends.close()


def test_a_device_is_chosen_by_its_number_or_a_part_of_its_name(device: Device, tmp_path: Path):
    backends = opened(tmp_path)
    part = device.info.model.split()[0].upper()
    assert choose_device("wgpu:0", backends).device.name == "wgpu:0"
    assert part.lower() in choose_device(f"wgpu:{part}", backends).device.info.model.lower()
    with pytest.raises(NoDeviceError, match="wgpu:0"):
        choose_device("wgpu:99", backends)
    backends.close()


def test_adapters_are_chosen_by_their_names(device: Device, fresh: Callable[..., Runtime], tmp_path: Path):
    part = device.info.model.split()[0].upper()
    assert part.lower() in fresh(adapters=[part]).device().info.model.lower()
    report = opened(tmp_path, ZYX_WGPU_ADAPTERS='["no such adapter"]').open("wgpu")
    assert report.state is BackendState.NO_DEVICE
    assert device.info.model in report.reason


def test_a_setting_of_the_wrong_type_is_an_error_that_names_it(tmp_path: Path):
    with pytest.raises(SettingsError, match="memory_bytes"):
        opened(tmp_path, ZYX_WGPU_MEMORY_BYTES="much").open("wgpu")


def test_the_memory_to_use_can_be_set(fresh: Callable[..., Runtime]):
    assert fresh(memory_bytes=12345).device().memory_pool.free_bytes == 12345


def test_without_extensions_a_device_has_what_webgpu_always_has(fresh: Callable[..., Runtime]):
    info = fresh(extensions=False).device().info
    missing = {dtype for dtype in dtypes.ALL if not info.can_store(dtype)}
    assert missing == {dtypes.int64, dtypes.uint64, dtypes.float64}
    assert (info.max_params, info.local_bytes, info.max_group_threads) == (8, 16384, 256)
    assert info.max_group_shape == (256, 256, 64)
    assert info.max_buffer_bytes <= 1 << 27


def test_limits_are_those_that_the_driver_reports(device: Device):
    limits = device.pool.session.limits  # type: ignore[attr-defined]
    info = device.info
    assert info.max_params == limits["max-storage-buffers-per-shader-stage"]
    assert info.local_bytes == limits["max-compute-workgroup-storage-size"]
    assert info.max_group_threads == limits["max-compute-invocations-per-workgroup"]
    assert info.max_buffer_bytes <= min(limits["max-buffer-size"], limits["max-storage-buffer-binding-size"])
