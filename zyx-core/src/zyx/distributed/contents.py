"""What a checkpoint of several processes has: pieces in memory, who writes which, and the index of what was written."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from zyx.distributed.layouts import ShardLayout, layout_of
from zyx.dtype import as_dtype
from zyx.errors import DTypeError, FormatError, StateError, TransferError
from zyx.nn.module import Module
from zyx.optim.group import OptimizerGroup
from zyx.optim.optimizer import Optimizer
from zyx.tensor.generator import Generator
from zyx.tensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from zyx.dtype import DType
    from zyx.shape import Shape

FORMAT: Final = "zyx sharded 1"
#: Starts and sizes.
Box: TypeAlias = "tuple[Shape, Shape]"


@dataclass(frozen=True, slots=True)
class Piece:
    """A tensor, or this process' part of one.

    Attributes:
        key: Of the state that it belongs to.
        name: In the checkpoint.
        tensor: The values.
        shape: Of the whole.
        box: Where the piece lies in it.
        value: Of what must be the same in all processes and is looked at: a text of it; else "".
    """

    key: str
    name: str
    tensor: Tensor
    shape: Shape
    box: Box
    value: str = ""

    def told(self) -> list[Any]:
        """Return what other processes are told of it."""
        return [self.name, self.tensor.dtype.name, self.shape, *self.box, self.value]


def contents(state: Mapping[str, Any], what: str) -> list[Piece]:
    """Return the pieces of a state.

    Raises:
        DTypeError: Something that cannot be saved.
        StateError: An optimiser keeps something of another shape than the part of a parameter; or a name comes twice.
    """
    pieces: list[Piece] = []
    for key, thing in state.items():
        if isinstance(thing, Generator):
            layout = ShardLayout.whole(thing.state.shape)
            value = str(thing.state.tolist())
            pieces.append(Piece(key, key, thing.state, layout.shape, (layout.starts, layout.sizes), value))
            continue
        for name, tensor, layout in _named(thing, key, what):
            pieces.append(Piece(key, name, tensor, layout.shape, (layout.starts, layout.sizes)))
    names = [piece.name for piece in pieces]
    if len(set(names)) < len(names):
        raise StateError(f"{what}: {next(name for name in names if names.count(name) > 1)!r} comes twice")
    return pieces


def _named(thing: object, key: str, what: str) -> Iterator[tuple[str, Tensor, ShardLayout]]:
    if isinstance(thing, Tensor):
        yield key, thing, layout_of(thing)
    elif isinstance(thing, Module):
        for name, tensor in thing.state_dict(keep_vars=True).items():
            yield f"{key}.{name}", tensor, layout_of(tensor)
    elif isinstance(thing, Optimizer):
        layouts = _layouts_of_state(thing)
        for name, tensor in thing.state_dict().items():
            yield f"{key}.{name}", tensor, layouts.get(name, ShardLayout.whole(tensor.shape))
    elif isinstance(thing, OptimizerGroup):
        for number, optimizer in enumerate(thing.optimizers):
            yield from _named(optimizer, f"{key}.{number}", what)
    else:
        raise DTypeError(
            f"{what}: {key!r} is a {type(thing).__name__}; modules, optimisers, generators and tensors are saved"
        )


def _layouts_of_state(optimizer: Optimizer) -> dict[str, ShardLayout]:
    """Return the layouts of what an optimiser keeps for parameters of which this process has a part."""
    found: dict[str, ShardLayout] = {}
    for kind, tensors in optimizer.state.items():
        for name, parameter, kept in zip(optimizer.names, optimizer.params, tensors, strict=True):
            layout = layout_of(parameter)
            if not layout.splits or kept.shape == ():
                continue
            if kept.shape != layout.sizes:
                raise StateError(
                    f"{type(optimizer).__name__} keeps {kind} of shape {kept.shape} for the part {layout.sizes} of "
                    f"parameter {name}; what is not of each element cannot be put together"
                )
            found[f"{name}.{kind}"] = layout
    return found


# ---- who writes what


def owners(told: Sequence[Sequence[Sequence[Any]]]) -> dict[str, dict[Box, int]]:
    """Return for each name and box the rank of the process that writes it: of those that have it, one with less to do.

    Args:
        told: By rank, what each process has; see `Piece.told`.

    Raises:
        StateError: Processes have different names, or something whole that differs, or boxes that leave something out.
    """
    written = [0] * len(told)
    found: dict[str, dict[Box, int]] = {}
    for rank, theirs in enumerate(told):
        if [each[0] for each in theirs] != [each[0] for each in told[0]]:
            other = sorted({each[0] for each in theirs} ^ {each[0] for each in told[0]})
            raise StateError(f"ranks 0 and {rank} save different things: {', '.join(other) or 'in another order'}")
    for same in zip(*told, strict=True):
        name, dtype, shape = same[0][:3]
        for rank, each in enumerate(same):
            if each[1:3] != same[0][1:3]:
                raise StateError(
                    f"{name} is {dtype} {shape} on rank 0, and {each[1]} {each[2]} on rank {rank}; of parts, those are "
                    "known that fully_shard and parallelize make"
                )
            if each[5] != same[0][5]:
                raise StateError(
                    f"the random generator {name} has another state on rank {rank} than on rank 0; save one that is "
                    "seeded alike, or none"
                )
        having: dict[Box, list[int]] = {}
        for rank, each in enumerate(same):
            having.setdefault((tuple(each[3]), tuple(each[4])), []).append(rank)
        boxes = {box: min(ranks, key=lambda rank: written[rank]) for box, ranks in having.items() if 0 not in box[1]}
        for (_, sizes), rank in boxes.items():
            written[rank] += math.prod(sizes) * as_dtype(dtype).itemsize
        if sum(math.prod(sizes) for _, sizes in boxes) != math.prod(shape):
            raise StateError(f"the parts of {name}, {shape}, that these processes have are not the whole")
        found[name] = boxes
    return found


def index_from(
    save: int, told: Sequence[Sequence[Any]], owned: Mapping[str, Mapping[Box, int]], files: Sequence[str]
) -> dict[str, Any]:
    """Return what the index says."""
    tensors = {}
    for name, dtype, shape, *_ in told:
        parts = [
            {"file": files[rank], "starts": list(starts), "sizes": list(sizes)}
            for (starts, sizes), rank in owned[name].items()
        ]
        tensors[name] = {"dtype": dtype, "shape": list(shape), "parts": parts}
    return {"format": FORMAT, "save": save, "tensors": tensors}


# ---- what was written


@dataclass(frozen=True, slots=True)
class StoredPart:
    """A box of a tensor, and the file that has it under the name of the tensor."""

    file: str
    starts: Shape
    sizes: Shape


@dataclass(frozen=True, slots=True)
class CheckpointEntry:
    """A tensor of a checkpoint."""

    dtype: DType
    shape: Shape
    parts: tuple[StoredPart, ...]

    @staticmethod
    def check(folder: Path, name: str, is_right: bool) -> None:
        """Raise `FormatError` if the files do not have what the index says."""
        if not is_right:
            raise FormatError(f"{folder}: the files do not have of {name} what the index says")


@dataclass(frozen=True, slots=True)
class CheckpointIndex:
    """An index.

    Attributes:
        save: Its number among those that the folder has had.
        tensors: What there is, by name.
    """

    save: int
    tensors: dict[str, CheckpointEntry]

    @classmethod
    def read(cls, path: Path) -> CheckpointIndex:
        """Return what a file says.

        Raises:
            TransferError: It cannot be read.
            FormatError: It is none.
        """
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise TransferError(f"{path} cannot be read: {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise FormatError(f"{path} is no text: {error}") from error
        try:
            found = json.loads(text)
            if found["format"] != FORMAT:
                raise ValueError(f"its format is {found['format']!r:.80}, and not {FORMAT!r}")
            return cls(int(found["save"]), {name: _entry(entry) for name, entry in found["tensors"].items()})
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise FormatError(f"{path} is no index of a checkpoint: {str(error)[:200]}") from error


def _entry(given: Mapping[str, Any]) -> CheckpointEntry:
    """Return an entry; whatever is wrong with it is one of the errors that `CheckpointIndex.read` knows."""
    parts = tuple(
        StoredPart(_plain(part["file"]), _counts(part["starts"]), _counts(part["sizes"])) for part in given["parts"]
    )
    shape = _counts(given["shape"])
    for part in parts:
        fits = len(part.starts) == len(part.sizes) == len(shape) and all(
            start + size <= length for start, size, length in zip(part.starts, part.sizes, shape, strict=True)
        )
        if not fits:
            raise ValueError(f"{part} is no part of {shape}")
    return CheckpointEntry(as_dtype(given["dtype"]), shape, parts)


def _plain(name: object) -> str:
    if not isinstance(name, str) or name in {"", ".", ".."} or any(sign in name for sign in "/\\:\0"):
        raise ValueError(f"{name!r:.200} is no name of a file beside the index")
    return name


def _counts(values: object) -> Shape:
    if not isinstance(values, list) or not all(type(value) is int and value >= 0 for value in values):
        raise ValueError(f"{values!r:.200} are no counts")
    return tuple(values)
