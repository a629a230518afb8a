"""The backend itself under the validation layer, with kernels that are given their arguments in one of several ways.

What is found is written to the folder that the variable ``ZYX_TEST_FOUND`` names: messages of the layer with the test
that they came in, and each module that was built. ``ZYX_TEST_WAY`` names the way.
"""

from __future__ import annotations

import hashlib
import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
zyx_memory_pools = plugin.zyx_memory_pools

#: As it comes; descriptor sets where there would be pushes; addresses alone; and numbers in a buffer.
WAYS = ("as it comes", "sets", "addresses", "numbers in a buffer")
FOUND = "ZYX_TEST_FOUND"
MESSAGES = "messages.txt"
#: Versions of SPIR-V that every module is made in, by the environment of the validator.
_VERSIONS = {"vulkan1.2": (1, 5), "vulkan1.3": (1, 6)}
_folder = Path(os.environ[FOUND])


class _Kept(logging.Handler):
    """Writes down what is logged, and during which test."""

    def emit(self, record: logging.LogRecord) -> None:
        with (_folder / MESSAGES).open("a") as file:
            file.write(f"{os.environ.get('PYTEST_CURRENT_TEST', 'no test')}: {record.getMessage()}\n")


logging.getLogger("zyx.vulkan").addHandler(_Kept(logging.WARNING))


@hookimpl
def zyx_devices(config: BackendConfig[VulkanConfig], pools: Mapping[str, MemoryPool]) -> Sequence[Device]:
    devices: Any = plugin.zyx_devices(config, pools)
    for device in devices:
        _take(device, os.environ.get("ZYX_TEST_WAY", WAYS[0]))
    return devices  # type: ignore[no-any-return]  # of this backend


def _take(device: VulkanDevice, way: str) -> None:
    """Have a device hand over arguments in a way, and keep its modules."""
    changes: dict[str, object] = {
        "as it comes": {}, "sets": {}, "addresses": {"max_buffers": 0}, "numbers in a buffer": {"push_bytes": 0},
    }[way]  # fmt: skip
    device.dialect = replace(device.dialect, **changes)  # type: ignore[misc, arg-type]  # else it stays as it is
    if way != WAYS[0]:
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
