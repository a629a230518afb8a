"""Reductions down the columns of a matrix."""

from __future__ import annotations

import pytest

from zyx.estimate import estimate
from zyx.kernel import data as k
from zyx.lowering.lower import lower
from zyx.schedule.choose import choose_schedule

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


@pytest.mark.parametrize(
    "limits", [NARROW, WIDE, LARGE_CACHES, MANY_UNITS], ids=["narrow", "wide", "large", "many units"]
)
@pytest.mark.parametrize("kind", ["sum", "max", "middle", "row times matrix", "squares"])
def test_columns_are_combined_whatever_the_caches_hold(device_with, limits, kind):
    bench = device_with(**limits)
    bench.check(columns_of(bench, kind), run=bench.run_kernels, tolerance=1e-4)


@pytest.mark.parametrize("shape", [(523, 67), (13, 2053), (3000, 5)])
def test_few_columns_or_few_rows_are_too(device_with, shape):
    bench = device_with(**NARROW)
    bench.check(bench.sum(bench.normal(*shape), 0), run=bench.run_kernels, tolerance=1e-4)


def test_matrices_that_are_read_again_are_too(device_with):
    bench = device_with(**NARROW)
    x = bench.normal(37, 389)
    powers = bench.exp(bench.sub(x, bench.max(x, 0)))
    bench.check(bench.mul(powers, bench.sum(powers, 0)), run=bench.run_kernels, tolerance=1e-4)


def test_a_large_matrix_comes_from_memory_once(device_with):
    bench = device_with(**NARROW)
    found = estimate(schedule(bench, bench.sum(bench.normal(67, 2048), 0)), bench.info)
    assert found.bytes["main memory"] < 1.3 * 67 * 2048 * 4


def test_results_stay_in_scratch_memory_and_columns_are_vectors(device_with):
    bench = device_with(**WIDE)
    kernel = lower(schedule(bench, bench.sum(bench.normal(67, 1024), 0)), "columns")
    source = next(n for n, op in enumerate(kernel.ops) if isinstance(op, k.Define) and not op.mutable)
    loads = [op for op in kernel.ops if isinstance(op, k.Load) and op.source == source]
    assert {op.type.lanes for op in loads} == {16}
