"""What is computed element by element is shared out evenly over threads, whatever the shape, and moves little."""

from __future__ import annotations

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.fusion.build import build_nest
from zyx.fusion.partition import partition
from zyx.graph.walk import topological
from zyx.kernel import data as k
from zyx.lowering.lower import lower
from zyx.nest.data import Kind
from zyx.ops import BinaryOp
from zyx.schedule.choose import choose_schedule


def counted(bench, output):
    """Return (kernel, waste) of the only kernel of an output, having checked its values."""
    (found,) = bench.counted(output, tolerance=1e-2 if output.dtype is dtypes.float16 else 1e-5)
    return found.kernel, found.waste


def threads_of(kernel):
    return int(np.prod(kernel.grid[1]))


@pytest.mark.parametrize("shape", [(1201, 7), (601, 3, 5), (37, 255), (5, 1701), (8000, 1), (2, 3, 5, 7, 41)], ids=str)
def test_groups_are_full_whatever_the_shape(card, shape):
    rows = card.leaf(card.random.standard_normal((*shape[:-1], 1)).astype(np.float16))
    wide = card.expand(card.graph.cast(rows, dtypes.float32), *shape)
    kernel, waste = counted(card, card.tanh(card.add(card.normal(*shape), wide)))
    assert threads_of(kernel) == 256
    assert waste < 1.5


def test_broadcast_rows_are_read_side_by_side(card):
    column = card.expand(card.normal(1201, 1), 1201, 7)
    assert counted(card, card.mul(card.normal(1201, 7), column))[1] < 1.6


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64], ids=lambda dtype: dtype.__name__)
def test_what_only_moves_is_read_before_it_is_stored(card, dtype):
    graph = card.graph
    moved = graph.contiguous(graph.permute(card.normal(903, 3, 7, 5, dtype=dtype), (0, 1, 3, 2)))
    kernel, waste = counted(card, moved)
    kinds = [type(op) for op in kernel.ops if isinstance(op, k.Load | k.Store)]
    points = 16 // np.dtype(dtype).itemsize
    assert kinds[: 2 * points] == [k.Load] * points + [k.Store] * points
    assert threads_of(kernel) == 256
    assert waste < 2.2


def test_points_of_a_thread_share_their_place_in_a_row(card):
    graph = card.graph
    kernel = counted(card, graph.contiguous(graph.permute(card.normal(1024, 3, 7, 5), (0, 1, 3, 2))))[0]
    loads = [op for op in kernel.ops if isinstance(op, k.Load)]
    quotients = [op for op in kernel.ops if isinstance(op, k.Binary) and op.op in (BinaryOp.DIV, BinaryOp.MOD)]
    assert len(loads) >= 4
    assert len(quotients) <= 5


def test_every_second_element_of_odd_rows_is_read_by_whole_groups(card):
    graph = card.graph
    pairs = graph.reshape(graph.shrink(card.normal(61, 191), [(0, 61), (1, 191)]), (61, 95, 2))
    second = graph.reshape(graph.shrink(pairs, [(0, 61), (0, 95), (0, 1)]), (61, 95))
    kernel, waste = counted(card, graph.contiguous(second))
    assert threads_of(kernel) == 256
    assert waste < 1.3


def test_gathers_read_positions_first_and_then_elements(card):
    graph = card.graph
    index = card.leaf(card.random.integers(0, 911, (911, 9)).astype(np.int32))
    kernel = counted(card, graph.gather(card.normal(911, 9), index, 0))[0]
    assert threads_of(kernel) == 256


def test_points_that_exist_for_some_statements_only_are_kept_to(card):
    graph = card.graph
    padded = graph.contiguous(graph.pad(card.normal(401, 19), [(1, 1), (2, 3)], 0.5))
    assert threads_of(counted(card, padded)[0]) == 256


def test_few_results_of_short_sums_fill_groups(card):
    kernel = counted(card, card.sum(card.normal(1301, 3, 5), 2))[0]
    assert threads_of(kernel) == 256


def test_what_only_the_last_group_does_no_other_group_does(card):
    nests = card.schedule(card.tanh(card.normal(5001))).nests
    kernel = lower(choose_schedule(nests[0], card.info)[0], "test")
    depth, outside = 0, []
    for op in kernel.ops:
        depth += isinstance(op, k.If) - isinstance(op, k.EndIf)
        outside += [op] if depth == 0 and isinstance(op, k.Load) else []
    assert not outside


def test_more_points_than_32_bits_count_stay_apart(card):
    leaf = card.graph.leaf((3, 1 << 30, 3), dtypes.int8, "cpu", None)
    shown = card.graph.contiguous(card.graph.permute(leaf, (0, 2, 1)))
    prepared = card.prepare(shown)
    (part,) = partition(topological(prepared), prepared, card.info)
    nest, _ = choose_schedule(build_nest(part, {}), card.info)
    assert all(range_.size < 1 << 31 for range_ in nest.ranges)
    assert {nest.kind(range_) for range_ in nest.ranges} >= {Kind.GROUP, Kind.LOCAL}


def test_parts_that_do_not_lie_at_whole_vectors_are_read_by_neighbours(card):
    graph = card.graph
    first = graph.pad(card.normal(60, 523), [(0, 0), (0, 256)])
    joined = card.add(first, graph.pad(card.normal(60, 256), [(0, 0), (523, 0)]))
    kernel, waste = counted(card, joined)
    loads = [op for op in kernel.ops if isinstance(op, k.Load)]
    assert len(loads) >= 4
    assert {op.type.lanes for op in loads} == {1}
    assert waste < 1.6


def test_short_loops_of_a_thread_are_written_out(card):
    kernel = counted(card, card.sum(card.normal(2001, 3), 1))[0]
    assert not any(isinstance(op, k.Loop) for op in kernel.ops)
