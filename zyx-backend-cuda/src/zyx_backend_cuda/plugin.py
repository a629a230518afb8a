"""The business card of the CUDA backend. Importing it loads no driver."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from zyx.hookspecs import BackendConfig, BackendInfo, hookimpl
from zyx_backend_cuda.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.backend import Device, MemoryPool
    from zyx.backend.collectives import Collectives
    from zyx.backend.library import LibraryKernel


@dataclass(frozen=True)
class CudaConfig:
    """The section ``backends.cuda`` of the configuration.

    Attributes:
        driver: The package that the driver is called through; ``auto`` means pycuda where it is installed, else
            cuda-bindings.
        devices: Use only the devices with these numbers, as the driver counts them; empty means all.
        graphs: Whether captured plans become CUDA graphs.
        tf32: Whether products of float32 matrices may take 11 significant bits of each factor, by tensor cores.
    """

    driver: Literal["auto", "pycuda", "cuda-bindings"] = "auto"
    devices: list[int] = field(default_factory=list)
    graphs: bool = True
    tf32: bool = False


@hookimpl
def zyx_backend_info() -> BackendInfo:
    """Return the business card."""
    return BackendInfo("cuda", __version__, (2, 1), "NVIDIA GPUs")


@hookimpl
def zyx_config_section() -> type[CudaConfig]:
    """Return the class of this backend's configuration."""
    return CudaConfig


@hookimpl
def zyx_memory_pools(config: BackendConfig[CudaConfig]) -> Sequence[MemoryPool]:
    """Return a pool for each device.

    Raises:
        DriverNotFoundError: There is no driver, or no package for it.
        NoDeviceError: The driver has no device, or not the one that is asked for.
        InitializationError: The driver is too old, or every device refused; the text has the reasons.
    """
    from zyx_backend_cuda.start import open_pools

    return open_pools(config)


@hookimpl
def zyx_devices(config: BackendConfig[CudaConfig], pools: Mapping[str, MemoryPool]) -> Sequence[Device]:
    """Return the device of each of this backend's pools.

    Raises:
        DriverNotFoundError: There is no compiler, or none that knows any of the devices.
    """
    from zyx_backend_cuda.start import open_devices

    return open_devices(config, pools)


@hookimpl
def zyx_library_kernels(device: Device) -> Sequence[LibraryKernel]:
    """Return the matrix products of cuBLASLt.

    Raises:
        DriverNotFoundError: It is not found; so it is said once, and then there are none.
        InitializationError: It does not start on the device; likewise.
    """
    from zyx_backend_cuda.start import library_kernels

    return library_kernels(device)


@hookimpl
def zyx_collectives_identifier(devices: Sequence[Device], is_first: bool) -> bytes:
    """Return an identifier of NCCL, if that is there.

    Raises:
        UnsupportedError: It is not; the text says what brings it.
    """
    from zyx_backend_cuda.collectives import identifier

    return identifier(devices, is_first=is_first)


@hookimpl
def zyx_collectives(
    devices: Sequence[Device], ranks: Sequence[int], size: int, identifier: bytes, timeout_s: float
) -> Collectives:
    """Return devices as members of a group that NCCL connects.

    Raises:
        UnsupportedError: It is not there.
    """
    from zyx_backend_cuda.collectives import group_of

    return group_of(devices, ranks, size, identifier, timeout_s)
