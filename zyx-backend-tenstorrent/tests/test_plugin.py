"""The business card: cheap to import, found by core, configured by the user, and honest about what is missing."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

from zyx.errors import DriverNotFoundError, NoDeviceError, SettingsError
from zyx.hookspecs import BackendConfig
from zyx_backend_tenstorrent import plugin


def test_importing_the_card_loads_no_driver():
    script = "import sys, zyx_backend_tenstorrent.plugin; print({'torch', 'ttl'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert result.stdout.strip() == "set()"


@pytest.mark.parametrize("missing", ["ttl", "torch"])
def test_what_is_missing_is_named_with_the_line_that_helps(missing, monkeypatch):
    monkeypatch.setattr(plugin, "find_spec", lambda name: None if name == missing else find_spec("os"))
    config = BackendConfig(plugin.TenstorrentConfig(), 1, None)
    with pytest.raises(DriverNotFoundError, match=rf"no module {missing}.*\[sim\]"):
        plugin.zyx_memory_pools(config)


def test_a_simulator_is_never_guessed():
    assert not plugin.zyx_may_have_devices()


def test_the_device_says_what_it_is(device):
    assert device.name == "tenstorrent:0"
    assert "simulated" in device.info.model
    assert "tt-lang-sim" in device.info.driver
    assert (device.info.tiles.rows, device.info.tiles.columns) == (32, 32)


@pytest.mark.parametrize("section", [{"grid_rows": 0}, {"grid_columns": 14}, {"memory_bytes": -1}], ids=str)
def test_settings_have_limits(section, fresh):
    fresh()  # or it is skipped
    with pytest.raises((SettingsError, NoDeviceError), match=next(iter(section))):
        fresh(**section)


def test_the_grid_is_that_of_the_settings(fresh):
    runtime = fresh(grid_rows=2, grid_columns=3)
    assert runtime.device().info.units == 6
