"""What is of whole parameters, where processes have parts: their values, and the norm of their gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.distributed.layouts import layout_of
from zyx.distributed.operations import all_reduce
from zyx.errors import GradientError, ShapeError, StateError
from zyx.functions.operands import is_tensor
from zyx.tensor.creation import zeros
from zyx.tensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.distributed.group import Group
    from zyx.nn.module import Module
    from zyx.tensor.loading import LoadReport

__all__ = ["clip_grad_norm", "full_state_dict", "load_full_state_dict"]


def full_state_dict(module: Module) -> dict[str, Tensor]:
    """Return the whole values of parameters and buffers by name, in each process; all of them call it.

    Names, order, shapes and dtypes are those that ``module.state_dict()`` had before `fully_shard` and `parallelize`.
    One process may save them by `zyx.save`. They take the memory of the whole in each process: see `save_sharded`.

    Raises:
        CollectiveError: A process does not come, or has other parts.

    >>> layer = zyx.distributed.fully_shard(zyx.nn.Linear(3, 2), zyx.distributed.Mesh({"data": -1}))
    >>> zyx.distributed.full_state_dict(layer)["weight"].shape
    (2, 3)
    """
    state = module.state_dict(keep_vars=True)
    return {name: layout_of(tensor).joined(tensor.detach()) for name, tensor in state.items()}


def load_full_state_dict(module: Module, state: Mapping[str, object], strict: bool = True) -> LoadReport:
    """Take over this process' parts of whole values, which it has all of; nothing is exchanged.

    Args:
        module: After `fully_shard` and `parallelize`, or neither.
        state: Tensors or arrays by name, of the shapes of the whole, such as `zyx.load` reads them: of a file, values
            are read as they are needed.
        strict: Whether names must agree, as in `zyx.nn.Module.load_state_dict`.

    Raises:
        StateError: Shapes differ, or with `strict`, names. Then nothing was changed.

    >>> layer = zyx.distributed.fully_shard(zyx.nn.Linear(2, 1), zyx.distributed.Mesh({"data": -1}))
    >>> _ = zyx.distributed.load_full_state_dict(layer, {"weight": zyx.ones((1, 2)), "bias": zyx.ones(1)})
    >>> layer(zyx.ones((1, 2))).tolist()
    [[3.0]]
    """
    own = module.state_dict(keep_vars=True)
    parts: dict[str, object] = dict(state)
    for name, value in state.items():
        layout = layout_of(own[name]) if name in own else None
        if layout is None or not layout.splits:
            continue
        whole = value if is_tensor(value) else Tensor(value)
        if whole.shape != layout.shape:
            raise StateError(f"load_full_state_dict: {name} is {whole.shape} and should be {layout.shape}, the whole")
        parts[name] = layout.part_of(whole)
    return module.load_state_dict(parts, strict=strict)


def clip_grad_norm(
    grads: Sequence[Tensor | None], params: Sequence[Tensor], max_norm: float
) -> tuple[list[Tensor | None], Tensor]:
    """Scale all gradients by one number, such that the norm of those of whole parameters is at most `max_norm`.

    It is `zyx.optim.clip_grad_norm` where processes have parts: each part counts once, and so does what is whole. All
    processes call it, and scale by the same number.

    Args:
        grads: Gradients of the parameters, in their order, None among them. Those of what all processes have are the
            same in all of them, as `average_gradients`, `fully_shard` and `parallelize` give them.
        params: The parameters.
        max_norm: At least 0.

    Returns:
        The gradients, in their shapes, and the norm before: float32, of shape (). A norm that is not finite makes them
        all NaN.

    Raises:
        GradientError: No gradients, or another number of them than of parameters.
        ShapeError: A negative `max_norm`.
        CollectiveError: A process does not come, or has other parts.

    >>> w = zyx.nn.Parameter(zyx.Tensor([0.0, 0.0]))
    >>> grads, norm = zyx.distributed.clip_grad_norm([zyx.Tensor([3.0, 4.0])], [w], 2.5)
    >>> [round(v, 4) for v in grads[0].tolist()], norm.item()
    ([1.5, 2.0], 5.0)
    """
    if not max_norm >= 0.0:
        raise ShapeError(f"clip_grad_norm: max_norm {max_norm} is at least 0")
    if len(grads) != len(params):
        raise GradientError(f"clip_grad_norm: {len(grads)} gradients of {len(params)} parameters")
    squares: dict[tuple[Group, ...], Tensor] = {}
    for grad, parameter in zip(grads, params, strict=True):
        if grad is not None:
            groups = tuple(split.group for split in layout_of(parameter).splits)
            square = (grad.astype("float32") ** 2).sum()
            squares[groups] = squares[groups] + square if groups in squares else square
    if not squares:
        raise GradientError("clip_grad_norm was given no gradients")
    total = zeros(())
    for groups, square in squares.items():
        for group in groups:
            square = all_reduce(square, "sum", group)
        total = total + square
    norm = total.sqrt()
    factor = (max_norm / (norm + 1e-6)).clip(max=1.0)
    return [None if grad is None else (grad * factor).astype(grad.dtype) for grad in grads], norm
