"""Open backends and try devices in a process of its own, for ``zyx doctor``.

    python -m zyx.cli.trial open [--only NAME | --without NAME ...]     open the backends, and say what became of them
    python -m zyx.cli.trial device NAME                                 compute on a device

A driver can end the process, or never come back; then it is this process that is lost, and whoever has started it says
so. Each line of the output is a JSON object, written as soon as it is known: what came last tells how far it got.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import warnings
from typing import TYPE_CHECKING, Any, Final, TextIO

import msgspec
import numpy as np

from zyx.cli.devices import default_line
from zyx.cli.output import own_output
from zyx.errors import SettingsError
from zyx.plugins.choose import NEVER_GUESSED, SlowDeviceWarning
from zyx.plugins.describe import explanation
from zyx.plugins.diagnosis import advice_for
from zyx.plugins.manager import PluginManager
from zyx.plugins.opening import OpenedBackends, open_backends
from zyx.plugins.words import text_of
from zyx.runtime.runtime import Runtime, use
from zyx.settings.load import load_settings, with_changes
from zyx.settings.record import Settings
from zyx.tensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Launches of which the median is told.
_LAUNCHES: Final = 9
#: Numbers that are copied to the device and back: 4 MiB of them, which takes longer than what a copy costs by itself.
_COPIED: Final = 1 << 20


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the arguments say; 0 once it is told, whatever it is."""
    parser = argparse.ArgumentParser(prog="python -m zyx.cli.trial")
    parser.add_argument("what", choices=("open", "device"))
    parser.add_argument("name", nargs="?", default="")
    parser.add_argument("--only", default=None)
    parser.add_argument("--without", action="append", default=[])
    given = parser.parse_args(argv)
    with own_output() as (output, _):
        if given.what == "open":
            _open(given.only, given.without, output)
        else:
            _try(given.name, output)
    return 0


def settings_or_defaults() -> Settings:
    """Return the settings of this process, or the defaults where these are wrong."""
    try:
        return load_settings()
    except SettingsError:
        return Settings()


def _tell(output: TextIO, **what: Any) -> None:  # noqa: ANN401  # whatever JSON has
    output.write(json.dumps(what) + "\n")
    output.flush()


# ---- opening


def _open(only: str | None, without: Sequence[str], output: TextIO) -> None:
    settings = settings_or_defaults()
    if only is not None:
        settings = with_changes(settings, {"devices": {"backends": [only]}})
    if without:
        settings = with_changes(settings, {"backends": {name: {"enabled": False} for name in without}})
    try:
        manager = PluginManager(settings)
        opened = open_backends(manager)
    except SettingsError as error:
        _tell(output, fault=str(error))
        return
    try:
        _tell(output, **_found(opened))
    finally:
        opened.close()


def _found(opened: OpenedBackends) -> dict[str, Any]:
    status, line = default_line(opened)  # which may find faults
    return {
        "damaged": list(opened.manager.damaged_packages),
        "reports": [
            {
                "name": report.name,
                "state": report.state.name,
                "text": f"{report.state.value}. {explanation(report)}",
                "advice": report.advice or advice_for(report.package),
                "package": f"{report.package} {report.version}".strip(),
                "notes": list(report.notes),
                "faults": list(report.faults),
                "advice_for_faults": advice_for(report.package),
            }
            for report in opened.reports
        ],
        "devices": [
            {
                "name": name,
                "model": info.model,
                "driver": info.driver,
                "is_tried": opened.backend_of(opened.devices[name]) != NEVER_GUESSED,
            }
            for name, info in opened.infos.items()
            if name in opened.devices
        ],
        "status": status,
        "default": line,
    }


# ---- trying


def _try(name: str, output: TextIO) -> None:
    """Copy, compile, run and compare on one device; the caches are left out of it."""
    settings = settings_or_defaults()
    cache = msgspec.structs.replace(settings.cache, enabled=False)
    runtime = Runtime(msgspec.structs.replace(settings, cache=cache))
    try:
        with warnings.catch_warnings(), use(runtime):
            warnings.simplefilter("ignore", SlowDeviceWarning)
            _steps(name, output)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  # the border to backends and their drivers
        _tell(output, error=f"{type(error).__name__}: {text_of(error)}")
    finally:
        runtime.close()


def _steps(name: str, output: TextIO) -> None:
    random = np.random.default_rng(0)
    sent = random.standard_normal(_COPIED).astype(np.float32)
    x, y = (random.standard_normal(shape).astype(np.float32) for shape in ((37, 64), (64, 51)))
    wanted = np.maximum(x @ y, 0)

    _tell(output, begins="opening the device, and copying to it and back")
    returned = Tensor(sent, device=name).realize().numpy()
    if wrong := int((returned.view(np.uint32) != sent.view(np.uint32)).sum()):
        _tell(output, error=f"{wrong} of {sent.size} numbers came back from a copy as others")
        return
    seconds = _median(lambda: Tensor(sent, device=name).realize().numpy())
    _tell(output, copy_s=seconds, copied_bytes=sent.nbytes)

    _tell(output, begins="compiling and running")
    left, right = Tensor(x, device=name), Tensor(y, device=name)
    started = time.perf_counter()
    found = (left @ right).relu().numpy()
    first_s = time.perf_counter() - started
    if wrong := int((~np.isclose(found, wanted, rtol=1e-4, atol=1e-4)).sum()):
        _tell(output, error=f"{wrong} of {wanted.size} numbers are wrong")
        return
    _tell(output, first_s=first_s)

    _tell(output, begins="running again")
    _tell(output, again_s=_median(lambda: (left @ right).relu().numpy()))


def _median(step: Callable[[], object]) -> float:
    seconds = []
    for _ in range(_LAUNCHES):
        started = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


if __name__ == "__main__":
    sys.exit(main())
