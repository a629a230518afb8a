"""Reductions by threads that swap values: what they give, and what of barriers and local memory is left."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.drivers.limits import check_limits
from zyx.errors import ScheduleError
from zyx.kernel import data as k
from zyx.kernel import run as interpreter
from zyx.kernel.rewrite import Rewriter
from zyx.kernel.verify import verify
from zyx.lowering.lower import lower, lower_together
from zyx.nest.data import Kind
from zyx.ops import ReduceOp
from zyx.passes.pipeline import run_passes, standard_passes
from zyx.schedule.choose import choose_schedule
from zyx.schedule.moves import GroupReduce, Mark, Pad, Reorder, Split, SwapReduce, apply_moves
from zyx.testing.choices import Seeded
from zyx.testing.graphs import GraphOptions, random_case
from zyx.testing.nests import MACHINES, kernels_of
from zyx.testing.schedules import random_schedule, run_lowered, written_out

IN_STEP = {
    "units": 16, "max_group_threads": 1024, "max_group_shape": (1024, 1024, 64), "warp_size": 32,
    "subgroup_size": 32, "swaps": frozenset(dtype for dtype in dtypes.ALL if dtype.bits in (32, 64)),
}  # fmt: skip


@pytest.fixture
def bench(device_with):
    return device_with(**IN_STEP)


def nest_of(bench, output):
    (nest,) = bench.schedule(output).nests
    return nest


def counts(kernel):
    """Return barriers, bytes of local memory, and swaps."""
    local = [op for op in kernel.ops if isinstance(op, k.Define) and op.memory is k.Memory.LOCAL]
    return (
        sum(isinstance(op, k.Barrier) for op in kernel.ops),
        sum(op.length * op.dtype.itemsize for op in local),
        sum(isinstance(op, k.Swap) for op in kernel.ops),
    )


def run(kernel, *arrays):
    verify(kernel)
    interpreter.run(kernel, list(arrays))


# ---- counts


@pytest.mark.parametrize(
    ("threads", "subgroup", "with_swaps", "without"),
    [
        (256, 32, (1, 4 * 8, 5 + 3), (9, 4 * 256, 0)),
        (256, 64, (1, 4 * 4, 6 + 2), (9, 4 * 256, 0)),
        (32, 32, (0, 0, 5), (6, 4 * 32, 0)),
        (1024, 32, (1, 4 * 32, 5 + 5), (11, 4 * 1024, 0)),
        (256, 4, (1, 4 * 64, 2 + 2), (9, 4 * 256, 0)),  # each thread adds up 16 of the 64 results
        (96, 32, (1, 4 * 3, 5 + 2), (8, 4 * 96, 0)),
        (48, 32, (1, 4 * 3, 4 + 2), (7, 4 * 48, 0)),  # subgroups of 16 divide 48
        (33, 32, (7, 4 * 33, 0), (7, 4 * 33, 0)),
    ],
)
def test_a_row_sum_keeps_one_barrier_and_one_result_of_each_subgroup(bench, threads, subgroup, with_swaps, without):
    rows = bench.normal(3, 2 * threads)
    nest = nest_of(bench, bench.sum(rows, 1))
    plain = apply_moves(nest, [Mark("r0", Kind.GROUP), GroupReduce("r1", threads)])
    swapping = apply_moves(plain, [SwapReduce("r1.1", subgroup)])
    for scheduled, wanted in ((plain, without), (swapping, with_swaps)):
        kernel = lower(scheduled, "rows")
        assert counts(kernel) == wanted
        out = np.full(3, np.nan, np.float32)
        arrays = [out, rows.storage.ravel()] if nest.params[0].mutable else [rows.storage.ravel(), out]
        run(kernel, *arrays)
        np.testing.assert_allclose(out, rows.storage.sum(1), 1e-4, 1e-4)


def test_in_a_loop_threads_meet_before_the_next_round(bench):
    """Rows that one group sums up one after the other share its local memory."""
    nest = nest_of(bench, bench.sum(bench.normal(6, 256), 1))
    plain = apply_moves(nest, [GroupReduce("r1", 128)])
    assert counts(lower(plain, "rows")) == (9, 4 * 128, 0)
    assert counts(lower(apply_moves(plain, [SwapReduce("r1.1", 32)]), "rows")) == (2, 4 * 4, 5 + 2)


def test_softmax_meets_twice_and_layer_norm_as_often(bench):
    for output in (bench.softmax(bench.normal(5, 512)), bench.layer_norm(bench.normal(5, 512))):
        nest = nest_of(bench, output)
        chosen, _ = choose_schedule(nest, bench.info)
        barriers, nbytes, swaps = counts(lower(chosen, "rows"))
        (threads,) = (r.size for r in chosen.ranges if chosen.kind(r) is Kind.LOCAL and r.size > 1)
        warps, by_warps = threads // 32, (threads // 32).bit_length() - 1
        assert (barriers, nbytes, swaps) == (2, 2 * 4 * warps, 2 * (5 + by_warps))
        without, _ = choose_schedule(nest, replace(bench.info, subgroup_size=0, swaps=frozenset()))
        (threads,) = (r.size for r in without.ranges if without.kind(r) is Kind.LOCAL and r.size > 1)
        assert counts(lower(without, "rows")) == (2 * threads.bit_length(), 2 * 4 * threads, 0)


# ---- values


def cases():
    data = np.random.default_rng(5)
    for op, dtype in itertools.product(ReduceOp, dtypes.ALL):
        if op in (ReduceOp.AND, ReduceOp.OR, ReduceOp.XOR) and dtype.is_float:
            continue
        if dtype.is_bool and op not in (ReduceOp.AND, ReduceOp.OR, ReduceOp.XOR, ReduceOp.MAX, ReduceOp.MIN):
            continue
        yield pytest.param(op, dtype, data.integers(0, 2, (4, 96)).astype(dtype.numpy), id=f"{op.value}-{dtype.short}")


@pytest.mark.parametrize(("op", "dtype", "values"), list(cases()))
def test_every_reduction_of_every_dtype_is_that_of_the_graph(bench, op, dtype, values):
    """Also of those that are swapped as others: bools as int32, float16 as float32, and so on."""
    if dtype.is_float:
        values = (values.astype(np.float32) + np.float32(0.5)).astype(dtype.numpy)
    output = bench.graph.reduce(op, bench.leaf(values), (1,))

    def run_swapping(nests, arrays):
        (nest,) = nests
        moves = [Mark("r0", Kind.GROUP), GroupReduce("r1", 48), SwapReduce("r1.1", 16)]
        kernel = lower(apply_moves(nest, moves), "test")
        assert counts(kernel)[2] == 4 + 2
        verify(kernel)
        check_limits(kernel, bench.info)
        interpreter.run(kernel, [arrays[param] for param in nest.params])

    bench.check(output, run=run_swapping, tolerance=1e-2 if dtype.bits == 16 else 1e-4)


def test_chosen_schedules_swap_what_the_device_swaps(bench):
    def swaps(output, **changes):
        chosen, moves = choose_schedule(nest_of(bench, output), replace(bench.info, **changes))
        found = counts(lower(chosen, "test"))[2]
        assert bool(found) == any(isinstance(move, SwapReduce) for move in moves)
        return found

    reals, halves = bench.sum(bench.normal(8, 1024), 1), bench.max(bench.normal(8, 1024, dtype=np.float16), 1)
    integers = bench.graph.reduce(ReduceOp.SUM, bench.leaf(np.ones((8, 1024), np.int64)), (1,))
    assert min(map(swaps, (reals, integers, halves))) > 0
    short = frozenset({dtypes.float32})
    assert swaps(integers, swaps=short) == 0
    assert min(swaps(reals, swaps=short), swaps(halves, swaps=short)) > 0
    assert swaps(reals, subgroup_size=0, swaps=frozenset()) == 0
    assert swaps(reals, subgroup_size=64) > 0


def test_several_reductions_over_two_axes_of_threads(bench):
    """Columns and rows of threads are combined at once; only those along the first axis swap."""
    x = bench.normal(5, 12, 64)
    nest = nest_of(bench, bench.sum(x, 1, 2))
    labels = [range_.label for range_ in nest.ranges]
    assert len(labels) in (2, 3)
    if len(labels) == 2:  # the two axes are one range already
        nest = apply_moves(nest, [Split(labels[1], 64)])
        labels = [labels[0], f"{labels[1]}.0", f"{labels[1]}.1"]
    group, slow, fast = labels
    base = [Mark(group, Kind.GROUP), Mark(slow, Kind.LOCAL), Mark(fast, Kind.LOCAL)]
    for swapping, wanted in (
        ([], (11, 4 * 768, 0)),
        ([SwapReduce(fast, 32)], (1, 4 * 24, 5 + 5)),  # 64 threads stand along the first axis
        ([SwapReduce(fast, 8)], (1, 4 * 96, 3 + 3)),
        ([SwapReduce(slow, 32)], (1, 4 * 192, 2 + 2)),  # 12 are in four's, and stand along the first axis now
    ):
        kernel = lower(apply_moves(nest, [*base, *swapping]), "axes")
        assert counts(kernel) == wanted
        out = np.zeros(5, np.float32)
        arrays = [out, x.storage.ravel()] if nest.params[0].mutable else [x.storage.ravel(), out]
        run(kernel, *arrays)
        np.testing.assert_allclose(out, x.storage.sum((1, 2)), 1e-3, 1e-3)


def test_nests_side_by_side_swap_among_the_threads_of_the_widest(bench):
    first, second = bench.sum(bench.normal(4, 48), 1), bench.sum(bench.normal(3, 128), 1)
    nests, arrays = [], []
    for output, threads in ((first, 48), (second, 128)):
        nest = nest_of(bench, output)
        nests.append(apply_moves(nest, [Mark("r0", Kind.GROUP), GroupReduce("r1", threads), SwapReduce("r1.1", 32)]))
        values = output.sources[0].storage
        results = np.zeros(len(values), np.float32)
        arrays.append((values, results, [results if param.mutable else values.ravel() for param in nest.params]))
    kernel = lower_together(nests, "both")
    assert kernel.grid == ((7,), (128,))
    assert counts(kernel)[2] == 2 * (5 + 2)  # 48 threads were padded to 128
    run(kernel, *(array for _, _, both in arrays for array in both))
    for values, results, _ in arrays:
        np.testing.assert_allclose(results, values.sum(1), 1e-4, 1e-4)


def test_passes_of_a_device_keep_the_values(bench):
    x = bench.normal(4, 512, dtype=np.float16)
    nest = nest_of(bench, bench.max(x, 1))
    kernel = lower(choose_schedule(nest, bench.info)[0], "rows")
    after = run_passes(kernel, standard_passes(bench.info), check=True)
    assert counts(after) == counts(kernel)
    out = np.zeros(4, np.float16)
    run(after, *([out, x.storage.ravel()] if nest.params[0].mutable else [x.storage.ravel(), out]))
    assert np.array_equal(out, x.storage.max(1))


# ---- the move


def test_only_ranges_of_threads_swap_and_powers_of_two_of_them(bench):
    nest = nest_of(bench, bench.sum(bench.normal(8, 64), 1))
    with pytest.raises(ScheduleError, match="r1 is a loop range: only threads swap values"):
        apply_moves(nest, [SwapReduce("r1", 32)])
    local = apply_moves(nest, [Mark("r1", Kind.LOCAL)])
    for threads in (0, 1, 3, 48, -2):
        with pytest.raises(ScheduleError, match=f"in groups of 2, 4, 8 or so, not of {threads}"):
            apply_moves(local, [SwapReduce("r1", threads)])
    swapping = apply_moves(local, [SwapReduce("r1", 32)])
    assert "r1<64 local swapping 32" in str(swapping)
    assert "swapping" not in str(local)


def test_a_padded_range_still_swaps_and_the_parts_of_one_do_not(bench):
    nest = nest_of(bench, bench.sum(bench.normal(8, 60), 1))
    swapping = apply_moves(nest, [Mark("r1", Kind.LOCAL), SwapReduce("r1", 32)])
    assert counts(lower(swapping, "test"))[2] == 2 + 2  # four's of 60; one in four loads, four at a time
    padded = apply_moves(swapping, [Pad("r1", 64)])
    assert counts(lower(padded, "test"))[2] == 5 + 1
    assert counts(lower(apply_moves(swapping, [Split("r1", 4)]), "test"))[2] == 0


def test_threads_that_swap_stand_along_the_first_axis(bench):
    """Whatever the order of the loops: only there are neighbours of one subgroup."""
    x = bench.normal(16, 64)
    nest = nest_of(bench, bench.sum(x, 1))
    moves = [Mark("r0", Kind.LOCAL), Mark("r1", Kind.LOCAL), Reorder("v0", ("r1", "r0"))]
    assert lower(apply_moves(nest, moves), "test").grid[1] == (16, 64)
    kernel = lower(apply_moves(nest, [*moves, SwapReduce("r1", 32)]), "test")
    assert kernel.grid[1] == (64, 16)
    assert counts(kernel) == (1, 4 * 2 * 16, 5 + 1)


# ---- random schedules


def test_random_schedules_swap_too():
    """The tests of random schedules reach kernels with swaps, with all of the ways to combine what is left."""
    seen = Counter()
    for seed in range(500):
        choices = Seeded(seed)
        case = random_case(choices, GraphOptions(most_nodes=6, most_elements=200))
        for kernel in kernels_of(case, MACHINES[2], together=False)[0]:
            for nest in kernel.nests:
                schedule = random_schedule(choices, nest)
                if not schedule.nest.swapping or written_out(schedule.nest) > 64:
                    continue
                try:
                    lowered = lower(schedule.nest, "random")
                except ScheduleError:
                    continue
                barriers, _, swaps = counts(lowered)
                seen["swaps"] += swaps > 0
                seen["without barriers"] += swaps > 0 and barriers == 0
                seen["with barriers"] += swaps > 0 and barriers > 0
                if swaps:
                    kernel.check(run_lowered, [schedule.nest], "swapping")
    assert min(seen[what] for what in ("without barriers", "with barriers")) >= 3, seen


# ---- planted wrongness


PLANTED = {
    "half the distance": lambda op: k.Swap(op.x, max(1, op.distance // 2), op.type),
    "always the neighbour": lambda op: k.Swap(op.x, 1, op.type),
    "twice the distance": lambda op: k.Swap(op.x, op.distance * 2 % 32 or 1, op.type),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_wrong_distance_gives_another_sum(bench, bug):
    rows = bench.leaf(np.random.default_rng(7).integers(-1000, 1000, (4, 256)).astype(np.int32))
    nest = nest_of(bench, bench.graph.reduce(ReduceOp.XOR, rows, (1,)))
    moves = [Mark("r0", Kind.GROUP), GroupReduce("r1", 256), SwapReduce("r1.1", 32)]
    kernel = lower(apply_moves(nest, moves), "rows")
    rewriter = Rewriter()
    wrong = rewriter.rewrite(kernel, lambda op: rewriter.append(PLANTED[bug](op)) if isinstance(op, k.Swap) else None)
    wanted = np.bitwise_xor.reduce(rows.storage, 1)
    for current, is_right in ((kernel, True), (wrong, False)):
        out = np.zeros(4, np.int32)
        run(current, *([out, rows.storage.ravel()] if nest.params[0].mutable else [rows.storage.ravel(), out]))
        assert np.array_equal(out, wanted) is is_right
