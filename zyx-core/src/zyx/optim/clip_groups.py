"""Bound gradients group by group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.errors import GradientError, ShapeError
from zyx.tensor.clip import clip_grad_norm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.optim.optimizer import Optimizer
    from zyx.tensor.tensor import Tensor


def clip_grad_norm_by_group(
    optimizer: Optimizer,
    grads: Sequence[Tensor | None],
    max_norms: float | Sequence[float | None],
    norm_type: float = 2.0,
) -> tuple[list[Tensor | None], list[Tensor | None]]:
    """Scale the gradients of each parameter group such that the norm of the group is at most its bound.

    Each bound is one for all gradients of a group, whose shapes stay.

    Args:
        optimizer: Whose groups.
        grads: In the order of its parameters, None among them.
        max_norms: Of all groups, or each; None leaves a group as it is.
        norm_type: See `clip_grad_norm`.

    Returns:
        The gradients, and the norms of the groups before; None of those that were left, or have no gradients.

    Raises:
        GradientError: Another number of gradients than of parameters.
        ShapeError: Another number of bounds than of groups, or a negative one.

    >>> optimizer = zyx.optim.SGD([zyx.zeros(2, requires_grad=True)], lr=0.1)
    >>> found = zyx.optim.clip_grad_norm_by_group(optimizer, [zyx.Tensor([3.0, 4.0])], 2.5)
    >>> [round(v, 4) for v in found[0][0].tolist()]
    [1.5, 2.0]
    """
    listed, groups = list(grads), optimizer.param_groups
    bounds = [max_norms] * len(groups) if isinstance(max_norms, int | float) else list(max_norms)
    if len(listed) != len(optimizer.params):
        raise GradientError(f"clip_grad_norm_by_group: {len(listed)} gradients for {len(optimizer.params)} parameters")
    if len(bounds) != len(groups):
        raise ShapeError(f"clip_grad_norm_by_group: {len(bounds)} bounds for {len(groups)} groups")
    norms: list[Tensor | None] = []
    for group, bound in zip(groups, bounds, strict=True):
        start, stop = group.positions.start, group.positions.stop
        own = listed[start:stop]
        if bound is None or all(grad is None for grad in own):
            norms.append(None)
            continue
        listed[start:stop], norm = clip_grad_norm(own, bound, norm_type)
        norms.append(norm)
    return listed, norms
