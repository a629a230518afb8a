"""The business card: cheap to import, found by core, configured by the user, and honest about what is missing."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from fake_hip import opened

from zyx.plugins.state import BackendState

if TYPE_CHECKING:
    from pathlib import Path

    from fake_hip import Fake

NO_DEVICE, INVALID_DEVICE, OUT_OF_MEMORY, UNKNOWN = 100, 101, 2, 999


def test_importing_the_card_loads_no_driver():
    script = (
        "import sys, zyx_backend_hip.plugin; print('zyx_backend_hip.driver' in sys.modules, 'ctypes' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout.split()[0] == "False"


@pytest.mark.parametrize("library", ["runtime", "compiler"])
def test_a_library_that_is_missing_is_named_with_what_brings_it(library: str, tmp_path: Path, fake: Fake):
    report = opened(tmp_path, **{**fake.section, library: str(tmp_path / "nowhere.so")}).open("hip")
    assert report.state is BackendState.NO_DRIVER
    assert "ROCm brings it" in report.reason
    assert f"ZYX_HIP_{library.upper()}" in report.reason


def test_a_library_that_is_another_one_is_refused(tmp_path: Path):
    report = opened(tmp_path, runtime="libc.so.6").open("hip")
    assert report.state is BackendState.NO_DRIVER
    assert "has no function hipInit" in report.reason


def test_every_device_is_listed_with_a_pool_of_its_own(tmp_path: Path, fake: Fake):
    backends = opened(tmp_path, **fake.section)
    report = backends.open("hip")
    assert report.state is BackendState.READY
    assert report.devices == ("hip:0", "hip:1")
    assert [backends.devices[name].memory_pool.name for name in report.devices] == ["hip:0 memory", "hip:1 memory"]
    infos = [backends.devices[name].info for name in report.devices]
    assert [info.warp_size for info in infos] == [64, 32]
    assert infos[0].model == "Fake Instinct 0 (gfx90a:sramecc+:xnack-)"
    backends.close()


def test_devices_are_chosen_by_architecture(tmp_path: Path, fake: Fake):
    backends = opened(tmp_path, **fake.section, devices=["GFX11"])
    assert backends.open("hip").devices == ("hip:0",)
    assert "gfx1100" in backends.devices["hip:0"].info.model
    backends.close()


def test_if_no_device_is_chosen_the_reason_lists_them(tmp_path: Path, fake: Fake):
    report = opened(tmp_path, **fake.section, devices=["gfx803"]).open("hip")
    assert report.state is BackendState.NO_DEVICE
    assert "gfx90a" in report.reason
    assert "gfx1100" in report.reason


def test_a_driver_without_devices_is_no_error(tmp_path: Path, fake: Fake):
    fake.fail("hipGetDeviceCount", NO_DEVICE)
    report = opened(tmp_path, **fake.section).open("hip")
    assert report.state is BackendState.NO_DEVICE


def test_a_driver_that_does_not_start_is_told(tmp_path: Path, fake: Fake):
    fake.fail("hipInit", UNKNOWN)
    report = opened(tmp_path, **fake.section).open("hip")
    assert report.state is BackendState.DRIVER_REFUSED
    assert "hipErrorUnknown (999)" in report.reason


@pytest.mark.parametrize("function", ["hipDeviceGetName", "hipGetDevicePropertiesR0600", "hipStreamCreateWithFlags"])
def test_a_device_that_refuses_is_left_out_and_the_others_work(function: str, tmp_path: Path, fake: Fake):
    fake.fail(function, INVALID_DEVICE)
    backends = opened(tmp_path, **fake.section)
    report = backends.open("hip")
    assert report.state is BackendState.READY
    assert report.devices == ("hip:0",)
    assert "gfx1100" in backends.devices["hip:0"].info.model
    assert any("left out" in note and "hipErrorInvalidDevice" in note for note in report.notes)
    backends.close()
