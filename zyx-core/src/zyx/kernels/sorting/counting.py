"""Sort by comparing each element of a row with all others: how many come before it is its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx.ops import BinaryOp, ReduceOp

if TYPE_CHECKING:
    from zyx.graph import Graph
    from zyx.graph import node as n
    from zyx.graph.node import Node


def count_order(graph: Graph, node: n.Sort) -> Node:
    """Return ordinary nodes with the values of `node`: n * n comparisons, which are fused and never stored."""
    (keys,) = node.sources
    axis, count, shape, ndim = node.axis, node.shape[node.axis], keys.shape, keys.ndim
    full = (*shape, shape[axis])
    mine = graph.expand(graph.reshape(keys, (*shape, 1)), full)
    other = graph.permute(keys, (*(i for i in range(ndim) if i != axis), axis))
    other = graph.expand(graph.reshape(other, (*other.shape[:axis], 1, *other.shape[axis:])), full)
    place, other_place = (graph.iota(full, i, dtypes.int32, node.device) for i in (axis, ndim))
    tied = graph.binary(
        BinaryOp.AND, graph.binary(BinaryOp.EQ, other, mine), graph.binary(BinaryOp.LT, other_place, place)
    )
    before = graph.binary(BinaryOp.OR, graph.binary(BinaryOp.LT, other, mine), tied)
    rank = graph.reshape(graph.reduce(ReduceOp.SUM, graph.cast(before, dtypes.int32), (ndim,)), shape)
    start = graph.const(0, dtypes.int32, node.device, node.shape)
    # Places that are not asked for lie outside of the result, where nothing is written.
    return graph.scatter(start, rank, graph.iota(shape, axis, dtypes.int32, node.device), axis) if count else start
