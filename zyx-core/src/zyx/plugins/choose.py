"""The device that a name means, and the device to use where none is named.

A name is that of a device (``cuda:1``), of a backend (``cuda``: its first device), a part of a device's model, in upper
or lower case (``opencl:h200``: the first device of OpenCL with that text in its model), or ``cpu``: the fastest device
that works on host memory. What is asked for by name, as an argument or in the settings, is used or is an error; nothing
else is taken in its place. Where nothing is named, the first of the preferred devices that is there is taken, or else
the fastest that compiles; the interpreter only if there is nothing else, and the dummy never.
"""

from __future__ import annotations

import re
import warnings
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zyx.errors import NoDeviceError, SettingsError
from zyx.plugins.describe import device_and_backend_lines, rate
from zyx.plugins.state import BackendState, package_of
from zyx.plugins.words import one_line
from zyx.settings.check import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zyx.backend import Device
    from zyx.plugins.opening import OpenedBackends

#: What stands for the fastest device on host memory.
CPU: Final = "cpu"
_LAST_RESORT: Final = "interpreter"
#: The backend whose devices compute nothing: asked for by name only.
NEVER_GUESSED: Final = "dummy"
_NAME: Final = re.compile(r"([a-z][a-z0-9_]*)(?::(.+))?")


class SlowDeviceWarning(UserWarning):
    """Kernels run by the interpreter, although nobody asked for it."""


@dataclass(frozen=True, slots=True)
class ChosenDevice:
    """A device, and why it was chosen, in words."""

    device: Device
    reason: str


def choose_device(name: str | None, opened: OpenedBackends) -> ChosenDevice:
    """Return the device that `name` means, or the default device, opening what is needed to tell.

    Warns with `SlowDeviceWarning` if the interpreter is taken because there is nothing else.

    Raises:
        NoDeviceError: It is not there, or there is none; the text lists all devices and backends, and what would help.
        SettingsError: The configuration is wrong.
    """
    settings = opened.manager.settings
    if name is not None:
        return _named(name, "an argument", opened)
    if settings.devices.default is not None:
        return _named(settings.devices.default, settings.sources.origins.get("devices.default", "code"), opened)
    for preferred in settings.devices.order:
        opened.open(preferred.partition(":")[0])
        device = _find(preferred, opened)
        if device is not None:
            return ChosenDevice(
                device, f"{preferred} is preferred ({settings.sources.origins.get('devices.order', 'code')})"
            )
    left_out = opened.open_likely()
    if left_out and not any(_is_guessed(device, opened) for device in opened.devices.values()):
        left_out = []
        opened.open_all()
    choice = _fastest(opened.devices.values(), opened)
    if choice is None:
        raise NoDeviceError(_with_list("there is no device that zyx can use", opened))
    if left_out:
        return ChosenDevice(choice.device, f"{choice.reason}; not opened, since they see none: {', '.join(left_out)}")
    return choice


def _named(name: str, asked_by: str, opened: OpenedBackends) -> ChosenDevice:
    text = name.strip().lower()
    if text in {CPU, f"{CPU}:0"}:
        return _cpu(asked_by, opened)
    match = _NAME.fullmatch(text)
    report = opened.open(match[1]) if match else None
    if report is None:
        known = [*opened.manager.load(), CPU]
        raise NoDeviceError(_with_list(f"no device {name!r} (from {asked_by}): {did_you_mean(text, known)}", opened))
    device = _find(text, opened)
    if device is not None:
        return ChosenDevice(device, f"asked for by {asked_by}")
    if report.state is BackendState.READY:
        models = (f"{device} ({one_line(opened.infos[device].model)})" for device in report.devices)
        have = f"backend {report.name} has {', '.join(models) or 'no devices'}"
        raise NoDeviceError(_with_list(f"no device {name!r} (from {asked_by}): {have}", opened))
    why = ": ".join(filter(None, (report.state.value, report.reason)))
    advice = f"; {report.advice}" if report.advice else ""
    raise NoDeviceError(
        _with_list(f"no device {name!r} (from {asked_by}): backend {report.name}: {why}{advice}", opened)
    ) from report.error


def _cpu(asked_by: str, opened: OpenedBackends) -> ChosenDevice:
    for backend_name, backend in opened.manager.load().items():
        if backend.info is not None and backend.info.works_on_host_memory:
            opened.open(backend_name)
    host = opened.pools["host"]
    choice = _fastest((device for device in opened.devices.values() if device.memory_pool is host), opened)
    if choice is None:
        raise NoDeviceError(_with_list(f"no device {CPU!r} (from {asked_by}): nothing works on host memory", opened))
    return ChosenDevice(choice.device, f"{CPU} is asked for by {asked_by}; {choice.reason}")


def _find(name: str, opened: OpenedBackends) -> Device | None:
    backend, _, which = name.lower().partition(":")
    if which.isdecimal():
        return opened.devices.get(name)
    of_backend = (device for device in opened.devices.values() if opened.backend_of(device) == backend)
    return next((device for device in of_backend if which in opened.infos[device.name].model.lower()), None)


def ranked(devices: Iterable[Device], opened: OpenedBackends) -> list[Device]:
    """Return devices fastest first, then the interpreter, then those that compute nothing."""
    last = (_LAST_RESORT, NEVER_GUESSED)

    def rank(device: Device) -> tuple[int, float, str]:
        backend = opened.backend_of(device)
        return last.index(backend) if backend in last else -1, -opened.infos[device.name].flops_per_s, device.name

    return sorted(devices, key=rank)


def _is_guessed(device: Device, opened: OpenedBackends) -> bool:
    """Whether a device compiles, so that nothing needs to be opened for want of one."""
    return opened.backend_of(device) not in (_LAST_RESORT, NEVER_GUESSED) and opened.compiles(device)


def _fastest(candidates: Iterable[Device], opened: OpenedBackends) -> ChosenDevice | None:
    able = [device for device in ranked(candidates, opened) if opened.backend_of(device) != NEVER_GUESSED]
    if not able:
        return None
    best = next((device for device in able if opened.compiles(device)), able[0])
    able = able[able.index(best) :]
    if opened.backend_of(best) == _LAST_RESORT:
        # At the place of this very line, so that Python's rule of one warning a place makes it one a process.
        warnings.warn(_slow(opened), SlowDeviceWarning, stacklevel=1)
        return ChosenDevice(best, f"there is nothing else, and it is very slow; {_way_out(opened)}")
    if len(able) == 1:
        return ChosenDevice(best, "it is the only device")
    return ChosenDevice(
        best, f"it is the fastest of {len(able)}: about {rate(opened.infos[best.name].flops_per_s, 'FLOP/s')}"
    )


def _slow(opened: OpenedBackends) -> str:
    return f"no backend can be used, so kernels run on zyx's interpreter, which is very slow; {_way_out(opened)}"


def _way_out(opened: OpenedBackends) -> str:
    if opened.manager.load()["c"].report.state is BackendState.NOT_INSTALLED:
        return f"pip install {package_of('c')} brings a fast CPU backend"
    return "zyx devices says why"


def _with_list(text: str, opened: OpenedBackends) -> str:
    with suppress(SettingsError):  # a second error would hide the first; what is not opened is listed as installed
        opened.open_all()
    return "\n".join([text, *device_and_backend_lines(opened)])
