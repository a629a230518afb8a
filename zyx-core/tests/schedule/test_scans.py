"""Scans: along threads and lanes, in blocks of long axes, and what is computed from them in the same kernel."""

from __future__ import annotations

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.fusion.build import build_nest
from zyx.fusion.partition import partition
from zyx.graph.evaluate import evaluate
from zyx.graph.walk import topological
from zyx.kernel import data as k
from zyx.kernel.verify import verify
from zyx.lowering.lower import lower
from zyx.nest.data import Kind, Scan
from zyx.ops import ReduceOp
from zyx.schedule.choose import choose_schedule
from zyx.schedule.moves import Mark, Reorder, Split, SwapReduce, apply_moves
from zyx.schedule.plan import Plan, simplify_ranges
from zyx.schedule.seeds.scans import scan_seeds
from zyx.testing.races import run_without_races

DTYPES = [dtypes.float32, dtypes.float64, dtypes.int8, dtypes.uint64, dtypes.int32]


def values(shape, dtype, op):
    drawn = np.random.default_rng(3).integers(-9, 9, shape)
    if dtype.is_float:
        return (1 + drawn / 64).astype(dtype.numpy) if op is ReduceOp.PROD else (drawn / 8).astype(dtype.numpy)
    return drawn.astype(dtype.numpy)


def nest_of(bench, output):
    (part,) = partition(topological([output]), [output], bench.info)
    params = {}
    return build_nest(part, params), params


def run_scan(bench, op, array, axis, *moves):
    """Run the scan of `array` after `moves`, check its values, and return the kernel."""
    output = bench.graph.scan(op, bench.leaf(array), axis)
    nest, params = nest_of(bench, output)
    kernel = lower(apply_moves(nest, moves), "scan")
    verify(kernel)
    result = np.zeros(array.size, array.dtype)
    buffers = [array.ravel() if node.storage is not None else result for node in params]
    run_without_races(kernel, buffers)
    (expected,) = evaluate([output], exact=True)
    if array.dtype.kind == "f":
        np.testing.assert_allclose(result.reshape(array.shape), expected, 1e-5, 1e-5)
    else:
        np.testing.assert_array_equal(result.reshape(array.shape), expected)
    return kernel


def count(kernel, kind):
    return sum(isinstance(op, kind) for op in kernel.ops)


# ---- along threads and lanes


@pytest.mark.parametrize("op", [ReduceOp.SUM, ReduceOp.PROD, ReduceOp.MAX, ReduceOp.MIN])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("swap", [0, 8, 4])
def test_threads_scan_a_row_together(gpu, op, dtype, swap):
    moves = [Mark("r0", Kind.GROUP), Split("r1", 8), Mark("r1.1", Kind.LOCAL)]
    moves += [SwapReduce("r1.1", swap)] if swap else []
    kernel = run_scan(gpu, op, values((3, 43), dtype, op), 1, *moves)
    assert count(kernel, k.Swap) == (0 if not swap else 3 if swap == 8 else 2)
    assert (count(kernel, k.Barrier) == 0) == (swap == 8)


@pytest.mark.parametrize("threads", [1, 2, 3, 7, 16, 32])
@pytest.mark.parametrize("swap", [0, 2, 4, 32])
@pytest.mark.parametrize("size", [2, 64, 131])
def test_any_number_of_threads_scans_rows_of_any_length(gpu, threads, swap, size):
    moves = [Split("r1", threads), Mark("r1.1", Kind.LOCAL)]
    moves += [SwapReduce("r1.1", swap)] if swap else []
    run_scan(gpu, ReduceOp.SUM, values((2, size), dtypes.int32, ReduceOp.SUM), 1, Mark("r0", Kind.GROUP), *moves)


@pytest.mark.parametrize("kind", [Kind.VECTOR, Kind.REPEAT, Kind.UNROLL])
@pytest.mark.parametrize("swap", [0, 2, 8])
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.int16], ids=str)
def test_each_thread_scans_what_lies_side_by_side_first(gpu, kind, swap, dtype):
    moves = [Split("r1", 4), Mark("r1.1", kind), Split("r1.0", 16), Split("r1.0.1", 8)]
    moves += [Mark("r1.0.1.0", Kind.REPEAT), Mark("r1.0.1.1", Kind.LOCAL)]
    moves += [SwapReduce("r1.0.1.1", swap)] if swap else []
    kernel = run_scan(gpu, ReduceOp.SUM, values((2, 192), dtype, ReduceOp.SUM), 1, *moves)
    if kind is Kind.VECTOR:
        assert any(isinstance(op, k.Load) and op.type.lanes == 4 for op in kernel.ops)


