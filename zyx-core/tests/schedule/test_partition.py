"""What fuses, and what is written to memory: counted in kernels and in what they store."""

from __future__ import annotations

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.fusion.partition import _ranges_of, partition
from zyx.graph import node as n
from zyx.graph.walk import topological
from zyx.nest.pool import Pool
from zyx.ops import BinaryOp, ReduceOp, UnaryOp


def test_chains_of_elementwise_operations_movement_and_casts_are_one_kernel(bench):
    graph = bench.graph
    x, y = bench.normal(16, 8), bench.normal(8)
    moved = graph.flip(graph.permute(graph.pad(x, [(1, 2), (0, 3)], 0.5), (1, 0)), (0,))
    result = graph.cast(bench.add(bench.tanh(graph.shrink(moved, [(2, 10), (1, 9)])), y), dtypes.float16)
    scheduled = bench.check(graph.cast(result, dtypes.float32), tolerance=1e-2)
    assert len(scheduled.parts) == len(scheduled.stored) == 1


@pytest.mark.parametrize("shape", [(64, 128), (512, 300), (4, 3, 7), (1, 5), (5, 1)])
def test_what_runs_over_the_same_rows_is_one_kernel(bench, shape):
    x = bench.normal(*shape)
    last = len(shape) - 1
    log_sum = bench.graph.unary(UnaryOp.LOG2, bench.sum(bench.exp(bench.sub(x, bench.max(x, last))), last))
    for output in (bench.softmax(x), bench.layer_norm(x) if shape[-1] > 1 else bench.softmax(x), bench.sub(x, log_sum)):
        scheduled = bench.check(output)
        assert len(scheduled.parts) == len(scheduled.stored) == 1


def test_a_reduction_takes_what_comes_before_and_after_it_along(bench):
    x = bench.normal(32, 64)
    before = bench.tanh(bench.mul(x, bench.normal(64)))
    after = bench.add(bench.exp(bench.sum(before, 1)), bench.normal(32, 1))
    assert bench.check(bench.graph.reshape(after, (32,))).stored_bytes == 32 * 4


def test_a_reduction_that_is_read_in_another_order_of_rows_is_kept(bench):
    graph = bench.graph
    x = bench.normal(40, 40)
    total = bench.sum(x, 1)  # for each row, and then needed for each column
    columns = bench.add(x, graph.expand(graph.reshape(total, (1, 40)), (40, 40)))
    both = bench.add(columns, graph.expand(total, (40, 40)))
    scheduled = bench.check(both)
    assert [node.shape for node in scheduled.stored] == [(40, 1), (40, 40)]


def test_rows_too_few_for_the_device_are_not_fused_unless_everything_is_small(device_with):
    for rows, width, kernels in ((2, 40_000, 3), (64, 40_000, 1), (2, 60, 1)):
        bench = device_with(units=8, vector_bytes=32, cache_bytes=(1 << 15, 1 << 20))
        x = bench.normal(rows, width)
        scheduled = bench.check(bench.softmax(x), tolerance=1e-4)
        assert len(scheduled.parts) >= kernels if kernels > 1 else len(scheduled.parts) == 1


def test_rows_that_the_caches_do_not_hold_are_fused_only_if_nothing_is_read_again(device_with):
    bench = device_with(units=1, vector_bytes=32, cache_bytes=(1 << 12, 1 << 13))
    long = bench.normal(16, 8192)
    assert len(bench.check(bench.softmax(long)).parts) > 1
    assert len(bench.check(bench.add(bench.sum(long, 1), bench.max(long, 1))).parts) == 1


def test_rows_that_fit_a_cache_behind_local_memory_are_read_again_from_there(device_with):
    threads = {"max_group_threads": 256, "max_group_shape": (256, 256, 64), "warp_size": 32, "vector_bytes": 16}
    for cache_bytes, parts in ((), 2), ((1 << 15, 1 << 20), 1):
        bench = device_with(units=1, local_bytes=1 << 15, cache_bytes=cache_bytes, **threads)
        assert len(bench.schedule(bench.softmax(bench.normal(16, 8192))).parts) == parts


