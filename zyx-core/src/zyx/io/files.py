"""Load and save tensors by name.

    zyx.io.save("model.safetensors", model)                     # or a dict of tensors
    model.load_state_dict(zyx.io.load("model.safetensors"))     # or a file of any other format that is known

Loading reads the header only. The values of a tensor are read when something needs them; a slice of consecutive
elements, such as rows of a matrix, is all that is read of a tensor of which nothing else is needed. So the file must
stay as it is while such tensors are around, and a read of one that was replaced or written to is a `FileChangedError`;
what was read is not read again.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from zyx.errors import DTypeError, FormatError
from zyx.functions import take_habits
from zyx.io.formats import FileFormat, format_of
from zyx.io.gguf_file import load_gguf, save_gguf
from zyx.io.gguf_header import read_gguf_header
from zyx.io.header import read_header
from zyx.io.numpy_file import load_npy, load_npz, save_npy, save_npz
from zyx.io.safetensors_file import load_safetensors, save_safetensors
from zyx.io.sharded import load_sharded
from zyx.io.torch_file import load_torch
from zyx.io.torch_writer import save_torch
from zyx.lazy_import import lazy_import
from zyx.tensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from zyx.dtype import DTypeLike
    from zyx.io import onnx
else:
    onnx = lazy_import("zyx.io.onnx", globals())

#: What a file is written as, by the end of its name.
_WRITTEN: Final = {
    ".safetensors": FileFormat.SAFETENSORS, ".npz": FileFormat.NPZ, ".npy": FileFormat.NPY, ".gguf": FileFormat.GGUF,
    ".pt": FileFormat.TORCH, ".pth": FileFormat.TORCH, ".ckpt": FileFormat.TORCH,
}  # fmt: skip
_HAVE_METADATA: Final = (FileFormat.SAFETENSORS, FileFormat.GGUF)


@runtime_checkable
class SupportsStateDict(Protocol):
    """What has tensors by name: modules and optimisers.

    Shapes are those of its parameters.

    >>> isinstance(zyx.nn.Linear(2, 3), zyx.io.SupportsStateDict)
    True
    """

    def state_dict(self) -> dict[str, Tensor]:
        """Return them."""


def load(path: str | os.PathLike[str], names: Collection[str] | None = None, device: str | None = None) -> Any:  # noqa: ANN401  # what the reader of the format returns
    """Return what is in a file of any format that is known, without reading values; see the module.

    Tensors have the shapes and dtypes that the file says.

    The format is found by what is in the file, not by its name: safetensors, also several with an index, npz and GGUF
    give tensors by name, npy one tensor, checkpoints of PyTorch what was saved, and ONNX a network, a function of its
    inputs. Which is which, and what each format lacks, is said by `load_safetensors`, `load_sharded`, `load_npz`,
    `load_gguf`, `load_npy` and `load_torch`, and by `load` of ``zyx.io.onnx``.

    Args:
        path: A file.
        names: Which tensors to return; None means all.
        device: Where they are used; the default device if None.

    Raises:
        FormatError: Another kind of file, or one that does not hold what its format promises; the text has the file,
            the tensor and what is wrong. Or one of `names` is not in it.
        PackageMissingError: It is ONNX, and the package for that is not installed.
        TransferError: The file cannot be read.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     zyx.save(f"{folder}/x.safetensors", {"x": zyx.arange(3)})
    ...     zyx.load(f"{folder}/x.safetensors")["x"].tolist()
    [0, 1, 2]
    """
    found = format_of(path)
    match found:
        case FileFormat.SAFETENSORS:
            return load_safetensors(path, names, device)
        case FileFormat.SHARDED:
            return load_sharded(path, names, device)
        case FileFormat.NPZ:
            return load_npz(path, names, device)
        case FileFormat.TORCH:
            return load_torch(path, names, device)
        case FileFormat.NPY:
            if names is not None:
                raise FormatError(f"{path} is {found.value}: one array, which has no name; load it without `names`")
            return load_npy(path, device)
        case FileFormat.GGUF:
            return load_gguf(path, names, device)
        case FileFormat.ONNX:
            if names is not None:
                raise FormatError(f"{path} is {found.value}: a network, not tensors by name; load it without `names`")
            return onnx.load(path, device)


def read_metadata(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what a file says beside its tensors, by name: texts of safetensors, also numbers and lists of GGUF.

    Raises:
        FormatError: The file is not well formed, or of a format that has no such thing.
        TransferError: It cannot be read.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     zyx.save(f"{folder}/x.safetensors", {"x": zyx.arange(3)}, {"epoch": "7"})
    ...     zyx.io.read_metadata(f"{folder}/x.safetensors")
    {'epoch': '7'}
    """
    found = format_of(path)
    match found:
        case FileFormat.SAFETENSORS:
            return read_header(path).metadata
        case FileFormat.GGUF:
            return read_gguf_header(path).metadata
        case _:
            raise FormatError(f"{path} is {found.value}, which has no metadata; safetensors and GGUF do")


