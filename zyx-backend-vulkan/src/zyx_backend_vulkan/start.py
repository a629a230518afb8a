"""Put the parts together: devices as the loader lists them, their sessions and pools, and zyx's devices."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from zyx.drivers.cache import open_programs
from zyx.drivers.faults import Fault
from zyx.drivers.opening import asked_for, is_named, open_each
from zyx.errors import BackendError, InitializationError
from zyx_backend_vulkan import driver, driver_instance
from zyx_backend_vulkan.device import VulkanDevice
from zyx_backend_vulkan.driver_device import Session
from zyx_backend_vulkan.driver_memory import Heaps
from zyx_backend_vulkan.driver_programs import Pipelines
from zyx_backend_vulkan.info import device_info, listed_products, target_of
from zyx_backend_vulkan.memory import VulkanPool
from zyx_backend_vulkan.probes import tried
from zyx_backend_vulkan.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.backend import MemoryPool
    from zyx.hookspecs import BackendConfig
    from zyx_backend_vulkan.plugin import VulkanConfig

_VERSIONS: Final = f"zyx-backend-vulkan {__version__}, {driver.VERSION}"


def open_pools(config: BackendConfig[VulkanConfig]) -> Sequence[VulkanPool]:
    """Return the pools of the devices that are asked for and start; those that refuse or are too old are noted.

    Raises:
        DriverNotFoundError: The loader finds no driver, or none that has a device.
        NoDeviceError: No device is asked for; the text has those there are.
        InitializationError: All of them refused, or are too old, or there is no validation layer.
    """
    section = config.section
    instance = driver_instance.Instance(validation=section.validation)
    instance.users += 1
    try:
        numbered = asked_for(
            list(enumerate(instance.devices())),
            lambda each: _is_asked(*each, section.devices),
            f"devices {section.devices}",
            lambda each: "{}: {}".format(*each),
        )

        def open_pool(number: int, device: driver_instance.ListedDevice) -> VulkanPool:
            session, name = Session(device), f"vulkan:{number}"
            try:
                return VulkanPool(f"{name} memory", session, Heaps(session), name, section.memory_bytes)
            except Fault as fault:
                session.close()
                raise InitializationError(f"{device} does not start: {fault}") from fault

        return open_each([device for _, device in numbered], open_pool, config.note)
    finally:
        instance.leave()


def _is_asked(number: int, device: driver_instance.ListedDevice, parts: Sequence[str]) -> bool:
    """Whether a device is asked for, by its number or a part of its name."""
    names = [part for part in parts if not part.isdigit()]
    return str(number) in parts or ((bool(names) or not parts) and is_named(str(device), names))


def open_devices(config: BackendConfig[VulkanConfig], pools: Mapping[str, MemoryPool]) -> Sequence[VulkanDevice]:
    """Return the device of each pool, in order.

    Raises:
        InitializationError: A driver does not run the simplest of kernels.
    """
    cache = open_programs(config.cache_directory, "vulkan", config.cache_bytes)
    devices = []
    for number, pool in enumerate(pool for pool in pools.values() if isinstance(pool, VulkanPool)):
        session, name = pool.session, f"vulkan:{number}"
        try:
            target = target_of(session)
            pipelines = Pipelines(session, target.subgroup_size)
            note = partial(_note, config, name)
            products = listed_products(session) if config.section.matrices else ()
            target = tried(target, products, pool, pipelines, note)
        except (Fault, BackendError) as error:
            raise InitializationError(f"{session.listed} does not work: {error}") from error
        info = device_info(session, pool.heaps, target, _VERSIONS)
        devices.append(VulkanDevice(name, pool, info, target, pipelines, cache))
    return devices


def _note(config: BackendConfig[VulkanConfig], device: str, text: str) -> None:
    config.note(f"{device}: {text}")
