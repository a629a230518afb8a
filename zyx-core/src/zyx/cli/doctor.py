"""``zyx doctor``: everything that can be wrong with an installation, and the next step."""

from __future__ import annotations

import platform
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from zyx.backend.cache_folder import fault_of_cache
from zyx.cli.devices import default_line
from zyx.errors import SettingsError
from zyx.plugins.choose import NEVER_GUESSED, SlowDeviceWarning
from zyx.plugins.describe import explanation
from zyx.plugins.manager import PluginManager
from zyx.plugins.opening import open_backends
from zyx.plugins.state import BackendState
from zyx.plugins.verdict import advice_for
from zyx.plugins.words import one_line, text_of
from zyx.runtime.runtime import Runtime, use
from zyx.settings import variables
from zyx.settings.load import load_settings
from zyx.settings.paths import cache_directory
from zyx.settings.record import Settings
from zyx.tensor.tensor import Tensor
from zyx.version import __version__

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from rich.console import Console

_DEPENDENCIES: Final = ("numpy", "pluggy", "msgspec", "ml_dtypes", "platformdirs", "safetensors", "rich")
_WRONG: Final = {BackendState.IMPORT_FAILED, BackendState.INVALID, BackendState.WRONG_API_VERSION, BackendState.FAILED}


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor's.

    Attributes:
        fine: Whether there is nothing to do.
        subject: What was looked at.
        text: What was found.
        advice: What to do; what is not fine has some.
    """

    fine: bool
    subject: str
    text: str
    advice: str = ""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments: there are none."""


def run(_: argparse.Namespace, console: Console) -> int:
    """Print all findings and the first thing to do; 1 if there is one."""
    findings = list(examine())
    for finding in findings:
        mark, style = ("ok   ", "") if finding.fine else ("WRONG", "red")
        console.print(f"{mark}  {one_line(finding.subject)}: {one_line(finding.text)}", style=style)
    wrong = [finding for finding in findings if not finding.fine]
    console.print(f"\nnext step: {one_line(wrong[0].advice)}" if wrong else "\nnothing to do")
    return 1 if wrong else 0


def examine() -> Iterator[Finding]:
    """Look at everything, the causes before what they cause."""
    yield Finding(True, "python", f"{platform.python_version()} ({sys.executable}) on {platform.platform()}")
    yield Finding(True, "zyx-core", f"{__version__} ({Path(__file__).parents[1]})")
    yield from _dependencies()
    yield from _namesakes()
    settings = Settings()
    try:
        settings = load_settings()
        manager = PluginManager(settings)
        manager.load()
        yield Finding(True, "configuration", _configuration(settings))
    except SettingsError as error:
        yield Finding(False, "configuration", str(error), "correct the configuration; what follows is without it")
        settings = Settings()
        manager = PluginManager(settings)
    yield _cache(settings)
    names: list[str] = []
    yield from _backends(manager, names)
    yield from _results(settings, names)


def _dependencies() -> Iterator[Finding]:
    versions: list[str] = []
    for name in _DEPENDENCIES:
        try:
            versions.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            yield Finding(False, "packages", f"{name} is not installed", f"pip install {name}")
    yield Finding(True, "packages", ", ".join(versions))


def _namesakes() -> Iterator[Finding]:
    """Look for distributions of others that install a module called zyx over ours."""
    owners = set(metadata.packages_distributions().get("zyx", ())) - {"zyx-core"}
    for owner in sorted(owners):
        yield Finding(
            False,
            "module zyx",
            f"{owner} {metadata.version(owner)}, which has nothing to do with zyx-core, installs a module of that name",
            f"pip uninstall {owner}; pip install --force-reinstall zyx-core",
        )
    if not owners:
        yield Finding(True, "module zyx", "no other distribution installs a module of that name")


