"""``zyx doctor``: everything that can be wrong with an installation, and the next step."""

from __future__ import annotations

import platform
import sys
import tempfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from zyx.cli.alone import attempt
from zyx.cli.bug_report import bug_report
from zyx.drivers.cache_folder import fault_of_cache
from zyx.errors import InvalidArgumentError, SettingsError
from zyx.plugins.describe import rate
from zyx.plugins.drivers import advice_for_driver
from zyx.plugins.drivers import system as own_system
from zyx.plugins.manager import PluginManager
from zyx.plugins.state import BackendState
from zyx.plugins.words import one_line
from zyx.runtime.profile import duration
from zyx.settings import variables
from zyx.settings.load import load_settings
from zyx.settings.paths import cache_directory
from zyx.settings.record import Settings
from zyx.version import __version__

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

    from rich.console import Console

#: Seconds that a process may take which opens backends or tries a device: room for three plugins that each use up what
#: `devices.timeout_s` gives them by default.
LIMIT_S: Final = 60.0
_DEPENDENCIES: Final = ("numpy", "pluggy", "msgspec", "ml_dtypes", "platformdirs", "safetensors", "rich")
_WRONG: Final = {BackendState.IMPORT_FAILED, BackendState.INVALID, BackendState.WRONG_API_VERSION, BackendState.FAILED}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One line of the doctor's.

    Attributes:
        fine: Whether there is nothing to do.
        subject: What was looked at.
        text: What was found.
        advice: What to do; what is not fine has some.
        detail: What is added where authors read it, and is too long for others.
    """

    fine: bool
    subject: str
    text: str
    advice: str = ""
    detail: str = ""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--report", action="store_true", help="print one block to paste into a report of a fault")
    parser.add_argument(
        "--seconds",
        type=float,
        default=LIMIT_S,
        metavar="S",
        help=f"how long opening the backends, and trying each device, may take; {LIMIT_S:g} if not given",
    )


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Print all findings and the first thing to do; 1 if there is one."""
    if not arguments.seconds > 0:
        raise InvalidArgumentError(f"--seconds {arguments.seconds:g}: it is more than 0")
    findings: list[Diagnosis] = []
    for finding in examine(arguments.seconds):
        findings.append(finding)
        if not arguments.report:
            console.print(_line(finding), style="" if finding.fine else "red")
    wrong = [finding for finding in findings if not finding.fine]
    if arguments.report:
        console.print(bug_report("; ".join(filter(None, (_line(each), each.detail))) for each in findings))
    else:
        console.print(f"\nnext step: {one_line(wrong[0].advice)}" if wrong else "\nnothing to do")
    return 1 if wrong else 0


def _line(finding: Diagnosis) -> str:
    mark = "ok   " if finding.fine else "WRONG"
    return f"{mark}  {one_line(finding.subject)}: {one_line(finding.text)}"


def examine(limit_s: float = LIMIT_S) -> Iterator[Diagnosis]:
    """Look at everything, the causes before what they cause.

    Args:
        limit_s: How long each process may take that opens backends or tries a device.
    """
    yield Diagnosis(True, "python", f"{platform.python_version()} ({sys.executable}) on {platform.platform()}")
    yield Diagnosis(True, "zyx-core", f"{__version__} ({Path(__file__).parents[1]})")
    yield from _dependencies()
    yield from _namesakes()
    settings = Settings()
    try:
        settings = load_settings()
        manager = PluginManager(settings)
        manager.load()
        yield Diagnosis(True, "configuration", _configuration(settings))
    except SettingsError as error:
        yield Diagnosis(False, "configuration", str(error), "correct the configuration; what follows is without it")
        settings = Settings()
        manager = PluginManager(settings)
    yield _cache(settings)
    yield from _backends(manager, limit_s)


def _dependencies() -> Iterator[Diagnosis]:
    versions: list[str] = []
    for name in _DEPENDENCIES:
        try:
            versions.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            yield Diagnosis(False, "packages", f"{name} is not installed", f"pip install {name}")
    yield Diagnosis(True, "packages", ", ".join(versions))


def _namesakes() -> Iterator[Diagnosis]:
    """Look for distributions of others that install a module called zyx over ours."""
    owners = set(metadata.packages_distributions().get("zyx", ())) - {"zyx-core"}
    for owner in sorted(owners):
        yield Diagnosis(
            False,
            "module zyx",
            f"{owner} {metadata.version(owner)}, which has nothing to do with zyx-core, installs a module of that name",
            f"pip uninstall {owner}; pip install --force-reinstall zyx-core",
        )
    if not owners:
        yield Diagnosis(True, "module zyx", "no other distribution installs a module of that name")