@pytest.mark.parametrize("size", [3, 40, 200])
def test_lanes_lie_along_a_scan_of_one_thread(gpu, size):
    run_scan(
        gpu, ReduceOp.SUM, values((2, size), dtypes.float32, ReduceOp.SUM), 1, Split("r1", 4), Mark("r1.1", Kind.VECTOR)
    )


@pytest.mark.parametrize("swap", [0, 4])
def test_several_rows_of_a_group_are_scanned_apart(gpu, swap):
    moves = [
        Split("r0", 3),
        Mark("r0.0", Kind.GROUP),
        Mark("r0.1", Kind.LOCAL),
        Split("r1", 8),
        Mark("r1.1", Kind.LOCAL),
    ]
    moves += [SwapReduce("r1.1", swap)] if swap else []
    run_scan(gpu, ReduceOp.SUM, values((7, 21), dtypes.int32, ReduceOp.SUM), 1, *moves)


@pytest.mark.parametrize("swap", [0, 8])
def test_columns_are_scanned_by_threads_too(gpu, swap):
    moves = [Mark("r1", Kind.LOCAL), Split("r0", 8), Mark("r0.1", Kind.LOCAL), Reorder("v0", ("r0.0", "r0.1", "r1"))]
    moves += [SwapReduce("r0.1", swap)] if swap else []
    run_scan(gpu, ReduceOp.SUM, values((50, 5), dtypes.int32, ReduceOp.SUM), 0, *moves)


def test_long_sums_of_threads_go_block_by_block(gpu):
    array = np.full((1, 1 << 13), 0.1, np.float32)
    moves = [Split("r0", 4), Mark("r0.1", Kind.VECTOR), Split("r0.0", 8), Mark("r0.0.1", Kind.LOCAL)]
    run_scan(gpu, ReduceOp.SUM, array.ravel(), 0, *moves)


# ---- in blocks


def small(shape, op, dtype=np.float32):
    drawn = np.random.default_rng(5).integers(-20, 20, shape)  # what float32 adds without rounding
    return (1 + drawn / 1000 if op is ReduceOp.PROD else drawn).astype(dtype)


def kernels_of(bench):
    """Run kernels of threads by the interpreter, which takes long for those of one thread."""
    return bench.run_kernels if bench.info.max_group_threads > 1 else None


@pytest.mark.parametrize(
    "op, shape, axis",
    [
        (ReduceOp.SUM, (70_001,), 0),
        (ReduceOp.PROD, (3, 40_021), 1),
        (ReduceOp.MIN, (40_021, 3), 0),
        (ReduceOp.SUM, (2, 9001, 5), 1),
        (ReduceOp.MAX, (1200, 64), 0),
    ],
    ids=str,
)
def test_few_long_scans_go_in_blocks(bench, op, shape, axis):
    output = bench.graph.scan(op, bench.leaf(small(shape, op)), axis)
    scheduled = bench.check(output, run=kernels_of(bench), tolerance=1e-4)
    if len(scheduled.parts) == 1:  # there is one for each core, or each lane
        assert bench.info.max_group_threads == 1 and np.prod(shape) / shape[axis] >= bench.info.units
        return
    assert len(scheduled.parts) == (2 if shape == (2, 9001, 5) else 3)  # one total needs no scan
    assert [node.shape for node in scheduled.stored][-1] == shape
    assert sum(np.prod(node.shape) for node in scheduled.stored) < 1.1 * np.prod(shape)


