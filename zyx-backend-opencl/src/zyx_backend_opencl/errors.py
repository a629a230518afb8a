"""Errors of this backend. All are of `zyx.errors`; what the driver raises is translated where it is called.

no pyopencl, no platform                          DriverNotFoundError     plugin, driver
a context or queue that is refused                InitializationError     driver
a build that fails                                CompileError            device
codes of `NO_MEMORY`                              AllocationError
codes of `LOST`                                   DeviceLostError
other codes                                       LaunchError or TransferError, by what was done
"""

from __future__ import annotations

from typing import Final

from zyx.errors import AllocationError, BackendError, DeviceLostError

#: The codes of errors that say that there is no memory: for an object, or on the host.
NO_MEMORY: Final = frozenset({-4, -6})
#: What besides means that a buffer cannot be had: resources in general, and the size of a buffer.
NO_BUFFER: Final = NO_MEMORY | {-5, -61}
#: Device not available; invalid device, context or queue, all of which were valid before.
LOST: Final = frozenset({-2, -33, -34, -36})

_NAMES: Final = {
    -1: "DEVICE_NOT_FOUND", -2: "DEVICE_NOT_AVAILABLE", -4: "MEM_OBJECT_ALLOCATION_FAILURE", -5: "OUT_OF_RESOURCES",
    -6: "OUT_OF_HOST_MEMORY", -11: "BUILD_PROGRAM_FAILURE", -14: "EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST",
    -33: "INVALID_DEVICE", -34: "INVALID_CONTEXT", -36: "INVALID_COMMAND_QUEUE", -42: "INVALID_BINARY",
    -46: "INVALID_KERNEL_NAME", -50: "INVALID_ARG_VALUE", -51: "INVALID_ARG_SIZE", -52: "INVALID_KERNEL_ARGS",
    -54: "INVALID_WORK_GROUP_SIZE", -55: "INVALID_WORK_ITEM_SIZE", -59: "INVALID_OPERATION",
    -61: "INVALID_BUFFER_SIZE", -1001: "PLATFORM_NOT_FOUND_KHR",
}  # fmt: skip


def code_name(code: int) -> str:
    """Return what OpenCL calls an error, with its number."""
    name = _NAMES.get(code)
    return f"CL_{name} ({code})" if name else f"OpenCL error {code}"


def failure(what: str, code: int, kind: type[BackendError]) -> BackendError:
    """Return the error for `what`, which failed with `code`: a `kind`, unless the code says something better."""
    if code in LOST:
        return DeviceLostError(f"{what}: the device stopped answering, {code_name(code)}")
    if code in NO_MEMORY:
        return AllocationError(f"{what}: the driver has no memory for it, {code_name(code)}")
    return kind(f"{what}: {code_name(code)}")
