"""Rewriting a graph for a device: two-stage reductions, buffers for what is asked for, chains that are cut."""

from __future__ import annotations

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.graph import node as n
from zyx.graph.walk import topological
from zyx.nest import expr as e
from zyx.ops import BinaryOp, ReduceOp, UnaryOp
from zyx.schedule.plan import all_expressions
from zyx.shape import size_of


def reductions(*outputs) -> list[n.Reduce]:
    return [node for node in topological(outputs) if isinstance(node, n.Reduce)]


class TestTwoStages:
    @pytest.mark.parametrize("op", [ReduceOp.SUM, ReduceOp.MAX, ReduceOp.PROD])
    @pytest.mark.parametrize("shape", [(1 << 17,), (3, 50_021), (70_000, 1), (2, 100, 400)])
    def test_a_reduction_to_few_results_is_done_in_two(self, bench, op, shape):
        values = np.random.default_rng(0).uniform(0.999, 1.001, shape).astype(np.float32)
        axes = tuple(range(len(shape))) if len(shape) < 3 else (1, 2)
        output = bench.graph.reduce(op, bench.leaf(values), axes)
        scheduled = bench.check(output, tolerance=1e-3)
        assert len(reductions(*scheduled.outputs)) == 2
        first, second = (part.stored[0] for part in scheduled.parts)
        assert bench.info.units < np.prod(first.shape) / np.prod(second.shape)

    def test_what_is_added_to_make_blocks_equal_changes_nothing(self, bench):
        for op, values in (
            (ReduceOp.MAX, -np.arange(1, 70_002, dtype=np.float32)),
            (ReduceOp.MIN, np.arange(1, 70_002, dtype=np.int32)),
            (ReduceOp.AND, np.ones(70_001, np.bool_)),
            (ReduceOp.OR, np.zeros(70_001, np.bool_)),
        ):
            bench.check(bench.graph.reduce(op, bench.leaf(values), (0,)))

    @pytest.mark.parametrize("shape", [(1201, 83), (1203, 5, 17), (3, 411, 83)], ids=str)
    def test_blocks_are_of_whole_rows_where_rows_do_not_lie_side_by_side(self, bench, shape):
        """No place is found by dividing the number of an element."""
        inner = bench.graph.shrink(bench.normal(*shape), [(0, size) for size in shape[:-1]] + [(1, shape[-1])])
        scheduled = bench.check(bench.sum(bench.mul(inner, inner), *range(len(shape))), tolerance=1e-3)
        assert len(scheduled.parts) == 2
        for nest in scheduled.nests:
            assert not any(isinstance(expr, e.Quotient | e.Remainder) for expr in all_expressions(nest))

    def test_many_results_and_little_work_stay_as_they_are(self, bench):
        for output in (
            bench.sum(bench.normal(1000, 300), 1),
            bench.sum(bench.normal(40_000), 0),
            bench.matmul(bench.normal(70, 900), bench.normal(900, 60)),
        ):
            assert len(reductions(*bench.prepare(output))) == 1

    def test_what_comes_before_is_part_of_the_first_stage_and_what_follows_of_the_second(self, bench):
        x = bench.normal(1 << 17)
        total = bench.sum(bench.tanh(x), 0)
        scheduled = bench.check(bench.mul(total, total), tolerance=1e-4)
        assert len(scheduled.parts) == 2
        assert scheduled.stored[1].shape == (1,)

    def test_the_mean_and_variance_of_everything_take_four_kernels_of_which_the_long_ones_are_shared_out(self, bench):
        x = bench.normal(1 << 17)
        share = bench.constant(2.0**-17, (1,))
        centred = bench.sub(x, bench.mul(bench.sum(x, 0), share))
        scheduled = bench.check(bench.mul(bench.sum(bench.mul(centred, centred), 0), share), tolerance=1e-3)
        assert len(scheduled.parts) == 4
        long = [part for part in scheduled.parts if any(size_of(read.shape) == 1 << 17 for read in part.reads)]
        assert [size_of(part.root.shape) > 1 for part in long] == [True, True]


