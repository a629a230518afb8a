"""``zyx doctor``: everything that can be wrong with an installation, and the next step."""

from __future__ import annotations

import platform
import sys
import tempfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zyx.cli.devices import default_line
from zyx.errors import SettingsError
from zyx.plugins.describe import explanation
from zyx.plugins.manager import PluginManager
from zyx.plugins.opening import open_backends
from zyx.plugins.state import BackendState
from zyx.settings import variables
from zyx.settings.load import load_settings
from zyx.settings.paths import cache_directory
from zyx.settings.record import Settings
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
        advice: What to do; empty if there is nothing.
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
        console.print(f"{mark}  {finding.subject}: {finding.text}", style=style)
    advice = [finding.advice for finding in findings if not finding.fine and finding.advice]
    console.print(f"\nnext step: {advice[0]}" if advice else "\nnothing to do")
    return 0 if all(finding.fine for finding in findings) else 1


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
    yield from _backends(manager)


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
    existing = next(path for path in (directory, *directory.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            return Finding(True, "cache", f"{directory} can be written")
    except OSError as error:
        variable = variables.VARIABLE_OF["cache.directory"]
        return Finding(
            False, "cache", f"{directory} cannot be written: {error}", f"set {variable} to a folder that can be written"
        )


def _backends(manager: PluginManager) -> Iterator[Finding]:
    for damaged in manager.damaged_packages:
        yield Finding(False, "package", f"its metadata cannot be read: {damaged}", "install that package again")
    try:
        opened = open_backends(manager)
    except SettingsError as error:
        yield Finding(False, "configuration", str(error), "correct the configuration")
        return
    try:
        for report in opened.reports:
            fine = report.state not in _WRONG
            text = f"{report.state.value}. {explanation(report)}"
            yield Finding(fine, f"backend {report.name}", text, report.advice)
            for note in report.notes:
                yield Finding(False, f"backend {report.name}", note)
        status, line = default_line(opened)
        yield Finding(status == 0, "device", line, "pip install zyx-backend-c")
    finally:
        opened.close()
