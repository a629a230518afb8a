"""Load backends, one at a time, and keep what became of each."""

from __future__ import annotations

import dataclasses
import difflib
from typing import TYPE_CHECKING, Any, Final

from zyx.builtin.plugin import BUILT_IN
from zyx.errors import SettingsError
from zyx.plugins import check
from zyx.plugins.check import Refusal
from zyx.plugins.diagnosis import TIMEOUT, advice_for, diagnose
from zyx.plugins.discover import installed
from zyx.plugins.state import KNOWN, BackendReport, BackendState, BackendStep, package_of
from zyx.plugins.watchdog import Overdue, Watchdog
from zyx.plugins.words import explain, one_line, text_of
from zyx.settings import variables
from zyx.settings.check import did_you_mean
from zyx.settings.section import is_enabled
from zyx.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pluggy

    from zyx.hookspecs import BackendInfo
    from zyx.plugins.discover import Found
    from zyx.settings.record import Settings

_CORE: Final = "zyx-core"


class Backend:
    """One backend that was loaded, with what has become of it.

    Attributes:
        hooks: Its hooks; None if it was not taken.
        info: What it says about itself; None if it did not get as far.
        module: Where its plugin lies; empty if it is built in.
        report: What is known about it now.
    """

    __slots__ = ("hooks", "info", "module", "report")

    def __init__(self, report: BackendReport, module: str = "") -> None:
        self.module = module
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

    def note(self, text: str) -> None:
        """Add what the backend tells people about itself to the report, once."""
        line = text_of(text)
        if line not in self.report.notes:
            self.update(notes=(*self.report.notes, line))

    def blame(self, text: str) -> None:
        """Add a fault of the backend that does not stop it to the report, once."""
        if text not in self.report.faults:
            self.update(faults=(*self.report.faults, text))

    def fail(self, step: BackendStep, error: BaseException, state: BackendState, advice: str = "") -> None:
        """Record that the backend got no further than `step`."""
        if isinstance(error, Refusal):
            state, step, advice = error.state, error.step, error.advice.format(package=self.report.package) or advice
        reason = explain(error)
        if state is not BackendState.LOST:  # that one is on its way to the user
            forget_frames(error)
        self.update(state=state, step=step, reason=reason, advice=advice, error=error)


#: Imports that nobody waits for any longer, by backend and module. They are the process's, as are the locks of modules
#: that they hold: whoever imports one of these again would wait for it until it comes back.
_given_up: Final[dict[tuple[str, str], _Loading]] = {}


class _Loading:
    """How far the loading of one plugin got. It may go on by itself when nobody waits for it any longer.

    Attributes:
        step: What is being done.
        is_over: Whether nothing is, since it has come back.
        info: What the plugin says about itself.
        hooks: Its hooks.
    """

    def __init__(self, load: Callable[[], object], name: str) -> None:
        self._load = load
        self._name = name
        self.step = BackendStep.IMPORT
        self.is_over = False
        self.info: BackendInfo | None = None
        self.hooks: pluggy.HookRelay | None = None

    def run(self) -> None:
        """Import it, and check what it declares. Raises whatever the plugin raises, and `Refusal`."""
        try:
            plugin = self._load()
            self.step = BackendStep.INFO
            self.info = check.identify(plugin, self._name)
            self.step = BackendStep.CHECK
            self.hooks = check.check_hooks(plugin, self._name)
        finally:
            self.is_over = True


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
        self.load()[name].fail(BackendStep.USE, error, BackendState.LOST, advice)

    def watchdog(self) -> Watchdog:
        """Return what the code of other packages is run from, for as long as the settings allow."""
        return Watchdog(self.settings.devices.timeout_s, TIMEOUT)

    def _load(self) -> dict[str, Backend]:
        found = self._found
        if found is None:
            found, self.damaged_packages = installed()
        taken, refused = check.owners(found, frozenset(BUILT_IN))
        self._check_settings({*BUILT_IN, *KNOWN, *(entry.name for entry in found)})
        backends = {name: self._load_built_in(name, plugin) for name, plugin in BUILT_IN.items()}
        with self.watchdog() as watchdog:
            for name in sorted({*taken, *KNOWN, *refused}):
                if name in taken:
                    backends[name] = self._load_installed(taken[name], watchdog)
                elif name in refused:
                    entry, refusal = refused[name]
                    report = BackendReport(name, BackendState.INVALID, package=entry.package, version=entry.version)
                    backends[name] = Backend(report)
                    backends[name].fail(BackendStep.DISCOVER, refusal, BackendState.INVALID)
                else:
                    backends[name] = Backend(_not_installed(name))
        return backends

    def _load_built_in(self, name: str, plugin: object) -> Backend:
        backend = Backend(BackendReport(name, BackendState.INSTALLED, package=_CORE, version=__version__))
        loading = _Loading(lambda: plugin, name)
        loading.run()
        self._take(backend, loading)
        return backend

    def _load_installed(self, entry: Found, watchdog: Watchdog) -> Backend:
        report = BackendReport(entry.name, BackendState.INSTALLED, package=entry.package, version=entry.version)
        backend = Backend(report, entry.value)
        if self._is_switched_off(backend):
            return backend
        loading = _Loading(entry.load, entry.name)
        key = entry.name, entry.value
        before = _given_up.get(key)
        try:
            if before is not None and not before.is_over:
                loading = before
                raise Overdue(f"the import of backend {entry.name}, begun before, has not come back")
            watchdog.run(loading.run, f"the import of backend {entry.name}")
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  # boundary: the module and the hooks of another package
            if isinstance(error, Overdue):
                _given_up[key] = loading
            state, advice = diagnose(error, report, entry.value)
            if loading.step is BackendStep.IMPORT:
                state = BackendState.IMPORT_FAILED
            self._identify(backend, loading)
            backend.fail(loading.step, error, state, advice or advice_for(entry.package))
        else:
            self._take(backend, loading)
        return backend

    def _take(self, backend: Backend, loading: _Loading) -> None:
        self._identify(backend, loading)
        backend.hooks = loading.hooks
        self._is_switched_off(backend)

    def _identify(self, backend: Backend, loading: _Loading) -> None:
        backend.info = info = loading.info
        if info is not None:
            backend.update(summary=one_line(info.summary), version=one_line(info.version))

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


def _not_installed(name: str) -> BackendReport:
    package = package_of(name)
    return BackendReport(
        name, BackendState.NOT_INSTALLED, advice=f"pip install {package}", package=package, summary=KNOWN[name]
    )