def save(
    path: str | os.PathLike[str] | Mapping[str, object] | SupportsStateDict,
    tensors: Mapping[str, object] | SupportsStateDict | str | os.PathLike[str] | object,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write tensors to a file; it is replaced as a whole when everything is written, and left alone if that fails.

    Shapes and dtypes are kept. The end of the name says the format: ``.safetensors``, which is the one to prefer,
    ``.npz``, ``.npy``, ``.gguf``, or for PyTorch ``.pt``, ``.pth`` and ``.ckpt``. What can be in each is said by
    `save_safetensors`, `save_npz`, `save_npy`, `save_gguf` and `save_torch`.

    A file that is there keeps its mode, and a symbolic link stays one: what it leads to is replaced.

    Args:
        path: A file. It and `tensors` may change places, which is PyTorch's order.
        tensors: Tensors or arrays by name, or a module or optimiser; one array for npy, and for PyTorch also numbers,
            texts, and dicts and lists of all these. "__metadata__" is no name of safetensors: the format reserves it.
        metadata: Texts to keep along with them, in safetensors and GGUF.

    Raises:
        FormatError: Another kind of file, metadata that it has no place for, or a name that the format reserves.
        DTypeError: Something that is no tensor and no array, or without names.
        TransferError: The file cannot be written.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     zyx.save(f"{folder}/x.safetensors", {"x": zyx.arange(3)}, {"epoch": "7"})
    ...     zyx.io.read_metadata(f"{folder}/x.safetensors")
    {'epoch': '7'}
    """
    if isinstance(tensors, str | os.PathLike) and not isinstance(path, str | os.PathLike):
        path, tensors = tensors, path
    if not isinstance(path, str | os.PathLike):
        raise DTypeError(f"save takes the path of a file and what to save, not {type(path).__name__} for the path")
    written = _WRITTEN.get(Path(path).suffix)
    if written is None:
        raise FormatError(f"{path}: only files named *{', *'.join(_WRITTEN)} are saved; rename it")
    if metadata is not None and written not in _HAVE_METADATA:
        raise FormatError(f"{path} would be {written.value}, which has no metadata; safetensors and GGUF do")
    state: Any = tensors.state_dict() if isinstance(tensors, SupportsStateDict) else tensors
    match written:
        case FileFormat.NPZ:
            save_npz(path, state)
        case FileFormat.NPY:
            save_npy(path, state)
        case FileFormat.GGUF:
            save_gguf(path, state, metadata)
        case FileFormat.TORCH:
            save_torch(path, state)
        case _:
            save_safetensors(path, state, metadata)


def from_file(
    path: str | os.PathLike[str],
    dtype: DTypeLike = "uint8",
    shape: int | Sequence[int] | None = None,
    offset: int = 0,
    device: str | None = None,
) -> Tensor:
    """Return a tensor of the numbers in a file, little endian and in row-major order, without reading them.

    Also `zyx.Tensor.from_file`.

    Args:
        path: Any file. It must stay as it is until the values were used.
        dtype: Of the numbers.
        shape: None means one axis, to the end of the file.
        offset: Bytes in front of the first.
        device: Where it is used; the default device if None.

    Raises:
        FormatError: Without a shape: the bytes are no whole number of elements.
        TransferError: There is no such file, or it is too short.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = pathlib.Path(folder, "x").write_bytes(bytes([1, 0, 2, 0]))
    ...     zyx.io.from_file(f"{folder}/x", "uint16").tolist()
    [1, 2]
    """
    return Tensor.from_file(path, dtype, shape, offset, device)


take_habits(globals(), ["load", "save"])
