from __future__ import annotations

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.autograd import SupportsBackward, gradient
from zyx.errors import GradientError
from zyx.graph import node as n
from zyx.ops import BinaryOp, ReduceOp


def test_a_selection_gives_the_gradient_to_what_was_chosen(lab):
    choice = lab.leaf(np.array([True, False, True]))
    lab.check(lambda graph, x, y: graph.where(choice, x, y), lab.normal(3), lab.normal(3))


def test_an_infinite_upstream_does_not_leak_to_what_was_not_chosen(lab):
    choice = lab.leaf(np.array([True, False]))
    at_x, at_y = lab.gradients(
        lambda graph, x, y: graph.where(choice, x, y), [1.0, 2.0], [3.0, 4.0], upstream=[np.inf, np.nan]
    )
    np.testing.assert_array_equal(at_x, [np.inf, 0.0])
    np.testing.assert_array_equal(at_y, [0.0, np.nan])


@pytest.mark.parametrize("narrow", [dtypes.float16, dtypes.bfloat16, dtypes.float32])
def test_casts_between_floats_pass_the_gradient_in_the_dtype_of_the_source(lab, narrow):
    x = lab.leaf(np.array([1.5, -2.0]))
    target = lab.graph.cast(x, narrow)
    upstream = lab.leaf(np.array([0.5, 3.0], dtype=narrow.numpy))
    (found,) = gradient(lab.graph, target, [x], upstream)
    assert found.dtype is dtypes.float64
    assert lab.value(found).tolist() == [0.5, 3.0]


@pytest.mark.parametrize("between", [dtypes.int32, dtypes.bool_, dtypes.uint8])
def test_nothing_flows_through_integers_and_bools(lab, between):
    x = lab.leaf(np.array([1.0, 2.0]))
    target = lab.graph.cast(lab.graph.cast(x, between), dtypes.float64)
    (found,) = gradient(lab.graph, target, [x], lab.leaf(np.ones(2)))
    assert isinstance(found, n.Const)
    assert found.value == 0


def test_nothing_flows_through_bits(lab):
    x = lab.leaf(np.array([1.0, 2.0]))
    target = lab.graph.bitcast(lab.graph.bitcast(x, dtypes.int64), dtypes.float64)
    assert lab.value(target).tolist() == [1.0, 2.0]
    assert lab.value(gradient(lab.graph, target, [x], lab.leaf(np.ones(2)))[0]).tolist() == [0.0, 0.0]


def test_comparisons_have_no_gradient(lab):
    x = lab.leaf(np.array([1.0, -2.0]))
    is_positive = lab.graph.binary(BinaryOp.LT, lab.graph.const(0.0, x.dtype, "cpu", (2,)), x)
    target = lab.graph.where(is_positive, x, lab.graph.const(0.0, x.dtype, "cpu", (2,)))
    assert lab.value(gradient(lab.graph, target, [x], lab.leaf(np.ones(2)))[0]).tolist() == [1.0, 0.0]


def test_copies_and_moves_pass_the_gradient_back_to_the_device_of_the_source(lab):
    x = lab.leaf(lab.normal(3))
    target = lab.graph.to_device(lab.graph.contiguous(lab.graph.binary(BinaryOp.MUL, x, x)), "elsewhere")
    assert target.device == "elsewhere"
    upstream = lab.graph.const(1.0, x.dtype, "elsewhere", (3,))
    (found,) = gradient(lab.graph, target, [x], upstream)
    assert found.device == "cpu"
    np.testing.assert_allclose(lab.value(found), 2 * x.storage)


def test_a_detached_value_is_a_constant_with_the_same_values(lab):
    x = lab.leaf(np.array([2.0, 3.0]))
    detached = lab.graph.detach(x)
    assert lab.value(detached).tolist() == [2.0, 3.0]
    (found,) = gradient(lab.graph, lab.graph.binary(BinaryOp.MUL, x, detached), [x], lab.leaf(np.ones(2)))
    assert lab.value(found).tolist() == [2.0, 3.0]
    assert lab.graph.detach(detached) is detached
    assert lab.graph.detach(x) is detached


def test_gradients_can_be_taken_at_a_detached_value(lab):
    x = lab.leaf(np.array([2.0, 3.0]))
    detached = lab.graph.detach(x)
    at_detached, at_x = gradient(
        lab.graph, lab.graph.binary(BinaryOp.MUL, detached, detached), [detached, x], lab.leaf(np.ones(2))
    )
    assert lab.value(at_detached).tolist() == [4.0, 6.0]
    assert lab.value(at_x).tolist() == [0.0, 0.0]


