"""Errors of this backend. All are of `zyx.errors`; what a servant raises is translated where it is called.

no simulator, no driver                           DriverNotFoundError     plugin
a nest that has no program of tiles               UnsupportedError        device
a program that is refused                         CompileError            device
a `Fault` that says `LOST`                        DeviceLostError
a `Fault` that says `MEMORY`                      AllocationError
a `Fault` that says `DEADLOCK`, other faults      LaunchError or TransferError, by what was done
"""

from __future__ import annotations

import enum

from zyx.errors import AllocationError, BackendError, DeviceLostError


class Cause(enum.Enum):
    """Why the servant refused."""

    LOST = "the device stopped answering"
    MEMORY = "there is no memory for it"
    DEADLOCK = "its kernels wait for each other"
    REFUSED = "it was refused"


class Fault(Exception):
    """A servant refused something. It leaves this package as an error of `zyx.errors` only.

    Attributes:
        cause: Why, as far as it tells.
    """

    def __init__(self, cause: Cause, text: str) -> None:
        super().__init__(text)
        self.cause = cause


def failure(what: str, fault: Fault, kind: type[BackendError]) -> BackendError:
    """Return the error for `what`, which failed with `fault`: a `kind`, unless the fault says something better."""
    if fault.cause is Cause.LOST:
        kind = DeviceLostError
    elif fault.cause is Cause.MEMORY:
        kind = AllocationError
    return kind(f"{what}: {fault.cause.value}: {fault}")
