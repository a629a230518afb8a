"""Reductions down the columns of a matrix read blocks of many columns, some rows at a time, where it is large."""

from __future__ import annotations

import pytest

from zyx.ir import kernel as k
from zyx.ir.nest import Kind
from zyx.lowering.lower import lower
from zyx.schedule.heuristics.choose import choose_schedule

NARROW = {"units": 2, "vector_bytes": 16, "lanes": (2, 4), "cache_bytes": (1 << 12, 1 << 14)}
WIDE = {"units": 1, "vector_bytes": 64, "registers": 32, "lanes": (2, 4, 8, 16), "cache_bytes": (1 << 13, 1 << 14)}
LARGE_CACHES = {"units": 2, "vector_bytes": 16, "lanes": (2, 4), "cache_bytes": (1 << 12, 1 << 30)}
MANY_UNITS = {"units": 64, "vector_bytes": 16, "lanes": (2, 4), "cache_bytes": (1 << 12, 1 << 14)}


def columns_of(bench, kind):
    """Return an output that goes down columns; no size is a multiple of anything."""
    match kind:
        case "sum":
            return bench.sum(bench.normal(67, 523), 0)
        case "max":
            return bench.max(bench.normal(67, 523), 0)
        case "middle":
            return bench.sum(bench.normal(3, 37, 523), 1)
        case "row times matrix":
            return bench.matmul(bench.normal(1, 67), bench.normal(67, 523))
        case "squares":
            x = bench.normal(67, 523)
            return bench.tanh(bench.sum(bench.mul(x, x), 0))


def schedule(bench, output):
    (nest,) = bench.schedule(output).nests
    return choose_schedule(nest, bench.info)[0]


def rows_at_a_time(nest):
    return [range_.size for range_ in nest.ranges if nest.kind(range_) is Kind.REPEAT]


def points_of_groups(nest):
    count = 1
    for range_ in nest.ranges:
        count *= range_.size if nest.kind(range_) is Kind.GROUP else 1
    return count


@pytest.mark.parametrize("limits", [NARROW, WIDE, MANY_UNITS], ids=["narrow", "wide", "many units"])
@pytest.mark.parametrize("kind", ["sum", "max", "middle", "row times matrix", "squares"])
def test_large_matrices_are_read_in_blocks_of_columns(device_with, limits, kind):
    bench = device_with(**limits)
    output = columns_of(bench, kind)
    bench.check(output, run=bench.run_kernels, tolerance=1e-4)
    assert rows_at_a_time(schedule(bench, output)) == [8]


@pytest.mark.parametrize("kind", ["sum", "max", "middle", "row times matrix", "squares"])
def test_what_the_caches_hold_is_not(device_with, kind):
    bench = device_with(**LARGE_CACHES)
    output = columns_of(bench, kind)
    bench.check(output, run=bench.run_kernels, tolerance=1e-4)
    assert not rows_at_a_time(schedule(bench, output))


def test_few_columns_or_few_rows_are_not(device_with):
    bench = device_with(**NARROW)
    for shape in ((523, 67), (13, 2053), (3000, 5)):
        output = bench.sum(bench.normal(*shape), 0)
        bench.check(output, run=bench.run_kernels, tolerance=1e-4)
        assert not rows_at_a_time(schedule(bench, output))


def test_matrices_that_are_read_again_are_not(device_with):
    """A softmax down columns finds a few columns in the caches when it needs them again."""
    bench = device_with(**NARROW)
    graph = bench.graph
    x = bench.normal(37, 389)
    powers = bench.exp(bench.sub(x, bench.max(x, 0)))
    bench.check(bench.mul(powers, bench.sum(powers, 0)), run=bench.run_kernels, tolerance=1e-4)
    (nest,) = bench.schedule(graph.contiguous(bench.mul(powers, bench.sum(powers, 0)))).nests
    assert not rows_at_a_time(choose_schedule(nest, bench.info)[0])


def test_groups_have_whole_blocks(device_with):
    """A block keeps its results in an eighth of the nearest cache."""
    bench = device_with(**NARROW)
    nest = schedule(bench, bench.sum(bench.normal(67, 2048), 0))
    assert points_of_groups(nest) == 2048 // (4096 // 8 // 4)


def test_results_stay_in_scratch_memory_and_columns_are_vectors(device_with):
    bench = device_with(**WIDE)
    kernel = lower(schedule(bench, bench.sum(bench.normal(67, 1024), 0)), "columns")
    source = next(n for n, op in enumerate(kernel.ops) if isinstance(op, k.Define) and not op.mutable)
    loads = [op for op in kernel.ops if isinstance(op, k.Load) and op.source == source]
    assert {op.type.lanes for op in loads} == {16}
