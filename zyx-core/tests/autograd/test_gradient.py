from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.autograd import gradient
from zyx.errors import GradientError
from zyx.graph import Graph
from zyx.graph import node as n
from zyx.graph.walk import ancestors, topological
from zyx.ops import BinaryOp, ReduceOp, UnaryOp


def test_contributions_of_all_paths_are_added(lab):
    def polynomial(graph, x):
        square = graph.binary(BinaryOp.MUL, x, x)
        return graph.binary(BinaryOp.ADD, graph.binary(BinaryOp.MUL, square, x), graph.binary(BinaryOp.SUB, square, x))

    lab.check_twice(polynomial, lab.normal(3))


def test_one_source_may_depend_on_another(lab):
    graph, x = lab.graph, lab.leaf(np.array([2.0]))
    square = graph.binary(BinaryOp.MUL, x, x)
    fourth = graph.binary(BinaryOp.MUL, square, square)
    at_x, at_square, at_fourth = gradient(graph, fourth, [x, square, fourth])
    assert [lab.value(node).item() for node in (at_x, at_square, at_fourth)] == [32.0, 8.0, 1.0]


def test_an_independent_source_has_the_gradient_zero(lab):
    x, y = lab.leaf(np.ones(1)), lab.leaf(np.ones((2, 3), dtype=np.float32))
    (found,) = gradient(lab.graph, x, [y])
    assert isinstance(found, n.Const)
    assert (found.value, found.shape, found.dtype, found.device) == (0.0, (2, 3), dtypes.float32, "cpu")


def test_a_source_named_twice_gets_its_gradient_twice(lab):
    x = lab.leaf(np.array([3.0]))
    first, second = gradient(lab.graph, lab.graph.binary(BinaryOp.MUL, x, x), [x, x])
    assert first is second


def test_a_target_with_several_elements_needs_an_upstream(lab):
    x = lab.leaf(np.ones((2, 3)))
    with pytest.raises(GradientError, match=r"shape \(2, 3\), not one element; sum it up, or give .* `upstream`"):
        gradient(lab.graph, x, [x])


def test_a_target_of_one_element_needs_no_upstream_whatever_its_rank(lab):
    x = lab.leaf(np.ones((1, 1)))
    assert lab.value(gradient(lab.graph, x, [x])[0]).tolist() == [[1.0]]


@pytest.mark.parametrize(
    ("shape", "dtype", "device"),
    [((3,), dtypes.float64, "cpu"), ((2,), dtypes.float32, "cpu"), ((2,), dtypes.float64, "gpu")],
)
def test_an_upstream_that_does_not_fit_is_refused(lab, shape, dtype, device):
    x = lab.leaf(np.ones(2))
    with pytest.raises(GradientError, match="must have the shape, dtype and device of the target"):
        gradient(lab.graph, x, [x], lab.graph.const(1.0, dtype, device, shape))


def test_integers_are_refused_as_target_and_as_source(lab):
    x, index = lab.leaf(np.ones(1)), lab.leaf(np.ones(1, dtype=np.int32))
    with pytest.raises(GradientError, match="the target <leaf i32"):
        gradient(lab.graph, index, [x])
    with pytest.raises(GradientError, match="source 1 is <leaf i32"):
        gradient(lab.graph, x, [x, index])


def test_a_constant_is_refused_as_a_source_since_it_may_stand_for_many(lab):
    zero = lab.graph.const(0.0, dtypes.float64, "cpu", (1,))
    with pytest.raises(GradientError, match="source 0 is a constant"):
        gradient(lab.graph, lab.graph.unary(UnaryOp.EXP, zero), [zero])


def test_a_target_whose_history_is_lost_is_refused(lab):
    x = lab.leaf(np.ones(1))
    lost = lab.graph.leaf((1,), dtypes.float64, "cpu", np.ones(1), history_lost=True)
    with pytest.raises(GradientError, match=r"forgotten; compute it inside the block of a live Tape"):
        gradient(lab.graph, lost, [x])


def test_a_given_value_whose_history_is_lost_is_a_source_like_any_other(lab):
    lost = lab.graph.leaf((1,), dtypes.float64, "cpu", np.array([3.0]), history_lost=True)
    (found,) = gradient(lab.graph, lab.graph.binary(BinaryOp.MUL, lost, lost), [lost])
    assert lab.value(found).tolist() == [6.0]


