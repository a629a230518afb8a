"""The order of launches, which kernels share one, and which results take the place of a buffer."""

from __future__ import annotations

import numpy as np
import pytest

from zyx.fusion.arrange import arrange, donate
from zyx.fusion.build import build_nest
from zyx.fusion.partition import partition
from zyx.graph.evaluate import evaluate
from zyx.graph.walk import topological
from zyx.nest.run import run_nest
from zyx.ops import ReduceOp


def run_nests(nests, arrays):
    for nest in nests:
        run_nest(nest, [arrays[param] for param in nest.params])


def launches_of(bench, *outputs):
    return arrange(partition(topological(outputs), outputs, bench.info), bench.info)


class TestSharing:
    def test_independent_kernels_share_a_launch(self, bench):
        outputs = [bench.tanh(bench.normal(size, 3)) for size in (2, 3, 5, 8)]
        scheduled = bench.check(*outputs)
        assert [len(launch) for launch in scheduled.launches] == [4]
        bench.check(*outputs, run=bench.run_kernels)

    def test_what_waits_for_another_is_launched_after_it(self, bench):
        x = bench.normal(20, 30)
        first = bench.graph.contiguous(bench.tanh(x))
        scheduled = bench.check(bench.sum(first, 0), bench.exp(first), bench.tanh(bench.normal(7)))
        done = set()
        for launch in scheduled.launches:
            for part in launch:
                assert {node for node in part.reads if node.storage is None} <= done
            done |= {node for part in launch for node in part.stored}

    def test_no_more_than_sixteen_share_one(self, bench):
        scheduled = bench.check(*[bench.tanh(bench.normal(size)) for size in range(1, 41)])
        assert [len(launch) for launch in scheduled.launches] == [16, 16, 8]

    def test_no_more_params_than_the_device_binds(self, device_with):
        bench = device_with(units=2, max_params=6)
        scheduled = bench.check(*[bench.tanh(bench.normal(size)) for size in range(1, 8)])
        assert [len(launch) for launch in scheduled.launches] == [3, 3, 1]

    @pytest.mark.parametrize(("cache", "most"), [(1 << 20, 4), (1 << 10, 1), (0, 4)])
    def test_no_more_is_computed_early_than_caches_hold(self, device_with, cache, most):
        bench = device_with(cache_bytes=(cache,) if cache else ())
        x = bench.normal(8, 32)
        for _ in range(4):
            made = bench.graph.contiguous(bench.tanh(bench.normal(32, 32)))  # 4096 bytes
            x = bench.matmul(x, made)
        made = [launch for launch in launches_of(bench, x) if launch[0].root.shape == (32, 32)]
        assert max(map(len, made)) == most

    @pytest.mark.parametrize(("rows", "count"), [(100, 1), (700, 2)])
    def test_what_turns_much_over_has_a_launch_of_its_own_where_threads_share_memory(self, gpu, cpu, rows, count):
        for bench, launches in (gpu, count), (cpu, 1):
            turned = bench.graph.contiguous(bench.graph.permute(bench.normal(100, rows), (1, 0)))
            scheduled = bench.check(turned, bench.tanh(bench.normal(7)))
            assert len(scheduled.launches) == launches

    def test_products_of_matrices_scans_and_scatters_have_launches_of_their_own(self, bench):
        index = bench.leaf(np.zeros((2, 3), np.int64))
        outputs = [
            bench.matmul(bench.normal(8, 6), bench.normal(6, 8)),
            bench.graph.scan(ReduceOp.SUM, bench.normal(4, 3), 0),
            bench.graph.scatter(bench.normal(4, 3), index, bench.normal(2, 3), 0, None),
            bench.tanh(bench.normal(5)),
            bench.exp(bench.normal(6)),
        ]
        assert sorted(len(launch) for launch in bench.check(*outputs).launches) == [1, 1, 1, 2]

    def test_products_of_small_parts_of_large_buffers_are_products_of_matrices(self, bench):
        x, w = bench.normal(8, 90, 6), bench.normal(6, 8)
        rows = [bench.graph.reshape(bench.graph.shrink(x, [(0, 8), (t, t + 1), (0, 6)]), (8, 6)) for t in range(5)]
        outputs = [bench.matmul(part, w) for part in rows]
        assert [len(launch) for launch in bench.check(*outputs).launches] == [1] * 5

    def test_what_nothing_waits_for_is_put_off_to_share_one_launch(self, bench):
        outputs = []
        for size in (8, 12, 16):
            product = bench.graph.contiguous(bench.matmul(bench.normal(size, 6), bench.normal(6, size)))
            outputs.append(bench.exp(product))
        scheduled = bench.check(*outputs)
        assert len(scheduled.launches[-1]) == 3

    def test_long_reductions_have_launches_of_their_own_where_threads_meet(self, device_with):
        bench = device_with(units=2, max_group_threads=64, max_group_shape=(64, 64, 64), warp_size=32)
        long, short, tiny = (
            bench.sum(bench.leaf(np.zeros(shape, np.float32)), 1) for shape in ((1 << 15, 33), (1 << 14, 33), (17, 7))
        )
        launches = launches_of(bench, long, bench.exp(bench.normal(9)), short, tiny)
        assert sorted(len(launch) for launch in launches) == [1, 3]