class TestMatrixProducts:
    def test_bias_and_activation_come_along(self, bench):
        product = bench.matmul(bench.normal(24, 16), bench.normal(16, 20))
        result = bench.tanh(bench.add(product, bench.normal(20)))
        assert bench.check(result).stored_bytes == 24 * 20 * 4

    def test_a_factor_that_must_be_computed_is_kept(self, bench):
        factor = bench.tanh(bench.normal(24, 16))
        scheduled = bench.check(bench.matmul(factor, bench.normal(16, 20)))
        assert scheduled.stored[0].shape == (24, 16)
        assert len(scheduled.parts) == 2

    def test_a_factor_that_is_moved_or_converted_only_is_read_where_it_lies(self, bench):
        graph = bench.graph
        factor = graph.cast(graph.permute(bench.normal(16, 24, dtype=np.float16), (1, 0)), dtypes.float32)
        assert len(bench.check(bench.matmul(factor, bench.normal(16, 20))).parts) == 1

    def test_two_in_a_row_are_two_kernels(self, bench):
        first = bench.matmul(bench.normal(24, 16), bench.normal(16, 20))
        assert len(bench.check(bench.matmul(first, bench.normal(20, 12))).parts) == 2

    def test_a_row_reduction_behind_one_is_apart(self, bench):
        product = bench.matmul(bench.normal(64, 16), bench.normal(16, 64))
        scheduled = bench.check(bench.softmax(product))
        assert [node.shape for node in scheduled.stored if node.ndim == 3] == [(64, 64, 1)]
        assert len(scheduled.parts) == 2

    def test_a_product_needed_twice_is_stored_on_the_way(self, bench):
        product = bench.matmul(bench.normal(24, 16), bench.normal(16, 20))
        scheduled = bench.check(bench.tanh(product), product)
        assert len(scheduled.parts) == 1
        assert len(scheduled.stored) == 2

    def test_what_a_product_is_rounded_to_is_stored_in_its_place(self, bench):
        graph = bench.graph
        product = bench.matmul(bench.normal(24, 16), bench.normal(16, 20))
        rounded = graph.cast(product, dtypes.float16)
        total = bench.sum(graph.cast(rounded, dtypes.float32), 0)
        centred = graph.binary(BinaryOp.SUB, graph.cast(rounded, dtypes.float32), bench.expand(total, 24, 20))
        scheduled = bench.check(bench.sum(bench.mul(centred, centred), 0))
        assert [node.dtype for node in scheduled.stored if node.shape == (24, 20)] == [dtypes.float16]

    def test_a_product_that_is_needed_in_full_is_stored_in_full(self, bench):
        product = bench.matmul(bench.normal(24, 16), bench.normal(16, 20))
        rounded = bench.graph.cast(product, dtypes.float16)
        scheduled = bench.check(bench.sum(product, 0), bench.sum(bench.graph.cast(rounded, dtypes.float32), 1))
        assert dtypes.float16 not in [node.dtype for node in scheduled.stored if node.ndim == 3]


