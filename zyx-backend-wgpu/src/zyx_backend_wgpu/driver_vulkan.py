"""The foreign functions of Vulkan itself, to ask for what WebGPU does not tell: how large a memory is.

The structures are those of Vulkan 1.0, which never change; of those that only the size of matters, more is reserved.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import sys
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_SUCCESS: Final = 0
_DEVICE_LOCAL: Final = 1
#: Larger than any structure that is filled in here.
_PLENTY: Final = 4096
#: Where the counts and the entries of VkPhysicalDeviceMemoryProperties lie.
_HEAP_COUNT: Final = 260
_HEAPS: Final = 264
_HEAP_BYTES: Final = 16
#: Where the name lies in VkPhysicalDeviceProperties, and its size.
_NAME: Final = 20
_NAME_BYTES: Final = 256


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep a layer of Mesa's, which looks for a screen to choose a device by, from complaining that there is none."""
    name = "NODEVICE_SELECT"
    if "XDG_RUNTIME_DIR" in os.environ or name in os.environ:
        yield
        return
    os.environ[name] = "1"
    try:
        yield
    finally:
        del os.environ[name]


def memory_bytes(vendor: int, device: int, name: str) -> int | None:
    """Return the size of the largest memory of its own of the device with these numbers, or else this name.

    None if Vulkan does not know such a device, or is not there.
    """
    try:
        library: Any = ctypes.CDLL("vulkan-1.dll" if sys.platform == "win32" else "libvulkan.so.1")
    except OSError:
        return None
    instance = ctypes.c_void_p()
    # VkInstanceCreateInfo: of type 1, with nothing in it.
    create = ctypes.create_string_buffer(struct.pack("<I", 1), 128)
    with quiet():
        code = library.vkCreateInstance(create, None, ctypes.byref(instance))
    if code != _SUCCESS:
        return None
    try:
        return _memory_bytes(library, instance, (vendor, device), name)
    finally:
        library.vkDestroyInstance(instance, None)


def _memory_bytes(library: Any, instance: ctypes.c_void_p, numbers: tuple[int, int], name: str) -> int | None:  # noqa: ANN401
    count = ctypes.c_uint32(0)
    if library.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), None) != _SUCCESS:
        return None
    handles = (ctypes.c_void_p * count.value)()
    if library.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), handles) < _SUCCESS:
        return None
    named = None
    for number in range(count.value):
        handle = ctypes.c_void_p(handles[number])
        described = ctypes.create_string_buffer(_PLENTY)
        library.vkGetPhysicalDeviceProperties(handle, described)
        ids = struct.unpack_from("<II", described.raw, 8)
        called = described.raw[_NAME : _NAME + _NAME_BYTES].partition(b"\0")[0].decode(errors="replace")
        if " ".join(called.split()) == name:
            size = _largest_heap(library, handle)
            if ids == numbers:
                return size
            named = size if named is None else named
    return named


def _largest_heap(library: Any, handle: ctypes.c_void_p) -> int:  # noqa: ANN401  # a library of ctypes
    filled = ctypes.create_string_buffer(_PLENTY)
    library.vkGetPhysicalDeviceMemoryProperties(handle, filled)
    (count,) = struct.unpack_from("<I", filled.raw, _HEAP_COUNT)
    heaps = [struct.unpack_from("<QI", filled.raw, _HEAPS + _HEAP_BYTES * number) for number in range(count)]
    return int(max(size for size, flags in heaps if flags & _DEVICE_LOCAL))
