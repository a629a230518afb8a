"""What is in a file: its tensors, where they lie, and what is said about them.

No value is read, and no device is opened.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from zyx.errors import FormatError
from zyx.io.formats import FileFormat, format_of
from zyx.io.gguf_header import read_gguf_header
from zyx.io.header import TensorEntry, read_header
from zyx.io.numpy_file import describe_npy, describe_npz
from zyx.io.sharded import read_index
from zyx.io.torch_file import read_checkpoint
from zyx.lazy_import import lazy_import

if TYPE_CHECKING:
    import os

    from zyx.io.onnx import summary
else:
    summary = lazy_import("zyx.io.onnx.summary", globals())

#: A checkpoint may hold a list very often, and each time counts.
_MOST_VALUES: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Contents:
    """What is in a file.

    Attributes:
        format: Of the file.
        entries: The tensors by name; that of npy has none. In a checkpoint, names lead through dicts and lists by dots.
        metadata: What else it says, by name.
    """

    format: FileFormat
    entries: dict[str, TensorEntry]
    metadata: dict[str, Any]


def contents_of(path: str | os.PathLike[str]) -> Contents:
    """Return what is in a file of any format that is known.

    Raises:
        FormatError: Another kind of file, or one that is not well formed.
        TransferError: It cannot be read.
    """
    found = format_of(path)
    match found:
        case FileFormat.SAFETENSORS:
            header = read_header(path)
            return Contents(found, header.entries, header.metadata)
        case FileFormat.GGUF:
            header = read_gguf_header(path)
            return Contents(found, header.entries, header.metadata)
        case FileFormat.SHARDED:
            return _of_shards(path)
        case FileFormat.NPY:
            return Contents(found, {"": describe_npy(path)}, {})
        case FileFormat.NPZ:
            return Contents(found, describe_npz(path), {})
        case FileFormat.TORCH:
            return _of_checkpoint(path)
        case FileFormat.ONNX:
            return Contents(found, *summary.describe_onnx(path))


def _of_shards(path: str | os.PathLike[str]) -> Contents:
    places = read_index(path)
    headers = {file: read_header(Path(path).parent / file) for file in dict.fromkeys(places.values())}
    for name, file in places.items():
        if name not in headers[file].entries:
            raise FormatError(f"{path}: tensor {name!r:.200} is not in {file}")
    entries = {name: headers[file].entries[name] for name, file in places.items()}
    metadata = {f"{file}: {name}": text for file, header in headers.items() for name, text in header.metadata.items()}
    return Contents(FileFormat.SHARDED, entries, metadata)


def _of_checkpoint(path: str | os.PathLike[str]) -> Contents:
    entries: dict[str, TensorEntry] = {}
    metadata: dict[str, Any] = {}
    stack: list[tuple[str, object]] = [("", read_checkpoint(path))]
    count = 0
    while stack:
        name, value = stack.pop()
        count += 1
        if count > _MOST_VALUES:
            raise FormatError(f"{path} has more than {_MOST_VALUES} values; the same lists are held again and again")
        if isinstance(value, TensorEntry):
            entries[name] = value
        elif isinstance(value, dict | list | tuple) and value:
            pairs = value.items() if isinstance(value, dict) else enumerate(value)
            stack.extend((f"{name}.{key}" if name else str(key), each) for key, each in reversed(list(pairs)))
        else:
            metadata[name] = value
    return Contents(FileFormat.TORCH, entries, metadata)
