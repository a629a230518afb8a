"""Files of NumPy: an array (npy), or a zip archive of arrays by name (npz). Nothing is ever unpickled.

    6 bytes     93 and NUMPY            2 bytes     the version of the format
    2 or 4      length n of the header  n bytes     {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}
    the rest    the values

The values of an npy file, and of the members of an npz file that are stored as they are, lie in the file and are read
when something needs them, as those of safetensors are; members that are compressed are inflated at once.
"""

from __future__ import annotations

import io
import math
import sys
import tokenize
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import numpy as np

from zyx.dtype import as_dtype
from zyx.errors import DTypeError, FormatError, TransferError, UnsupportedError
from zyx.functions.operands import is_tensor
from zyx.integers import as_index
from zyx.io.archive import check_member, opened, stored_at
from zyx.io.header import TensorEntry
from zyx.io.replacing import replacing
from zyx.runtime.lazy import file_of, leaf_of_file
from zyx.runtime.runtime import current
from zyx.tensor.tensor import Tensor

if TYPE_CHECKING:
    import os
    from collections.abc import Collection

    from zyx.builtin.disk import DiskFile
    from zyx.dtype import DType
    from zyx.functions.operands import Array
    from zyx.shape import Shape

_SUFFIX: Final = ".npy"
#: NumPy reads headers of up to 10,000 bytes.
_MOST_HEADER_BYTES: Final = 10_240


def load_npy(path: str | os.PathLike[str], device: str | None = None) -> Tensor:
    """Return the array in an npy file, without reading its values. The file must stay as it is until they were used.

    The result has the shape and dtype that the file says.

    Raises:
        FormatError: The file is not well formed, or its dtype is one that we have not; arrays of Python objects are
            refused.
        TransferError: The file cannot be read.
        UnsupportedError: This machine stores numbers most significant byte first.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     zyx.io.save_npy(f"{folder}/x.npy", zyx.arange(3))
    ...     zyx.io.load_npy(f"{folder}/x.npy").tolist()
    [0, 1, 2]
    """
    check_host(path)
    disk = file_of(current(), path)
    try:
        with Path(path).open("rb") as file:
            dtype, shape, is_fortran, begin = _header(file.read(_MOST_HEADER_BYTES), str(path))
    except OSError as error:
        raise _unreadable(path, error) from error
    _check_size(str(path), dtype, shape, disk.nbytes - begin)
    return _lazy(disk, begin, dtype, shape, device, is_fortran=is_fortran)


def load_npz(
    path: str | os.PathLike[str],
    names: Collection[str] | None = None,
    device: str | None = None,
    *,
    max_inflated_bytes: int = 1 << 32,
) -> dict[str, Tensor]:
    """Return the arrays in an npz file by name, without reading the values of those that are stored as they are.

    Arrays have the shapes and dtypes that the file says.

    Args:
        path: The file. It must stay as it is until the values were used.
        names: Which arrays to return; None means all.
        device: Where they are used; the default device if None.
        max_inflated_bytes: How much may come of members that are compressed, all together: a small file can hold zeros
            for all memory that there is.

    Raises:
        FormatError: The file is not well formed, a name comes twice or is missing, more would be inflated than is
            allowed, or an array has a dtype that we have not; arrays of Python objects are refused.
        TransferError: The file cannot be read.
        UnsupportedError: This machine stores numbers most significant byte first.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     zyx.io.save_npz(f"{folder}/x.npz", {"x": zyx.arange(3)})
    ...     zyx.io.load_npz(f"{folder}/x.npz")["x"].tolist()
    [0, 1, 2]
    """
    check_host(path)
    disk = file_of(current(), path)
    with opened(path, "arrays") as (file, archive):
        members = _members(path, archive)
        missing = [name for name in names or () if name not in members]
        if missing:
            raise FormatError(f"{path} has no array {', '.join(map(repr, missing))}; it has {', '.join(members)}")
        wanted = members if names is None else set(names)
        limit = as_index(max_inflated_bytes, "max_inflated_bytes")
        packed = (each for name, each in members.items() if name in wanted and each.compress_type)
        inflated = sum(member.file_size for member in packed)
        if inflated > limit:
            raise FormatError(
                f"{path} has arrays of {inflated} bytes that are compressed, and {limit} are allowed; choose some by "
                "`names`, or allow more by load_npz(..., max_inflated_bytes=...)"
            )
        return {
            name: _member(disk, file, archive, member, f"{path}: array {name!r}", device)
            for name, member in members.items()
            if name in wanted
        }