class TestWhatIsKept:
    def test_contiguous_scan_and_scatter_are_kernels_of_their_own(self, bench):
        graph = bench.graph
        x = bench.normal(6, 8)
        index = bench.leaf(np.arange(8)[None].repeat(6, 0)[:, ::-1].copy())
        for node in (
            graph.contiguous(bench.tanh(x)),
            graph.scan(ReduceOp.SUM, bench.tanh(x), 1),
            graph.scatter(x, index, bench.tanh(x), 1, ReduceOp.SUM),
        ):
            output = bench.exp(bench.mul(node, bench.constant(0.1, (1, 1))))
            follows = isinstance(node, n.Scan) and bench.info.max_group_threads > 1  # see test_scans.py
            assert len(bench.check(output).parts) == (1 if follows else 2)

    def test_an_expensive_value_that_is_repeated_often_is_computed_once(self, bench):
        x = bench.normal(1, 64)
        y = bench.normal(300, 64)
        assert [node.shape for node in bench.check(bench.add(y, bench.tanh(x))).stored] == [(1, 64), (300, 64)]
        assert len(bench.check(bench.add(y, bench.add(x, x))).stored) == 1  # an addition is cheaper than a buffer

    def test_an_expensive_value_of_each_row_is_computed_outside_of_the_loop_over_it(self, bench):
        assert len(bench.check(bench.add(bench.normal(300, 64), bench.tanh(bench.normal(300, 1)))).stored) == 1
        image = bench.add(bench.normal(3, 128, 50), bench.tanh(bench.normal(1, 128, 1)))
        assert len(bench.check(image).stored) == 1

    def test_an_expensive_value_of_several_kernels_is_computed_once(self, bench):
        x = bench.normal(40, 64)
        costly, cheap = bench.tanh(bench.tanh(x)), bench.add(x, x)
        for shared, count in ((costly, 3), (cheap, 2)):
            outputs = [bench.sum(bench.mul(shared, bench.normal(40, 64)), 0), bench.sum(shared, 1)]
            assert len(bench.check(*outputs).stored) == count

    def test_what_is_asked_for_is_stored_by_the_kernel_that_needs_it(self, bench):
        x = bench.normal(64, 32)
        largest = bench.max(x, 1)
        e = bench.exp(bench.sub(x, largest))
        scheduled = bench.check(bench.sum(e, 1), e, largest)
        assert len(scheduled.parts) == 1
        assert len(scheduled.stored) == 3

    def test_a_gather_reads_its_index_and_data_where_they_are_needed(self, bench):
        index = bench.leaf(bench.random.integers(0, 30, (50, 8)))
        rows = bench.graph.gather(bench.tanh(bench.normal(30, 8)), bench.graph.binary(BinaryOp.MAX, index, index), 0)
        assert len(bench.check(bench.exp(rows)).parts) == 1


class TestSummariesOfRows:
    def losses(self, bench, rows, width):
        x = bench.normal(rows, width)
        return bench.sub(bench.graph.unary(UnaryOp.LOG2, bench.sum(bench.exp(x), 1)), bench.max(x, 1))

    def test_the_losses_of_rows_are_one_kernel_and_their_sum_another(self, bench):
        scheduled = bench.check(bench.sum(self.losses(bench, 256, 300), 0), tolerance=1e-4)
        assert [node.shape for node in scheduled.stored] == [(256, 1), (1, 1)]

    def test_small_ones_are_one_kernel_in_all(self, bench):
        assert len(bench.check(bench.sum(self.losses(bench, 8, 30), 0), tolerance=1e-4).stored) == 1

    def test_too_few_rows_are_left_to_kernels_of_their_own(self, bench):
        bench.check(bench.sum(self.losses(bench, 3, 9000), 0), tolerance=1e-4)

    def test_losses_in_other_shapes_and_orders_are_found(self, bench):
        losses = self.losses(bench, 256, 300)
        turned = bench.graph.flip(bench.graph.reshape(losses, (16, 16)), (1,))
        assert len(bench.check(bench.sum(turned, 0, 1), tolerance=1e-4).stored) == 2


def test_kernels_that_need_each_other_in_a_circle_are_kept_apart(bench):
    graph = bench.graph
    x = bench.normal(64, 64)
    total = bench.sum(bench.tanh(x), 1)
    turned = graph.permute(bench.matmul(graph.expand(total, (64, 64)), bench.normal(64, 64)), (1, 0))
    # The last kernel needs the product, which needs the total; taken in by the last one, it would be too late.
    scheduled = bench.check(bench.add(bench.mul(bench.tanh(x), total), bench.sum(turned, 1)), tolerance=1e-3)
    order = [part.root for part in scheduled.parts]
    for number, part in enumerate(scheduled.parts):
        stored_before = {node for earlier in scheduled.parts[:number] for node in earlier.stored}
        assert {node for node in part.reads if node.storage is None} <= stored_before | set(part.stored)
    assert len(order) == len(set(order))


