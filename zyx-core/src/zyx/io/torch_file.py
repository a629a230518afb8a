"""Checkpoints of PyTorch, as ``torch.save`` writes them since version 1.6: a zip archive, read without PyTorch.

    <root>/data.pkl     a pickle of what was saved, in which tensors are calls of a few functions on storages
    <root>/data/<key>   the values of a storage, stored as they are
    <root>/byteorder    little or big, where it is there

The pickle is never run: `zyx.io.plain_pickle` follows it, and calls only what makes tensors here. Values stay in the
file until something needs them, and tensors that share a storage in the same way are read once.
"""

from __future__ import annotations

import itertools
import math
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ClassVar, Final

from zyx import dtype as dtypes
from zyx.errors import FormatError
from zyx.functions.selection import take
from zyx.io.archive import opened, stored_at
from zyx.io.header import TensorEntry
from zyx.io.numpy_file import check_host
from zyx.io.plain_pickle import Name, read_pickle
from zyx.runtime.lazy import file_of, leaf_of_file
from zyx.runtime.runtime import current
from zyx.tensor.creation import arange, zeros
from zyx.tensor.tensor import Tensor

if TYPE_CHECKING:
    import os
    import zipfile
    from collections.abc import Collection

    from zyx.builtin.disk import DiskFile
    from zyx.dtype import DType
    from zyx.shape import Shape

_PICKLE: Final = "data.pkl"
#: PyTorch's limit, too.
_MOST_AXES: Final = 64
_MOST_BYTES: Final = 2**63

STORAGES: Final[dict[str, DType]] = {
    "torch.BoolStorage": dtypes.bool_,
    "torch.ByteStorage": dtypes.uint8,
    "torch.CharStorage": dtypes.int8,
    "torch.ShortStorage": dtypes.int16,
    "torch.IntStorage": dtypes.int32,
    "torch.LongStorage": dtypes.int64,
    "torch.HalfStorage": dtypes.float16,
    "torch.BFloat16Storage": dtypes.bfloat16,
    "torch.FloatStorage": dtypes.float32,
    "torch.DoubleStorage": dtypes.float64,
    "torch.ComplexFloatStorage": dtypes.complex64,
    "torch.ComplexDoubleStorage": dtypes.complex128,
}


@dataclass(frozen=True, slots=True)
class _Storage:
    """Numbers in a row.

    Attributes:
        dtype: Of each.
        begin: The byte of the file at which they begin.
        count: How many there are.
    """

    dtype: DType
    begin: int
    count: int


def load_torch(path: str | os.PathLike[str], names: Collection[str] | None = None, device: str | None = None) -> Any:  # noqa: ANN401  # whatever was saved
    """Return what is in a checkpoint of PyTorch: tensors, and dicts, lists and tuples of them, of numbers and of texts.

    No value is read before it is needed, and the file must stay as it is until then. Parameters are plain tensors,
    ``torch.Size`` is a tuple, and what PyTorch notes beside a state, as of the versions of modules, is left out.

    Args:
        path: The file.
        names: Which items to return of the dict that was saved; None means all.
        device: Where tensors are used; the default device if None.

    Raises:
        FormatError: The file is not well formed, one of `names` is not in it, or it has anything else in it, which the
            text names: the pickle in it is never run. Also TorchScript, and files older than PyTorch 1.6.
        TransferError: The file cannot be read.
        UnsupportedError: This machine stores numbers most significant byte first.

    >>> import pickle, tempfile, zipfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with zipfile.ZipFile(f"{folder}/x.pt", "w") as file:
    ...         file.writestr("x/data.pkl", pickle.dumps({"epoch": 7}, protocol=2))
    ...     zyx.io.load_torch(f"{folder}/x.pt")
    {'epoch': 7}
    """
    check_host(path)
    disk = file_of(current(), path)
    with opened(path, "tensors") as (file, archive):
        result = _Lazy(str(path), disk, file, archive, device).read()
    if names is None:
        return result
    if not isinstance(result, dict):
        raise FormatError(f"{path} has a {type(result).__name__}, which has no names; load all of it")
    missing = [name for name in names if name not in result]
    if missing:
        raise FormatError(f"{path} has no {', '.join(map(repr, missing))}; it has {', '.join(map(repr, result))}")
    return {name: value for name, value in result.items() if name in set(names)}


def read_checkpoint(path: str | os.PathLike[str]) -> object:
    """Return what is in a checkpoint, with a `TensorEntry` for each tensor; raises what `load_torch` does."""
    with opened(path, "tensors") as (file, archive):
        return _Checkpoint(str(path), file, archive, Path(path).stat().st_size).read()


