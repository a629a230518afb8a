"""The backend itself under the validation layer, with kernels that are given their arguments in one of several ways.

In the way "any order", queues are shuffled as well (`shuffled`).

What is found is written to the folder that the variable ``ZYX_TEST_FOUND`` names: messages of the layer with the test
that they came in, and each module that was built. ``ZYX_TEST_WAY`` names the way.
"""

from __future__ import annotations

import hashlib
import logging
import os
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from zyx.hookspecs import hookimpl
from zyx_backend_vulkan import plugin
from zyx_backend_vulkan.render import render

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.backend import Device, MemoryPool
    from zyx.hookspecs import BackendConfig
    from zyx_backend_vulkan.device import VulkanDevice
    from zyx_backend_vulkan.plugin import VulkanConfig
    from zyx_backend_vulkan.render import Rendered

zyx_backend_info = plugin.zyx_backend_info
zyx_may_have_devices = plugin.zyx_may_have_devices
zyx_config_section = plugin.zyx_config_section

#: What changes in a device's target. Sets are taken where there would be pushes.
WAYS: dict[str, dict[str, object]] = {
    "as it comes": {}, "sets": {}, "addresses": {"max_buffers": 0}, "numbers in a buffer": {"push_bytes": 0},
    "any order": {},
}  # fmt: skip
_PUSHING = ("as it comes", "any order")
#: Versions of SPIR-V that every module is made in, by the environment of the validator.
_VERSIONS = {"vulkan1.2": (1, 5), "vulkan1.3": (1, 6)}
_folder = Path(os.environ["ZYX_TEST_FOUND"])
_way = os.environ["ZYX_TEST_WAY"]


_shuffled: list[object] = []


class _Kept(logging.Handler):
    """Writes down what is logged, and during which test."""

    def emit(self, record: logging.LogRecord) -> None:
        with (_folder / "messages.txt").open("a") as file:
            file.write(f"{os.environ.get('PYTEST_CURRENT_TEST', 'no test')}: {record.getMessage()}\n")


logging.getLogger("zyx.vulkan").addHandler(_Kept(logging.WARNING))


@hookimpl
def zyx_memory_pools(config: BackendConfig[VulkanConfig]) -> Sequence[MemoryPool]:
    if _way == "any order" and not _shuffled:
        from shuffled import shuffle

        _shuffled.append(shuffle(pytest.MonkeyPatch(), Random(0)))
    return plugin.zyx_memory_pools(config)


@hookimpl
def zyx_devices(config: BackendConfig[VulkanConfig], pools: Mapping[str, MemoryPool]) -> Sequence[Device]:
    devices: Any = plugin.zyx_devices(config, pools)
    for device in devices:
        _take(device)
    return devices  # type: ignore[no-any-return]  # of this backend


def _take(device: VulkanDevice) -> None:
    """Have a device hand over arguments in a way, and keep its modules."""
    device.dialect = replace(device.dialect, **WAYS[_way])  # type: ignore[misc, arg-type]  # else it stays as it is
    if _way not in _PUSHING:
        device._pipelines.push = None  # type: ignore[misc]  # else it stays as it is
        device._pipelines._layouts.clear()  # those of the probes
    good = device.render

    def kept(kernel: Any) -> Rendered:
        for environment, version in _VERSIONS.items():
            words = render(kernel, replace(device.dialect, version=version)).words
            name = hashlib.sha256(words).hexdigest()
            (_folder / environment).mkdir(exist_ok=True)
            (_folder / environment / f"{name}.spv").write_bytes(words)
        return good(kernel)

    device.render = kept  # type: ignore[method-assign]
