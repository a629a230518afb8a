"""Bound gradients before a step: those given, of which bounded ones are returned; or ``.grad`` of parameters.

grads, norm = clip_grad_norm(grads, 1.0); optimizer.step(grads)
loss.backward(); norm = clip_grad_norm_(model.parameters(), 1.0); optimizer.step()
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx.errors import GradientError, ShapeError
from zyx.functions.operands import is_tensor, wrap
from zyx.functions.term import Term
from zyx.tensor.creation import full

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zyx.tensor.tensor import Tensor


def clip_grad_norm(
    grads: Sequence[Tensor | None], max_norm: float, norm_type: float = 2.0
) -> tuple[list[Tensor | None], Tensor]:
    """Scale all gradients by one number, such that their norm, as of one long vector, is at most `max_norm`.

    Gradients keep their shapes; the norm has none, ().

    Args:
        grads: Gradients, None among them.
        max_norm: At least 0.
        norm_type: p of the p-norm; infinity is the greatest magnitude.

    Returns:
        The gradients, and their norm before, float32 (float64 if one is). A norm that is not finite makes them all NaN.

    Raises:
        GradientError: No gradients.
        ShapeError: A negative `max_norm`, or a `norm_type` not above 0.

    >>> grads, norm = zyx.optim.clip_grad_norm([zyx.Tensor([3.0, 4.0])], 2.5)
    >>> [round(v, 4) for v in grads[0].tolist()], norm.item()
    ([1.5, 2.0], 5.0)
    """
    if not max_norm >= 0.0 or not norm_type > 0.0:
        raise ShapeError(f"clip_grad_norm: max_norm {max_norm} is at least 0, norm_type {norm_type} is above 0")
    given = [grad for grad in grads if is_tensor(grad)]
    if not given:
        raise GradientError("clip_grad_norm was given no gradients")
    graph, device = given[0].runtime.graph, given[0].node.device
    wide = dtypes.float64 if any(grad.node.dtype is dtypes.float64 for grad in given) else dtypes.float32
    parts = []
    for grad in given:
        size = Term(graph, grad.node).cast(wide).abs()
        axes = range(len(size.shape))
        if norm_type == math.inf:
            part = size.max(axes) if 0 not in size.shape else size.sum(axes)
        else:
            part = (size * size if norm_type == 2.0 else (size.log() * norm_type).exp()).sum(axes)
        parts.append(Term(graph, graph.to_device(part.reshape(()).node, device)))
    total = parts[0]
    for part in parts[1:]:
        total = total.maximum(part) if norm_type == math.inf else total + part
    if norm_type == 2.0:
        total = total.sqrt()
    elif norm_type != math.inf:
        total = (total.log() * (1.0 / norm_type)).exp()
    factor = (total.like(max_norm) / (total + 1e-6)).minimum(1.0)
    clipped = [None if grad is None else _scaled(grad, factor) for grad in grads]
    return clipped, wrap(total.node, given[0])


def _scaled(grad: Tensor, factor: Term) -> Tensor:
    graph = factor.graph
    near = Term(graph, graph.to_device(factor.node, grad.node.device))
    wide = Term(graph, grad.node).cast(near.dtype)
    return wrap((wide * near).cast(grad.node.dtype).node, grad)


def clip_grad_value(grads: Sequence[Tensor | None], clip_value: float) -> list[Tensor | None]:
    """Return the gradients with each element between `-clip_value` and `clip_value`.

    Raises:
        ShapeError: `clip_value` is negative.

    >>> zyx.optim.clip_grad_value([zyx.Tensor([3.0, -4.0])], 3.5)[0].tolist()
    [3.0, -3.5]
    """
    if not clip_value >= 0.0:
        raise ShapeError(f"clip_grad_value: clip_value is at least 0, not {clip_value}")
    return [None if grad is None else grad.clip(-clip_value, clip_value) for grad in grads]


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Bound ``.grad`` of parameters as `clip_grad_norm` does; return the norm before.

    Args:
        parameters: Parameters; those without a gradient count for nothing.
        max_norm: At least 0.
        norm_type: p of the p-norm; infinity is the greatest magnitude.
        error_if_nonfinite: Whether the norm is read, and refused if it is not finite.
        foreach: Changes nothing.

    Returns:
        The norm of all gradients, of shape (); 0 where there are none.

    Raises:
        GradientError: The norm is not finite, with `error_if_nonfinite`. Then nothing has changed.
        ShapeError: A negative `max_norm`, or a `norm_type` not above 0.

    >>> w = zyx.Tensor([3.0, 4.0], requires_grad=True)
    >>> (w * w / 2).sum().backward()
    >>> norm = zyx.nn.utils.clip_grad_norm_([w], 1.0)
    >>> norm.item(), [round(v, 4) for v in w.grad.tolist()]
    (5.0, [0.6, 0.8])
    """
    with_grads = _with_grads(parameters)
    if not with_grads:
        return full((), 0.0)
    clipped, norm = clip_grad_norm([parameter.grad for parameter in with_grads], max_norm, norm_type)
    if error_if_nonfinite and not math.isfinite(norm.item()):
        raise GradientError(f"clip_grad_norm_: the norm of the gradients is {norm.item()}")
    for parameter, grad in zip(with_grads, clipped, strict=True):
        parameter.grad = grad
    return norm


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
    """Bound each element of ``.grad`` of parameters to between `-clip_value` and `clip_value`.

    `foreach` changes nothing.

    Raises:
        ShapeError: `clip_value` is negative.

    >>> w = zyx.Tensor([3.0, 4.0], requires_grad=True)
    >>> (w * w / 2).sum().backward()
    >>> zyx.nn.utils.clip_grad_value_([w], 3.5)
    >>> w.grad.tolist()
    [3.0, 3.5]
    """
    with_grads = _with_grads(parameters)
    clipped = clip_grad_value([parameter.grad for parameter in with_grads], clip_value)
    for parameter, grad in zip(with_grads, clipped, strict=True):
        parameter.grad = grad


def _with_grads(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    listed = [parameters] if is_tensor(parameters) else list(parameters)
    return [parameter for parameter in listed if parameter.grad is not None]
