"""Open the pools and devices of backends when they are first needed."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final, TypeVar

from zyx.backend.collectives import Collectives
from zyx.backend.library import LibraryKernel
from zyx.errors import BackendError, DeviceLostError, NoDeviceError, SettingsError, UnsupportedError
from zyx.hookspecs import BackendConfig, KernelPass
from zyx.lazy_import import lazy_import
from zyx.plugins import check
from zyx.plugins.diagnosis import diagnose
from zyx.plugins.measured import kept_rates
from zyx.plugins.state import KNOWN, BackendReport, BackendState, BackendStep
from zyx.plugins.words import explain, shown, text_of
from zyx.settings.paths import cache_directory, thread_count
from zyx.settings.section import Nothing, backend_section

RecordT = TypeVar("RecordT")

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from zyx.backend import Device, DeviceInfo, MemoryPool
    from zyx.hookspecs import BackendInfo
    from zyx.kernel import parse
    from zyx.passes import pipeline
    from zyx.plugins.manager import Backend, PluginManager
    from zyx.plugins.watchdog import Watchdog
else:
    parse = lazy_import("zyx.kernel.parse", globals())
    pipeline = lazy_import("zyx.passes.pipeline", globals())

_HOST: Final = "host"


class OpenedBackends:
    """The pools and devices that are open.

    Attributes:
        manager: The backends.
        pools: Open pools by name; ``host`` and ``disk`` are always there.
        devices: Devices that can be used, by name, in the order in which they were opened.
        infos: What each device said of itself when it was opened, checked; what is listed and chosen by.
    """

    def __init__(self, manager: PluginManager) -> None:
        self.manager: Final = manager
        self.pools: Final[dict[str, MemoryPool]] = {}
        self.devices: Final[dict[str, Device]] = {}
        self.infos: Final[dict[str, DeviceInfo]] = {}
        self._pools_of: dict[str, list[MemoryPool]] = {}
        self._devices_of: dict[str, list[Device]] = {}
        self._known: dict[tuple[str, str], tuple[Any, ...]] = {}  # what hooks offer for a device
        self._compiles: dict[str, bool] = {}
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
        with self.manager.watchdog() as watchdog:
            return self._open_one(name, watchdog)

    def open_all(self) -> None:
        """Open every backend that is installed and not switched off, by name.

        Raises:
            SettingsError: The section of one of them is wrong.
        """
        with self.manager.watchdog() as watchdog:
            for name in self.manager.load():
                self._open_one(name, watchdog)

    def open_likely(self) -> Sequence[str]:
        """Open every backend that may have a device worth choosing; return the names of those that say they have none.

        Raises:
            SettingsError: The section of one of them is wrong.
        """
        left_out = []
        for name, backend in self.manager.load().items():
            is_unopened = backend.report.state is BackendState.INSTALLED
            if is_unopened and self._extra(name, "zyx_may_have_devices") is False:
                left_out.append(name)
            else:
                self.open(name)
        return left_out

    def backend_of(self, device: Device) -> str:
        """Return the name of the backend that `device` belongs to."""
        return device.name.partition(":")[0]

    def has(self, device: Device) -> bool:
        """Whether `device` is open, and not one of its name that was closed."""
        return self.devices.get(device.name) is device

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
            backend.fail(BackendStep.USE, error, BackendState.LOST, "start processes by multiprocessing's method spawn")
            backend.update(devices=())
            pools += self._pools_of[name]
            for pool in self._pools_of[name]:
                self.pools.pop(pool.name, None)
            self._of_parent.append((self._devices_of.pop(name), self._pools_of.pop(name)))
        return pools

    def library_kernels(self, device: Device) -> Sequence[LibraryKernel]:
        """Return what the backend of `device` offers, asked once; nothing if its hook raises."""
        return self._offered(device, "zyx_library_kernels", LibraryKernel)

    def _offered(self, device: Device, hook: str, record: type[RecordT]) -> tuple[RecordT, ...]:
        """Return what a hook offers for a device, asked once; what is no such record is left out and noted."""
        if (device.name, hook) not in self._known:
            result = self._extra(self.backend_of(device), hook, device=device)
            offered = tuple(result) if isinstance(result, list | tuple) else ()
            for other in [item for item in offered if not isinstance(item, record)]:
                text = f"{hook}: an item of what it returns is not a {record.__name__}: {shown(other)}"
                self.manager.load()[self.backend_of(device)].blame(text)
            self._known[device.name, hook] = tuple(item for item in offered if isinstance(item, record))
        return self._known[device.name, hook]

    def compiles(self, device: Device) -> bool:
        """Whether a device compiles the least of all kernels; why it does not is in the report of its backend.

        Tried once for a device, and with our own backends taken for granted.
        """
        name = self.backend_of(device)
        backend = self.manager.load()[name]
        if not backend.module or name in KNOWN:
            return True
        if device.name not in self._compiles:
            try:
                with self.manager.watchdog() as watchdog:
                    watchdog.run(functools.partial(_compile_least, device), f"a compilation of backend {name}")
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001  # boundary: the compiler of another package
                backend.blame(f"{device.name} compiles nothing: {explain(error)}")
                self._compiles[device.name] = False
            else:
                self._compiles[device.name] = True
        return self._compiles[device.name]

    def kernel_passes(self, device: Device) -> Sequence[KernelPass]:
        """Return the schedule moves that the backend of `device` adds, asked once; nothing if its hook raises."""
        return self._offered(device, "zyx_kernel_passes", KernelPass)

    def collectives_identifier(self, devices: Sequence[Device], *, is_first: bool) -> bytes:
        """Return what the backend of `devices` says of them as members of a group; see `zyx.hookspecs`.

        Raises:
            UnsupportedError: They cannot be members; the text says why.
        """
        name, hook = self.backend_of(devices[0]), "zyx_collectives_identifier"
        result = self._extra(name, hook, passes=True, devices=devices, is_first=is_first)
        if not isinstance(result, bytes) or not result:
            raise UnsupportedError(f"backend {name} has no collectives, or what it has failed: see zyx devices")
        return result

    def collectives(
        self, devices: Sequence[Device], ranks: Sequence[int], size: int, identifier: bytes, timeout_s: float
    ) -> Collectives:
        """Return what exchanges buffers between `devices` of one backend and others; see `zyx.hookspecs`.

        Raises:
            UnsupportedError: There is nothing that does; the text says why.
        """
        name, hook = self.backend_of(devices[0]), "zyx_collectives"
        group = {"ranks": ranks, "size": size, "identifier": identifier, "timeout_s": timeout_s}
        result = self._extra(name, hook, passes=True, devices=devices, **group)
        if not isinstance(result, Collectives):
            raise UnsupportedError(f"backend {name} has no collectives, or what it has failed: see zyx devices")
        return result

    def settle(self) -> None:
        """Wait for all work, whose errors nobody wants any more. What else a backend raises is a fault of its."""
        for name, pools in self._pools_of.items():
            for pool in pools:
                try:
                    pool.synchronize()
                except KeyboardInterrupt:
                    raise
                except BackendError:
                    continue
                except BaseException as error:  # noqa: BLE001  # boundary: the drivers of another package
                    self.manager.load()[name].blame(f"waiting for {text_of(pool.name)}: {explain(error)}")

    def close(self) -> None:
        """Close all devices, then all pools, last opened first. What a backend raises then is noted in its report."""
        for name in reversed(list(self.manager.load())):
            backend = self.manager.load()[name]
            self._close(backend, self._devices_of.pop(name, []), self._pools_of.pop(name, []))
            if backend.report.state is BackendState.READY:
                backend.update(state=BackendState.INSTALLED, devices=())
        self.devices.clear()
        self.pools.clear()
        self._known.clear()
        self._compiles.clear()

    def _open_one(self, name: str, watchdog: Watchdog) -> BackendReport | None:
        backend = self.manager.load().get(name)
        if backend is None:
            return None
        if backend.report.state is BackendState.INSTALLED:
            self._open(backend, watchdog)
        return backend.report

    def _open(self, backend: Backend, watchdog: Watchdog) -> None:
        name, info = backend.report.name, backend.info
        assert info is not None  # a backend in state INSTALLED was identified
        opening = _Opening()
        work = functools.partial(self._call_hooks, backend, info, opening, dict(self.pools))
        try:
            if backend.module:
                watchdog.run(work, f"the opening of backend {name}")
            else:
                work()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # boundary: the hooks and drivers of another package
            if isinstance(error, SettingsError) and opening.step is BackendStep.CONFIG:
                raise  # it is the user's
            state, advice = diagnose(error, backend.report, backend.module)
            backend.fail(opening.step, error, state, advice)
            return
        self._pools_of[name], self._devices_of[name] = opening.pools, opening.devices
        self.pools.update((pool.name, pool) for pool in opening.pools)
        self.devices.update((device.name, device) for device in opening.devices)
        self.infos.update(opening.infos)
        backend.update(state=BackendState.READY, step=BackendStep.USE, devices=tuple(opening.infos))

    def _call_hooks(self, backend: Backend, info: BackendInfo, opening: _Opening, taken: dict[str, MemoryPool]) -> None:
        """Let the backend open its pools and devices; what is open when something is raised is closed.

        This may come back after nobody waits for it, so it touches `opening` and the notes of `backend` only.
        """
        try:
            config = self._config(backend)
            opening.step = BackendStep.POOLS
            result = backend.call("zyx_memory_pools", config=config)
            opening.pools = check.pools_in(result)
            check.check_pools(result, taken)
            opening.step = BackendStep.DEVICES
            host = taken.get(_HOST)
            reachable = {pool.name: pool for pool in ([] if host is None else [host]) + opening.pools}
            result = backend.call("zyx_devices", config=config, pools=reachable)
            opening.devices = check.devices_in(result)
            opening.infos = check.check_devices(result, info, reachable, host)
            if config.cache_directory is not None and self.manager.settings.cache.calibration:
                _take_rates(opening, config.cache_directory)
            if not opening.devices and info.name != _HOST:
                raise NoDeviceError("its driver works, and finds no device")
        except BaseException:
            self._close(backend, opening.devices, opening.pools)
            raise

    def _config(self, backend: Backend) -> BackendConfig[Any]:
        settings, name = self.manager.settings, backend.report.name
        record = backend.call("zyx_config_section")
        if record is not None and not isinstance(record, type):
            raise check.Refusal(
                BackendState.INVALID, BackendStep.CONFIG, f"zyx_config_section returns {shown(record)}, not a class"
            )
        section: object = backend_section(settings, name, Nothing if record is None else record)
        return BackendConfig(
            None if record is None else section,
            thread_count(settings),
            cache_directory(settings),
            settings.cache.max_bytes,
            backend.note,
        )

    def _extra(self, name: str, hook: str, *, passes: bool = False, **arguments: object) -> object:
        """Return what a hook returns; None if it raises, but for `UnsupportedError` where that `passes`."""
        backend = self.manager.load()[name]
        try:
            if not backend.module:
                return backend.call(hook, **arguments)
            with self.manager.watchdog() as watchdog:
                return watchdog.run(functools.partial(backend.call, hook, **arguments), f"{hook} of backend {name}")
        except UnsupportedError:
            if passes:
                raise
            return None
        except BackendError as error:  # such as a library that is not installed
            backend.note(f"{hook}: {explain(error)}")
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  # boundary: the hooks of another package
            backend.blame(f"{hook}: {explain(error)}")
        return None

    def _close(self, backend: Backend, devices: Sequence[Device], pools: Sequence[MemoryPool]) -> None:
        things: list[Device | MemoryPool] = [*devices, *pools]
        for thing in things:
            try:
                thing.close()
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001  # boundary: the drivers of another package
                backend.blame(f"closing {text_of(thing.name)}: {explain(error)}")


def _take_rates(opening: _Opening, directory: Path) -> None:
    """Give devices the rates that were measured of them, and list them with these."""
    for device in opening.devices:
        rates = kept_rates(directory, opening.infos[device.name])
        if rates is not None:
            device.take_rates(rates)
            opening.infos[device.name] = device.info


def _compile_least(device: Device) -> None:
    kernel = parse.parse_kernel(
        "kernel least\n%0 = global f32[1]\n%1 = const 0 : i64\n%2 = const 1.0 : f32\nstore %0[%1] = %2"
    )
    device.release(device.compile(pipeline.run_passes(kernel, pipeline.standard_passes(device.info))))


class _Opening:
    """How far the opening of a backend got.

    Attributes:
        step: What is being done.
        pools: The pools that it returned.
        devices: The devices that it returned.
        infos: Their records by name, checked.
    """

    def __init__(self) -> None:
        self.step = BackendStep.CONFIG
        self.pools: list[MemoryPool] = []
        self.devices: list[Device] = []
        self.infos: dict[str, DeviceInfo] = {}


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
