"""Leaves that only plans have: what kernels are given at their launch, in place of what changes from run to run.

    Number      a scalar, in place of a constant
    Front       the front of a leaf, in place of one that is shorter
    Box         a box of a leaf from an element on that is a number, in place of a `Shrink` of the leaf; or what a step
                of a loop reads or writes of a sequence; or a leaf whose sizes are numbers
    Packed      a result whose sizes are numbers

No two are equal, so no graph has to make them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.graph.node import Contiguous, Leaf

if TYPE_CHECKING:
    from zyx.dtype import DType
    from zyx.graph.node import Node
    from zyx.shape import Shape


class Number(Leaf):
    """A scalar, of shape ().

    Attributes:
        most: Of a place among others, its greatest value; 0 is the least. Kernels keep to these bounds whatever they
            are given, and whoever gives it keeps to them, too. None of a number that may be any.
    """

    __slots__ = ("most",)

    def __init__(
        self, shape: Shape, dtype: DType, device: str, sources: tuple[()] = (), *, most: int | None = None
    ) -> None:
        super().__init__(shape, dtype, device, sources)
        self.most = most


class Front(Leaf):
    """A leaf of which the launch may give some elements in front only, the first one at least.

    Whoever makes a graph with it sees to it that no other is read: their number is a `Number` of the graph, or follows.
    """

    __slots__ = ()


class Box(Leaf):
    """A box of `data`, a node with storage, as `Shrink` cuts it out.

    Attributes:
        data: What it is cut out of.
        start: The row-major number of its first element there, an integer at the launch; None if it is the first.
        strides: How far apart its elements are there along the first axes, likewise; none if it is as `data` has them.
            If there are any, `data` has a single axis, and along the others they lie side by side.
        unit: What `start` and `strides` are given in multiples of.
        skipped: How many of its rows, counted over all axes but the last, read as 0; None if all are what they are.
        ends: How many places along each axis there are, likewise; None along those where all are. Others read as 0.
    """

    __slots__ = ("data", "ends", "skipped", "start", "strides", "unit")

    def __init__(
        self,
        shape: Shape,
        dtype: DType,
        device: str,
        data: Node,
        start: Number | None,
        strides: tuple[Number, ...] = (),
        unit: int = 1,
        skipped: Number | None = None,
        ends: tuple[Number | None, ...] = (),
    ) -> None:
        super().__init__(shape, dtype, device, ())
        self.data = data
        self.start = start
        self.strides = strides
        self.unit = unit
        self.skipped = skipped
        self.ends = ends

    @property
    def given(self) -> tuple[Node, ...]:
        """What a kernel is given for it: the buffer, and numbers."""
        numbers = (self.start, *self.strides, self.skipped, *self.ends)
        return (self.data, *(number for number in numbers if number is not None))


class Packed(Contiguous):
    """The places of a node in front of numbers, without gaps, in a buffer of its own that is as long as for all.

    Attributes:
        strides: How far apart its elements are along the first axes, integers at the launch; side by side along others.
        ends: How many places along each axis there are, likewise; None along those where all are.
    """

    __slots__ = ("ends", "strides")

    def __init__(self, source: Node, strides: tuple[Number, ...], ends: tuple[Number | None, ...]) -> None:
        super().__init__(source.shape, source.dtype, source.device, (source,))
        self.strides = strides
        self.ends = ends
