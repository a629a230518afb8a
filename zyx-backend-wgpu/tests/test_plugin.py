"""The business card: cheap to import, found by core, configured by the user, and honest about what is missing."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import pytest
from every_driver.cards import *  # noqa: F403
from every_driver.cards import report_of
from every_driver.memory import test_the_memory_to_use_can_be_set  # noqa: F401
from every_driver.vulkan_loaders import *  # noqa: F403

from zyx import dtype as dtypes
from zyx.plugins.state import BackendState

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.backend import Device
    from zyx.plugins.opening import OpenedBackends
    from zyx.runtime.runtime import Runtime


def test_a_wgpu_without_what_is_needed_is_named_with_its_version():
    pytest.importorskip("wgpu", reason="the package wgpu is not installed")
    state, reason = report_of(
        "wgpu", "import wgpu.backends.wgpu_native as n; n._api.lib = object(); n._api.libf = object()"
    )
    assert state == BackendState.NO_DRIVER.value
    assert re.search(r"wgpu \d+\.\d+\.\d+ has no wgpu\w+.*pip install 'wgpu>=0\.32,<0\.33'", reason)


def test_without_an_adapter_the_state_is_no_driver_and_the_reason_names_the_packages():
    pytest.importorskip("wgpu", reason="the package wgpu is not installed")
    state, reason = report_of("wgpu", VK_DRIVER_FILES="/nonexistent.json", VK_ICD_FILENAMES="/nonexistent.json")
    if sys.platform != "linux":
        pytest.skip("only Vulkan can be hidden")
    assert state == BackendState.NO_DRIVER.value
    assert "apt install mesa-vulkan-drivers libvulkan1" in reason


def test_adapters_are_chosen_by_their_names(
    device: Device, fresh: Callable[..., Runtime], opened: Callable[..., OpenedBackends]
):
    part = device.info.model.split()[0].upper()
    assert part.lower() in fresh(adapters=[part]).device().info.model.lower()
    report = opened(ZYX_WGPU_ADAPTERS='["no such adapter"]').open("wgpu")
    assert report.state is BackendState.NO_DEVICE
    assert device.info.model in report.reason


def test_without_extensions_a_device_has_what_webgpu_always_has(fresh: Callable[..., Runtime]):
    info = fresh(extensions=False).device().info
    missing = {dtype for dtype in dtypes.ALL if not info.can_store(dtype)}
    assert missing == {dtypes.int64, dtypes.uint64, dtypes.float64}
    assert (info.max_params, info.local_bytes, info.max_group_threads) == (8, 16384, 256)
    assert info.max_group_shape == (256, 256, 64)
    assert info.max_buffer_bytes <= 1 << 27


def test_limits_are_those_that_the_driver_reports(device: Device):
    limits = device.pool.session.limits  # type: ignore[attr-defined]
    info = device.info
    assert info.max_params == limits["max-storage-buffers-per-shader-stage"]
    assert info.local_bytes == limits["max-compute-workgroup-storage-size"]
    assert info.max_group_threads == limits["max-compute-invocations-per-workgroup"]
    assert info.max_buffer_bytes <= min(limits["max-buffer-size"], limits["max-storage-buffer-binding-size"])
