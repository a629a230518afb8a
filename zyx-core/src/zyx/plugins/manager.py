"""Load backends, one at a time, and keep what became of each."""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import traceback
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pluggy

from zyx.builtin.plugin import BUILT_IN
from zyx.errors import SettingsError
from zyx.plugins import check
from zyx.plugins.check import Refusal
from zyx.plugins.discover import installed
from zyx.plugins.state import KNOWN, BackendReport, BackendState, Step, package_of
from zyx.settings import variables
from zyx.settings.check import did_you_mean
from zyx.settings.section import is_enabled
from zyx.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.hookspecs import BackendInfo
    from zyx.plugins.discover import Found
    from zyx.settings.record import Settings

_CORE: Final = "zyx-core"
#: Folders whose lines are on the way to a plugin, and never the place of its fault.
_MACHINERY: Final = {Path(str(module.__file__)).parent for module in (check, importlib, metadata, pluggy)}


class Backend:
    """One backend that was loaded, with what has become of it.

    Attributes:
        hooks: Its hooks; None if it was not taken.
        info: What it says about itself; None if it did not get as far.
        report: What is known about it now.
    """

    __slots__ = ("hooks", "info", "report")

    def __init__(self, report: BackendReport) -> None:
        self.hooks: pluggy.HookRelay | None = None
        self.info: BackendInfo | None = None
        self.report = report

    def update(self, **changes: Any) -> None:  # noqa: ANN401  # the fields of BackendReport have many types
        """Change fields of the report."""
        self.report = dataclasses.replace(self.report, **changes)

    def call(self, hook: str, **arguments: object) -> object:
        """Return what a hook returns, or None if the backend has no such hook. What the hook raises passes through."""
        results = getattr(self.hooks, hook)(**arguments)
        return results[0] if results else None

    def fail(self, step: Step, error: Exception, state: BackendState, advice: str = "") -> None:
        """Record that the backend got no further than `step`."""
        if isinstance(error, Refusal):
            state, step, advice = error.state, error.step, error.advice.format(package=self.report.package) or advice
        reason = explain(error)
        if state is not BackendState.LOST:  # that one is on its way to the user
            forget_frames(error)
        self.update(state=state, step=step, reason=reason, advice=advice, error=error)


