"""The business card: cheap to import, found by core, configured by the user, and honest about what is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from zyx.errors import DriverNotFoundError, InitializationError, NoDeviceError, SettingsError
from zyx.hookspecs import BackendConfig
from zyx_backend_tenstorrent import plugin, start


def test_importing_the_card_loads_no_driver():
    script = "import sys, zyx_backend_tenstorrent.plugin; print({'torch', 'ttl', 'ttnn'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert result.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("serve", "missing", "said"),
    [
        ("simulator", "tt-lang-sim", r"no simulator: no package tt-lang-sim: .*\[sim\]"),
        ("simulator", "torch", r"no simulator: no package torch: .*\[sim\]"),
        ("cards", "ttnn", r"no cards: no package ttnn: .*\[cards\]"),
        ("any", "torch", r"no cards: no package torch: .*\[cards\].*; no simulator: no package torch: .*\[sim\]"),
    ],
)
def test_what_is_missing_is_named_with_the_line_that_helps(serve, missing, said, monkeypatch):
    monkeypatch.setattr(plugin, "_is_installed", lambda package: package != missing)
    with pytest.raises(DriverNotFoundError, match=f"^{said}"):
        plugin.zyx_memory_pools(BackendConfig(plugin.TenstorrentConfig(serve), 1, None))


def test_without_a_card_the_simulator_takes_its_place_unless_cards_are_asked_for(monkeypatch):
    def open_cards(section):
        raise NoDeviceError("TT-Metalium finds no card")

    monkeypatch.setattr(plugin, "_is_installed", lambda package: True)
    monkeypatch.setattr(start, "open_cards", open_cards)
    monkeypatch.setattr(start, "open_simulator", lambda section: ["a simulator"])
    assert plugin.zyx_memory_pools(BackendConfig(plugin.TenstorrentConfig(), 1, None)) == ["a simulator"]
    with pytest.raises(NoDeviceError, match="no cards: TT-Metalium finds no card"):
        plugin.zyx_memory_pools(BackendConfig(plugin.TenstorrentConfig("cards"), 1, None))


def test_the_simulator_does_not_take_the_place_of_a_card_that_cannot_be_opened(monkeypatch):
    def open_cards(section):
        raise InitializationError("card 0: it was refused")

    monkeypatch.setattr(plugin, "_is_installed", lambda package: True)
    monkeypatch.setattr(start, "open_cards", open_cards)
    with pytest.raises(InitializationError, match="card 0"):
        plugin.zyx_memory_pools(BackendConfig(plugin.TenstorrentConfig(), 1, None))


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
