"""What a training run needs to go on, in files that each process writes and reads its part of.

    state = {"model": model, "optimizer": optimizer, "random": zyx.default_generator()}
    dist.save_sharded("checkpoint", state)          checkpoint/0001-00000-of-00002.safetensors     by process 0
                                                    checkpoint/0001-00001-of-00002.safetensors     by process 1
                                                    checkpoint/index.json                          at last, by process 0
    dist.load_sharded("checkpoint", state)          in as many processes as there are then

The index says of each tensor what shape the whole has, and which boxes of it lie where:

    {"format": "zyx sharded 1", "save": 1, "tensors": {"model.0.weight": {"dtype": "float32", "shape": [5, 3], "parts":
        [{"file": "0001-00000-of-00002.safetensors", "starts": [0, 0], "sizes": [3, 3]}, ...]}}}

It is put in the place of the one before when all files are there, so that the folder has a whole checkpoint at any
time; what it does not name is removed then. What several processes have alike is written by one of them.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zyx.distributed.contents import CheckpointEntry, CheckpointIndex, contents, index_from, owners
from zyx.distributed.group import Group, init
from zyx.distributed.operations import all_gather
from zyx.errors import FormatError, StateError, TransferError, UnsupportedError, ZyxError
from zyx.io.header import DTYPES, read_header
from zyx.io.replacing import replacing
from zyx.io.safetensors_file import save_safetensors
from zyx.runtime.runtime import current
from zyx.tensor.generator import Generator
from zyx.tensor.loading import load_into
from zyx.tensor.tensor import Tensor

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from zyx.distributed.contents import Piece
    from zyx.io.header import Header

__all__ = ["load_sharded", "save_sharded"]

INDEX: Final = "index.json"
_FILE: Final = re.compile(r"\d{4,}-\d{5,}-of-\d{5,}\.safetensors")


def save_sharded(folder: str | os.PathLike[str], state: Mapping[str, Any], group: Group | None = None) -> None:
    """Write modules, optimisers, random generators and tensors to a folder; each process writes its part.

    Parts are those of `fully_shard` and `parallelize`; of everything else all processes have the same. A checkpoint
    that is in the folder stays readable until this one is whole, and is removed then.

    Args:
        folder: Is made if there is none. All processes see the same one.
        state: By name, modules, optimisers, tensors and objects of `zyx.Generator`.
        group: The processes; None is all.

    Raises:
        StateError: Processes differ in what is saved, or in the state of a generator; or an optimiser keeps something
            of another shape than the part of a parameter. Nothing is written then.
        DTypeError: Something that is none of these, or complex128.
        TransferError: A process cannot write. All of them raise it, and the checkpoint before stays.
        CollectiveError: A process does not come.

    >>> import tempfile
    >>> layer = zyx.nn.Linear(2, 1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     zyx.distributed.save_sharded(folder, {"model": layer})
    ...     zyx.distributed.load_sharded(folder, {"model": zyx.nn.Linear(2, 1)})
    """
    chosen = init() if group is None else group
    pieces = contents(state, "save_sharded")
    told = [[piece.told() for piece in pieces], _number_before(folder) if chosen.rank == 0 else 0]
    all_told = _exchanged(told, chosen)
    number = all_told[0][1] + 1
    owned = owners([each for each, _ in all_told])
    files = [f"{number:04}-{rank:05}-of-{chosen.size:05}.safetensors" for rank in range(chosen.size)]
    failure = ""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        mine = {piece.name: piece.tensor for piece in pieces if owned[piece.name].get(piece.box) == chosen.rank}
        save_safetensors(Path(folder, files[chosen.rank]), mine)
    except (ZyxError, OSError) as error:  # the others must know, or would wait
        failure = str(error)
    _check_all("save_sharded", failure, chosen)
    if chosen.rank == 0:
        try:
            with replacing(Path(folder, INDEX)) as temporary:
                temporary.write_text(json.dumps(index_from(number, all_told[0][0], owned, files)), encoding="utf-8")
            _remove_others(Path(folder), files)
        except (ZyxError, OSError) as error:
            failure = str(error)
    _check_all("save_sharded", failure, chosen)


def load_sharded(folder: str | os.PathLike[str], state: Mapping[str, Any], group: Group | None = None) -> None:
    """Take over what `save_sharded` wrote, in any number of processes, divided in any way.

    Args:
        folder: What was given to `save_sharded`.
        state: The same things by the same names. Each process reads what it has parts of. What was saved under other
            names is not looked at.
        group: The processes; None is all.

    Raises:
        StateError: Something is missing, or has another shape.
        FormatError: The index or a file is not well formed.
        DTypeError: Something in `state` that can be neither saved nor loaded.
        TransferError: The folder has no checkpoint, or cannot be read.
        CollectiveError: A process does not come. After any of these nothing has changed, if all processes raise it.

    >>> zyx.distributed.load_sharded("nowhere", {})
    Traceback (most recent call last):
    ...
    zyx.errors.TransferError: load_sharded: rank 0: nowhere/index.json cannot be read: No such file or directory
    """
    chosen = init() if group is None else group
    pieces = contents(state, "load_sharded")
    found: dict[str, npt.NDArray[Any]] = {}
    headers: dict[str, Header] = {}
    failure: ZyxError | None = None
    try:
        index = CheckpointIndex.read(Path(folder, INDEX))
        missing = [piece.name for piece in pieces if piece.name not in index.tensors]
        if missing:
            raise StateError(f"{folder} has no {', '.join(missing)}; it has {', '.join(index.tensors)}")
        for piece in pieces:
            found[piece.name] = _read(Path(folder), piece, index.tensors[piece.name], headers)
    except ZyxError as error:
        failure = error
    _check_all("load_sharded", "" if failure is None else str(failure), chosen, failure)
    for key, thing in state.items():
        own = {piece.name: piece for piece in pieces if piece.key == key}
        if isinstance(thing, Tensor | Generator):
            load_into({key: own[key].tensor}, {key: found[key]}, "load_sharded")
        else:
            thing.load_state_dict({name.removeprefix(f"{key}."): found[name] for name in own})


def _read(folder: Path, piece: Piece, entry: CheckpointEntry, headers: dict[str, Header]) -> npt.NDArray[Any]:
    """Return the values of a piece, out of the boxes that were saved; `headers` of files are read once.

    Raises:
        StateError: The whole has another shape.
        FormatError: The boxes leave something out.
    """
    if entry.shape != piece.shape:
        raise StateError(f"{piece.name} is {entry.shape} in {folder} and should be {piece.shape}")
    starts, sizes = piece.box
    stops = [start + size for start, size in zip(starts, sizes, strict=True)]
    values = np.empty(sizes, entry.dtype.numpy)
    is_filled = np.zeros(sizes, np.bool_)
    for part in entry.parts:
        low = [max(own, other) for own, other in zip(starts, part.starts, strict=True)]
        part_stops = [start + size for start, size in zip(part.starts, part.sizes, strict=True)]
        high = [min(own, other) for own, other in zip(stops, part_stops, strict=True)]
        if any(begin >= end for begin, end in zip(low, high, strict=True)):
            continue
        if part.file not in headers:
            headers[part.file] = read_header(folder / part.file)
        stored = _stored(folder / part.file, headers[part.file], piece.name)
        entry.check(folder, piece.name, stored.shape == part.sizes and stored.dtype == entry.dtype.numpy)
        inner = tuple(slice(b - s, e - s) for b, e, s in zip(low, high, part.starts, strict=True))
        outer = tuple(slice(b - s, e - s) for b, e, s in zip(low, high, starts, strict=True))
        values[outer] = stored[inner]
        is_filled[outer] = True
    entry.check(folder, piece.name, bool(is_filled.all()))
    return values


def _stored(path: Path, header: Header, name: str) -> npt.NDArray[Any]:
    """Return a tensor of a safetensors file, of which no more is read than is used, and nothing by a device.

    Raises:
        FormatError: The file has no such tensor, or one of a dtype that we have not.
        TransferError: It cannot be read.
        UnsupportedError: This machine stores numbers most significant byte first.
    """
    if sys.byteorder != "little":
        raise UnsupportedError(f"{path} holds little-endian numbers, which this machine does not compute with")
    if name not in header.entries:
        raise FormatError(f"{path} has no tensor {name!r}; it has {', '.join(header.entries)}")
    entry = header.entries[name]
    if entry.dtype not in DTYPES:
        raise FormatError(f"{path}: tensor {name!r} has dtype {entry.dtype}; there are {', '.join(DTYPES)}")
    try:
        return np.memmap(path, DTYPES[entry.dtype].numpy, "r", entry.begin, entry.shape)
    except OSError as error:
        raise TransferError(f"{path} cannot be read: {error.strerror or error}") from error


def _number_before(folder: str | os.PathLike[str]) -> int:
    """Return the number of the save that is in a folder; 0 if there is none that can be read."""
    with contextlib.suppress(ZyxError):
        return CheckpointIndex.read(Path(folder, INDEX)).save
    return 0


def _remove_others(folder: Path, files: Sequence[str]) -> None:
    for path in folder.iterdir():
        if _FILE.fullmatch(path.name) and path.name not in files:
            path.unlink(missing_ok=True)


def _check_all(what: str, failure: str, group: Group, cause: ZyxError | None = None) -> None:
    """Raise an error in all processes if one of them has a failure: its own, or that the other one has it."""
    failures = _exchanged(failure, group)
    if cause is not None:
        raise type(cause)(f"{what}: rank {group.rank}: {cause}") from cause
    for rank, text in enumerate(failures):
        if text:
            raise TransferError(f"{what}: rank {rank}: {text}")


def _exchanged(value: object, group: Group) -> list[Any]:
    """Return what JSON makes of the values of all processes."""
    text = np.frombuffer(json.dumps(value).encode(), np.uint8)
    if group.size == 1:
        return [json.loads(text.tobytes())]
    with current().traced_by(None):
        lengths = all_gather(Tensor(np.array([text.size])), 0, group).tolist()
        row = np.zeros((1, max(lengths)), np.uint8)
        row[0, : text.size] = text
        rows = all_gather(Tensor(row), 0, group).numpy()
    return [json.loads(each[:length].tobytes()) for each, length in zip(rows, lengths, strict=True)]
