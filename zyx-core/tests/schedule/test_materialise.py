"""Which nodes of small graphs are computed once and kept, and which are taken for part of an index."""

from __future__ import annotations

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.graph.walk import topological
from zyx.ops import BinaryOp, UnaryOp
from zyx.schedule.materialise import choose_materialised, contraction_operands
from zyx.schedule.repetition import _indices


def kept(*outputs):
    return choose_materialised(topological(outputs), outputs)


def test_what_is_asked_for_and_is_there_already_is_not_kept(cpu):
    x = cpu.normal(4)
    assert kept(x) == set()
    y = cpu.tanh(x)
    assert kept(y, x) == {y}


@pytest.mark.parametrize(("times", "is_kept"), [(3, False), (4, True), (9, True)])
def test_what_costs_something_is_kept_if_it_is_repeated_four_times(cpu, times, is_kept):
    rows = cpu.normal(5, 1)
    costly = cpu.sqrt(rows)  # of cost 4, as much as makes it pay
    for source in (costly, cpu.graph.permute(cpu.graph.reshape(costly, (1, 5)), (1, 0))):
        result = cpu.add(cpu.expand(source, 5, times), cpu.normal(5, times))
        assert kept(result) == ({costly, result} if is_kept else {result})


def test_what_costs_little_or_is_there_is_not_kept_however_often_it_is_repeated(cpu):
    rows, more = cpu.normal(5, 1), cpu.normal(5, 50)
    for source in (cpu.add(rows, rows), cpu.graph.reshape(rows, (5, 1)), rows):
        result = cpu.add(cpu.expand(source, 5, 50), more)
        assert kept(result) == {result}


def test_products_of_matrices_are_told_by_two_repeated_factors(cpu):
    a, b = cpu.normal(4, 6), cpu.normal(6, 3)
    product = cpu.matmul(a, b)
    (total,) = product.sources
    assert contraction_operands(total) is not None
    assert contraction_operands(cpu.sum(cpu.mul(cpu.expand(cpu.normal(4, 1), 4, 6), a), 1)) is None
    assert contraction_operands(cpu.sum(cpu.mul(a, cpu.expand(cpu.normal(4, 1), 4, 6)), 1)) is None
    assert contraction_operands(cpu.max(cpu.mul(a, a), 1)) is None
    twice = [cpu.expand(cpu.normal(1, 1), 1, 2) for _ in range(2)]
    assert contraction_operands(cpu.sum(cpu.mul(*twice), 1)) is not None


def test_what_a_kernel_of_somebody_reads_is_kept(cpu):
    there, computed = cpu.normal(4), cpu.add(cpu.normal(4), cpu.normal(4))
    result = cpu.graph.custom(object(), (there, computed), 0, (4,), dtypes.float32)
    assert kept(result) == {computed, result}


def test_a_computed_factor_is_kept_in_its_smallest_type(cpu):
    graph, a, b = cpu.graph, cpu.normal(4, 6), cpu.normal(6, 3)
    computed = cpu.tanh(a)
    assert computed in kept(cpu.matmul(computed, b))
    half = graph.cast(computed, dtypes.float16)
    wide = graph.cast(graph.permute(graph.permute(half, (1, 0)), (1, 0)), dtypes.float32)
    chosen = kept(cpu.matmul(wide, b))
    assert half in chosen
    assert computed not in chosen
    part = graph.cast(graph.shrink(computed, [(0, 3), (0, 6)]), dtypes.float16)  # not all of it, so not instead of it
    assert computed in kept(cpu.matmul(graph.cast(part, dtypes.float32), b))


def test_indices_are_integers_made_of_coordinates_in_a_few_operations(cpu):
    graph = cpu.graph
    place = graph.iota((6,), 0, dtypes.int32, "cpu")
    three = graph.const(3, dtypes.int32, "cpu", (6,))
    less = graph.binary(BinaryOp.LT, place, three)
    chosen = graph.where(less, place, three)
    long = graph.cast(chosen, dtypes.int64)
    turned = graph.flip(long, (0,))
    data = graph.binary(BinaryOp.ADD, place, cpu.leaf(np.arange(6, dtype=np.int32)))
    fraction = graph.cast(place, dtypes.float32)
    negated = graph.unary(UnaryOp.NEG, place)
    found = _indices(topological([turned, data, fraction, negated]))
    assert found == {place, three, less, chosen, long, turned}


@pytest.mark.parametrize(("count", "is_index"), [(8, True), (9, False)])
def test_an_index_has_at_most_eight_operations(cpu, count, is_index):
    graph = cpu.graph
    three = graph.const(3, dtypes.int32, "cpu", (6,))
    value = graph.iota((6,), 0, dtypes.int32, "cpu")
    for number in range(count):
        other = graph.const(number + 5, dtypes.int32, "cpu", (6,)) if number else three
        value = graph.binary(BinaryOp.ADD if number % 2 else BinaryOp.XOR, value, other)
    assert (value in _indices(topological([value]))) == is_index