def test_gradients_go_through_nodes_that_are_computed_already(lab):
    x = lab.leaf(np.array([2.0]))
    square = lab.graph.binary(BinaryOp.MUL, x, x)
    square.storage = np.array([4.0])
    (found,) = gradient(lab.graph, lab.graph.binary(BinaryOp.MUL, square, square), [x])
    assert lab.value(found).tolist() == [32.0]
    assert square in topological([found])  # read, not computed again


def test_history_goes_on_where_a_leaf_took_the_place_of_a_node(lab):
    x = lab.leaf(np.array([2.0]))
    square = lab.graph.binary(BinaryOp.MUL, x, x)
    leaf = lab.graph.leaf((1,), dtypes.float64, "cpu", np.array([4.0]), history_lost=True)
    target = lab.graph.binary(BinaryOp.ADD, lab.graph.binary(BinaryOp.MUL, leaf, leaf), square)
    (found,) = gradient(lab.graph, target, [x], history={leaf: square})
    assert lab.value(found).tolist() == [36.0]
    assert lab.value(gradient(lab.graph, leaf, [x], history={leaf: square})[0]).tolist() == [4.0]


def test_only_nodes_on_a_path_to_a_source_are_differentiated(lab):
    graph, x, y = lab.graph, lab.leaf(np.ones(3)), lab.leaf(np.ones(3))
    refused = graph.scatter(y, lab.leaf(np.array([0, 0, 0])), y, 0, ReduceOp.PROD)  # has no rule
    target = graph.reduce(ReduceOp.SUM, graph.binary(BinaryOp.MUL, refused, x), (0,))
    assert lab.value(gradient(graph, target, [x])[0]).tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(GradientError):
        gradient(graph, target, [y])


def test_a_graph_of_many_thousand_nodes_in_a_row_is_differentiated(lab):
    graph, x = lab.graph, lab.leaf(np.array([1.0]))
    target = x
    for _ in range(20_000):
        target = graph.unary(UnaryOp.SIN, target)
    (found,) = gradient(graph, target, [x])
    assert found.depth > 20_000


def test_many_uses_are_summed_as_a_balanced_tree(lab):
    graph, x = lab.graph, lab.leaf(np.array([1.0]))
    total = x
    parts = [graph.binary(BinaryOp.MUL, x, lab.leaf(np.array([float(i)]))) for i in range(64)]
    for part in parts:
        total = graph.binary(BinaryOp.ADD, total, part)
    (found,) = gradient(graph, total, [x])
    assert lab.value(found).tolist() == [1.0 + 63 * 64 / 2]
    assert found.depth <= 8


def test_the_same_graph_gives_the_same_gradient_node(lab):
    graph, x = lab.graph, lab.leaf(lab.normal(3))
    target = graph.reduce(ReduceOp.PROD, graph.unary(UnaryOp.TANH, x), (0,))
    assert gradient(graph, target, [x]) == gradient(graph, target, [x])


def test_the_order_of_visits_does_not_depend_on_where_objects_lie():
    def text():
        graph = Graph()
        x, y = (graph.leaf((4,), dtypes.float64, "cpu") for _ in range(2))
        target = graph.binary(BinaryOp.MUL, graph.unary(UnaryOp.EXP, x), graph.binary(BinaryOp.ADD, x, y))
        target = graph.reduce(ReduceOp.SUM, graph.binary(BinaryOp.MUL, target, x), (0,))
        return [(repr(node), node.attributes) for node in topological(gradient(graph, target, [x, y]))]

    assert text() == text()


def test_ancestors_come_after_what_they_read_and_only_once(lab):
    graph, x = lab.graph, lab.leaf(lab.normal(3))
    node = x
    for _ in range(40):  # 2 ** 40 paths
        node = graph.binary(BinaryOp.MUL, node, node)
    order = ancestors(node)
    assert len(order) == len(set(order)) == 41
    assert order[0] is x
    assert order[-1] is node


def test_nothing_is_kept_of_a_gradient_that_was_dropped(lab):
    x = lab.leaf(np.ones(1))
    found = gradient(lab.graph, lab.graph.unary(UnaryOp.EXP, lab.graph.binary(BinaryOp.MUL, x, x)), [x])
    alive = [weakref.ref(node) for node in topological(found) if node is not x]
    del found
    gc.collect()
    assert [reference() for reference in alive] == [None] * len(alive)
    lab.graph._forget_dead()
    assert lab.graph._nodes == {}
