"""Windows: taking them apart, putting them together, pooling, convolution."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.ops import BinaryOp, ReduceOp
from zyx.testing.graph_runs import case_of
from zyx.testing.values import random_array

if TYPE_CHECKING:
    from zyx.backend import Device
    from zyx.dtype import DType
    from zyx.graph import Graph, Node
    from zyx.testing.graph_runs import GraphRunner


def windows(graph: Graph, x: Node, axis: int, width: int, stride: int = 1, dilation: int = 1) -> Node:
    """Return the windows of `width` along an axis of `x`, on a new last axis."""
    wide = graph.expand(graph.reshape(x, (*x.shape, 1)), (*x.shape, width))
    size = (x.shape[axis] - 1 - (width - 1) * dilation) // stride + 1
    return graph.slide(wide, axis, x.ndim, size, stride, dilation)


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=lambda dtype: dtype.short)
def test_windows_are_taken_apart_and_put_together(device: Device, runner: GraphRunner, dtype: DType) -> None:
    if not device.info.can_store(dtype):
        pytest.skip(f"{device.name} does not claim to store {dtype}")
    x = random_array(dtype, 3 * 17, np.random.default_rng(1), special=0.2).reshape(3, 17)

    def make(graph: Graph, x: Node) -> list[Node]:
        found = []
        for width, stride, dilation in ((1, 1, 1), (3, 1, 1), (4, 2, 1), (2, 3, 3), (3, 2, 4)):
            apart = windows(graph, x, 1, width, stride, dilation)
            reach = (apart.shape[1] - 1) * stride + (width - 1) * dilation + 1
            together = graph.unslide(apart, 1, 2, reach + 2, stride, dilation)
            found += [graph.contiguous(apart), together]
            found += [graph.reduce(op, together, (2,)) for op in ReduceOp if op in _ops(dtype)][:1]
        return found

    runner.check(case_of(runner.device, [x], make))


def _ops(dtype: DType) -> set[ReduceOp]:
    return {ReduceOp.MAX} if dtype.is_bool else {ReduceOp.SUM}


def test_diagonals_are_windows_of_a_matrix(runner: GraphRunner) -> None:
    x = np.arange(30, dtype=np.int32).reshape(10, 3)
    (result,) = runner.results(case_of(runner.device, [x], lambda graph, x: graph.slide(x, 0, 1, 8)))
    np.testing.assert_array_equal(result, np.array([[x[o + k, k] for k in range(3)] for o in range(8)]))


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_pooling_takes_the_greatest_of_each_window(runner: GraphRunner, stride: int) -> None:
    x = np.random.default_rng(stride).integers(-100, 100, (2, 11, 14)).astype(np.int32)

    def make(graph: Graph, x: Node) -> Node:
        apart = windows(graph, windows(graph, x, 1, 3, stride), 2, 2, stride)
        return graph.reduce(ReduceOp.MAX, apart, (3, 4))

    (result,) = runner.results(case_of(runner.device, [x], make))
    rows, columns = (11 - 3) // stride + 1, (14 - 2) // stride + 1
    wanted = [
        [
            [image[r * stride : r * stride + 3, c * stride : c * stride + 2].max() for c in range(columns)]
            for r in range(rows)
        ]
        for image in x
    ]
    np.testing.assert_array_equal(result[..., 0, 0], np.array(wanted))


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.bfloat16, dtypes.int16], ids=lambda dtype: dtype.short)
def test_convolutions_of_padded_images_agree_with_the_oracle(device: Device, runner: GraphRunner, dtype: DType) -> None:
    if not device.info.can_store(dtype):
        pytest.skip(f"{device.name} does not claim to store {dtype}")
    random = np.random.default_rng(2)
    images = random_array(dtype, 2 * 3 * 9 * 8, random).reshape(2, 3, 9, 8)
    filters = random_array(dtype, 4 * 3 * 3 * 3, random).reshape(4, 3, 3, 3)

    def make(graph: Graph, x: Node, f: Node) -> Node:
        padded = graph.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)])
        apart = windows(graph, windows(graph, padded, 2, 3, 2), 3, 3)  # images, channels, rows, columns, 3, 3
        count, channels, rows, columns = apart.shape[:4]
        wide = (count, len(filters), channels, rows, columns, 3, 3)
        left = graph.expand(graph.reshape(apart, (count, 1, *apart.shape[1:])), wide)
        right = graph.expand(graph.reshape(f, (1, *filters.shape[:2], 1, 1, 3, 3)), wide)
        return graph.reduce(ReduceOp.SUM, graph.binary(BinaryOp.MUL, left, right), (2, 5, 6))

    runner.check(case_of(runner.device, [images, filters], make))
