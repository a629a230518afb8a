"""Matrices that are turned over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zyx.kernel import data as k
from zyx.kernel.run import run as run_kernel
from zyx.kernel.verify import verify
from zyx.lowering.lower import lower
from zyx.nest.accesses import reads_in, stride_along
from zyx.nest.data import Kind
from zyx.ops import UnaryOp
from zyx.passes.pipeline import run_passes, standard_passes
from zyx.schedule.apply import apply
from zyx.schedule.choose import choose_schedule
from zyx.schedule.moves import Mark, apply_moves
from zyx.schedule.plan import Plan
from zyx.schedule.spec import Cut, Part, Place, Spec

HALF_LINES = {
    "units": 1, "vector_bytes": 32, "lanes": (2, 4, 8), "cache_bytes": (1 << 10, 1 << 12), "has_shuffle": True,
    "has_streaming": True,
}  # fmt: skip
WHOLE_LINES = {**HALF_LINES, "vector_bytes": 64, "lanes": (2, 4, 8, 16)}
NO_STREAMING = {**HALF_LINES, "has_streaming": False}
LARGE_CACHES = {**HALF_LINES, "cache_bytes": (1 << 10, 1 << 30)}


@pytest.mark.parametrize("limits", [HALF_LINES, WHOLE_LINES, NO_STREAMING, LARGE_CACHES])
@pytest.mark.parametrize("shape", [(128, 192), (3, 64, 128), (129, 192)])
def test_matrices_are_turned_over(device_with, limits, shape):
    bench = device_with(**limits)
    order = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
    output = bench.graph.contiguous(bench.graph.permute(bench.normal(*shape), order))
    bench.check(output, run=bench.run_kernels, tolerance=0)


@pytest.mark.parametrize(("size", "is_turned"), [(3, False), (5, False), (6, False), (12, False), (8, True)])
def test_blocks_are_turned_over_that_are_squares_of_a_power_of_two(device_with, size, is_turned):
    bench = device_with(**HALF_LINES)
    shuffles = []

    def run(nests, arrays):
        (nest,) = nests
        first, second = nest.statements[0].order
        moves = [Mark(first.label, Kind.VECTOR), Mark(second.label, Kind.REPEAT)]
        kernel = lower(apply_moves(nest, moves), "test")
        verify(kernel)
        run_kernel(kernel, [arrays[param] for param in nest.params])
        shuffles.extend(op for op in kernel.ops if isinstance(op, k.Shuffle))

    bench.check(bench.graph.unary(UnaryOp.NEG, bench.normal(size, size)), run=run, tolerance=0)
    assert bool(shuffles) == is_turned


@pytest.mark.parametrize("limits", [HALF_LINES, WHOLE_LINES, NO_STREAMING])
@pytest.mark.parametrize("shape", [(67, 129), (64, 65), (70, 72), (200, 9)])
def test_sums_with_a_turned_matrix_have_the_same_values(device_with, limits, shape):
    bench = device_with(**limits)
    turned = bench.graph.permute(bench.normal(*shape), (1, 0))
    bench.check(bench.add(turned, bench.normal(*shape[::-1])), run=bench.run_kernels, tolerance=1e-6)


@pytest.mark.parametrize(("limits", "streams"), [(WHOLE_LINES, True), (HALF_LINES, False), (NO_STREAMING, False)])
@pytest.mark.parametrize("shape", [(40, 3, 192), (37, 5, 131)])
def test_products_are_stored_past_the_caches_by_whole_lines(device_with, limits, streams, shape):
    rows, depth, columns = shape
    bench = device_with(**limits)
    output = bench.matmul(bench.normal(rows, depth), bench.normal(depth, columns))
    bench.check(output, run=bench.run_kernels, tolerance=1e-4)
    (nest,) = bench.schedule(output).nests
    assert choose_schedule(nest, bench.info)[0].statements[-1].streaming == streams


@pytest.mark.parametrize(("limits", "lanes"), [(HALF_LINES, 8), (WHOLE_LINES, 16)], ids=["half lines", "whole lines"])
@pytest.mark.parametrize("shape", [(113, 72), (70, 65)])
def test_the_last_tiles_are_loaded_by_vectors_too(device_with, limits, lanes, shape):
    """Blocks that are not whole are masked along lines that are read: lane by lane that would be hundreds of loads."""
    bench = device_with(**limits)
    output = bench.graph.contiguous(bench.graph.permute(bench.normal(*shape), (1, 0)))
    bench.check(output, run=bench.run_kernels, tolerance=0)
    (nest,) = bench.schedule(output).nests
    plan, (first, second) = Plan(nest), nest.ranges
    tile = 64 // lanes
    cuts = (
        Cut(first.label, (Part(tile, Kind.LOOP), Part(lanes, Kind.UNROLL))),
        Cut(second.label, (Part(tile, Kind.LOOP), Part(lanes, Kind.VECTOR))),
    )
    (read,) = reads_in(nest.statements[0])
    if stride_along(read.index, second) == 1:
        cuts = (replace(cuts[1], range=first.label), replace(cuts[0], range=second.label))
    apply(plan, Spec(cuts, tuple(Place(cut.range, part) for part in range(3) for cut in cuts[::-1])), bench.info)
    lowered = lower(plan.nest, "turn")
    loads = [op for op in lowered.ops if isinstance(op, k.Load)]
    assert {op.type.lanes for op in loads} == {lanes}
    # Lines behind the last one are not pointed at.
    masked = [op for op in loads if op.mask is not None]
    assert any(isinstance(lowered.ops[op.index], k.Where) for op in masked)
    run_passes(lowered, standard_passes(bench.info), check=True)


@pytest.mark.parametrize("limits", [HALF_LINES, WHOLE_LINES])
@pytest.mark.parametrize("shape", [(183, 450), (61, 66)])
def test_the_last_tiles_of_what_is_computed_are_turned_over_too(device_with, limits, shape):
    """What the branch of the last tile knows of its mask makes the elements there other expressions."""
    bench = device_with(**limits, max_group_threads=1)
    turned = bench.graph.permute(bench.normal(*shape), (1, 0))
    one = bench.graph.const(1.0, turned.dtype, turned.device, turned.shape)
    bench.check(bench.add(turned, one), run=bench.run_kernels, tolerance=0)