class _Checkpoint:
    """A checkpoint of which is told what tensors there are."""

    #: What stands for a tensor.
    kind: ClassVar[type] = TensorEntry

    def __init__(self, path: str, file: IO[bytes], archive: zipfile.ZipFile, total: int) -> None:
        self.path = path
        self.file = file
        self.total = total
        self.members: dict[str, zipfile.ZipInfo] = {}
        for member in archive.infolist():
            if member.filename in self.members:
                raise FormatError(f"{path}: member {member.filename!r:.200} comes twice")
            self.members[member.filename] = member
        self.storages: dict[tuple[str, DType], _Storage] = {}
        self.root = self._root()

    def read(self) -> object:
        """Return what was saved."""
        order = self.members.get(f"{self.root}byteorder")
        if order is not None and (text := self._bytes_of(order)) != b"little":
            raise FormatError(f"{self.path} has byte order {text[:20]!r}; save it anew on a machine that has little")
        result = read_pickle(
            self._bytes_of(self.members[self.root + _PICKLE]),
            f"{self.path}: {_PICKLE}",
            {
                "collections.OrderedDict": self._ordered_dict,
                "torch.Size": self._size,
                "torch._utils._rebuild_parameter": self._parameter,
                "torch._utils._rebuild_tensor_v2": self._tensor,
            },
            STORAGES,
            self._storage,
            (self.kind,),
        )
        self._check_disjoint()
        return result

    def _root(self) -> str:
        roots = [name.removesuffix(_PICKLE) for name in self.members if name.rpartition("/")[2] == _PICKLE]
        if len(roots) != 1:
            raise FormatError(f"{self.path} has {len(roots)} members {_PICKLE}; a checkpoint of PyTorch has one")
        if f"{roots[0]}constants.pkl" in self.members:
            raise FormatError(f"{self.path} is a TorchScript program; save its state_dict() by torch.save instead")
        return roots[0]

    def _bytes_of(self, member: zipfile.ZipInfo) -> bytes:
        begin = stored_at(self.file, member, f"{self.path}: {member.filename:.200}", self.total)
        self.file.seek(begin)
        return self.file.read(member.file_size)  # no more than the file has, which was checked

    # ---- what the pickle may call

    def _storage(self, identifier: object) -> _Storage:
        match identifier:
            case ("storage", Name(text=kind), str(key), str(), int(count)) if kind in STORAGES and count >= 0:
                pass
            case _:
                raise self._fault(f"has {identifier!r:.200} for a storage")
        dtype = STORAGES[kind]
        if (key, dtype) not in self.storages:
            name = f"{self.root}data/{key}"
            member = self.members.get(name)
            if member is None:
                raise self._fault(f"has no member {name!r:.200} for storage {key!r:.200}")
            what = f"{self.path}: storage {key!r:.200}"
            begin = stored_at(self.file, member, what, self.total)
            if count * dtype.itemsize != member.file_size:
                raise FormatError(
                    f"{what} has {member.file_size} bytes, and {count} of {dtype} take {count * dtype.itemsize}"
                )
            self.storages[key, dtype] = _Storage(dtype, begin, count)
        return self.storages[key, dtype]

    def _tensor(self, arguments: tuple[object, ...]) -> object:
        match arguments:
            case (_Storage() as storage, int(offset), tuple(size), tuple(strides), bool(), dict(hooks), *metadata):
                pass
            case _:
                raise self._fault(f"makes a tensor of {arguments!r:.200}")
        if hooks or any(metadata):
            raise self._fault("has a tensor with hooks or metadata, such as one that is conjugated when it is read")
        sizes, steps = self._counts(size, "sizes"), self._counts(strides, "strides")
        if len(sizes) != len(steps) or len(sizes) > _MOST_AXES or offset < 0:
            raise self._fault(f"has a tensor with {len(sizes)} sizes, {len(steps)} strides and offset {offset}")
        if math.prod(sizes) * storage.dtype.itemsize >= _MOST_BYTES:
            raise self._fault(f"has a tensor of shape {sizes}, which no memory has room for")
        span = 0 if 0 in sizes else 1 + sum((size - 1) * step for size, step in zip(sizes, steps, strict=True))
        if offset + span > storage.count:
            raise self._fault(
                f"has a tensor of shape {sizes} and strides {steps} that needs elements {offset} to {offset + span} of "
                f"a storage of {storage.count}"
            )
        return self._made(storage, offset, sizes, steps, span)

    def _made(self, storage: _Storage, offset: int, sizes: Shape, steps: Shape, span: int) -> object:
        """Return what stands for a tensor, of which `span` elements of a storage are read."""
        itemsize = storage.dtype.itemsize
        return TensorEntry(storage.dtype.name, sizes, storage.begin + offset * itemsize, math.prod(sizes) * itemsize)

    def _parameter(self, arguments: tuple[object, ...]) -> object:
        match arguments:
            case (tensor, bool(), dict(hooks)) if isinstance(tensor, self.kind) and not hooks:
                return tensor
            case _:
                raise self._fault(f"makes a parameter of {arguments!r:.200}")

    def _size(self, arguments: tuple[object, ...]) -> Shape:
        if len(arguments) != 1 or not isinstance(arguments[0], tuple):
            raise self._fault(f"makes a torch.Size of {arguments!r:.200}")
        return self._counts(arguments[0], "sizes")

    def _ordered_dict(self, arguments: tuple[object, ...]) -> OrderedDict[object, object]:
        if arguments:
            raise self._fault(f"makes an OrderedDict of {arguments!r:.200}, not of nothing")
        return OrderedDict()

    def _counts(self, values: tuple[object, ...], what: str) -> Shape:
        counts = tuple(value for value in values if type(value) is int and value >= 0)
        if len(counts) != len(values):
            raise self._fault(f"has {values!r:.200} for {what}")
        return counts

    def _fault(self, text: str) -> FormatError:
        return FormatError(f"{self.path}: {_PICKLE} {text}")

    def _check_disjoint(self) -> None:
        spans = sorted(
            {(each.begin, each.count * each.dtype.itemsize, key) for (key, _), each in self.storages.items()}
        )
        for (begin, nbytes, first), (next_begin, _, second) in itertools.pairwise(spans):
            if nbytes and first != second and begin + nbytes > next_begin:
                raise FormatError(f"{self.path}: storages {first!r:.200} and {second!r:.200} overlap")


