"""Check whether what a package declares is a backend of this version.

1. Its name is a lower-case word, and no other package, and nothing built in, has the same. 2. `zyx_backend_info` is
there and gives a `BackendInfo` of that name. 3. Its API version has core's major number, and a minor number that core
has reached. 4. Every function whose name starts with ``zyx_`` is a hook of `zyx.hookspecs`, is marked with
``@hookimpl``, and takes only arguments that
   the hook has.
5. It has pools or devices.

pluggy alone would let a misspelt hook pass, since to it an unknown hook is one that nobody calls.
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Final

import pluggy

from zyx import hookspecs
from zyx.backend import API_VERSION, Device, DeviceInfo, MemoryPool
from zyx.hookspecs import BackendInfo
from zyx.plugins.state import BackendState, Step
from zyx.settings.check import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import ModuleType

    from zyx.plugins.discover import Found

HOOKS: Final = frozenset(name for name in hookspecs.__all__ if name.startswith("zyx_"))
_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
_MARK: Final = "zyx_impl"  # the attribute that `hookimpl` sets


class Refusal(Exception):
    """The verdict that a backend is not taken; the manager turns it into a report, so nobody else sees it."""

    def __init__(self, state: BackendState, step: Step, reason: str, advice: str = "") -> None:
        super().__init__(reason)
        self.state = state
        self.step = step
        self.reason = reason
        self.advice = advice


class _InfoHook:
    """The one hook that is called before the API version is known."""

    zyx_backend_info = staticmethod(hookspecs.zyx_backend_info)


def check_names(found: list[Found], reserved: frozenset[str]) -> dict[str, Refusal]:
    """Return the names that cannot be used, and why: rule 1."""
    refused: dict[str, Refusal] = {}
    for name in sorted({entry.name for entry in found}):
        packages = [f"{entry.package} {entry.version} ({entry.value})" for entry in found if entry.name == name]
        reason = advice = ""
        if name in reserved:
            reason = f"{' and '.join(packages)} declares backend {name!r}, which is built in"
            advice = "uninstall it, or ask its authors for another name"
        elif len(packages) > 1:
            reason = f"{len(packages)} packages declare backend {name!r}: {' and '.join(packages)}"
            advice = "uninstall all but one of them"
        elif not _NAME.fullmatch(name):
            reason = (
                f"{packages[0]} declares backend {name!r}; a name has lower-case letters, digits and underscores only"
            )
            advice = "ask its authors for another name"
        if reason:
            refused[name] = Refusal(BackendState.INVALID, Step.DISCOVER, reason, advice)
    return refused


def identify(plugin: object, name: str) -> BackendInfo:
    """Return what the plugin says about itself: rules 2 and 3.

    Raises:
        Refusal: It breaks one.
        Exception: Whatever its hook raises.
    """
    results = _hooks_of(_InfoHook, plugin, name, Step.INFO).zyx_backend_info()
    if not results:
        raise _invalid(Step.INFO, "zyx_backend_info is missing, or returns None")
    info = results[0]
    if not isinstance(info, BackendInfo):
        raise _invalid(Step.INFO, f"zyx_backend_info returns {_a(info)}, not a BackendInfo")
    if not all(isinstance(text, str) for text in (info.name, info.version, info.summary)):
        raise _invalid(Step.INFO, f"name, version and summary of {info!r} are not all text")
    if info.name != name:
        raise _invalid(Step.INFO, f"the entry point is called {name!r}, and zyx_backend_info says {info.name!r}")
    match info.api_version:
        case (int(major), int(minor)):
            _check_version(major, minor)
        case other:
            raise _invalid(Step.INFO, f"its API version is {other!r}, not two numbers such as {API_VERSION}")
    return info


def check_hooks(plugin: object, name: str) -> pluggy.HookRelay:
    """Return the hooks of the plugin, to be called.

    Raises:
        Refusal: It breaks rule 4 or 5.
    """
    hooks = _hooks_of(hookspecs, plugin, name, Step.CHECK)
    functions = {
        key: value
        for key in dir(plugin)
        if key.startswith("zyx_") and inspect.isroutine(value := inspect.getattr_static(plugin, key))
    }
    for key, value in functions.items():
        if key not in HOOKS:
            raise _invalid(Step.CHECK, f"there is no hook {key!r}; {did_you_mean(key, HOOKS)}")
        if getattr(getattr(value, "__func__", value), _MARK, None) is None:
            raise _invalid(Step.CHECK, f"{key} is not marked with @hookimpl")
    if not functions.keys() & {"zyx_memory_pools", "zyx_devices"}:
        raise _invalid(Step.CHECK, "it has neither zyx_memory_pools nor zyx_devices")
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
    _check_items(result, len(pools), Step.POOLS, "a MemoryPool")
    for number, pool in enumerate(pools):
        if pool.name in taken or any(pool.name == other.name for other in pools[:number]):
            raise _invalid(Step.POOLS, f"zyx_memory_pools returns a pool {pool.name!r}, and there is one of that name")


def check_devices(result: object, info: BackendInfo, pools: Mapping[str, MemoryPool], host: MemoryPool | None) -> None:
    """Raise `Refusal` if a hook returned other things than devices, or devices with a wrong name, pool or info."""
    devices = devices_in(result)
    _check_items(result, len(devices), Step.DEVICES, "a Device")
    for number, device in enumerate(devices):
        if device.name != f"{info.name}:{number}":
            raise _invalid(Step.DEVICES, f"device number {number} is called {device.name!r}, not {info.name}:{number}")
        if not any(device.memory_pool is pool for pool in pools.values()):
            raise _invalid(Step.DEVICES, f"device {device.name} works on none of the pools that it was given")
        if not isinstance(device.info, DeviceInfo):
            raise _invalid(Step.DEVICES, f"the info of device {device.name} is {_a(device.info)}, not a DeviceInfo")
        if (device.memory_pool is host) != info.works_on_host_memory:
            raise _invalid(
                Step.DEVICES,
                f"device {device.name} works on pool {device.memory_pool.name}, but zyx_backend_info says "
                f"works_on_host_memory={info.works_on_host_memory}",
            )


def _hooks_of(specs: ModuleType | type, plugin: object, name: str, step: Step) -> pluggy.HookRelay:
    # A manager of its own for every plugin: calling a hook then reaches that plugin alone, and one that is refused
    # halfway through its registration leaves no trace beside the others.
    manager = pluggy.PluginManager("zyx")
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
    raise Refusal(
        BackendState.WRONG_API_VERSION,
        Step.INFO,
        f"it is written for version {theirs} of the backend interface, and zyx-core has {ours}",
        "pip install --upgrade {package}" if older else "pip install --upgrade zyx-core",
    )


def _items(result: object) -> Sequence[object]:
    return result if isinstance(result, list | tuple) else ()


def _check_items(result: object, good: int, step: Step, wanted: str) -> None:
    if result is not None and not isinstance(result, list | tuple):
        raise _invalid(step, f"{step.value} returns {_a(result)}, not a list or tuple")
    if good != len(_items(result)):
        raise _invalid(step, f"an item of what {step.value} returns is not {wanted}: {result!r:.120}")


def _invalid(step: Step, reason: str) -> Refusal:
    return Refusal(BackendState.INVALID, step, reason)


def _a(value: object) -> str:
    return "None" if value is None else f"{type(value).__name__} {value!r:.60}"
