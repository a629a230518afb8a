"""Bound gradients before a step. Gradients are not changed: bounded ones are returned, in the same order."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx.errors import GradientError, ShapeError
from zyx.functions.operands import is_tensor, wrap
from zyx.functions.term import Term

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.tensor.tensor import Tensor


def clip_grad_norm(
    grads: Sequence[Tensor | None], max_norm: float, norm_type: float = 2.0
) -> tuple[list[Tensor | None], Tensor]:
    """Scale all gradients by one number, such that their norm, as of one long vector, is at most `max_norm`.

    Args:
        grads: Gradients, None among them.
        max_norm: At least 0.
        norm_type: p of the p-norm; infinity is the greatest magnitude.

    Returns:
        The gradients, and their norm before, float32 (float64 if one is). A norm that is not finite makes them all NaN.

    Raises:
        GradientError: No gradients.
        ShapeError: A negative `max_norm`, or a `norm_type` not above 0.
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
    """
    if not clip_value >= 0.0:
        raise ShapeError(f"clip_grad_value: clip_value is at least 0, not {clip_value}")
    return [None if grad is None else grad.clip(-clip_value, clip_value) for grad in grads]
