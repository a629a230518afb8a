from __future__ import annotations

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.autograd import gradient
from zyx.functions.formulas import safe_sqrt
from zyx.functions.term import Term
from zyx.ops import BinaryOp, ReduceOp, UnaryOp

POSITIVE = {UnaryOp.SQRT, UnaryOp.LOG, UnaryOp.LOG2, UnaryOp.LOG1P}
SMOOTH_UNARY = [op for op in UnaryOp if op is not UnaryOp.NOT]
SMOOTH_BINARY = [
    BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.DIV, BinaryOp.MOD, BinaryOp.POW, BinaryOp.MAX, BinaryOp.MIN,
]  # fmt: skip


@pytest.mark.parametrize("op", SMOOTH_UNARY)
def test_slopes_of_unary_operations_are_those_of_differences_to_second_order(lab, op):
    values = lab.normal(3, 4) + np.where(lab.random.random((3, 4)) < 0.5, 0.01, -0.01)
    if op in POSITIVE:
        values = abs(values) + 0.3
    lab.check_twice(lambda graph, x: graph.unary(op, x), values)


@pytest.mark.parametrize("op", SMOOTH_BINARY)
def test_slopes_of_binary_operations_are_those_of_differences_to_second_order(lab, op):
    x, y = lab.normal(3, 4), lab.normal(3, 4)
    if op is BinaryOp.POW:
        x = abs(x) + 0.2
    if op is BinaryOp.DIV:
        y = np.where(abs(y) < 0.3, 0.5, y)
    if op is BinaryOp.MOD:
        x, y = x * 5, np.where(abs(y) < 0.5, 0.7, y)
    lab.check_twice(lambda graph, x, y: graph.binary(op, x, y), x, y, tolerance=1e-5)


@pytest.mark.parametrize("op", [BinaryOp.MUL, BinaryOp.POW, BinaryOp.MAX])
def test_an_operand_that_is_used_twice_gets_both_parts(lab, op):
    lab.check_twice(lambda graph, x: graph.binary(op, x, x), abs(lab.normal(5)) + 0.2)


@pytest.mark.parametrize("exponent", [-2.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0])
def test_powers_with_a_constant_exponent_have_slopes_of_all_orders(lab, exponent):
    def power(graph, x):
        return graph.binary(BinaryOp.POW, x, graph.const(exponent, x.dtype, x.device, x.shape))

    lab.check_twice(power, abs(lab.normal(4)) + 0.5)


def test_powers_of_a_constant_base_have_slopes(lab):
    lab.check_twice(
        lambda graph, x: graph.binary(BinaryOp.POW, graph.const(3.0, x.dtype, x.device, x.shape), x), lab.normal(4)
    )


def test_even_powers_have_slopes_below_zero_and_at_zero(lab):
    def square(graph, x):
        return graph.binary(BinaryOp.POW, x, graph.const(2.0, x.dtype, x.device, x.shape))

    lab.check_twice(square, [-2.0, -0.5, 0.0, 1.5])


@pytest.mark.parametrize(("exponent", "slope"), [(0.0, 0.0), (0.5, np.inf), (1.0, 1.0), (2.5, 0.0)])
def test_the_slope_of_a_power_at_base_zero_is_the_limit_from_above(lab, exponent, slope):
    def power(graph, x, y):
        return graph.binary(BinaryOp.POW, x, y)

    at_base, at_exponent = lab.gradients(power, [0.0], [exponent])
    assert at_base == slope
    assert at_exponent == 0.0


def test_sqrt_at_zero_has_an_infinite_slope_and_a_norm_at_zero_has_gradient_zero(lab):
    def length(graph, x):
        total = Term(graph, graph.reduce(ReduceOp.SUM, graph.binary(BinaryOp.MUL, x, x), (0,)))
        return safe_sqrt(total).node

    assert lab.gradients(lambda graph, x: graph.unary(UnaryOp.SQRT, x), [0.0, -0.0, 4.0])[0].tolist() == [
        np.inf,
        np.inf,
        0.25,
    ]
    assert lab.gradients(length, [0.0, 0.0, 0.0])[0].tolist() == [0.0, 0.0, 0.0]
    np.testing.assert_allclose(lab.gradients(length, [3.0, 4.0])[0], [0.6, 0.8])


