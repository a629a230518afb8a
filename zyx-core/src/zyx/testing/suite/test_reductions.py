"""Reductions and scans, of every operation and dtype, along every choice of axes."""

from __future__ import annotations

from itertools import chain, combinations
from typing import TYPE_CHECKING, Final

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.ops import BinaryOp, ReduceOp, UnaryOp, reduce_ops
from zyx.testing.graph_runs import case_of
from zyx.testing.parts import TURNS
from zyx.testing.values import random_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend import Device
    from zyx.dtype import DType
    from zyx.graph import Graph, Node
    from zyx.testing.graph_runs import GraphRunner
    from zyx.testing.values import Array

BY_DTYPE: Final = pytest.mark.parametrize("dtype", dtypes.ALL, ids=lambda dtype: dtype.short)
#: All choices of the axes of an array of three.
AXES: Final = list(chain.from_iterable(combinations(range(3), count) for count in (1, 2, 3)))


def _ops(dtype: DType) -> list[ReduceOp]:
    return [op for op in ReduceOp if op in reduce_ops(dtype)]


def _need(device: Device, dtype: DType) -> None:
    if not device.info.can_store(dtype):
        pytest.skip(f"{device.name} does not claim to store {dtype}")


def _array(dtype: DType, shape: tuple[int, ...], *, special: float = 0.0) -> Array:
    count = int(np.prod(shape))
    return random_array(dtype, count, np.random.default_rng(count), special=special).reshape(shape)


@BY_DTYPE
@pytest.mark.parametrize("axes", AXES, ids=str)
def test_reductions_along_all_axes_agree_with_the_oracle(
    device: Device, runner: GraphRunner, axes: tuple[int, ...], dtype: DType
) -> None:
    _need(device, dtype)
    shape = (5, 13, 6)
    first = AXES.index(axes) % 3  # a third of them, another one for the next axes: compiling takes long

    def make(graph: Graph, x: Node, y: Node) -> list[Node]:
        return [graph.reduce(op, source, axes) for op in _ops(dtype) for source in (x, y)][first::3]

    runner.check(case_of(runner.device, [_array(dtype, shape), _array(dtype, shape, special=0.2)], make))


@BY_DTYPE
@pytest.mark.parametrize("turn", range(TURNS))
def test_scans_along_all_axes_agree_with_the_oracle(
    device: Device, runner: GraphRunner, turn: int, dtype: DType
) -> None:
    _need(device, dtype)
    first = dtypes.ALL.index(dtype)  # each operation goes along either axis, of every other dtype: compiling takes long

    def make(graph: Graph, x: Node) -> list[Node]:
        return [graph.scan(op, x, (first + number) % 2) for number, op in enumerate(_ops(dtype))][turn::TURNS]

    runner.check(case_of(runner.device, [_array(dtype, (7, 33))], make))


@pytest.mark.parametrize("shape", [(3, 31), (70, 1200)], ids=str)
def test_a_scan_that_is_kept_is_whole_where_a_part_of_it_goes_on(runner: GraphRunner, shape: tuple[int, int]) -> None:
    def make(graph: Graph, x: Node) -> list[Node]:
        running = graph.scan(ReduceOp.MAX, x, 1)
        part = graph.shrink(running, [(0, shape[0] - 1), (0, shape[1] - 11)])
        return [running, graph.unary(UnaryOp.NEG, part)]

    runner.check(case_of(runner.device, [_array(dtypes.float32, shape)], make))


@pytest.mark.parametrize("count", [1, 2, 31, 64, 1000, 65_537, 300_007])
def test_all_elements_of_any_number_are_summed(runner: GraphRunner, count: int) -> None:
    x = np.random.default_rng(count).integers(-(2**31), 2**31, count).astype(np.int32)
    (total,) = runner.results(case_of(runner.device, [x], lambda graph, x: graph.reduce(ReduceOp.SUM, x, (0,))))
    with np.errstate(over="ignore"):
        assert total[0] == x.sum(dtype=np.int32)