def _configuration(settings: Settings) -> str:
    sources = settings.sources
    file = "there is no place for a file"
    if sources.file is not None:
        file = sources.file if Path(sources.file).exists() else f"no file {sources.file}"
    given = ", ".join(f"{key} from {origin}" for key, origin in sources.origins.items() if origin != sources.file)
    unread = [name for name in sources.variables if name.count("_") == 1]
    ignored = f"; unknown, and not read: {', '.join(unread)}" if unread else ""
    return f"{file}{f'; {given}' if given else ''}{ignored}"


def _cache(settings: Settings) -> Finding:
    directory = cache_directory(settings)
    if directory is None:
        why = "there is no home folder" if settings.cache.enabled else "it is switched off"
        return Finding(True, "cache", f"nothing is kept: {why}")
    fault, _, advice = fault_of_cache(directory).partition("; ")
    if fault:
        return Finding(False, "cache", f"nothing is kept: {fault}", advice or "look at that folder")
    existing = next(path for path in (directory, *directory.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            return Finding(True, "cache", f"{directory} can be written")
    except OSError as error:
        variable = variables.VARIABLE_OF["cache.directory"]
        return Finding(
            False, "cache", f"{directory} cannot be written: {error}", f"set {variable} to a folder that can be written"
        )


def _backends(manager: PluginManager, names: list[str]) -> Iterator[Finding]:
    """Open every backend, and append the names of the devices to `names`."""
    for damaged in manager.damaged_packages:
        yield Finding(False, "package", f"its metadata cannot be read: {damaged}", "install that package again")
    try:
        opened = open_backends(manager)
    except SettingsError as error:
        yield Finding(False, "configuration", str(error), "correct the configuration")
        return
    try:
        status, line = default_line(opened)  # which may find faults
        for report in opened.reports:
            fine = report.state not in _WRONG
            text = f"{report.state.value}. {explanation(report)}"
            advice = report.advice or advice_for(report.package)
            yield Finding(fine, f"backend {report.name}", text, advice)
            for note in report.notes:
                yield Finding(True, f"backend {report.name}", note)
            for fault in report.faults:
                yield Finding(False, f"backend {report.name}", fault, advice_for(report.package))
        names.extend(name for name in opened.devices if opened.backend_of(opened.devices[name]) != NEVER_GUESSED)
        yield Finding(status == 0, "device", line, "pip install zyx-backend-c")
    finally:
        opened.close()


def _results(settings: Settings, names: list[str]) -> Iterator[Finding]:
    """Compile and run a kernel on every device, and check what it gives; the cache is left out of it."""
    random = np.random.default_rng(0)
    x, y = (random.standard_normal(shape).astype(np.float32) for shape in ((37, 64), (64, 51)))
    wanted = np.maximum(x @ y, 0)
    runtime = Runtime(msgspec.structs.replace(settings, cache=msgspec.structs.replace(settings.cache, enabled=False)))
    try:
        with warnings.catch_warnings(), use(runtime):
            warnings.simplefilter("ignore", SlowDeviceWarning)
            for name in names:
                subject = f"results of {name}"
                started = time.perf_counter()
                try:
                    found = (Tensor(x, device=name) @ Tensor(y, device=name)).relu().numpy()
                except KeyboardInterrupt:
                    raise
                except BaseException as error:  # noqa: BLE001  # the border to backends and their drivers
                    text = f"{type(error).__name__}: {text_of(error)}"
                    yield Finding(False, subject, text, f"see what {name} does with ZYX_DEVICE={name} ZYX_DEBUG=all")
                    continue
                took_ms = (time.perf_counter() - started) * 1e3
                wrong = int((~np.isclose(found, wanted, rtol=1e-4, atol=1e-4)).sum())
                text = (
                    f"{wrong} of {wanted.size} numbers are wrong"
                    if wrong
                    else f"right, compiled and run in {took_ms:.0f} ms"
                )
                yield Finding(not wrong, subject, text, f"switch {name} off, and tell its authors")
    finally:
        runtime.close()
