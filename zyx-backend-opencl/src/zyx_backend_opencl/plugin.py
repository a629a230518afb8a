"""The business card of the OpenCL backend. Importing it loads no driver."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zyx.hookspecs import BackendConfig, BackendInfo, hookimpl
from zyx_backend_opencl.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.backend import Device, MemoryPool


@dataclass(frozen=True)
class OpenclConfig:
    """The section ``backends.opencl`` of the configuration.

    Attributes:
        platforms: Use only platforms with one of these texts in their name, in upper or lower case; empty means all.
        devices: The same for devices.
        out_of_order: Whether to use one out-of-order queue where a device has such; else transfers and launches have a
            queue each.
        command_buffers: Whether captured sequences become command buffers where a device has such.
    """

    platforms: list[str] = field(default_factory=list)
    devices: list[str] = field(default_factory=list)
    out_of_order: bool = True
    command_buffers: bool = True


@hookimpl
def zyx_backend_info() -> BackendInfo:
    """Return the business card."""
    return BackendInfo("opencl", __version__, (2, 1), "GPUs and CPUs with an OpenCL driver")


@hookimpl
def zyx_config_section() -> type[OpenclConfig]:
    """Return the class of this backend's configuration."""
    return OpenclConfig


@hookimpl
def zyx_memory_pools(config: BackendConfig[OpenclConfig]) -> Sequence[MemoryPool]:
    """Return a pool for each device, each with a context of its own.

    Raises:
        DriverNotFoundError: There is no pyopencl, or no platform.
        NoDeviceError: There are platforms, and none has a device that is asked for.
        InitializationError: Every device refused; the text has the reasons.
    """
    from zyx.drivers.opening import needing

    with needing("the package pyopencl", "pip install pyopencl"):
        from zyx_backend_opencl.start import open_pools
    return open_pools(config)


@hookimpl
def zyx_devices(config: BackendConfig[OpenclConfig], pools: Mapping[str, MemoryPool]) -> Sequence[Device]:
    """Return the device of each of this backend's pools."""
    from zyx_backend_opencl.start import open_devices

    return open_devices(config, pools)
