"""The business card of the WebGPU backend. Importing it loads no driver."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from zyx.drivers.vulkan_loader import may_have_gpus
from zyx.hookspecs import BackendConfig, BackendInfo, hookimpl
from zyx_backend_wgpu.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.backend import Device, MemoryPool

_INSTALL: Final = "pip install 'wgpu>=0.32,<0.33'"


@dataclass(frozen=True)
class WgpuConfig:
    """The section ``backends.wgpu`` of the configuration.

    Attributes:
        adapters: Use only adapters with one of these texts in their name or interface, such as ``h200`` or
            ``vulkan``, in upper or lower case; empty means all.
        opengl: Whether to use OpenGL too, which shows the same devices again, and less able.
        extensions: Whether to use what WebGPU leaves optional where it is there: float16, float64, int64, timestamps,
            and more and larger buffers and groups than every device has.
        memory_bytes: How much of a device's memory may be used; 0 means all of it.
    """

    adapters: list[str] = field(default_factory=list)
    opengl: bool = False
    extensions: bool = True
    memory_bytes: int = 0


@hookimpl
def zyx_backend_info() -> BackendInfo:
    """Return the business card."""
    return BackendInfo("wgpu", __version__, (2, 1), "GPUs through Vulkan, Metal or Direct3D 12, by WebGPU")


@hookimpl
def zyx_may_have_devices() -> bool:
    """Return whether there may be a GPU: not on a Linux that shows none, unless drivers are named to Vulkan's loader.

    Loading the package wgpu takes most of a second; software Vulkan is slower than what compiles for the processor.
    """
    return may_have_gpus()


@hookimpl
def zyx_config_section() -> type[WgpuConfig]:
    """Return the class of this backend's configuration."""
    return WgpuConfig


@hookimpl
def zyx_memory_pools(config: BackendConfig[WgpuConfig]) -> Sequence[MemoryPool]:
    """Return a pool for each adapter.

    Raises:
        DriverNotFoundError: There is no wgpu, or no adapter.
        NoDeviceError: There are adapters, and none is asked for.
        InitializationError: Every adapter refused; the text has the reasons.
    """
    from zyx.drivers.opening import needing

    with needing("the package wgpu", _INSTALL, OSError):  # which its native library raises
        from zyx_backend_wgpu.start import open_pools
    return open_pools(config)


@hookimpl
def zyx_devices(pools: Mapping[str, MemoryPool]) -> Sequence[Device]:
    """Return the device of each of this backend's pools."""
    from zyx_backend_wgpu.start import open_devices

    return open_devices(pools)