def _configuration(settings: Settings) -> str:
    sources = settings.sources
    file = "there is no place for a file"
    if sources.file is not None:
        file = sources.file if Path(sources.file).exists() else f"no file {sources.file}"
    given = ", ".join(f"{key} from {origin}" for key, origin in sources.origins.items() if origin != sources.file)
    unread = [name for name in sources.variables if name.count("_") == 1]
    ignored = f"; unknown, and not read: {', '.join(unread)}" if unread else ""
    return f"{file}{f'; {given}' if given else ''}{ignored}"


def _cache(settings: Settings) -> Diagnosis:
    directory = cache_directory(settings)
    if directory is None:
        why = "there is no home folder" if settings.cache.enabled else "it is switched off"
        return Diagnosis(True, "cache", f"nothing is kept: {why}")
    fault, _, advice = fault_of_cache(directory).partition("; ")
    if fault:
        return Diagnosis(False, "cache", f"nothing is kept: {fault}", advice or "look at that folder")
    existing = next(path for path in (directory, *directory.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            return Diagnosis(True, "cache", f"{directory} can be written")
    except OSError as error:
        variable = variables.VARIABLE_OF["cache.directory"]
        return Diagnosis(
            False, "cache", f"{directory} cannot be written: {error}", f"set {variable} to a folder that can be written"
        )


def _backends(manager: PluginManager, limit_s: float) -> Iterator[Diagnosis]:
    """Open every backend, and try each of its devices, in processes of their own."""
    lost: dict[str, str] = {}
    outcome = attempt(["open"], limit_s)
    if not outcome.lines:
        # One of them takes the process with it: which one is seen where each is opened alone.
        names = [name for name, backend in manager.load().items() if backend.report.state is BackendState.INSTALLED]
        for name in names:
            alone = attempt(["open", "--only", name], limit_s)
            if not alone.lines:
                lost[name] = alone.end
        outcome = attempt(["open", *(each for name in lost for each in ("--without", name))], limit_s)
    if not outcome.lines:
        yield Diagnosis(False, "backends", f"opening them {outcome.end}", "pip uninstall the backends, one by one")
        return
    found = outcome.lines[-1]
    if "fault" in found:
        yield Diagnosis(False, "configuration", found["fault"], "correct the configuration")
        return
    for damaged in found["damaged"]:
        yield Diagnosis(False, "package", f"its metadata cannot be read: {damaged}", "install that package again")
    for report in found["reports"]:
        yield from _backend(report, lost.get(report["name"]))
    yield Diagnosis(found["status"] == 0, "device", found["default"], "pip install zyx-backend-c")
    for device in found["devices"]:
        yield Diagnosis(
            True, f"device {device['name']}", device["model"], detail=f"driver: {device['driver'] or 'none'}"
        )
        if device["is_tried"]:
            yield _result(device["name"], limit_s)


def _backend(report: Mapping[str, Any], lost: str | None) -> Iterator[Diagnosis]:
    """Say what became of a backend, and what brings the driver that it lacks.

    Args:
        report: About it, as `zyx.cli.trial` tells.
        lost: How a process ended that opened it; None if none did.
    """
    name = report["name"]
    subject = f"backend {name}"
    if lost is not None:
        switch = variables.of_section(name, "enabled")
        advice = f"update its driver, or set {switch}=0 to do without it"
        yield Diagnosis(False, subject, f"opening it, in a process of its own, {lost}", advice)
        return
    state = BackendState[report["state"]]
    yield Diagnosis(state not in _WRONG, subject, report["text"], report["advice"])
    if state is BackendState.NO_DRIVER:
        for system, advice in advice_for_driver(name, own_system()):
            yield Diagnosis(True, subject, f"what brings its driver on {system}: {advice}")
    for note in report["notes"]:
        yield Diagnosis(True, subject, note)
    for fault in report["faults"]:
        yield Diagnosis(False, subject, fault, report["advice_for_faults"])


def _result(name: str, limit_s: float) -> Diagnosis:
    """Copy, compile and run on a device, and say whether what it gives is right, and what it took."""
    subject = f"results of {name}"
    outcome = attempt(["device", name], limit_s)
    told: dict[str, Any] = {}
    for line in outcome.lines:
        told |= line
    advice = f"switch {name} off, and tell its authors"
    if "error" in told:
        return Diagnosis(False, subject, f"{told['error']} ({told['begins']})", advice)
    if "again_s" not in told:
        return Diagnosis(False, subject, f"{told.get('begins', 'starting')} {outcome.end}", advice)
    if not outcome.is_clean:
        return Diagnosis(False, subject, f"right, but then closing the device {outcome.end}", advice)
    there_and_back = rate(2 * told["copied_bytes"] / told["copy_s"], "B/s")
    first, again = duration(told["first_s"]), duration(told["again_s"])
    return Diagnosis(
        True, subject, f"right; compiled and run in {first}, again in {again}, copied both ways at {there_and_back}"
    )
