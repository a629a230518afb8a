"""Products whose columns are short rows of images have vectors that go on from row to row."""

from __future__ import annotations

import numpy as np
import pytest

from zyx.ir.nest import Kind
from zyx.ops import BinaryOp, ReduceOp
from zyx.schedule.choose import choose_schedule
from zyx.schedule.moves import Merge, Nested, Stage


def convolution(bench, images, channels, size, kernels, window=3, stride=1):
    """The graph of a convolution of square images with padding, as layers write it."""
    graph, side = bench.graph, (size + 2 - window) // stride + 1
    x = graph.pad(bench.normal(images, channels, size, size), [(0, 0), (0, 0), (1, 1), (1, 1)])
    x = graph.expand(graph.reshape(x, (*x.shape, 1, 1)), (*x.shape, window, window))
    for axis in (2, 3):
        x = graph.slide(x, axis, axis + 2, side, stride)
    w = bench.normal(kernels, channels, window, window)
    x = graph.permute(x, (0, 2, 3, 1, 4, 5))
    x = graph.reshape(x, (images, 1, side, side, channels, window, window))
    w = graph.reshape(w, (1, kernels, 1, 1, channels, window, window))
    shape = (images, kernels, side, side, channels, window, window)
    product = graph.binary(BinaryOp.MUL, graph.expand(x, shape), graph.expand(w, shape))
    return graph.reduce(ReduceOp.SUM, product, (4, 5, 6))


def check(bench, output):
    """Check the values that the kernels give, and return the moves of the product."""
    bench.check(output, tolerance=1e-4, run=bench.run_kernels)
    (nest,) = bench.schedule(output).nests
    return choose_schedule(nest, bench.info)


@pytest.fixture
def wide(device_with):
    """A processor with vectors of 16 and caches."""
    return device_with(
        units=2, lanes=(2, 4, 8, 16), vector_bytes=64, registers=32, cache_bytes=(1 << 15, 1 << 20), has_shuffle=True
    )


@pytest.mark.parametrize(
    ("images", "channels", "size", "kernels", "stride"),
    [(3, 5, 8, 20, 1), (1, 4, 8, 64, 1), (2, 3, 4, 30, 1), (2, 4, 16, 24, 2), (5, 2, 8, 13, 2)],
)
def test_rows_of_eight_and_four_points_fill_vectors(wide, images, channels, size, kernels, stride):
    nest, moves = check(wide, convolution(wide, images, channels, size, kernels, stride=stride))
    kinds = [type(move) for move in moves if isinstance(move, Stage | Merge)]
    assert kinds == [Stage, Merge]
    product = next(statement for statement in nest.statements if getattr(statement, "op", None) is ReduceOp.SUM)
    (vector,) = (range_ for range_ in product.order if nest.kind(range_) is Kind.VECTOR)
    side = (size - 1) // stride + 1
    assert vector.size == min(16, side * side)


def test_of_deep_products_parts_are_copied_that_the_nearest_cache_holds(wide):
    _, moves = check(wide, convolution(wide, 1, 40, 8, 16))
    assert [type(move) for move in moves if isinstance(move, Stage | Merge | Nested)] == [Nested, Stage, Merge]


@pytest.mark.parametrize(("size", "kernels"), [(16, 20), (9, 20), (8, 4)])
def test_rows_of_whole_vectors_or_odd_ones_and_few_kernels_stay_as_they_are(wide, size, kernels):
    _, moves = check(wide, convolution(wide, 2, 3, size, kernels))
    assert not any(isinstance(move, Merge) for move in moves)


def test_what_follows_the_product_goes_along(wide):
    graph = wide.graph
    output = convolution(wide, 2, 6, 8, 24)
    bias = graph.expand(graph.reshape(wide.normal(24), (1, 24, 1, 1, 1, 1, 1)), output.shape)
    activated = wide.tanh(wide.add(output, bias))
    _, moves = check(wide, graph.contiguous(graph.reshape(activated, (2, 24, 8, 8))))
    assert any(isinstance(move, Merge) for move in moves)
    assert np.prod(activated.shape) == 2 * 24 * 64


def test_a_buffer_that_is_both_factors_is_copied_for_the_columns(wide):
    graph, shape = wide.graph, (20, 20, 4, 8)
    x = wide.normal(20, 4, 8)
    weights = graph.reshape(graph.shrink(graph.reshape(x, (20, 32)), [(0, 20), (0, 20)]), (20, 20, 1, 1))
    columns = graph.expand(graph.reshape(graph.flip(x, (1,)), (1, 20, 4, 8)), shape)
    product = graph.binary(BinaryOp.MUL, graph.expand(weights, shape), columns)
    nest, moves = check(wide, graph.reduce(ReduceOp.SUM, product, (1,)))
    assert len(nest.params) == 2
    assert [type(move) for move in moves if isinstance(move, Stage | Merge)] == [Stage, Merge]
