"""Devices that a driver lists, some of which refuse: ``starting(True, False)`` of a conftest lists as many."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from zyx.plugins.discover import installed
from zyx.plugins.manager import PluginManager
from zyx.plugins.opening import OpenedBackends
from zyx.plugins.state import BackendState
from zyx.settings.load import load_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from every_driver.fixtures import Card
    from zyx.backend import Device


@pytest.fixture
def backends(card: Card, device: Device, tmp_path: Path) -> Iterator[OpenedBackends]:
    """This backend, not open yet."""
    del device  # there is one
    own = [entry for entry in installed()[0] if entry.name == card.name]
    manager = PluginManager(load_settings(environ={"ZYX_CACHE_DIR": str(tmp_path / "cache")}), own)
    opened = OpenedBackends(manager)
    yield opened
    opened.close()


def round_trip(device: Device, value: int) -> int:
    """Upload a number to a device, and return what comes back."""
    pool = device.memory_pool
    buffer, event = pool.allocate(4)
    data = np.array([value], np.int32)
    pool.sync_events([pool.host_to_pool(data.view(np.uint8).data, buffer, [event])])
    result = np.zeros(1, np.int32)
    pool.pool_to_host(buffer, result.view(np.uint8).data)
    pool.deallocate(buffer)
    return int(result[0])


def test_each_device_has_memory_of_its_own(card: Card, backends: OpenedBackends, starting: Callable[..., None]):
    starting(True, True, True)
    report = backends.open(card.name)
    assert report is not None
    assert report.devices == tuple(f"{card.name}:{number}" for number in range(3))
    devices = [backends.devices[name] for name in report.devices]
    assert len({id(device.memory_pool) for device in devices}) == 3
    assert [round_trip(device, number) for number, device in enumerate(devices)] == [0, 1, 2]


def test_a_device_that_refuses_is_left_out_with_a_note(
    card: Card, backends: OpenedBackends, starting: Callable[..., None]
):
    starting(False, True)
    report = backends.open(card.name)
    assert report is not None
    assert (report.state, report.devices) == (BackendState.READY, (f"{card.name}:0",))
    assert any("left out" in note and "half-way through" in note for note in report.notes)
    assert round_trip(backends.devices[f"{card.name}:0"], 7) == 7


def test_if_all_devices_refuse_the_reasons_are_kept(
    card: Card, backends: OpenedBackends, starting: Callable[..., None]
):
    starting(False, False)
    report = backends.open(card.name)
    assert report is not None
    assert report.state is BackendState.DRIVER_REFUSED
    assert report.reason.count("half-way through") == 2