@pytest.mark.parametrize(
    ("shape", "axis", "dtype", "count"),
    [
        ((70_001,), 0, np.float32, 3),
        ((3, 40_021), 1, np.float32, 3),
        ((4, 40_021), 1, np.float32, 1),
        ((40_021, 3), 0, np.float32, 1),
        ((2, 40_021), 1, np.float64, 1),
    ],
)
def test_rows_that_fill_no_vector_go_in_blocks_that_do(device_with, shape, axis, dtype, count):
    """However few units there are: one scan alone waits for its own last result at every element."""
    lanes = (2, 4, 8, 16)
    bench = device_with(units=1, vector_bytes=64, registers=32, lanes=lanes, cache_bytes=(1 << 15, 1 << 18))
    output = bench.graph.scan(ReduceOp.MAX, bench.leaf(small(shape, ReduceOp.MAX, dtype)), axis)
    scheduled = bench.check(output)
    assert len(scheduled.parts) == count
    chosen, _ = choose_schedule(scheduled.nests[-1], bench.info)
    loads = [op for op in lower(chosen, "test").ops if isinstance(op, k.Load)]
    if count > 1:
        assert any(op.type.lanes >= 8 for op in loads)


@pytest.mark.parametrize("dtype", [np.int8, np.uint64, np.float16, np.float64])
def test_blocks_are_of_any_dtype(bench, dtype):
    bench.check(
        bench.graph.scan(ReduceOp.SUM, bench.leaf(small((70_001,), ReduceOp.SUM, np.int64).astype(dtype)), 0),
        run=kernels_of(bench),
        tolerance=1e-3,
    )


def test_little_work_and_many_scans_are_done_in_one_go(bench):
    for shape, axis in (((60_000,), 0), ((2000, 300), 1), ((30, 3000), 0)):
        assert len(bench.check(bench.graph.scan(ReduceOp.SUM, bench.normal(*shape), axis), tolerance=1e-3).parts) == 1


def test_nan_and_infinities_reach_what_comes_after_them_only(bench):
    array = small((70_001,), ReduceOp.SUM)
    array[50_000] = np.nan
    array[69_999] = np.inf
    for op in (ReduceOp.SUM, ReduceOp.MAX):
        found = bench.check(bench.graph.scan(op, bench.leaf(array), 0), run=kernels_of(bench), tolerance=1e-3).value()
        assert np.isfinite(found[:50_000]).all() and np.isnan(found[50_000:]).all()


def test_what_several_read_of_a_scan_in_blocks_is_stored_as_it_is(bench):
    x = bench.leaf(small((70_001,), ReduceOp.SUM) / 1000)
    running = bench.graph.scan(ReduceOp.SUM, x, 0)
    scheduled = bench.check(running, bench.sqrt(bench.mul(running, running)), tolerance=1e-3)
    assert [node.shape for node in scheduled.stored][-2:] == [(70_001,), (70_001,)]
    assert len(scheduled.parts) == 4


# ---- what follows in the same kernel


@pytest.mark.parametrize("shape, axis", [((3, 50), 1), ((50, 3), 0), ((70_001,), 0), ((2, 9001, 5), 1)], ids=str)
def test_what_is_computed_from_each_element_follows_in_the_kernel_of_threads(gpu, shape, axis):
    graph = gpu.graph
    x = gpu.leaf(small(shape, ReduceOp.SUM) / 100)
    running = graph.scan(ReduceOp.SUM, x, axis)
    alone = len(gpu.check(running, tolerance=1e-3).parts)
    for output in (gpu.sqrt(gpu.mul(running, running)), gpu.add(x, running), graph.cast(running, dtypes.float16)):
        assert len(gpu.check(output, run=gpu.run_kernels, tolerance=2e-3).parts) == alone


@pytest.mark.parametrize("shape, axis", [((3, 50), 1), ((50, 3), 0), ((70_001,), 0), ((2, 9001, 5), 1)], ids=str)
def test_backwards_scans_store_backwards(gpu, shape, axis):
    graph = gpu.graph
    x = gpu.leaf(small(shape, ReduceOp.SUM))
    forwards = graph.scan(ReduceOp.SUM, x, axis)
    backwards = graph.flip(graph.scan(ReduceOp.SUM, graph.flip(x, (axis,)), axis), (axis,))
    parts = len(gpu.check(forwards, tolerance=1e-3).parts)
    assert len(gpu.check(backwards, run=gpu.run_kernels, tolerance=1e-3).parts) == parts