class TestDepth:
    """Products of matrices with few results and great depth, where groups have many threads."""

    @pytest.mark.parametrize("dtype", [np.float32, np.float16])
    @pytest.mark.parametrize(("rows", "depth", "columns"), [(2, 40_000, 2), (5, 20_011, 7), (33, 4096, 17)])
    def test_the_depth_is_cut(self, gpu, rows, depth, columns, dtype):
        a, b = (gpu.random.uniform(-0.5, 0.5, shape).astype(dtype) for shape in ((rows, depth), (depth, columns)))
        output = gpu.matmul(gpu.leaf(a), gpu.leaf(b))
        prepared = gpu.prepare(output)
        is_ragged = depth == 20_011
        assert len(reductions(*prepared)) == 2 + is_ragged
        partial = max(reductions(*prepared), key=lambda node: size_of(node.sources[0].shape))
        assert size_of(partial.shape) >= 4 * rows * columns
        gpu.check(output, tolerance=2e-2 if dtype is np.float16 else 1e-3)

    def test_the_images_of_a_batch_are_summed_up_last(self, gpu):
        x, y = gpu.normal(24, 6, 33, 17), gpu.normal(24, 5, 33, 17)
        wide = (24, 6, 5, 33, 17)
        first = gpu.expand(gpu.graph.reshape(x, (24, 6, 1, 33, 17)), *wide)
        second = gpu.expand(gpu.graph.reshape(y, (24, 1, 5, 33, 17)), *wide)
        output = gpu.graph.reduce(ReduceOp.SUM, gpu.mul(first, second), (0, 3, 4))
        inner, outer = sorted(reductions(*gpu.prepare(output)), key=lambda node: len(node.axes), reverse=True)
        assert (inner.axes, outer.axes) == ((3, 4), (0,))
        gpu.check(output, tolerance=1e-3)

    def test_a_processor_goes_through_the_depth_at_once(self, cpu):
        assert len(reductions(*cpu.prepare(cpu.matmul(cpu.normal(2, 40_000), cpu.normal(40_000, 2))))) == 1


class TestBuffers:
    def test_constants_coordinates_and_movement_get_buffers_of_their_own(self, bench):
        graph = bench.graph
        x = bench.normal(3, 4)
        outputs = [
            bench.constant(2.5, (3, 4)),
            graph.iota((3, 4), 1, dtypes.int32, "cpu"),
            graph.permute(x, (1, 0)),
            graph.pad(x, [(1, 0), (0, 1)], 3.0),
            graph.expand(graph.shrink(x, [(1, 2), (0, 4)]), (6, 4)),
        ]
        scheduled = bench.check(*outputs)
        assert all(isinstance(node, n.Contiguous) for node in scheduled.outputs)
        assert len(scheduled.stored) == len(outputs)

    def test_another_shape_of_what_is_stored_anyway_is_no_copy(self, bench):
        x = bench.normal(6, 4)
        y = bench.tanh(x)
        scheduled = bench.check(bench.graph.reshape(y, (24,)), bench.graph.reshape(y, (4, 6)), bench.sum(y, 1))
        assert len(scheduled.stored) == 2
        assert scheduled.outputs[0] is scheduled.outputs[1]

    def test_an_alias_is_its_source(self, bench):
        x = bench.normal(4)
        (prepared,) = bench.prepare(bench.exp(bench.graph.alias(bench.tanh(x))))
        assert not any(isinstance(node, n.Alias) for node in topological([prepared]))

    def test_what_has_no_elements_is_a_constant(self, bench):
        empty = bench.exp(bench.graph.shrink(bench.normal(4, 3), [(2, 2), (0, 3)]))
        prepared, total = bench.prepare(empty, bench.graph.reduce(ReduceOp.MAX, empty, (0,)))
        assert isinstance(prepared, n.Contiguous | n.Const)
        assert np.isneginf(bench.schedule(bench.graph.reduce(ReduceOp.MAX, empty, (0,))).value()).all()
        assert total.shape == (1, 3)

    def test_leaves_and_what_is_computed_stay(self, bench):
        x = bench.normal(4)
        assert bench.prepare(x) == [x]


