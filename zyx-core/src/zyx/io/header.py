"""The header of a safetensors file: what is where.

    8 bytes     length n of the header, little endian
    n bytes     JSON: {"<name>": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...}, where
                "__metadata__" has texts, and offsets count from the end of the header
    the rest    the values

Files come from anywhere. The safetensors package judges first whether one is well formed; what it accepts, and why it
does not accept something, is looked at again here, to say which tensor is wrong and how, and because two things pass
there: names that come twice, and dtypes that we have not. Of these, numbers of 8 bits are read as float32.
"""

from __future__ import annotations

import itertools
import json
import math
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from safetensors import SafetensorError, safe_open

from zyx import dtype as dtypes
from zyx.errors import FormatError, TransferError
from zyx.io.float8 import FLOATS8

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from zyx.dtype import DType
    from zyx.shape import Shape

LENGTH_BYTES: Final = 8
#: What the safetensors package accepts.
_MOST_HEADER_BYTES: Final = 100_000_000
_METADATA: Final = "__metadata__"
#: Names that the format has for itself: no tensor can have them.
RESERVED: Final = frozenset({_METADATA})
_FIELDS: Final = {"dtype", "shape", "data_offsets"}

DTYPES: Final[dict[str, DType]] = {
    "BOOL": dtypes.bool_,
    "U8": dtypes.uint8,
    "I8": dtypes.int8,
    "U16": dtypes.uint16,
    "I16": dtypes.int16,
    "F16": dtypes.float16,
    "BF16": dtypes.bfloat16,
    "U32": dtypes.uint32,
    "I32": dtypes.int32,
    "F32": dtypes.float32,
    "U64": dtypes.uint64,
    "I64": dtypes.int64,
    "F64": dtypes.float64,
    "C64": dtypes.complex64,
}


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """A tensor in a file.

    Attributes:
        dtype: Its name in the file.
        shape: Sizes.
        begin: The first byte of its values in the file.
        nbytes: Bytes of its values.
    """

    dtype: str
    shape: Shape
    begin: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Header:
    """What is in a file.

    Attributes:
        entries: The tensors by name.
        metadata: What is said about them, by name; texts, in a safetensors file.
    """

    entries: dict[str, TensorEntry]
    metadata: dict[str, Any]


def read_header(path: str | os.PathLike[str]) -> Header:
    """Return the header of the file, checked.

    Raises:
        FormatError: The file is not well formed; the text has the file, the tensor and what is wrong.
        TransferError: It cannot be read.
    """
    refusal: SafetensorError | None = None
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):
            raise TransferError(f"{path} cannot be read: it is no plain file")  # for a pipe, one would wait
        with safe_open(path, framework="numpy"):  # checks everything but reads no values
            pass
    except SafetensorError as error:
        refusal = error
    except OSError as error:
        raise TransferError(f"{path} cannot be read: {error.strerror or error}") from error
    header = _parse(path)
    if refusal is not None:
        raise FormatError(f"{path}: {refusal}") from refusal
    return header


def _parse(path: str | os.PathLike[str]) -> Header:
    try:
        with Path(path).open("rb") as file:
            total = file.seek(0, 2)
            file.seek(0)
            length = int.from_bytes(file.read(LENGTH_BYTES), "little")
            if total < LENGTH_BYTES or length > min(total - LENGTH_BYTES, _MOST_HEADER_BYTES):
                raise FormatError(
                    f"{path}: the header would have {length} bytes, and the file has {total}; it is cut off, or no "
                    "safetensors file"
                )
            text = file.read(length)
    except OSError as error:
        raise TransferError(f"{path} cannot be read: {error.strerror}") from error
    try:
        found = json.loads(text, object_pairs_hook=Pairs)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: the header is no JSON: {error}") from error
    if not isinstance(found, Pairs):
        raise FormatError(f"{path}: the header is a {type(found).__name__}, not an object of tensors")
    start = LENGTH_BYTES + length
    entries: dict[str, TensorEntry] = {}
    metadata: dict[str, str] = {}
    for name, value in found:
        if name in entries or (name == _METADATA and metadata):
            raise FormatError(f"{path}: tensor {name!r} comes twice")
        if name == _METADATA:
            metadata = _texts(path, value)
        else:
            entries[name] = _entry(path, name, value, start, total)
    check_disjoint(path, entries)
    return Header(entries, metadata)


class Pairs(list[tuple[str, Any]]):
    """A JSON object as its pairs, in which a name may come twice."""


def _texts(path: str | os.PathLike[str], value: object) -> dict[str, str]:
    if not isinstance(value, Pairs) or not all(isinstance(text, str) for _, text in value):
        raise FormatError(f"{path}: {_METADATA} is not an object of texts")
    return dict(value)


def _entry(path: str | os.PathLike[str], name: str, value: object, start: int, total: int) -> TensorEntry:
    fields = dict(value) if isinstance(value, Pairs) else {}
    if fields.keys() != _FIELDS:
        raise _fault(path, name, "is not described by dtype, shape and data_offsets")
    dtype, shape, offsets = fields["dtype"], fields["shape"], fields["data_offsets"]
    if not isinstance(dtype, str):
        raise _fault(path, name, f"has {dtype!r} for a dtype")
    if not _are_counts(shape):
        raise _fault(path, name, f"has {shape!r} for a shape")
    if not _are_counts(offsets) or len(offsets) != 2 or not offsets[0] <= offsets[1]:
        raise _fault(path, name, f"has {offsets!r} for data_offsets")
    begin, nbytes = start + offsets[0], offsets[1] - offsets[0]
    if begin + nbytes > total:
        raise _fault(path, name, f"reaches to byte {begin + nbytes} of a file of {total} bytes; the file is cut off")
    itemsize = 1 if dtype in FLOATS8 else DTYPES[dtype].itemsize if dtype in DTYPES else None
    if itemsize is not None and math.prod(shape) * itemsize != nbytes:
        takes = math.prod(shape) * itemsize
        raise _fault(path, name, f"has {nbytes} bytes, and {dtype} of shape {tuple(shape)} takes {takes}")
    return TensorEntry(dtype, tuple(shape), begin, nbytes)


def _fault(path: str | os.PathLike[str], name: str, text: str) -> FormatError:
    return FormatError(f"{path}: tensor {name!r} {text}")


def _are_counts(value: object) -> bool:
    if not isinstance(value, list):
        return False
    for each in value:  # noqa: SIM110  # a file may have a million of them, and generators take three times as long
        if type(each) is not int or each < 0:  # True is no count
            return False
    return True


def check_disjoint(path: str | os.PathLike[str], entries: Mapping[str, TensorEntry]) -> None:
    """Raise a `FormatError` if two tensors have bytes in common."""
    occupied = sorted((entry.begin, entry.nbytes, name) for name, entry in entries.items() if entry.nbytes)
    for (begin, nbytes, first), (next_begin, _, second) in itertools.pairwise(occupied):
        if begin + nbytes > next_begin:
            raise FormatError(f"{path}: tensors {first!r} and {second!r} overlap at byte {next_begin}")
