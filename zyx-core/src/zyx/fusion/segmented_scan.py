"""Scatter by a segmented scan: updates sorted by place, of which neighbours are combined, in one order on many threads.

    places     7 2 7 7 2      sorted, with the numbers of the updates:  2 2 7 7 7      1 4 0 2 3
    updates    a b c d e      in that order                             b e a c d
                              with those 1, 2 and 3 to the left,
                              as far as these are of the same place     b be a ac acd
                              .. and 4, 8 and 12 to the left, 16, 32 and 48, and so on

The last one of each place is then the combination of all that are of this place, and is stored there. Every element is
gone over a few times for each factor of 4 in the number of updates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.graph import node as n
from zyx.ops import BinaryOp, identity

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.graph import Graph
    from zyx.graph.node import Node

#: How many neighbours are combined at a time.
_AT_A_TIME: Final = 4


def by_segmented_scan(graph: Graph, node: n.Scatter, sorting: Callable[[n.Sort], Node]) -> tuple[Node, Node]:
    """Return, along the indexed axis, a place for each of the updates' combinations, and these.

    Each place appears once at most; what is not the combination of all updates of a place is outside.

    Args:
        graph: To make nodes with.
        node: A scatter with an operation.
        sorting: Returns the places of a sort as the device is to compute them.
    """
    base, index, updates = node.sources
    op, axis = node.op, node.axis
    assert op is not None
    count, outside = index.shape[axis], base.shape[axis]
    key = _keys(graph, index, axis, outside)
    order = graph.sort(key, axis, outside.bit_length(), count)
    order = sorting(order) if isinstance(order, n.Sort) else order
    key = graph.contiguous(graph.gather(key, order, axis))
    total = graph.contiguous(graph.gather(updates, graph.expand(order, index.shape), axis))
    neutral = graph.const(identity(op, node.dtype), node.dtype, node.device, index.shape)
    step = 1
    while step < count:
        combined = total
        for distance in range(step, min(_AT_A_TIME * step, count), step):
            is_same = graph.binary(BinaryOp.EQ, key, _moved(graph, key, axis, distance, outside + 1))
            other = graph.where(graph.expand(is_same, index.shape), _moved(graph, total, axis, distance, 0), neutral)
            combined = graph.binary(op.binary, other, combined)
        total = graph.contiguous(combined)
        step *= _AT_A_TIME
    nobody = graph.const(outside, key.dtype, key.device, key.shape)
    is_last = graph.binary(BinaryOp.NE, key, _moved(graph, key, axis, -1, outside + 1))
    return graph.expand(graph.where(is_last, key, nobody), index.shape), total


def from_start(graph: Graph, index: Node, size: int) -> Node:
    """Return an index with what counts from the end counting from the start, in a type that has all positions."""
    if index.dtype.bits < 32:
        index = graph.cast(index, dtypes.int32)
    if index.dtype.max < size:
        index = graph.cast(index, dtypes.int64)
    if index.dtype.is_unsigned:
        return index
    zero, length = (graph.const(value, index.dtype, index.device, index.shape) for value in (0, size))
    from_end = graph.binary(BinaryOp.ADD, index, length)
    return graph.where(graph.binary(BinaryOp.LT, index, zero), from_end, index)


def _keys(graph: Graph, index: Node, axis: int, size: int) -> Node:
    """Return the places as uint32, `size` for those outside; along axes on which they are all the same, once."""
    while isinstance(index, n.Expand) and index.storage is None and index.sources[0].shape[axis] == index.shape[axis]:
        index = index.sources[0]
    index = from_start(graph, index, size)
    zero, end = (graph.const(value, index.dtype, index.device, index.shape) for value in (0, size))
    is_inside = graph.binary(BinaryOp.LT, index, end)
    if not index.dtype.is_unsigned:
        is_inside = graph.binary(BinaryOp.AND, is_inside, graph.binary(BinaryOp.LE, zero, index))
    return graph.cast(graph.where(is_inside, index, end), dtypes.uint32)


def _moved(graph: Graph, x: Node, axis: int, distance: int, fill: int) -> Node:
    """Return `x` with each element so many places further along the axis, to the left if negative."""
    length = x.shape[axis]
    before, after = max(distance, 0), max(-distance, 0)
    padded = graph.pad(x, [(before, after) if i == axis else (0, 0) for i in range(x.ndim)], fill)
    return graph.shrink(padded, [(after, after + length) if i == axis else (0, size) for i, size in enumerate(x.shape)])
