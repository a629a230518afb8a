"""Put the parts together: devices as the driver lists them, their sessions and pools, and zyx's devices."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from zyx.drivers.cache import open_programs
from zyx.drivers.opening import asked_for, is_named, open_each
from zyx.errors import InitializationError, NoDeviceError
from zyx_backend_opencl import driver
from zyx_backend_opencl.device import ClDevice
from zyx_backend_opencl.info import build_options, device_info, features_of
from zyx_backend_opencl.memory import ClPool, OneThreadPool
from zyx_backend_opencl.render import opencl_dialect
from zyx_backend_opencl.subgroups import swap_in_order
from zyx_backend_opencl.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.backend import MemoryPool
    from zyx.hookspecs import BackendConfig
    from zyx_backend_opencl.plugin import OpenclConfig

_VERSIONS: Final = f"zyx-backend-opencl {__version__}, {driver.VERSION}"


def open_pools(config: BackendConfig[OpenclConfig]) -> Sequence[ClPool]:
    """Return the pools of the devices that are asked for and start; those that refuse or are too old are noted.

    Raises:
        DriverNotFoundError: There is no platform.
        NoDeviceError: No device is asked for; the text has those there are.
        InitializationError: All of them refused, or are too old.
    """
    section = config.section
    listed, refused = driver.list_devices()
    if not listed:
        raise NoDeviceError("; ".join(["the platforms there are have no device", *refused]))
    wanted = asked_for(
        listed,
        lambda device: is_named(device.platform, section.platforms) and is_named(device.name, section.devices),
        f"platforms {section.platforms}, devices {section.devices}",
    )

    def open_pool(number: int, device: driver.ListedDevice) -> ClPool:
        if device.version < driver.LEAST_VERSION:
            have, least = (".".join(map(str, version)) for version in (device.version, driver.LEAST_VERSION))
            what = f"{device} has OpenCL {have}"
            raise InitializationError(f"{what}, and at least {least} is needed: update its driver")
        session = driver.Session(device, out_of_order=section.out_of_order)
        capacity, largest = device.query("global_mem_size"), device.query("max_mem_alloc_size", 1 << 27)
        kind = ClPool if device.takes_threads else OneThreadPool
        return kind(f"opencl:{number} memory", session, capacity, largest)

    return open_each(wanted, open_pool, config.note, refused)


def open_devices(config: BackendConfig[OpenclConfig], pools: Mapping[str, MemoryPool]) -> Sequence[ClDevice]:
    """Return the device of each pool, in order.

    Raises:
        InitializationError: A driver claims what it does not have.
    """
    cache = open_programs(config.cache_directory, "opencl", config.cache_bytes)
    ours = [pool for pool in pools.values() if isinstance(pool, ClPool)]
    devices = []
    for number, pool in enumerate(ours):
        listed = pool.session.device
        features = features_of(listed)
        dialect = opencl_dialect(features)
        try:
            if features.subgroups and not swap_in_order(pool.session, dialect, build_options(listed), features):
                features = replace(features, subgroups="")
                dialect = opencl_dialect(features)
            info = device_info(listed, dialect, _VERSIONS, features.subgroup_size)
        except driver.ClError as error:
            raise InitializationError(f"{listed} does not answer: {error}") from error
        recorder = None
        if config.section.command_buffers:
            try:
                recorder = pool.session.command_buffers()
            except driver.RecordingError as error:
                config.note(f"opencl:{number} does without command buffers: {error}")
        name, options = f"opencl:{number}", build_options(listed)
        devices.append(ClDevice(name, pool, info, dialect, options, cache, recorder, config.note))
    return devices
