"""Files of the safetensors format, which many libraries read and write. No code is run on loading one."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import save_file

from zyx import dtype as dtypes
from zyx.dtype import as_dtype
from zyx.errors import DTypeError, FormatError, TransferError, UnsupportedError
from zyx.functions.operands import is_tensor
from zyx.io.float8 import FLOATS8, decoded
from zyx.io.header import DTYPES, RESERVED, read_header
from zyx.io.replacing import replacing
from zyx.runtime.lazy import file_of, leaf_of_file
from zyx.runtime.runtime import current
from zyx.tensor.tensor import Tensor

if TYPE_CHECKING:
    import os
    from collections.abc import Collection

    from zyx.functions.operands import Array


def load_safetensors(
    path: str | os.PathLike[str], names: Collection[str] | None = None, device: str | None = None
) -> dict[str, Tensor]:
    """Return the tensors in a file by name, in the order of the file, without reading their values; see `zyx.io.load`.

    Tensors have the shapes and dtypes that the file says.

    Numbers of 8 bits, such as F8_E4M3, are given as float32.

    Raises:
        FormatError: The file is not well formed, a tensor has a dtype that we have not, or one of `names` is missing.
        TransferError: The file cannot be read.
        UnsupportedError: This machine stores numbers most significant byte first; the file does not.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     zyx.io.save_safetensors(f"{folder}/x.safetensors", {"x": zyx.arange(3)})
    ...     zyx.io.load_safetensors(f"{folder}/x.safetensors")["x"].tolist()
    [0, 1, 2]
    """
    if sys.byteorder != "little":
        raise UnsupportedError(f"{path} holds little-endian numbers, which this machine does not compute with")
    runtime = current()
    file = file_of(runtime, path)  # before the header is read: of a file that is replaced in between, no value is read
    header = read_header(path)
    missing = [name for name in names or () if name not in header.entries]
    if missing:
        raise FormatError(f"{path} has no tensor {', '.join(map(repr, missing))}; it has {', '.join(header.entries)}")
    place = runtime.default_device if device is None else runtime.device_name(device)
    tensors: dict[str, Tensor] = {}
    wanted = header.entries if names is None else set(names)
    for name, entry in header.entries.items():
        if name not in wanted:
            continue
        dtype = dtypes.uint8 if entry.dtype in FLOATS8 else DTYPES.get(entry.dtype)
        if dtype is None:
            raise FormatError(
                f"{path}: tensor {name!r} has dtype {entry.dtype}; there are {', '.join((*DTYPES, *FLOATS8))}. "
                "Others can be loaded without it, by `names`"
            )
        tensor = Tensor.of(leaf_of_file(runtime, file, entry.begin, entry.shape, dtype, place), runtime)
        tensors[name] = decoded(tensor, entry.dtype) if entry.dtype in FLOATS8 else tensor
    return tensors


def save_safetensors(
    path: str | os.PathLike[str], tensors: Mapping[str, object], metadata: Mapping[str, str] | None = None
) -> None:
    """Write tensors or arrays to a file; see `zyx.io.save`.

    Shapes and dtypes are kept.

    Raises:
        DTypeError: Something that is no tensor and no array, complex128, a name that is no text, or metadata that are
            no texts.
        FormatError: A name that the format reserves, or a text that has no UTF-8. Nothing is computed then.
        TransferError: The file cannot be written.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     zyx.io.save_safetensors(f"{folder}/x.safetensors", {"x": zyx.arange(3)})
    ...     zyx.io.load_safetensors(f"{folder}/x.safetensors")["x"].tolist()
    [0, 1, 2]
    """
    if not isinstance(tensors, Mapping):
        raise DTypeError(
            f"tensors are saved by name, as a dict of tensors, a module or an optimiser, not a {type(tensors).__name__}"
        )
    for name in tensors:
        _check_name(name)
    if metadata is not None and not isinstance(metadata, Mapping):
        raise DTypeError(f"metadata are texts by name, not a {type(metadata).__name__}")
    for text in (part for pair in (metadata or {}).items() for part in pair):
        if not isinstance(text, str):
            raise DTypeError(f"metadata are texts by name, not {text!r}")
        _check_text(text, "metadata")
    arrays = _arrays(tensors)
    with replacing(path) as temporary:
        try:
            save_file(arrays, temporary, None if metadata is None else dict(metadata))
        except SafetensorError as error:
            raise TransferError(f"{path} cannot be written: {error}") from error


def _check_name(name: object) -> None:
    """Raise an error if a tensor cannot have this name in a file."""
    if not isinstance(name, str):
        raise DTypeError(f"names of tensors are texts, not {name!r}")
    if name in RESERVED:
        raise FormatError(
            f"no tensor of a safetensors file can be called {name!r}: the format has texts under that name, which "
            "`metadata` gives"
        )
    _check_text(name, "the name of a tensor")


def _check_text(text: str, what: str) -> None:
    """Raise an error if a text has no UTF-8, which is what files have."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise FormatError(f"{what} is {text!r}, which cannot be written as UTF-8: {error.reason}") from error


def _arrays(tensors: Mapping[str, object]) -> dict[str, Array]:
    """Return the values, computed together and brought to the host."""
    given = [value for value in tensors.values() if is_tensor(value)]
    if given:
        given[0].runtime.realize(given)
    arrays: dict[str, Array] = {}
    for name, value in tensors.items():
        if not is_tensor(value) and not isinstance(value, np.ndarray):
            raise DTypeError(f"{name!r} is a {type(value).__name__}, not a tensor or an array")
        array = value.numpy() if is_tensor(value) else np.ascontiguousarray(value).reshape(np.shape(value))
        if as_dtype(array.dtype) is dtypes.complex128:
            raise DTypeError(f"{name!r} is complex128, which safetensors lacks; save zyx.view_as_real of it")
        arrays[name] = array
    return arrays
