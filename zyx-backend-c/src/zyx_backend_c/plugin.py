"""The business card of the CPU backend. Importing it loads no driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from zyx.hookspecs import BackendConfig, BackendInfo, hookimpl
from zyx_backend_c.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.backend import Device, MemoryPool
    from zyx.backend.library import LibraryKernel


@dataclass(frozen=True)
class CpuConfig:
    """The section ``backends.c`` of the configuration.

    Attributes:
        toolchain: What compiles kernels: ``llvm``, ``cc`` (the system's C compiler), or ``both``: then ``c:0`` uses
            LLVM and ``c:1`` the C compiler.
        compiler: The C compiler's command; empty means the variable CC, else the first of gcc, clang and cc that is
            there.
    """

    toolchain: Literal["llvm", "cc", "both"] = "llvm"
    compiler: str = ""


@hookimpl
def zyx_backend_info() -> BackendInfo:
    """Return the business card."""
    return BackendInfo(
        name="c",
        version=__version__,
        api_version=(2, 0),
        summary="CPU: vector code through LLVM, or a C compiler",
        works_on_host_memory=True,
    )


@hookimpl
def zyx_config_section() -> type[CpuConfig]:
    """Return the class of this backend's configuration."""
    return CpuConfig


@hookimpl
def zyx_devices(config: BackendConfig[CpuConfig], pools: Mapping[str, MemoryPool]) -> Sequence[Device]:
    """Return the device, or the two devices if both toolchains are asked for."""
    from zyx.drivers.cache import MemoryCache, open_programs
    from zyx_backend_c.start import open_devices

    cache = open_programs(config.cache_directory, "c", config.cache_bytes) or MemoryCache()
    return open_devices(config.section.toolchain, config.section.compiler, config.threads, cache, pools["host"])


@hookimpl
def zyx_library_kernels(device: Device) -> Sequence[LibraryKernel]:
    """Return the matrix products of NumPy's own OpenBLAS, if it is found."""
    from zyx_backend_c.blas import library_kernels
    from zyx_backend_c.device import CpuDevice

    return library_kernels(device) if isinstance(device, CpuDevice) else ()
