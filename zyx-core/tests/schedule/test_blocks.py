"""Long sums are as precise as sums by pairs, whatever their schedule; blocks change nothing else."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from zyx.kernel import data as k
from zyx.kernel import run as interpreter
from zyx.kernel.verify import verify
from zyx.lowering import blocked_sums
from zyx.lowering.lower import lower
from zyx.nest.data import Kind
from zyx.ops import BinaryOp, ReduceOp
from zyx.passes.pipeline import run_passes, standard_passes
from zyx.schedule.choose import choose_schedule
from zyx.schedule.moves import Mark, Peel, Reorder, Split, apply_moves
from zyx.testing.choices import Seeded
from zyx.testing.graphs import random_case
from zyx.testing.nests import MACHINES, kernels_of

from .test_random_schedules import OPTIONS, check_schedules

RANDOM = np.random.default_rng(3)
#: What is lost by one rounding.
EPSILON = float(np.finfo(np.float32).eps)


def run(nest, *inputs):
    """Lower a nest as it is, run it over inputs of different sizes, and return its first buffer."""
    kernel = lower(nest, "test")
    verify(kernel)
    by_size = {x.size: x.ravel() for x in inputs}
    arrays = [np.zeros(nest.params[0].length, nest.params[0].dtype.numpy)]
    arrays += [by_size[param.length] for param in nest.params[1:]]
    interpreter.run(kernel, arrays)
    return arrays[0], kernel


def nest_of(cpu, make, *inputs):
    (nest,) = cpu.schedule(make(cpu.graph, *map(cpu.leaf, inputs))).nests
    return nest


def sum_of(cpu, x, axes):
    return nest_of(cpu, lambda graph, leaf: graph.reduce(ReduceOp.SUM, leaf, axes), x)


def error_of(found, exact):
    return float(np.max(np.abs(np.asarray(found, np.float64) - exact) / np.abs(exact)))


def bound(x):
    """Return ten times the relative error of NumPy's sums by pairs along the last axis, or of some roundings."""
    exact = x.sum(-1, dtype=np.float64)
    return 10 * max(error_of(np.ascontiguousarray(x).sum(-1, dtype=np.float32), exact), EPSILON)


def draw(kind, *shape):
    if kind == "constant":
        return np.full(shape, 0.1, np.float32)
    if kind == "uniform":
        return RANDOM.random(shape, np.float32)
    return RANDOM.standard_normal(shape, np.float32) + np.float32(10)


BY_KIND = pytest.mark.parametrize("kind", ["uniform", "constant", "offset"])


@BY_KIND
@pytest.mark.parametrize("count", [129, 1 << 12, 4999, 30_011])
def test_a_sum_that_is_not_scheduled_is_as_precise_as_one_by_pairs(cpu, kind, count):
    x = draw(kind, count)
    (total,), kernel = run(sum_of(cpu, x, (0,)), x)
    assert abs(total / math.fsum(x.astype(np.float64)) - 1) <= bound(x)
    assert sum(isinstance(op, k.Loop) for op in kernel.ops) >= 2


@BY_KIND
def test_sums_down_columns_and_along_middle_axes_are_too(cpu, kind):
    x = draw(kind, 3, 4000, 2)
    found, _ = run(sum_of(cpu, x, (1,)), x)
    assert error_of(found.reshape(3, 2), x.sum(1, dtype=np.float64)) <= bound(np.moveaxis(x, 1, -1))


@BY_KIND
def test_sums_kept_in_memory_between_rows_are_too(cpu, kind):
    x = draw(kind, 5000, 3)
    nest = sum_of(cpu, x, (0,))
    label = repr(nest.statements[0].value)
    columns, rows = (range_.label for range_ in nest.statements[0].order)
    nest = apply_moves(nest, [Reorder(label, (rows, columns))])
    found, kernel = run(nest, x)
    assert error_of(found, x.sum(0, dtype=np.float64)) <= bound(x.T)
    assert sum(isinstance(op, k.Define) and op.length == 3 for op in kernel.ops) >= 3


@BY_KIND
@pytest.mark.parametrize("machine", MACHINES, ids=lambda info: info.model)
def test_sums_as_they_are_scheduled_are_too(cpu, machine, kind):
    x = draw(kind, 60_001)
    nest, _ = choose_schedule(sum_of(cpu, x, (0,)), machine)
    kernel = run_passes(lower(nest, "test"), standard_passes(machine))
    total = np.zeros(1, np.float32)
    interpreter.run(kernel, [total, x])
    assert abs(total[0] / math.fsum(x.astype(np.float64)) - 1) <= bound(x)


@BY_KIND
def test_products_of_matrices_with_a_long_depth_are_too(cpu, kind):
    a, b = draw(kind, 2, 3001), draw(kind, 3001, 3)
    found, _ = run(nest_of(cpu, lambda graph, x, y: cpu.matmul(x, y), a, b), a, b)
    products = a[:, None, :] * b.T[None]
    assert error_of(found.reshape(2, 3), a.astype(np.float64) @ b.astype(np.float64)) <= bound(products)


