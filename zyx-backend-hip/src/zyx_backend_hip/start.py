"""Put the parts together: devices as the driver lists them, their sessions and pools, and zyx's devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.drivers.cache import open_programs
from zyx.drivers.opening import asked_for, is_named, open_each
from zyx.errors import InitializationError
from zyx_backend_hip.blas import OLDEST, Blas, candidates
from zyx_backend_hip.device import HipDevice
from zyx_backend_hip.driver import ListedDevice, Runtime, Session
from zyx_backend_hip.info import device_info
from zyx_backend_hip.memory import HipPool
from zyx_backend_hip.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.backend import Device, MemoryPool
    from zyx.backend.library import LibraryKernel
    from zyx.hookspecs import BackendConfig
    from zyx_backend_hip.plugin import HipConfig

_VERSIONS: Final = f"zyx-backend-hip {__version__}"


def open_pools(config: BackendConfig[HipConfig]) -> Sequence[HipPool]:
    """Return the pools of the devices that are asked for and start; those that refuse are noted.

    Raises:
        DriverNotFoundError: A library is missing.
        NoDeviceError: There is no device, or none that is asked for; the text has those there are.
        InitializationError: All of them refused, or the driver did.
    """
    section = config.section
    runtime = Runtime(section.runtime, section.compiler)
    refused: list[str] = []
    listed: list[ListedDevice] = []
    for number in range(runtime.count):
        try:
            listed.append(ListedDevice(runtime, number))
        except InitializationError as error:
            refused.append(str(error))
    asked = f"devices {section.devices}"
    wanted = asked_for(listed, lambda device: is_named(str(device), section.devices), asked) if listed else []
    return open_each(
        wanted, lambda number, device: HipPool(f"hip:{number} memory", Session(device)), config.note, refused
    )


def open_devices(config: BackendConfig[HipConfig], pools: Mapping[str, MemoryPool]) -> Sequence[HipDevice]:
    """Return the device of each pool, in order."""
    cache = open_programs(config.cache_directory, "hip", config.cache_bytes)
    section = config.section
    devices = []
    for number, pool in enumerate(pool for pool in pools.values() if isinstance(pool, HipPool)):
        session = pool.session
        driver = f"{_VERSIONS}, {session.runtime.versions}"
        info = device_info(session.device, driver, pool.capacity_bytes)
        devices.append(HipDevice(f"hip:{number}", pool, info, cache, section))
    return devices


def library_kernels(device: Device) -> Sequence[LibraryKernel]:
    """Return what hipBLASLt offers on a device of this backend.

    Raises:
        DriverNotFoundError: It is not there. From the next call on, nothing is offered.
        InitializationError: It does not start there; likewise.
    """
    if not isinstance(device, HipDevice) or not device.section.use_blas:
        return ()
    if device.kernels is None:
        device.kernels = ()
        if device.pool.session.runtime.hip_version >= OLDEST:
            device.kernels = candidates(Blas(device.pool, device.name, device.section.blas))
    return device.kernels
