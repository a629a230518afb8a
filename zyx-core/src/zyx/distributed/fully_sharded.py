"""Parameters, gradients and the state of optimisers in parts: each process keeps one, and layers put them together.

    for block in model.blocks:
        dist.fully_shard(block, mesh)
    dist.fully_shard(model, mesh)                       what is left: embeddings, the last layer
    optimizer = optim.AdamW(model.parameters())         moments of the parts alone

                    forward of a block                              its gradient
    parts  ->  one all_gather of all of its parameters    <-    one reduce_scatter of their gradients

It is what PyTorch calls FSDP2, and DeepSpeed stage 3 of ZeRO (https://arxiv.org/abs/1910.02054). Parameters are the
objects that they were, with their names: so optimisers, saved state and code that goes through them stay as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from zyx.distributed.conjugates import gathered, spread
from zyx.distributed.layouts import ShardSplit, divide, layout_of
from zyx.distributed.sharding import padded
from zyx.errors import DTypeError, StateError
from zyx.functions.joining import concat
from zyx.nn.module import Module
from zyx.nn.parameter import Parameter
from zyx.nn.tree import places

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.distributed.group import Group
    from zyx.distributed.mesh import Mesh
    from zyx.tensor.tensor import Tensor

__all__ = ["fully_shard"]

_MARK: Final = "_fully_sharded"


def fully_shard(module: Module, mesh: Mesh, axis: str = "data") -> Module:
    """Let each process keep a part of each parameter in `module`; put them together where it is called.

    Parameters are divided along their first axis, whatever its length (see `shard`), and one without axes stays whole.
    All that `module` and its parts have are gathered by one message for each dtype when `module` is called, and are
    there until its result is, and as long as gradients need them. What parts of it keep by an earlier call is theirs:
    call it for the blocks of a network first, and then for the network. Gradients of the parts are means over the
    processes along `axis`, as `average_gradients` gives them.

    Make optimisers afterwards. Those that look at each element by itself, such as SGD and Adam, do what they would do
    with whole parameters; Muon, Adafactor and the norms of `clip_grad_norm` would see parts.

    Args:
        module: A network, or a block of one, with the same values in all processes along `axis`.
        mesh: The processes.
        axis: Along which axis of the mesh parameters are divided.

    Returns:
        `module`.

    Raises:
        DTypeError: `module` is no module.
        StateError: It was given before, or shares a parameter with a module that was given with another axis or mesh.
        InvalidArgumentError: The mesh has no such axis.

    >>> mesh = zyx.distributed.Mesh({"data": -1})
    >>> layer = zyx.distributed.fully_shard(zyx.nn.Linear(3, 2), mesh)
    >>> [name for name, _ in layer.named_parameters()], layer(zyx.ones((1, 3))).shape
    (['weight', 'bias'], (1, 2))
    """
    if not isinstance(module, Module):
        raise DTypeError(f"fully_shard takes a module, not {type(module).__name__}")
    if is_fully_sharded(module):
        raise StateError(f"fully_shard: this {type(module).__name__} is fully sharded already")
    group = mesh.group(axis)
    if group.size > 1:
        own = _own_places(module)
        for name, _, _, tensor in own:
            split = layout_of(tensor).gathered
            if split is not None and split.group.engine is not group.engine:
                raise StateError(f"fully_shard: {name} is in parts along another axis, or of another mesh, already")
        for tensor in {id(tensor): tensor for _, _, _, tensor in own}.values():
            if tensor.ndim and layout_of(tensor).gathered is None:
                divide(tensor, 0, group, is_gathered=True)
        gatherer = _Gatherer(group, {name: layout_of(tensor).gathered for name, _, _, tensor in own})
        module.register_forward_pre_hook(gatherer.before, prepend=True)
        module.register_forward_hook(gatherer.after, always_call=True)
    vars(module)[_MARK] = True
    return module


def is_fully_sharded(module: Module) -> bool:
    """Whether the module gathers its parameters itself."""
    return _MARK in vars(module)


def _own_places(module: Module) -> list[tuple[str, Any, Any, Parameter]]:
    """Return the places of the parameters of floats that `module` gathers, as `zyx.nn.tree.places` has them."""
    return [
        (name, holder, key, tensor)
        for name, holder, key, tensor in places(module, Module, skip=is_fully_sharded)
        if isinstance(tensor, Parameter) and tensor.dtype.is_inexact
    ]


class _Gatherer:
    """Puts whole parameters in the places of parts while a module computes.

    Attributes:
        splits: How the parameter of each name was divided; None for those that are whole.
    """

    def __init__(self, group: Group, splits: dict[str, ShardSplit | None]) -> None:
        self._group, self.splits = group, splits
        self._replaced: list[list[tuple[Any, Any, Tensor]]] = []

    def before(self, module: Module, args: tuple[Any, ...]) -> None:
        # What is there now: zyx.nn.functional_call may have put other tensors there.
        found = [place for place in places(module, Module, skip=is_fully_sharded) if place[0] in self.splits]
        parts = {id(tensor): (tensor, self.splits[name]) for name, _, _, tensor in found}
        wholes = dict(zip(parts, _wholes([*parts.values()], self._group), strict=True))
        self._replaced.append([place[1:] for place in found])
        for _, holder, key, tensor in found:
            holder[key] = wholes[id(tensor)]

    def after(self, module: Module, args: tuple[Any, ...], result: object) -> None:
        if self._replaced:  # else they could not be gathered
            for holder, key, tensor in self._replaced.pop():
                holder[key] = tensor


def _wholes(parts: Sequence[tuple[Tensor, ShardSplit | None]], group: Group) -> list[Tensor]:
    """Return the whole tensors, in order; one message for each dtype and device."""
    found: dict[int, Tensor] = {}
    kinds: dict[tuple[str, str], list[int]] = {}
    for number, (tensor, split) in enumerate(parts):
        if split is None:
            found[number] = spread(tensor, group, "mean")
        else:
            kinds.setdefault((tensor.dtype.name, tensor.device), []).append(number)
    for numbers in kinds.values():
        chosen = [(tensor, split.length) for tensor, split in (parts[number] for number in numbers) if split]
        found |= zip(numbers, _gathered(chosen, group), strict=True)
    return [found[number] for number in range(len(parts))]


def _gathered(parts: Sequence[tuple[Tensor, int]], group: Group) -> list[Tensor]:
    """Return the tensors whose parts along axis 0 are given, with the whole lengths; all of one dtype."""
    equal = [padded(tensor, 0, group, length) for tensor, length in parts]
    rows = gathered(concat([tensor.reshape((-1,)) for tensor in equal]), group).reshape((group.size, -1))
    wholes, start = [], 0
    for part, (_, length) in zip(equal, parts, strict=True):
        stop = start + part.numel()
        whole = rows[:, start:stop].reshape((group.size * part.shape[0], *part.shape[1:]))
        wholes.append(whole[:length])
        start = stop
    return wholes
