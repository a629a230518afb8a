"""An assembler of SPIR-V: instructions as words, in the sections that the specification wants them in.

Types and constants are made once, when somebody first asks for them, so a module has none that nobody uses. What has no
result of its own (decorations, capabilities) is added when what needs it is.

    m = Module((1, 5))
    word = m.type("TypeInt", 32, 0)
    two = m.constant(word, 2)
    four = m.value("IAdd", word, two, two)
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, TypeAlias

from zyx_backend_vulkan.spirv_table import EXTENSIONS, GLSL, HEADER_WORDS, IMPLIED, INSTRUCTIONS, MAGIC, NAMES

if TYPE_CHECKING:
    from collections.abc import Iterable

#: What types and constants are known by: the instruction, and its operands.
Key: TypeAlias = "tuple[str | int, ...]"

#: Opcodes by name.
_OPCODES: Final = {name: instruction.opcode for name, instruction in INSTRUCTIONS.items()}
_STORAGE: Final = NAMES["StorageClass"]
_DECORATIONS: Final = NAMES["Decoration"]
_MODES: Final = NAMES["ExecutionMode"]
_WORD_BYTES: Final = 4
_GLSL_SET: Final = "GLSL.std.450"
#: From this version on, an entry point lists all variables outside of functions that it uses, before only inputs.
_LISTS_ALL: Final = (1, 4)


class Module:
    """A module with one entry point, while it is written.

    Attributes:
        version: Version of SPIR-V.
        start: Label of the first block.
        globals: Words of types, constants and variables.
        code: Words of the body of the function.
        first: Words of the body that come before `code`: what all of it may use.
    """

    def __init__(self, version: tuple[int, int]) -> None:
        self.version = version
        self.bound = 2
        self.start = 1
        self.globals: list[int] = []
        self.first: list[int] = []
        self.code: list[int] = []
        self._locals: list[int] = []
        self._decorations: list[int] = []
        self._capabilities: dict[str, None] = {"Shader": None}
        self._modes: dict[tuple[str, tuple[int, ...]], None] = {}
        self._interface: list[int] = []
        self._known: dict[Key, int] = {}
        self._glsl = 0

    def new(self) -> int:
        """Return an id that is not used yet."""
        self.bound += 1
        return self.bound - 1

    # ---- what is there once

    def type(self, name: str, *operands: int) -> int:
        """Return the type that an instruction makes of its operands."""
        key: Key = (name, *operands)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self.new()
            self.globals += instruction(name, found, *operands)
        return found

    def pointer(self, storage: str, type_: int) -> int:
        """Return the type of pointers to a type in memory of a storage class."""
        return self.type("TypePointer", _STORAGE[storage], type_)

    def struct(self, members: Iterable[int], offsets: Iterable[int], *decorations: str) -> int:
        """Return a block of `members` at offsets in bytes, each of which has `decorations`."""
        members, offsets = tuple(members), tuple(offsets)
        key: Key = ("struct", *members, *offsets, *decorations)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self.new()
            self.globals += instruction("TypeStruct", found, *members)
            self.decorate(found, "Block")
            for number, offset in enumerate(offsets):
                self.decorate_member(found, number, "Offset", offset)
                for decoration in decorations:
                    self.decorate_member(found, number, decoration)
        return found

    def runtime_array(self, type_: int, stride: int) -> int:
        """Return an array of elements of a type, `stride` bytes from one to the next, whose length a launch says."""
        key: Key = ("TypeRuntimeArray", type_)
        is_new = key not in self._known
        found = self.type("TypeRuntimeArray", type_)
        if is_new:
            self.decorate(found, "ArrayStride", stride)
        return found

    def constant(self, type_: int, *words: int) -> int:
        """Return the constant of a type of numbers that has the bits `words`, lowest first."""
        key: Key = ("Constant", type_, *words)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self.new()
            self.globals += instruction("Constant", type_, found, *words)
        return found

    def truth(self, type_: int, *, value: bool) -> int:
        """Return the constant true or false of the type of bools."""
        return self.constant_of("ConstantTrue" if value else "ConstantFalse", type_)

    def constant_of(self, name: str, type_: int, *parts: int) -> int:
        """Return the constant that an instruction makes of its operands, which are constants."""
        key: Key = (name, type_, *parts)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self.new()
            self.globals += instruction(name, type_, found, *parts)
        return found

    def specialised(self, type_: int, number: int, default: int) -> int:
        """Return a constant of one word that is told when a pipeline is made: the one of so many, and its default."""
        found = self.new()
        self.globals += instruction("SpecConstant", type_, found, default)
        self.decorate(found, "SpecId", number)
        return found

    # ---- what modules declare

    def require(self, capability: str) -> None:
        """Declare a capability, and those that it comes with."""
        for implied in IMPLIED.get(capability, ()):
            self._capabilities[implied] = None
        self._capabilities[capability] = None

    def mode(self, name: str, *operands: int) -> None:
        """Declare an execution mode of the entry point."""
        self._modes[name, operands] = None

    def decorate(self, target: int, name: str, *operands: int) -> None:
        """Decorate an id."""
        self._decorations += instruction("Decorate", target, _DECORATIONS[name], *operands)

    def decorate_member(self, target: int, member: int, name: str, *operands: int) -> None:
        """Decorate a member of a block."""
        self._decorations += instruction("MemberDecorate", target, member, _DECORATIONS[name], *operands)

    def variable(self, storage: str, type_: int) -> int:
        """Return a new variable of a type, outside of the function."""
        found = self.new()
        self.declared(storage, type_, found)
        return found

    def declared(self, storage: str, type_: int, found: int) -> None:
        """Declare the variable that an id, which may have been used, is."""
        self.globals += instruction("Variable", self.pointer(storage, type_), found, _STORAGE[storage])
        if storage == "Input" or self.version >= _LISTS_ALL:
            self._interface.append(found)

    def local(self, type_: int) -> int:
        """Return a new variable of the function."""
        found = self.new()
        self._locals += instruction("Variable", self.pointer("Function", type_), found, _STORAGE["Function"])
        return found

    # ---- code

    def do(self, name: str, *operands: int) -> None:
        """Add an instruction that has no result."""
        self.code.append(len(operands) + 1 << 16 | _OPCODES[name])
        self.code += operands

    def value(self, name: str, type_: int, *operands: int) -> int:
        """Add an instruction, and return its result, of `type_`."""
        found = self.bound
        self.bound += 1
        self.code += (len(operands) + 3 << 16 | _OPCODES[name], type_, found, *operands)
        return found

    def first_value(self, name: str, type_: int, *operands: int) -> int:
        """Add an instruction before all others, and return its result."""
        found = self.new()
        self.first += instruction(name, type_, found, *operands)
        return found

    def glsl(self, name: str, type_: int, *operands: int) -> int:
        """Add an instruction of GLSL.std.450, and return its result."""
        if not self._glsl:
            self._glsl = self.new()
        return self.value("ExtInst", type_, self._glsl, GLSL[name], *operands)

    def label(self, label: int) -> None:
        """Begin a block."""
        self.code += (2 << 16 | _OPCODES["Label"], label)

    # ---- the whole

    def words(self, name: str) -> bytes:
        """Return the module, whose entry point ``main`` is called `name` for people."""
        void = self.type("TypeVoid")
        signature = self.type("TypeFunction", void)
        main = self.new()
        uses_addresses = "PhysicalStorageBufferAddresses" in self._capabilities
        addressing = NAMES["AddressingModel"]["PhysicalStorageBuffer64" if uses_addresses else "Logical"]
        compute = NAMES["ExecutionModel"]["GLCompute"]
        parts: list[int] = []
        for capability in self._capabilities:
            parts += instruction("Capability", NAMES["Capability"][capability])
        for extension in self._extensions():
            parts += instruction("Extension", *text(extension))
        if self._glsl:
            parts += instruction("ExtInstImport", self._glsl, *text(_GLSL_SET))
        model = "Vulkan" if "VulkanMemoryModel" in self._capabilities else "GLSL450"
        parts += instruction("MemoryModel", addressing, NAMES["MemoryModel"][model])
        parts += instruction("EntryPoint", compute, main, *text("main"), *self._interface)
        for mode, operands in self._modes:
            parts += instruction("ExecutionMode", main, _MODES[mode], *operands)
        parts += instruction("Name", main, *text(name))
        parts += self._decorations
        parts += self.globals
        parts += instruction("Function", void, main, NAMES["FunctionControl"]["None"], signature)
        parts += instruction("Label", self.start)
        parts += self._locals
        parts += self.first
        parts += self.code
        parts += instruction("Return")
        parts += instruction("FunctionEnd")
        major, minor = self.version
        header = (MAGIC, major << 16 | minor << 8, 0, self.bound, 0)
        assert len(header) == HEADER_WORDS
        return struct.pack(f"<{HEADER_WORDS + len(parts)}I", *header, *parts)

    def _extensions(self) -> list[str]:
        """Return the extensions of the capabilities that the version does not have by itself."""
        found = (EXTENSIONS[capability] for capability in self._capabilities if capability in EXTENSIONS)
        return list(dict.fromkeys(name for since, name in found if self.version < since))


def instruction(name: str, *operands: int) -> tuple[int, ...]:
    """Return the words of an instruction."""
    return (len(operands) + 1 << 16 | _OPCODES[name], *operands)


def text(value: str) -> tuple[int, ...]:
    """Return the words of a string, which ends with a zero byte, filled up with zeros."""
    data = value.encode() + b"\0"
    data += bytes(-len(data) % _WORD_BYTES)
    return struct.unpack(f"<{len(data) // _WORD_BYTES}I", data)