@BY_KIND
@pytest.mark.parametrize("count", [129, 4096, 20_011])
def test_running_sums_are_too_at_every_place(cpu, kind, count):
    x = draw(kind, count)
    found, _ = run(nest_of(cpu, lambda graph, leaf: graph.scan(ReduceOp.SUM, leaf, 0), x), x)
    assert error_of(found, np.cumsum(x, dtype=np.float64)) <= 10 * max(bound(x) / 10, EPSILON)


def test_running_sums_down_columns_keep_their_accumulators_in_memory(cpu):
    x = draw("constant", 3000, 3)
    nest = nest_of(cpu, lambda graph, leaf: graph.scan(ReduceOp.SUM, leaf, 0), x)
    columns, rows = (range_.label for range_ in nest.statements[0].order)
    store = "s0"
    moves = [Reorder(repr(nest.statements[0].value), (rows, columns)), Reorder(store, (rows, columns))]
    found, _ = run(apply_moves(nest, moves), x)
    assert error_of(found.reshape(3000, 3), np.cumsum(x, 0, dtype=np.float64)) <= bound(x.T)


@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan])
def test_infinities_and_nan_come_out_as_they_do_one_by_one(cpu, special):
    x = draw("uniform", 3000)
    x[1234] = special
    for make in (lambda graph, leaf: graph.reduce(ReduceOp.SUM, leaf, (0,)),
                 lambda graph, leaf: graph.scan(ReduceOp.SUM, leaf, 0)):  # fmt: skip
        found, _ = run(nest_of(cpu, make, x), x)
        np.testing.assert_array_equal(found[-1], x.sum())
        assert np.isfinite(found[:1234]).all() or len(found) == 1


def test_sums_of_integers_and_other_reductions_are_not_cut(cpu):
    for x, op in ((np.arange(3000, dtype=np.int32), ReduceOp.SUM), (draw("uniform", 3000), ReduceOp.MAX),
                  (draw("uniform", 3000), ReduceOp.PROD)):  # fmt: skip
        nest = nest_of(cpu, lambda graph, leaf, op=op: graph.reduce(op, leaf, (0,)), x)
        _, kernel = run(nest, x)
        assert sum(isinstance(item, k.Loop) for item in kernel.ops) == 1


def test_a_short_sum_is_one_block(cpu):
    x = draw("uniform", 2, 128)
    _, kernel = run(sum_of(cpu, x, (1,)), x)
    assert sum(isinstance(item, k.Loop) for item in kernel.ops) == 2


@pytest.mark.parametrize("factor", [7, 64, 100])
def test_the_point_that_is_written_apart_is_in_the_last_block(cpu, factor):
    x = RANDOM.integers(-50, 50, 1303).astype(np.float32)
    nest = sum_of(cpu, x, (0,))
    label = nest.statements[0].order[0].label
    nest = apply_moves(nest, [Split(label, factor), Peel(f"{label}.0"), Mark(f"{label}.1", Kind.REPEAT)])
    (total,), _ = run(nest, x)
    assert total == x.sum()


@pytest.mark.parametrize("terms, fan_in", [(1, 2), (2, 3), (3, 2)])
def test_any_schedule_keeps_the_values_in_small_blocks(monkeypatch, terms, fan_in):
    for name in ("_TERMS", "_TERMS_OF_MANY", "_TERMS_OF_THREADS"):
        monkeypatch.setattr(blocked_sums, name, terms)
    monkeypatch.setattr(blocked_sums, "_FAN_IN", fan_in)
    counts = Counter()
    for seed in range(60):
        choices = Seeded(9000 + seed)
        case = random_case(choices, OPTIONS)
        for kernel in kernels_of(case, choices.pick(MACHINES), together=choices.chance(30))[0]:
            check_schedules(choices, kernel, counts)
    assert counts["lowered"] >= counts["schedules"] / 2


def test_a_product_of_a_sum_is_cut_for_both(cpu):
    """Two sums in one loop go from block to block together."""
    x = draw("offset", 3, 1000)

    def both(graph, leaf):
        total = graph.reduce(ReduceOp.SUM, leaf, (1,))
        squares = graph.reduce(ReduceOp.SUM, graph.binary(BinaryOp.MUL, leaf, leaf), (1,))
        return graph.binary(BinaryOp.DIV, squares, total)

    found, _ = run(nest_of(cpu, both, x), x)
    exact = (x.astype(np.float64) ** 2).sum(1) / x.sum(1, dtype=np.float64)
    assert error_of(found, exact) <= 4 * bound(x)


def test_a_long_sum_around_which_a_loop_of_one_point_runs_is_stored(cpu):
    """Between that loop and those of the sum there are others, so that the sums are an array."""
    x = RANDOM.standard_normal((7, 200)).astype(np.float32)
    nest = sum_of(cpu, x, (1,))
    (row, column), (value,) = ([r.label for r in nest.statements[0].order], [repr(nest.statements[0].value)])
    moves = [Split(column, 200), Reorder(value, (f"{column}.0", row, f"{column}.1"))]
    found, _ = run(apply_moves(nest, moves), x)
    np.testing.assert_allclose(found, x.sum(1, dtype=np.float64), 1e-4, 1e-5)
