"""Boxes that begin at a place which is a value, and what is known of such places where they are indices.

    box_at(x, 0, Box(p, 3))             x[p : p + 3]: a gather by a coordinate and p
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

    from zyx.graph.graph import Graph
    from zyx.graph.node import Node

#: How deep a sum may be: those that are made here, of an axis each, are no deeper than an array has axes.
_DEEPEST: Final = 64


class Box(NamedTuple):
    """What is taken of one axis.

    Attributes:
        start: The first place: a number, or a node of rank 0 that is an int32 or int64.
        size: How many places.
        step: How far apart they are.
    """

    start: int | Node
    size: int
    step: int = 1


def box_at(graph: Graph, x: Node, axis: int, box: Box) -> Node:
    """Return the places of a box along one axis of `x`."""
    shape = (*x.shape[:axis], box.size, *x.shape[axis + 1 :])
    return graph.gather(x, _coordinate(graph, shape, axis, box, x.device), axis)


def written_at(graph: Graph, x: Node, boxes: Sequence[Box], region: Node) -> Node:
    """Return `x` with `region` in place of what lies in a box, of which there is one for each axis."""
    partial = [axis for axis, box in enumerate(boxes) if box != (0, x.shape[axis], 1)]
    if not partial:
        return region
    first, end = partial[0], partial[-1] + 1
    outer, inner, behind = x.shape[:first], x.shape[first:end], x.shape[end:]
    sizes = region.shape[first:end]
    place: Node | None = None
    for axis, (box, step) in enumerate(zip(boxes[first:end], strides_of(inner), strict=True)):
        dtype = dtypes.int32 if prod(inner) <= dtypes.int32.max else dtypes.int64
        coordinate = graph.cast(_coordinate(graph, sizes, axis, box, x.device), dtype)
        if step != 1:
            coordinate = graph.binary(BinaryOp.MUL, coordinate, graph.const(step, dtype, x.device, sizes))
        place = coordinate if place is None else graph.binary(BinaryOp.ADD, place, coordinate)
    assert place is not None
    count = prod(sizes)
    index = graph.reshape(place, (*[1] * len(outer), count, *[1] * len(behind)))
    index = graph.expand(index, (*outer, count, *behind))
    pooled = graph.reshape(x, (*outer, prod(inner), *behind))
    updates = graph.reshape(region, (*outer, count, *behind))
    return graph.reshape(graph.scatter(pooled, index, updates, len(outer)), x.shape)


def _coordinate(graph: Graph, shape: Sequence[int], axis: int, box: Box, device: str) -> Node:
    """Return the places of a box along `axis`, over `shape`."""
    shape = tuple(shape)
    start = box.start if isinstance(box.start, n.Node) else None
    dtype = dtypes.int32 if start is None else start.dtype
    coordinate = graph.iota(shape, axis, dtype, device)
    if box.step != 1:
        coordinate = graph.binary(BinaryOp.MUL, coordinate, graph.const(box.step, dtype, device, shape))
    if start is None:
        first = graph.const(box.start, dtype, device, shape)  # type: ignore[arg-type]  # a number
    else:
        first = graph.expand(graph.reshape(start, (1,) * len(shape)), shape)
    return graph.binary(BinaryOp.ADD, coordinate, first)


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
        case n.Expand() if prod(node.sources[0].shape) == 1:
            return {}
        case n.Cast() if node.dtype.is_integer:
            return _factors(node.sources[0], depth + 1)
        case n.Binary(op=BinaryOp.MUL, sources=(x, n.Const(value=value))):
            below = _factors(x, depth + 1)
            return None if below is None else {axis: factor * int(value) for axis, factor in below.items()}
        case n.Binary(op=BinaryOp.ADD, sources=(x, y)):
            left, right = _factors(x, depth + 1), _factors(y, depth + 1)
            if left is None or right is None:
                return None
            return {axis: left.get(axis, 0) + right.get(axis, 0) for axis in left | right}
        case _:
            return None
