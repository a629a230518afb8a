"""The open devices of a runtime: finding them by name, the default one, and their memory."""

from __future__ import annotations

import sys
import threading
import warnings
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from zyx.errors import InitializationError, SettingsError
from zyx.lazy_import import lazy_import
from zyx.runtime import lifetime
from zyx.runtime.buffer import Allocator
from zyx.runtime.trace import LINES, TIMED, Trace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zyx.backend import Device, MemoryPool
    from zyx.errors import DeviceLostError
    from zyx.plugins import choose, manager, opening
    from zyx.plugins.opening import OpenedBackends
    from zyx.runtime import lines, placement
    from zyx.runtime.buffer import Buffer, MemoryUse
    from zyx.runtime.lines import Lines
    from zyx.runtime.observer import Observers
    from zyx.runtime.placement import DeviceLike, Placement
    from zyx.settings import load
    from zyx.settings.record import Settings
else:
    choose = lazy_import("zyx.plugins.choose", globals())
    manager = lazy_import("zyx.plugins.manager", globals())
    opening = lazy_import("zyx.plugins.opening", globals())
    lines = lazy_import("zyx.runtime.lines", globals())
    placement = lazy_import("zyx.runtime.placement", globals())
    load = lazy_import("zyx.settings.load", globals())

#: In the name of a group of devices, of which each plan chooses one: see `zyx.runtime.placement`.
GROUP: Final = "|"


