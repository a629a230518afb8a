"""What a driver refuses, and the error of `zyx.errors` that it becomes for what was being done.

a fault that says `Cause.LOST`      DeviceLostError
a fault that says `Cause.MEMORY`    AllocationError
other faults                        the error of what was being done: LaunchError, TransferError, CompileError
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zyx.errors import AllocationError, BackendError, DeviceLostError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: How many pieces of work the text of a loss names.
NAMED: Final = 4


class Cause(enum.Enum):
    """Why a driver refused; the value says it in the text of an error, where what the driver says does not do."""

    LOST = "the device can do no more work in this process"
    MEMORY = "the driver has no memory for it"
    DEADLOCK = "its kernels wait for each other"
    REFUSED = ""


class Fault(Exception):
    """A driver refused something, or a library beside it. It leaves a backend as an error of `zyx.errors` only.

    Attributes:
        cause: Why, as far as the driver tells.
        code: The driver's number, 0 if there is none.
    """

    def __init__(self, cause: Cause, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.cause = cause
        self.code = code


@dataclass(frozen=True, slots=True)
class Codes:
    """The numbers by which a driver says why it refused.

    Attributes:
        prefix: What all names of numbers begin with, such as ``CL_``.
        unnamed: What a number without a name is, such as ``OpenCL error``.
        names: The names, without the prefix.
        lost: Numbers after which the device can do no more work in this process.
        memory: Numbers that say that there is no memory.
    """

    prefix: str
    unnamed: str
    names: Mapping[int, str]
    lost: frozenset[int]
    memory: frozenset[int]

    def name(self, code: int) -> str:
        """Return what the driver calls an error, with its number."""
        return f"{self.prefix}{self.names[code]} ({code})" if code in self.names else f"{self.unnamed} {code}"

    def cause(self, code: int) -> Cause:
        """Return what a number means."""
        return Cause.LOST if code in self.lost else Cause.MEMORY if code in self.memory else Cause.REFUSED

    def fault(self, code: int, function: str = "") -> Fault:
        """Return the fault of the function of the driver that gave `code`."""
        return Fault(self.cause(code), f"{function}: {self.name(code)}" if function else self.name(code), code)

    def failure(self, what: str, code: int, kind: type[BackendError]) -> BackendError:
        """Return the error for `what`, which the driver refused with `code`; see `failure`."""
        return failure(what, self.fault(code), kind)


def failure(what: str, fault: Fault, kind: type[BackendError], if_lost: str = "") -> BackendError:
    """Return the error for `what`, which met `fault`: a `kind`, unless the fault says something better.

    Args:
        what: What was done, and where.
        fault: The driver's.
        kind: The error where the fault does not say more.
        if_lost: What to say besides if the device is lost, such as what it was given last.
    """
    text = ": ".join(filter(None, (what, fault.cause.value, str(fault))))
    if fault.cause is Cause.LOST:
        return DeviceLostError(f"{text}; {if_lost}" if if_lost else text)
    return (AllocationError if fault.cause is Cause.MEMORY else kind)(text)


class DeviceWork:
    """The work of a device, until that is lost: from then on, everything that it is asked for fails with the loss.

    Args:
        name: Of the device, for error texts.

    Attributes:
        lost: Why nothing can run any more; None as long as it can.
    """

    def __init__(self, name: str) -> None:
        self.name: Final = name
        self.lost: str | None = None

    def running(self) -> Iterable[str]:
        """Return what may be running, each for an error text, oldest first; by default nothing is known."""
        return ()

    def check(self, what: str) -> None:
        """Raise `DeviceLostError` if the device is lost."""
        if self.lost is not None:
            raise DeviceLostError(f"{what}: {self.lost}")

    def failed(self, what: str, fault: Fault, kind: type[BackendError]) -> BackendError:
        """Return the error for a fault, as `failure` does; if it says that the device is lost, the device is."""
        if fault.cause is not Cause.LOST:
            return failure(what, fault, kind)
        if self.lost is None:
            names = list(dict.fromkeys(self.running()))
            more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
            running = f"; it was running {', '.join(names[:NAMED])}{more}" if names else ""
            self.lost = f"device {self.name} is lost{running} ({fault})"
        return DeviceLostError(f"{what}: {self.lost}")
