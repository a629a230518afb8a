"""Which format a file has, by what is in it: names of files say nothing.

length of a header, {   safetensors         {"weight_map": ...      an index of safetensors files
93 NUMPY                npy                 PK, with a data.pkl     a checkpoint of PyTorch
GGUF                    GGUF                PK, without             npz
08, a version, a field  ONNX                80, a version           a pickle, which is refused
"""

from __future__ import annotations

import stat
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zyx.errors import FormatError, TransferError
from zyx.io.archive import opened
from zyx.io.header import LENGTH_BYTES

if TYPE_CHECKING:
    import os

_LOOKED_AT: Final = 4096
#: Protobuf's tags of what follows the version of a model: producer, its version, domain, number, text, graph, opsets.
_ONNX_FIELDS: Final = frozenset({0x12, 0x1A, 0x22, 0x28, 0x32, 0x3A, 0x42})
_ONNX_VERSIONS: Final = range(1, 32)
_PICKLE_PROTOCOLS: Final = range(2, 6)


class FileFormat(Enum):
    """A kind of file, with its name for people."""

    SAFETENSORS = "safetensors"
    SHARDED = "an index of safetensors files"
    NPY = "npy"
    NPZ = "npz"
    TORCH = "a checkpoint of PyTorch"
    GGUF = "GGUF"
    ONNX = "ONNX"


def format_of(path: str | os.PathLike[str]) -> FileFormat:
    """Return the format of a file.

    Raises:
        FormatError: None that is known; of a pickle, the text says what to do.
        TransferError: The file cannot be read.
    """
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):
            raise TransferError(f"{path} cannot be read: it is no plain file")  # for a pipe, one would wait
        with Path(path).open("rb") as file:
            start = file.read(_LOOKED_AT)
    except OSError as error:
        if isinstance(error, TransferError):
            raise
        raise TransferError(f"{path} cannot be read: {error.strerror or error}") from error
    found = _by_start(start)
    if found is FileFormat.NPZ and _has_pickle(path):
        return FileFormat.TORCH
    if found is not None:
        return found
    if len(start) > 1 and start[0] == 0x80 and start[1] in _PICKLE_PROTOCOLS:
        raise FormatError(
            f"{path} is a pickle, which may run any code and is not read; of a checkpoint of PyTorch, write it anew by "
            "torch.save of version 1.6 or newer"
        )
    known = ", ".join(each.value for each in FileFormat)
    raise FormatError(
        f"{path} is of no format that is known: it begins with {start[:16]!r}. There are {known}; from_file reads raw "
        "numbers"
    )


def _by_start(start: bytes) -> FileFormat | None:
    if start.startswith(b"\x93NUMPY"):
        return FileFormat.NPY
    if start.startswith(b"GGUF"):
        return FileFormat.GGUF
    if start.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return FileFormat.NPZ
    if start[LENGTH_BYTES - 1 : LENGTH_BYTES + 1] == b"\0{":  # no header is so long that its length has no zero there
        return FileFormat.SAFETENSORS
    if start.lstrip().startswith(b"{"):
        return FileFormat.SHARDED
    if len(start) > 2 and start[0] == 0x08 and start[1] in _ONNX_VERSIONS and start[2] in _ONNX_FIELDS:
        return FileFormat.ONNX
    return None


def _has_pickle(path: str | os.PathLike[str]) -> bool:
    with opened(path, "tensors") as (_, archive):
        return any(name.rpartition("/")[2] == "data.pkl" for name in archive.namelist())