def test_on_processors_it_follows_where_columns_lie_side_by_side(cpu):
    for shape, axis, parts in (((30, 40), 0, 1), ((2, 30, 8), 1, 1), ((30, 40), 1, 2), ((30, 7), 0, 2)):
        x = cpu.leaf(small(shape, ReduceOp.SUM))
        running = cpu.graph.scan(ReduceOp.SUM, cpu.graph.flip(x, (axis,)), axis)
        for output in (
            cpu.exp(cpu.mul(running, cpu.constant(0.01, (1,) * len(shape)))),
            cpu.graph.flip(running, (axis,)),
        ):
            assert len(cpu.check(output, run=cpu.run_kernels).parts) == parts


def test_what_runs_over_a_scan_in_another_way_comes_after_it(bench):
    graph = bench.graph
    x = bench.normal(40, 30)
    running = graph.scan(ReduceOp.SUM, x, 1)
    for output in (
        bench.sum(running, 1),
        graph.permute(running, (1, 0)),
        graph.reshape(running, (30, 40)),
        graph.shrink(running, [(0, 40), (29, 30)]),
        bench.sub(running, bench.sum(running, 1)),
        bench.add(running, graph.scan(ReduceOp.SUM, running, 0)),
        bench.add(running, graph.scan(ReduceOp.SUM, x, 0)),
        bench.mul(running, bench.sum(x, 1)),
        graph.scan(ReduceOp.SUM, bench.mul(running, running), 1),
    ):
        bench.check(output, run=bench.run_kernels, tolerance=1e-3)


# ---- how threads share them

CARD = {
    "units": 2, "max_group_threads": 64, "max_group_shape": (64, 64, 64), "warp_size": 8, "subgroup_size": 8,
    "swaps": frozenset(dtype for dtype in dtypes.ALL if dtype.bits in (32, 64)), "vector_bytes": 16, "lanes": (2, 4),
}  # fmt: skip


@pytest.mark.parametrize("shape, axis", [
    ((40, 93), 1), ((40, 96), 1), ((3, 999), 1), ((3, 1000), 1), ((33, 5), 1), ((100, 40), 0), ((100, 3, 2), 0),
    ((9, 300, 4), 1), ((2, 30, 70), 1),
], ids=str)  # fmt: skip
def test_every_way_to_share_rows_and_columns_scans_them(device_with, shape, axis):
    bench = device_with(**CARD)
    array = small(shape, ReduceOp.SUM)
    output = bench.graph.scan(ReduceOp.SUM, bench.leaf(array), axis)
    nest, params = nest_of(bench, output)
    plan = Plan(nest)
    simplify_ranges(plan)
    ways = [*scan_seeds(plan.nest, bench.info)]
    assert len(ways) > 1
    for way in ways:
        kernel = lower(way.nest, "scan")
        verify(kernel)
        result = np.zeros(array.size, array.dtype)
        run_without_races(kernel, [array.ravel() if node.storage is not None else result for node in params])
        np.testing.assert_array_equal(result.reshape(shape), np.cumsum(array, axis, dtype=np.float64))


def test_values_of_rows_and_axes_in_parts_leave_the_threads_at_work(device_with):
    bench = device_with(**CARD)
    graph = bench.graph
    running = graph.scan(ReduceOp.SUM, bench.leaf(small((40, 96), ReduceOp.SUM)), 1)
    scaled = bench.mul(running, bench.tanh(bench.normal(40, 1)))
    flat = graph.reshape(graph.permute(bench.leaf(small((24, 40), ReduceOp.SUM)), (1, 0)), (960,))
    for output in (scaled, graph.scan(ReduceOp.SUM, flat, 0)):
        kernels = []

        def run(nests, arrays, kernels=kernels):
            kernels += [choose_schedule(nest, bench.info)[0] for nest in nests]
            bench.run_kernels(nests, arrays)

        bench.check(output, run=run)
        (nest,) = [nest for nest in kernels if any(isinstance(statement, Scan) for statement in nest.statements)]
        (scan,) = [statement for statement in nest.statements if isinstance(statement, Scan)]
        assert any(nest.kind(range_) is Kind.LOCAL for range_ in scan.along)
