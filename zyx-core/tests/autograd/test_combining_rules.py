from __future__ import annotations

import numpy as np
import pytest

from zyx.ops import ReduceOp

ALL_AXES = [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]
FLOAT_OPS = [ReduceOp.SUM, ReduceOp.PROD, ReduceOp.MAX, ReduceOp.MIN]


@pytest.mark.parametrize("axes", ALL_AXES)
@pytest.mark.parametrize("op", FLOAT_OPS)
def test_slopes_of_reductions_are_those_of_differences(lab, op, axes):
    lab.check(lambda graph, x: graph.reduce(op, x, axes), lab.normal(2, 3, 4), tolerance=1e-6)


@pytest.mark.parametrize("op", FLOAT_OPS)
def test_reductions_have_second_slopes(lab, op):
    def cubes(graph, x):
        return graph.reduce(op, graph.binary(BinaryOp.MUL, x, graph.binary(BinaryOp.MUL, x, x)), (1,))

    from zyx.ops import BinaryOp

    lab.check_twice(cubes, lab.normal(2, 3) + 0.1, tolerance=1e-5)


@pytest.mark.parametrize("zeros", [(), (1,), (0, 2), (0, 1, 2, 3)])
def test_products_have_slopes_of_both_orders_with_any_number_of_zeros(lab, zeros):
    values = lab.normal(1, 4)
    values[0, list(zeros)] = 0.0
    lab.check_twice(lambda graph, x: graph.reduce(ReduceOp.PROD, x, (1,)), values)


def test_a_product_that_underflows_keeps_its_slopes(lab):
    found = lab.gradients(lambda graph, x: graph.reduce(ReduceOp.PROD, x, (0,)), [1e-200, 1e-200, 1e200])[0]
    np.testing.assert_allclose(found, [1.0, 1.0, 0.0])


@pytest.mark.parametrize(("op", "values"), [(ReduceOp.MAX, [3.0, 1.0, 3.0]), (ReduceOp.MIN, [-3.0, 1.0, -3.0])])
def test_equally_extreme_elements_share_the_gradient_evenly(lab, op, values):
    found = lab.gradients(lambda graph, x: graph.reduce(op, x, (0,)), values, upstream=[8.0])[0]
    assert found.tolist() == [4.0, 0.0, 4.0]


def test_infinite_extrema_have_finite_gradients(lab):
    found = lab.gradients(lambda graph, x: graph.reduce(ReduceOp.MAX, x, (0,)), [np.inf, 1.0, -np.inf])[0]
    assert found.tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("op", FLOAT_OPS)
def test_slopes_of_scans_are_those_of_differences_to_second_order(lab, op, axis):
    lab.check_twice(lambda graph, x: graph.scan(op, x, axis), lab.normal(3, 5), tolerance=1e-5)


@pytest.mark.parametrize("size", [2, 3, 4, 5, 8, 9])
@pytest.mark.parametrize("zeros", [(), (0,), (1,), (0, 1)])
def test_running_products_have_slopes_of_both_orders_with_any_number_of_zeros(lab, size, zeros):
    values = lab.normal(size)
    values[list(zeros)] = 0.0
    lab.check_twice(lambda graph, x: graph.scan(ReduceOp.PROD, x, 0), values)


@pytest.mark.parametrize("shape, axis", [((16,), 0), ((17,), 0), ((2, 40), 1), ((300, 2), 0)])
@pytest.mark.parametrize("zeros", [(), (5, 11, 16)])
def test_long_running_products_have_slopes_block_by_block(lab, shape, axis, zeros):
    x, upstream = 1 + lab.normal(*shape) / 20, lab.normal(*shape)
    np.moveaxis(x, axis, 0)[[place for place in zeros if place < shape[axis]]] = 0.0
    found = lab.gradients(lambda graph, node: graph.scan(ReduceOp.PROD, node, axis), x, upstream=upstream)[0]
    rows, slopes = np.moveaxis(x, axis, -1), np.moveaxis(upstream, axis, -1)
    size = shape[axis]
    expected = np.zeros_like(rows)
    for k in range(size):
        without = rows.copy()
        without[..., k] = 1.0
        expected[..., k] = (np.cumprod(without, -1) * slopes)[..., k:].sum(-1)
    np.testing.assert_allclose(np.moveaxis(found, axis, -1), expected, 1e-9, 1e-12)


def test_a_running_extremum_gives_each_gradient_to_the_last_of_the_equal_elements(lab):
    found = lab.gradients(
        lambda graph, x: graph.scan(ReduceOp.MAX, x, 0),
        [1.0, 3.0, 2.0, 3.0, 0.0],
        upstream=[1.0, 10.0, 100.0, 1e3, 1e4],
    )[0]
    assert found.tolist() == [1.0, 110.0, 0.0, 11000.0, 0.0]


@pytest.mark.parametrize("op", FLOAT_OPS)
@pytest.mark.parametrize("shape", [(1, 3), (3, 1), (1, 1)])
def test_axes_of_size_one_change_nothing(lab, op, shape):
    lab.check(lambda graph, x: graph.reduce(op, x, (0, 1)), lab.normal(*shape))
    lab.check(lambda graph, x: graph.scan(op, x, 0), lab.normal(*shape), tolerance=1e-6)