class OpenDevices:
    """The devices of a runtime. Nothing is opened before a device is needed.

    Args:
        settings: What the program says, over environment and configuration file; see `zyx.settings`.

    Attributes:
        memory: Allocates buffers.
        lock: Held while the runtime is at work, but not while it waits for devices.
        lost_pools: The pools whose devices have all stopped answering.
        observers: Who follows what becomes of handles.
        lines: What notes the lines that operations are from, once that was asked for.
    """

    observers: Observers

    def __init__(self, settings: Settings | Mapping[str, Any] | None) -> None:
        self.memory = Allocator()
        self.lock = threading.RLock()
        self.lost_pools: set[MemoryPool] = set()
        self._given_settings = settings
        self._opened: OpenedBackends | None = None
        self._default: str | None = None
        self._trace: Trace | None = None
        self.lines: Lines | None = None
        self._placement: Placement | None = None
        self._device_count = 0

    @property
    def backends(self) -> OpenedBackends:
        """The backends, opened as they are needed."""
        if self._opened is None:
            if sys.is_finalizing():
                raise InitializationError(
                    "Python is ending, devices are closed, and there is no opening them again: compute before the last "
                    "line of the program, or in a function given to atexit.register, not in __del__"
                )
            with self.lock:
                if self._opened is None:
                    self._opened = opening.OpenedBackends(
                        manager.PluginManager(load.load_settings(self._given_settings))
                    )
                    _ = self.trace  # memory has it from then on
        return self._opened

    @property
    def settings(self) -> Settings:
        """What is in force."""
        return self.backends.manager.settings

    def take_settings(self, settings: Settings) -> None:
        """Let `settings` be in force from now on, instead of those that are.

        Raises:
            SettingsError: Something would change that devices are opened with, and one is open. Nothing has changed.
        """
        with self.lock:
            backends = self.backends
            fixed = self.fixed_changes(settings)
            if fixed and backends.devices:
                raise SettingsError(
                    f"{', '.join(fixed)}: devices are opened with it, and {', '.join(backends.devices)} are open "
                    "already; say it before the first tensor is made, or in the configuration"
                )
            if fixed:
                backends.close()
                self._opened = opening.OpenedBackends(backends.manager.with_settings(settings))
            else:
                backends.manager.settings = settings
            self._default = None
            self._configure(settings)

    def fixed_changes(self, settings: Settings) -> list[str]:
        """Return the changed keys of `settings` that are fixed once a device is open."""
        before = self.settings
        pairs = {
            "devices.backends": (before.devices.backends, settings.devices.backends),
            "threads": (before.threads, settings.threads),
            "cache": (before.cache, settings.cache),
            "backends": (before.backends, settings.backends),
        }
        return [key for key, (old, new) in pairs.items() if old != new]

    @property
    def trace(self) -> Trace:
        """Where debugging output goes."""
        if self._trace is None:
            with self.lock:
                if self._trace is None:
                    self._trace = self.memory.trace = Trace()
                    self._configure(self.settings)
        return self._trace

    def _configure(self, settings: Settings) -> None:
        """Show what settings say."""
        self.trace.configured = int(settings.debug) | self.trace.configured & TIMED
        self.trace.has_bars = settings.progress
        if settings.debug & LINES:
            lines.follow_lines(self)

    @property
    def default_device(self) -> str:
        """Name of the device on which tensors are made where none is named.

        Raises:
            NoDeviceError: There is none; the text says what was tried.
        """
        for runtime, name in reversed(_scopes.get()):
            if runtime is self:
                return name
        if self._default is None:
            self._default = self._choose(None).name
        return self._default

    @property
    def reason_for_default(self) -> str:
        """Why `default_device` is the default, in words."""
        if any(runtime is self for runtime, _ in _scopes.get()):
            return "it is asked for by a with block"
        with self.lock, warnings.catch_warnings():
            warnings.simplefilter("ignore", choose.SlowDeviceWarning)  # the text says it
            return choose.choose_device(None, self.backends).reason

    @contextmanager
    def default(self, which: DeviceLike | None) -> Iterator[str]:
        """Make tensors on a device, or a group, where none is named, for a ``with`` block in this thread.

        None is the device that is the default already.
        """
        place = self.device_name(which)
        token = _scopes.set((*_scopes.get(), (self, place)))
        try:
            yield place
        finally:
            _scopes.reset(token)

    def device_name(self, which: DeviceLike | None) -> str:
        """Return the full name of a device, such as ``c:0`` for ``c`` or ``cpu``; None means the default device.

        Several devices are a group; see `Placement.name_of`.

        Raises:
            NoDeviceError: There is no such device; the text lists those there are.
        """
        if which is None:
            return self.default_device
        if isinstance(which, str) and GROUP not in which:
            return self.device(which).name
        with self.lock:
            return self.placement.name_of(which)

    def device(self, name: str | None = None) -> Device:
        """Return a device by name, opening what is needed; None means the default device, a group its fastest one."""
        if name is None:
            name = self.default_device
        if self._opened is not None:
            found = self._opened.devices.get(name)
            if found is not None:
                return found
        return self.placement.members(name)[0] if GROUP in name else self._choose(name)

    def _choose(self, name: str | None) -> Device:
        """Return the device that a name, or no name, means to `zyx.plugins.choose`."""
        with self.lock:
            backends = self.backends
            try:
                choice = choose.choose_device(name, backends)
            finally:
                self._note_opened()
            self.trace.chosen(choice.device, choice.reason)
            return choice.device

    @property
    def devices(self) -> list[Device]:
        """All devices that can be used, fastest first, the interpreter behind them, and what computes nothing last."""
        with self.lock:
            self.backends.open_all()
            self._note_opened()
            return choose.ranked(self.backends.devices.values(), self.backends)

    @property
    def placement(self) -> Placement:
        """Chooses devices where several may do the work."""
        if self._placement is None:
            with self.lock:
                if self._placement is None:
                    self._placement = placement.Placement(self.device, lambda: self.devices, self.memory)
        return self._placement

    @property
    def _has_groups(self) -> bool:
        return self._placement is not None and bool(self._placement.groups)

    def lose(self, error: DeviceLostError) -> None:
        """Take the device that stopped answering, or all on that pool, out of use; the default is chosen anew."""
        with self.lock:
            if self._opened is None:
                return
            opened = self._opened
            for device in list(opened.devices.values()):
                pool = device.memory_pool
                if error.place in (device.name, pool.name):
                    opened.lost(device, error)
                    if not any(other.memory_pool is pool for other in opened.devices.values()):
                        self.lost_pools.add(pool)
            self._default = None
            self._forget_placement()

    def _note_opened(self) -> None:
        self.trace.opened(self.backends)
        count = len(self.backends.devices)
        if count != self._device_count:
            self._device_count = count
            lifetime.opened()

    def _forget_placement(self) -> None:
        if self._placement is not None:
            self._placement.close()
            self._placement = None

    def allocate(self, device: str, nbytes: int) -> Buffer:
        """Return a buffer with undefined contents on a device, or on one of a group.

        Raises:
            AllocationError: No room.
        """
        if GROUP in device:
            return self.placement.allocate(device, nbytes)
        return self.memory.allocate(self.device(device).memory_pool, nbytes)

    def memory_stats(self) -> dict[str, MemoryUse]:
        """Return what is held of each open pool that can be allocated from, by the pool's name."""
        with self.lock:
            pools = [pool for pool in self.backends.pools.values() if pool.is_allocatable]
            self.memory.reclaim()
            return {pool.name: self.memory.use_of(pool) for pool in pools}

    def empty_cache(self) -> int:
        """Give memory that pools keep for buffers to come back to the system; return how many bytes."""
        with self.lock:
            if self._opened is None:
                return 0
            self.memory.reclaim()
            return sum(pool.trim() for pool in self._opened.pools.values())


#: The default devices of the ``with`` blocks that this thread or task is in, innermost last.
_scopes: ContextVar[tuple[tuple[OpenDevices, str], ...]] = ContextVar("default_devices", default=())
