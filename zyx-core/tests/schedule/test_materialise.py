"""Which nodes of small graphs are computed once and kept, and which are taken for part of an index."""

from __future__ import annotations

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.fusion.materialise import choose_materialised, contraction_operands, row_summaries
from zyx.fusion.recomputation import _indices
from zyx.graph import node as n
from zyx.graph.walk import topological
from zyx.ops import BinaryOp, UnaryOp


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
    result = cpu.graph.custom(object(), (with_values(computed),), 0, (4,), dtypes.float32)
    assert kept(result) == {result}


def test_of_an_alias_that_is_a_factor_what_it_stands_for_is_kept(cpu):
    computed = cpu.tanh(cpu.normal(4, 6))
    assert computed in kept(cpu.matmul(cpu.graph.alias(computed), cpu.normal(6, 3)))


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


# ---- what is there already, limits, and costs


def with_values(node):
    """Return a node whose values have been computed."""
    node.storage = np.zeros(node.shape, node.dtype.numpy)
    return node


def test_what_has_been_computed_is_not_looked_into(cpu):
    wide = with_values(cpu.expand(cpu.normal(4, 1), 4, 6))  # its elements are all different ones, as far as is known
    other = cpu.expand(cpu.normal(1, 6), 4, 6)
    assert contraction_operands(cpu.sum(cpu.mul(wide, other), 1)) is None
    repeated = cpu.expand(cpu.normal(4, 1), 4, 6)
    product = cpu.mul(repeated, other)
    assert contraction_operands(cpu.sum(cpu.graph.cast(product, dtypes.float64), 1)) == (repeated, other)
    converted = with_values(cpu.graph.cast(product, dtypes.float64))
    assert contraction_operands(cpu.sum(converted, 1)) is None


def test_what_was_converted_is_as_repeated_as_what_it_was(cpu):
    repeated = [cpu.graph.cast(cpu.expand(cpu.normal(*shape), 4, 6), dtypes.float64) for shape in ((4, 1), (1, 6))]
    product = cpu.graph.binary(BinaryOp.MUL, *repeated)
    assert contraction_operands(cpu.sum(product, 1)) == tuple(repeated)


def test_rows_of_what_has_been_computed_are_no_summary(cpu):
    x = cpu.normal(30, 20)
    losses = cpu.sub(cpu.sum(x, 1), cpu.max(x, 1))
    assert losses in kept(cpu.sum(losses, 0))
    before = {node for node in topological([losses]) if isinstance(node, n.Reduce)}
    for operand in (with_values(losses), cpu.graph.unary(UnaryOp.NEG, losses)):
        total = cpu.sum(operand, 0)
        assert row_summaries(topological([total]), {total} | before) == {}


def test_one_element_that_is_repeated_four_times_is_kept(cpu):
    costly = cpu.sqrt(cpu.normal(1, 1))
    assert costly in kept(cpu.add(cpu.expand(costly, 1, 4), cpu.normal(1, 4)))


def test_of_two_types_as_small_the_later_one_is_kept(cpu):
    graph = cpu.graph
    half = graph.cast(cpu.tanh(cpu.normal(4, 6)), dtypes.float16)
    other = graph.cast(half, dtypes.bfloat16)
    chosen = kept(cpu.matmul(graph.cast(other, dtypes.float32), cpu.normal(6, 3)))
    assert other in chosen
    assert half not in chosen


def test_indices_are_computed_wherever_they_are_needed(cpu):
    graph = cpu.graph
    value = graph.iota((1, 6), 1, dtypes.int16, "cpu")
    for number in range(8):
        other = graph.const(number + 5, dtypes.int16, "cpu", (1, 6))
        value = graph.binary(BinaryOp.ADD if number % 2 else BinaryOp.XOR, value, other)
    result = cpu.add(graph.cast(cpu.expand(value, 50, 6), dtypes.float32), cpu.normal(50, 6))
    assert kept(result) == {result}
    place = graph.iota((50,), 0, dtypes.int16, "cpu")
    value = graph.binary(BinaryOp.MOD, place, graph.const(4, dtypes.int16, "cpu", (50,)))
    first, second = (graph.cast(graph.shrink(value, [part]), dtypes.float32) for part in ((0, 40), (10, 50)))
    result = cpu.add(first, cpu.mul(second, cpu.normal(40)))
    assert kept(result) == {result}
    data = cpu.leaf(np.arange(6, dtype=np.int16)[None])
    for number in range(8):  # the same of what is in memory
        other = graph.const(number + 5, dtypes.int16, "cpu", (1, 6))
        data = graph.binary(BinaryOp.ADD if number % 2 else BinaryOp.XOR, data, other)
    result = cpu.add(graph.cast(cpu.expand(data, 50, 6), dtypes.float32), cpu.normal(50, 6))
    assert data in kept(result)


