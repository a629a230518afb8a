"""The foreign functions of Vulkan itself, to ask for what WebGPU does not tell: how large a memory is, and a subgroup.

The structures are those of Vulkan 1.3, which never change; of those that only the size of matters, more is reserved.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from typing import TYPE_CHECKING, Any, Final, TypeVar

from zyx.drivers.vulkan_loader import quiet

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_SUCCESS: Final = 0
_DEVICE_LOCAL: Final = 1
#: Version 1.3, the first one in which every device tells the sizes of subgroups.
_VERSION: Final = 1 << 22 | 3 << 12
#: Types of VkPhysicalDeviceProperties2 and of VkPhysicalDeviceSubgroupSizeControlProperties.
_PROPERTIES: Final = 1000059001
_SUBGROUP_SIZES: Final = 1000225000
#: Larger than any structure that is filled in here.
_PLENTY: Final = 4096
#: Where the counts and the entries of VkPhysicalDeviceMemoryProperties lie.
_HEAP_COUNT: Final = 260
_HEAPS: Final = 264
_HEAP_BYTES: Final = 16
#: Where the name lies in VkPhysicalDeviceProperties, and its size.
_NAME: Final = 20
_NAME_BYTES: Final = 256


def memory_bytes(vendor: int, device: int, name: str) -> int | None:
    """Return the size of the largest memory of its own of the device with these numbers, or else this name.

    None if Vulkan does not know such a device, or is not there.
    """
    return _ask((vendor, device), name, _largest_heap)


def subgroup_threads(vendor: int, device: int, name: str) -> tuple[int, int]:
    """Return the least and the most threads of that device that run in step; 0 if it does not tell."""
    return _ask((vendor, device), name, _subgroup_threads) or (0, 0)


def _ask(numbers: tuple[int, int], name: str, question: Callable[[Any, ctypes.c_void_p], T]) -> T | None:
    """Return the answer of the device with these numbers, or else this name; None if there is no such device."""
    try:
        library: Any = ctypes.CDLL("vulkan-1.dll" if sys.platform == "win32" else "libvulkan.so.1")
    except OSError:
        return None
    instance = ctypes.c_void_p()
    application = ctypes.create_string_buffer(struct.pack("<I40xI", 0, _VERSION), 128)
    create = ctypes.create_string_buffer(struct.pack("<I20xQ", 1, ctypes.addressof(application)), 128)
    with quiet():
        code = library.vkCreateInstance(create, None, ctypes.byref(instance))
    if code != _SUCCESS:
        return None
    try:
        return _ask_devices(library, instance, numbers, name, question)
    finally:
        library.vkDestroyInstance(instance, None)


def _ask_devices(
    library: Any,  # noqa: ANN401  # of ctypes
    instance: ctypes.c_void_p,
    numbers: tuple[int, int],
    name: str,
    question: Callable[[Any, ctypes.c_void_p], T],
) -> T | None:
    count = ctypes.c_uint32(0)
    if library.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), None) != _SUCCESS:
        return None
    handles = (ctypes.c_void_p * count.value)()
    if library.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), handles) < _SUCCESS:
        return None
    named = None
    for number in range(count.value):
        handle = ctypes.c_void_p(handles[number])
        described = _properties(library, handle)
        ids = struct.unpack_from("<II", described, 8)
        called = described[_NAME : _NAME + _NAME_BYTES].partition(b"\0")[0].decode(errors="replace")
        if " ".join(called.split()) == name:
            answer = question(library, handle)
            if ids == numbers:
                return answer
            named = answer if named is None else named
    return named


def _subgroup_threads(library: Any, handle: ctypes.c_void_p) -> tuple[int, int]:  # noqa: ANN401  # of ctypes
    (version,) = struct.unpack_from("<I", _properties(library, handle))
    if version < _VERSION or not hasattr(library, "vkGetPhysicalDeviceProperties2"):
        return 0, 0
    sizes = ctypes.create_string_buffer(struct.pack("<I", _SUBGROUP_SIZES), 128)
    asked = ctypes.create_string_buffer(struct.pack("<I4xQ", _PROPERTIES, ctypes.addressof(sizes)), _PLENTY)
    library.vkGetPhysicalDeviceProperties2(handle, asked)
    least, most = struct.unpack_from("<II", sizes.raw, 16)
    return least, most


def _properties(library: Any, handle: ctypes.c_void_p) -> bytes:  # noqa: ANN401  # of ctypes
    described = ctypes.create_string_buffer(_PLENTY)
    library.vkGetPhysicalDeviceProperties(handle, described)
    return described.raw


def _largest_heap(library: Any, handle: ctypes.c_void_p) -> int:  # noqa: ANN401  # a library of ctypes
    filled = ctypes.create_string_buffer(_PLENTY)
    library.vkGetPhysicalDeviceMemoryProperties(handle, filled)
    (count,) = struct.unpack_from("<I", filled.raw, _HEAP_COUNT)
    heaps = [struct.unpack_from("<QI", filled.raw, _HEAPS + _HEAP_BYTES * number) for number in range(count)]
    return int(max(size for size, flags in heaps if flags & _DEVICE_LOCAL))
