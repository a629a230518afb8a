"""Lanes that lie a few elements apart are taken out of vectors, on processors."""

from __future__ import annotations

import numpy as np
import pytest

from zyx.kernel import data as k
from zyx.lowering.lower import lower
from zyx.nest.data import Kind
from zyx.passes.pipeline import run_passes, standard_passes
from zyx.schedule.choose import choose_schedule

NARROW = {"units": 2, "vector_bytes": 16, "lanes": (2, 4), "cache_bytes": (1 << 13, 1 << 16)}
WIDE = {"units": 2, "vector_bytes": 64, "registers": 32, "lanes": (2, 4, 8, 16), "cache_bytes": (1 << 15, 1 << 18)}
THREADS = {"units": 4, "max_group_threads": 64, "max_group_shape": (64, 64, 64), "vector_bytes": 16, "lanes": (2, 4)}


def every(bench, rows, columns, step, *, dtype=np.float32):
    """Return one in `step` of the elements of each row, from the first to the last; backwards if it is negative."""
    graph = bench.graph
    x = bench.normal(rows, (columns - 1) * abs(step) + 1, dtype=dtype)
    if step < 0:
        x = graph.flip(x, (1,))
    wide = graph.expand(graph.reshape(x, (*x.shape, 1)), (*x.shape, 1))
    return graph.contiguous(graph.reshape(graph.slide(wide, 1, 2, columns, abs(step), 1), (rows, columns)))


def largest(bench, columns, window, step):
    """Return the largest elements of windows of one line."""
    graph = bench.graph
    x = bench.normal((columns - 1) * step + window)
    wide = graph.expand(graph.reshape(x, (*x.shape, 1)), (*x.shape, window))
    return bench.max(graph.slide(wide, 0, 1, columns, step, 1), 1)


def kernel_of(bench, output):
    (nest,) = bench.schedule(output).nests
    scheduled, _ = choose_schedule(nest, bench.info)
    return scheduled, run_passes(lower(scheduled, "test"), standard_passes(bench.info), check=True)


def loaded_lanes(bench, output):
    """Return the lanes of each load from a buffer."""
    ops = kernel_of(bench, output)[1].ops
    return [op.type.lanes for op in ops if isinstance(op, k.Load) and ops[op.source].memory is k.Memory.GLOBAL]


@pytest.mark.parametrize("limits", [NARROW, WIDE], ids=["narrow", "wide"])
@pytest.mark.parametrize("step", [-4, -3, -2, -1, 2, 3, 4, 5])
@pytest.mark.parametrize("shape", [(3, 64), (1, 135)])
def test_values(device_with, limits, step, shape):
    """The last lane that is loaded is the last element of the buffer."""
    bench = device_with(**limits)
    bench.check(every(bench, *shape, step), run=bench.run_kernels, tolerance=0)


@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.float16, np.int8])
def test_values_of_other_dtypes(device_with, dtype):
    for step in (2, 3):
        bench = device_with(**WIDE)
        bench.check(every(bench, 2, 70, step, dtype=dtype), run=bench.run_kernels, tolerance=0)


@pytest.mark.parametrize(("limits", "lanes"), [(NARROW, 4), (WIDE, 16)], ids=["narrow", "wide"])
@pytest.mark.parametrize("step", [-3, -1, 2, 3, 4])
def test_short_steps_load_vectors(device_with, limits, lanes, step):
    bench = device_with(**limits)
    found = loaded_lanes(bench, every(bench, 1, 16 * lanes, step))
    assert set(found) == {lanes}
    assert len(found) % abs(step) == 0


def test_long_steps_and_threads_load_lane_by_lane(device_with):
    bench = device_with(**WIDE)
    assert 1 in loaded_lanes(bench, every(bench, 1, 256, 5))
    bench = device_with(**THREADS)
    output = every(bench, 1, 256, 2)
    bench.check(output, run=bench.run_kernels, tolerance=0)
    assert not any(isinstance(op, k.Shuffle) for op in kernel_of(bench, output)[1].ops)


@pytest.mark.parametrize("limits", [NARROW, WIDE], ids=["narrow", "wide"])
@pytest.mark.parametrize(("window", "step"), [(2, 2), (3, 2), (5, 3), (4, 4), (3, 3)])
def test_vectors_go_along_the_results_of_windows(device_with, limits, window, step):
    """Along a window few lanes would have work, and be combined for each result."""
    bench = device_with(**limits)
    output = largest(bench, 301, window, step)
    bench.check(output, run=bench.run_kernels, tolerance=0)
    scheduled, _ = kernel_of(bench, output)
    vectors = {range_ for range_ in scheduled.ranges if scheduled.kind(range_) is Kind.VECTOR}
    if limits is WIDE:
        assert all(vectors <= set(statement.order) for statement in scheduled.statements)
