"""Estimates of what a schedule takes: what they count, and which of two schedules they call the faster one."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.backend.rates import assumed_rates
from zyx.errors import ScheduleError
from zyx.estimate import CostWeights, estimate
from zyx.estimate.footprint import Pattern, PositionPart, lines_taken, pattern_of
from zyx.estimate.model import facts_of
from zyx.nest.data import Kind
from zyx.nest.expr import INDEX, Param
from zyx.nest.pool import Pool
from zyx.ops import ReduceOp
from zyx.schedule.choose import choose_schedule
from zyx.schedule.moves import Mark, Peel, Reorder, Split, apply_moves
from zyx.testing.choices import Seeded
from zyx.testing.graphs import GraphOptions, random_case
from zyx.testing.nests import MACHINES, kernels_of
from zyx.testing.schedules import random_schedule, written_out

#: A processor whose caches are small, so that small arrays pass them.
PROCESSOR = {
    "units": 4, "vector_bytes": 32, "lanes": (2, 4, 8), "cache_bytes": (1 << 12, 1 << 14, 1 << 16),
    "flops_per_s": 1e11, "bytes_per_s": 2e10,
}  # fmt: skip
LAST = "main memory"


@pytest.fixture
def processor(device_with):
    return device_with(**PROCESSOR)


def nest_of(bench, output):
    (nest,) = bench.schedule(output, run=lambda *_: None).nests
    return nest


def chosen(bench, output):
    return choose_schedule(nest_of(bench, output), bench.info)[0]


def empty(bench, *shape, dtype=np.float32):
    """Return an array whose values do not matter: it takes no memory."""
    return bench.leaf(np.broadcast_to(np.zeros((), dtype), shape))


# ---- what is counted


@pytest.mark.parametrize("columns", [16, 100, 512])
def test_a_matrix_that_passes_the_caches_comes_once_and_goes_once(processor, columns):
    x = empty(processor, 1024, columns)
    nbytes = 4 * 1024 * columns
    found = estimate(chosen(processor, processor.exp(x)), processor.info)
    if nbytes > 1 << 16:
        # What is stored is read first, and written back.
        assert found.bytes[LAST] == pytest.approx(3 * nbytes, rel=0.1)


@pytest.mark.parametrize("axis", [0, 1])
def test_a_sum_reads_each_byte_once_along_any_axis(processor, axis):
    found = estimate(chosen(processor, processor.sum(empty(processor, 1000, 1000), axis)), processor.info)
    assert found.bytes[LAST] == pytest.approx(4e6, rel=0.1)


def test_a_row_that_fits_a_cache_is_read_from_memory_once_for_all_passes_over_it(processor):
    found = estimate(chosen(processor, processor.softmax(empty(processor, 4000, 512))), processor.info)
    assert found.bytes[LAST] == pytest.approx(3 * 4 * 4000 * 512, rel=0.15)


def test_a_row_that_fits_none_is_read_by_each_pass(processor):
    nest = nest_of(processor, processor.softmax(empty(processor, 4000, 512)))
    small = dataclasses.replace(processor.info, cache_bytes=(256, 512, 1024))
    assert estimate(nest, small).bytes[LAST] >= 4.9 * 4 * 4000 * 512


def test_columns_one_by_one_bring_a_line_for_each_element(processor):
    """Between two elements of a line the whole column comes, which is more lines than the caches have."""
    nest = nest_of(processor, processor.sum(empty(processor, 8192, 512), 0))
    (statement, *_) = nest.statements
    down, across = (r.label for r in sorted(statement.order, key=lambda r: r.size, reverse=True))
    by_rows = apply_moves(nest, [Reorder(repr(statement.value), (down, across))])
    by_columns = apply_moves(nest, [Reorder(repr(statement.value), (across, down))])
    few, many = (estimate(each, processor.info) for each in (by_rows, by_columns))
    assert few.bytes[LAST] == pytest.approx(4 * 8192 * 512, rel=0.1)
    assert many.bytes[LAST] == pytest.approx(16 * 4 * 8192 * 512, rel=0.1)
    assert few.seconds < many.seconds


def test_a_product_by_three_loops_brings_the_second_factor_for_every_row(processor):
    nest = nest_of(processor, processor.matmul(empty(processor, 250, 250), empty(processor, 250, 250)))
    found = estimate(nest, processor.info)
    assert found.bytes[LAST] == pytest.approx(250 * 250 * 250 * 4, rel=0.3)


def test_lines_a_power_of_two_apart_take_the_places_between_them():
    way = 1 << 12
    assert lines_taken(((1, 64), (1 << 10, 64)), 64, 64, way) == 64 * 1024 / 64  # four places for all of them
    assert lines_taken(((1, 64), (1 << 10, 4)), 4, 64, way) == 4  # one for each
    assert lines_taken(((1, 64), (1 << 10 | 64, 64)), 64, 64, way) == 64
    assert lines_taken(((1, 4096),), 64, 64, way) == 64


def test_rows_that_are_looked_up_are_as_many_as_the_positions_they_are_read_at():
    """p[q[(r0 * 64 + r1) // 400] * 400 + ...]: 64 points in a row read one row of p, or two."""
    points = Pool().range(64, "r1")
    at = PositionPart(1, (points,), 100, moves=(1 / 400,))
    rows = PositionPart(1600, (points,), 5000, is_random=True, read_at=(at,))
    assert rows.values({points: 64}) == pytest.approx(1 + 63 / 400)
    assert dataclasses.replace(rows, read_at=(PositionPart(1, (points,), 5000),)).values({points: 64}) == 64


def test_a_position_that_is_read_by_way_of_many_others_is_looked_at_once():
    """Each of 60 positions is used twice by the next: 2**60 ways lead from the last one to the first."""
    pool = Pool()
    points = pool.range(64, "r0")
    table = Param(0, dtypes.int64, 100, mutable=False)
    index = pool.ref(points)
    for _ in range(60):
        read = pool.within(pool.convert(pool.read(table, index), INDEX), 100)
        index = pool.add(pool.divide(read, 10), pool.scale(pool.modulo(read, 7), 10))
    (*_, last) = pattern_of(table, 800, 8, index, (points,)).steps
    assert last.is_random
    assert last.ranges == (points,)


def test_windows_that_overlap_count_once():
    y, ky = object(), object()
    steps = (PositionPart(4, (y,), 64), PositionPart(4, (ky,), 5))
    pattern = Pattern("x", 1 << 20, 4, steps)
    assert pattern.runs({y: 64, ky: 5}) == ((1, 4 * 68),)
    far = Pattern("x", 1 << 20, 4, (PositionPart(400, (y,), 64), PositionPart(400, (ky,), 5)))
    assert far.runs({y: 64, ky: 5}) == ((1, 4), (400, 68))


def test_vectors_take_fewer_instructions_than_single_values(processor):
    nest = nest_of(processor, processor.exp(empty(processor, 1 << 12)))
    (range_,) = nest.ranges
    wide = apply_moves(nest, [Split(range_.label, 8), Mark(f"{range_.label}.1", Kind.VECTOR)])
    single, vector = (estimate(each, processor.info) for each in (nest, wide))
    assert single.instructions["transcendental"] == 8 * vector.instructions["transcendental"]
    assert vector.seconds < single.seconds


def test_groups_waves_threads_and_barriers_are_those_of_the_grid(gpu):
    nest = nest_of(gpu, gpu.exp(empty(gpu, 1 << 16)))
    (range_,) = nest.ranges
    moves = [Split(range_.label, 256), Mark(f"{range_.label}.0", Kind.GROUP), Mark(f"{range_.label}.1", Kind.LOCAL)]
    found = estimate(apply_moves(nest, moves), gpu.info)
    assert (found.groups, found.threads, found.launches, found.barriers) == (256, 256, 1, 0)
    assert found.waves == -(-256 // (gpu.info.units * 2))
    assert found.times["groups"] == pytest.approx(256 / gpu.info.units * assumed_rates(gpu.info).group_s, rel=0.5)
    rows = estimate(chosen(gpu, gpu.sum(empty(gpu, 64, 1 << 14), 1)), gpu.info)
    assert rows.barriers + rows.instructions.get("swap", 0) > 0


@pytest.mark.parametrize("make", ["exp", "sum0", "sum1", "softmax", "add", "pooled"])
def test_lines_of_warps_are_those_that_are_counted_when_the_kernel_runs(card, make):
    x = card.normal(96, 160)
    output = {
        "exp": lambda: card.exp(x),
        "sum0": lambda: card.sum(x, 0),
        "sum1": lambda: card.sum(x, 1),
        "softmax": lambda: card.softmax(x),
        "add": lambda: card.add(x, card.normal(160)),
        "pooled": lambda: card.sum(card.leaf(np.zeros((9, 31, 2, 44, 2), np.float32)), 2, 4),  # at quotients of a place
    }[make]()
    counted = card.counted(output)
    moved = sum(each.traffic.lines.total() for each in counted) * 128
    expected = sum(estimate(each.nest, card.info).bytes["cache 1"] for each in counted)
    assert moved / 1.6 <= expected <= 1.6 * moved


@pytest.mark.parametrize("seed", range(25))
def test_every_schedule_of_a_random_graph_has_an_estimate(seed):
    """And memory gives no less than what is touched, and no more than one line for each access."""
    choices = Seeded(seed)
    case = random_case(choices, GraphOptions(most_nodes=8))
    info = MACHINES[seed % len(MACHINES)]
    for kernel in kernels_of(case, info, together=False)[0]:
        for nest in kernel.nests:
            schedules = [choose_schedule(nest, info)[0], random_schedule(choices, nest).nest]
            for scheduled in schedules:
                if written_out(scheduled) > 256:
                    continue
                try:
                    found = estimate(scheduled, info)
                except ScheduleError:
                    continue
                assert found.seconds > 0
                assert np.isfinite(found.seconds)
                assert found.bound in {*found.times, "too few groups"}
                assert all(amount >= 0 for amount in (*found.bytes.values(), *found.instructions.values()))
                assert found == estimate(scheduled, info)


# ---- which of two is the faster one


@pytest.mark.parametrize("which", ["cpu", "gpu"])
def test_more_bytes_take_longer(request, which):
    bench = request.getfixturevalue(which)
    sizes = [1 << 14, 1 << 17, 1 << 20, 1 << 23]
    times = [estimate(chosen(bench, bench.exp(empty(bench, size))), bench.info).seconds for size in sizes]
    assert all(less < more for less, more in itertools.pairwise(times))


def test_threads_that_read_side_by_side_are_faster_than_threads_far_apart(gpu):
    nest = nest_of(gpu, gpu.exp(empty(gpu, 1 << 20)))
    (label,) = (range_.label for range_ in nest.ranges)
    near = [Split(label, 256), Mark(f"{label}.0", Kind.GROUP), Mark(f"{label}.1", Kind.LOCAL)]
    far = [Split(label, 4096), Mark(f"{label}.0", Kind.LOCAL), Mark(f"{label}.1", Kind.GROUP)]
    fast, slow = (estimate(apply_moves(nest, moves), gpu.info) for moves in (near, far))
    assert slow.bytes["cache 1"] == pytest.approx(32 * fast.bytes["cache 1"])
    assert fast.seconds < slow.seconds


@pytest.mark.parametrize(
    ("columns", "step", "streams"), [(152, 152, 4000), (152, 1000, 0), (1000, 1000, 0), (24, 24, 0)]
)
def test_short_rows_side_by_side_are_slower_than_one_behind_the_other(processor, columns, step, streams):
    """Not those with something else between them, those of half a page, nor those that are a few lines long."""
    nest = nest_of(
        processor, processor.sum(processor.graph.shrink(empty(processor, 4000, step), [(0, 4000), (0, columns)]), 1)
    )
    rows, label = (range_.label for range_ in nest.statements[0].order)
    vector = [Split(label, 8), Mark(f"{label}.1", Kind.VECTOR)]
    value = repr(nest.statements[0].value)
    order = Reorder(value, (f"{rows}.0", f"{label}.0", f"{rows}.1", f"{label}.1"))
    one = apply_moves(nest, vector)
    four = apply_moves(nest, [Split(rows, 4), *vector, order, Mark(f"{rows}.1", Kind.UNROLL)])
    assert facts_of(one, processor.info).streams == 0
    assert facts_of(four, processor.info).streams == streams
    slow, fast = estimate(four, processor.info), estimate(one, processor.info)
    assert ("short streams" in slow.times) == bool(streams)
    assert fast.seconds < slow.seconds or not streams


def test_many_accumulators_are_faster_than_one(processor):
    nest = nest_of(processor, processor.sum(empty(processor, 4000, 1000), 1))
    rows, label = (range_.label for range_ in nest.statements[0].order)
    vector = [Mark(rows, Kind.GROUP), Split(label, 32), Split(f"{label}.1", 8), Mark(f"{label}.1.1", Kind.VECTOR)]
    several = apply_moves(nest, [*vector, Mark(f"{label}.1.0", Kind.UNROLL)])
    one = apply_moves(nest, [*vector, Mark(f"{label}.1.0", Kind.REPEAT)])
    info = dataclasses.replace(processor.info, bytes_per_s=1e12)
    slow, fast = estimate(one, info), estimate(several, info)
    assert fast.seconds < slow.seconds
    assert estimate(one, info, CostWeights()).bound == "dependent operations"


def test_all_units_are_faster_than_one_where_there_is_much_work(processor):
    def both(size):
        nest = nest_of(processor, processor.exp(empty(processor, size, 64)))
        label = nest.ranges[0].label
        moves = [Split(label, max(1, size // 16))]
        shared = [*moves, Mark(f"{label}.0", Kind.GROUP)]
        return [estimate(apply_moves(nest, each), processor.info).seconds for each in (moves, shared)]

    alone, shared = both(1 << 16)
    assert shared < 0.5 * alone
    alone, shared = both(4)
    assert shared == pytest.approx(alone, rel=0.1)


def test_what_the_heuristics_choose_is_estimated_to_be_faster_than_no_schedule(bench):
    x = empty(bench, 512, 1024)
    for output in (bench.exp(x), bench.sum(x, 1), bench.sum(x, 0), bench.softmax(x)):
        nest = nest_of(bench, output)
        scheduled, _ = choose_schedule(nest, bench.info)
        assert estimate(scheduled, bench.info).seconds < estimate(nest, bench.info).seconds


def test_a_vector_along_memory_is_faster_than_one_across_it(processor):
    nest = nest_of(processor, processor.sum(empty(processor, 1024, 1024), 0))
    statement = nest.statements[0]
    across = next(range_.label for range_ in statement.value.ranges)
    down = next(range_.label for range_ in statement.reduced)
    near, far = (
        apply_moves(nest, [Split(label, 8), Peel(f"{label}.0"), Mark(f"{label}.1", Kind.VECTOR)])
        for label in (across, down)
    )
    assert estimate(near, processor.info).seconds < estimate(far, processor.info).seconds


def test_few_scans_are_done_side_by_side_by_vectors_that_are_no_wider(device_with):
    """Five rows leave most of sixteen lanes idle, and sixteen rows none."""
    bench = device_with(**{**PROCESSOR, "units": 1, "vector_bytes": 64, "lanes": (2, 4, 8, 16)})

    def lanes(rows):
        x = empty(bench, rows, 4000)
        scheduled = chosen(bench, bench.graph.scan(ReduceOp.SUM, x, 1))
        return [range_.size for range_ in scheduled.ranges if scheduled.kind(range_) is Kind.VECTOR]

    assert lanes(5)[0] <= 8
    assert [lanes(rows) for rows in (8, 16)] == [[8], [16]]


def test_measured_rates_take_the_place_of_assumed_ones(processor):
    nest = chosen(processor, processor.exp(empty(processor, 1 << 20)))
    slower = dataclasses.replace(assumed_rates(processor.info), bytes_per_s=1e9, unit_bytes_per_s=1e9)
    info = dataclasses.replace(processor.info, rates=slower)
    before, after = estimate(nest, processor.info), estimate(nest, info)
    assert after.seconds > 2 * before.seconds
    assert after.bound == LAST