class TestDonation:
    def given(self, bench, output, old, *others):
        outputs = [output, *others]
        return donate(launches_of(bench, *outputs), {output: old}, set(outputs))

    def test_an_update_in_place_of_what_it_reads(self, cpu):
        weight = cpu.normal(6, 4)
        step = cpu.sub(weight, cpu.mul(cpu.normal(6, 4), cpu.constant(0.1, (1, 1))))
        assert self.given(cpu, step, weight) == {step: weight}

    def test_what_is_not_read_at_all_may_be_stored_over(self, cpu):
        old = cpu.normal(6, 4)
        new = cpu.tanh(cpu.normal(6, 4))
        assert self.given(cpu, new, old) == {new: old}

    def test_what_is_read_at_another_element_must_stay(self, cpu):
        old = cpu.normal(6, 6)
        for output in (
            cpu.add(old, cpu.graph.permute(old, (1, 0))),
            cpu.graph.contiguous(cpu.graph.flip(old, (0,))),
            cpu.add(old, cpu.graph.expand(cpu.graph.shrink(old, [(0, 1), (0, 6)]), (6, 6))),
            cpu.matmul(old, old),
        ):
            assert self.given(cpu, output, old) == {}

    def test_rows_and_columns_that_are_read_whole_before_they_are_stored_may_be_taken(self, bench):
        makers = (bench.softmax, lambda x: bench.add(x, bench.sum(x, 1)), lambda x: bench.add(x, bench.sum(x, 0)))
        for make in makers:
            old = bench.normal(20, 12)
            output = make(old)
            (expected,) = evaluate([output])
            launches = launches_of(bench, output)
            assert donate(launches, {output: old}, {output}) == {output: old}
            ((part,),) = launches
            params: dict = {}
            nest = build_nest(part, params)
            assert params[output] is params[old]
            for run in (run_nests, bench.run_kernels):
                array = old.storage.reshape(-1).copy()
                run([nest], {params[old]: array})
                np.testing.assert_allclose(array.reshape(old.shape), expected, 1e-4, 1e-5)

    def test_what_is_read_later_or_beside_must_stay(self, cpu):
        old = cpu.normal(6, 6)
        step = cpu.matmul(old, cpu.normal(6, 6))
        assert self.given(cpu, step, old) == {}
        first = cpu.graph.contiguous(cpu.tanh(old))
        last = cpu.matmul(first, old)  # reads both, after the first is stored
        assert donate(launches_of(cpu, last), {first: old}, {last}) == {}
        beside = cpu.exp(cpu.graph.permute(old, (1, 0)))
        launches = launches_of(cpu, cpu.tanh(old), beside)
        assert [len(launch) for launch in launches] == [2]
        assert donate(launches, {launches[0][0].root: old}, set()) == {}

    def test_one_buffer_takes_one_result(self, cpu):
        old = cpu.normal(6)
        first, second = cpu.tanh(cpu.normal(6)), cpu.exp(cpu.normal(6))
        outputs = [first, second]
        accepted = donate(launches_of(cpu, *outputs), {first: old, second: old}, set(outputs))
        assert len(accepted) == 1

    def test_a_buffer_that_is_asked_for_as_it_is_stays(self, cpu):
        old = cpu.normal(6)
        new = cpu.tanh(old)
        assert donate(launches_of(cpu, new), {new: old}, {new, old}) == {}

    def test_a_second_result_that_needs_the_old_value_keeps_it(self, cpu):
        old = cpu.normal(6, 4)
        new = cpu.add(old, cpu.constant(1.0, (1, 1)))
        through = cpu.exp(new)  # needs the old value through the new one only
        beside = cpu.exp(old)
        assert self.given(cpu, new, old, beside) == {}
        assert self.given(cpu, new, old, through) == {new: old}


@pytest.mark.parametrize("count", [3, 40])
def test_arranging_loses_and_doubles_nothing(bench, count):
    nodes = [bench.normal(6, 6)]
    for number in range(count):
        x, y = nodes[number // 2], nodes[-1]
        kinds = [bench.tanh(x), bench.add(x, y), bench.add(x, bench.sum(y, 1)), bench.matmul(x, y)]
        nodes.append(bench.graph.contiguous(bench.mul(kinds[number % 4], bench.constant(0.1, (1, 1)))))
    parts = partition(topological([nodes[-1], nodes[1]]), [nodes[-1], nodes[1]], bench.info)
    launches = arrange(parts, bench.info)
    arranged = [part for launch in launches for part in launch]
    assert len(arranged) == len(parts)
    assert set(arranged) == set(parts)
    bench.check(nodes[-1], nodes[1], tolerance=1e-4)