class _Lazy(_Checkpoint):
    """A checkpoint whose tensors are read when their values are needed."""

    kind: ClassVar[type] = Tensor

    def __init__(
        self, path: str, disk: DiskFile, file: IO[bytes], archive: zipfile.ZipFile, device: str | None
    ) -> None:
        super().__init__(path, file, archive, disk.nbytes)
        self.disk = disk
        self.runtime = current()
        self.place = self.runtime.default_device if device is None else self.runtime.device_name(device)
        self.windows: dict[tuple[_Storage, int, Shape], Tensor] = {}

    def _made(self, storage: _Storage, offset: int, sizes: Shape, steps: Shape, span: int) -> Tensor:
        if not span:
            return zeros(sizes, dtype=storage.dtype, device=self.place)
        axes = sorted(range(len(sizes)), key=lambda axis: (-steps[axis], axis))
        dense = tuple(sizes[axis] for axis in axes)
        if all(
            size == 1 or steps[axis] == math.prod(dense[at + 1 :])
            for at, (axis, size) in enumerate(zip(axes, dense, strict=True))
        ):
            stored = self._window(storage, offset, dense)
            back = tuple(axes.index(axis) for axis in range(len(axes)))
            return stored if back == tuple(range(len(back))) else stored.permute_dims(back)
        return self._gathered(self._window(storage, offset, (span,)), sizes, steps, span)

    def _gathered(self, row: Tensor, sizes: Shape, steps: Shape, span: int) -> Tensor:
        """Return the elements of a row that strides lead to, some of them never and others more than once."""
        index = zeros(sizes, dtype=dtypes.int32 if span < 2**31 else dtypes.int64, device=self.place)
        for axis, (size, step) in enumerate(zip(sizes, steps, strict=True)):
            if size > 1 and step:
                shape = [1] * len(sizes)
                shape[axis] = size
                index = index + (arange(size, dtype=index.dtype, device=self.place) * step).reshape(tuple(shape))
        return take(row, index, axis=0)

    def _window(self, storage: _Storage, offset: int, shape: Shape) -> Tensor:
        """Return elements in a row from number `offset` on; the same tensor each time, so that it is read once."""
        key = (storage, offset, shape)
        if key not in self.windows:
            begin = storage.begin + offset * storage.dtype.itemsize
            leaf = leaf_of_file(self.runtime, self.disk, begin, shape, storage.dtype, self.place)
            self.windows[key] = Tensor.of(leaf, self.runtime)
        return Tensor.of(self.windows[key].node, self.runtime)
