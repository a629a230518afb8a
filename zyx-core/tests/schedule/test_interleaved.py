"""Halves that are put together as they were are found again; others are left alone."""

from __future__ import annotations

from zyx import dtype as dtypes
from zyx.fusion.interleaved import interleaved
from zyx.graph import Graph
from zyx.ops import BinaryOp


def put_together(graph: Graph, shape: tuple[int, ...], halves: tuple[int, int], place: int):
    x = graph.leaf((*shape, 2), dtypes.float32, "a")
    bounds = [(0, size) for size in shape]
    parts = [
        graph.expand(
            graph.reshape(graph.reshape(graph.shrink(x, [*bounds, (i, i + 1)]), shape), (*shape, 1)), (*shape, 2)
        )
        for i in halves
    ]
    full = (*shape, 2)
    coordinate = graph.expand(graph.iota((1,) * len(shape) + (2,), len(shape), dtypes.int32, "a"), full)
    condition = graph.binary(BinaryOp.EQ, coordinate, graph.const(place, dtypes.int32, "a", full))
    return x, graph.where(condition, *parts)


def test_halves_in_their_order_are_the_pairs() -> None:
    x, node = put_together(Graph(), (3, 4), (0, 1), 0)
    assert interleaved(node) is x


def test_halves_in_another_order_are_not() -> None:
    assert interleaved(put_together(Graph(), (3, 4), (1, 0), 0)[1]) is None
    assert interleaved(put_together(Graph(), (3, 4), (0, 0), 0)[1]) is None
    assert interleaved(put_together(Graph(), (3, 4), (0, 1), 1)[1]) is None
