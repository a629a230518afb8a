"""The business card: cheap to import, found by core, configured by the user, and honest about what is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from zyx.errors import NoDeviceError, SettingsError
from zyx.plugins.choose import choose_device
from zyx.plugins.discover import installed
from zyx.plugins.manager import PluginManager
from zyx.plugins.opening import OpenedBackends
from zyx.plugins.state import BackendState
from zyx.settings.load import load_settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from every_driver.fixtures import Card
    from zyx.backend import Device

#: Prints what became of a backend in a process of its own, since a driver is looked for once in a process.
REPORT = """
from zyx.plugins.manager import PluginManager
from zyx.plugins.opening import open_backends
from zyx.settings.record import Settings
opened = open_backends(PluginManager(Settings()), ["NAME"])
report = next(report for report in opened.reports if report.name == "NAME")
print(report.state.value, "|", report.reason)
opened.close()
"""


def run(script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a script where only its own variables name drivers."""
    environ = {**os.environ, **variables}
    environ.pop("XDG_RUNTIME_DIR", None)
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120, env=environ
    )


def report_of(name: str, before: str = "", **variables: str) -> tuple[str, str]:
    """Return the state of a backend in a process that does something `before` it opens it, and the reason."""
    result = run(f"{before}\n{REPORT.replace('NAME', name)}", **variables)
    state, _, reason = result.stdout.partition(" | ")
    return state, reason


@pytest.fixture
def opened(card: Card, tmp_path: Path) -> Callable[..., OpenedBackends]:
    """``opened(ZYX_...="...")`` is this backend alone, not open yet, with variables that set it."""

    def make(**variables: str) -> OpenedBackends:
        environ = {"ZYX_CACHE_DIR": str(tmp_path / "cache"), **variables}
        own = [entry for entry in installed()[0] if entry.name == card.name]
        return OpenedBackends(PluginManager(load_settings(environ=environ), own))

    return make


def test_importing_the_card_loads_no_driver(card: Card):
    result = run(f"import sys, zyx_backend_{card.name}.plugin; print({card.binding!r} in sys.modules)")
    assert result.stdout.strip() == "False"


def test_without_the_binding_the_state_is_no_driver_and_the_reason_says_what_to_install(card: Card):
    state, reason = report_of(card.name, f"import sys; sys.modules[{card.binding!r}] = None")
    assert state == BackendState.NO_DRIVER.value
    assert card.install in reason


def test_a_module_of_zyx_that_is_missing_is_no_driver_that_is_missing(card: Card, device: Device):
    state, reason = report_of(card.name, "import sys; sys.modules['zyx.drivers.opening'] = None")
    assert state == BackendState.WRONG_API_VERSION.value
    assert "zyx.drivers.opening" in reason
    assert card.install not in reason


def test_opening_prints_nothing(card: Card, device: Device):
    result = run(REPORT.replace("NAME", card.name))
    assert result.stdout.startswith(BackendState.READY.value)
    assert result.stderr == ""


def test_every_device_is_listed_with_a_pool_of_its_own(
    card: Card, device: Device, opened: Callable[..., OpenedBackends]
):
    backends = opened()
    report = backends.open(card.name)
    assert report.state is BackendState.READY
    assert report.devices == tuple(f"{card.name}:{number}" for number in range(len(report.devices)))
    pools = [backends.devices[name].memory_pool for name in report.devices]
    assert [pool.name for pool in pools] == [f"{name} memory" for name in report.devices]
    assert all(pool.free_bytes > 1 << 20 for pool in pools)
    backends.close()


def test_a_device_is_chosen_by_its_number_or_a_part_of_its_name(
    card: Card, device: Device, opened: Callable[..., OpenedBackends]
):
    backends = opened()
    part = device.info.model.split()[0].upper()
    for text in (card.name, f"{card.name}:0"):
        assert choose_device(text, backends).device.name == f"{card.name}:0"
    assert part.lower() in choose_device(f"{card.name}:{part}", backends).device.info.model.lower()
    for missing in ("99", "abacus"):
        with pytest.raises(NoDeviceError) as refused:
            choose_device(f"{card.name}:{missing}", backends)
        assert f"no device '{card.name}:{missing}'" in str(refused.value)
        assert f"{card.name}:0 ({device.info.model})" in str(refused.value)
    backends.close()


def test_a_setting_of_the_wrong_type_is_an_error_that_names_it(card: Card, opened: Callable[..., OpenedBackends]):
    setting, value = card.setting
    with pytest.raises(SettingsError, match=setting):
        opened(**{f"ZYX_{card.name.upper()}_{setting.upper()}": value}).open(card.name)
