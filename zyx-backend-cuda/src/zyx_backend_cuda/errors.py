"""Errors of this backend. All are of `zyx.errors`; what drivers and compilers report is translated where it is called.

no driver, no package, no NVRTC                   DriverNotFoundError     plugin, driver, nvrtc
a context or stream that is refused               InitializationError     driver
a source that NVRTC refuses                       CompileError            device
codes of `NO_MEMORY`                              AllocationError
codes of `LOST`                                   DeviceLostError
other codes                                       LaunchError or TransferError, by what was done
"""

from __future__ import annotations

from typing import Final

from zyx.errors import AllocationError, BackendError, DeviceLostError

NO_MEMORY: Final = frozenset({2})
NO_DEVICE: Final = 100
NOT_READY: Final = 600
#: After these the context, which all libraries of the process share, can do no more work: a kernel went wrong, or the
#: device is gone.
LOST: Final = frozenset({46, 201, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721})

_NAMES: Final = {
    1: "INVALID_VALUE", 2: "OUT_OF_MEMORY", 3: "NOT_INITIALIZED", 4: "DEINITIALIZED", 46: "DEVICE_UNAVAILABLE",
    100: "NO_DEVICE", 101: "INVALID_DEVICE", 200: "INVALID_IMAGE", 201: "INVALID_CONTEXT", 209: "NO_BINARY_FOR_GPU",
    214: "ECC_UNCORRECTABLE", 217: "PEER_ACCESS_UNSUPPORTED", 218: "INVALID_PTX", 220: "NVLINK_UNCORRECTABLE",
    222: "UNSUPPORTED_PTX_VERSION", 226: "CONTAINED", 304: "OPERATING_SYSTEM", 400: "INVALID_HANDLE",
    500: "NOT_FOUND", 600: "NOT_READY", 700: "ILLEGAL_ADDRESS", 701: "LAUNCH_OUT_OF_RESOURCES", 702: "LAUNCH_TIMEOUT",
    704: "PEER_ACCESS_ALREADY_ENABLED", 709: "CONTEXT_IS_DESTROYED", 710: "ASSERT", 714: "HARDWARE_STACK_ERROR",
    715: "ILLEGAL_INSTRUCTION", 716: "MISALIGNED_ADDRESS", 717: "INVALID_ADDRESS_SPACE", 718: "INVALID_PC",
    719: "LAUNCH_FAILED", 721: "TENSOR_MEMORY_LEAK", 801: "NOT_SUPPORTED", 802: "SYSTEM_NOT_READY",
    803: "SYSTEM_DRIVER_MISMATCH", 900: "STREAM_CAPTURE_UNSUPPORTED", 901: "STREAM_CAPTURE_INVALIDATED",
    910: "GRAPH_EXEC_UPDATE_FAILURE", 999: "UNKNOWN",
}  # fmt: skip

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


class Fault(Exception):
    """A call of the driver that failed. For this package alone.

    Attributes:
        code: CUDA's number of the error.
    """

    def __init__(self, function: str, code: int) -> None:
        super().__init__(f"{function}: {code_name(code)}")
        self.code = code


def code_name(code: int) -> str:
    """Return what CUDA calls an error, with its number."""
    name = _NAMES.get(code)
    return f"CUDA_ERROR_{name} ({code})" if name else f"CUDA error {code}"


def code_of(text: str) -> int:
    """Return the number of an error that the driver describes with `text`, which may have more before and behind it."""
    # The longest: that of 801 is part of those of 304 and 717.
    said = max((said for said in TEXTS if said in text), key=len, default="unknown error")
    return TEXTS[said]


def failure(what: str, fault: Fault, kind: type[BackendError], last: str = "") -> BackendError:
    """Return the error for `what`, which met `fault`: a `kind`, unless its code says something better.

    Args:
        what: What was done, and where.
        fault: The driver's error.
        kind: The error where the code does not say more.
        last: What was queued last on the device, which is likely to have failed if the device is lost.
    """
    if fault.code in LOST:
        after = f"; {last} was queued last" if last else ""
        return DeviceLostError(
            f"{what}: the device can do no more work in this process, {fault}{after}. With the variable "
            "CUDA_LAUNCH_BLOCKING=1 the kernel that fails is the one in the text"
        )
    if fault.code in NO_MEMORY:
        return AllocationError(f"{what}: the driver has no memory for it, {fault}")
    return kind(f"{what}: {fault}")
