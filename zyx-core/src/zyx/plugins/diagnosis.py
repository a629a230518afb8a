"""What an exception says of a backend: in which state it is, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.errors import BackendError, DriverNotFoundError, NoDeviceError
from zyx.plugins.state import BackendState
from zyx.plugins.watchdog import Overdue
from zyx.settings import variables

if TYPE_CHECKING:
    from zyx.plugins.state import BackendReport

#: What sets how long a plugin may take.
TIMEOUT: Final = variables.VARIABLE_OF["devices.timeout_s"]


def diagnose(error: BaseException, report: BackendReport, module: str) -> tuple[BackendState, str]:
    """Return the state of a backend whose hooks raised `error`, and what to do about it.

    Args:
        error: What they raised.
        report: About the backend.
        module: Where its plugin lies, such as ``zyx_backend_c.plugin``.
    """
    missing = _missing_modules(error)
    match error:
        case Overdue():
            switch = variables.of_section(report.name, "enabled")
            return BackendState.FAILED, f"set {TIMEOUT} to more seconds, or {switch}=0 to do without it"
        case _ if any(_is_in(name, "zyx") for name in missing):
            # Drivers have other names: what is missing is in a core that is not this one.
            return BackendState.WRONG_API_VERSION, f"pip install --upgrade zyx-core {report.package}"
        case _ if any(_is_in(name, module.partition(".")[0]) for name in missing):
            return BackendState.FAILED, advice_for(report.package)
        case DriverNotFoundError() | ImportError():
            return BackendState.NO_DRIVER, ""
        case NoDeviceError():
            return BackendState.NO_DEVICE, ""
        case BackendError():
            return BackendState.DRIVER_REFUSED, ""
        case _:
            return BackendState.FAILED, advice_for(report.package)


def advice_for(package: str) -> str:
    """Return what to do about a fault of a package."""
    return f"report it to the authors of {package}, or run: pip uninstall {package}"


def _missing_modules(error: BaseException) -> list[str]:
    """Return the modules that could not be imported, or that lack a name, of an exception and its causes."""
    names: list[str] = []
    cause: BaseException | None = error
    seen: set[int] = set()
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        if isinstance(cause, ImportError) and isinstance(cause.name, str):
            names.append(cause.name)
        cause = cause.__cause__
    return names


def _is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")