def test_every_output_is_stored_once_whatever_fuses(bench):
    x = bench.normal(32, 16)
    y = bench.tanh(x)
    outputs = [y, bench.sum(y, 1), bench.exp(y), bench.sum(bench.exp(y), 0), bench.graph.permute(y, (1, 0)), y]
    scheduled = bench.check(*outputs)
    assert len(scheduled.stored) == len(set(scheduled.stored))
    assert all(isinstance(node, n.Node) and node in scheduled.values for node in scheduled.outputs)


@pytest.mark.parametrize("most", [3, 5, 8])
def test_no_kernel_binds_more_buffers_than_the_device_can(most, device_with):
    bench = device_with(max_params=most)
    leaves = [bench.normal(4, 3) for _ in range(23)]
    total = leaves[0]
    for leaf in leaves[1:]:
        total = bench.add(total, bench.mul(leaf, leaves[0]))
    outputs = [bench.add(leaf, bench.constant(1.0)) for leaf in leaves]
    scheduled = bench.check(bench.sum(bench.exp(total), 1), *outputs)
    assert all(len(part.stored) + len(part.reads) <= most for part in scheduled.parts)


def test_a_kernel_that_fits_is_not_divided(device_with):
    bench = device_with(max_params=9)
    leaves = [bench.normal(6) for _ in range(8)]
    total = leaves[0]
    for leaf in leaves[1:]:
        total = bench.add(total, leaf)
    assert bench.kernels(total) == 1


def test_a_kernel_of_many_nodes_takes_no_others_in(bench):
    x = bench.normal(6, 40)
    for _ in range(60):
        x = bench.softmax(x)
    parts = bench.check(x, tolerance=1e-4).parts
    assert 2 <= len(parts) <= 4
    assert max(len(part.region.order) for part in parts) < 300


def test_a_sum_of_many_inputs_and_a_long_chain_are_one_kernel(bench):
    total = chain = bench.normal(5)
    for _ in range(300):
        total = bench.add(total, bench.normal(5))
        chain = bench.add(bench.mul(chain, chain), chain)
    assert len(bench.schedule(total).parts) == 1
    assert len(bench.schedule(chain).parts) == 1


# ---- limits, each just within and just beyond


@pytest.fixture
def processor(device_with):
    """A bench for a processor of eight cores, which wants 32 rows."""
    return device_with(units=8, vector_bytes=32, cache_bytes=(1 << 15, 1 << 20))


@pytest.fixture
def threads_with(device_with):
    """A function that makes a bench for 64 units of many threads, with a cache of some bytes."""
    limits = {"units": 64, "max_group_threads": 256, "max_group_shape": (256, 256, 64), "warp_size": 32}
    return lambda cache=1 << 24: device_with(cache_bytes=(1 << 12, cache), local_bytes=1 << 12, **limits)


def parts(bench, *outputs):
    return len(bench.schedule(*outputs).parts)


def centred(bench, x, axis=1):
    return bench.sub(x, bench.max(x, axis))


@pytest.mark.parametrize(("width", "count"), [(4096, 1), (4097, 2)])
def test_few_rows_of_at_most_16384_elements_in_all_are_one_kernel(processor, width, count):
    assert parts(processor, centred(processor, processor.normal(2, width))) == count  # each is gone over twice


@pytest.mark.parametrize(("width", "count"), [(4096, 1), (4097, 2)])
def test_a_sum_counts_with_all_that_it_combines(processor, width, count):
    x = processor.normal(2, width)
    assert parts(processor, processor.sum(processor.exp(centred(processor, x)), 0, 1)) == count


def test_all_reductions_of_a_kernel_count(processor):
    x = processor.normal(2, 4000)
    assert parts(processor, processor.sub(centred(processor, x), processor.sum(x, 1))) == 2


@pytest.mark.parametrize(("rows", "width", "count"), [(20, 1024, 1), (20, 1025, 2), (64, 1025, 1), (63, 1025, 2)])
def test_a_group_runs_over_four_points_a_thread_where_rows_are_too_few(threads_with, rows, width, count):
    bench = threads_with()
    assert parts(bench, centred(bench, bench.normal(rows, width))) == count


