r"""Write checkpoints as PyTorch does, without it: what `zyx.io.torch_file` reads, and ``torch.load`` with its defaults.

    {"epoch": 7, "w": zyx.ones(2)}      =>      archive/data.pkl     a dict, a number, and a call for the tensor
                                                archive/byteorder    little
                                                archive/data/0       its 8 bytes
                                                archive/version      3

Instructions of the pickle are written one by one, as protocol 2 of Python's ``pickle`` has them: Python's own pickler
writes the name of no function that cannot be imported, such as those of PyTorch where that is not installed.
"""

from __future__ import annotations

import struct
import zipfile
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zyx.dtype import as_dtype
from zyx.errors import DTypeError, FormatError
from zyx.functions.operands import is_tensor
from zyx.io.numpy_file import check_host
from zyx.io.replacing import replacing
from zyx.io.torch_file import STORAGES

if TYPE_CHECKING:
    import os

_ROOT: Final = "archive"
#: The version of the layout of the archive that PyTorch 1.6 and later read.
_VERSION: Final = b"3\n"
#: What the values of a dtype are called.
_KINDS: Final = {dtype: name.rpartition(".")[2] for name, dtype in STORAGES.items()}
_BEGIN: Final = b"\x80\x02"
_END: Final = b"."
#: Of an integer, whose number of bytes is one.
_MOST_BYTES: Final = 255
_CONSTANTS: Final = {None: b"N", True: b"\x88", False: b"\x89"}


def save_torch(path: str | os.PathLike[str], state: object) -> None:
    """Write a checkpoint that PyTorch loads, which takes the place of a file as `zyx.io.save` has it.

    Args:
        path: The file.
        state: Tensors and arrays, which keep shape and dtype, numbers, texts, None, and dicts, lists and tuples of
            these. What has a ``state_dict``, such as a module, is saved as that. One tensor that is there twice is
            written once.

    Raises:
        DTypeError: Anything else, or a dtype that PyTorch's storages lack, such as uint16.
        FormatError: Something that holds itself.
        TransferError: The file cannot be written.
        UnsupportedError: This machine stores numbers most significant byte first.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     zyx.io.save_torch(f"{folder}/x.pt", {"epoch": 7, "model": zyx.nn.Linear(2, 3)})
    ...     found = zyx.load(f"{folder}/x.pt")
    ...     found["epoch"], found["model"]["weight"].shape
    (7, (3, 2))
    """
    check_host(path)
    pickled = _Pickle()
    pickled.add(state)
    tensors = [value for value in pickled.storages if is_tensor(value)]
    if tensors:
        tensors[0].runtime.realize(tensors)
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        archive.writestr(f"{_ROOT}/data.pkl", _BEGIN + b"".join(pickled.parts) + _END)
        archive.writestr(f"{_ROOT}/byteorder", b"little")
        for key, value in enumerate(pickled.storages):
            with archive.open(f"{_ROOT}/data/{key}", "w", force_zip64=True) as file:
                file.write(np.ascontiguousarray(value.numpy() if is_tensor(value) else value).tobytes())
        archive.writestr(f"{_ROOT}/version", _VERSION)


class _Pickle:
    """Instructions that make a value, and what it needs beside them.

    Attributes:
        parts: The instructions.
        storages: Tensors and arrays, by their numbers in the archive.
    """

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.storages: list[Any] = []
        self._keys: dict[int, int] = {}
        self._open: list[object] = []

    def add(self, value: object) -> None:
        """Write what makes `value`."""
        if value is None or isinstance(value, bool | np.bool_):
            self.parts.append(_CONSTANTS[value if value is None else bool(value)])
        elif is_tensor(value) or isinstance(value, np.ndarray):
            self._add_tensor(value)
        elif isinstance(value, np.generic):
            self.add(value.item())
        elif isinstance(value, int):
            size = value.bit_length() // 8 + 1
            if size > _MOST_BYTES:
                raise DTypeError(
                    f"an integer of {size} bytes is more than the {_MOST_BYTES} that a checkpoint has for one"
                )
            self.parts += (b"\x8a", bytes((size,)), int(value).to_bytes(size, "little", signed=True))
        elif isinstance(value, float):
            self.parts += (b"G", struct.pack(">d", value))
        elif isinstance(value, str):
            text = value.encode("utf-8", "surrogatepass")
            self.parts += (b"X", struct.pack("<I", len(text)), text)
        elif not isinstance(value, Mapping | list | tuple) and hasattr(value, "state_dict"):
            self.add(value.state_dict())
        else:
            self._add_container(value)

    def _add_container(self, value: object) -> None:
        if any(value is each for each in self._open):
            raise FormatError(f"a checkpoint cannot have a {type(value).__name__} that holds itself")
        self._open.append(value)
        match value:
            case Mapping():
                self.parts += (
                    self._named("collections", "OrderedDict", b")R") if type(value) is OrderedDict else (b"}",)
                )
                self.parts.append(b"(")
                for pair in value.items():
                    self._add_each(*pair)
                self.parts.append(b"u")
            case list() | tuple():
                self.parts.append(b"](" if isinstance(value, list) else b"(")
                self._add_each(*value)
                self.parts.append(b"e" if isinstance(value, list) else b"t")
            case _:
                raise DTypeError(
                    f"a checkpoint has tensors, numbers, texts, and dicts, lists and tuples of these, and no "
                    f"{type(value).__name__}; save its state, such as a dict"
                )
        self._open.pop()

    def _add_tensor(self, value: Any) -> None:  # noqa: ANN401  # a tensor or an array
        dtype = as_dtype(value.dtype)
        if dtype not in _KINDS:
            raise DTypeError(f"checkpoints of PyTorch have no {dtype}; cast it, such as by .astype(zyx.int64)")
        key = self._keys.setdefault(id(value), len(self.storages))
        if key == len(self.storages):
            self.storages.append(value)
        shape = tuple(map(int, value.shape))
        count = int(np.prod(shape, dtype=np.int64))
        steps = tuple(int(np.prod(shape[axis + 1 :], dtype=np.int64)) for axis in range(len(shape)))
        self.parts += (*self._named("torch._utils", "_rebuild_tensor_v2", b"("), b"(")
        self.add("storage")
        self.parts += self._named("torch", _KINDS[dtype], b"")
        self._add_each(str(key), "cpu", count)
        self.parts.append(b"tQ")
        self._add_each(0, shape, steps, False, OrderedDict())
        self.parts.append(b"tR")

    def _add_each(self, *values: object) -> None:
        for value in values:
            self.add(value)

    @staticmethod
    def _named(module: str, name: str, then: bytes) -> tuple[bytes, ...]:
        """Return the instruction that names a function or class, and those behind it."""
        return (f"c{module}\n{name}\n".encode(), then)
