"""Put the parts together: adapters as the driver lists them, their sessions and pools, and zyx's devices."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from zyx.drivers.faults import Fault
from zyx.drivers.opening import asked_for, is_named, open_each
from zyx.errors import InitializationError
from zyx_backend_wgpu import driver, driver_vulkan
from zyx_backend_wgpu.device import WgpuDevice
from zyx_backend_wgpu.info import FEATURES, LEAST_LIMITS, device_info, language_of, max_buffer_bytes
from zyx_backend_wgpu.memory import WgpuPool
from zyx_backend_wgpu.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.backend import MemoryPool
    from zyx.hookspecs import BackendConfig
    from zyx_backend_wgpu.plugin import WgpuConfig

_VERSIONS: Final = f"zyx-backend-wgpu {__version__}, {driver.VERSION}"
#: Memory of an adapter of which nothing is known.
_UNKNOWN_BYTES: Final = 4 << 30


def open_pools(config: BackendConfig[WgpuConfig]) -> Sequence[WgpuPool]:
    """Return the pools of the adapters that are asked for and start; those that refuse are noted.

    Raises:
        DriverNotFoundError: There is no adapter.
        NoDeviceError: No adapter is asked for; the text has those there are.
        InitializationError: All of them refused.
    """
    section = config.section
    listed = driver.list_adapters(opengl=section.opengl)
    asked = f"adapters {section.adapters}"
    wanted = asked_for(listed, lambda adapter: is_named(str(adapter), section.adapters), asked, what="adapter")
    what = (FEATURES, None) if section.extensions else ((), LEAST_LIMITS)

    def open_pool(number: int, adapter: driver.ListedAdapter) -> WgpuPool:
        session, name = driver.Session(adapter, *what), f"wgpu:{number}"
        capacity = section.memory_bytes or memory_bytes(adapter)
        return WgpuPool(f"{name} memory", session, name, capacity, max_buffer_bytes(session.limits))

    return open_each(wanted, open_pool, config.note)


def memory_bytes(adapter: driver.ListedAdapter) -> int:
    """Return the size of an adapter's memory, which WebGPU does not tell: as Vulkan says, else as may be expected."""
    known = driver_vulkan.memory_bytes(*adapter.ids, adapter.name) if adapter.road == "Vulkan" else None
    if known is not None:
        return known
    if adapter.kind in ("CPU", "IntegratedGPU") and hasattr(os, "sysconf"):
        return int(os.sysconf("SC_PAGE_SIZE")) * int(os.sysconf("SC_PHYS_PAGES")) // 2
    return _UNKNOWN_BYTES


def open_devices(pools: Mapping[str, MemoryPool]) -> Sequence[WgpuDevice]:
    """Return the device of each pool, in order.

    Raises:
        InitializationError: A driver does not run the simplest of kernels.
    """
    devices = []
    for number, pool in enumerate(pool for pool in pools.values() if isinstance(pool, WgpuPool)):
        session = pool.session
        try:
            language = language_of(session)
            info = device_info(session, language, _VERSIONS)
        except Fault as fault:
            raise InitializationError(f"{session.adapter} does not work: {fault}") from fault
        devices.append(WgpuDevice(f"wgpu:{number}", pool, info, language))
    return devices
