"""Products whose columns are short rows of images have vectors that go on from row to row."""

from __future__ import annotations

import numpy as np
import pytest

from zyx.ops import BinaryOp, ReduceOp
from zyx.schedule.apply import apply
from zyx.schedule.contraction import find_contraction
from zyx.schedule.moves import Merge, Nested, Stage
from zyx.schedule.plan import Plan, simplify_ranges
from zyx.schedule.seeds.products import product_seeds
from zyx.testing.schedules import run_lowered


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


@pytest.fixture
def wide(device_with):
    """A processor with vectors of 16 and caches."""
    return device_with(
        units=2, lanes=(2, 4, 8, 16), vector_bytes=64, registers=32, cache_bytes=(1 << 15, 1 << 20), has_shuffle=True
    )


@pytest.mark.parametrize(
    ("images", "channels", "size", "kernels", "stride"),
    [
        (3, 5, 8, 20, 1), (1, 4, 8, 64, 1), (2, 3, 4, 30, 1), (2, 4, 16, 24, 2), (5, 2, 8, 13, 2), (1, 40, 8, 16, 1),
        (2, 3, 16, 20, 1), (2, 3, 9, 20, 1), (2, 3, 8, 4, 1),
    ],
)  # fmt: skip
def test_images_of_short_rows(wide, images, channels, size, kernels, stride):
    output = convolution(wide, images, channels, size, kernels, stride=stride)
    wide.check(output, tolerance=1e-4, run=wide.run_kernels)


@pytest.mark.parametrize(("channels", "moves"), [(4, [Stage, Merge]), (40, [Nested, Stage, Merge])])
def test_every_schedule_of_a_product_has_the_same_values(wide, channels, moves):
    """Among them one that copies rows of eight points and goes on from row to row; of deep sums, part by part."""
    output = convolution(wide, 1, channels, 8, 16)
    tried = []

    def run(nests, arrays):
        (nest,) = nests
        plan = Plan(nest)
        simplify_ranges(plan)
        found = find_contraction(plan.nest)
        given = {param: array.copy() for param, array in arrays.items()}
        for spec in product_seeds(plan.nest, found, wide.info):
            other = plan.copy()
            apply(other, spec, wide.info)
            run_lowered([other.nest], given)
            tried.append([type(move) for move in other.moves if isinstance(move, Nested | Stage | Merge)])
            results.append(given[nest.params[0]].copy())
        arrays[nest.params[0]][...] = given[nest.params[0]]

    results = []
    wide.check(output, tolerance=1e-4, run=run)
    assert any(each[-len(moves) :] == moves for each in tried)
    for result in results:
        np.testing.assert_allclose(result, results[0], rtol=1e-4, atol=1e-4)


def test_what_follows_the_product_goes_along(wide):
    graph = wide.graph
    output = convolution(wide, 2, 6, 8, 24)
    bias = graph.expand(graph.reshape(wide.normal(24), (1, 24, 1, 1, 1, 1, 1)), output.shape)
    activated = wide.tanh(wide.add(output, bias))
    wide.check(graph.contiguous(graph.reshape(activated, (2, 24, 8, 8))), tolerance=1e-4, run=wide.run_kernels)


def test_a_buffer_that_is_both_factors(wide):
    graph, shape = wide.graph, (20, 20, 4, 8)
    x = wide.normal(20, 4, 8)
    weights = graph.reshape(graph.shrink(graph.reshape(x, (20, 32)), [(0, 20), (0, 20)]), (20, 20, 1, 1))
    columns = graph.expand(graph.reshape(graph.flip(x, (1,)), (1, 20, 4, 8)), shape)
    product = graph.binary(BinaryOp.MUL, graph.expand(weights, shape), columns)
    wide.check(graph.reduce(ReduceOp.SUM, product, (1,)), tolerance=1e-4, run=wide.run_kernels)