@pytest.mark.parametrize("op", [UnaryOp.SQRT, UnaryOp.LOG, UnaryOp.LOG2, UnaryOp.LOG1P, UnaryOp.RECIPROCAL])
def test_where_nothing_comes_in_nothing_goes_out_of_what_has_an_end(lab, op):
    end = -1.0 if op is UnaryOp.LOG1P else 0.0
    found = lab.gradients(lambda graph, x: graph.unary(op, x), [end, end - 1, end], upstream=[0.0, 0.0, 1.0])[0]
    assert found[:2].tolist() == [0.0, 0.0]
    assert abs(found[2]) == np.inf


def test_abs_at_zero_has_slope_zero(lab):
    assert lab.gradients(lambda graph, x: graph.unary(UnaryOp.ABS, x), [0.0, -0.0])[0].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("op", [BinaryOp.MAX, BinaryOp.MIN])
def test_equal_operands_of_an_extremum_share_the_gradient(lab, op):
    at_x, at_y = lab.gradients(lambda graph, x, y: graph.binary(op, x, y), [1.0, 2.0], [1.0, 2.0], upstream=[4.0, 6.0])
    assert at_x.tolist() == at_y.tolist() == [2.0, 3.0]


@pytest.mark.parametrize(("op", "expected"), [(BinaryOp.MAX, [0.0, 0.0, 1.0]), (BinaryOp.MIN, [1.0, 0.0, 0.0])])
@pytest.mark.parametrize("const_first", [False, True])
def test_an_extremum_with_a_constant_gives_the_tie_to_the_constant_and_reads_its_own_result(
    lab, op, expected, const_first
):
    def clamp(graph, x):
        bound = graph.const(0.0, x.dtype, x.device, x.shape)
        return graph.binary(op, bound, x) if const_first else graph.binary(op, x, bound)

    assert lab.gradients(clamp, [-1.0, 0.0, 2.0])[0].tolist() == expected
    x = lab.leaf(np.array([-1.0, 0.0, 2.0]))
    y = clamp(lab.graph, x)
    (slope,) = gradient(lab.graph, y, [x], lab.graph.const(1.0, dtypes.float64, "cpu", (3,)))
    condition = slope.sources[0]
    assert y in condition.sources
    assert x not in condition.sources


def test_the_slope_of_a_remainder_is_right_where_the_quotient_rounds_up(lab):
    # 1.0 / 0.1 rounds to 10, but 1.0 is 9 times the double next to 0.1, and a rest.
    at_x, at_y = lab.gradients(lambda graph, x, y: graph.binary(BinaryOp.MOD, x, y), [1.0], [0.1])
    assert at_x == 1.0
    assert at_y == pytest.approx(-9.0)


def test_an_overflow_that_is_not_chosen_does_not_reach_the_gradient(lab):
    def chosen(graph, x):
        is_small = graph.binary(BinaryOp.LT, x, graph.const(10.0, x.dtype, x.device, x.shape))
        bounded = graph.binary(BinaryOp.MIN, x, graph.const(10.0, x.dtype, x.device, x.shape))
        return graph.where(is_small, graph.unary(UnaryOp.EXP, bounded), x)

    found = lab.gradients(chosen, [1.0, 1000.0])[0]
    np.testing.assert_allclose(found, [np.e, 1.0])


def test_constants_in_rules_have_the_dtype_of_the_operand(lab):
    for dtype in dtypes.FLOATS:
        for op in SMOOTH_UNARY:
            x = lab.leaf(np.array([0.5], dtype=dtype.numpy))
            (slope,) = gradient(lab.graph, lab.graph.unary(op, x), [x])
            assert slope.dtype is dtype


def test_a_mean_costs_no_arithmetic_on_constants(lab):
    from zyx.graph.walk import topological
    from zyx.ops import ReduceOp

    x = lab.leaf(lab.normal(4))
    graph = lab.graph
    squares = graph.binary(BinaryOp.MUL, x, x)
    mean = graph.binary(
        BinaryOp.DIV, graph.reduce(ReduceOp.SUM, squares, (0,)), graph.const(4.0, x.dtype, x.device, (1,))
    )
    (slope,) = gradient(graph, mean, [x])
    kinds = [type(node).__name__ for node in topological([slope])]
    assert sorted(kinds) == ["Binary", "Binary", "Const", "Leaf"]  # x * 0.25 + x * 0.25