def describe_npy(path: str | os.PathLike[str]) -> TensorEntry:
    """Return what array is in an npy file; raises what `load_npy` does."""
    try:
        with Path(path).open("rb") as file:
            dtype, shape, _, begin = _header(file.read(_MOST_HEADER_BYTES), str(path))
            _check_size(str(path), dtype, shape, file.seek(0, 2) - begin)
    except OSError as error:
        raise _unreadable(path, error) from error
    return TensorEntry(dtype.name, shape, begin, math.prod(shape) * dtype.itemsize)


def describe_npz(path: str | os.PathLike[str]) -> dict[str, TensorEntry]:
    """Return what arrays are in an npz file by name, and where their members begin; raises what `load_npz` does."""
    found: dict[str, TensorEntry] = {}
    with opened(path, "arrays") as (_, archive):
        for name, member in _members(path, archive).items():
            what = f"{path}: array {name!r}"
            check_member(member, what)
            with archive.open(member) as stream:
                dtype, shape, _, header_bytes = _header(stream.read(_MOST_HEADER_BYTES), what)
            _check_size(what, dtype, shape, member.file_size - header_bytes, exact=True)
            found[name] = TensorEntry(dtype.name, shape, member.header_offset, math.prod(shape) * dtype.itemsize)
    return found


def save_npy(path: str | os.PathLike[str], array: object) -> None:
    """Write a tensor or an array to an npy file, which is replaced as a whole as `zyx.io.save` does.

    Its shape and dtype are kept.

    Raises:
        DTypeError: No tensor and no array, or of a dtype that NumPy's files lack, such as bfloat16.
        TransferError: The file cannot be written.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     zyx.io.save_npy(f"{folder}/x.npy", zyx.arange(3))
    ...     zyx.io.load_npy(f"{folder}/x.npy").tolist()
    [0, 1, 2]
    """
    values = _array("the array", array)
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.lib.format.write_array(file, values, allow_pickle=False)


def save_npz(path: str | os.PathLike[str], arrays: Mapping[str, object]) -> None:
    """Write tensors or arrays by name to an npz file, stored as they are, so that they can be loaded lazily.

    Shapes and dtypes are kept.

    Raises:
        DTypeError: No tensor and no array, of a dtype that NumPy's files lack, or a name that is no text.
        FormatError: A name that an archive cannot have.
        TransferError: The file cannot be written.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     zyx.io.save_npz(f"{folder}/x.npz", {"x": zyx.arange(3)})
    ...     zyx.io.load_npz(f"{folder}/x.npz")["x"].tolist()
    [0, 1, 2]
    """
    if not isinstance(arrays, Mapping):
        raise DTypeError(f"arrays are saved by name, as a dict, not a {type(arrays).__name__}")
    for name in arrays:
        if not isinstance(name, str):
            raise DTypeError(f"names of arrays are texts, not {name!r}")
        if not name or "\0" in name or not name.isprintable() or len(name.encode()) > 60_000:
            raise FormatError(f"no array of an npz file can be called {name[:100]!r}")
    given = [value for value in arrays.values() if is_tensor(value)]
    if given:
        given[0].runtime.realize(given)
    values = {name: _array(repr(name), value) for name, value in arrays.items()}
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name, value in values.items():
            with archive.open(name + _SUFFIX, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, value, allow_pickle=False)


