"""Writing a part of a graph as a nest: which statements there are, masks, and the order of stores."""

from __future__ import annotations

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.fusion.arrange import arrange, donate
from zyx.fusion.build import build_nest
from zyx.fusion.partition import partition
from zyx.graph.walk import topological
from zyx.nest.accesses import combined_ranges
from zyx.nest.data import Compute, Scan, Store
from zyx.ops import BinaryOp, ReduceOp, UnaryOp


def lines(nest) -> list[str]:
    return [" ".join(line.split()) for line in str(nest).splitlines()]


def nest_of(bench, *outputs):
    (nest,) = bench.check(*outputs).nests
    return nest


def test_what_is_stored_comes_first_among_the_params(cpu):
    nest = nest_of(cpu, cpu.add(cpu.normal(3, 4), cpu.normal(4)))
    assert lines(nest)[0] == "p0: f32[12] mutable, p1: f32[4], p2: f32[12]"


def test_softmax_keeps_what_several_loops_over_a_row_need(cpu):
    assert lines(nest_of(cpu, cpu.softmax(cpu.normal(5, 7))))[1:] == [
        "v0[r0] = max(r1) of p1[(r0*7 + r1)] | r0<5, r1<7",
        "v1[r0, r1] = exp2((p1[(r0*7 + r1)] - v0[r0])) | r0<5, r1<7",
        "v2[r0] = sum(r1) of v1[r0, r1] | r0<5, r1<7",
        "p0[(r0*7 + r1)] = (v1[r0, r1] / v2[r0]) | r0<5, r1<7",
    ]


def test_sums_over_square_images_in_groups_read_along_the_rows(cpu):
    """Axes of the groups are others than those of the result: one that has the size of both may be either's."""
    x = cpu.normal(2, 3, 9, 9)
    total = cpu.graph.reduce(ReduceOp.SUM, cpu.graph.reshape(x, (2, 3, 1, 9, 9)), (2, 3, 4))
    nest = nest_of(cpu, cpu.add(x, cpu.graph.reshape(total, (2, 3, 1, 1))))
    assert [line.split(" |")[0] for line in lines(nest)[1:]] == [
        "v0[r0, r1] = sum(r2, r3) of p1[(r0*243 + r1*81 + r2*9 + r3)]",
        "p0[(r0*243 + r1*81 + r2*9 + r3)] = (p1[(r0*243 + r1*81 + r2*9 + r3)] + v0[r0, r1])",
    ]


def test_a_value_that_is_stored_and_needed_is_computed_once(cpu):
    x = cpu.normal(3, 4)
    y = cpu.add(x, x)
    nest = nest_of(cpu, y, cpu.exp(y))
    assert [type(statement) for statement in nest.statements] == [Compute, Store, Store]


def test_a_value_that_is_stored_and_combined_is_stored_before_that(cpu):
    """Or each thread would keep a whole row for a store at the end."""
    y = cpu.exp(cpu.normal(5, 7))
    nest = nest_of(cpu, y, cpu.sum(y, 1))
    stored = [type(s) is Store and len(s.order) == 2 for s in nest.statements].index(True)
    combined = [type(s) is Compute and bool(s.reduced) for s in nest.statements].index(True)
    assert stored < combined


def test_a_value_that_is_stored_beside_a_sum_follows_it(cpu):
    """Or it would be kept until the sum is there, by which something else multiplies it."""
    y, product = cpu.tanh(cpu.normal(5, 7)), cpu.matmul(cpu.normal(5, 3), cpu.normal(3, 7))
    nest = nest_of(cpu, y, cpu.graph.binary(BinaryOp.MUL, product, y))
    kinds = [(type(s), bool(combined_ranges(s))) for s in nest.statements]
    assert kinds == [(Compute, True), (Compute, False), (Store, False), (Store, False)]


class TestPadding:
    def test_zeros_around_what_is_read_are_a_mask(self, cpu):
        nest = nest_of(cpu, cpu.graph.pad(cpu.normal(3), [(1, 0)], 0.0))
        assert lines(nest)[1] == "p0[r0] = p1[(r0 + -1) if ((r0 + -1) >= 0)] | r0<4"

    @pytest.mark.parametrize("value", [2.5, -0.0, float("inf"), float("nan")])
    def test_other_values_are_selected(self, cpu, value):
        output = cpu.graph.pad(cpu.normal(3), [(1, 2)], value)
        found = cpu.check(output).value()
        assert np.array_equal(np.signbit(found[[0, 4, 5]]), np.signbit([value] * 3))

    def test_infinity_outside_of_a_mask_does_not_leak(self, cpu):
        logarithm = cpu.graph.pad(cpu.sqrt(cpu.leaf(np.float32([4.0, -1.0, 9.0]))), [(2, 2)], 0.0)
        found = cpu.check(cpu.graph.shrink(logarithm, [(0, 3)])).value()
        assert found.tolist() == [0.0, 0.0, 2.0]