def test_a_chain_of_thousands_of_operations_is_cut(bench):
    x = bench.normal(4)
    node = x
    for number in range(4000):
        node = bench.add(node, x) if number % 2 else bench.sub(node, bench.exp(bench.constant(-20.0, (4,))))
    scheduled = bench.schedule(node)
    assert 2 <= len(scheduled.parts) <= 4
    assert all(len(part.region.views) < 2000 for part in scheduled.parts)


def test_preparing_changes_no_node(bench):
    x = bench.normal(1 << 17)
    output = bench.graph.unary(UnaryOp.NEG, bench.sum(bench.graph.binary(BinaryOp.MUL, x, x), 0))
    before = [(node, node.sources, node.shape, node.storage is None) for node in topological([output])]
    bench.prepare(output)
    assert before == [(node, node.sources, node.shape, node.storage is None) for node in topological([output])]


class TestShortFloats:
    @pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16])
    def test_sums_and_products_are_made_in_float32_and_rounded_once(self, bench, dtype):
        ones = np.ones((2, 4096), dtype.numpy)
        output = bench.graph.reduce(ReduceOp.SUM, bench.leaf(ones), (1,))
        (reduction,) = reductions(*bench.check(output).outputs)
        assert (reduction.dtype, output.dtype) == (dtypes.float32, dtype)

    def test_the_greatest_is_picked_as_it_is(self, bench):
        output = bench.graph.reduce(ReduceOp.MAX, bench.leaf(np.ones((2, 4096), np.float16)), (1,))
        (reduction,) = reductions(*bench.check(output).outputs)
        assert reduction.dtype is dtypes.float16


def test_another_shape_of_a_product_of_matrices_is_no_kernel_of_its_own(bench):
    graph = bench.graph
    product = bench.matmul(bench.normal(40, 64), bench.normal(64, 48))
    assert bench.kernels(graph.reshape(product, (1920,))) == 1


class TestSumsOfProducts:
    """Gradients of what goes into several products are added up before they are summed up."""

    def products(self, bench, summands, rows=48, *, columns=40, depth=48):
        graph = bench.graph
        total = None
        for _ in range(summands):
            a, b = bench.normal(rows, depth), bench.normal(depth, columns)
            wide = graph.expand(graph.reshape(a, (rows, 1, depth)), (rows, columns, depth))
            turned = graph.permute(b, (1, 0))
            other = graph.expand(graph.reshape(turned, (1, columns, depth)), (rows, columns, depth))
            product = bench.mul(wide, other)
            total = product if total is None else graph.binary(BinaryOp.ADD, total, product)
        return total

    @pytest.mark.parametrize("summands", [2, 3])
    def test_each_is_a_sum_of_its_own(self, bench, summands):
        output = bench.sum(self.products(bench, summands), 2)
        scheduled = bench.check(output, tolerance=1e-4)
        assert len(reductions(*scheduled.outputs)) == summands

    def test_what_else_is_added_is_summed_up_beside_them(self, bench):
        graph = bench.graph
        more = graph.expand(graph.reshape(bench.normal(48), (48, 1, 1)), (48, 40, 48))
        output = bench.sum(graph.binary(BinaryOp.ADD, self.products(bench, 1), more), 2)
        assert len(reductions(*bench.check(output, tolerance=1e-4).outputs)) == 2

    def test_few_products_shared_ones_and_other_sums_stay_as_they_are(self, bench):
        few = bench.sum(self.products(bench, 2, 8), 2)
        assert len(reductions(*bench.prepare(few))) == 1
        shared = self.products(bench, 2)
        assert len(reductions(*bench.prepare(bench.sum(shared, 2), shared))) == 1
        x, y = bench.normal(70, 1000), bench.normal(70, 1000)
        both = bench.graph.binary(BinaryOp.ADD, bench.mul(x, x), bench.mul(y, y))
        assert len(reductions(*bench.prepare(bench.sum(both, 1)))) == 1
