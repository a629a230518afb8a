"""Boxes that begin at a place which is a value: what is read and written, and which indices are plainly distinct."""

from __future__ import annotations

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.graph import Graph
from zyx.graph import node as n
from zyx.graph.evaluate import evaluate
from zyx.graph.places import AxisRange, box_at, is_distinct, written_at
from zyx.ops import BinaryOp

DEVICE = "interpreter:0"
DATA = np.arange(4 * 5 * 6, dtype=np.float32).reshape(4, 5, 6)


def _values(outputs: list[n.Node], given: dict[n.Node, np.ndarray]) -> list[np.ndarray]:
    return evaluate(outputs, given.__getitem__)


@pytest.mark.parametrize("place", [0, 1, 3])
def test_a_box_at_a_place_is_the_slice_there(place: int) -> None:
    graph = Graph()
    x, start = graph.leaf(DATA.shape, dtypes.float32, DEVICE), graph.leaf((), dtypes.int32, DEVICE)
    (found,) = _values([box_at(graph, x, 1, start, 2)], {x: DATA, start: np.array(place, np.int32)})
    np.testing.assert_array_equal(found, DATA[:, place : place + 2])


@pytest.mark.parametrize(
    ("boxes", "key"),
    [
        ((AxisRange(0, 4), AxisRange(2, 2), AxisRange(0, 6)), np.s_[:, 2:4]),
        ((AxisRange(1, 1), AxisRange(0, 5), AxisRange(3, 1)), np.s_[1:2, :, 3:4]),
        ((AxisRange(0, 4), AxisRange(4, 3, -2), AxisRange(1, 2, 3)), np.s_[:, ::-2, 1::3]),
        ((AxisRange(2, 2), AxisRange(1, 3), AxisRange(0, 6)), np.s_[2:4, 1:4]),
    ],
)
def test_what_is_written_to_a_box_is_there_and_nothing_else_is(boxes: tuple[AxisRange, ...], key: object) -> None:
    graph = Graph()
    region = -np.arange(DATA[key].size, dtype=np.float32).reshape(DATA[key].shape) - 1
    x, y = (graph.leaf(a.shape, dtypes.float32, DEVICE) for a in (DATA, region))
    written = written_at(graph, x, boxes, y)
    expected = DATA.copy()
    expected[key] = region
    (found,) = _values([written], {x: DATA, y: region})
    np.testing.assert_array_equal(found, expected)
    scatter = written.sources[0] if isinstance(written, n.Reshape) else written
    assert isinstance(scatter, n.Scatter)
    assert is_distinct(scatter.sources[1], scatter.axis)


def test_indices_that_may_be_equal_are_not_distinct() -> None:
    graph = Graph()
    across = graph.iota((3, 4), 0, dtypes.int32, DEVICE)
    down = graph.iota((3, 4), 1, dtypes.int32, DEVICE)

    def index(node: n.Node) -> n.Node:
        return graph.reshape(node, (12,))

    def times(node: n.Node, factor: int) -> n.Node:
        return graph.binary(BinaryOp.MUL, node, graph.const(factor, dtypes.int32, DEVICE, node.shape))

    assert not is_distinct(index(across), 0)  # the same for all of a row
    assert not is_distinct(index(graph.binary(BinaryOp.ADD, across, down)), 0)
    assert not is_distinct(index(graph.binary(BinaryOp.ADD, times(across, 3), down)), 0)  # 0 + 3, and 3 + 0
    assert is_distinct(index(graph.binary(BinaryOp.ADD, times(across, 4), down)), 0)
    assert is_distinct(index(graph.binary(BinaryOp.ADD, across, times(down, -3))), 0)
    looked_up = graph.leaf((12,), dtypes.int32, DEVICE)
    assert not is_distinct(looked_up, 0)
