"""The business cards of what is built in, in the form that every other backend has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.hookspecs import API_VERSION, BackendInfo, hookimpl
from zyx.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.backend import Device, MemoryPool
    from zyx.builtin.dummy import DummyConfig
    from zyx.hookspecs import BackendConfig


class HostBackend:
    """Host memory and files: pools without devices."""

    @hookimpl
    def zyx_backend_info(self) -> BackendInfo:
        """Say who this is."""
        return BackendInfo("host", __version__, API_VERSION, "host memory and files")

    @hookimpl
    def zyx_memory_pools(self) -> Sequence[MemoryPool]:
        """Return the pools ``host`` and ``disk``."""
        from zyx.builtin.disk import DiskPool
        from zyx.builtin.host import HostPool

        return [HostPool(), DiskPool()]


class InterpreterBackend:
    """The device of last resort."""

    @hookimpl
    def zyx_backend_info(self) -> BackendInfo:
        """Say who this is."""
        return BackendInfo(
            "interpreter",
            __version__,
            API_VERSION,
            "runs kernels with NumPy; slow, always there",
            works_on_host_memory=True,
        )

    @hookimpl
    def zyx_devices(self, pools: Mapping[str, MemoryPool]) -> Sequence[Device]:
        """Return the one interpreter."""
        from zyx.builtin.interpreter import InterpreterDevice

        return [InterpreterDevice("interpreter:0", pools["host"])]


class DummyBackend:
    """Devices that do nothing, for tests."""

    @hookimpl
    def zyx_backend_info(self) -> BackendInfo:
        """Say who this is."""
        return BackendInfo(
            "dummy", __version__, API_VERSION, "accepts everything, computes nothing", enabled_by_default=False
        )

    @hookimpl
    def zyx_config_section(self) -> type[DummyConfig]:
        """Return the number of devices and the size of their pools."""
        from zyx.builtin.dummy import DummyConfig

        return DummyConfig

    @hookimpl
    def zyx_memory_pools(self, config: BackendConfig[DummyConfig]) -> Sequence[MemoryPool]:
        """Return one pool for each device."""
        from zyx.builtin.dummy import DummyPool

        return [DummyPool(f"dummy:{number}", config.section.pool_bytes) for number in range(config.section.count)]

    @hookimpl
    def zyx_devices(self, config: BackendConfig[DummyConfig], pools: Mapping[str, MemoryPool]) -> Sequence[Device]:
        """Return the devices, named like their pools."""
        from zyx.builtin.dummy import DummyDevice, DummyPool

        own = [pools[f"dummy:{number}"] for number in range(config.section.count)]
        return [DummyDevice(pool.name, pool) for pool in own if isinstance(pool, DummyPool)]


#: In the order in which they are opened; ``host`` comes before all backends.
BUILT_IN: Final = {"host": HostBackend(), "interpreter": InterpreterBackend(), "dummy": DummyBackend()}
