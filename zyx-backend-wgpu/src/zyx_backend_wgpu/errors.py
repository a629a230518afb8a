"""Errors of this backend. All are of `zyx.errors`; what the driver raises is translated where it is called.

no wgpu, no adapter                               DriverNotFoundError     plugin, driver
a device that is refused                          InitializationError     driver
a shader module or pipeline that is refused       CompileError            device
a `Fault` that says `LOST`                        DeviceLostError
a `Fault` that says `MEMORY`                      AllocationError
other faults                                      LaunchError or TransferError, by what was done
"""

from __future__ import annotations

import enum

from zyx.errors import AllocationError, BackendError, DeviceLostError


class Cause(enum.Enum):
    """Why the driver refused."""

    LOST = "the device stopped answering"
    MEMORY = "the driver has no memory for it"
    REFUSED = "the driver refused"


class Fault(Exception):
    """The driver refused something. It leaves this package as an error of `zyx.errors` only.

    Attributes:
        cause: Why, as far as the driver tells.
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
