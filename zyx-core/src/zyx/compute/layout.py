"""Which elements of flat memory an array takes.

Layout(1, (2, 3), (4, 1))       . x x x . x x x .      2 rows of 3, the leading dimension 4, from element 1 on
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx.ops import BinaryOp
from zyx.shape import strides_of

if TYPE_CHECKING:
    from zyx.graph import Graph
    from zyx.graph.node import Node
    from zyx.shape import Shape


@dataclass(frozen=True, slots=True)
class ArrayLayout:
    """Elements of flat memory as an array.

    Attributes:
        start: The first element.
        sizes: Of the axes.
        strides: Elements from one to the next along each axis, >= 0; 0 reads the same ones again.
    """

    start: int
    sizes: Shape
    strides: Shape

    @property
    def count(self) -> int:
        """Number of elements of the array."""
        return prod(self.sizes)

    @property
    def reach(self) -> int:
        """Elements of memory from the first to behind the last."""
        if 0 in self.sizes:
            return 0
        return 1 + sum((size - 1) * stride for size, stride in zip(self.sizes, self.strides, strict=True))

    @property
    def is_dense(self) -> bool:
        """Whether the elements lie one behind the other, in row-major order."""
        wanted = strides_of(self.sizes)
        return all(
            size == 1 or stride == dense for size, stride, dense in zip(self.sizes, self.strides, wanted, strict=True)
        )

    @property
    def is_distinct(self) -> bool:
        """Whether no element of memory is surely taken twice: each axis steps over all that smaller steps reach."""
        reached = 0
        for stride, size in sorted((stride, size) for stride, size in zip(self.strides, self.sizes, strict=True)):
            if size > 1:
                if stride <= reached:
                    return False
                reached += (size - 1) * stride
        return True


def dense(start: int, *sizes: int) -> ArrayLayout:
    """Return the layout of an array whose elements lie one behind the other."""
    return ArrayLayout(start, sizes, strides_of(sizes))


def read_at(graph: Graph, flat: Node, layout: ArrayLayout) -> Node:
    """Return the array in `flat` memory that `layout` says; it reaches over no end, and has elements."""
    if layout.is_dense:
        return graph.reshape(graph.shrink(flat, [(layout.start, layout.start + layout.count)]), layout.sizes)
    shared = [axis for axis, stride in enumerate(layout.strides) if stride == 0]
    axes = [axis for axis in range(len(layout.sizes)) if axis not in shared]
    node = graph.shrink(flat, [(layout.start, layout.start + layout.reach)])
    # From the last axis to the first: windows, as far apart as the axis steps, into what is left of the memory.
    extent = layout.reach
    for axis in reversed(axes):
        size, stride = layout.sizes[axis], layout.strides[axis]
        extent -= (size - 1) * stride
        windows = graph.expand(graph.reshape(node, (node.shape[0], 1, *node.shape[1:])), (
            node.shape[0], size, *node.shape[1:],
        ))  # fmt: skip
        node = graph.slide(windows, 0, 1, extent, 1, stride)
    node = graph.reshape(node, tuple(1 if axis in shared else size for axis, size in enumerate(layout.sizes)))
    return graph.expand(node, layout.sizes)


def written_to(graph: Graph, flat: Node, layout: ArrayLayout, values: Node) -> Node:
    """Return `flat` memory with `values`, a distinct element each, where `layout` says.

    The place is a sum of coordinates by which it is known that no two are one, and the start is a number of its own:
    see `zyx.graph.places`.
    """
    device = flat.device
    dtype = dtypes.int32 if flat.shape[0] <= dtypes.int32.max else dtypes.int64
    if layout.is_dense:
        place = graph.iota((layout.count,), 0, dtype, device)
    else:
        place = graph.const(0, dtype, device, layout.sizes)
        for axis, stride in enumerate(layout.strides):
            coordinate = graph.iota(layout.sizes, axis, dtype, device)
            step = graph.const(stride, dtype, device, layout.sizes)
            place = graph.binary(BinaryOp.ADD, place, graph.binary(BinaryOp.MUL, coordinate, step))
    start = graph.const(layout.start, dtype, device, place.shape)
    place = graph.reshape(graph.binary(BinaryOp.ADD, place, start), (layout.count,))
    return graph.scatter(flat, place, graph.reshape(values, (layout.count,)), 0)