@pytest.mark.parametrize(("columns", "count"), [(511, 2), (512, 1)])
def test_groups_have_eight_columns_each(threads_with, columns, count):
    bench = threads_with()
    assert parts(bench, centred(bench, bench.normal(1100, columns), 0)) == count


@pytest.mark.parametrize(("height", "count"), [(126, 1), (127, 2)])
def test_the_points_of_a_group_are_those_of_all_its_columns(threads_with, height, count):
    bench = threads_with()
    assert parts(bench, centred(bench, bench.normal(height, 511), 0)) == count


def test_rows_are_no_columns(threads_with):
    bench = threads_with()
    assert parts(bench, centred(bench, bench.normal(100, 2000))) == 1


@pytest.mark.parametrize(("cache", "count"), [(32000, 1), (31998, 2)])
def test_a_row_that_is_read_again_fills_half_of_the_cache(threads_with, cache, count):
    bench = threads_with(cache)
    assert parts(bench, centred(bench, bench.normal(100, 2000))) == count  # 2000 elements that are gone over twice


def test_reductions_to_one_element_are_one_kernel(processor):
    x = processor.normal(200, 200)
    assert parts(processor, processor.add(processor.sum(x, 0, 1), processor.max(x, 0, 1))) == 1


def test_the_rows_of_a_kernel_are_those_of_all_its_reductions(processor):
    x = processor.normal(2, 100, 100)
    assert parts(processor, processor.sub(processor.sub(x, processor.sum(x, 2)), processor.max(x, 1, 2))) > 1
    x = processor.normal(40, 40, 20)
    three = [processor.max(x, 1, 2), processor.max(x, 2), processor.max(x, 0, 2)]  # 40, 1600, and 40 others
    total = x
    for row in three:
        total = processor.sub(total, row)
    assert parts(processor, total) > 1


@pytest.mark.parametrize(("rows", "count"), [(255, 1), (256, 2)])
def test_little_is_computed_again_and_again_whatever_it_costs(processor, rows, count):
    result = processor.add(processor.normal(rows, 64), processor.tanh(processor.normal(1, 64)))
    assert parts(processor, result) == count  # 16384 elements, with those of the single row


@pytest.mark.parametrize(("rows", "steps", "count"), [(300, 8, 1), (8, 9, 1), (9, 9, 2), (300, 9, 2)])
def test_what_costs_less_than_storing_it_is_computed_again(processor, rows, steps, count):
    row = processor.normal(1, 2000)
    costly = processor.sqrt(processor.sqrt(row if steps == 8 else processor.add(row, row)))
    assert parts(processor, processor.add(processor.normal(rows, 2000), costly)) == count


@pytest.mark.parametrize(("width", "count"), [(85, 1), (86, 2)])
def test_summaries_of_little_are_one_kernel(cpu, width, count):
    x = cpu.normal(64, width)
    losses = cpu.sub(cpu.sub(cpu.sum(cpu.exp(x), 1), cpu.max(x, 1)), cpu.sum(cpu.mul(x, x), 1))
    assert parts(cpu, cpu.sum(losses, 0)) == count  # 64 elements, and three times those of x


@pytest.mark.parametrize("is_wanted", [True, False])
def test_what_others_need_too_is_not_computed_in_part(bench, is_wanted):
    total = bench.sum(bench.normal(64, 30), 1)
    part = bench.tanh(bench.graph.shrink(total, [(0, 10), (0, 1)]))
    other = bench.graph.contiguous(bench.graph.flip(total, (0,)))
    bench.check(part, total if is_wanted else other)
    assert parts(bench, part) == 1


def test_a_kernel_runs_behind_one_with_a_later_root_that_stores_what_it_reads(bench):
    x = bench.normal(64, 64)
    e = bench.exp(bench.sub(x, bench.max(x, 1)))
    columns, rows = bench.sum(e, 0), bench.mul(e, bench.sum(e, 1))
    scheduled = bench.check(columns, rows, e, tolerance=1e-4)
    order = [part.root for part in scheduled.parts]
    assert [part.root for part in scheduled.parts if e in part.taken] == order[:1]
    assert all(part.root not in part.taken for part in scheduled.parts)


