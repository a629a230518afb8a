"""The business card: cheap to import, found by core, configured by the user."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from zyx.drivers.disk_cache import DiskCache
from zyx.errors import SettingsError
from zyx.plugins.manager import PluginManager
from zyx.plugins.opening import OpenedBackends
from zyx.plugins.state import BackendState
from zyx.runtime.runtime import Runtime, use
from zyx.settings.load import load_settings
from zyx.tensor.tensor import Tensor
from zyx_backend_c.device import CpuDevice


def opened(tmp_path: Path, **variables: str) -> OpenedBackends:
    environ = {"ZYX_CACHE_DIR": str(tmp_path / "cache"), "PATH": "/usr/bin:/bin", **variables}
    return OpenedBackends(PluginManager(load_settings(environ=environ)))


def test_importing_the_card_loads_no_driver() -> None:
    script = "import sys, zyx_backend_c.plugin; print([m for m in ('llvmlite', 'ctypes.util') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout.strip() == "[]"


def test_core_finds_the_backend_and_opens_one_device_on_host_memory(tmp_path: Path) -> None:
    backends = opened(tmp_path)
    report = backends.open("c")
    assert report is not None
    assert report.state is BackendState.READY, report
    assert report.devices == ("c:0",)
    device = backends.devices["c:0"]
    assert isinstance(device, CpuDevice)
    assert device.memory_pool is backends.pools["host"]
    assert "LLVM" in device.info.driver
    backends.close()


def test_threads_and_cache_directory_come_from_the_settings(tmp_path: Path) -> None:
    backends = opened(tmp_path, ZYX_NUM_THREADS="3")
    backends.open("c")
    device = backends.devices["c:0"]
    assert isinstance(device, CpuDevice)
    assert device.info.units == device.workers.threads == 3
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == ["c-1.sqlite", "key"]
    backends.close()


def test_the_cache_grows_no_larger_than_the_settings_allow(tmp_path: Path) -> None:
    for limit, least, most in ((1 << 20, 8, 8), (10_000, 1, 7)):
        folder = tmp_path / str(limit)
        runtime = Runtime({"cache": {"directory": str(folder), "max_bytes": limit}})
        with use(runtime), runtime.default("c"):
            for factors in range(1, 9):  # programs that no other's kernel serves
                x = y = Tensor([1.0, 2.0])
                for _ in range(factors):
                    y = y.exp() * x
                y.realize()
        runtime.close()
        kept = DiskCache(folder, "c", executable=True).statistics()
        assert least <= kept.entries - 1 <= most  # one entry is that of the workers
        assert kept.nbytes <= limit


def test_the_c_compilers_device_can_be_chosen(tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler on this machine")
    backends = opened(tmp_path, ZYX_C_TOOLCHAIN="both")
    backends.open("c")
    assert [name for name in backends.devices if name.startswith("c:")] == ["c:0", "c:1"]
    backends.close()
    only = opened(tmp_path, ZYX_C_TOOLCHAIN="cc")
    only.open("c")
    assert "-fwrapv" in only.devices["c:0"].info.driver
    only.close()


def test_a_compiler_that_is_missing_is_reported_by_name(tmp_path: Path) -> None:
    backends = opened(tmp_path, ZYX_C_TOOLCHAIN="cc", ZYX_C_COMPILER="no-such-compiler")
    report = backends.open("c")
    assert report is not None
    assert report.state is BackendState.NO_DRIVER
    assert "no-such-compiler" in report.reason
    backends.close()


def test_a_toolchain_that_does_not_exist_is_a_settings_error(tmp_path: Path) -> None:
    backends = opened(tmp_path, ZYX_C_TOOLCHAIN="pascal")
    with pytest.raises(SettingsError, match="toolchain"):
        backends.open("c")
    backends.close()


def test_library_kernels_are_offered_through_the_hook(tmp_path: Path) -> None:
    backends = opened(tmp_path)
    backends.open("c")
    names = [kernel.name for kernel in backends.library_kernels(backends.devices["c:0"])]
    assert all(name.startswith("OpenBLAS") for name in names)
    backends.close()
