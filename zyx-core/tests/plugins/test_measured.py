"""Rates that were measured are kept, given to the device they are of when it is opened, and never to another."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from typing import TYPE_CHECKING

import pytest

from zyx.backend.rates import Rates, assumed_rates, rates_of
from zyx.drivers.disk_cache import DiskCache
from zyx.plugins.manager import PluginManager
from zyx.plugins.measured import NAME, keep_rates, kept_rates
from zyx.plugins.opening import OpenedBackends
from zyx.settings.load import load_settings
from zyx.testing.paper import paper_info

if TYPE_CHECKING:
    from pathlib import Path

    from zyx.backend import DeviceInfo

INFO = paper_info("processor", vector_bytes=64, units=8, cache_bytes=(32768, 1 << 20, 1 << 25))
RATES = Rates(1e12, 2e10, 1e10, (3e11, 1e11, 5e10), 12.5, 1e-6, 0.0, 4e-8, is_measured=True)
CODE = """
from zyx.backend.rates import Rates
from zyx.builtin.dummy import DummyDevice, DummyPool
from zyx.hookspecs import API_VERSION, BackendInfo, hookimpl

class Own(DummyDevice):
    def take_rates(self, rates):
        self._info = self._info.with_rates(rates)

@hookimpl
def zyx_backend_info():
    return BackendInfo("toy", "1.5", API_VERSION, "a toy")

@hookimpl
def zyx_memory_pools():
    return [DummyPool("toy memory")]

@hookimpl
def zyx_devices(pools):
    return [Own("toy:0", pools["toy memory"])]
"""


def entry(folder: Path, info: DeviceInfo = INFO) -> tuple[DiskCache, str]:
    from zyx.plugins.measured import _key

    return DiskCache(folder, NAME, executable=False), _key(info)


def test_what_was_measured_is_found_for_the_same_device_only(tmp_path: Path) -> None:
    assert kept_rates(tmp_path, INFO) is None
    assert list(tmp_path.iterdir()) == []
    assert keep_rates(tmp_path, INFO, RATES)
    assert kept_rates(tmp_path, INFO) == RATES
    for change in ({"model": "another"}, {"driver": "2"}, {"units": 4}):
        assert kept_rates(tmp_path, dataclasses.replace(INFO, **change)) is None  # type: ignore[arg-type]
    assert kept_rates(None, INFO) is None


@pytest.mark.parametrize(
    "change",
    [
        {"flops_per_s": -1.0},
        {"flops_per_s": "fast"},
        {"flops_per_s": True},
        {"bytes_per_s": 0},
        {"launch_s": None},
        {"cache_bytes_per_s": [1e9]},
        {"cache_bytes_per_s": [1e9, 1e9, float("inf")]},
        {"is_measured": False},
        {"another": 1.0},
    ],
    ids=str,
)
def test_an_entry_that_no_device_can_have_counts_for_nothing(tmp_path: Path, change: dict[str, object]) -> None:
    cache, key = entry(tmp_path)
    cache.put(key, json.dumps({**dataclasses.asdict(RATES), **change}).encode())
    assert kept_rates(tmp_path, INFO) is None


@pytest.mark.parametrize("value", [b"", b"{", b"[1]", b"\xff"])
def test_an_entry_that_is_no_record_counts_for_nothing(tmp_path: Path, value: bytes) -> None:
    cache, key = entry(tmp_path)
    cache.put(key, value)
    assert kept_rates(tmp_path, INFO) is None


def test_a_damaged_file_counts_for_nothing_and_can_be_written_again(tmp_path: Path) -> None:
    assert keep_rates(tmp_path, INFO, RATES)
    (tmp_path / "rates-1.sqlite").write_bytes(b"not a database" * 100)
    assert kept_rates(tmp_path, INFO) is None
    assert keep_rates(tmp_path, INFO, RATES)
    with sqlite3.connect(tmp_path / "rates-1.sqlite") as connection:
        connection.execute("UPDATE entries SET value = X'7b7d'")
    connection.close()
    assert kept_rates(tmp_path, INFO) is None


def test_a_device_has_what_was_measured_of_it_when_it_is_opened(package, tmp_path: Path) -> None:
    package("toy", CODE)

    def opened(**cache: object) -> DeviceInfo:
        given = {"cache": {"directory": str(tmp_path / "kept"), "calibration": True, **cache}}
        backends = OpenedBackends(PluginManager(load_settings(given)))
        backends.open("toy")
        info = backends.devices["toy:0"].info
        assert backends.infos["toy:0"] == info
        backends.close()
        return info

    plain = opened()
    assert plain.rates is None
    assert rates_of(plain) == assumed_rates(plain)
    rates = dataclasses.replace(RATES, cache_bytes_per_s=(1e11,) * max(1, len(plain.cache_bytes)))
    assert keep_rates(tmp_path / "kept", plain, rates)
    measured = opened()
    assert measured.rates == rates_of(measured) == rates
    assert (measured.flops_per_s, measured.bytes_per_s) == (1e12, 2e10)
    assert opened(enabled=False) == opened(calibration=False) == plain


def test_a_device_that_takes_no_rates_goes_on_with_those_it_has(package, tmp_path: Path) -> None:
    package("toy", CODE.replace("self._info = self._info.with_rates(rates)", "pass"))
    given = {"cache": {"directory": str(tmp_path), "calibration": True}}
    backends = OpenedBackends(PluginManager(load_settings(given)))
    backends.open("toy")
    info = backends.infos["toy:0"]
    assert keep_rates(tmp_path, info, dataclasses.replace(RATES, cache_bytes_per_s=(1.0,)))
    backends.close()
    backends = OpenedBackends(PluginManager(load_settings(given)))
    backends.open("toy")
    assert backends.infos["toy:0"] == info
    backends.close()
