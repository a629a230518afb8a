"""Pairs of operations, of which each is the gradient of the other, around what processes compute parts of.

                    result                          gradient
    spread          what it is given                the sum (or mean) of all
    summed          the sum of all                  what it is given
    put_together    all parts, joined               this process' part

They are for values that all processes of a group have alike, before and behind: there each process takes the gradient
of the same loss, and a sum of their gradients, as `all_reduce` has it, would count it once for each of them.
Megatron-LM calls the first two f and g: https://arxiv.org/abs/1909.08053, section 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.autograd.custom import custom_gradient
from zyx.distributed.operations import all_gather, all_reduce, reduce_scatter
from zyx.distributed.sharding import cut, joined

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from zyx.distributed.group import Group
    from zyx.tensor.tensor import Tensor


def spread(x: Tensor, group: Group, op: str = "sum") -> Tensor:
    """Return `x`, whose gradient is the combination of those of all processes."""

    @custom_gradient
    def same(x: Tensor) -> tuple[Tensor, Callable[[Tensor], Any]]:
        return x, lambda slope: all_reduce(slope, op, group)

    return x if group.size == 1 else same(x)


def summed(x: Tensor, group: Group) -> Tensor:
    """Return the sum of `x` of all processes, whose gradient goes to each of them."""

    @custom_gradient
    def total(x: Tensor) -> tuple[Tensor, Callable[[Tensor], Any]]:
        return all_reduce(x, "sum", group), lambda slope: slope

    return x if group.size == 1 else total(x)


def put_together(x: Tensor, axis: int, group: Group, length: int) -> Tensor:
    """Return the axis of `length` that the processes have the parts of; each takes the gradient at its own part."""

    @custom_gradient
    def whole(x: Tensor) -> tuple[Tensor, Callable[[Tensor], Any]]:
        return joined(x, axis, group, length), lambda slope: cut(slope, axis, group)

    return x if group.size == 1 else whole(x)


def gathered(x: Tensor, group: Group) -> Tensor:
    """Return `x` of all processes, joined along axis 0; each has the mean of the gradients at its own."""

    @custom_gradient
    def whole(x: Tensor) -> tuple[Tensor, Callable[[Tensor], Any]]:
        return all_gather(x, 0, group), lambda slope: reduce_scatter(slope, 0, "mean", group)

    return whole(x)  # type: ignore[no-any-return]  # a tensor