def test_kernels_are_in_an_order_in_which_they_can_run_before_they_are_arranged(bench):
    x = bench.normal(64, 64)
    outputs = []
    for _ in range(3):  # the sum of columns reads what the kernel with the later root stores
        e = bench.exp(bench.sub(x, bench.max(x, 1)))
        outputs += [bench.sum(e, 0), bench.mul(e, bench.sum(e, 1)), e]
        x = bench.mul(e, outputs[-3])
    outputs = bench.prepare(*outputs)
    stored: set[n.Node] = set()
    for part in partition(topological(outputs), outputs, bench.info):
        assert {node for node in part.reads if node.storage is None} <= stored
        stored.update(part.stored)
    assert stored >= set(outputs)


def test_products_share_no_kernel_with_other_loops(bench):
    first, second = (bench.matmul(bench.normal(24, 16), bench.normal(16, 20)) for _ in range(2))
    assert parts(bench, bench.add(first, second)) == 2
    assert parts(bench, bench.add(first, bench.sum(bench.normal(24, 300), 1))) == 2
    total = bench.graph.reshape(bench.sum(bench.normal(24, 20, 30), 2), (24, 20))  # of each element of the product
    assert parts(bench, bench.add(first, total)) == parts(bench, bench.add(total, first)) == 2


def test_a_product_takes_along_what_is_asked_for_of_each_of_its_elements(bench):
    product, other = bench.matmul(bench.normal(24, 16), bench.normal(16, 20)), bench.tanh(bench.normal(24, 20))
    assert parts(bench, bench.add(product, other), other) == parts(bench, bench.add(other, product), other) == 1


@pytest.mark.parametrize(("rows", "count"), [(128, 1), (512, 2)])
def test_what_is_large_is_stored_in_the_order_of_its_own_kernel(bench, rows, count):
    turned = bench.tanh(bench.normal(128, rows))
    other = bench.graph.contiguous(bench.graph.permute(turned, (1, 0)))
    assert parts(bench, turned, other) == count
    assert parts(bench, other) == 1


def test_a_product_of_one_element_takes_what_follows_it_along(bench):
    a, b = (bench.expand(bench.normal(1, 1), 1, 2) for _ in range(2))
    assert parts(bench, bench.tanh(bench.sum(bench.mul(a, b), 1))) == 1


# ---- the ranges of a point


@pytest.mark.parametrize(
    ("sizes", "factors", "is_one_to_one"),
    [
        ((4, 3), (1, 4), True),
        ((3, 4), (4, 1), True),  # in any order
        ((4, 3), (1, 5), True),  # with gaps
        ((4, 3), (1, 3), False),
        ((4, 3), (-1, 4), True),
        ((2, 4, 3), (1, 2, 8), True),
        ((2, 4, 3), (1, 2, 7), False),
        ((3, 4, 2), (7, 2, 1), False),
    ],
)
def test_a_point_of_sums_is_one_to_one_if_each_range_reaches_over_those_below_it(sizes, factors, is_one_to_one):
    pool = Pool()
    ranges = [pool.range(size) for size in sizes]
    index = pool.affine([(pool.ref(range_), factor) for range_, factor in zip(ranges, factors, strict=True)])
    assert _ranges_of((index,)) == (sum(range_.bit for range_ in ranges) if is_one_to_one else None)


def test_a_point_with_a_range_twice_or_a_part_of_one_is_not_one_to_one():
    pool = Pool()
    first, second = (pool.range(6) for _ in range(2))
    one, other = pool.ref(first), pool.ref(second)
    assert _ranges_of((one, pool.index(3), other)) == first.bit | second.bit
    assert _ranges_of((one, one)) is None
    assert _ranges_of((pool.divide(one, 2),)) is None
    assert _ranges_of((other, pool.affine([(one, 6), (pool.modulo(other, 2), 1)]))) is None


