"""Call a module with other tensors in the place of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zyx.errors import DTypeError, ShapeError, StateError
from zyx.functions.operands import is_tensor
from zyx.nn.module import Module
from zyx.nn.tree import places

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.tensor.tensor import Tensor


def functional_call(
    module: Module,
    parameters: Mapping[str, Tensor] | Sequence[Mapping[str, Tensor]],
    args: Any = (),  # noqa: ANN401  # what the module takes
    kwargs: Mapping[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:  # noqa: ANN401  # what the module returns
    """Return ``module(*args, **kwargs)`` with other parameters and buffers; the module is as it was afterwards.

    So gradients, `zyx.vjp` and the like may be taken with respect to a dict of parameters::

        grads = zyx.grad(lambda params: loss(functional_call(net, params, (x,)), y))(dict(net.named_parameters()))

    Args:
        module: What is called. Not in two threads at the same time.
        parameters: Tensors by the names of `Module.named_parameters` and `Module.named_buffers`; or several such dicts.
        args: A tuple of arguments, or one that is no tuple.
        kwargs: Keywords.
        tie_weights: Whether a tensor that has several names is replaced under each.
        strict: Whether all parameters and buffers must be given.

    Raises:
        StateError: A name that the module does not have, or with `strict`, one that is not given.
        ShapeError: A tensor of another shape.
        DTypeError: Something that is no tensor, or no module.

    >>> layer = zyx.nn.Linear(2, 1, bias=False)
    >>> zyx.nn.functional_call(layer, {"weight": zyx.ones(1, 2)}, zyx.Tensor([[3.0, 4.0]])).tolist()
    [[7.0]]
    """
    if not isinstance(module, Module):
        raise DTypeError(f"functional_call takes a module, not {type(module).__name__}")
    given: dict[str, Tensor] = {}
    for each in [parameters] if hasattr(parameters, "keys") else parameters:
        given.update(each)  # type: ignore[arg-type]  # a mapping
    found = list(places(module, Module))
    own = {name: tensor for name, _, _, tensor in found}
    unknown = [name for name in given if name not in own]
    missing = [name for name in own if name not in given] if strict else []
    if unknown or missing:
        problems = [f"{len(unknown)} unknown: {', '.join(unknown)}"] if unknown else []
        problems += [f"{len(missing)} missing: {', '.join(missing)}"] if missing else []
        raise StateError(f"functional_call: {type(module).__name__}: {'; '.join(problems)}")
    for name, tensor in given.items():
        if not is_tensor(tensor):
            raise DTypeError(f"functional_call: {name} is a tensor, not {type(tensor).__name__}")
        if tensor.shape != own[name].shape:
            raise ShapeError(f"functional_call: {name} is {tensor.shape} and should be {own[name].shape}")
    tied = {id(own[name]): tensor for name, tensor in given.items()} if tie_weights else {}
    changed = []
    try:
        for name, holder, key, tensor in found:
            new = given.get(name, tied.get(id(tensor)))
            if new is not None:
                changed.append((holder, key, tensor))
                holder[key] = new
        return module(*(args if isinstance(args, tuple) else (args,)), **(kwargs or {}))
    finally:
        for holder, key, tensor in changed:
            holder[key] = tensor
