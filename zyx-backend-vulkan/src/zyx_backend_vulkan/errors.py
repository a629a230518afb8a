"""Errors of this backend. All are of `zyx.errors`; what the driver returns is translated where it is called.

no loader, no binding, no driver                  DriverNotFoundError     plugin, driver_instance
a device that is refused or too old               InitializationError     driver_instance, driver
a pipeline that is refused                        CompileError            device
other faults                                      as `zyx.drivers.faults` says
"""

from __future__ import annotations

from typing import Final

from zyx.drivers.faults import Codes

DEVICE_LOST: Final = -4
OUT_OF_DEVICE_MEMORY: Final = -2
EXTENSION_NOT_PRESENT: Final = -7

#: VkResult, as in the registry of Vulkan: https://registry.khronos.org/vulkan/specs/latest/man/html/VkResult.html
CODES: Final = Codes(
    prefix="VK_ERROR_",
    unnamed="VkResult",
    names={
        -1: "OUT_OF_HOST_MEMORY", OUT_OF_DEVICE_MEMORY: "OUT_OF_DEVICE_MEMORY", -3: "INITIALIZATION_FAILED",
        DEVICE_LOST: "DEVICE_LOST", -5: "MEMORY_MAP_FAILED", -6: "LAYER_NOT_PRESENT",
        EXTENSION_NOT_PRESENT: "EXTENSION_NOT_PRESENT", -8: "FEATURE_NOT_PRESENT", -9: "INCOMPATIBLE_DRIVER",
        -10: "TOO_MANY_OBJECTS", -12: "FRAGMENTED_POOL", -13: "UNKNOWN", -1000012000: "INVALID_SHADER_NV",
        -1000069000: "OUT_OF_POOL_MEMORY",
    },
    lost=frozenset({DEVICE_LOST}),
    memory=frozenset({-1, OUT_OF_DEVICE_MEMORY, -10, -1000069000}),
)  # fmt: skip
