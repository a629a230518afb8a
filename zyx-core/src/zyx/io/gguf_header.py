"""The header of a GGUF file: what is where, and what is said about it. Numbers are little endian.

    GGUF, version 2 or 3 : u32, number of tensors : u64, number of keys : u64
    for each key        name, kind : u32, value
    for each tensor     name, number of axes : u32, sizes : u64, the fastest axis first, type : u32, offset : u64
    the rest            the values; offsets count from the first multiple of general.alignment, or of 32

A text is its length, u64, and UTF-8; a list is the kind of its values, u32, their number, u64, and the values. Every
length is compared with what is left of the file before anything is made of it.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import numpy as np

from zyx import dtype as dtypes
from zyx.errors import FormatError, TransferError
from zyx.io.header import Header, TensorEntry, check_disjoint
from zyx.quantize.layouts import GGUF

if TYPE_CHECKING:
    import os

    from zyx.dtype import DType

MAGIC: Final = b"GGUF"
VERSION: Final = 3
ALIGNMENT: Final = 32
ALIGNMENT_KEY: Final = "general.alignment"
MOST_AXES: Final = 4

#: NumPy's names of the kinds of values, and the two that have a length.
KINDS: Final = {
    "uint8": 0, "int8": 1, "uint16": 2, "int16": 3, "uint32": 4, "int32": 5, "float32": 6, "bool": 7, "uint64": 10,
    "int64": 11, "float64": 12,
}  # fmt: skip
TEXT: Final = 8
LIST: Final = 9
#: Bytes of the length of a text.
_LENGTH_BYTES: Final = 8
_NAMES: Final = {kind: name for name, kind in KINDS.items()}

#: The types whose numbers stand for themselves.
PLAIN: Final[dict[str, tuple[int, DType]]] = {
    "F32": (0, dtypes.float32),
    "F16": (1, dtypes.float16),
    "I8": (24, dtypes.int8),
    "I16": (25, dtypes.int16),
    "I32": (26, dtypes.int32),
    "I64": (27, dtypes.int64),
    "F64": (28, dtypes.float64),
    "BF16": (30, dtypes.bfloat16),
}
#: What is known by name only.
_OTHERS: Final = {
    9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S",
    20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4",
}  # fmt: skip
_TYPES: Final = (
    {code: name for name, (code, _) in PLAIN.items()} | {each.code: name for name, each in GGUF.items()} | _OTHERS
)


def read_gguf_header(path: str | os.PathLike[str]) -> Header:
    """Return the header of the file, checked. Sizes are in row-major order, the fastest axis last.

    Raises:
        FormatError: The file is not well formed; the text has the file, the tensor or key, and what is wrong.
        TransferError: It cannot be read.
    """
    try:
        with Path(path).open("rb") as file:
            return _Reader(path, file).header()
    except OSError as error:
        if isinstance(error, TransferError):
            raise
        raise TransferError(f"{path} cannot be read: {error.strerror or error}") from error


class _Reader:
    def __init__(self, path: str | os.PathLike[str], file: IO[bytes]) -> None:
        self.path = path
        self.file = file
        self.total = file.seek(0, 2)
        self.at = file.seek(0)

    def header(self) -> Header:
        """Read all of it."""
        if self.take(4, "a magic number") != MAGIC:
            raise self.fault("is no GGUF file: it does not begin with GGUF")
        version = self.number("I")
        if version not in {2, VERSION}:
            order = "; it is big endian" if version in {2 << 24, VERSION << 24} else ""
            raise self.fault(f"has version {version} of GGUF{order}; 2 and {VERSION} are read")
        tensors, keys = self.number("Q"), self.number("Q")
        self.check(tensors * 24 + keys * 13, f"{tensors} tensors and {keys} keys")
        metadata: dict[str, Any] = {}
        for _ in range(keys):
            name = self.text("a key")
            if name in metadata:
                raise self.fault(f"has key {name!r:.200} twice")
            metadata[name] = self.value(self.number("I"), f"key {name!r:.200}")
        described = [self.tensor() for _ in range(tensors)]
        alignment = metadata.get(ALIGNMENT_KEY, ALIGNMENT)
        if type(alignment) is not int or alignment < 1 or alignment & (alignment - 1):
            raise self.fault(f"has {alignment!r:.200} for {ALIGNMENT_KEY}, which is a power of two")
        start = -(-self.at // alignment) * alignment
        entries: dict[str, TensorEntry] = {}
        for name, kind, shape, offset in described:
            if name in entries:
                raise self.fault(f"has tensor {name!r:.200} twice")
            entries[name] = self.entry(name, kind, shape, start, offset)
        check_disjoint(self.path, entries)
        return Header(entries, metadata)

    def tensor(self) -> tuple[str, str, tuple[int, ...], int]:
        """Return name, type, shape and offset of the next tensor."""
        name = self.text("the name of a tensor")
        axes = self.number("I")
        if axes > MOST_AXES:
            raise self.fault(f"has tensor {name!r:.200} of {axes} axes, and GGUF has at most {MOST_AXES}")
        shape = tuple(self.number("Q") for _ in range(axes))[::-1]
        code = self.number("I")
        if code not in _TYPES:
            raise self.fault(f"has tensor {name!r:.200} of type {code}; there are {', '.join((*PLAIN, *GGUF))}")
        return name, _TYPES[code], shape, self.number("Q")

    def entry(self, name: str, kind: str, shape: tuple[int, ...], start: int, offset: int) -> TensorEntry:
        """Return where a tensor lies, which has to be in the file."""
        begin = start + offset
        if kind in PLAIN:
            nbytes = math.prod(shape) * PLAIN[kind][1].itemsize
        elif kind in GGUF:
            block = GGUF[kind]
            if not shape or shape[-1] % block.count:
                raise self.fault(
                    f"has tensor {name!r:.200} of shape {shape}, whose rows are no whole number of blocks of "
                    f"{block.count}, which {kind} has"
                )
            nbytes = math.prod(shape) // block.count * block.nbytes
        else:
            nbytes = 0  # of a type of which the name is all that is known
        if begin + nbytes > self.total:
            raise self.fault(
                f"has tensor {name!r:.200}, which reaches to byte {begin + nbytes} of {self.total}; the file is cut off"
            )
        return TensorEntry(kind, shape, begin, nbytes)

    def value(self, kind: int, what: str, depth: int = 0) -> Any:  # noqa: ANN401  # what the file says
        """Return a value, or a list of values."""
        if kind == TEXT:
            return self.text(what)
        if kind == LIST:
            if depth > 1:
                raise self.fault(f"has lists of lists of lists for {what}")
            inner, count = self.number("I"), self.number("Q")
            if inner in _NAMES:
                return self.numbers(inner, count, what)
            self.check(count * (8 if inner == TEXT else 12), f"{count} values of {what}")
            if inner == TEXT:
                return self.texts(count, what)
            return [self.value(inner, what, depth + 1) for _ in range(count)]
        if kind not in _NAMES:
            raise self.fault(f"has a value of kind {kind} for {what}; there are 0 to 12")
        return self.numbers(kind, 1, what)[0]

    def numbers(self, kind: int, count: int, what: str) -> list[Any]:
        """Return so many numbers of a kind."""
        dtype = np.dtype("uint8" if _NAMES[kind] == "bool" else _NAMES[kind]).newbyteorder("<")
        found = np.frombuffer(self.take(count * dtype.itemsize, what), dtype).tolist()
        if _NAMES[kind] == "bool" and any(each > 1 for each in found):
            raise self.fault(f"has {max(found)} for a bool of {what}")
        return [bool(each) for each in found] if _NAMES[kind] == "bool" else found

    def text(self, what: str) -> str:
        """Return the next text."""
        try:
            return self.take(self.number("Q"), what).decode()
        except UnicodeDecodeError as error:
            raise self.fault(f"has no UTF-8 for {what}") from error

    def texts(self, count: int, what: str) -> list[str]:
        """Return the next texts: without a call for each, since a vocabulary has some hundred thousand of them."""
        read, total, at = self.file.read, self.total, self.at
        found: list[bytes] = []
        for _ in range(count):
            length = int.from_bytes(read(_LENGTH_BYTES), "little")
            data = read(length) if length <= total - at - _LENGTH_BYTES else b""
            if len(data) < length or at + _LENGTH_BYTES > total:
                self.file.seek(self.at)
                return [self.text(what) for _ in range(count)]  # one by one: that says what is wrong
            at += _LENGTH_BYTES + length
            found.append(data)
        self.at = at
        try:
            return [data.decode() for data in found]
        except UnicodeDecodeError as error:
            raise self.fault(f"has no UTF-8 for {what}") from error

    def number(self, code: str) -> int:
        """Return the next integer."""
        found: int = struct.unpack(f"<{code}", self.take(struct.calcsize(code), "a number"))[0]
        return found

    def take(self, count: int, what: str) -> bytes:
        """Return the next bytes."""
        self.check(count, what)
        data = self.file.read(count)
        if len(data) < count:
            raise self.fault(f"ended at byte {self.at + len(data)} of {self.total}")
        self.at += count
        return data

    def check(self, count: int, what: str) -> None:
        """Raise an error unless so many bytes are left."""
        if count > self.total - self.at:
            raise self.fault(
                f"is cut off: {what} at byte {self.at} would take {count} bytes, and {self.total - self.at} are left"
            )

    def fault(self, text: str) -> FormatError:
        """Return an error about the file."""
        return FormatError(f"{self.path} {text}")
