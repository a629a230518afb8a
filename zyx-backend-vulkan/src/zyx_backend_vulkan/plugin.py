"""The business card of the Vulkan backend. Importing it loads no driver."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from zyx.drivers.vulkan_loader import may_have_gpus
from zyx.errors import DriverNotFoundError
from zyx.hookspecs import BackendConfig, BackendInfo, hookimpl
from zyx_backend_vulkan.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.backend import Device, MemoryPool

_INSTALL: Final = "pip install 'vulkan>=1.3.275.1,<1.4'"


@dataclass(frozen=True)
class VulkanConfig:
    """The section ``backends.vulkan`` of the configuration.

    Attributes:
        devices: Use only these devices: each text is a number in the order of the list, such as ``0``, or a part of a
            name in upper or lower case, such as ``h200``; empty means all.
        memory_bytes: How much of a device's memory may be used; 0 means all of it.
        validation: Whether what is done is checked by the layer ``VK_LAYER_KHRONOS_validation``, which has to be
            installed; what it finds is logged by ``zyx.vulkan``. Much slower.
        matrices: Whether cooperative matrices are tried when a device is opened, and used where they serve.
    """

    devices: list[str] = field(default_factory=list)
    memory_bytes: int = 0
    validation: bool = False
    matrices: bool = True


@hookimpl
def zyx_backend_info() -> BackendInfo:
    """Return the business card."""
    return BackendInfo("vulkan", __version__, (2, 1), "GPUs and CPUs with a Vulkan driver, by SPIR-V")


@hookimpl
def zyx_may_have_devices() -> bool:
    """Return whether there may be a GPU: not on a Linux that shows none, unless drivers are named to Vulkan's loader.

    Software Vulkan is slower than what compiles for the processor.
    """
    return may_have_gpus()


@hookimpl
def zyx_config_section() -> type[VulkanConfig]:
    """Return the class of this backend's configuration."""
    return VulkanConfig


@hookimpl
def zyx_memory_pools(config: BackendConfig[VulkanConfig]) -> Sequence[MemoryPool]:
    """Return a pool for each device.

    Raises:
        DriverNotFoundError: There is no loader, no binding to it, or no driver.
        NoDeviceError: There are devices, and none is asked for.
        InitializationError: Every device refused or is too old; the text has the reasons.
    """
    from zyx.drivers.opening import needing

    try:
        with needing("the package vulkan", _INSTALL):
            from zyx_backend_vulkan.start import open_pools
    except OSError as error:
        raise DriverNotFoundError(
            f"Vulkan's loader cannot be used ({error}). It comes with a GPU's driver package; on Debian, "
            "apt install libvulkan1 mesa-vulkan-drivers brings it, with drivers for AMD, Intel and any CPU"
        ) from error
    return open_pools(config)


@hookimpl
def zyx_devices(config: BackendConfig[VulkanConfig], pools: Mapping[str, MemoryPool]) -> Sequence[Device]:
    """Return the device of each of this backend's pools."""
    from zyx_backend_vulkan.start import open_devices

    return open_devices(config, pools)
