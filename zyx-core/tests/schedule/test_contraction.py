"""What is rows, columns, batch and depth in the sums of products of a nest, and which sums are none."""

from __future__ import annotations

import numpy as np
import pytest

import zyx
from zyx import dtype as dtypes
from zyx.nn import functional as F
from zyx.ops import BinaryOp, ReduceOp
from zyx.runtime.runtime import use
from zyx.schedule.contraction import find_contraction
from zyx.schedule.plan import Plan, simplify_ranges
from zyx.testing.paper import open_paper


def sizes(ranges):
    return [range_.size for range_ in ranges]


def found_in(bench, output):
    """Return the contraction that a graph of one kernel is, and its sides by the factors as they are written."""
    (nest,) = bench.schedule(output).nests
    found = find_contraction(nest)
    assert found is not None
    x, y = reversed(found.reads)
    return found, found.sides(x, y)


@pytest.fixture
def sides_of(cpu):
    """A function that returns the sides of what is computed of tensors, [rows, columns, batch, depth]."""

    def sides(function, *shapes):
        with open_paper("processor") as runtime, use(runtime):
            (nest,) = cpu.schedule(function(*(zyx.zeros(shape).contiguous() for shape in shapes)).node).nests[-1:]
        plan = Plan(nest)
        simplify_ranges(plan)
        found = find_contraction(plan.nest)
        assert found is not None
        sides = found.sides(*reversed(found.reads))
        return [sizes(ranges) for ranges in (sides.rows, sides.columns, sides.batch, sides.depth)]

    return sides


def turned(bench, *shape):
    return bench.graph.permute(bench.normal(*reversed(shape)), (1, 0))


@pytest.mark.parametrize("is_turned", [(False, False), (True, False), (False, True), (True, True)])
def test_a_product_of_matrices_has_rows_columns_and_depth_however_they_lie(cpu, is_turned):
    a = turned(cpu, 4, 6) if is_turned[0] else cpu.normal(4, 6)
    b = turned(cpu, 6, 8) if is_turned[1] else cpu.normal(6, 8)
    found, sides = found_in(cpu, cpu.matmul(a, b))
    assert [sizes(s) for s in (sides.rows, sides.columns, sides.batch, sides.depth)] == [[4], [8], [], [6]]
    matrices = found.matrices(*found.reads)
    assert sizes(matrices.sides) == [4, 8]
    assert matrices.depth.size == 6
    rows, columns = (matrices.sides[side] if matrices.near[side] is matrices.sides[side] else None for side in (0, 1))
    assert (rows is not None, columns is not None) == (is_turned[0], not is_turned[1])


@pytest.mark.parametrize("exchanged", [False, True])
def test_columns_are_those_along_which_results_lie_side_by_side_whichever_factor_comes_first(cpu, exchanged):
    product = cpu.matmul(cpu.normal(4, 6), cpu.normal(6, 8))
    found, _ = found_in(cpu, cpu.graph.contiguous(cpu.graph.permute(product, (1, 0))) if exchanged else product)
    for reads in (found.reads, found.reads[::-1]):
        assert sizes(found.matrices(*reads).sides) == ([8, 4] if exchanged else [4, 8])


@pytest.mark.parametrize(("equation", "shapes", "expected"), [
    ("bij,bjk->bik", [(3, 4, 6), (3, 6, 8)], [[4], [8], [3], [6]]),
    ("abij,cbj->abic", [(2, 3, 4, 6), (8, 3, 6)], [[2, 4], [8], [3], [6]]),
    ("ijk,ljk->il", [(4, 5, 6), (8, 5, 6)], [[4], [8], [], [30]]),
], ids=lambda value: value if isinstance(value, str) else "")  # fmt: skip
def test_an_einsum_has_a_batch_and_several_rows(sides_of, equation, shapes, expected):
    assert sides_of(lambda *tensors: zyx.einsum(equation, *tensors), *shapes) == expected


def test_a_convolution_has_channels_for_rows_and_points_for_columns(sides_of):
    found = sides_of(F.conv2d, (2, 5, 9, 9), (7, 5, 3, 3))
    assert sorted(found[:2]) == [[2, 7, 7], [7]]
    assert found[2:] == [[], [5, 3, 3]]


def test_whoever_wrote_the_product(sides_of):
    assert sides_of(lambda a, b: (a[:, None] * b[None]).sum(2), (4, 6), (8, 6)) == [[4], [8], [], [6]]


def test_products_may_be_converted_before_they_are_added_up(cpu):
    graph = cpu.graph
    a, b = cpu.normal(4, 1, 6, dtype=np.float16), cpu.normal(1, 8, 6, dtype=np.float16)
    found, sides = found_in(cpu, cpu.sum(graph.cast(cpu.mul(a, b), dtypes.float32), 2))
    assert found.is_converted
    assert {factor.dtype for factor in found.factors} == {dtypes.float16}
    assert [sizes(sides.rows), sizes(sides.columns)] == [[4], [8]]


def test_a_mask_of_the_other_factor_is_no_side_of_its_own(cpu):
    graph = cpu.graph
    shape = (4, 8, 6)
    a = graph.expand(graph.reshape(cpu.normal(4, 6), (4, 1, 6)), shape)
    b = graph.expand(graph.reshape(cpu.normal(8, 6), (1, 8, 6)), shape)
    b = graph.shrink(graph.pad(b, [(1, 0), (0, 0), (0, 0)]), [(0, 4), (0, 8), (0, 6)])  # b is 0 in the first row
    found, sides = found_in(cpu, cpu.sum(cpu.mul(a, b), 2))
    assert [sizes(s) for s in (sides.rows, sides.columns, sides.batch)] == [[], [8], [4]]
    assert found.matrices(*found.reads) is None


def test_what_follows_a_product_is_beside_it_and_its_results_are_by_themselves(cpu):
    found, _ = found_in(cpu, cpu.add(cpu.tanh(cpu.matmul(cpu.normal(4, 6), cpu.normal(6, 8))), cpu.normal(8)))
    assert found.is_by_results
    assert len(found.stores) == 1


def test_sums_that_are_no_contractions(cpu):
    graph = cpu.graph
    a, b = cpu.normal(4, 6), cpu.normal(4, 6)
    wide = [graph.expand(graph.reshape(x, shape), (4, 4, 6)) for x, shape in ((a, (4, 1, 6)), (b, (1, 4, 6)))]
    product = cpu.mul(*wide)
    some = cpu.leaf(np.ones((4, 4, 6), np.bool_))
    for output in (
        cpu.sum(cpu.mul(a, b), 1),  # no factor is used for several results
        cpu.sum(cpu.add(*wide), 2),
        cpu.max(product, 2),
        cpu.sum(graph.where(some, product, cpu.constant(0.0, (4, 4, 6))), 2),  # there is a condition on products
        cpu.sum(cpu.mul(wide[0], cpu.constant(2.0, (4, 4, 6))), 2),  # one factor is a number
        graph.reduce(ReduceOp.SUM, graph.binary(BinaryOp.MUL, cpu.normal(6), cpu.normal(6)), (0,)),
        cpu.tanh(a),
    ):
        (nest,) = cpu.schedule(output).nests
        assert find_contraction(nest) is None
