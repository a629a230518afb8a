"""Sums over windows that are sums over channels: one kernel, which writes no window down."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from zyx.graph import node as n
from zyx.nest.data import Compute
from zyx.ops import BinaryOp


def input_gradient(bench, n_, outputs, channels, places, window, stride, dilation, size=None):
    """Return the gradient of a convolution at its input, of axes (N, channels, *size), and its output's gradient."""
    graph, count = bench.graph, len(places)
    upstream = bench.normal(n_, outputs, *places)
    filters = bench.normal(outputs, channels, *window)
    full = (n_, outputs, channels, *places, *window)
    left = graph.expand(graph.reshape(upstream, (n_, outputs, 1, *places, *[1] * count)), full)
    right = graph.expand(graph.reshape(filters, (1, outputs, channels, *[1] * count, *window)), full)
    product = graph.binary(BinaryOp.MUL, left, right)
    node = graph.reshape(bench.sum(product, 1), (n_, channels, *places, *window))
    for i in range(count):
        reach = (places[i] - 1) * stride[i] + (window[i] - 1) * dilation[i] + 1
        node = graph.unslide(node, 2 + i, 2 + count + i, reach if size is None else size[i], stride[i], dilation[i])
    node = bench.sum(node, *range(2 + count, 2 + 2 * count))
    return graph.reshape(node, node.shape[: 2 + count])


CASES = [
    (places, window, stride, dilation)
    for places, window, stride, dilation in itertools.product(
        [(3, 4), (1, 5)], [(1, 3), (3, 2), (4, 4)], [(1, 1), (2, 1), (2, 3)], [(1, 1), (1, 2)]
    )
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_gradient_at_the_input_writes_no_windows(bench, case):
    places, window, stride, dilation = case
    output = input_gradient(bench, 2, 5, 3, places, window, stride, dilation)
    scheduled = bench.check(output)
    elements = int(np.prod(output.shape))
    # A divided window makes the result a little longer, in a buffer that is then cut to size.
    divided = [s > 1 and d == 1 and w > 1 for s, d, w in zip(stride, dilation, window, strict=True)]
    spare = np.prod([(size + s) / size for size, s in zip(output.shape[2:], stride, strict=True)])
    assert scheduled.stored_bytes <= 4 * elements * (1 + spare * any(divided))
    assert len(scheduled.parts) <= 1 + any(divided)
    bench.check(output, run=bench.run_kernels)


def test_an_input_that_is_larger_than_its_windows_reach_is_zero_there(bench):
    output = input_gradient(bench, 1, 2, 3, (3,), (3,), (2,), (1,), size=(11,))
    assert not np.any(bench.check(output).value()[0, :, 7:])


def test_an_infinite_gradient_reaches_only_the_elements_of_its_window(cpu):
    graph = cpu.graph
    for stride in (1, 2):
        upstream = np.ones((1, 1, 4), np.float32)
        upstream[0, 0, 1] = np.inf
        left = graph.expand(graph.reshape(cpu.leaf(upstream), (1, 1, 1, 4, 1)), (1, 1, 2, 4, 2))
        right = graph.expand(graph.reshape(cpu.leaf(np.ones((1, 2, 2), np.float32)), (1, 1, 2, 1, 2)), left.shape)
        windows = graph.reshape(cpu.sum(graph.binary(BinaryOp.MUL, left, right), 1), (1, 2, 4, 2))
        found = cpu.sum(graph.unslide(windows, 2, 3, 3 * stride + 2, stride, 1), 3)
        values = cpu.schedule(found).value().reshape(2, -1)
        assert not np.isnan(values).any()
        assert np.isinf(values[0]).nonzero()[0].tolist() == [stride, stride + 1]


@pytest.mark.parametrize("strides", [(2, 2), (3, 1), (1, 4), (5, 3)], ids=str)
@pytest.mark.parametrize("sizes", [(2, 2), (3, 3), (4, 1), (5, 2)], ids=str)
def test_windows_that_are_no_sums_are_divided_by_their_strides(bench, sizes, strides):
    """An element is the sum of as many as there are windows that it is in, not of as many as a window has."""
    graph, places = bench.graph, (4, 5)
    node = bench.tanh(bench.normal(2, *places, *sizes))
    for axis in (1, 2):
        stride, size = strides[axis - 1], sizes[axis - 1]
        node = graph.unslide(node, axis, 2 + axis, (places[axis - 1] - 1) * stride + size + 1, stride, 1)
    output = bench.sum(node, 3, 4)
    scheduled = bench.check(output)
    together = [-(-size // stride) for size, stride in zip(sizes, strides, strict=True)]
    for statement in (statement for nest in scheduled.nests for statement in nest.statements):
        if isinstance(statement, Compute):
            assert np.prod([range_.size for range_ in statement.reduced]) <= np.prod(together)


def test_products_of_several_uses_are_left_alone(cpu):
    graph = cpu.graph
    windows = cpu.sum(cpu.mul(cpu.normal(1, 5, 4, 3), cpu.normal(2, 5, 1, 3)), 1)
    total = cpu.sum(graph.unslide(graph.reshape(windows, (2, 4, 3)), 1, 2, 6, 1, 1), 2)
    (prepared, _) = cpu.prepare(total, windows)
    assert any(isinstance(node, n.Unslide) for node in prepared.sources)
    cpu.check(total, windows)


def test_what_is_no_product_is_summed_at_once_too(cpu):
    windows = cpu.sum(cpu.tanh(cpu.normal(2, 5, 4, 3)), 1)
    total = cpu.sum(cpu.graph.unslide(cpu.graph.reshape(windows, (2, 4, 3)), 1, 2, 9, 2, 1), 2)
    assert cpu.check(total).stored_bytes <= 4 * 2 * (9 + 10)


def test_other_combinations_stay_apart(cpu):
    graph = cpu.graph
    windows = graph.reshape(cpu.max(cpu.normal(2, 5, 4, 3), 1), (2, 4, 3))
    cpu.check(cpu.sum(graph.unslide(windows, 1, 2, 6, 1, 1), 2))
    summed = graph.reshape(cpu.sum(cpu.normal(2, 5, 4, 3), 1), (2, 4, 3))
    cpu.check(cpu.max(graph.unslide(summed, 1, 2, 6, 1, 1), 2))
