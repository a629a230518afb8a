from __future__ import annotations

import numpy as np
import pytest

from zyx.autograd import gradient
from zyx.errors import GradientError
from zyx.ops import ReduceOp

ROWS = np.array([[0, 2, 0, 1], [-1, 0, 3, -4]])  # repeated, from the end, and outside of 3 rows


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8])
def test_reads_give_the_gradient_back_to_the_places_they_read(lab, dtype):
    index = lab.leaf(abs(ROWS).astype(dtype))
    lab.check_twice(lambda graph, x: graph.gather(x, index, 0), lab.normal(3, 4))


def test_reads_from_the_end_and_outside_are_understood(lab):
    lab.check(lambda graph, x: graph.gather(x, lab.leaf(ROWS), 0), lab.normal(3, 4))


def test_reads_along_a_later_axis_give_the_gradient_back(lab):
    index = lab.leaf(np.array([[1, 1, 0], [0, 2, 2]]))
    lab.check(lambda graph, x: graph.gather(x, index, 1), lab.normal(2, 3))


@pytest.mark.parametrize("op", [None, ReduceOp.SUM, ReduceOp.MAX, ReduceOp.MIN])
@pytest.mark.parametrize(("index", "axis"), [(ROWS, 0), (ROWS.T[:, :], 1)])
def test_writes_share_the_gradient_between_base_and_updates(lab, op, index, axis):
    base = lab.normal(3, 4) if axis == 0 else lab.normal(4, 3)
    places = lab.leaf(index)
    lab.check(lambda graph, x, y: graph.scatter(x, places, y, axis, op), base, lab.normal(*index.shape))


@pytest.mark.parametrize("op", [None, ReduceOp.SUM, ReduceOp.MAX])
def test_writes_have_second_slopes(lab, op):
    from zyx.ops import BinaryOp

    places = lab.leaf(ROWS)

    def squares(graph, x, y):
        written = graph.scatter(graph.binary(BinaryOp.MUL, x, x), places, graph.binary(BinaryOp.MUL, y, y), 0, op)
        return graph.binary(BinaryOp.MUL, written, written)

    lab.check_twice(squares, lab.normal(3, 4), lab.normal(2, 4), tolerance=1e-5)


def test_of_several_writes_to_one_place_the_last_alone_gets_the_gradient(lab):
    places = lab.leaf(np.array([1, 1, -2, 0]))
    at_base, at_updates = lab.gradients(
        lambda graph, x, y: graph.scatter(x, places, y, 0),
        [1.0, 2.0, 3.0],
        [1.0, 2.0, 3.0, 4.0],
        upstream=[1.0, 2.0, 4.0],
    )
    assert at_base.tolist() == [0.0, 0.0, 4.0]
    assert at_updates.tolist() == [0.0, 0.0, 2.0, 1.0]


def test_base_and_updates_that_are_equally_extreme_share_the_gradient(lab):
    places = lab.leaf(np.array([0, 0, 1]))
    at_base, at_updates = lab.gradients(
        lambda graph, x, y: graph.scatter(x, places, y, 0, ReduceOp.MAX),
        [5.0, 1.0],
        [5.0, 5.0, 2.0],
        upstream=[3.0, 7.0],
    )
    assert at_base.tolist() == [1.0, 0.0]
    assert at_updates.tolist() == [1.0, 1.0, 7.0]


def test_scattered_products_are_refused_with_a_way_out(lab):
    x, y, index = lab.leaf(np.ones(2)), lab.leaf(np.ones(2)), lab.leaf(np.array([0, 0]))
    target = lab.graph.scatter(x, index, y, 0, ReduceOp.PROD)
    with pytest.raises(GradientError, match=r"scatter with prod has no gradient rule.*logarithms"):
        gradient(lab.graph, target, [x], lab.leaf(np.ones(2)))


def test_gradients_of_half_precision_tables_are_summed_in_single_precision(lab):
    table = lab.leaf(np.zeros((2, 1), dtype=np.float16))
    index = lab.leaf(np.zeros((4096, 1), dtype=np.int32))
    rows = lab.graph.gather(table, index, 0)
    (found,) = gradient(lab.graph, rows, [table], lab.leaf(np.ones((4096, 1), dtype=np.float16)))
    assert lab.value(found).tolist() == [[4096.0], [0.0]]  # adding 1 to 2048 changes nothing in float16
    assert found.dtype is table.dtype
