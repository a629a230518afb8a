"""The business card: cheap to import, found by core, configured by the user, and honest about what is missing."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from fake_driver import FakeDriver, FakeSession, fake_cuda

from zyx.errors import DriverNotFoundError, SettingsError
from zyx.plugins.discover import installed
from zyx.plugins.manager import PluginManager
from zyx.plugins.opening import OpenedBackends
from zyx.plugins.state import BackendState
from zyx.settings.load import load_settings
from zyx_backend_cuda import driver, nvrtc, start
from zyx_backend_cuda.nvrtc import Nvrtc

if TYPE_CHECKING:
    from pathlib import Path


def opened(tmp_path: Path, **variables: str) -> OpenedBackends:
    environ = {"ZYX_CACHE_DIR": str(tmp_path / "cache"), **variables}
    own = [entry for entry in installed()[0] if entry.name == "cuda"]
    return OpenedBackends(PluginManager(load_settings(environ=environ), own))


def test_importing_the_card_loads_no_driver():
    script = "import sys, zyx_backend_cuda.plugin; print(sorted({'cuda', 'pycuda', 'ctypes.util'} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout.strip() == "[]"


def without(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    """Let imports of `packages` fail as if they were not installed."""
    for name in ("driver_pycuda", "driver_bindings", "graphs"):
        monkeypatch.delitem(sys.modules, f"zyx_backend_cuda.{name}", raising=False)
        monkeypatch.delattr(sys.modules["zyx_backend_cuda"], name, raising=False)
    for package in packages:
        for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, package, None)


def test_without_any_package_the_reason_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    without(monkeypatch, "pycuda", "cuda")
    report = opened(tmp_path).open("cuda")
    assert report.state is BackendState.NO_DRIVER
    assert "pip install cuda-bindings" in report.reason


def test_a_module_of_zyx_that_is_missing_is_no_driver_that_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def start() -> driver.Driver:
        raise ModuleNotFoundError("No module named 'zyx.later'", name="zyx.later")

    monkeypatch.setattr(driver, "_packages", lambda choice: [("pycuda", start), ("cuda-bindings", start)])
    report = opened(tmp_path).open("cuda")
    assert report.state is BackendState.WRONG_API_VERSION
    assert "zyx.later" in report.reason
    assert report.advice == "pip install --upgrade zyx-core zyx-backend-cuda"


def test_a_driver_that_is_missing_is_named_with_what_brings_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def missing() -> driver.Driver:
        raise DriverNotFoundError("there is no libcuda")

    monkeypatch.setattr(driver, "_packages", lambda choice: [("pycuda", missing), ("cuda-bindings", missing)])
    report = opened(tmp_path).open("cuda")
    assert report.state is BackendState.NO_DRIVER
    assert "pycuda: there is no libcuda; cuda-bindings: there is no libcuda" in report.reason
    assert "libcuda.so.1 comes with NVIDIA's driver" in report.reason
    assert report.notes == ("pycuda is installed, and not used: there is no libcuda",)


def test_without_nvrtc_the_reason_says_which_package_brings_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(nvrtc, "load_library", lambda stem, majors: None)
    with fake_cuda(monkeypatch, [FakeSession()]), monkeypatch.context() as patch:
        patch.setattr(start, "open_nvrtc", nvrtc.open_nvrtc)
        report = opened(tmp_path).open("cuda")
    assert report.state is BackendState.NO_DRIVER
    assert "pip install 'nvidia-cuda-nvrtc>=13,<14'" in report.reason


def test_an_nvrtc_that_does_not_work_is_named_with_what_brings_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    class Broken:
        """A library whose builtins are missing, and which is older than one of its functions."""

        _name = "libnvrtc.so.13"
        nvrtcVersion = staticmethod(lambda major, minor: 7)

    monkeypatch.setattr(nvrtc, "load_library", lambda stem, majors: Broken())
    reports = []
    for _ in range(2):
        with fake_cuda(monkeypatch, [FakeSession()]), monkeypatch.context() as patch:
            patch.setattr(start, "open_nvrtc", nvrtc.open_nvrtc)
            reports.append(opened(tmp_path).open("cuda"))
        monkeypatch.setattr(Broken, "nvrtcVersion", staticmethod(lambda major, minor: 0))
    assert [report.state for report in reports] == [BackendState.NO_DRIVER] * 2
    failed, old = (report.reason for report in reports)
    advice = "; pip install 'nvidia-cuda-nvrtc>=13,<14'"
    assert f"NVRTC, libnvrtc.so.13, does not work: nvrtcVersion: NVRTC error 7{advice}" in failed
    assert f"NVRTC, libnvrtc.so.13, does not work: it has no function nvrtcGetNumSupportedArchs{advice}" in old


def test_a_driver_that_is_too_old_is_named_with_what_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(FakeDriver, "version", (11, 4))
    with fake_cuda(monkeypatch, [FakeSession()]):
        report = opened(tmp_path).open("cuda")
    assert report.state is BackendState.DRIVER_REFUSED
    assert "supports CUDA 11.4 (paper 1.0), and at least 12.0 is needed: update NVIDIA's driver" in report.reason
    assert "pip install" not in report.reason


@pytest.mark.parametrize(
    ("sessions", "reason"), [([], "has no device"), ([FakeSession()], "no CUDA device 7; there are 0")]
)
def test_a_device_that_does_not_exist_is_an_error_that_lists_those_that_do(tmp_path, monkeypatch, sessions, reason):
    with fake_cuda(monkeypatch, sessions):
        report = opened(tmp_path, ZYX_CUDA_DEVICES="7").open("cuda")
    assert report.state is BackendState.NO_DEVICE
    assert reason in report.reason


def test_a_device_that_does_not_start_is_left_out_and_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    broken = FakeSession("Broken")
    broken.refusals["stream"] = [999]
    with fake_cuda(monkeypatch, [None, broken, FakeSession("Sound")]):
        backends = opened(tmp_path)
        report = backends.open("cuda")
        assert report.devices == ("cuda:0",)
        assert backends.devices["cuda:0"].info.model == "Sound (sm_90)"
        assert report.notes == (
            "left out: CUDA device 0 does not start: cuDevicePrimaryCtxRetain: CUDA_ERROR_DEVICE_UNAVAILABLE (46)",
            "left out: CUDA device 1, Broken, does not start: stream: CUDA_ERROR_UNKNOWN (999)",
        )
        backends.close()
    assert broken.is_closed


def test_if_every_device_refuses_the_reasons_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with fake_cuda(monkeypatch, [None, None]):
        report = opened(tmp_path).open("cuda")
    assert report.state is BackendState.DRIVER_REFUSED
    assert report.reason.count("CUDA_ERROR_DEVICE_UNAVAILABLE (46)") == 2


def test_a_setting_of_the_wrong_type_is_an_error(tmp_path: Path):
    with pytest.raises(SettingsError, match="driver"):
        opened(tmp_path, ZYX_CUDA_DRIVER="perhaps").open("cuda")


class FakeNvrtc:
    """A library that knows the architectures 75, 80 and 90."""

    def nvrtcVersion(self, major, minor):  # as the library calls it
        major._obj.value, minor._obj.value = 13, 0
        return 0

    def nvrtcGetNumSupportedArchs(self, count):
        count._obj.value = 3
        return 0

    def nvrtcGetSupportedArchs(self, known):
        known[:] = [75, 80, 90]
        return 0


def test_devices_get_machine_code_and_newer_ones_the_newest_ptx_and_older_ones_advice():
    compiler = Nvrtc(FakeNvrtc())
    assert [compiler.target(capability) for capability in (75, 90, 103)] == ["sm_75", "sm_90", "compute_90"]
    with pytest.raises(DriverNotFoundError, match=r"7\.0.*pip install nvidia-cuda-nvrtc-cu12"):
        compiler.target(70)
