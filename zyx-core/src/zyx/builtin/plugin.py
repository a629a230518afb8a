"""The business cards of what is built in, in the form that every other backend has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.hookspecs import API_VERSION, BackendInfo, hookimpl
from zyx.lazy_import import lazy_import
from zyx.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.backend import Device, MemoryPool
    from zyx.builtin import disk, dummy, host, interpreter
    from zyx.builtin.dummy import DummyConfig
    from zyx.hookspecs import BackendConfig
else:
    disk = lazy_import("zyx.builtin.disk", globals())
    dummy = lazy_import("zyx.builtin.dummy", globals())
    host = lazy_import("zyx.builtin.host", globals())
    interpreter = lazy_import("zyx.builtin.interpreter", globals())


class HostBackend:
    """Host memory and files: pools without devices."""

    @hookimpl
    def zyx_backend_info(self) -> BackendInfo:
        """Say who this is."""
        return BackendInfo("host", __version__, API_VERSION, "host memory and files")

    @hookimpl
    def zyx_memory_pools(self) -> Sequence[MemoryPool]:
        """Return the pools ``host`` and ``disk``."""
        return [host.HostPool(), disk.DiskPool()]


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
        return [interpreter.InterpreterDevice("interpreter:0", pools["host"])]


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
        return dummy.DummyConfig

    @hookimpl
    def zyx_memory_pools(self, config: BackendConfig[DummyConfig]) -> Sequence[MemoryPool]:
        """Return one pool for each device."""
        return [dummy.DummyPool(f"dummy:{number}", config.section.pool_bytes) for number in range(config.section.count)]

    @hookimpl
    def zyx_devices(self, config: BackendConfig[DummyConfig], pools: Mapping[str, MemoryPool]) -> Sequence[Device]:
        """Return the devices, named like their pools."""
        own = [pools[f"dummy:{number}"] for number in range(config.section.count)]
        return [dummy.DummyDevice(pool.name, pool) for pool in own if isinstance(pool, dummy.DummyPool)]


#: In the order in which they are opened; ``host`` comes before all backends.
BUILT_IN: Final = {"host": HostBackend(), "interpreter": InterpreterBackend(), "dummy": DummyBackend()}
