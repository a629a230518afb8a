"""Nests that no rule was made for keep a device with many units busy, and have the same values."""

from __future__ import annotations

import contextlib
import math

import pytest

from zyx.errors import ScheduleError
from zyx.nest.data import Kind
from zyx.ops import BinaryOp
from zyx.schedule.apply import apply
from zyx.schedule.choose import choose_schedule
from zyx.schedule.plan import Plan, simplify_ranges, work_of
from zyx.schedule.seeds.threads import thread_seeds
from zyx.schedule.spec import Cut, Part, Spec
from zyx.testing.paper import PAPER
from zyx.testing.schedules import run_lowered


def pairs(bench, points, dims):
    """The sums over all points of differences to them, weighted by a function of the distance."""
    graph, shape = bench.graph, (points, points, dims)
    x = bench.normal(points, dims)
    here = graph.expand(graph.reshape(x, (points, 1, dims)), shape)
    there = graph.expand(graph.reshape(x, (1, points, dims)), shape)
    differences = bench.sub(there, here)
    squares = bench.sum(bench.mul(differences, differences), 2)
    weights = graph.expand(bench.tanh(squares), shape)
    return bench.sum(graph.binary(BinaryOp.MUL, differences, weights), 1)


def test_pairs_of_points_have_groups_for_all_units(device_with):
    bench = device_with(units=100, max_group_threads=256)
    output = pairs(bench, 170, 3)
    bench.check(output, run=bench.run_kernels, tolerance=1e-4)
    nest = max(bench.schedule(output).nests, key=lambda nest: max(map(work_of, nest.statements)))
    scheduled, _ = choose_schedule(nest, bench.info)
    assert math.prod(range_.size for range_ in scheduled.grid) >= 100


@pytest.mark.parametrize("name", [name for name, info in PAPER.items() if info.max_group_threads > 1])
def test_every_way_to_have_threads_has_the_same_values(device_with, name):
    bench = device_with(**{field: getattr(PAPER[name], field) for field in ("units", "max_group_threads")})
    count = 0

    def run(nests, arrays):
        nonlocal count
        (nest,) = nests
        plan = Plan(nest)
        simplify_ranges(plan)
        wanted = None
        for spec in thread_seeds(plan.nest, PAPER[name]):
            other = plan.copy()
            apply(other, spec, PAPER[name])
            run_lowered([other.nest], arrays)
            result = arrays[nest.params[0]].copy()
            assert wanted is None or abs(result - wanted).max() < 1e-4
            wanted, count = result, count + 1

    bench.check(pairs(bench, 37, 3), run=run, tolerance=1e-4)
    assert count


def test_no_more_is_written_out_than_a_range_has(card):
    (nest,) = card.schedule(card.exp(card.normal(5, 9))).nests
    plan = Plan(nest)
    simplify_ranges(plan)
    (label,) = [range_.label for range_ in plan.nest.ranges]
    for points, fits in (64, True), (89, True), (90, False), (128, False):
        spec = Spec((Cut(label, (Part(points, Kind.UNROLL),)),))
        with contextlib.nullcontext() if fits else pytest.raises(ScheduleError, match="written out"):
            apply(plan.copy(), spec, card.info)
