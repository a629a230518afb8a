"""Tensors in files of ONNX: every length is checked before memory is taken, and no file outside of the model's folder.

raw_data        little endian, in row-major order; numbers of 4 bits two a byte, the first in the low half
float_data ..   the same numbers, one an entry; 16 bits and fewer in int32_data, as their bits
external_data   a file beside the model: location, offset, length
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from onnx import TensorProto

from zyx.errors import FormatError, TransferError
from zyx.io.onnx.values import numpy_dtype

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.functions.operands import Array

_BITS: Final = {"int4": 4, "uint4": 4, "float4_e2m1fn": 4, "int2": 2, "uint2": 2}
#: The field of a tensor that has its numbers, where they are not raw, but for what is in ``int32_data``.
_FIELDS: Final[dict[int, str]] = {
    TensorProto.FLOAT: "float_data",
    TensorProto.COMPLEX64: "float_data",
    TensorProto.DOUBLE: "double_data",
    TensorProto.COMPLEX128: "double_data",
    TensorProto.INT64: "int64_data",
    TensorProto.UINT32: "uint64_data",
    TensorProto.UINT64: "uint64_data",
    TensorProto.STRING: "string_data",
}
_MOST_AXES: Final = 64


def bits_of(dtype: np.dtype[Any]) -> int:
    """Return how many bits of a file a number takes."""
    return _BITS.get(dtype.name, dtype.itemsize * 8)


def read_tensor(proto: TensorProto, folder: Path | None) -> Array:
    """Return the numbers of a tensor as NumPy's array, texts as an array of objects.

    Args:
        proto: What the file says of it.
        folder: Where the model lies, for numbers in files beside it; None for a model that is no file.

    Raises:
        FormatError: An unknown dtype, sizes that are no sizes, or another number of values than they ask for; numbers
            in a file outside of `folder`, or behind its end.
        TransferError: Such a file cannot be read.
    """
    what = f"tensor {proto.name!r}"
    dtype, shape = numpy_dtype(proto.data_type, what), tuple(proto.dims)
    if len(shape) > _MOST_AXES or any(size < 0 for size in shape):
        raise FormatError(f"{what}: shape {shape}; sizes are at least 0, and axes at most {_MOST_AXES}")
    if proto.HasField("segment"):
        raise FormatError(f"{what} is in segments, which no writer makes; save it as a whole")
    count = math.prod(shape)
    if proto.data_location == TensorProto.EXTERNAL:
        if folder is None:
            raise FormatError(f"{what} lies in a file beside the model: load the model from its path")
        return unpack(_read_external(proto, folder, bytes_for(count, dtype), what), dtype, count, what).reshape(shape)
    if proto.HasField("raw_data"):
        return unpack(proto.raw_data, dtype, count, what).reshape(shape)
    return _listed(proto, dtype, count, what).reshape(shape)


def bytes_for(count: int, dtype: np.dtype[Any]) -> int:
    """Return how many bytes of a file `count` numbers take."""
    return -(-count * bits_of(dtype) // 8)


def unpack(raw: bytes, dtype: np.dtype[Any], count: int, what: str) -> Array:
    """Return `count` numbers of their bytes, as a vector.

    Raises:
        FormatError: There are more or fewer bytes.
    """
    if dtype.hasobject:
        raise FormatError(f"{what}: texts cannot be raw data")
    if len(raw) != bytes_for(count, dtype):
        raise FormatError(f"{what}: {count} numbers of {dtype} take {bytes_for(count, dtype)} bytes; it has {len(raw)}")
    bits = bits_of(dtype)
    if bits >= 8:
        return np.frombuffer(raw, dtype.newbyteorder("<")).astype(dtype)
    packed = np.frombuffer(raw, np.uint8)
    parts = [(packed >> shift) & (2**bits - 1) for shift in range(0, 8, bits)]
    return _of_bits(np.stack(parts, -1).reshape(-1)[:count], dtype)


def _of_bits(codes: Array, dtype: np.dtype[Any]) -> Array:
    """Return numbers of fewer than 8 bits by their bits, one a byte."""
    bits = bits_of(dtype)
    if dtype.name.startswith("float"):
        return codes.astype(np.uint8).view(dtype)
    numbers = codes.astype(np.int8)
    if dtype.name.startswith("int"):
        numbers = np.where(numbers >= 2 ** (bits - 1), numbers - 2**bits, numbers).astype(np.int8)
    return numbers.astype(dtype)


def _listed(proto: TensorProto, dtype: np.dtype[Any], count: int, what: str) -> Array:
    field = _FIELDS.get(proto.data_type, "int32_data")
    listed: Sequence[Any] = getattr(proto, field)
    bits = bits_of(dtype)
    entries = -(-count * bits // 8) if bits < 8 else count * (2 if dtype.kind == "c" else 1)
    if len(listed) != entries:
        raise FormatError(f"{what}: its shape asks for {entries} entries of {field}, it has {len(listed)}")
    if dtype.hasobject:
        texts = np.empty(count, object)
        texts[:] = [text.decode("utf-8") for text in listed]
        return texts
    if bits < 8:
        return unpack(bytes(np.asarray(listed, np.int32).astype(np.uint8)), dtype, count, what)
    if field == "int32_data" and dtype.kind not in "iub":
        return np.asarray(listed, np.int32).astype(f"<u{dtype.itemsize}").view(dtype)
    if dtype.kind == "c":
        return np.asarray(listed, f"<f{dtype.itemsize // 2}").view(dtype)
    return np.asarray(listed).astype(dtype)


def _read_external(proto: TensorProto, folder: Path, size_bytes: int, what: str) -> bytes:
    keys = {entry.key: entry.value for entry in proto.external_data}
    location = keys.get("location", "")
    root = folder.resolve()
    path = (root / location).resolve()
    if not location or Path(location).is_absolute() or root not in path.parents:
        raise FormatError(f"{what}: its numbers are in {location!r}, which is no file in the folder of the model")
    try:
        offset, length = int(keys.get("offset", 0)), int(keys.get("length", size_bytes))
    except ValueError:
        raise FormatError(f"{what}: offset and length of external data are numbers, not {keys}") from None
    try:
        there = path.stat().st_size
        if not path.is_file():
            raise FormatError(f"{what}: {location!r} is no regular file")
        if length != size_bytes or offset < 0 or offset + length > there:
            raise FormatError(
                f"{what} takes {size_bytes} bytes; {length} bytes at {offset} of {location!r}, which has {there}, "
                "are not those"
            )
        with path.open("rb") as file:
            file.seek(offset)
            raw: bytes = file.read(length)
    except OSError as error:
        raise TransferError(f"{what}: {path} cannot be read: {error}") from error
    if len(raw) != length:
        raise FormatError(f"{what}: {location!r} became shorter while it was read")
    return raw
