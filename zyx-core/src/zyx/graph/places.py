"""Boxes that begin at a place which is a value, and what is known of such places where they are indices.

    box_at(x, 0, p, 3)                  x[p : p + 3]: a gather by a coordinate and p
    written_at(x, [Box(p, 3)], y)       x with x[p : p + 3] = y: a scatter to such places

Such an index is a sum of coordinates, each times a constant, and of what is the same everywhere. That is found again
where it matters: no two of its places are one, so they may be written in any order.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final, NamedTuple

from zyx import dtype as dtypes
from zyx.graph import node as n
from zyx.ops import BinaryOp
from zyx.shape import strides_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.dtype import Scalar
    from zyx.graph.graph import Graph
    from zyx.graph.node import Node

#: How deep a sum may be: those that are made here, of an axis each, are no deeper than an array has axes.
_DEEPEST: Final = 64


class AxisRange(NamedTuple):
    """What is taken of one axis.

    Attributes:
        start: The first place: a number, or a node of rank 0 that is an int32 or int64.
        size: How many places.
        step: How far apart they are.
    """

    start: int | Node
    size: int
    step: int = 1


class VaryingNumber:
    """What stands in for a number among the arguments of a traced function, which kernels are to be given."""

    __slots__ = ()

    def place(self, axis: int, size: int, device: str) -> Node:
        """Return the place along an axis of `size` that it is as an index, a node of rank 0.

        Raises:
            IndexRangeError: It is outside, now; later, the call in which it is raises it.
        """
        raise NotImplementedError

    def box(self, stop: object, size: int, device: str) -> tuple[Node, int] | None:
        """Return the start, a node of rank 0, and the size of a slice from it to `stop` along an axis of `size`.

        None if the size changes with it, or if the slice reaches over an end: then its values have to be looked at.
        """
        raise NotImplementedError


def is_given(number: object) -> bool:
    """Whether an integer among the arguments of a traced function is one that kernels are to be given."""
    return isinstance(number, VaryingNumber) and isinstance(number, int)  # to `isinstance` it is what it stands in for


def box_at(graph: Graph, x: Node, axis: int, start: Node, size: int) -> Node:
    """Return so many places from `start` on along one axis of `x`."""
    shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
    coordinate = graph.iota(shape, axis, start.dtype, x.device)
    first = graph.expand(graph.reshape(start, (1,) * x.ndim), shape)
    return graph.gather(x, graph.binary(BinaryOp.ADD, coordinate, first), axis)


def padded_at(graph: Graph, x: Node, axis: int, size: int, start: Node, value: Scalar) -> Node:
    """Return `x` from a place on along one axis of so many, with `value` before and behind it."""
    shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
    coordinate = graph.iota(shape, axis, start.dtype, x.device)
    index = graph.binary(BinaryOp.SUB, coordinate, graph.expand(graph.reshape(start, (1,) * x.ndim), shape))
    zero, end = (graph.const(end, start.dtype, x.device, shape) for end in (0, x.shape[axis]))
    is_there = graph.binary(BinaryOp.AND, graph.binary(BinaryOp.LE, zero, index), graph.binary(BinaryOp.LT, index, end))
    found = graph.gather(x, graph.where(is_there, index, zero), axis)
    return graph.where(is_there, found, graph.const(value, x.dtype, x.device, shape))


def written_at(graph: Graph, x: Node, boxes: Sequence[AxisRange], region: Node) -> Node:
    """Return `x` with `region` in place of what lies in a box, of which there is one for each axis."""
    partial = [axis for axis, box in enumerate(boxes) if box != (0, x.shape[axis], 1)]
    if not partial:
        return region
    first, end = partial[0], partial[-1] + 1
    outer, inner, behind = x.shape[:first], x.shape[first:end], x.shape[end:]
    sizes = region.shape[first:end]
    dtype = dtypes.int32 if prod(inner) <= dtypes.int32.max else dtypes.int64
    # One number says where it begins, as far as that is known: plans that differ in it alone are found to be one.
    every = graph.reshape(graph.iota((prod(inner),), 0, dtype, x.device), inner)
    place = graph.shrink(every, [(0, size) for size in sizes])
    start = 0
    for axis, (box, step) in enumerate(zip(boxes[first:end], strides_of(inner), strict=True)):
        if box.step != 1:
            coordinate = graph.iota(sizes, axis, dtype, x.device)
            factor = graph.const((box.step - 1) * step, dtype, x.device, sizes)
            place = graph.binary(BinaryOp.ADD, place, graph.binary(BinaryOp.MUL, coordinate, factor))
        if isinstance(box.start, n.Node):
            given = graph.cast(box.start, dtype)
            if step != 1:
                given = graph.binary(BinaryOp.MUL, given, graph.const(step, dtype, x.device))
            given = graph.expand(graph.reshape(given, (1,) * len(sizes)), sizes)
            place = graph.binary(BinaryOp.ADD, place, given)
        else:
            start += box.start * step
    place = graph.binary(BinaryOp.ADD, place, graph.const(start, dtype, x.device, sizes))
    count = prod(sizes)
    index = graph.reshape(place, (*[1] * len(outer), count, *[1] * len(behind)))
    index = graph.expand(index, (*outer, count, *behind))
    pooled = graph.reshape(x, (*outer, prod(inner), *behind))
    updates = graph.reshape(region, (*outer, count, *behind))
    return graph.reshape(graph.scatter(pooled, index, updates, len(outer)), x.shape)


def is_distinct(index: Node, axis: int) -> bool:
    """Whether it is plain that no two indices along `axis`, with the same other coordinates, are equal."""
    count = index.shape[axis]
    while index.storage is None and isinstance(index, n.Expand | n.Reshape):
        index = index.sources[0]
    factors = _factors(index, 0)
    if factors is None or prod(index.shape) != count:
        return False  # it may differ along other axes, which is no matter, but not what is made here
    reach = 0
    for factor, size in sorted((abs(factors.get(i, 0)), size) for i, size in enumerate(index.shape) if size > 1):
        if factor <= reach:
            return False
        reach += factor * (size - 1)
    return True


def _factors(node: Node, depth: int) -> dict[int, int] | None:
    """Return what each coordinate is multiplied with in a sum, None if it is no such sum."""
    if depth > _DEEPEST:
        return None
    if prod(node.shape) == 1 or isinstance(node, n.Const):
        return {}
    if node.storage is not None:
        return None
    match node:
        case n.Iota(axis=axis):
            return {axis: 1}
        case n.Shrink(sources=(below,)):
            return _factors(below, depth + 1)
        case n.Reshape(sources=(n.Iota(ndim=1),)):
            return dict(enumerate(strides_of(node.shape)))
        case n.Expand() if prod(node.sources[0].shape) == 1:
            return {}
        case n.Cast() if node.dtype.is_integer:
            return _factors(node.sources[0], depth + 1)
        case n.Binary(op=BinaryOp.MUL, sources=(x, n.Const(value=value))):
            left = _factors(x, depth + 1)
            return None if left is None else {axis: factor * int(value) for axis, factor in left.items()}
        case n.Binary(op=BinaryOp.ADD, sources=(x, y)):
            left, right = _factors(x, depth + 1), _factors(y, depth + 1)
            if left is None or right is None:
                return None
            return {axis: left.get(axis, 0) + right.get(axis, 0) for axis in left | right}
        case _:
            return None