def test_a_scan_shares_no_kernel_with_products_and_other_scans(gpu):
    graph, x = gpu.graph, gpu.normal(40, 40)
    running = graph.scan(ReduceOp.SUM, x, 1)
    assert parts(gpu, gpu.exp(running)) == 1
    assert parts(gpu, gpu.add(running, graph.scan(ReduceOp.MAX, x, 1))) == 2
    assert parts(gpu, gpu.add(running, gpu.matmul(x, gpu.normal(40, 40)))) == 2
    assert parts(gpu, gpu.add(gpu.matmul(x, gpu.normal(40, 40)), running)) == 2
    assert parts(gpu, gpu.add(running, gpu.sum(x, 1))) == 2


def test_a_scan_is_computed_where_each_element_is_needed_as_it_comes_only(gpu):
    graph, x = gpu.graph, gpu.normal(40, 40)
    running = graph.scan(ReduceOp.SUM, x, 1)
    turned, summed = graph.permute(running, (1, 0)), gpu.sum(running, 1)
    padded = graph.pad(running, [(1, 0), (0, 0)])
    for result in (gpu.add(running, graph.flip(running, (1,))), gpu.add(running, turned), summed, gpu.exp(padded)):
        assert len(gpu.check(result, tolerance=1e-3).parts) == 2


@pytest.mark.parametrize("shape", [(300_000,), (300_000, 1)])
def test_blocks_of_a_long_scan_take_along_what_follows_whatever_its_axes(cpu, shape):
    running = cpu.graph.scan(ReduceOp.SUM, cpu.normal(*shape), 0)
    assert parts(cpu, cpu.exp(running)) == 3  # totals, offsets, and the rest
    short = cpu.graph.scan(ReduceOp.SUM, cpu.normal(40, 40), 1)
    assert parts(cpu, cpu.exp(short)) == 2  # along one, lanes would wait for each other


def test_a_scan_that_others_need_too_is_stored_whole(gpu):
    graph, x = gpu.graph, gpu.normal(40, 30)
    running = graph.scan(ReduceOp.SUM, x, 1)
    part = gpu.exp(graph.shrink(running, [(0, 10), (0, 30)]))
    gpu.check(part, running, tolerance=1e-3)
    gpu.check(gpu.exp(running), running, tolerance=1e-3)
    assert parts(gpu, gpu.exp(running), running) == 1


@pytest.mark.parametrize(
    ("groups", "outputs", "dtype"), [(2, 6, np.float32), (4, 8, np.float32), (2, 6, np.float16), (3, 3, np.float32)]
)
def test_what_follows_convolutions_of_groups_is_part_of_their_kernel(cpu, groups, outputs, dtype):
    graph = cpu.graph
    x, w, bias = (
        cpu.normal(2, groups, 1, 5, 9, dtype=dtype),
        cpu.normal(1, groups, outputs, 5, 1, dtype=dtype),
        cpu.normal(groups * outputs, 1, dtype=dtype),
    )
    shape = (2, groups, outputs, 5, 9)
    product = graph.binary(BinaryOp.MUL, graph.expand(x, shape), graph.expand(w, shape))
    total = graph.reshape(cpu.sum(product, 3), (2, groups * outputs, 9))
    output = cpu.tanh(
        graph.binary(BinaryOp.ADD, total, graph.expand(graph.reshape(bias, (1, groups * outputs, 1)), total.shape))
    )
    assert len(cpu.check(output, tolerance=2e-2 if dtype is np.float16 else 1e-4).parts) == 1


def test_rows_of_a_batch_of_products_are_part_of_their_kernel_as_one_matrix(cpu):
    graph = cpu.graph
    shape = (6, 5, 7, 4)
    a, b = cpu.normal(6, 5, 1, 4), cpu.normal(6, 1, 7, 4)
    total = cpu.sum(graph.binary(BinaryOp.MUL, graph.expand(a, shape), graph.expand(b, shape)), 3)
    output = cpu.tanh(graph.reshape(total, (30, 7)))
    assert len(cpu.check(output, tolerance=1e-4).parts) == 1
