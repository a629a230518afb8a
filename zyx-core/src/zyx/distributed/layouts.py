"""What is known of parameters of which this process has a part: of what, and where in it.

A parameter stays the object that it was, with its name, and stands for the part. What it is a part of is its attribute
`layout`, which copies have as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zyx.distributed.sharding import bounds, cut, joined

if TYPE_CHECKING:
    from zyx.distributed.group import Group
    from zyx.nn.parameter import Parameter
    from zyx.shape import Shape
    from zyx.tensor.tensor import Tensor


@dataclass(frozen=True, slots=True)
class ShardSplit:
    """One division of a tensor, or of a part of one.

    Attributes:
        axis: Which is divided.
        group: Among which processes.
        length: Of the axis, before.
        is_gathered: Whether layers put it together again before they compute; else they compute with the part.
    """

    axis: int
    group: Group
    length: int
    is_gathered: bool


@dataclass(frozen=True, slots=True)
class ShardLayout:
    """Where a part lies in the whole: a box.

    Attributes:
        shape: Of the whole.
        starts: Where the part begins, on each axis.
        sizes: Of the part, on each axis.
        splits: How it came about, in order.
    """

    shape: Shape
    starts: Shape
    sizes: Shape
    splits: tuple[ShardSplit, ...] = ()

    @classmethod
    def whole(cls, shape: Shape) -> ShardLayout:
        """Return that of a tensor which is not divided."""
        return cls(shape, (0,) * len(shape), shape)

    @property
    def gathered(self) -> ShardSplit | None:
        """The division that layers undo before they compute, if there is one; it is the last."""
        return self.splits[-1] if self.splits and self.splits[-1].is_gathered else None

    def divided(self, axis: int, group: Group, *, is_gathered: bool = False) -> ShardLayout:
        """Return that of this process' part of the part."""
        start, stop = bounds(self.sizes[axis], group)
        starts, sizes = list(self.starts), list(self.sizes)
        starts[axis], sizes[axis] = starts[axis] + start, stop - start
        split = ShardSplit(axis, group, self.sizes[axis], is_gathered)
        return ShardLayout(self.shape, tuple(starts), tuple(sizes), (*self.splits, split))

    def part_of(self, whole: Tensor) -> Tensor:
        """Return the part of a tensor of which this process has the whole."""
        for split in self.splits:
            whole = cut(whole, split.axis, split.group)
        return whole

    def joined(self, part: Tensor) -> Tensor:
        """Return the whole, which all processes have parts of and call this for."""
        for split in reversed(self.splits):
            part = joined(part, split.axis, split.group, split.length)
        return part


def layout_of(tensor: Tensor) -> ShardLayout:
    """Return the layout of a parameter; of one that was not divided, and of other tensors, the whole."""
    layout: ShardLayout | None = getattr(tensor, "layout", None)
    return ShardLayout.whole(tensor.shape) if layout is None else layout


def divide(parameter: Parameter, axis: int, group: Group, *, is_gathered: bool = False) -> None:
    """Let a parameter stand for this process' part of its value; it has no gradient afterwards."""
    layout = layout_of(parameter).divided(axis, group, is_gathered=is_gathered)
    runtime = parameter.runtime
    # A copy by the host: a view would keep the whole in memory.
    part = cut(parameter.detach(), axis, group).numpy()
    parameter.grad = None
    runtime.assign(parameter, runtime.upload(part, parameter.node.device))
    parameter.layout = layout
