"""Modules of SPIR-V as text, for people.

    %7 = OpTypeFloat 32
    %31 = OpAccessChain %9 %12 %8 %29

Results are ``%`` and their number; what operands are is known from the table that the assembler reads, so an
instruction that it does not have is written by its opcode and its words.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from zyx_backend_vulkan.spirv_table import (
    BITS,
    EXTENDED,
    GLSL,
    HEADER_WORDS,
    ID,
    INSTRUCTIONS,
    MAGIC,
    NAMES,
    NUMBER,
    RESULT,
    TEXT,
    TYPE,
    count_fits,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_BY_OPCODE: Final = {instruction.opcode: (name, instruction) for name, instruction in INSTRUCTIONS.items()}
_BY_NUMBER: Final = {kind: {number: name for name, number in names.items()} for kind, names in NAMES.items()}
_GLSL_NAMES: Final = {number: name for name, number in GLSL.items()}
#: So many columns are left for results, so that instructions stand below each other.
_INDENT: Final = 12
_WORD_BYTES: Final = 4


def disassembly(words: bytes) -> str:
    """Return the text of a module: little endian words of 32 bits.

    Raises:
        ValueError: These are no words of a module, or an instruction has more words or fewer than it may.
    """
    found = struct.unpack(f"<{len(words) // _WORD_BYTES}I", words[: len(words) // _WORD_BYTES * _WORD_BYTES])
    if len(words) % _WORD_BYTES or len(found) < HEADER_WORDS or found[0] != MAGIC:
        raise ValueError(f"{len(words)} bytes that do not begin as a module of SPIR-V does")
    version = f"{found[1] >> 16 & 255}.{found[1] >> 8 & 255}"
    lines = [f"; SPIR-V {version}, ids below {found[3]}"]
    reader = _Reader()
    lines += [reader.line(opcode, operands) for opcode, operands in instructions(found)]
    return "\n".join(lines) + "\n"


def instructions(words: Sequence[int]) -> Iterator[tuple[int, Sequence[int]]]:
    """Yield the opcode and the operands of each instruction of a module.

    Raises:
        ValueError: An instruction has more words or fewer than it may, or reaches beyond the end.
    """
    at = HEADER_WORDS
    while at < len(words):
        count, opcode = words[at] >> 16, words[at] & 0xFFFF
        name, known = _BY_OPCODE.get(opcode, (str(opcode), None))
        if not 0 < count <= len(words) - at or (known is not None and not count_fits(known, count)):
            raise ValueError(f"Op{name} at word {at} has {count} words, of {len(words) - at} that are left")
        yield opcode, words[at + 1 : at + count]
        at += count


class _Reader:
    """Reads instructions one after the other.

    Attributes:
        numbers: The types of numbers so far: ``u`` or ``f``, and the bits.
    """

    def __init__(self) -> None:
        self.numbers: dict[int, tuple[str, int]] = {}

    def line(self, opcode: int, operands: Sequence[int]) -> str:
        """Return the text of an instruction."""
        name, known = _BY_OPCODE.get(opcode, (f"<{opcode}>", None))
        if known is None:
            return " " * _INDENT + " ".join((f"Op{name}", *map(str, operands)))
        if name in ("TypeInt", "TypeFloat"):
            self.numbers[operands[0]] = ("f" if name == "TypeFloat" else "u"), operands[1]
        result, shown = "", []
        rest = list(operands)
        type_ = operands[0] if known.operands[:1] == (TYPE,) else 0
        for kind in known.operands:
            bare = kind.rstrip("?*")
            if bare == RESULT:
                result = f"%{rest.pop(0)} = "
            elif bare == TEXT:
                text, rest = _text(rest)
                shown.append(text)
            elif bare == BITS:
                shown.append(self._number(type_, rest))
                rest = []
            elif kind[-1] == "*":
                is_builtin = shown and shown[-1] == "BuiltIn"
                shown += [_operand("BuiltIn" if is_builtin else bare, word) for word in rest]
                rest = []
            elif rest:
                shown.append(_operand(bare, rest.pop(0)))
        return f"{result:>{_INDENT}}" + " ".join((f"Op{name}", *shown))

    def _number(self, type_: int, words: Sequence[int]) -> str:
        """Return a constant."""
        kind, bits = self.numbers.get(type_, ("u", 32))
        value = sum(word << 32 * place for place, word in enumerate(words))
        if kind == "u":
            return str(value)
        packed = value.to_bytes(bits // 8, "little")
        return str(struct.unpack({16: "<e", 32: "<f", 64: "<d"}[bits], packed)[0])


def _operand(kind: str, word: int) -> str:
    if kind in (ID, TYPE):
        return f"%{word}"
    if kind == NUMBER:
        return str(word)
    names = _GLSL_NAMES if kind == EXTENDED else _BY_NUMBER[kind]
    return names.get(word, str(word))


def _text(words: list[int]) -> tuple[str, list[int]]:
    """Return the string that words begin with, in quotes, and what is behind it."""
    data = struct.pack(f"<{len(words)}I", *words)
    end = data.index(b"\0")
    return f'"{data[:end].decode()}"', words[end // _WORD_BYTES + 1 :]
