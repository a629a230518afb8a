"""Innermost loops over vectors have branches without masks, where masks hold for all lanes or for none."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.kernel import data as k
from zyx.lowering.lower import lower
from zyx.lowering.unswitching import unswitched_cases
from zyx.nest import expr as e
from zyx.nest.data import Kind
from zyx.nest.pool import Pool
from zyx.ops import BinaryOp
from zyx.passes.pipeline import run_passes, standard_passes
from zyx.schedule.choose import choose_schedule
from zyx.schedule.moves import Mark, apply_moves

NARROW = {"units": 2, "vector_bytes": 16, "lanes": (2, 4), "cache_bytes": (1 << 13, 1 << 16)}
WIDE = {"units": 2, "vector_bytes": 64, "registers": 32, "lanes": (2, 4, 8, 16), "cache_bytes": (1 << 15, 1 << 18)}
THREADS = {"units": 4, "max_group_threads": 64, "max_group_shape": (64, 64, 64), "vector_bytes": 16, "lanes": (2, 4)}


def joined(bench, *sizes):
    """Return rows that are put side by side, each padded to the length of all."""
    graph = bench.graph
    start, total = 0, sum(sizes)
    result = None
    for size in sizes:
        part = graph.pad(bench.normal(3, size), [(0, 0), (start, total - start - size)], 0.0)
        result = part if result is None else graph.binary(BinaryOp.ADD, result, part)
        start += size
    return graph.contiguous(result)


def rolled(bench, size, by):
    graph = bench.graph
    x = bench.normal(2, size)
    front = graph.pad(graph.shrink(x, [(0, 2), (size - by, size)]), [(0, 0), (0, size - by)], 0.0)
    back = graph.pad(graph.shrink(x, [(0, 2), (0, size - by)]), [(0, 0), (by, 0)], 0.0)
    return graph.contiguous(graph.binary(BinaryOp.ADD, front, back))


def steps(bench, size):
    """Return differences of neighbours, zeros outside: the same position is tested from both sides."""
    graph = bench.graph
    x = bench.normal(size)
    left = graph.pad(graph.shrink(x, [(1, size)]), [(0, 1)], 0.0)
    right = graph.pad(graph.shrink(x, [(0, size - 1)]), [(1, 0)], 0.0)
    return graph.contiguous(bench.sub(left, right))


def windows(bench, rows, columns, *, stride, padding, window=3):
    """Return sums over windows of padded images, two positions."""
    graph = bench.graph
    x = graph.pad(bench.normal(2, rows, columns), [(0, 0), (padding, padding), (padding, padding)], 0.0)
    down, across = ((n - window) // stride + 1 for n in x.shape[1:])
    wide = graph.expand(graph.reshape(x, (*x.shape, 1, 1)), (*x.shape, window, window))
    tall = graph.slide(wide, 1, 3, down, stride, 1)
    return bench.sum(graph.slide(tall, 2, 4, across, stride, 1), 3, 4)


PROGRAMS = {
    "two side by side": lambda bench: joined(bench, 300, 411),
    "five side by side": lambda bench: joined(bench, 129, 7, 200, 90, 133),
    "rolled": lambda bench: rolled(bench, 517, 100),
    "steps": lambda bench: steps(bench, 901),
    "windows": lambda bench: windows(bench, 9, 203, stride=1, padding=1),
    "windows by steps": lambda bench: windows(bench, 7, 431, stride=2, padding=2),
}


def kernel_of(bench, output):
    (nest,) = bench.schedule(output).nests
    scheduled, _ = choose_schedule(nest, bench.info)
    return run_passes(lower(scheduled, "test"), standard_passes(bench.info), check=True)


def bodies(kernel, *, loops=True):
    """Return for each innermost branch, and loop, whether any of its loads has a mask or a condition."""
    opening = (k.If, k.Loop) if loops else (k.If,)
    found, stack = [], []
    for op in kernel.ops:
        if isinstance(op, opening):
            stack.append([])
        elif isinstance(op, (k.EndIf, k.EndLoop) if loops else (k.EndIf,)):
            body = stack.pop()
            loads = [other for other in body if isinstance(other, k.Load)]
            if loads:
                found.append(any(load.mask is not None for load in loads))
        elif stack:
            stack[-1].append(op)
    return found


@pytest.mark.parametrize("limits", [NARROW, WIDE], ids=["narrow", "wide"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_the_same(device_with, limits, name):
    bench = device_with(**limits)
    bench.check(PROGRAMS[name](bench), run=bench.run_kernels, tolerance=1e-5)


@pytest.mark.parametrize("name", PROGRAMS)
def test_there_is_a_branch_or_a_loop_without_masks(device_with, name):
    bench = device_with(**WIDE)
    found = bodies(kernel_of(bench, PROGRAMS[name](bench)))
    assert not all(found)
    assert len(found) <= 11  # up to four, and where masks differ from lane to lane; again in the last part of a row


def test_loops_are_cut_where_masks_are_the_same_for_all_lanes(device_with):
    """Three loops over rows of a vector each, without a condition; factors of a row keep the rows apart."""
    bench = device_with(**WIDE)
    graph, lengths = bench.graph, (31, 2, 40)
    parts, first = [], 0
    for length in lengths:
        part = bench.normal(5, length, bench.info.lanes(dtypes.float32))
        parts.append(graph.pad(part, [(0, 0), (first, sum(lengths) - first - length), (0, 0)]))
        first += length
    row = graph.expand(bench.normal(1, 1, bench.info.lanes(dtypes.float32)), parts[0].shape)
    output = bench.mul(bench.add(bench.add(parts[0], parts[1]), parts[2]), row)
    bench.check(output, run=bench.run_kernels)
    (nest,) = bench.schedule(output).nests
    lanes = [Mark(range_.label, Kind.VECTOR) for range_ in nest.ranges if range_.size == row.shape[-1]]
    kernel = run_passes(lower(apply_moves(nest, lanes), "test"), standard_passes(bench.info), check=True)
    loops = [op.size for op in kernel.ops if isinstance(op, k.Loop)]
    assert [size for size in loops if size in lengths] == list(lengths)
    assert not any(isinstance(op, k.If) for op in kernel.ops)
    assert not any(isinstance(op, k.Load) and op.mask is not None for op in kernel.ops)


def test_short_rows_that_are_tested_as_a_whole_are_one_range(device_with):
    """Rows of 3 elements joined along the axis around: vectors run over them, with masks where they meet only."""
    bench = device_with(**WIDE)
    graph = bench.graph
    front = graph.pad(bench.normal(7, 200, 3), [(0, 0), (0, 300), (0, 0)])
    output = bench.add(front, graph.pad(bench.normal(7, 300, 3), [(0, 0), (200, 0), (0, 0)]))
    bench.check(output, run=bench.run_kernels)
    kernel = kernel_of(bench, output)
    loads = [op for op in kernel.ops if isinstance(op, k.Load) and op.mask is None]
    assert {op.type.lanes for op in loads} == {bench.info.lanes(dtypes.float32)}
    assert not any(isinstance(op, k.Binary) and op.op in (BinaryOp.DIV, BinaryOp.MOD) for op in kernel.ops)


def test_without_masks_there_is_none(device_with):
    bench = device_with(**WIDE)
    assert not bodies(kernel_of(bench, bench.tanh(bench.normal(1000))), loops=False)
    assert not bodies(kernel_of(bench, bench.tanh(bench.normal(1024))), loops=False)


def test_threads_have_masks(device_with):
    bench = device_with(**THREADS)
    output = joined(bench, 300, 411)
    bench.check(output, run=bench.run_kernels)
    assert all(bodies(kernel_of(bench, output), loops=False))  # of the last groups only


class TestStretches:
    """What is found for ``factor * position + lane + constant >= 0``, at every point."""

    def points(self, tests):
        """Return cases of sums of selects by `tests`, (factor, lane's factor, constant); and the pool and ranges."""
        pool = Pool()
        outer, lane = pool.range(40), pool.range(8)
        roots = []
        for factor, step, constant in tests:
            x = pool.affine(((pool.ref(outer), factor), (pool.ref(lane), step)), constant)
            roots.append(pool.non_negative(x))
        return pool, outer, lane, roots, unswitched_cases(pool, roots, lane.bit)

    @pytest.mark.parametrize("seed", range(30))
    def test_cases_hold_apart_from_each_other_and_say_the_truth(self, seed):
        random = np.random.default_rng(seed)
        tests = [
            (
                int(random.choice([-8, -3, -1, 1, 2, 8])),
                int(random.choice([-1, 0, 1, 2])),
                int(random.integers(-60, 60)),
            )
            for _ in range(int(random.integers(1, 5)))
        ]
        pool, outer, lane, roots, cases = self.points(tests)
        for at in range(outer.size):
            known = pool.index(at)
            holding = []
            for case in cases:
                inside = True
                for position, first, last in case.stretches:
                    (value,) = pool.substitute([pool.affine(position)], {outer: known})
                    inside = inside and first <= value.value <= last
                holding += [case] if inside else []
            assert len(holding) <= 1
            for case, number in itertools.product(holding, range(lane.size)):
                for root, assumed in zip(roots, case.assume(pool, roots), strict=True):
                    if isinstance(root, e.NonNegative):
                        assert assumed in (pool.true, pool.false)
                    place = {outer: known, lane: pool.index(number)}
                    assert pool.substitute([root], place)[0] is pool.substitute([assumed], place)[0]

    def test_both_sides_of_a_border_are_found(self):
        _, _, _, _, cases = self.points([(8, 1, -100)])
        assert [case.stretches[0][1:] for case in cases] == [(0, 11), (13, 39)]

    def test_what_is_different_nearly_everywhere_is_not_divided(self):
        _, _, _, _, cases = self.points([(1, 8, -39)])
        assert not cases


def test_a_value_that_is_a_constant_in_one_case_is_none_in_the_next(device_with):
    bench = device_with(**WIDE)
    graph = bench.graph
    is_front = graph.binary(
        BinaryOp.LT, graph.iota((1000,), 0, dtypes.int32, "cpu"), graph.const(500, dtypes.int32, "cpu", (1000,))
    )
    chosen = graph.where(is_front, bench.normal(1000), bench.constant(7.0, (1000,)))
    bench.check(chosen, bench.mul(chosen, bench.normal(1000)), run=bench.run_kernels)


def test_masks_of_where_parts_meet_are_computed_there_only(device_with):
    """In loops with a branch for each part, what their bodies have in common is little beside the branches."""
    bench = device_with(**WIDE)
    kernel = kernel_of(bench, joined(bench, 100_007, 70_001, 90_011))
    depth, found = [], []
    for op in kernel.ops:
        if isinstance(op, k.Loop | k.If):
            depth.append(type(op))
        elif isinstance(op, k.EndLoop | k.EndIf):
            depth.pop()
        elif depth and isinstance(op, k.Vectorize):
            found.append(depth[-1])
    assert k.If in found and k.Loop not in found
