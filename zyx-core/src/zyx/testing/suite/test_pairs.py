"""Programs over all pairs of points: distances that are combined again, forces between bodies, chains of neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.ops import BinaryOp, ReduceOp, UnaryOp
from zyx.testing.graph_runs import case_of

if TYPE_CHECKING:
    from zyx.graph import Graph, Node
    from zyx.testing.graph_runs import GraphRunner

_THOROUGH: Final = ((33, 65, 2), (100, 100, 3), (127, 300, 13), (200, 512, 1), (512, 1000, 13), (777, 333, 4))
SIZES: Final = ((10, 7, 3), (128, 128, 3), *(pytest.param(*s, marks=pytest.mark.thorough) for s in _THOROUGH))


def _differences(graph: Graph, x: Node, y: Node) -> Node:
    shape = (x.shape[0], y.shape[0], x.shape[1])
    first = graph.expand(graph.reshape(x, (shape[0], 1, shape[2])), shape)
    second = graph.expand(graph.reshape(y, (1, *shape[1:])), shape)
    return graph.binary(BinaryOp.SUB, first, second)


def _points(first: int, second: int, size: int) -> list[np.ndarray]:
    random = np.random.default_rng(first)
    return [random.standard_normal((count, size)).astype(np.float32) for count in (first, second)]


@pytest.mark.parametrize(("first", "second", "size"), SIZES)
def test_distances_between_pairs_are_combined_along_each_axis(
    runner: GraphRunner, first: int, second: int, size: int
) -> None:
    def make(graph: Graph, x: Node, y: Node) -> list[Node]:
        difference = _differences(graph, x, y)
        squared = graph.reduce(ReduceOp.SUM, graph.binary(BinaryOp.MUL, difference, difference), (2,))
        one = graph.const(1.0, dtypes.float32, x.device, squared.shape)
        near = graph.unary(UnaryOp.RECIPROCAL, graph.binary(BinaryOp.ADD, squared, one))
        each = graph.expand(near, difference.shape)
        return [
            *(graph.reduce(ReduceOp.MIN, squared, (axis,)) for axis in (0, 1)),
            *(graph.reduce(ReduceOp.SUM, near, (axis,)) for axis in (0, 1)),
            graph.reduce(ReduceOp.SUM, graph.binary(BinaryOp.MUL, difference, each), (1,)),
        ]

    runner.check(case_of(runner.device, _points(first, second, size), make))


@pytest.mark.parametrize("steps", [3, pytest.param(20, marks=pytest.mark.thorough)])
def test_chains_of_neighbours_give_the_values_of_their_steps(runner: GraphRunner, steps: int) -> None:
    def make(graph: Graph, x: Node) -> list[Node]:
        half = graph.const(0.5, dtypes.float32, x.device, x.shape)
        for _ in range(steps):
            rows, columns = x.shape
            padded = graph.pad(x, [(1, 1), (1, 1)], 0.25)
            moved = graph.shrink(padded, [(0, rows), (2, columns + 2)])
            turned = graph.flip(graph.shrink(padded, [(2, rows + 2), (1, columns + 1)]), (1,))
            x = graph.binary(BinaryOp.MUL, graph.binary(BinaryOp.ADD, moved, turned), half)
        return [x]

    runner.check(case_of(runner.device, [_points(37, 1, 70)[0]], make))
