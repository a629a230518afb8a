"""Several devices, of which some do not start or are too old: the real one listed again, by a driver as told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from every_driver.devices import *  # noqa: F403
from every_driver.memory import (  # noqa: F401
    test_a_plan_that_runs_out_of_memory_names_the_device_and_gives_back_what_it_took,
)

from zyx import dtype as dtypes
from zyx.drivers.faults import Cause, Fault
from zyx.errors import InitializationError
from zyx.plugins.discover import installed
from zyx.plugins.manager import PluginManager
from zyx.plugins.opening import OpenedBackends
from zyx.plugins.state import BackendState
from zyx.settings.load import load_settings
from zyx_backend_vulkan import driver
from zyx_backend_vulkan.driver import ffi

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from zyx.backend import Device
    from zyx.runtime.runtime import Runtime


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """``listed(3)`` makes the loader list the first device three times, and returns the list when it has."""
    from zyx_backend_vulkan.driver_instance import Instance

    good = Instance.devices

    def make(count: int, change: Callable[[int, Any], None] = lambda *_: None) -> list[Any]:
        found: list[Any] = []

        def devices(instance: Instance) -> list[Any]:
            found[:] = [good(instance)[0] for _ in range(count)]
            for number, one in enumerate(found):
                change(number, one)
            return found

        monkeypatch.setattr(Instance, "devices", devices)
        return found

    return make


@pytest.fixture
def starting(monkeypatch: pytest.MonkeyPatch, listed: Callable[..., list[Any]]) -> Callable[..., None]:
    """``starting(True, False)`` lists as many devices, of which those that are False refuse."""
    from zyx_backend_vulkan import start

    good = start.Session

    def make(*starts: bool) -> None:
        found = listed(len(starts))

        def session(device: Any) -> object:
            if not starts[[one is device for one in found].index(True)]:
                raise InitializationError(f"{device} does not start: half-way through")
            return good(device)

        monkeypatch.setattr(start, "Session", session)

    return make


def test_a_device_that_is_too_old_is_left_out_with_its_version_and_the_one_wanted(
    backends: OpenedBackends, listed: Callable[..., list[Any]]
):
    def age(number: int, device: Any) -> None:
        if number == 0:
            device.version = device.own_version = (1, 1)
        if number == 1:
            device.features.v12.timelineSemaphore = False

    listed(3, age)
    report = backends.open("vulkan")
    assert report is not None
    assert report.devices == ("vulkan:0",)
    assert any("has Vulkan 1.1, and at least 1.2 is needed" in note for note in report.notes)
    assert any("no timeline semaphores" in note for note in report.notes)


def test_what_is_listed_outlives_the_list_of_the_driver():
    def fill(count: Any, found: Any) -> None:
        count[0] = 9
        for number in range(9 if found != ffi.NULL else 0):
            found[number].width, found[number].height = number, 3 * number

    found = driver.listed("VkExtent2D", fill)
    written_over = [ffi.new("VkExtent2D[]", [{"width": 77, "height": 77}] * 9) for _ in range(100)]
    assert [(one.width, one.height) for one in found] == [(number, 3 * number) for number in range(9)]
    del written_over


def test_software_is_listed_behind_gpus(device: Device):
    from zyx_backend_vulkan.driver_instance import CPU, Instance

    instance = Instance()
    instance.users += 1
    kinds = [listed.kind == CPU for listed in instance.devices()]
    instance.leave()
    assert kinds == sorted(kinds)


def test_a_driver_that_does_not_run_the_first_kernel_is_an_initialization_error(
    backends: OpenedBackends, monkeypatch: pytest.MonkeyPatch
):
    from zyx_backend_vulkan.driver_programs import Pipelines

    def refuse(*_: object) -> None:
        raise Fault(Cause.REFUSED, "no shaders today")

    monkeypatch.setattr(Pipelines, "build", refuse)
    report = backends.open("vulkan")
    assert report is not None
    assert report.state is BackendState.DRIVER_REFUSED
    assert "does not work: no shaders today" in report.reason


@pytest.mark.parametrize("is_asked", [True, False])
def test_products_of_matrices_are_tried_if_they_are_asked_for_and_what_is_left_out_is_noted(
    device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_asked: bool
):
    from zyx_backend_vulkan import start
    from zyx_backend_vulkan.target import Product

    one = Product((16, 8, 16), dtypes.float16, dtypes.float32)
    monkeypatch.setattr(start, "listed_products", lambda _: (one,))
    settings = load_settings(
        {"backends": {"vulkan": {"matrices": is_asked}}}, environ={"ZYX_CACHE_DIR": str(tmp_path / "cache")}
    )
    own = [entry for entry in installed()[0] if entry.name == "vulkan"]
    opened = OpenedBackends(PluginManager(settings, own))
    report = opened.open("vulkan")
    assert report is not None
    opened.close()
    assert report.state is BackendState.READY
    said = [note for note in report.notes if f"vulkan:0: {one} is left out: " in note]
    assert len(said) == is_asked


@pytest.mark.parametrize(
    ("flags", "chosen"),
    [
        ([7], (0, None)),  # graphics, compute and transfers in one
        ([0xF, 0xC, 0xE, 0x24, 0x44], (2, 1)),  # as NVIDIA has them, with video behind
        ([0x7, 0x24, 0x6, 0x4], (2, 3)),
        ([0x5, 0x2], (1, None)),
    ],
)
def test_launches_take_a_queue_without_graphics_and_transfers_one_for_nothing_else(
    device: Device, flags: list[int], chosen: tuple[int, int | None]
):
    from zyx_backend_vulkan.driver_device import _families

    families = [SimpleNamespace(queueFlags=flag) for flag in flags]
    assert _families(SimpleNamespace(queue_families=families)) == chosen


def test_a_device_that_can_only_draw_is_refused(device: Device):
    from zyx_backend_vulkan.driver_device import _families

    with pytest.raises(InitializationError, match="can only draw"):
        _families(SimpleNamespace(queue_families=[SimpleNamespace(queueFlags=5)]))


def test_memory_that_others_have_is_not_free(
    device: Device, fresh: Callable[..., Runtime], monkeypatch: pytest.MonkeyPatch
):
    from zyx_backend_vulkan.driver_instance import ListedDevice

    left = [1 << 26]
    monkeypatch.setattr(ListedDevice, "heap_available_bytes", lambda *_: left[0])
    pool = fresh().device().memory_pool
    assert pool.capacity_bytes == 1 << 26
    free = pool.free_bytes
    buffer, _ = pool.allocate(1 << 20)
    assert pool.free_bytes == free - (1 << 20)
    left[0] = (1 << 26) - pool._blocks.nbytes - (1 << 20)  # what begins or ends beside
    pool.deallocate(pool.allocate(9 << 20)[0])
    assert pool.free_bytes == free - (1 << 20)
    left[0] = 0
    pool.deallocate(pool.allocate(19 << 20)[0])
    assert pool.free_bytes <= pool._blocks.nbytes, "others have taken all that this process does not have"
    pool.deallocate(buffer)
