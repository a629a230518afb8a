"""Scatters in parallel: in two launches, by indivisible combinations, by copies of places, by the winners of places."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import zyx
from zyx import dtype as dtypes
from zyx.backend.info import Capability
from zyx.fusion.build import build_nest
from zyx.fusion.partition import partition
from zyx.fusion.prepare import prepare
from zyx.fusion.split_scatters import split_scatter
from zyx.graph import Graph
from zyx.graph import node as n
from zyx.graph.walk import topological
from zyx.kernel import data as k
from zyx.kernel.verify import verify
from zyx.lowering.lower import lower, lower_together
from zyx.nest.data import Kind
from zyx.nest.digest import digest_of_nests
from zyx.ops import ReduceOp, reduce_ops
from zyx.runtime.runtime import use
from zyx.schedule.choose import choose_schedule
from zyx.testing.paper import open_paper
from zyx.testing.races import run_without_races

#: Those of an NVIDIA H200.
H200 = {
    "units": 132, "max_group_threads": 1024, "max_group_shape": (1024, 1024, 64), "warp_size": 32, "vector_bytes": 16,
    "registers": 255, "local_bytes": 49152, "subgroup_size": 32, "lanes": (2, 4),
    "swaps": frozenset(dtype for dtype in dtypes.ALL if dtype.bits in (32, 64)),
}  # fmt: skip


def updates_of(bench, rows, columns, places, op, *, dtype=np.float32, base=None):
    """Return a scatter of rows into places, of which some are from the end and some outside."""
    random = np.random.default_rng(rows)
    index = bench.leaf(random.integers(-places - 1, places + 2, (rows, 1)).astype(np.int32))
    values = random.integers(-9, 10, (rows, columns)).astype(dtype)
    if base is None:
        base = bench.leaf(random.integers(-9, 10, (places, columns)).astype(dtype))
    return bench.graph.scatter(base, bench.expand(index, rows, columns), bench.leaf(values), 0, op)


def scatters_in(nodes):
    return [node for node in topological(nodes) if isinstance(node, n.Scatter)]


def launches_of(bench, output, *, deterministic=False):
    """Return the launches that a scatter is split into."""
    (part,) = partition(topological([output]), [output], bench.info)
    return split_scatter(build_nest(part, {}), bench.info, deterministic=deterministic)


def run_watched(bench):
    """Return what runs nests as chosen for the device, and sees races."""

    def run(nests, arrays):
        kernel = lower_together([choose_schedule(nest, bench.info)[0] for nest in nests], "test")
        verify(kernel)
        params = dict.fromkeys(param for nest in nests for param in nest.params)
        run_without_races(kernel, [arrays[param] for param in params])

    return run


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=lambda dtype: dtype.short)
@pytest.mark.parametrize("shape", [(90, 1, 4), (60, 3, 7)], ids=str)
def test_every_combination_of_every_dtype_is_right_and_free_of_races(bench, dtype, shape):
    for op in (None, *sorted(reduce_ops(dtype), key=lambda op: op.value)):
        if op is ReduceOp.PROD and dtype.is_float:
            continue  # overflows
        output = updates_of(bench, *shape, op, dtype=dtype.numpy)
        bench.check(output, tolerance=0.5 if dtype.is_float and dtype.bits == 16 else 1e-5, run=run_watched(bench))


@pytest.mark.parametrize("op", [ReduceOp.SUM, ReduceOp.MAX, ReduceOp.XOR], ids=lambda op: op.value)
def test_many_updates_of_few_places_are_right_and_free_of_races(gpu, op):
    dtype = np.int32 if op is ReduceOp.XOR else np.float32
    gpu.check(updates_of(gpu, 1 << 14, 1, 5, op, dtype=dtype), run=run_watched(gpu))


class TestPhases:
    def test_a_base_is_stored_in_front_of_its_updates(self, bench):
        small = 32 if bench.info.max_group_threads > 1 else 1 << 13
        base, updates = launches_of(bench, updates_of(bench, small, 1, 3, ReduceOp.SUM))
        assert [len(base.statements), len(updates.statements)] == [1, 1]
        assert base.params[0] is updates.params[0]
        assert len(base.params) == 2
        assert updates.statements[0].combine is ReduceOp.SUM

    def test_little_stays_in_one(self, bench):
        assert len(launches_of(bench, updates_of(bench, 5, 1, 3, ReduceOp.SUM))) == 1

    def test_threads_combine_indivisibly_in_the_order_of_memory(self, gpu):
        _, updates = launches_of(gpu, updates_of(gpu, 40, 3, 7, ReduceOp.SUM))
        (store,) = updates.statements
        assert store.atomic
        assert not store.serial
        assert [range_.size for range_ in store.order] == [40, 3]
        assert "atomic sum=" in str(updates)

    def test_floats_are_combined_in_order_where_the_same_bits_are_wanted(self, gpu):
        _, updates = launches_of(gpu, updates_of(gpu, 40, 3, 7, ReduceOp.SUM), deterministic=True)
        assert [range_.size for range_ in updates.statements[0].serial] == [40]
        output = updates_of(gpu, 40, 3, 7, ReduceOp.SUM, dtype=np.int32)
        assert launches_of(gpu, output, deterministic=True)[1].statements[0].atomic

    def test_what_the_device_has_no_indivisible_form_of_is_combined_in_order(self, gpu):
        capabilities = {dtype: replace(had, atomic=frozenset()) for dtype, had in gpu.info.capabilities.items()}
        gpu.info = replace(gpu.info, capabilities=capabilities)
        output = updates_of(gpu, 40, 3, 7, ReduceOp.SUM)
        assert launches_of(gpu, output)[1].statements[0].serial
        gpu.check(output, run=run_watched(gpu))

    def test_a_store_that_is_atomic_has_another_digest(self, gpu):
        _, updates = launches_of(gpu, updates_of(gpu, 40, 3, 7, ReduceOp.SUM))
        plain = replace(updates, statements=(replace(updates.statements[0], atomic=False),))
        assert digest_of_nests([updates]) != digest_of_nests([plain])


class TestSchedules:
    @pytest.mark.parametrize("columns", [1, 2, 3, 191])
    def test_each_update_has_a_thread_and_groups_are_full(self, device_with, columns):
        bench = device_with(**H200)
        places = 30_000
        _, updates = launches_of(bench, updates_of(bench, 40_001, columns, places, ReduceOp.SUM))
        nest, _ = choose_schedule(updates, bench.info)
        groups, (threads,) = lower(nest, "scatter").grid
        assert threads % 32 == 0
        assert math.prod(groups) * threads < 40_001 * columns + max(threads, 40_001)
        assert {op.op for op in lower(nest, "scatter").ops if isinstance(op, k.Atomic)} == {ReduceOp.SUM}

    def test_processors_share_wide_rows_out(self, cpu):
        _, updates = launches_of(cpu, updates_of(cpu, 500, 191, 400, ReduceOp.SUM))
        nest, _ = choose_schedule(updates, cpu.info)
        (store,) = nest.statements
        assert nest.kind(store.order[0]) is Kind.GROUP
        assert nest.kind(store.order[-1]) is Kind.VECTOR
        assert lower(nest, "scatter").grid == ((2,), ())


class TestCopies:
    def test_few_places_get_copies_that_neighbouring_threads_have_side_by_side(self, gpu):
        (prepared,) = gpu.prepare(updates_of(gpu, 1 << 15, 1, 6, ReduceOp.SUM))
        (scatter,) = scatters_in([prepared])
        places, copies, _ = scatter.shape
        assert places == 6
        assert copies >= 256
        assert places * copies * 8 <= 1 << 15

    def test_groups_of_processors_have_a_copy_each(self, cpu):
        (prepared,) = cpu.prepare(updates_of(cpu, 1 << 15, 3, 30, ReduceOp.MAX))
        (scatter,) = scatters_in([prepared])
        assert scatter.shape == (cpu.info.units, 30, 3)
        assert scatter.sources[1].shape == (cpu.info.units, 1 << 14, 3)

    @pytest.mark.parametrize(("rows", "columns", "places"), [(20_000, 1, 15_000), (20, 900, 3), (1000, 1, 2)])
    def test_many_places_wide_rows_and_little_work_get_none(self, bench, rows, columns, places):
        (prepared,) = bench.prepare(updates_of(bench, rows, columns, places, ReduceOp.SUM))
        (scatter,) = scatters_in([prepared])
        assert scatter.shape == (places, columns)

    def test_a_base_that_changes_nothing_is_not_combined(self, bench):
        base = bench.constant(0.0, (5, 1))
        bench.check(updates_of(bench, 20_000, 1, 5, ReduceOp.SUM, base=base))
        (prepared,) = bench.prepare(updates_of(bench, 20_000, 1, 5, ReduceOp.SUM, base=base))
        assert isinstance(prepared, n.Reshape | n.Contiguous)


class TestComparisons:
    @pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64])
    def test_updates_of_a_few_places_are_compared_with_each(self, cpu, dtype):
        random = np.random.default_rng(0)
        index = cpu.leaf(random.integers(0 if dtype in (np.uint8, np.uint64) else -6, 7, (2, 10_000)).astype(dtype))
        updates = cpu.leaf(random.integers(-9, 10, (2, 10_000)).astype(np.int32))
        for op in (ReduceOp.SUM, ReduceOp.MIN, ReduceOp.AND):
            output = cpu.graph.scatter(cpu.leaf(np.arange(10, dtype=np.int32).reshape(2, 5)), index, updates, 1, op)
            assert not scatters_in(cpu.prepare(output))
            cpu.check(output)

    def test_so_are_floats_on_threads_that_keep_to_one_order(self, gpu):
        output = updates_of(gpu, 1 << 14, 1, 5, ReduceOp.SUM)
        prepared = prepare(Graph(), topological([output]), [output], gpu.info, deterministic=True)
        assert not scatters_in(prepared)


class TestSegments:
    """Many floats into many places in one order, on threads: run whole, as sorting takes hand-written kernels."""

    @pytest.mark.one_in(3)
    @pytest.mark.parametrize("name", ["card", "card with one axis", "card without local memory"])
    @pytest.mark.parametrize(("rows", "columns", "places"), [(1100, 1, 300), (700, 3, 4), (2100, 2, 5000)])
    def test_sums_are_right_and_have_the_same_bits_each_time(self, name, rows, columns, places):
        random = np.random.default_rng(rows)
        index = random.integers(-places - 2, places + 2, (rows, 1)).astype(np.int32)
        updates = random.standard_normal((rows, columns)).astype(np.float32)
        base = random.standard_normal((places, columns)).astype(np.float32)
        wanted = base.astype(np.float64)
        at = np.where(index < 0, index + places, index)[:, 0]
        np.add.at(wanted, at[(at >= 0) & (at < places)], updates[(at >= 0) & (at < places)])
        with open_paper(name) as runtime, use(runtime), zyx.settings(deterministic=True):
            x, i, u = (zyx.Tensor(array) for array in (base, index, updates))
            found = [x.scatter_add(0, i.expand(updates.shape), u).numpy() for _ in range(2)]
            plan = zyx.explain_plan(x.scatter_add(0, i.expand(updates.shape), u))
        np.testing.assert_allclose(found[0], wanted, 1e-4, 1e-4)
        assert found[0].tobytes() == found[1].tobytes()
        assert len(plan["steps"]) > 5

    @pytest.mark.parametrize("dtype", [np.uint8, np.int64])
    def test_every_element_may_have_an_index_of_its_own(self, dtype):
        random = np.random.default_rng(0)
        index = random.integers(0, 60, (2, 600, 3)).astype(dtype)
        updates = random.integers(-8, 9, index.shape).astype(np.float32)
        wanted = np.zeros((2, 50, 3), np.float32)
        for i, j, c in np.ndindex(index.shape):
            if index[i, j, c] < 50:
                wanted[i, index[i, j, c], c] = max(wanted[i, index[i, j, c], c], updates[i, j, c])
        with open_paper("card") as runtime, use(runtime), zyx.settings(deterministic=True):
            found = zyx.zeros((2, 50, 3)).scatter(1, zyx.Tensor(index), zyx.Tensor(updates), "amax").numpy()
        np.testing.assert_array_equal(found, wanted)

    def test_few_updates_of_a_place_are_made_in_order(self, gpu):
        output = updates_of(gpu, 500, 2, 5000, ReduceOp.SUM)
        prepared = prepare(Graph(), topological([output]), [output], gpu.info, deterministic=True)
        (scatter,) = scatters_in(prepared)
        assert scatter.op is ReduceOp.SUM


class TestWinners:
    def test_of_updates_that_replace_the_greatest_number_is_found_first(self, gpu):
        output = updates_of(gpu, 3000, 2, 40, None)
        (prepared,) = gpu.prepare(output)
        (scatter,) = scatters_in([prepared])
        assert scatter.op is ReduceOp.MAX
        assert scatter.dtype is dtypes.int32
        gpu.check(output, run=run_watched(gpu))

    def test_processors_and_devices_without_a_form_replace_in_order(self, cpu, gpu):
        capabilities = {**gpu.info.capabilities, dtypes.int32: Capability()}
        gpu.info = replace(gpu.info, capabilities=capabilities)
        for bench in (cpu, gpu):
            (prepared,) = bench.prepare(updates_of(bench, 3000, 2, 40, None))
            (scatter,) = scatters_in([prepared])
            assert scatter.op is None


class TestOneUpdate:
    @pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.uint32])
    @pytest.mark.parametrize("op", [None, ReduceOp.SUM, ReduceOp.MAX])
    def test_in_a_constant_it_is_compared_with_all_places(self, bench, op, dtype):
        low = 0 if dtype in (np.uint8, np.uint32) else -128
        index = bench.leaf(np.array([[0], [5], [127], [low], [-1 if low else 3], [-7 if low else 9]], dtype))
        graph = bench.graph
        for base in (bench.constant(2.5, (6, 300)), bench.constant(-1.0, (6, 9))):
            output = bench.exp(graph.scatter(base, index, bench.normal(6, 1), 1, op))
            scheduled = bench.check(output)
            assert not scatters_in(scheduled.outputs)
            assert len(scheduled.nests) == 1

    @pytest.mark.parametrize("op", [None, ReduceOp.SUM])
    def test_in_values_it_is_stored_over_them_by_as_many_threads_as_there_are_others(self, bench, op):
        index = bench.expand(bench.leaf(np.array([[-2]], np.int32)), 1, 500)
        output = bench.graph.scatter(bench.normal(90, 500), index, bench.normal(1, 500), 0, op)
        bench.check(output, run=run_watched(bench))
        _, updates = launches_of(bench, output)
        assert not updates.statements[0].serial
        assert not updates.statements[0].atomic
        nest, _ = choose_schedule(updates, bench.info)
        if bench.info.max_group_threads > 1:
            assert math.prod(lower(nest, "row").grid[1]) > 1


def test_small_integers_are_combined_in_wider_ones(gpu):
    capabilities = {
        dtype: replace(had, atomic=had.atomic if dtype.bits >= 32 else frozenset())
        for dtype, had in gpu.info.capabilities.items()
    }
    gpu.info = replace(gpu.info, capabilities=capabilities)
    for dtype in (np.int8, np.uint8, np.int16, np.uint16, np.bool_, np.float16):
        for op in reduce_ops(dtypes.as_dtype(dtype)):
            if op is ReduceOp.PROD and dtype is np.float16:
                continue
            output = updates_of(gpu, 300, 1, 5, op, dtype=dtype)
            (scatter,) = scatters_in(gpu.prepare(output))
            assert scatter.dtype.bits == 32
            gpu.check(output, tolerance=0.1 if dtype is np.float16 else 0)
