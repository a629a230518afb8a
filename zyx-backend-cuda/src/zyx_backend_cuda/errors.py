"""Errors of this backend. All are of `zyx.errors`; what drivers and compilers report is translated where it is called.

no driver, no package, no NVRTC                   DriverNotFoundError     plugin, driver, nvrtc
a context or stream that is refused               InitializationError     driver
a source that NVRTC refuses                       CompileError            device
other codes                                       as `zyx.drivers.faults` says
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.drivers import faults
from zyx.drivers.faults import Codes

if TYPE_CHECKING:
    from zyx.drivers.faults import Fault
    from zyx.errors import BackendError

NO_DEVICE: Final = 100
NOT_READY: Final = 600
PEER_ALREADY_ENABLED: Final = 704
UNKNOWN: Final = 999

#: Lost: a kernel went wrong, or the device is gone. The context is that of all libraries of the process.
CODES: Final = Codes(
    prefix="CUDA_ERROR_",
    unnamed="CUDA error",
    names={
        1: "INVALID_VALUE", 2: "OUT_OF_MEMORY", 3: "NOT_INITIALIZED", 4: "DEINITIALIZED", 46: "DEVICE_UNAVAILABLE",
        NO_DEVICE: "NO_DEVICE", 101: "INVALID_DEVICE", 200: "INVALID_IMAGE", 201: "INVALID_CONTEXT",
        209: "NO_BINARY_FOR_GPU", 214: "ECC_UNCORRECTABLE", 217: "PEER_ACCESS_UNSUPPORTED", 218: "INVALID_PTX",
        220: "NVLINK_UNCORRECTABLE", 222: "UNSUPPORTED_PTX_VERSION", 226: "CONTAINED", 304: "OPERATING_SYSTEM",
        400: "INVALID_HANDLE", 500: "NOT_FOUND", NOT_READY: "NOT_READY", 700: "ILLEGAL_ADDRESS",
        701: "LAUNCH_OUT_OF_RESOURCES", 702: "LAUNCH_TIMEOUT", PEER_ALREADY_ENABLED: "PEER_ACCESS_ALREADY_ENABLED",
        709: "CONTEXT_IS_DESTROYED", 710: "ASSERT", 714: "HARDWARE_STACK_ERROR", 715: "ILLEGAL_INSTRUCTION",
        716: "MISALIGNED_ADDRESS", 717: "INVALID_ADDRESS_SPACE", 718: "INVALID_PC", 719: "LAUNCH_FAILED",
        721: "TENSOR_MEMORY_LEAK", 801: "NOT_SUPPORTED", 802: "SYSTEM_NOT_READY", 803: "SYSTEM_DRIVER_MISMATCH",
        900: "STREAM_CAPTURE_UNSUPPORTED", 901: "STREAM_CAPTURE_INVALIDATED", 910: "GRAPH_EXEC_UPDATE_FAILURE",
        UNKNOWN: "UNKNOWN",
    },
    lost=frozenset({46, 201, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721}),
    memory=frozenset({2}),
)  # fmt: skip

#: What ``cuGetErrorString`` says, for packages that pass on the text alone. 300 shares that of 200.
TEXTS: Final = {
    "invalid argument": 1, "out of memory": 2, "initialization error": 3, "driver shutting down": 4,
    "CUDA-capable device(s) is/are busy or unavailable": 46, "no CUDA-capable device is detected": 100,
    "invalid device ordinal": 101, "device kernel image is invalid": 200, "invalid device context": 201,
    "no kernel image is available for execution on the device": 209, "uncorrectable ECC error encountered": 214,
    "peer access is not supported between these two devices": 217, "a PTX JIT compilation failed": 218,
    "uncorrectable NVLink error detected during the execution": 220,
    "the provided PTX was compiled with an unsupported toolchain.": 222,
    "Invalid access of peer GPU memory over nvlink or a hardware error": 226,
    "OS call failed or operation not supported on this OS": 304, "invalid resource handle": 400,
    "named symbol not found": 500, "device not ready": 600, "an illegal memory access was encountered": 700,
    "too many resources requested for launch": 701, "the launch timed out and was terminated": 702,
    "peer access is already enabled": 704, "context is destroyed": 709, "device-side assert triggered": 710,
    "hardware stack error": 714, "an illegal instruction was encountered": 715, "misaligned address": 716,
    "operation not supported on global/shared address space": 717, "invalid program counter": 718,
    "unspecified launch failure": 719, "tensor memory not completely freed": 721, "operation not supported": 801,
    "system not yet initialized": 802, "system has unsupported display driver / cuda driver combination": 803,
    "operation not permitted when stream is capturing": 900,
    "operation failed due to a previous error during capture": 901, "unknown error": 999,
}  # fmt: skip


def code_of(text: str) -> int:
    """Return the number of an error that the driver describes with `text`, which may have more before and behind it."""
    # The longest: that of 801 is part of those of 304 and 717.
    said = max((said for said in TEXTS if said in text), key=len, default="unknown error")
    return TEXTS[said]


def failure(what: str, fault: Fault, kind: type[BackendError], last: str = "") -> BackendError:
    """Return the error for `what`, which met `fault`; see `zyx.drivers.faults.failure`.

    Args:
        what: What was done, and where.
        fault: The driver's.
        kind: The error where the fault does not say more.
        last: What was queued last on the device, which is likely to have failed if the device is lost.
    """
    advice = "with the variable CUDA_LAUNCH_BLOCKING=1 the kernel that fails is the one in the text"
    return faults.failure(what, fault, kind, f"{last} was queued last; {advice}" if last else advice)