def test_an_alias_has_a_gradient_of_its_own_and_passes_it_on(lab):
    zero = lab.graph.const(0.0, dtypes.float64, "cpu", (2,))
    x = lab.leaf(np.array([2.0, 3.0]))
    first, second, alias = lab.graph.alias(zero), lab.graph.alias(zero), lab.graph.alias(x)
    assert first is not second
    target = lab.graph.binary(
        BinaryOp.ADD, lab.graph.binary(BinaryOp.MUL, first, x), lab.graph.binary(BinaryOp.MUL, second, alias)
    )
    found = gradient(
        lab.graph, lab.graph.binary(BinaryOp.MUL, target, alias), [first, second, alias, x], lab.leaf(np.ones(2))
    )
    assert [lab.value(node).tolist() for node in found] == [[4.0, 9.0], [4.0, 9.0], [0.0, 0.0], [0.0, 0.0]]
    (through,) = gradient(lab.graph, lab.graph.binary(BinaryOp.MUL, alias, alias), [x], lab.leaf(np.ones(2)))
    assert lab.value(through).tolist() == [4.0, 6.0]


def test_integers_need_no_alias(lab):
    x = lab.leaf(np.array([1, 2]))
    assert lab.graph.alias(x) is x
    assert lab.graph.detach(x) is x


class Doubled:
    """A kernel that says what its gradient is."""

    def backward(self, graph, node, upstream):
        two = graph.const(2.0, upstream.dtype, upstream.device, upstream.shape)
        return [graph.binary(BinaryOp.MUL, upstream, two)]


class Misshapen:
    def backward(self, graph, node, upstream):
        return [graph.const(1.0, upstream.dtype, upstream.device, (7,))]


def test_a_custom_kernel_that_offers_a_backward_is_differentiable(lab):
    x = lab.leaf(np.array([1.0, 2.0]))
    kernel = Doubled()
    assert isinstance(kernel, SupportsBackward)
    (found,) = gradient(
        lab.graph, lab.graph.custom(kernel, (x,), 0, (2,), x.dtype), [x], lab.leaf(np.array([3.0, 4.0]))
    )
    assert lab.value(found).tolist() == [6.0, 8.0]


def test_a_custom_kernel_without_a_backward_is_refused_by_name(lab):
    x = lab.leaf(np.array([1.0, 2.0]))
    target = lab.graph.custom("my kernel", (x,), 0, (2,), x.dtype)
    with pytest.raises(GradientError, match="'my kernel' has no gradient; give it a method backward"):
        gradient(lab.graph, target, [x], lab.leaf(np.ones(2)))


def test_a_custom_kernel_that_is_not_on_the_way_is_not_asked(lab):
    x, y = lab.leaf(np.array([1.0, 2.0])), lab.leaf(np.array([1.0, 2.0]))
    target = lab.graph.binary(BinaryOp.MUL, lab.graph.custom("my kernel", (y,), 0, (2,), x.dtype), x)
    (found,) = gradient(lab.graph, target, [x], lab.leaf(np.ones(2)))
    assert isinstance(found, n.Binary)


def test_a_backward_that_gives_a_wrong_shape_is_refused(lab):
    x = lab.leaf(np.array([1.0, 2.0]))
    target = lab.graph.custom(Misshapen(), (x,), 0, (2,), x.dtype)
    with pytest.raises(GradientError, match="must give one gradient or None a source"):
        gradient(lab.graph, target, [x], lab.leaf(np.ones(2)))


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16])
def test_sums_of_half_precision_gradients_are_accumulated_in_single_precision(lab, dtype):
    graph = lab.graph
    x = lab.leaf(np.ones((1,), dtype=dtype.numpy))
    wide = graph.expand(x, (4096,))
    (found,) = gradient(graph, wide, [x], lab.leaf(np.ones(4096, dtype=dtype.numpy)))
    reduced = [node for node in _all(found) if isinstance(node, n.Reduce)]
    assert [node.dtype for node in reduced] == [dtypes.float32]
    assert lab.value(found).astype(np.float64).tolist() == [4096.0]


def test_many_contributions_in_half_precision_are_rounded_once(lab):
    graph = lab.graph
    x = lab.leaf(np.ones(1, dtype=np.float16))
    parts = [
        graph.binary(BinaryOp.MUL, x, lab.leaf(np.array([value], np.float16))) for value in (2048.0, 1.0, 1.0, 1.0)
    ]
    total = parts[0]
    for part in parts[1:]:
        total = graph.binary(BinaryOp.ADD, total, part)
    (found,) = gradient(graph, total, [x])
    assert lab.value(found).tolist() == [2052.0]  # 2051 lies between two float16 numbers


def test_a_sum_that_was_rounded_from_single_precision_is_not_rounded_on_the_way(lab):
    graph = lab.graph
    x = lab.leaf(np.ones((1,), dtype=np.float16))
    product = graph.binary(
        BinaryOp.MUL, graph.cast(graph.expand(x, (8,)), dtypes.float32), lab.leaf(np.ones(8, np.float32))
    )
    (found,) = gradient(graph, graph.reduce(ReduceOp.SUM, product, (0,)), [x])
    assert sum(isinstance(node, n.Cast) for node in _all(found)) == 1
    assert lab.value(found).tolist() == [8.0]


def _all(node):
    from zyx.graph.walk import topological

    return topological([node])
