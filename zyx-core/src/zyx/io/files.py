"""Load and save tensors by name.

    zyx.io.save("model.safetensors", model)                     # or a dict of tensors
    model.load_state_dict(zyx.io.load("model.safetensors"))

Loading reads the header only. The values of a tensor are read when something needs them; a slice of consecutive
elements, such as rows of a matrix, is all that is read of a tensor of which nothing else is needed. So the file must
stay as it is while such tensors are around, and a read of one that was replaced or written to is a `FileChangedError`;
what was read is not read again.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from zyx.errors import FormatError
from zyx.io.safetensors_file import load_safetensors, save_safetensors
from zyx.tensor.tensor import Tensor

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Mapping, Sequence

    from zyx.dtype import DTypeLike

_SUFFIX = ".safetensors"


@runtime_checkable
class SupportsStateDict(Protocol):
    """What has tensors by name: modules and optimisers."""

    def state_dict(self) -> dict[str, Tensor]:
        """Return them."""


def load(
    path: str | os.PathLike[str], names: Collection[str] | None = None, device: str | None = None
) -> dict[str, Tensor]:
    """Return the tensors in a file by name, without reading their values; see the module.

    Args:
        path: A file whose name ends in ``.safetensors``.
        names: Which tensors to return; None means all.
        device: Where they are used; the default device if None.

    Raises:
        FormatError: Another kind of file, or one that does not hold what its format promises; the text has the file,
            the tensor and what is wrong. Or one of `names` is not in it.
        TransferError: The file cannot be read.
    """
    _check_suffix(path)
    return load_safetensors(path, names, device)


def save(
    path: str | os.PathLike[str],
    tensors: Mapping[str, object] | SupportsStateDict,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write tensors to a file; it is replaced as a whole when everything is written, and left alone if that fails.

    A file that is there keeps its mode, and a symbolic link stays one: what it leads to is replaced.

    Args:
        path: A file whose name ends in ``.safetensors``.
        tensors: Tensors or arrays by name, or a module or optimiser. "__metadata__" is no name: the format reserves it.
        metadata: Texts to keep along with them.

    Raises:
        FormatError: Another kind of file, or a name that the format reserves.
        DTypeError: Something that is no tensor and no array, or without names.
        TransferError: The file cannot be written.
    """
    _check_suffix(path)
    save_safetensors(path, tensors.state_dict() if isinstance(tensors, SupportsStateDict) else tensors, metadata)


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
    """
    return Tensor.from_file(path, dtype, shape, offset, device)


def _check_suffix(path: str | os.PathLike[str]) -> None:
    if Path(path).suffix != _SUFFIX:
        raise FormatError(
            f"{path}: only files named *{_SUFFIX} can be loaded and saved; see load_npy, load_npz, save_npy "
            "and save_npz for files of NumPy, from_file for raw numbers"
        )