@pytest.mark.parametrize(("sums", "is_kept"), [(3, False), (4, True)])
def test_what_is_shown_eight_times_is_kept_if_it_costs_nine_operations(cpu, sums, is_kept):
    costly = cpu.sqrt(cpu.normal(1, 5))  # 4 operations
    for _ in range(sums):
        costly = cpu.add(costly, cpu.normal(1, 5))
    costly = cpu.graph.unary(UnaryOp.NEG, costly)
    result = cpu.add(cpu.expand(costly, 8, 5), cpu.normal(8, 5))
    assert (costly in kept(result)) == is_kept


def test_what_does_not_depend_on_a_loop_is_computed_outside_of_it(cpu):
    one = cpu.normal(1, 1)
    costly = cpu.add(cpu.tanh(one), one)
    result = cpu.add(cpu.expand(costly, 64, 1), cpu.normal(64, 1))
    assert kept(result) == {result}


def test_code_of_more_than_64_operations_is_not_written_twice(cpu):
    graph, x = cpu.graph, cpu.normal(40)
    power = graph.binary(BinaryOp.POW, cpu.exp(x), cpu.normal(40))
    costly = cpu.tanh(cpu.tanh(power))  # 16, 16 and 40 operations
    halves = [graph.shrink(costly, [part]) for part in ((0, 20), (20, 40))]
    result = cpu.add(*halves)
    assert costly in kept(result)
    cheaper = cpu.tanh(cpu.tanh(x))
    result = cpu.add(*(graph.shrink(cheaper, [part]) for part in ((0, 20), (20, 40))))
    assert kept(result) == {result}


@pytest.mark.parametrize(
    ("patch", "columns", "is_kept"),
    [(14, 200, True), (8, 500, True), (64, 64, False), (40, 63, False), (3, 100, False)],
)
def test_rows_of_short_pieces_are_put_together_for_products_that_use_them_often(cpu, patch, columns, is_kept):
    """Of pieces of 64 elements, of few columns and of few products they are read where they lie."""
    graph, count = cpu.graph, 6
    image = cpu.normal(count * patch, count * patch)
    squares = graph.permute(graph.reshape(image, (count, patch, count, patch)), (0, 2, 1, 3))
    rows = graph.reshape(squares, (count * count, 1, patch * patch))
    weights = graph.reshape(cpu.normal(columns, patch * patch), (1, columns, patch * patch))
    shape = (count * count, columns, patch * patch)
    product = cpu.sum(cpu.mul(graph.expand(rows, shape), graph.expand(weights, shape)), 2)
    assert kept(product) == ({rows, product} if is_kept else {product})
    cpu.check(product, tolerance=1e-4)


def test_rows_that_only_change_places_are_read_where_they_lie(cpu):
    graph = cpu.graph
    turned = graph.permute(cpu.normal(8, 4, 128), (1, 0, 2))
    rows = graph.reshape(turned, (32, 1, 128))
    shape = (32, 300, 128)
    weights = graph.expand(graph.reshape(cpu.normal(300, 128), (1, 300, 128)), shape)
    product = cpu.sum(cpu.mul(graph.expand(rows, shape), weights), 2)
    assert kept(product) == {product}


@pytest.mark.parametrize(("rows", "is_kept"), [(64, False), (512, True)])
def test_what_lies_in_memory_is_rounded_once_for_products_that_use_it_often(cpu, rows, is_kept):
    graph = cpu.graph
    a, b = (
        graph.cast(graph.cast(cpu.normal(*shape), dtypes.float16), dtypes.float32) for shape in ((rows, 64), (64, 64))
    )
    product = cpu.matmul(a, b)
    kept = choose_materialised(topological([product]), [product])
    assert [node.dtype for node in kept if isinstance(node, n.Cast)] == [dtypes.float16] * (2 if is_kept else 0)


def of_packed(bench, rows, *, terms=2, kind=np.uint8):
    """Return a product of few rows with packed weights: sums over `terms` places of bytes, each of its own number."""
    columns, depth = 48, 64 * 32
    data = bench.leaf(np.arange(columns * depth).reshape(1, columns, depth).astype(kind))
    added = None
    for number in range(terms):
        numbers = bench.mul(bench.graph.cast(data, dtypes.float32), bench.constant(number + 1.0))
        scaled = bench.add(bench.mul(numbers, bench.constant(0.001)), bench.constant(0.5))
        product = bench.mul(
            bench.expand(bench.normal(rows, 1, depth), rows, columns, depth), bench.expand(scaled, rows, columns, depth)
        )
        added = product if added is None else bench.add(added, product)
    return bench.sum(added, 2)


@pytest.mark.parametrize("terms", [1, 2])
@pytest.mark.parametrize("rows", [2, 5, 8])
def test_packed_weights_are_unpacked_where_few_rows_are_multiplied_with_them(cpu, rows, terms):
    scheduled = cpu.check(of_packed(cpu, rows, terms=terms), tolerance=1e-3)
    assert len(scheduled.nests) == 1
    assert scheduled.stored_bytes == rows * 48 * 4


def test_weights_are_stored_that_many_rows_use_or_that_are_made_of_as_many_bytes(cpu):
    for output in (of_packed(cpu, 9, terms=1), of_packed(cpu, 4, terms=1, kind=np.float32)):
        assert cpu.schedule(output).stored_bytes > 48 * 64 * 32 * 4
