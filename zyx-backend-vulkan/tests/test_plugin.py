"""The business card: cheap to import, found by core, configured by the user, and honest about what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from every_driver.cards import *  # noqa: F403
from every_driver.cards import report_of
from every_driver.memory import test_the_memory_to_use_can_be_set  # noqa: F401
from every_driver.vulkan_loaders import *  # noqa: F403

from zyx.plugins.state import BackendState

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.backend import Device
    from zyx.plugins.opening import OpenedBackends
    from zyx.runtime.runtime import Runtime
    from zyx_backend_vulkan.device import VulkanDevice

#: Lets the binding find no library.
NO_LOADER = """
import sys
from types import ModuleType
cache = sys.modules["vulkan._vulkancache"] = ModuleType("vulkan._vulkancache")
class cache_ffi:
    def dlopen(name):
        raise OSError(f"cannot load library {name}")
cache.ffi = cache_ffi
"""


def test_without_a_loader_the_state_is_no_driver_and_the_reason_names_its_package():
    pytest.importorskip("cffi", reason="the package vulkan is not installed")
    state, reason = report_of("vulkan", NO_LOADER)
    assert state == BackendState.NO_DRIVER.value
    assert "apt install libvulkan1 mesa-vulkan-drivers" in reason


def test_without_a_driver_the_state_is_no_driver_and_the_reason_names_the_packages(device: Device):
    state, reason = report_of("vulkan", VK_DRIVER_FILES="/nonexistent.json", VK_ICD_FILENAMES="/nonexistent.json")
    assert state == BackendState.NO_DRIVER.value
    assert "apt install mesa-vulkan-drivers" in reason


def test_devices_are_chosen_by_their_numbers_and_names(
    device: Device, fresh: Callable[..., Runtime], opened: Callable[..., OpenedBackends]
):
    part = device.info.model.split()[0].upper()
    assert part.lower() in fresh(devices=[part]).device().info.model.lower()
    assert fresh(devices=["0"]).device().info.model == device.info.model
    report = opened(ZYX_VULKAN_DEVICES='["no such device", "99"]').open("vulkan")
    assert report.state is BackendState.NO_DEVICE
    assert f"0: {device.info.model}" in report.reason


def test_limits_are_those_that_the_driver_reports(device: VulkanDevice):
    listed, info = device.pool.session.listed, device.info
    limits = listed.limits
    assert info.local_bytes == limits.maxComputeSharedMemorySize
    assert info.max_group_shape == tuple(limits.maxComputeWorkGroupSize)
    assert info.max_groups == tuple(limits.maxComputeWorkGroupCount)
    assert info.max_group_threads <= limits.maxComputeWorkGroupInvocations
    assert info.max_params < limits.maxPerStageDescriptorStorageBuffers
    assert info.max_buffer_bytes <= min(
        limits.maxStorageBufferRange, listed.properties.v11.maxMemoryAllocationSize, device.pool.heaps.capacity_bytes
    )
    assert device.dialect.push_bytes == limits.maxPushConstantsSize


def test_processors_that_a_driver_tells_count_for_what_is_assumed_of_a_kind(
    device: VulkanDevice, monkeypatch: pytest.MonkeyPatch
):
    from zyx_backend_vulkan.info import device_info

    session = device.pool.session
    listed = session.listed
    for owner, name, value in (
        (listed, "kind", "discrete GPU"), (listed, "vendor", 0x10DE), (listed.properties, "units", 0),
    ):  # fmt: skip
        monkeypatch.setattr(owner, name, value)
    assumed = device_info(session, device.pool.heaps, device.dialect, "")
    assert assumed.registers == 255
    monkeypatch.setattr(listed.properties, "units", 2 * assumed.units)
    told = device_info(session, device.pool.heaps, device.dialect, "")
    assert told.units == 2 * assumed.units
    assert told.flops_per_s == 2 * assumed.flops_per_s
    assert told.bytes_per_s == 2 * assumed.bytes_per_s
