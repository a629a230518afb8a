"""Every backend of this repository that is installed here: found by its entry point, and cheap to find."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from zyx.backend import API_VERSION
from zyx.plugins.discover import GROUP, installed
from zyx.plugins.manager import PluginManager
from zyx.plugins.opening import open_backends
from zyx.plugins.state import KNOWN, BackendState, package_of
from zyx.settings.record import Settings

ROOT = Path(__file__).parents[1]
#: Packages that hold or load drivers and compilers: importing a business card must not touch them.
DRIVERS = ("llvmlite", "pyopencl", "vulkan", "wgpu", "cuda", "pycuda", "hip")


def is_installed(name: str) -> bool:
    try:
        metadata.distribution(package_of(name))
    except metadata.PackageNotFoundError:
        return False
    return True


def _case(name: str) -> object:
    reason = f"{package_of(name)} is not installed"
    return pytest.param(name, marks=[] if is_installed(name) else pytest.mark.skip(reason=reason))


backends = pytest.mark.parametrize("name", [_case(name) for name in KNOWN])


def test_there_is_a_folder_for_every_known_backend_and_no_other() -> None:
    assert {folder.name for folder in ROOT.glob("zyx-backend-*")} == {package_of(name) for name in KNOWN}


@backends
def test_a_backend_is_found_once_by_its_entry_point(name: str) -> None:
    own = [entry for entry in installed()[0] if entry.name == name]
    assert [(entry.package, entry.value) for entry in own] == [(package_of(name), f"zyx_backend_{name}.plugin")]
    assert metadata.entry_points(group=GROUP, name=name)


@backends
def test_loading_a_backend_checks_its_card_and_loads_no_driver(name: str) -> None:
    code = f"""
import sys
from zyx.plugins.manager import PluginManager
from zyx.settings.record import Settings
report = next(report for report in PluginManager(Settings()).backends() if report.name == {name!r})
print(report.state.value, report.version, *[driver for driver in {DRIVERS} if driver in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["installed", metadata.version(package_of(name))]


@backends
def test_opening_a_backend_ends_in_a_state_that_is_explained(name: str) -> None:
    opened = open_backends(PluginManager(Settings()), [name])
    report = next(report for report in opened.reports if report.name == name)
    opened.close()
    if report.state is BackendState.READY:
        assert report.devices
    else:
        assert report.state in {BackendState.NO_DRIVER, BackendState.DRIVER_REFUSED, BackendState.NO_DEVICE}
        assert report.reason


def write_package(site: Path, package: str, backend: str, code: str) -> None:
    module = package.replace("-", "_")
    info = site / f"{module}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{backend} = {module}\n", encoding="utf-8")
    (site / f"{module}.py").write_text(code, encoding="utf-8")


@pytest.mark.skipif(not is_installed("c"), reason="zyx-backend-c is not installed")
def test_hostile_packages_keep_nobody_from_the_cpu_backend(tmp_path: Path) -> None:
    write_package(tmp_path / "site", "aaa-thief", "c", "raise SystemExit('mine')")
    write_package(tmp_path / "site", "exits", "aexits", "raise SystemExit('no driver')")
    write_package(tmp_path / "site", "panics", "zpanics", "raise type('PanicException', (BaseException,), {})('boom')")
    write_package(tmp_path / "site", "hangs", "bhangs", "import threading; threading.Event().wait(60)")
    code = """
import zyx
assert zyx.ones(3, device="c").sum().item() == 3
assert "c:0" in zyx.devices()
assert zyx.default_device() == "c:0"
assert zyx.ones(3).sum().item() == 3
for report in zyx.backends():
    print(report.name, report.state.value, sep=": ")
"""
    environ = {"HOME": str(tmp_path), "PATH": "", "PYTHONPATH": str(tmp_path / "site")}
    environ |= {"ZYX_BACKEND_TIMEOUT_S": "3", "ZYX_BACKENDS": "c,interpreter,aexits,zpanics,bhangs"}
    for command in (["-c", code], ["-m", "zyx", "devices"]):
        environ["ZYX_BACKENDS"] = environ["ZYX_BACKENDS"].replace(",bhangs", "" if command[0] == "-m" else ",bhangs")
        done = subprocess.run(
            [sys.executable, *command], env=environ, capture_output=True, text=True, check=False, timeout=100
        )
        assert (done.returncode, done.stderr) == (0, "")
        if command[0] == "-c":
            lines = dict(line.split(": ") for line in done.stdout.splitlines())
            assert (lines["c"], lines["c (aaa-thief)"]) == ("ready", "invalid")
            assert lines["aexits"] == lines["zpanics"] == lines["bhangs"] == "import failed"
        else:
            assert "default: c:0, since" in done.stdout


@backends
def test_a_backend_requires_the_core_whose_interface_it_is_written_for(name: str) -> None:
    backend = PluginManager(Settings()).load()[name]
    assert backend.info is not None
    assert backend.info.api_version <= API_VERSION
    ours = [
        text for text in metadata.requires(package_of(name)) or () if text.startswith("zyx-") and "extra" not in text
    ]
    assert len(ours) == 1
    assert ours[0].startswith("zyx-core")
    assert "<" in ours[0]
