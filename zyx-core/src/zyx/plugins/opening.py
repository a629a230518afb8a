"""Open the pools and devices of backends when they are first needed."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

from zyx.backend.collectives import Collectives
from zyx.errors import (
    BackendError,
    DeviceLostError,
    DriverNotFoundError,
    NoDeviceError,
    SettingsError,
    UnsupportedError,
)
from zyx.hookspecs import BackendConfig
from zyx.plugins import check
from zyx.plugins.manager import explain
from zyx.plugins.state import BackendReport, BackendState, Step
from zyx.settings.paths import cache_directory, thread_count
from zyx.settings.section import Nothing, backend_section

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from zyx.backend import Device, MemoryPool
    from zyx.backend.library import LibraryKernel
    from zyx.hookspecs import KernelPass
    from zyx.plugins.manager import Backend, PluginManager

_HOST: Final = "host"


class OpenedBackends:
    """The pools and devices that are open.

    Attributes:
        manager: The backends.
        pools: Open pools by name; ``host`` and ``disk`` are always there.
        devices: Devices that can be used, by name, in the order in which they were opened.
    """

    def __init__(self, manager: PluginManager) -> None:
        self.manager: Final = manager
        self.pools: Final[dict[str, MemoryPool]] = {}
        self.devices: Final[dict[str, Device]] = {}
        self._pools_of: dict[str, list[MemoryPool]] = {}
        self._devices_of: dict[str, list[Device]] = {}
        self._of_parent: list[object] = []  # must not die in the child of a fork: finalisers may call the driver
        self.open(_HOST)

    @property
    def reports(self) -> list[BackendReport]:
        """What is known about every backend now."""
        return self.manager.backends()

    def open(self, name: str) -> BackendReport | None:
        """Open the backend called `name`, at the first call, and return the report about it; None if there is none.

        A backend that fails leaves nothing open, and is not tried again.

        Raises:
            SettingsError: Its section of the configuration is wrong.
        """
        backend = self.manager.load().get(name)
        if backend is None:
            return None
        if backend.report.state is BackendState.INSTALLED:
            self._open(backend)
        return backend.report

    def open_all(self) -> None:
        """Open every backend that is installed and not switched off, by name.

        Raises:
            SettingsError: The section of one of them is wrong.
        """
        for name in self.manager.load():
            self.open(name)

    def backend_of(self, device: Device) -> str:
        """Return the name of the backend that `device` belongs to."""
        return device.name.partition(":")[0]

    def lost(self, device: Device, error: DeviceLostError) -> None:
        """Take a device that stopped answering out of `devices`; the others of its backend go on."""
        self.devices.pop(device.name, None)
        name = self.backend_of(device)
        self.manager.mark_lost(name, error)
        self.manager.load()[name].update(devices=tuple(d for d in self.devices if d.startswith(f"{name}:")))

    def lose_drivers(self) -> list[MemoryPool]:
        """In a process that was just forked: forget the devices that do not work on host memory, without closing them.

        Returns:
            Their pools, none of which may be used.
        """
        pools: list[MemoryPool] = []
        for name, backend in self.manager.load().items():
            devices = self._devices_of.get(name, ())
            if not devices or backend.info is None or backend.info.works_on_host_memory:
                continue
            for device in devices:
                self.devices.pop(device.name, None)
            error = DeviceLostError("it was opened before this process was forked, which drivers do not survive")
            backend.fail(Step.USE, error, BackendState.LOST, "start processes by multiprocessing's method spawn")
            backend.update(devices=())
            pools += self._pools_of[name]
            for pool in self._pools_of[name]:
                self.pools.pop(pool.name, None)
            self._of_parent.append((self._devices_of.pop(name), self._pools_of.pop(name)))
        return pools

    def library_kernels(self, device: Device) -> Sequence[LibraryKernel]:
        """Return what the backend of `device` offers; nothing if its hook raises, which is noted in the report."""
        result = self._extra(self.backend_of(device), "zyx_library_kernels", device=device)
        return result if isinstance(result, list | tuple) else ()

    def kernel_passes(self, device: Device) -> Sequence[KernelPass]:
        """Return the schedule moves that the backend of `device` adds; nothing if its hook raises, which is noted."""
        result = self._extra(self.backend_of(device), "zyx_kernel_passes", device=device)
        return result if isinstance(result, list | tuple) else ()

    def collectives(self, devices: Sequence[Device]) -> Collectives | None:
        """Return what combines buffers across `devices` of one backend; None if it has nothing, or its hook raises."""
        result = self._extra(self.backend_of(devices[0]), "zyx_collectives", devices=devices)
        return result if isinstance(result, Collectives) else None

    def close(self) -> None:
        """Close all devices, then all pools, last opened first. What a backend raises then is noted in its report."""
        for name in reversed(list(self.manager.load())):
            backend = self.manager.load()[name]
            self._close(backend, self._devices_of.pop(name, []), self._pools_of.pop(name, []))
            if backend.report.state is BackendState.READY:
                backend.update(state=BackendState.INSTALLED, devices=())
        self.devices.clear()
        self.pools.clear()

    def _open(self, backend: Backend) -> None:
        name, info = backend.report.name, backend.info
        assert info is not None  # a backend in state INSTALLED was identified
        pools: list[MemoryPool] = []
        devices: list[Device] = []
        step = Step.CONFIG
        try:
            config = self._config(backend)
            step = Step.POOLS
            result = backend.call("zyx_memory_pools", config=config)
            pools = check.pools_in(result)
            check.check_pools(result, self.pools)
            step = Step.DEVICES
            host = self.pools.get(_HOST)
            reachable = {pool.name: pool for pool in ([] if host is None else [host]) + pools}
            result = backend.call("zyx_devices", config=config, pools=reachable)
            devices = check.devices_in(result)
            check.check_devices(result, info, reachable, host)
            if not devices and name != _HOST:
                raise NoDeviceError("its driver works, and finds no device")
        except SettingsError:
            self._close(backend, devices, pools)
            raise
        except Exception as error:  # noqa: BLE001  # border: the hooks and drivers of another package
            self._close(backend, devices, pools)
            state, advice = _verdict(error, backend.report.package)
            backend.fail(step, error, state, advice)
            return
        self._pools_of[name], self._devices_of[name] = pools, devices
        self.pools.update((pool.name, pool) for pool in pools)
        self.devices.update((device.name, device) for device in devices)
        backend.update(state=BackendState.READY, step=Step.USE, devices=tuple(device.name for device in devices))

    def _config(self, backend: Backend) -> BackendConfig[Any]:
        settings, name = self.manager.settings, backend.report.name
        record = backend.call("zyx_config_section")
        if record is not None and not isinstance(record, type):
            raise check.Refusal(
                BackendState.INVALID, Step.CONFIG, f"zyx_config_section returns {record!r}, not a class"
            )
        section: object = backend_section(settings, name, Nothing if record is None else record)
        note = functools.partial(_note, backend)
        return BackendConfig(
            None if record is None else section,
            thread_count(settings),
            cache_directory(settings),
            settings.cache.max_bytes,
            note,
        )

    def _extra(self, name: str, hook: str, **arguments: object) -> object:
        backend = self.manager.load()[name]
        try:
            return backend.call(hook, **arguments)
        except UnsupportedError:
            return None
        except Exception as error:  # noqa: BLE001  # border: the hooks of another package
            _note(backend, f"{hook}: {explain(error)}")
            return None

    def _close(self, backend: Backend, devices: Sequence[Device], pools: Sequence[MemoryPool]) -> None:
        things: list[Device | MemoryPool] = [*devices, *pools]
        for thing in things:
            try:
                thing.close()
            except Exception as error:  # noqa: BLE001  # border: the drivers of another package
                _note(backend, f"closing {thing.name}: {explain(error)}")


def _verdict(error: Exception, package: str) -> tuple[BackendState, str]:
    match error:
        case DriverNotFoundError() | ImportError():
            return BackendState.NO_DRIVER, ""
        case NoDeviceError():
            return BackendState.NO_DEVICE, ""
        case BackendError():
            return BackendState.DRIVER_REFUSED, ""
        case _:
            return BackendState.FAILED, f"report it to the authors of {package}, or run: pip uninstall {package}"


def _note(backend: Backend, text: str) -> None:
    if text not in backend.report.notes:
        backend.update(notes=(*backend.report.notes, text))


def open_backends(manager: PluginManager, names: Collection[str] | None = None) -> OpenedBackends:
    """Return the backends called `names`, opened, or all of them.

    Backends that fail are in the result's `reports` with the reason.

    Raises:
        SettingsError: The configuration is wrong.
    """
    opened = OpenedBackends(manager)
    if names is None:
        opened.open_all()
    else:
        for name in names:
            opened.open(name)
    return opened
