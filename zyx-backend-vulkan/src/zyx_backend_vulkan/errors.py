"""Errors of this backend. All are of `zyx.errors`; what the driver returns is translated where it is called.

no loader, no binding, no driver                  DriverNotFoundError     plugin, driver_instance
a device that is refused or too old               InitializationError     driver_instance, driver
a pipeline that is refused                        CompileError            device
a `Fault` that says `LOST`                        DeviceLostError
a `Fault` that says `MEMORY`                      AllocationError
other faults                                      LaunchError or TransferError, by what was done
"""

from __future__ import annotations

import enum
from typing import Final

from zyx.errors import AllocationError, BackendError, DeviceLostError


class Cause(enum.Enum):
    """Why the driver refused."""

    LOST = "the device stopped answering"
    MEMORY = "the driver has no memory for it"
    REFUSED = "the driver refused"


#: VkResult, as in the registry of Vulkan: https://registry.khronos.org/vulkan/specs/latest/man/html/VkResult.html
DEVICE_LOST: Final = -4
_MEMORY: Final = frozenset({-1, -2, -10, -1000069000})
_NAMES: Final = {
    -1: "OUT_OF_HOST_MEMORY", -2: "OUT_OF_DEVICE_MEMORY", -3: "INITIALIZATION_FAILED", DEVICE_LOST: "DEVICE_LOST",
    -5: "MEMORY_MAP_FAILED", -6: "LAYER_NOT_PRESENT", -7: "EXTENSION_NOT_PRESENT", -8: "FEATURE_NOT_PRESENT",
    -9: "INCOMPATIBLE_DRIVER", -10: "TOO_MANY_OBJECTS", -12: "FRAGMENTED_POOL", -13: "UNKNOWN",
    -1000012000: "INVALID_SHADER_NV", -1000069000: "OUT_OF_POOL_MEMORY",
}  # fmt: skip


class Fault(Exception):
    """The driver refused something. It leaves this package as an error of `zyx.errors` only.

    Attributes:
        cause: Why, as far as the driver tells.
        code: The driver's number, 0 if there is none.
    """

    def __init__(self, cause: Cause, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.cause = cause
        self.code = code

    @classmethod
    def of(cls, code: int, function: str) -> Fault:
        """Return the fault of a function of Vulkan that returned `code`."""
        cause = Cause.LOST if code == DEVICE_LOST else Cause.MEMORY if code in _MEMORY else Cause.REFUSED
        name = f"VK_ERROR_{_NAMES[code]}" if code in _NAMES else "VkResult"
        return cls(cause, f"{function} returned {name} ({code})", code)


def failure(what: str, fault: Fault, kind: type[BackendError]) -> BackendError:
    """Return the error for `what`, which failed with `fault`: a `kind`, unless the fault says something better."""
    if fault.cause is Cause.LOST:
        kind = DeviceLostError
    elif fault.cause is Cause.MEMORY:
        kind = AllocationError
    return kind(f"{what}: {fault.cause.value}: {fault}")
