"""The schedules that are chosen at once: valid for every device, within its limits, and of the same values."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.kernel import data as k
from zyx.kernel.verify import verify
from zyx.lowering.lower import lower
from zyx.nest.data import Kind
from zyx.ops import BinaryOp, ReduceOp
from zyx.passes.pipeline import run_passes, standard_passes
from zyx.schedule.choose import choose_schedule
from zyx.schedule.contraction import find_contraction
from zyx.schedule.moves import Apart, Inline, apply_moves

DEVICES = {
    "scalar": {"units": 1, "lanes": ()},
    "narrow": {"units": 2, "vector_bytes": 16, "lanes": (2, 4), "cache_bytes": (1 << 15, 1 << 18)},
    "wide": {"units": 8, "vector_bytes": 64, "registers": 32, "lanes": (2, 4, 8, 16), "cache_bytes": (32768, 1 << 20)},
    "threads": {"units": 16, "max_group_threads": 256, "max_group_shape": (256, 256, 64), "warp_size": 32},
    "threads with vectors": {
        "units": 1, "max_group_threads": 512, "max_group_shape": (512, 64, 64), "warp_size": 32, "vector_bytes": 16,
        "lanes": (2, 4),
    },
    "threads in step": {
        "units": 1, "max_group_threads": 512, "max_group_shape": (512, 64, 64), "warp_size": 32, "vector_bytes": 16,
        "lanes": (2, 4), "subgroup_size": 32, "swaps": frozenset({dtypes.float32, dtypes.int32, dtypes.int64}),
    },
    "few threads in step": {
        "units": 2, "max_group_threads": 256, "max_group_shape": (256, 256, 64), "warp_size": 4, "subgroup_size": 4,
        "swaps": frozenset({dtypes.float32}),
    },
    "few threads": {"units": 4, "max_group_threads": 8, "max_group_shape": (8, 4, 2), "local_bytes": 256},
    "one thread": {"units": 4, "max_group_threads": 2, "max_group_shape": (2, 1, 1), "local_bytes": 64},
}  # fmt: skip


def zoo(bench):
    """Return outputs by name, of sizes that fit nothing."""
    graph = bench.graph
    index = bench.leaf(bench.random.integers(0, 7, (5, 9)))
    image = bench.normal(2, 3, 9, 7, 1)
    return {
        "scalar": bench.tanh(bench.normal()),
        "elementwise": bench.tanh(bench.add(bench.normal(37, 13), bench.normal(13))),
        "long": bench.exp(bench.normal(1031)),
        "narrow": bench.tanh(bench.normal(301, 3)),
        "transpose": graph.contiguous(graph.permute(bench.normal(33, 17), (1, 0))),
        "padded": graph.contiguous(graph.pad(bench.normal(7, 11), [(3, 2), (1, 4)], 1.5)),
        "rows": bench.sum(bench.normal(19, 67), 1),
        "columns": bench.sum(bench.normal(67, 19), 0),
        "all": bench.max(bench.normal(13, 5, 7), 0, 1, 2),
        "wide columns": bench.sum(bench.normal(64, 96), 0),
        "softmax": bench.softmax(bench.normal(11, 43)),
        "long softmax": bench.softmax(bench.normal(5, 512)),
        "long layer norm": bench.layer_norm(bench.normal(5, 3072)),
        "many": bench.tanh(bench.add(bench.normal(32, 128), bench.normal(128))),
        "layer norm": bench.layer_norm(bench.normal(11, 43)),
        "matmul": bench.matmul(bench.normal(23, 31), bench.normal(31, 29)),
        "matmul turned": bench.matmul(bench.normal(23, 31), graph.permute(bench.normal(29, 31), (1, 0))),
        "row times matrix": bench.matmul(bench.normal(1, 64), bench.normal(64, 37)),
        "matrix times column": bench.matmul(bench.normal(37, 64), bench.normal(64, 1)),
        "epilogue": bench.tanh(bench.add(bench.matmul(bench.normal(20, 12), bench.normal(12, 18)), bench.normal(18))),
        "windows": bench.sum(graph.slide(graph.expand(image, (2, 3, 9, 7, 3)), 2, 4, 7), 4),
        "scan": graph.scan(ReduceOp.SUM, bench.normal(5, 33), 1),
        "scan down": graph.scan(ReduceOp.MAX, bench.normal(33, 5), 0),
        "gather": graph.gather(bench.normal(7, 9), index, 0),
        "scatter": graph.scatter(bench.normal(7, 9), index, bench.normal(5, 9), 0, ReduceOp.SUM),
        "integers": graph.reduce(ReduceOp.SUM, bench.leaf(np.arange(210).reshape(6, 35)), (1,)),
        "half": bench.tanh(bench.normal(5, 37, dtype=np.float16)),
    }  # fmt: skip


@pytest.fixture(params=DEVICES)
def bench(request, device_with):
    return device_with(**DEVICES[request.param])


def test_chosen_schedules_give_the_values_of_the_graph(bench):
    for name, output in zoo(bench).items():
        tolerance = 1e-2 if name == "half" else 1e-4
        try:
            bench.check(output, tolerance=tolerance, run=bench.run_kernels)
        except Exception as error:
            error.add_note(name)
            raise


def test_chosen_schedules_keep_to_the_limits_of_the_device(bench):
    info = bench.info
    for name, output in zoo(bench).items():
        for nest in bench.schedule(output).nests:
            kernel = lower(choose_schedule(nest, info)[0], "test")
            verify(kernel)
            groups, threads = kernel.grid
            assert math.prod(threads) <= info.max_group_threads, name
            assert all(n <= most for n, most in zip(threads, info.max_group_shape, strict=False)), name
            assert all(n <= most for n, most in zip(groups, info.max_groups, strict=False)), name
            local = [op for op in kernel.ops if isinstance(op, k.Define) and op.memory is k.Memory.LOCAL]
            assert sum(op.length * op.lanes * op.dtype.itemsize for op in local) <= info.local_bytes, name
            allowed = {dtype: (1, *capability.lanes) for dtype, capability in info.capabilities.items()}
            for op in kernel.ops:
                if isinstance(op, k.Value) and not op.type.dtype.is_bool:
                    assert op.type.lanes in allowed[op.type.dtype], (name, op)


def test_the_moves_returned_lead_to_the_nest_returned(bench):
    for output in zoo(bench).values():
        for nest in bench.schedule(output).nests:
            before = str(nest)
            chosen, moves = choose_schedule(nest, bench.info)
            assert str(nest) == before
            kinds = [chosen.kind(range_) for range_ in chosen.ranges]
            again = apply_moves(nest, moves)
            assert [again.kind(range_) for range_ in again.ranges] == kinds
            assert [range_.size for range_ in again.ranges] == [range_.size for range_ in chosen.ranges]


def test_choosing_is_deterministic(bench):
    for output in zoo(bench).values():
        for nest in bench.schedule(output).nests:
            assert choose_schedule(nest, bench.info)[1] == choose_schedule(nest, bench.info)[1]


def test_large_kernels_are_shared_out_and_use_vectors(cpu):
    for output in (
        cpu.tanh(cpu.normal(300, 400)),
        cpu.softmax(cpu.normal(300, 400)),
        cpu.matmul(cpu.normal(200, 96), cpu.normal(96, 128)),
    ):
        (nest,) = cpu.schedule(output).nests
        chosen, _ = choose_schedule(nest, cpu.info)
        kinds = {chosen.kind(range_) for range_ in chosen.ranges}
        assert {Kind.GROUP, Kind.VECTOR} <= kinds


def test_products_are_scheduled_however_small_the_caches_are(device_with):
    bench = device_with(units=1, vector_bytes=16, cache_bytes=(128, 256), local_bytes=512)
    factor = bench.graph.permute(bench.normal(20, 13), (1, 0))
    bench.check(bench.matmul(bench.normal(33, 13), factor), run=bench.run_kernels, tolerance=1e-4)


def pairs(bench, first, second, size):
    """Return the squared distances between `first` points and `second` others, of so many coordinates."""
    a, b = bench.normal(first, 1, size), bench.normal(1, second, size)
    difference = bench.sub(a, b)
    return bench.sum(bench.mul(difference, difference), 2)


SLOW_SIZES = [pytest.param(*sizes, marks=pytest.mark.slow) for sizes in ((64, 130), (83, 61))]


@pytest.mark.parametrize(("first", "second"), [(10, 7), (200, 128), *SLOW_SIZES])
def test_distances_between_pairs_may_be_combined_again(bench, first, second):
    for axis in (0, 1):
        nearest = bench.graph.reduce(ReduceOp.MIN, pairs(bench, first, second, 9), (axis,))
        bench.check(nearest, run=bench.run_kernels, tolerance=1e-4)
        closeness = bench.exp(bench.mul(pairs(bench, first, second, 3), bench.constant(-1.0, (1, 1, 1))))
        bench.check(bench.sum(closeness, axis), run=bench.run_kernels, tolerance=1e-4)


def test_a_sum_of_products_whose_results_are_combined_again_is_no_product_of_matrices(cpu):
    (nest,) = cpu.schedule(cpu.max(cpu.matmul(cpu.normal(33, 64), cpu.normal(64, 48)), 1)).nests[:1]
    assert find_contraction(nest) is not None
    (nest,) = cpu.schedule(cpu.max(pairs(cpu, 100, 100, 13), 1)).nests
    assert find_contraction(nest) is None


def test_rows_are_reduced_by_the_threads_of_a_group(gpu):
    (nest,) = gpu.schedule(gpu.softmax(gpu.normal(64, 512))).nests
    chosen, _ = choose_schedule(nest, gpu.info)
    assert {Kind.GROUP, Kind.LOCAL} <= {chosen.kind(range_) for range_ in chosen.ranges}
    gpu.check(gpu.softmax(gpu.normal(64, 512)), run=gpu.run_kernels, tolerance=1e-4)


def test_threads_load_vectors_and_read_short_rows_once(device_with):
    bench = device_with(**DEVICES["threads with vectors"])
    for output in (bench.softmax(bench.normal(5, 512)), bench.layer_norm(bench.normal(5, 512))):
        (nest,) = bench.schedule(output).nests
        kernel = run_passes(lower(choose_schedule(nest, bench.info)[0], "rows"), standard_passes(bench.info))
        sources = {n for n, op in enumerate(kernel.ops) if isinstance(op, k.Define) and not op.mutable}
        loads = [op for op in kernel.ops if isinstance(op, k.Load) and op.source in sources]
        assert {op.type.lanes for op in loads} == {4}
        assert len({(op.source, op.index) for op in loads}) == len(loads)
        assert not any(isinstance(op, k.Loop) for op in kernel.ops)


@pytest.mark.parametrize(
    ("depth", "is_combined", "by_rows"), [(17, False, True), (17, True, True), (60, False, False), (5, False, False)]
)
def test_large_results_of_short_sums_are_computed_row_by_row(device_with, depth, is_combined, by_rows):
    """Not if the factors of all columns fill the cache that they are read from, nor if the results stay in it."""
    bench = device_with(units=1, vector_bytes=16, lanes=(2, 4), cache_bytes=(1 << 10, 1 << 13))
    columns = 120 if depth > 5 else 16
    output = bench.matmul(bench.normal(90, depth), bench.normal(depth, columns))
    if is_combined:
        output = bench.add(output, bench.normal(90, columns))
    (nest,) = bench.schedule(output).nests
    found = find_contraction(nest)
    assert found is not None
    row, column = (range_.label for range_ in found.statement.value.ranges)
    chosen, _ = choose_schedule(nest, bench.info)
    order = [
        r.label for r in chosen.statements[-1].order if chosen.kind(r) not in (Kind.GROUP, Kind.VECTOR, Kind.UNROLL)
    ]
    sides = [label.split(".")[0] for label in order]
    assert sorted(sides) == sorted((row, column))
    assert (sides == [row, column]) == by_rows
    bench.check(output, run=bench.run_kernels, tolerance=1e-4)


@pytest.mark.parametrize(("steps", "is_loop"), [(0, False), (3, True)])
def test_what_takes_long_for_each_result_of_a_tile_is_written_once(device_with, steps, is_loop):
    """And not for each of its rows: the code of all of them takes longer to compile than the product."""
    bench = device_with(**DEVICES["wide"])
    output = bench.matmul(bench.normal(20, 12), bench.normal(12, 18))
    for _ in range(steps):
        output = bench.tanh(output)
    (nest,) = bench.schedule(output).nests
    chosen, moves = choose_schedule(nest, bench.info)
    assert any(isinstance(move, Apart) for move in moves) == is_loop
    kernel = lower(chosen, "product")
    written = sum(isinstance(op, k.Unary) for op in kernel.ops)
    points = max(op.length for op in kernel.ops if isinstance(op, k.Define) and op.memory is k.Memory.REGISTER)
    assert (written < steps * points) == is_loop
    bench.check(output, run=bench.run_kernels, tolerance=1e-4)


def turned_softmax(bench):
    """Return the softmax over two axes, of which the threads of a group share one."""
    x = bench.graph.permute(bench.normal(64, 100, 170), (0, 2, 1))
    shape = (64, 170, 100)
    powers = bench.exp(bench.sub(x, bench.expand(bench.max(x, 1, 2), *shape)))
    return bench.graph.binary(BinaryOp.DIV, powers, bench.expand(bench.sum(powers, 1, 2), *shape))


@pytest.mark.parametrize(("most", "registers"), [(1 << 20, 1 << 14), (1000, 1 << 14), (1 << 20, 255)])
def test_threads_keep_no_more_than_they_can_have_and_than_pays(device_with, most, registers):
    device = {**DEVICES["threads with vectors"], "registers": registers, "cache_bytes": (1 << 15, 1 << 22)}
    bench = device_with(**device, private_bytes=most)
    (nest,) = bench.schedule(turned_softmax(bench)).nests
    chosen, moves = choose_schedule(nest, bench.info)
    kernel = lower(chosen, "rows")
    arrays = [op for op in kernel.ops if isinstance(op, k.Define) and op.memory is k.Memory.REGISTER]
    is_inline = min(most, registers) <= 1000
    assert any(isinstance(move, Inline) for move in moves) == is_inline
    assert (sum(op.length * op.dtype.itemsize for op in arrays) <= 1000) == is_inline
    bench.check(turned_softmax(bench), run=bench.run_kernels, tolerance=1e-4)


def test_neighbouring_threads_combine_neighbouring_columns(device_with):
    bench = device_with(**DEVICES["threads with vectors"])
    (nest,) = bench.schedule(bench.sum(bench.normal(64, 96), 0)).nests
    kernel = lower(choose_schedule(nest, bench.info)[0], "columns")
    columns, across = kernel.grid[1]
    assert columns >= 8
    assert across > 1
    beside = lower(choose_schedule(nest, bench.info, is_alone=False)[0], "beside")
    assert math.prod(beside.grid[1]) <= 256


def test_columns_and_rows_that_threads_combine_share_a_launch(device_with):
    """Groups have as many threads as the largest needs; each nest has its own axes along these."""
    bench = device_with(**DEVICES["threads with vectors"])
    outputs = [bench.sum(bench.normal(64, 96), 0), bench.sum(bench.normal(12, 70), 1), bench.exp(bench.normal(9, 5))]
    scheduled = bench.check(*outputs, run=bench.run_kernels, tolerance=1e-4)
    assert [len(launch) for launch in scheduled.launches] == [3]


def test_nests_side_by_side_have_no_barriers_where_threads_cannot_meet_in_branches(gpu):
    (nest,) = gpu.schedule(gpu.sum(gpu.normal(64, 512), 1)).nests
    cannot = replace(gpu.info, meets_in_branches=False)
    for info, is_alone, meets in ((gpu.info, False, True), (cannot, True, True), (cannot, False, False)):
        chosen, _ = choose_schedule(nest, info, is_alone=is_alone)
        assert any(isinstance(op, k.Barrier) for op in lower(chosen, "test").ops) is meets


@pytest.mark.parametrize(("rows", "depth", "columns"), [(16, 887, 512), (23, 979, 376)])
def test_a_product_with_few_tiles_and_a_long_sum_has_groups_for_all_units(card_with, rows, depth, columns):
    card = card_with(units=64, max_group_threads=1024, max_group_shape=(1024, 1024, 64), cache_bytes=(1 << 17, 1 << 24))
    product = card.matmul(card.normal(rows, depth), card.normal(depth, columns))
    (nest,) = card.schedule(product, run=lambda *_: None).nests
    chosen, _ = choose_schedule(nest, card.info)
    verify(lower(chosen, "test"))
    assert np.prod([range_.size for range_ in chosen.grid]) >= 64
