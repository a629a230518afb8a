"""Check whether what a package declares is a backend of this version.

1. Its name is a lower-case word, and nothing built in has the same. If several packages have it, it is that of the one
   called ``zyx-backend-<name>``, or of none.
2. `zyx_backend_info` is there and gives a `BackendInfo` of that name.
3. Its API version has core's major number, and a minor number that core has reached.
4. Every function whose name starts with ``zyx_`` is a hook of `zyx.hookspecs`, is marked with ``@hookimpl``, and takes
   only arguments that the hook has.
5. It has pools or devices.
6. The `info` of each device is the same at every call, with fields of the right types and of sizes that can be.

pluggy alone would let a misspelt hook pass, since to it an unknown hook is one that nobody calls.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Final, TypeVar

import pluggy

from zyx import hookspecs
from zyx.backend import API_VERSION, Device, DeviceInfo, MemoryPool
from zyx.hookspecs import BackendInfo
from zyx.plugins.check_info import fault_of_info
from zyx.plugins.discover import normal
from zyx.plugins.state import BackendState, BackendStep, package_of
from zyx.plugins.words import explain, shown
from zyx.settings.check import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.plugins.discover import Found

RecordT = TypeVar("RecordT", BackendInfo, DeviceInfo)

HOOKS: Final = frozenset(name for name in hookspecs.__all__ if name.startswith("zyx_"))
_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
_MARK: Final = "zyx_impl"  # the attribute that `hookimpl` sets


class Refusal(Exception):
    """A backend is not taken; the manager turns it into a report, so nobody else sees it."""

    def __init__(self, state: BackendState, step: BackendStep, reason: str, advice: str = "") -> None:
        super().__init__(reason)
        self.state = state
        self.step = step
        self.reason = reason
        self.advice = advice


class _InfoHook:
    """The one hook that is called before the API version is known."""

    zyx_backend_info = staticmethod(hookspecs.zyx_backend_info)


class _Hooks(pluggy.PluginManager):
    """Looks only at what may be a hook: to look at an attribute without running it takes pluggy 20 us.

    A plugin has dozens of others, such as the classes that its module imports.
    """

    def parse_hookimpl_opts(self, plugin: object, name: str) -> pluggy.HookimplOpts | None:
        is_of_module = isinstance(plugin, ModuleType) and not isinstance(vars(plugin).get(name), FunctionType)
        if name not in HOOKS and (is_of_module or name.startswith("__")):
            return None
        return super().parse_hookimpl_opts(plugin, name)

    def parse_hookspec_opts(self, specs: ModuleType | type, name: str) -> pluggy.HookspecOpts | None:
        return super().parse_hookspec_opts(specs, name) if name in HOOKS else None


def owners(
    found: Sequence[Found], reserved: frozenset[str]
) -> tuple[dict[str, Found], dict[str, tuple[Found, Refusal]]]:
    """Return the packages whose backends are taken, by name, and those that are refused by rule 1, with the reason.

    A package that has the name of another's backend is called after both: ``c (somebodys-package)``.
    """
    taken: dict[str, Found] = {}
    refused: dict[str, tuple[Found, Refusal]] = {}
    for name in sorted({entry.name for entry in found}):
        entries = [entry for entry in found if entry.name == name]
        packages = " and ".join(_package(entry) for entry in entries)
        own = [entry for entry in entries if normal(entry.package) == normal(package_of(name))]
        if not _NAME.fullmatch(name):
            reason = f"{packages} declares backend {name!r}; a name has lower-case letters, digits and underscores only"
            refused[name] = entries[0], _not_found(reason, "ask its authors for another name")
        elif name in reserved or (len(entries) > 1 and len(own) == 1):
            because = "is built in" if name in reserved else f"is that of {own[0].package}"
            for entry in entries:
                if name not in reserved and entry is own[0]:
                    taken[name] = entry
                    continue
                reason = f"{_package(entry)} declares backend {name!r}, which {because}"
                refusal = _not_found(reason, "uninstall it, or ask its authors for another name")
                refused[f"{name} ({entry.package})"] = entry, refusal
        elif len(entries) > 1:
            reason = f"{len(entries)} packages declare backend {name!r}: {packages}"
            refused[name] = entries[0], _not_found(reason, "uninstall all but one of them")
        else:
            taken[name] = entries[0]
    return taken, refused


def _package(entry: Found) -> str:
    return f"{entry.package} {entry.version} ({entry.value})"


def _not_found(reason: str, advice: str) -> Refusal:
    return Refusal(BackendState.INVALID, BackendStep.DISCOVER, reason, advice)


def identify(plugin: object, name: str) -> BackendInfo:
    """Return what the plugin says about itself: rules 2 and 3.

    Raises:
        Refusal: It breaks one.
        Exception: Whatever its hook raises.
    """
    results = _hooks_of(_InfoHook, plugin, name, BackendStep.INFO).zyx_backend_info()
    if not results:
        raise _invalid(BackendStep.INFO, "zyx_backend_info is missing, or returns None")
    given = results[0]
    if not isinstance(given, BackendInfo):
        raise _invalid(BackendStep.INFO, f"zyx_backend_info returns {_a(given)}, not a BackendInfo")
    info = _plain(BackendInfo, given)
    if not all(isinstance(text, str) for text in (info.name, info.version, info.summary)):
        raise _invalid(BackendStep.INFO, f"name, version and summary of {shown(info)} are not all text")
    if not all(isinstance(flag, bool) for flag in (info.works_on_host_memory, info.enabled_by_default)):
        raise _invalid(
            BackendStep.INFO, f"works_on_host_memory and enabled_by_default of {shown(info)} are not True or False"
        )
    if info.name != name:
        raise _invalid(BackendStep.INFO, f"the entry point is called {name!r}, and zyx_backend_info says {info.name!r}")
    match info.api_version:
        case (int(major), int(minor)):
            _check_version(major, minor)
        case other:
            raise _invalid(
                BackendStep.INFO, f"its API version is {shown(other)}, not two numbers such as {API_VERSION}"
            )
    return info


def check_hooks(plugin: object, name: str) -> pluggy.HookRelay:
    """Return the hooks of the plugin, to be called.

    Raises:
        Refusal: It breaks rule 4 or 5.
    """
    hooks = _hooks_of(hookspecs, plugin, name, BackendStep.CHECK)
    functions = {
        key: value
        for key in dir(plugin)
        if key.startswith("zyx_") and inspect.isroutine(value := inspect.getattr_static(plugin, key))
    }
    for key, value in functions.items():
        if key not in HOOKS:
            raise _invalid(BackendStep.CHECK, f"there is no hook {key!r}; {did_you_mean(key, HOOKS)}")
        if getattr(getattr(value, "__func__", value), _MARK, None) is None:
            raise _invalid(BackendStep.CHECK, f"{key} is not marked with @hookimpl")
    if not functions.keys() & {"zyx_memory_pools", "zyx_devices"}:
        raise _invalid(BackendStep.CHECK, "it has neither zyx_memory_pools nor zyx_devices")
    return hooks


def pools_in(result: object) -> list[MemoryPool]:
    """Return the pools among what a hook returned, to be closed if the rest is wrong."""
    return [item for item in _items(result) if isinstance(item, MemoryPool)]


def devices_in(result: object) -> list[Device]:
    """Return the devices among what a hook returned, to be closed if the rest is wrong."""
    return [item for item in _items(result) if isinstance(item, Device)]


def check_pools(result: object, taken: Mapping[str, MemoryPool]) -> None:
    """Raise `Refusal` if a hook returned other things than pools, or pools whose name is taken."""
    pools = pools_in(result)
    _check_items(result, len(pools), BackendStep.POOLS, "a MemoryPool")
    for number, pool in enumerate(pools):
        if pool.name in taken or any(pool.name == other.name for other in pools[:number]):
            raise _invalid(
                BackendStep.POOLS, f"zyx_memory_pools returns a pool {pool.name!r}, and there is one of that name"
            )


def check_devices(
    result: object, info: BackendInfo, pools: Mapping[str, MemoryPool], host: MemoryPool | None
) -> dict[str, DeviceInfo]:
    """Return the records of the devices that a hook returned, by the devices' names.

    Raises:
        Refusal: They are other things than devices, or have a wrong name, pool or info.
    """
    devices = devices_in(result)
    _check_items(result, len(devices), BackendStep.DEVICES, "a Device")
    records: dict[str, DeviceInfo] = {}
    for number, device in enumerate(devices):
        name = f"{info.name}:{number}"
        if device.name != name:
            raise _invalid(BackendStep.DEVICES, f"device number {number} is called {shown(device.name)}, not {name}")
        if not any(device.memory_pool is pool for pool in pools.values()):
            raise _invalid(BackendStep.DEVICES, f"device {name} works on none of the pools that it was given")
        records[name] = _record(device, name)
        if (device.memory_pool is host) != info.works_on_host_memory:
            raise _invalid(
                BackendStep.DEVICES,
                f"device {name} works on pool {device.memory_pool.name}, but zyx_backend_info says "
                f"works_on_host_memory={info.works_on_host_memory}",
            )
    return records


def _record(device: Device, name: str) -> DeviceInfo:
    given = device.info
    info = _plain(DeviceInfo, given) if isinstance(given, DeviceInfo) else given
    fault = fault_of_info(info)
    if fault:
        raise _invalid(BackendStep.DEVICES, f"the info of device {name} cannot be used: {fault}")
    try:
        again = device.info
    except Exception as error:  # boundary: the class of another package
        raise _invalid(
            BackendStep.DEVICES, f"the info of device {name} can be had once only; then it raises {explain(error)}"
        ) from error
    if again is not given and again != given:
        raise _invalid(BackendStep.DEVICES, f"the info of device {name} is {shown(given)}, and then {shown(again)}")
    return info


def _plain(kind: type[RecordT], given: RecordT) -> RecordT:
    """Return a record as one of that very class, each field read once: those of a class of theirs may change."""
    if type(given) is kind:
        return given
    return kind(**{field.name: getattr(given, field.name) for field in dataclasses.fields(kind) if field.init})


def _hooks_of(specs: ModuleType | type, plugin: object, name: str, step: BackendStep) -> pluggy.HookRelay:
    # A manager of its own for every plugin: calling a hook then reaches that plugin alone, and one that is refused
    # halfway through its registration leaves no trace beside the others.
    manager = _Hooks("zyx")
    manager.add_hookspecs(specs)
    try:
        manager.register(plugin, name)
    except (pluggy.PluginValidationError, ValueError, TypeError) as error:
        raise _invalid(step, " ".join(str(error).split())) from error
    return manager.hook


def _check_version(major: int, minor: int) -> None:
    if major == API_VERSION[0] and minor <= API_VERSION[1]:
        return
    ours, theirs = f"{API_VERSION[0]}.{API_VERSION[1]}", f"{major}.{minor}"
    older = major < API_VERSION[0]
    what_changed = "; what its author has to change is in docs/reference/backend-api.md" if older else ""
    raise Refusal(
        BackendState.WRONG_API_VERSION,
        BackendStep.INFO,
        f"it is written for version {theirs} of the backend interface, and zyx-core has {ours}{what_changed}",
        "pip install --upgrade {package}" if older else "pip install --upgrade zyx-core",
    )


def _items(result: object) -> Sequence[object]:
    return result if isinstance(result, list | tuple) else ()


def _check_items(result: object, good: int, step: BackendStep, wanted: str) -> None:
    if result is not None and not isinstance(result, list | tuple):
        raise _invalid(step, f"{step.value} returns {_a(result)}, not a list or tuple")
    if good != len(_items(result)):
        raise _invalid(step, f"an item of what {step.value} returns is not {wanted}: {shown(result)}")


def _invalid(step: BackendStep, reason: str) -> Refusal:
    return Refusal(BackendState.INVALID, step, reason)


def _a(value: object) -> str:
    return "None" if value is None else f"{type(value).__name__} {shown(value, 60)}"
