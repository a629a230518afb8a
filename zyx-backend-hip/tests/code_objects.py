"""Code objects of AMD's processors, as far as the tests look into them: ELF files, with a descriptor for each kernel.

The numbers are those of LLVM's "User Guide for AMDGPU Backend", Code Object and Kernel Descriptor.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: EF_AMDGPU_MACH of each architecture, and the threads of a wave there.
MACHINES: Final = {"gfx90a": 0x3F, "gfx942": 0x4C, "gfx1100": 0x41, "gfx1201": 0x4E}
WAVES: Final = {"gfx90a": 64, "gfx942": 64, "gfx1100": 32, "gfx1201": 32}

_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_SHARED_OBJECT: Final = 3
_AMDGPU: Final = 224
_EXPORTED: Final = 11  # SHT_DYNSYM
_FUNCTION: Final = 2
_DESCRIPTOR_BYTES: Final = 64
_WAVES_OF_32: Final = 1 << 10


@dataclass(frozen=True)
class CodeObject:
    """What a code object has.

    Attributes:
        machine: EF_AMDGPU_MACH of what it is for.
        kernels: The threads of a wave of each kernel that can be launched: that has code and a descriptor.
        missing: Names that it needs and does not have.
    """

    machine: int
    kernels: Mapping[str, int]
    missing: tuple[str, ...]


@dataclass(frozen=True)
class _Section:
    kind: int
    address: int
    offset: int
    size: int
    link: int


def read_code_object(code: bytes) -> CodeObject:
    """Return what is in a linked code object. Raises `ValueError` if it is none."""
    if code[:6] != b"\x7fELF\x02\x01":
        raise ValueError("it is no ELF file of 64 bits, lowest byte first")
    _, kind, machine, _, _, _, sections_at, flags, _, _, _, size, count, _ = _HEADER.unpack_from(code)
    if (kind, machine) != (_SHARED_OBJECT, _AMDGPU):
        raise ValueError(f"it is no linked code object, but ELF type {kind} for machine {machine}")
    sections = []
    for number in range(count):
        _, kind, _, address, offset, nbytes, link, *_ = _SECTION.unpack_from(code, sections_at + number * size)
        sections.append(_Section(kind, address, offset, nbytes, link))
    functions, descriptors, missing = set(), {}, []
    for name, info, place, address, nbytes in _exported(code, sections):
        if not place:
            missing.append(name)
        elif name.endswith(".kd") and nbytes == _DESCRIPTOR_BYTES:
            at = sections[place].offset + address - sections[place].address
            (properties,) = struct.unpack_from("<H", code, at + 56)
            descriptors[name.removesuffix(".kd")] = 32 if properties & _WAVES_OF_32 else 64
        elif info & 15 == _FUNCTION and nbytes:
            functions.add(name)
    kernels = {name: wave for name, wave in descriptors.items() if name in functions}
    return CodeObject(flags & 0xFF, kernels, tuple(missing))


def _exported(code: bytes, sections: list[_Section]) -> Iterator[tuple[str, int, int, int, int]]:
    """Yield name, kind, section, address and size of each symbol that a loader sees; section 0 is nowhere."""
    for section in sections:
        if section.kind != _EXPORTED:
            continue
        names = sections[section.link].offset
        for at in range(section.offset + _SYMBOL.size, section.offset + section.size, _SYMBOL.size):
            start, info, _, place, address, nbytes = _SYMBOL.unpack_from(code, at)
            end = code.index(b"\0", names + start)
            yield code[names + start : end].decode(), info, place, address, nbytes