def test_rows_and_columns_of_a_large_matrix_are_reduced(runner: GraphRunner) -> None:
    x = _array(dtypes.float32, (511, 1023))

    def make(graph: Graph, x: Node) -> list[Node]:
        return [graph.reduce(op, x, (axis,)) for op in (ReduceOp.SUM, ReduceOp.MAX) for axis in (0, 1)]

    runner.check(case_of(runner.device, [x], make))


@BY_DTYPE
def test_an_axis_without_elements_gives_the_identity(device: Device, runner: GraphRunner, dtype: DType) -> None:
    _need(device, dtype)
    x = np.zeros((3, 0, 2), dtype.numpy)

    def make(graph: Graph, x: Node) -> list[Node]:
        return [graph.contiguous(graph.reduce(op, x, (1,))) for op in _ops(dtype)]

    runner.check(case_of(runner.device, [x], make))


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16], ids=lambda dtype: dtype.short)
def test_sums_of_short_floats_are_accumulated_in_float32(device: Device, runner: GraphRunner, dtype: DType) -> None:
    _need(device, dtype)
    # Added one by one in the type itself, 1024 ones more than 2048 (or 256) are lost.
    x = np.ones((2, 4096), dtype.numpy)
    (total,) = runner.results(case_of(runner.device, [x], lambda graph, x: graph.reduce(ReduceOp.SUM, x, (1,))))
    np.testing.assert_array_equal(total.astype(np.float64), np.full((2, 1), 4096.0))


def test_nan_is_the_greatest_and_the_least(runner: GraphRunner) -> None:
    x = np.array([[1.0, np.nan, 3.0], [np.inf, 2.0, -np.inf]], np.float32)

    def make(graph: Graph, x: Node) -> list[Node]:
        return [graph.reduce(op, x, (1,)) for op in (ReduceOp.MAX, ReduceOp.MIN)]

    most, least = runner.results(case_of(runner.device, [x], make))
    np.testing.assert_array_equal(most, np.array([[np.nan], [np.inf]], np.float32))
    np.testing.assert_array_equal(least, np.array([[np.nan], [-np.inf]], np.float32))


def _row(graph: Graph, op: ReduceOp, x: Node) -> Node:
    return graph.expand(graph.reduce(op, x, (x.ndim - 1,)), x.shape)


def softmax(graph: Graph, x: Node) -> Node:
    """Return the softmax of each row of `x`."""
    powers = graph.unary(UnaryOp.EXP, graph.binary(BinaryOp.SUB, x, _row(graph, ReduceOp.MAX, x)))
    return graph.binary(BinaryOp.DIV, powers, _row(graph, ReduceOp.SUM, powers))


def product(graph: Graph, x: Node, y: Node) -> Node:
    """Return the product of two matrices."""
    (rows, depth), columns = x.shape, y.shape[1]
    wide = (rows, depth, columns)
    left = graph.expand(graph.reshape(x, (rows, depth, 1)), wide)
    right = graph.expand(graph.reshape(y, (1, depth, columns)), wide)
    return graph.reduce(ReduceOp.SUM, graph.binary(BinaryOp.MUL, left, right), (1,))


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (64, 1000), (2, 4099)], ids=lambda shape: "x".join(map(str, shape)))
def test_softmax_of_rows_agrees_with_the_oracle(runner: GraphRunner, shape: tuple[int, int]) -> None:
    runner.check(case_of(runner.device, [_array(dtypes.float32, shape)], softmax))


@pytest.mark.parametrize(
    "sizes", [(1, 1, 1), (3, 5, 2), (17, 33, 9), (64, 64, 64), (65, 129, 127), (130, 128, 260)], ids=str
)
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float16, dtypes.int32], ids=lambda dtype: dtype.short)
def test_products_of_matrices_agree_with_the_oracle(
    device: Device, runner: GraphRunner, dtype: DType, sizes: Sequence[int]
) -> None:
    _need(device, dtype)
    rows, depth, columns = sizes
    arrays = [_array(dtype, (rows, depth)), _array(dtype, (depth, columns))]
    runner.check(case_of(runner.device, arrays, product))
