"""Errors of this backend. All are of `zyx.errors`; what the driver raises is translated where it is called.

no pyopencl, no platform                          DriverNotFoundError     plugin, driver
a context or queue that is refused                InitializationError     driver
a build that fails                                CompileError            device
other codes                                       as `zyx.drivers.faults` says
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from zyx.drivers.faults import Codes

#: Lost: device not available; invalid device, context or queue, all of which were valid before. No memory: for an
#: object, or on the host.
CODES: Final = Codes(
    prefix="CL_",
    unnamed="OpenCL error",
    names={
        -1: "DEVICE_NOT_FOUND", -2: "DEVICE_NOT_AVAILABLE", -4: "MEM_OBJECT_ALLOCATION_FAILURE", -5: "OUT_OF_RESOURCES",
        -6: "OUT_OF_HOST_MEMORY", -11: "BUILD_PROGRAM_FAILURE", -14: "EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST",
        -33: "INVALID_DEVICE", -34: "INVALID_CONTEXT", -36: "INVALID_COMMAND_QUEUE", -42: "INVALID_BINARY",
        -46: "INVALID_KERNEL_NAME", -50: "INVALID_ARG_VALUE", -51: "INVALID_ARG_SIZE", -52: "INVALID_KERNEL_ARGS",
        -54: "INVALID_WORK_GROUP_SIZE", -55: "INVALID_WORK_ITEM_SIZE", -59: "INVALID_OPERATION",
        -61: "INVALID_BUFFER_SIZE", -1001: "PLATFORM_NOT_FOUND_KHR",
    },
    lost=frozenset({-2, -33, -34, -36}),
    memory=frozenset({-4, -6}),
)  # fmt: skip
#: As where a buffer is asked for: that there are no resources, or none of the size, means that it cannot be had.
BUFFER_CODES: Final = replace(CODES, memory=CODES.memory | {-5, -61})
