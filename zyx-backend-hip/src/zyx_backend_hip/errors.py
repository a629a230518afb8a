"""Errors of this backend. All are of `zyx.errors`; what the driver returns is translated where it is called.

a library that is missing, or lacks a function    DriverNotFoundError     driver
a driver that does not start                      InitializationError     driver, start
sources that are refused                          CompileError            device
codes of `NO_MEMORY`                              AllocationError
codes of `LOST`                                   DeviceLostError
other codes                                       LaunchError or TransferError, by what was done
"""

from __future__ import annotations

from typing import Final

from zyx.errors import AllocationError, BackendError, DeviceLostError

NOT_READY: Final = 600
NO_DEVICE: Final = 100
OLD_DRIVER: Final = 35
PEER_ALREADY_ENABLED: Final = 704

#: Out of memory.
NO_MEMORY: Final = frozenset({2})
#: A fault of a kernel, or of the hardware: after these, every call of the process fails.
LOST: Final = frozenset({4, 214, 700, 702, 709, 710, 719})

_NAMES: Final = {
    1: "InvalidValue", 2: "OutOfMemory", 3: "NotInitialized", 4: "Deinitialized", 35: "InsufficientDriver",
    98: "InvalidDeviceFunction", 100: "NoDevice", 101: "InvalidDevice", 200: "InvalidImage", 209: "NoBinaryForGpu",
    214: "ECCNotCorrectable", 217: "PeerAccessUnsupported", 400: "InvalidHandle", 500: "NotFound", 600: "NotReady",
    700: "IllegalAddress", 701: "LaunchOutOfResources", 702: "LaunchTimeOut", 709: "ContextIsDestroyed",
    710: "Assert", 719: "LaunchFailure", 801: "NotSupported", 900: "StreamCaptureUnsupported",
    901: "StreamCaptureInvalidated", 999: "Unknown",
}  # fmt: skip


def code_name(code: int) -> str:
    """Return what HIP calls an error, with its number."""
    name = _NAMES.get(code)
    return f"hipError{name} ({code})" if name else f"HIP error {code}"


def failure(what: str, code: int, kind: type[BackendError], said: str = "") -> BackendError:
    """Return the error for `what`, which failed: a `kind`, unless the code says something better.

    Args:
        what: What was done, and where.
        code: HIP's, or the one of the same meaning.
        kind: The error where the code does not say more.
        said: What a library said that has codes of its own.
    """
    said = said or code_name(code)
    if code in LOST:
        return DeviceLostError(f"{what}: the device stopped answering, {said}")
    if code in NO_MEMORY:
        return AllocationError(f"{what}: the driver has no memory for it, {said}")
    return kind(f"{what}: {said}")
