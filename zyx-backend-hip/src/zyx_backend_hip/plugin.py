"""The business card of the HIP backend. Importing it loads no driver."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zyx.hookspecs import BackendConfig, BackendInfo, hookimpl
from zyx_backend_hip.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.backend import Device, MemoryPool
    from zyx.backend.collectives import Collectives
    from zyx.backend.library import LibraryKernel


@dataclass(frozen=True)
class HipConfig:
    """The section ``backends.hip`` of the configuration.

    Attributes:
        devices: Use only devices with one of these texts in their name or architecture, in upper or lower case; empty
            means all.
        runtime: Path of libamdhip64, where it is not found by itself.
        compiler: Path of libhiprtc.
        blas: Path of libhipblaslt.
        graphs: Whether captured sequences become graphs.
        use_blas: Whether hipBLASLt's matrix products are tried beside generated ones.
    """

    devices: list[str] = field(default_factory=list)
    runtime: str = ""
    compiler: str = ""
    blas: str = ""
    graphs: bool = True
    use_blas: bool = True


@hookimpl
def zyx_backend_info() -> BackendInfo:
    """Return the business card."""
    return BackendInfo("hip", __version__, (2, 1), "AMD GPUs")


@hookimpl
def zyx_config_section() -> type[HipConfig]:
    """Return the class of this backend's configuration."""
    return HipConfig


@hookimpl
def zyx_memory_pools(config: BackendConfig[HipConfig]) -> Sequence[MemoryPool]:
    """Return a pool for each device.

    Raises:
        DriverNotFoundError: libamdhip64 or libhiprtc is missing.
        NoDeviceError: There is no device, or none that is asked for.
        InitializationError: Every device refused; the text has the reasons.
    """
    from zyx_backend_hip.start import open_pools

    return open_pools(config)


@hookimpl
def zyx_devices(config: BackendConfig[HipConfig], pools: Mapping[str, MemoryPool]) -> Sequence[Device]:
    """Return the device of each of this backend's pools."""
    from zyx_backend_hip.start import open_devices

    return open_devices(config, pools)


@hookimpl
def zyx_library_kernels(device: Device) -> Sequence[LibraryKernel]:
    """Return the matrix products of hipBLASLt, if the configuration has them and HIP is not too old for it.

    Raises:
        DriverNotFoundError: It is not installed; so it is said once, and then there are none.
        InitializationError: It does not start on the device; likewise.
    """
    from zyx_backend_hip.start import library_kernels

    return library_kernels(device)


@hookimpl
def zyx_collectives_identifier(devices: Sequence[Device], is_first: bool) -> bytes:
    """Return an identifier of RCCL, if that is there.

    Raises:
        UnsupportedError: It is not; the text says what brings it.
    """
    from zyx_backend_hip.collectives import identifier

    return identifier(devices, is_first=is_first)


@hookimpl
def zyx_collectives(
    devices: Sequence[Device], ranks: Sequence[int], size: int, identifier: bytes, timeout_s: float
) -> Collectives:
    """Return devices as members of a group that RCCL connects.

    Raises:
        UnsupportedError: It is not there.
    """
    from zyx_backend_hip.collectives import group_of

    return group_of(devices, ranks, size, identifier, timeout_s)