class TestIndexing:
    @pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.uint64])
    def test_gathers_take_every_type_of_index(self, bench, dtype):
        index = bench.leaf(np.array([[0, 3, 2], [1, 1, 0]], dtype))
        output = bench.graph.gather(bench.normal(4, 3), index, 0)
        bench.check(output)
        bench.check(output, run=bench.run_kernels)

    def test_negative_indices_count_from_the_end_and_those_outside_read_nothing(self, bench):
        index = bench.leaf(np.array([[-1, 3, 4], [-4, -5, 100]]))
        output = bench.graph.gather(bench.normal(4, 3), index, 0)
        found = bench.check(output).value()
        assert found[0, 2] == found[1, 1] == found[1, 2] == 0
        bench.check(output, run=bench.run_kernels)

    def test_a_gather_of_computed_data_computes_it_where_it_is_read(self, bench):
        index = bench.leaf(np.array([[-1, 3, 4], [-4, -5, 100]]))
        output = bench.graph.gather(bench.exp(bench.normal(4, 3)), index, 0)
        assert bench.check(output).value()[1, 2] == 0
        assert len(bench.check(output).nests) == 1

    @pytest.mark.parametrize("op", [None, ReduceOp.SUM, ReduceOp.MAX])
    def test_a_scatter_stores_its_base_first_and_then_in_order(self, bench, op):
        index = bench.leaf(np.array([[0, 2, 2], [0, 1, -1], [0, 7, 2]]))
        output = bench.graph.scatter(bench.normal(4, 3), index, bench.normal(3, 3), 0, op)
        nest = nest_of(bench, output)
        base, updates = (statement for statement in nest.statements if isinstance(statement, Store))
        assert base.serial == ()
        assert [range_.size for range_ in updates.serial] == [3]
        assert updates.combine is op
        bench.check(output, run=bench.run_kernels)


def test_a_scan_runs_along_its_axis_last(cpu):
    nest = nest_of(cpu, cpu.graph.scan(ReduceOp.MAX, cpu.normal(4, 3), 0))
    (scan,) = (statement for statement in nest.statements if isinstance(statement, Scan))
    assert scan.order[-1] is scan.along[0]
    assert scan.along[0].size == 4


def test_coordinates_and_constants_are_no_params(cpu):
    graph = cpu.graph
    coordinate = graph.cast(graph.iota((3, 4), 1, dtypes.int32, "cpu"), dtypes.float32)
    nest = nest_of(cpu, cpu.mul(cpu.add(coordinate, cpu.constant(0.5, (1, 1))), cpu.normal(3, 4)))
    assert len(nest.params) == 2


def test_what_takes_the_place_of_a_buffer_is_stored_last(cpu):
    weight = cpu.normal(6)
    step = cpu.sub(weight, cpu.normal(6))
    other = cpu.exp(step)  # stores the step on the way
    outputs = [step, other]
    launches = arrange(partition(topological(outputs), outputs, cpu.info), cpu.info)
    assert donate(launches, {step: weight}, set(outputs)) == {step: weight}
    ((part,),) = launches
    params: dict = {}
    nest = build_nest(part, params)
    assert params[step] is params[weight]
    assert params[step].mutable
    stores = [statement.param for statement in nest.statements if isinstance(statement, Store)]
    assert stores == [params[other], params[step]]


def test_deep_expressions_are_built_without_recursion(cpu):
    node = cpu.normal(2)
    for _ in range(1400):
        node = cpu.graph.unary(UnaryOp.NEG, cpu.add(node, node))
    assert cpu.schedule(node).nests


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.int64])
def test_extremes_of_rows_on_one_side_of_zero_are_in_them(bench, dtype):
    x = np.arange(1, 101).astype(dtype).reshape(4, 25)
    least = bench.graph.reduce(ReduceOp.MIN, bench.leaf(x), (1,))
    bench.check(bench.max(bench.leaf(-x), 1), least, run=bench.run_kernels)
