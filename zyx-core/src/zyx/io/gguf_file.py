"""Files of the GGUF format: tensors by name, of which most are in blocks of few bits a number, and what they are."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zyx import dtype as dtypes
from zyx.dtype import as_dtype
from zyx.errors import DTypeError, FormatError
from zyx.functions.operands import is_tensor
from zyx.io.gguf_header import (
    ALIGNMENT,
    ALIGNMENT_KEY,
    KINDS,
    LIST,
    MAGIC,
    MOST_AXES,
    PLAIN,
    TEXT,
    VERSION,
    read_gguf_header,
)
from zyx.io.numpy_file import check_host
from zyx.io.replacing import replacing
from zyx.quantize.layouts import GGUF, layout_for
from zyx.quantize.packed import QuantizedTensor
from zyx.runtime.lazy import file_of, leaf_of_file
from zyx.runtime.runtime import current
from zyx.tensor.tensor import Tensor

if TYPE_CHECKING:
    import os
    from collections.abc import Collection

    from zyx.functions.operands import Array
    from zyx.io.header import TensorEntry
    from zyx.shape import Shape

_CODES: Final = {dtype: code for code, dtype in PLAIN.values()}


def load_gguf(
    path: str | os.PathLike[str],
    names: Collection[str] | None = None,
    device: str | None = None,
    *,
    packed: bool = False,
) -> dict[str, Any]:
    """Return the tensors in a file by name, in the order of the file, without reading their values; see `zyx.io.load`.

    Tensors have the shapes that the file says.

    Args:
        path: The file. It must stay as it is until the values were used.
        names: Which tensors to return; None means all.
        device: Where they are used; the default device if None.
        packed: Whether numbers in blocks stay so, as `zyx.quantize.QuantizedTensor`; otherwise they are tensors of
            float32, computed out of the blocks, on the device, whenever they are needed.

    Raises:
        FormatError: The file is not well formed, one of `names` is missing, or a tensor has a type that is not read.
        TransferError: The file cannot be read.
        UnsupportedError: This machine stores numbers most significant byte first.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     zyx.io.save_gguf(f"{folder}/x.gguf", {"x": zyx.arange(3.0)})
    ...     zyx.io.load_gguf(f"{folder}/x.gguf")["x"].tolist()
    [0.0, 1.0, 2.0]
    """
    check_host(path)
    runtime = current()
    file = file_of(runtime, path)
    header = read_gguf_header(path)
    missing = [name for name in names or () if name not in header.entries]
    if missing:
        raise FormatError(f"{path} has no tensor {', '.join(map(repr, missing))}; it has {', '.join(header.entries)}")
    place = runtime.default_device if device is None else runtime.device_name(device)

    def leaf(entry: TensorEntry, shape: Shape, dtype: dtypes.DType) -> Tensor:
        return Tensor.of(leaf_of_file(runtime, file, entry.begin, shape, dtype, place), runtime)

    found: dict[str, Any] = {}
    wanted = header.entries if names is None else set(names)
    for name, entry in header.entries.items():
        if name not in wanted:
            continue
        if entry.dtype in PLAIN:
            found[name] = leaf(entry, entry.shape, PLAIN[entry.dtype][1])
        elif entry.dtype in GGUF:
            block = layout_for(entry.dtype, entry.shape[-1])
            stored = (*entry.shape[:-1], entry.shape[-1] // block.count * block.nbytes)
            blocks = QuantizedTensor(leaf(entry, stored, dtypes.uint8), entry.dtype)
            found[name] = blocks if packed else blocks.dequantize()
        else:
            raise FormatError(
                f"{path}: tensor {name!r} has type {entry.dtype}; there are {', '.join((*PLAIN, *GGUF))}. "
                "Others can be loaded without it, by `names`"
            )
    return found


def save_gguf(
    path: str | os.PathLike[str], tensors: Mapping[str, object], metadata: Mapping[str, object] | None = None
) -> None:
    """Write tensors to a file of version 3, which is replaced as a whole as `zyx.io.save` does.

    Args:
        path: The file.
        tensors: Tensors or arrays of at most 4 axes, or packed tensors, by name.
        metadata: Texts, numbers, bools and lists of one of these, by name. Integers are written as uint32 or int32
            where that is enough, and lists of them as int32 or uint32, which is what llama.cpp takes; floats as float32
            where that is exact; numbers of NumPy as what they are.

    Raises:
        DTypeError: No tensor, of a dtype that the format lacks, such as bool, or metadata of another kind.
        FormatError: Too many axes, a name that is not text, or an alignment that is no power of two.
        TransferError: The file cannot be written.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     zyx.io.save_gguf(f"{folder}/x.gguf", {"x": zyx.arange(3.0)})
    ...     zyx.io.load_gguf(f"{folder}/x.gguf")["x"].tolist()
    [0.0, 1.0, 2.0]
    """
    if not isinstance(tensors, Mapping):
        raise DTypeError(f"tensors are saved by name, as a dict, not a {type(tensors).__name__}")
    if metadata is not None and not isinstance(metadata, Mapping):
        raise DTypeError(f"metadata are values by name, not a {type(metadata).__name__}")
    alignment = (metadata or {}).get(ALIGNMENT_KEY, ALIGNMENT)
    if not isinstance(alignment, int) or not 1 <= alignment < 2**31 or alignment & (alignment - 1):
        raise FormatError(f"{ALIGNMENT_KEY} is {alignment!r}, and has to be a power of two below 2**31")
    said = b"".join(_text(name, "a key") + _typed(value, f"key {name!r}") for name, value in (metadata or {}).items())
    stored = _stored(tensors)
    listed, at = b"", 0
    for name, (code, shape, array) in stored.items():
        sizes = struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        listed += _text(name, "the name of a tensor") + sizes + struct.pack("<IQ", code, at)
        at += _padded(array.nbytes, alignment)
    start = MAGIC + struct.pack("<IQQ", VERSION, len(stored), len(metadata or {})) + said + listed
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write(start.ljust(_padded(len(start), alignment), b"\0"))
        for _, _, array in stored.values():
            file.write(array.reshape(-1).view(np.uint8).data)
            file.write(bytes(_padded(array.nbytes, alignment) - array.nbytes))


def _padded(nbytes: int, alignment: int) -> int:
    return -(-nbytes // alignment) * alignment


def _stored(tensors: Mapping[str, object]) -> dict[str, tuple[int, Shape, Array]]:
    """Return code, shape and values of each, computed together and brought to the host."""
    data = {name: value.data if isinstance(value, QuantizedTensor) else value for name, value in tensors.items()}
    given = [value for value in data.values() if is_tensor(value)]
    if given:
        given[0].runtime.realize(given)
    stored: dict[str, tuple[int, Shape, Array]] = {}
    for name, value in data.items():
        if not is_tensor(value) and not isinstance(value, np.ndarray):
            raise DTypeError(f"{name!r} is a {type(value).__name__}, not a tensor, an array or blocks")
        array: Array = np.asarray(value.numpy() if is_tensor(value) else value)
        code = _CODES.get(as_dtype(array.dtype))
        shape = array.shape
        if isinstance(whole := tensors[name], QuantizedTensor):
            if whole.format not in GGUF:
                raise FormatError(f"{name!r} is packed as {whole.format}, which GGUF lacks; it has {', '.join(GGUF)}")
            code, shape = GGUF[whole.format].code, whole.shape
        if code is None:
            raise DTypeError(f"{name!r} is {array.dtype}, which GGUF lacks; it has {', '.join(map(str, _CODES))}")
        if len(shape) > MOST_AXES:
            raise FormatError(f"{name!r} has shape {shape}, and tensors of a GGUF file have at most {MOST_AXES} axes")
        stored[name] = (code, shape, np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False)))
    return stored


def _text(text: object, what: str) -> bytes:
    if not isinstance(text, str):
        raise DTypeError(f"{what} is a text, not {text!r:.200}")
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise FormatError(f"{what} is {text!r:.200}, which cannot be written as UTF-8: {error.reason}") from error
    return struct.pack("<Q", len(data)) + data


def _typed(value: object, what: str) -> bytes:
    """Return a value behind its kind."""
    if isinstance(value, str):
        return struct.pack("<I", TEXT) + _text(value, what)
    if isinstance(value, list | tuple) and value and all(isinstance(each, str) for each in value):
        return struct.pack("<IIQ", LIST, TEXT, len(value)) + b"".join(_text(each, what) for each in value)
    numbers = _numbers(value, what)
    data = numbers.astype(numbers.dtype.newbyteorder("<")).tobytes()
    kind = KINDS[numbers.dtype.name]
    if numbers.ndim:
        return struct.pack("<IIQ", LIST, kind, len(numbers)) + data
    return struct.pack("<I", kind) + data


def _numbers(value: object, what: str) -> Array:
    """Return a number, or a row of them, in the smallest dtype of those that readers expect."""
    try:
        found: Array = np.asarray(value, dtype=np.uint32 if isinstance(value, list | tuple) and not value else None)
    except (ValueError, TypeError, OverflowError) as error:
        raise DTypeError(f"{what} is {value!r:.200}, not a number, a text or a list of these: {error}") from error
    if found.dtype.name not in KINDS or found.ndim > 1:
        raise DTypeError(f"{what} is {value!r:.200}, not a number, a text or a list of these")
    if isinstance(value, np.ndarray | np.generic) or found.dtype.kind == "b":
        return found
    if found.dtype.kind == "f":
        with np.errstate(over="ignore"):
            short = found.astype(np.float32)
        return short if np.array_equal(short, found, equal_nan=True) else found
    for dtype in (np.int32, np.uint32, np.int64) if found.ndim else (np.uint32, np.int32, np.int64):
        limits = np.iinfo(dtype)
        if not found.size or (limits.min <= int(found.min()) and int(found.max()) <= limits.max):
            return found.astype(dtype)
    return found
