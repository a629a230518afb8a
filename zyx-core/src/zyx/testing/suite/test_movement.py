"""Movement: every way to rearrange elements, alone and composed, of every dtype and of awkward shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.testing.graph_runs import case_of
from zyx.testing.parts import TURNS
from zyx.testing.values import random_array

if TYPE_CHECKING:
    from zyx.backend import Device
    from zyx.dtype import DType
    from zyx.graph import Graph, Node
    from zyx.shape import Shape
    from zyx.testing.graph_runs import GraphRunner

SHAPES: Final = [(), (1,), (13,), (6, 35), (5, 1, 4), (2, 3, 4, 5), (0, 3), (67, 129)]


def movements(graph: Graph, x: Node) -> list[Node]:
    """Return `x` moved in every way, and in ways that follow each other."""
    axes = tuple(range(x.ndim))
    last = x.ndim - 1
    count = int(np.prod(x.shape, dtype=np.int64))
    flat = graph.reshape(x, (count,))
    found = [
        graph.contiguous(graph.reshape(x, (1, *x.shape, 1))),
        graph.permute(x, axes[::-1]),
        graph.flip(x, axes),
        graph.flip(graph.reshape(graph.flip(x, axes[:1]), (count,)), (0,)),
        graph.expand(graph.reshape(x, (1, *x.shape)), (3, *x.shape)),
        graph.pad(x, [(axis % 2, 2) for axis in axes], 1),
        graph.shrink(flat, [(count // 3, count)]),
        graph.reshape(graph.permute(x, axes[::-1]), (count,)),
    ]
    if x.ndim and 0 not in x.shape:
        inner = graph.shrink(x, [(0, max(1, size - 1)) for size in x.shape])
        padded = graph.pad(graph.flip(inner, (last,)), [(1, 0)] * x.ndim, 0)
        found += [
            graph.shrink(graph.pad(x, [(2, 1)] * x.ndim, 1), [(1, size + 2) for size in x.shape]),
            graph.permute(padded, (*axes[1:], 0)),
            graph.flip(graph.reshape(padded, (int(np.prod(padded.shape)),)), (0,)),
            graph.reshape(graph.flip(graph.permute(padded, axes[::-1]), (0,)), (1, int(np.prod(padded.shape)))),
        ]
    return found


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=lambda dtype: dtype.short)
@pytest.mark.parametrize("turn", range(TURNS))
def test_elements_are_moved_and_not_changed(device: Device, runner: GraphRunner, turn: int, dtype: DType) -> None:
    if not device.info.can_store(dtype):
        pytest.skip(f"{device.name} does not claim to store {dtype}")
    random = np.random.default_rng(dtype.bits)
    # Shapes take turns with dtypes: where elements go does not depend on what they are.
    shapes = [shape for number, shape in enumerate(SHAPES) if (number + dtypes.ALL.index(dtype)) % 3 == 0]
    arrays = [random_array(dtype, int(np.prod(shape)), random, special=0.2).reshape(shape) for shape in shapes]

    def make(graph: Graph, *leaves: Node) -> list[Node]:
        return [out for x in leaves for out in movements(graph, x)[turn::TURNS]]

    runner.check(case_of(runner.device, arrays, make))


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)) or "scalar")
def test_elements_of_any_shape_are_moved(runner: GraphRunner, shape: Shape) -> None:
    array = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    runner.check(case_of(runner.device, [array], movements))


def test_movement_is_undone_by_its_inverse(runner: GraphRunner) -> None:
    x = np.arange(5 * 7 * 3, dtype=np.float32).reshape(5, 7, 3)

    def there_and_back(graph: Graph, x: Node) -> list[Node]:
        return [
            graph.contiguous(node)
            for node in (
                graph.flip(graph.reshape(graph.flip(graph.reshape(x, (105,)), (0,)), (5, 7, 3)), (0, 1, 2)),
                graph.permute(graph.permute(x, (2, 0, 1)), (1, 2, 0)),
                graph.shrink(graph.pad(x, [(1, 2), (3, 0), (0, 4)]), [(1, 6), (3, 10), (0, 3)]),
                graph.reshape(graph.reshape(graph.permute(x, (1, 0, 2)), (35, 3)), (7, 5, 3)),
            )
        ]

    case = case_of(runner.device, [x], there_and_back)
    for result in runner.results(case)[:3]:
        np.testing.assert_array_equal(result, x)
    np.testing.assert_array_equal(runner.results(case)[3], x.transpose(1, 0, 2))


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.uint8], ids=lambda dtype: dtype.short)
def test_an_outer_axis_may_be_longer_than_grids_of_drivers(runner: GraphRunner, dtype: DType) -> None:
    rows, shape = 70_001, (70_001, 5, 3)
    x = (np.arange(rows * 3) % 251).astype(dtype.numpy).reshape(rows, 1, 3)

    def move(graph: Graph, x: Node) -> list[Node]:
        spread = graph.contiguous(graph.expand(x, shape))
        return [spread, graph.contiguous(graph.permute(spread, (0, 2, 1)))]

    spread, turned = runner.results(case_of(runner.device, [x], move))
    np.testing.assert_array_equal(spread, np.broadcast_to(x, shape))
    np.testing.assert_array_equal(turned, np.broadcast_to(x, shape).transpose(0, 2, 1))


@pytest.mark.parametrize("nbytes", [1, 2, 3, 5, 7, 9, 4097, 65_539])
def test_sizes_that_words_do_not_divide_come_back(runner: GraphRunner, nbytes: int) -> None:
    x = (np.arange(nbytes) % 251).astype(np.uint8)
    case = case_of(runner.device, [x], lambda graph, x: [graph.contiguous(graph.flip(x, (0,))), graph.cast(x, _wide())])
    backwards, wide = runner.results(case)
    np.testing.assert_array_equal(backwards, x[::-1])
    np.testing.assert_array_equal(wide, x.astype(np.int32))


def _wide() -> DType:
    return dtypes.int32
