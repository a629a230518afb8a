"""The foreign functions of this backend: Vulkan through the cffi layer of the package vulkan.

Nothing but the files `driver*.py` imports it. Of that package only `ffi`, which knows every structure of the registry
up to 1.3.275, and `lib`, the loader's functions as they are, serve: its own functions wrap every call at several times
the cost, lose results and let texts die that structures point to, and structures of ctypes would have to be written
down again.

Importing this module loads the loader, so the business card does not.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from weakref import WeakKeyDictionary

import vulkan
from vulkan._vulkan import ffi, lib

from zyx_backend_vulkan.errors import CODES, EXTENSION_NOT_PRESENT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: What cffi has for a structure or a handle of Vulkan.
Native: TypeAlias = Any

__all__ = [
    "NULL", "VERSION", "WHOLE", "Native", "Switches", "check", "device_function", "ffi", "lib", "listed", "owned",
    "struct",
]  # fmt: skip

VERSION: Final = f"vulkan {vulkan.__version__}"
NULL: Final = ffi.NULL
WHOLE: Final = (1 << 64) - 1  # VK_WHOLE_SIZE, and no time limit

_SUCCESS: Final = 0
#: More is there than there was room for.
_INCOMPLETE: Final = 5

#: What structures point to: cffi frees what nothing in Python refers to.
_referred: Final[WeakKeyDictionary[Any, list[Any]]] = WeakKeyDictionary()

#: Where words begin in the name of a structure; the values of VkStructureType are called after these.
_WORDS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[a-z])(?=\d)|(?<=\d)(?=\d)|(?<=[A-Z])(?=[A-Z][a-z])")


def struct(name: str, **values: Native) -> Native:
    """Return a new structure of Vulkan, such as ``VkBufferCreateInfo``, with its ``sType`` and these fields.

    What fields point to stays alive as long as the structure. Texts and lists become arrays.
    """
    pointer, fields, number = _shape(name)
    made = ffi.new(pointer)
    if number is not None:
        made.sType = number
    kept: list[Any] = []
    for field, value in values.items():
        if fields[field].type.kind == "pointer" and isinstance(value, str | list | tuple):
            item = fields[field].type.item
            if isinstance(value, str):
                value = ffi.new("char[]", value.encode())
            else:
                elements = [ffi.new("char[]", text.encode()) for text in value if isinstance(text, str)] or value
                kept += elements
                value = ffi.new(f"{item.cname}[]", [_contents(element, item) for element in elements])
        kept.append(value)
        setattr(made, field, value)
    _referred[made] = kept
    return made


@cache
def _shape(name: str) -> tuple[Native, dict[str, Native], int | None]:
    """Return the type of pointers to a structure, its fields, and its value of VkStructureType if it has one."""
    pointer = ffi.typeof(f"{name} *")
    fields = dict(pointer.item.fields)
    words = _WORDS.sub("_", name.removeprefix("Vk")).upper()
    return pointer, fields, getattr(lib, f"VK_STRUCTURE_TYPE_{words}") if "sType" in fields else None


class Switches:
    """A structure of features that is later than the registry of the package: truths, behind what all structures have.

    Args:
        number: Its value of VkStructureType.
        names: Its fields in order, which become attributes.
        following: The structure behind it.

    Attributes:
        native: A pointer to it, which is good as long as this object is there.
    """

    native: Native
    _memory: Native
    _flags: Native
    _places: dict[str, int]

    def __init__(self, number: int, names: Sequence[str], following: Native) -> None:
        header, size = ffi.sizeof("VkBaseOutStructure"), ffi.sizeof("VkBool32")
        memory = ffi.new("uint64_t[]", -(-(header + size * len(names)) // 8))
        head = ffi.cast("VkBaseOutStructure *", memory)
        head.sType, head.pNext = number, ffi.cast("VkBaseOutStructure *", following)
        flags = ffi.cast("VkBool32 *", ffi.cast("char *", memory) + header)
        places = {name: place for place, name in enumerate(names)}
        self.__dict__.update(native=ffi.cast("void *", memory), _memory=memory, _flags=flags, _places=places)

    def __getattr__(self, name: str) -> bool:  # what is no attribute yet
        place = self._places.get(name)
        if place is None:
            raise AttributeError(name)
        return bool(self._flags[place])

    def __setattr__(self, name: str, value: object) -> None:
        self._flags[self._places[name]] = bool(value)


def _contents(element: Native, item: Native) -> Native:
    """Return an element of an array of structures as cffi wants it: not the pointer that `struct` gives."""
    is_structure = item.kind == "struct" and ffi.typeof(element).kind == "pointer"
    return element[0] if is_structure else element


def owned(maker: Callable[..., int], *args: Native, of: str) -> Native:
    """Return the handle, of a type such as ``VkBuffer``, that a function of Vulkan puts behind its last argument.

    Raises:
        Fault: The driver refused.
    """
    place = ffi.new(f"{of} *")
    check(maker(*args, place), f"making a {of}")
    return place[0]


def listed(of: str, function: Callable[..., int | None], *args: Native) -> list[Any]:
    """Return what a function of Vulkan lists, which is asked first how many there are: structures, or handles.

    Raises:
        Fault: The driver refused.
    """
    count = ffi.new("uint32_t *")
    code = _INCOMPLETE
    while code == _INCOMPLETE:
        check(function(*args, count, NULL) or 0, f"listing {of}")
        found = ffi.new(f"{of}[]", [struct(of)[0]] * count[0] if ffi.typeof(of).kind == "struct" else count[0])
        code = function(*args, count, found) or 0
    check(code, f"listing {of}")
    if ffi.typeof(of).kind != "struct":
        return [found[number] for number in range(count[0])]
    # An element of an array does not keep the array: what is returned has memory of its own.
    return [ffi.new(f"{of} *", found[number])[0] for number in range(count[0])]


def check(code: int, function: str) -> None:
    """Raise the `Fault` of a function of Vulkan, unless `code`, which it returned, is no error."""
    if code < _SUCCESS:
        raise CODES.fault(code, function)


def device_function(device: Native, name: str) -> Native:
    """Return a function of an extension of a device.

    Raises:
        Fault: The driver names the extension, and lacks the function.
    """
    address = lib.vkGetDeviceProcAddr(device, ffi.new("char[]", name.encode()))
    if address == NULL:
        raise CODES.fault(EXTENSION_NOT_PRESENT, f"vkGetDeviceProcAddr of {name}")
    return ffi.cast(f"PFN_{name}", address)
