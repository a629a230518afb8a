"""Statements of a nest take turns with the threads of a group."""

from __future__ import annotations

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.errors import ScheduleError
from zyx.graph import Graph
from zyx.lowering.lower import lower, lower_together
from zyx.lowering.thread_axes import axes_without, thread_axes
from zyx.nest.data import Compute, Kind, Nest, Store
from zyx.nest.expr import Param
from zyx.nest.pool import Pool
from zyx.ops import BinaryOp, ReduceOp
from zyx.schedule.moves import GroupReduce, Mark, Split, apply_moves
from zyx.testing.graphs import GraphCase
from zyx.testing.nests import MACHINES, kernels_of
from zyx.testing.schedules import run_lowered


def scaled_rows(rows, long, short):
    """Return the one kernel that divides rows of `short` elements by the sums of others of `long`.

    v0[r0] = sum(r2) of p1[r0, r2];  p0[r0, r1] = p2[r0, r1] / v0[r0]
    """
    graph = Graph()
    x, y = (graph.leaf((rows, size), dtypes.float32, "test:0") for size in (long, short))
    total = graph.expand(graph.reshape(graph.reduce(ReduceOp.SUM, x, (1,)), (rows, 1)), (rows, short))
    rng = np.random.default_rng(0)
    values = {node: rng.uniform(1, 2, size=node.shape).astype(np.float32) for node in (x, y)}
    (kernel,), _ = kernels_of(GraphCase(graph, [graph.binary(BinaryOp.DIV, y, total)], values), MACHINES[2])
    return kernel


def with_threads(nest, *sizes):
    """Return `nest` with a group for each row, and its other ranges shared out over threads."""
    row, *others = (range_.label for range_ in nest.ranges)
    moves = [GroupReduce(label, size) for label, size in zip(others, sizes, strict=True)]
    return apply_moves(nest, [Mark(row, Kind.GROUP), *moves])


def test_ranges_of_one_size_that_no_statement_has_both_of_share_an_axis():
    case = scaled_rows(3, 50, 20)
    nest = with_threads(case.nests[0], 16, 16)
    assert [[range_.label for range_ in axis] for axis in thread_axes(nest)] == [["r2.1", "r1.1"]]
    assert lower(nest, "scaled").grid == ((3,), (16,))
    case.check(run_lowered, [nest])


def test_ranges_of_different_sizes_do_not():
    case = scaled_rows(3, 50, 20)
    nest = with_threads(case.nests[0], 8, 16)
    assert [[range_.label for range_ in axis] for axis in thread_axes(nest)] == [["r2.1"], ["r1.1"]]
    case.check(run_lowered, [nest])


def test_ranges_that_meet_in_a_statement_do_not():
    case = scaled_rows(6, 50, 20)
    nest = with_threads(case.nests[0], 16, 16)
    nest = apply_moves(nest, [Split("r0", 2), Mark("r0.1", Kind.LOCAL), Split("r1.0", 2), Mark("r1.0.1", Kind.LOCAL)])
    axes = thread_axes(nest)
    assert [sorted(range_.label for range_ in axis) for axis in axes] == [["r1.1", "r2.1"], ["r1.0.1"], ["r0.1"]]
    assert [range_.label for range_ in axes_without(axes, nest.statements[0].order)] == ["r1.0.1"]
    case.check(run_lowered, [nest])


def test_nests_that_run_side_by_side_are_padded_along_all_ranges_of_the_axis():
    cases = [scaled_rows(3, 50, 20), scaled_rows(4, 20, 9)]
    nests = [with_threads(case.nests[0], size, size) for case, size in zip(cases, (16, 8), strict=True)]
    assert lower_together(nests, "both").grid == ((7,), (16,))
    buffers = {param: array for case in cases for param, array in case.buffers().items()}
    run_lowered(nests, buffers)
    for case, nest in zip(cases, nests, strict=True):
        case.check(lambda _, own: own.update({param: buffers[param] for param in own}), [nest])


def test_sums_in_shared_memory_are_not_added_to_by_threads_without_a_part_in_them():
    pool = Pool()
    rows, columns, total, copies = (pool.range(size, label) for size, label in ((4, "i"), (3, "j"), (5, "k"), (2, "c")))
    x, y = Param(0, dtypes.float32, 60, mutable=False), Param(1, dtypes.float32, 24, mutable=True)
    value = pool.value(dtypes.float32, (rows, columns))
    i, j, k, c = (pool.ref(range_) for range_ in (rows, columns, total, copies))
    read = pool.read(x, pool.flatten((k, i, j), (5, 4, 3)))
    other = pool.value_ref(value, (pool.affine(((i, -1),), 3), j))  # what a thread stores, another has added up
    nest = Nest(
        (x, y),
        (
            Compute(value, read, ReduceOp.SUM, (total,), (total, rows, columns)),
            Store(y, pool.flatten((c, i, j), (2, 4, 3)), other, None, (copies, rows, columns)),
        ),
        pool,
        {rows: Kind.LOCAL},
    )
    values = np.arange(60, dtype=np.float32)
    stored = np.full(24, np.nan, np.float32)
    run_lowered([nest], {x: values, y: stored})
    expected = values.reshape(5, 4, 3).sum(0)[::-1]
    np.testing.assert_array_equal(stored.reshape(2, 4, 3), [expected, expected])
    with pytest.raises(ScheduleError, match="share"):
        lower(apply_moves(nest, [Mark("c", Kind.LOCAL)]), "sums")
