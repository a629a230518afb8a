"""Errors of this backend. All are of `zyx.errors`; what the driver returns is translated where it is called.

a library that is missing, or lacks a function    DriverNotFoundError     driver
a driver that does not start                      InitializationError     driver, start
sources that are refused                          CompileError            device
other codes                                       as `zyx.drivers.faults` says
"""

from __future__ import annotations

from typing import Final

from zyx.drivers.faults import Codes

NOT_READY: Final = 600
NO_DEVICE: Final = 100
OLD_DRIVER: Final = 35
PEER_ALREADY_ENABLED: Final = 704
UNKNOWN: Final = 999

#: Lost: a fault of a kernel, or of the hardware; after these, every call of the process fails.
CODES: Final = Codes(
    prefix="hipError",
    unnamed="HIP error",
    names={
        1: "InvalidValue", 2: "OutOfMemory", 3: "NotInitialized", 4: "Deinitialized", OLD_DRIVER: "InsufficientDriver",
        98: "InvalidDeviceFunction", NO_DEVICE: "NoDevice", 101: "InvalidDevice", 200: "InvalidImage",
        209: "NoBinaryForGpu", 214: "ECCNotCorrectable", 217: "PeerAccessUnsupported", 400: "InvalidHandle",
        500: "NotFound", NOT_READY: "NotReady", 700: "IllegalAddress", 701: "LaunchOutOfResources",
        702: "LaunchTimeOut", 709: "ContextIsDestroyed", 710: "Assert", 719: "LaunchFailure", 801: "NotSupported",
        900: "StreamCaptureUnsupported", 901: "StreamCaptureInvalidated", UNKNOWN: "Unknown",
    },
    lost=frozenset({4, 214, 700, 702, 709, 710, 719}),
    memory=frozenset({2}),
)  # fmt: skip