def _members(path: str | os.PathLike[str], archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    members: dict[str, zipfile.ZipInfo] = {}
    for member in archive.infolist():
        if not member.filename.endswith(_SUFFIX):
            raise FormatError(f"{path}: member {member.filename!r} is no array: its name does not end in {_SUFFIX}")
        name = member.filename.removesuffix(_SUFFIX)
        if name in members:
            raise FormatError(f"{path}: array {name!r} comes twice")
        members[name] = member
    return members


def _member(
    disk: DiskFile, file: IO[bytes], archive: zipfile.ZipFile, member: zipfile.ZipInfo, what: str, device: str | None
) -> Tensor:
    check_member(member, what)
    with archive.open(member) as stream:
        start = stream.read(_MOST_HEADER_BYTES)
        dtype, shape, is_fortran, header_bytes = _header(start, what)
        left = member.file_size - header_bytes
        _check_size(what, dtype, shape, left, exact=True)
        if member.compress_type != zipfile.ZIP_STORED:
            data = start[header_bytes:] + stream.read()  # no more than file_size, which was checked
            if len(data) != left:
                raise FormatError(f"{what} has {len(data)} bytes of values, and its archive says {left}")
            return _inflated(data, dtype, shape, device, is_fortran=is_fortran)
    begin = stored_at(file, member, what, disk.nbytes) + header_bytes
    return _lazy(disk, begin, dtype, shape, device, is_fortran=is_fortran)


def _header(start: bytes, what: str) -> tuple[DType, Shape, bool, int]:
    """Return dtype, shape, whether the first axis is the fastest, and where the values begin."""
    file = io.BytesIO(start)  # a header that says it is longer than what there is allocates nothing
    try:
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            shape, is_fortran, found = np.lib.format.read_array_header_1_0(file)
        elif version == (2, 0):
            shape, is_fortran, found = np.lib.format.read_array_header_2_0(file)
        else:  # version 3 is written for names of fields only
            raise FormatError(f"{what} has version {version} of npy; arrays of numbers have (1, 0) or (2, 0)")
    except FormatError:
        raise
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError, tokenize.TokenError) as error:
        raise FormatError(f"{what} has no header of an array: {str(error)[:200]}") from error
    if found.hasobject:
        raise FormatError(f"{what} holds Python objects ({found}), which only unpickling reads; that may run any code")
    if any(type(size) is not int or size < 0 for size in shape):
        raise FormatError(f"{what} has {shape} for a shape")
    if found.byteorder == ">":
        raise FormatError(f"{what} is big endian ({found.str}); write it anew with array.astype({found.name!r})")
    try:
        return as_dtype(found), tuple(shape), is_fortran, file.tell()
    except DTypeError as error:
        raise FormatError(f"{what} has dtype {found}, which zyx lacks: {error}") from error


def _check_size(what: str, dtype: DType, shape: Shape, left: int, *, exact: bool = False) -> None:
    takes = math.prod(shape) * dtype.itemsize
    if takes > left or (exact and takes != left):
        raise FormatError(f"{what} has {left} bytes of values, and {dtype} of shape {shape} takes {takes}")


def _lazy(disk: DiskFile, begin: int, dtype: DType, shape: Shape, device: str | None, *, is_fortran: bool) -> Tensor:
    runtime = current()
    place = runtime.default_device if device is None else runtime.device_name(device)
    stored = shape[::-1] if is_fortran else shape
    tensor = Tensor.of(leaf_of_file(runtime, disk, begin, stored, dtype, place), runtime)
    return _turned(tensor, is_fortran=is_fortran)


def _inflated(data: bytes, dtype: DType, shape: Shape, device: str | None, *, is_fortran: bool) -> Tensor:
    stored = shape[::-1] if is_fortran else shape
    return _turned(Tensor.from_callback(stored, dtype, lambda: data, device), is_fortran=is_fortran)


def _turned(tensor: Tensor, *, is_fortran: bool) -> Tensor:
    return tensor.permute_dims(tuple(reversed(range(tensor.ndim)))) if is_fortran and tensor.ndim > 1 else tensor


def _array(what: str, value: object) -> Array:
    if not is_tensor(value) and not isinstance(value, np.ndarray):
        raise DTypeError(f"{what} is a {type(value).__name__}, not a tensor or an array")
    array: Array = np.asarray(value.numpy() if is_tensor(value) else value)
    if array.dtype.kind not in "biufc" or np.dtype(array.dtype.str) != array.dtype:
        raise DTypeError(f"{what} is {array.dtype}, which NumPy's files lack; save numbers, such as float32")
    return np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False)).reshape(np.shape(array))


def check_host(path: str | os.PathLike[str]) -> None:
    """Raise an `UnsupportedError` if this machine stores numbers in another order than files do."""
    if sys.byteorder != "little":
        raise UnsupportedError(f"{path} holds little-endian numbers, which this machine does not compute with")


def _unreadable(path: str | os.PathLike[str], error: OSError) -> TransferError:
    return TransferError(f"{path} cannot be read: {error.strerror or error}")