class PluginManager:
    """The backends of this environment.

    Args:
        settings: Which backends are switched off, and what each is configured with.
        found: Entry points; by default those of the installed packages.
    """

    def __init__(self, settings: Settings, found: Sequence[Found] | None = None) -> None:
        self.settings = settings
        self.damaged_packages: Sequence[str] = ()
        self._found = found
        self._backends: dict[str, Backend] | None = None

    def with_settings(self, settings: Settings) -> PluginManager:
        """Return another manager of the same packages, none of which is loaded there yet."""
        return PluginManager(settings, self._found)

    def load(self) -> Mapping[str, Backend]:
        """Import the plugin modules, at the first call, and return all backends: built-in ones first, then by name.

        No driver is loaded. A backend that cannot be loaded is in the result too, with a report that says why.

        Raises:
            SettingsError: The configuration names a backend that is neither installed nor known.
        """
        if self._backends is None:
            self._backends = self._load()
        return self._backends

    def backends(self) -> list[BackendReport]:
        """Return a report of every backend that is built in, installed, or known to us, by name."""
        return sorted((backend.report for backend in self.load().values()), key=lambda report: report.name)

    def mark_lost(self, name: str, error: Exception) -> None:
        """Record that a device of a backend stopped answering."""
        advice = "start the program again; if it happens again, look into the system's log for the driver's messages"
        self.load()[name].fail(Step.USE, error, BackendState.LOST, advice)

    def _load(self) -> dict[str, Backend]:
        found = self._found
        if found is None:
            found, self.damaged_packages = installed()
        refused = check.check_names(list(found), frozenset(BUILT_IN))
        by_name = {entry.name: entry for entry in found}
        self._check_settings({*BUILT_IN, *by_name, *KNOWN})
        backends = {name: self._load_built_in(name, plugin) for name, plugin in BUILT_IN.items()}
        for name in sorted({*by_name, *KNOWN, *refused}):
            if name in refused:
                # What is built in stays as it is; whoever took its name is reported beside it.
                shown = f"{name} ({by_name[name].package})" if name in BUILT_IN else name
                backends[shown] = Backend(BackendReport(shown, BackendState.INVALID))
                backends[shown].fail(Step.DISCOVER, refused[name], BackendState.INVALID)
            elif name in by_name:
                backends[name] = self._load_installed(by_name[name])
            else:
                backends[name] = Backend(_not_installed(name))
        return backends

    def _load_built_in(self, name: str, plugin: object) -> Backend:
        backend = Backend(BackendReport(name, BackendState.INSTALLED, package=_CORE, version=__version__))
        self._take(backend, plugin)
        return backend

    def _load_installed(self, entry: Found) -> Backend:
        report = BackendReport(entry.name, BackendState.INSTALLED, package=entry.package, version=entry.version)
        backend = Backend(report)
        if self._is_switched_off(backend):
            return backend
        advice = f"report it to the authors of {entry.package}, or run: pip uninstall {entry.package}"
        try:
            plugin = entry.load()
        except Exception as error:  # noqa: BLE001  # border: the module of another package
            backend.fail(Step.IMPORT, error, BackendState.IMPORT_FAILED, advice)
        else:
            self._take(backend, plugin, advice)
        return backend

    def _take(self, backend: Backend, plugin: object, advice: str = "") -> None:
        name = backend.report.name
        try:
            info = check.identify(plugin, name)
            backend.info = info
            backend.update(summary=info.summary, version=info.version)
            hooks = check.check_hooks(plugin, name)
        except Exception as error:  # noqa: BLE001  # border: the hooks of another package
            backend.fail(Step.INFO, error, BackendState.FAILED, advice)
            return
        backend.hooks = hooks
        self._is_switched_off(backend)

    def _is_switched_off(self, backend: Backend) -> bool:
        """Switch `backend` off if the configuration says so, or its default; called before its import and after it."""
        name, settings = backend.report.name, self.settings
        only, switch = settings.devices.backends, is_enabled(settings, name)
        off = dataclasses.replace(backend.report, state=BackendState.SWITCHED_OFF)
        if only is not None and name not in only and name != "host":
            origin = settings.sources.origins.get("devices.backends", "code")
            reason, advice = f"{origin} asks for {', '.join(only) or 'none'} only", f"add {name} to {origin}"
        elif switch is False:
            reason = f"backends.{name}.enabled is false"
            advice = f"set it to true, or set {variables.of_section(name, 'enabled')}=1"
        elif switch is None and backend.info is not None and not backend.info.enabled_by_default:
            if only is not None:
                return False  # named there, so it is wanted
            reason = "it is off unless it is asked for"
            advice = f"set {variables.of_section(name, 'enabled')}=1"
        else:
            return False
        backend.report = dataclasses.replace(off, reason=reason, advice=advice)
        return True

    def _check_settings(self, names: set[str]) -> None:
        """Refuse names of backends, and variables, that are misspelt."""
        settings = self.settings
        origins = settings.sources.origins
        given = {f"backends.{name}": name for name in settings.backends}
        given |= {f"devices.backends: {name}": name for name in settings.devices.backends or ()}
        given |= {f"devices.order: {name}": name.partition(":")[0] for name in settings.devices.order}
        for key, name in given.items():
            if name not in names:
                path = key.partition(":")[0]
                origin = next((origins[known] for known in origins if known.startswith(path)), "code")
                raise SettingsError(f"{origin}: key {key}: there is no backend {name!r}; {did_you_mean(name, names)}")
        prefixes = tuple(variables.of_section(name, "") for name in names)
        for variable in settings.sources.variables:
            if not variable.startswith(prefixes):
                close = difflib.get_close_matches(variable, variables.KEY_OF, 1, 0.85)
                if close:
                    raise SettingsError(f"{variable}: there is no such variable; did you mean {close[0]}?")


def explain(error: BaseException) -> str:
    """Return an exception in one line, with the place where it was raised if it is not one of ours."""
    text = " ".join(str(error).split())
    if type(error).__module__.startswith("zyx.") and text:
        return text
    place = "" if isinstance(error, SyntaxError) else _place(error)
    return f"{type(error).__name__}: {text}{place}" if text else f"{type(error).__name__}{place}"


def forget_frames(error: BaseException) -> None:
    """Take the tracebacks from an exception that is kept: with its frame, each function that was being run lives on.

    So would the tensors of whoever was the first to ask for a device.
    """
    seen: set[int] = set()
    errors = [error]
    while errors:
        one = errors.pop()
        if id(one) not in seen:
            seen.add(id(one))
            one.__traceback__ = None
            errors += [other for other in (one.__cause__, one.__context__) if other is not None]


def _place(error: BaseException) -> str:
    """Return the innermost line of somebody else's source, which is where a fault in a plugin is looked for first."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<") and not _MACHINERY & set(Path(frame.filename).parents)
    ]
    return f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""


def _not_installed(name: str) -> BackendReport:
    package = package_of(name)
    return BackendReport(
        name, BackendState.NOT_INSTALLED, advice=f"pip install {package}", package=package, summary=KNOWN[name]
    )
