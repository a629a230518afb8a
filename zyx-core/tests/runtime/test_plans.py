"""Plans: made once for a structure, compared as a whole, with memory shared by lifetime; deep graphs in pieces."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import zyx
from zyx.errors import AllocationError, DTypeError, ZyxError
from zyx.graph import Graph
from zyx.graph.signature import signature
from zyx.graph.walk import topological
from zyx.runtime import handle as handles
from zyx.runtime import planner as planners
from zyx.runtime import plans
from zyx.runtime.memory_planning import find_place
from zyx.runtime.plan import Slice


def tensor(*shape, value=1.0):
    return zyx.Tensor(np.full(shape, value, np.float32))


class TestCache:
    def test_the_second_graph_of_a_structure_compiles_and_plans_nothing(self, lab, device):
        def value(x):
            return ((x + 1.0).exp().sum(axis=1) * 2.0).softmax().realize()

        value(tensor(8, 6))
        compiled, plans = len(device.compiled), len(lab._plans)
        for number in range(5):
            value(tensor(8, 6, value=float(number)))
        assert len(device.compiled) == compiled
        assert len(lab._plans) == plans

    @pytest.mark.parametrize(
        ("other", "is_new"),
        [
            (lambda x, y: (x + 1.0) * y, False),
            (lambda x, y: (y + 1.0) * x, False),  # the same structure, with its operands exchanged
            (lambda x, y: (x + 2.0) * y, True),
            (lambda x, y: (x + 1.0) * x, True),
            (lambda x, y: (x - 1.0) * y, True),
            (lambda x, y: ((x + 1.0) * y).reshape(6), True),
            (lambda x, y: (x + 1.0).astype("float16").astype("float32") * y, True),
            (lambda x, y: (x[:, 1:] + 1.0) * y[:, 1:], True),
            (lambda x, y: (x[:, :2] + 1.0) * y[:, :2], True),
        ],
    )
    def test_whatever_differs_has_a_plan_of_its_own(self, lab, other, is_new):
        arrays = np.float32([[3, 1, 4], [1, 5, 9]]), np.float32([[2, 6, 5], [3, 5, 8]])
        x, y = map(zyx.Tensor, arrays)
        ((x + 1.0) * y).realize()
        before = len(lab._plans)
        assert other(x, y).tolist() == other(*arrays).tolist()
        assert len(lab._plans) == before + is_new

    def test_keys_tell_apart_what_compares_or_hashes_alike(self, lab):
        graph = Graph()

        def key_of(value, dtype):
            return signature([graph.contiguous(graph.const(value, dtype, "lab:0", (2,)))])[0]

        keys = [key_of(0.0, zyx.float32), key_of(-0.0, zyx.float32), key_of(1.0, zyx.float32)]
        keys += [key_of(1, zyx.int32), key_of(1, zyx.int64), key_of(True, zyx.bool), key_of(math.nan, zyx.float32)]
        assert len(set(keys)) == len(keys)
        assert key_of(math.nan, zyx.float32) in keys
        # hash(-1) == hash(-2): only a comparison tells these axes or offsets apart.
        first, second = (
            signature([graph.shrink(graph.leaf((9,), zyx.float32, "lab:0", object()), [(low, 9)])])[0] for low in (1, 2)
        )
        assert first != second

    def test_a_key_does_not_depend_on_which_buffers_are_read(self, lab):
        first, _, _ = signature([(tensor(3) * 2.0).node])
        second, leaves, _ = signature([(tensor(3, value=4.0) * 2.0).node])
        assert first == second
        assert len(leaves) == 1

    def test_one_leaf_used_twice_is_not_two_leaves(self, lab):
        x, y = tensor(3), tensor(3)
        assert signature([(x * x).node])[0] != signature([(x * y).node])[0]
        assert (x * x).tolist() == [1, 1, 1]
        assert (tensor(3, value=2.0) * tensor(3, value=3.0)).tolist() == [6, 6, 6]

    def test_the_oldest_plans_go(self, lab, monkeypatch):
        monkeypatch.setattr(plans, "_MAX_PLANS", 4)
        for size in range(1, 9):
            (tensor(size) + 1.0).realize()
        assert len(lab._plans) == 4
        assert (tensor(1) + 1.0).tolist() == [2.0]


class TestMemory:
    def plan_of(self, lab, *outputs):
        nodes = [output.node for output in outputs]
        leaves = [node for node in topological(nodes) if node.storage is not None]
        return lab.plan(nodes, leaves)[0]

    def test_values_that_are_not_alive_together_share_a_place(self, lab):
        x = tensor(64, 64)
        for _ in range(10):
            x = (x @ x).contiguous()
        plan = self.plan_of(lab, x)
        assert plan.launches == 10
        assert [slice_.nbytes for slice_ in plan.temporaries] == [64 * 64 * 4] * 2

    def test_a_value_that_is_needed_until_the_end_keeps_its_place(self, lab):
        x = tensor(64, 64)
        first = (x @ x).contiguous()
        y = first
        for _ in range(4):
            y = (y @ x).contiguous()
        plan = self.plan_of(lab, y @ first)
        assert len(plan.temporaries) == 3
        np.testing.assert_allclose((y @ first)[0, 0].item(), 64.0**7, rtol=1e-5)

    def test_a_place_grows_for_what_comes_later(self, lab):
        x = tensor(8, 8)
        small = (x @ x).contiguous()
        large = (small @ tensor(8, 512)).contiguous()
        again = (large @ tensor(512, 8)).contiguous()
        plan = self.plan_of(lab, again @ x)
        assert sum(slice_.nbytes for slice_ in plan.temporaries) <= 8 * 512 * 4 + 2 * 8 * 8 * 4

    def test_the_peak_is_reported(self, lab):
        x = tensor(64, 64).realize()
        lab.memory.reclaim()
        lab.memory.reset_peak()
        before = lab.memory.live_bytes
        assert lab.memory.peak_bytes == before
        y = x
        for _ in range(6):
            y = (y @ x).contiguous()
        y.numpy()
        lab.memory.reclaim()
        assert lab.memory.peak_bytes == before + 3 * 64 * 64 * 4  # the result, and two places to get there
        assert lab.memory.live_bytes == before + 64 * 64 * 4

    def test_results_outlive_their_plan_and_each_other(self, lab):
        x = tensor(16)
        results = [(x * float(i)).realize() for i in range(4)]
        lab.drop_plans()
        del results[1]
        assert [result[0].item() for result in results] == [0.0, 2.0, 3.0]

    def test_a_loop_takes_no_more_memory_with_time(self, lab, pool):
        x = tensor(32, 32)
        used = []
        for _ in range(12):
            x = (x @ tensor(32, 32) * (1 / 32)).realize()
            lab.memory.reclaim()
            used.append(pool.used)
        assert used[2:] == [used[2]] * 10


class TestDonations:
    def test_a_result_takes_the_place_that_it_is_offered(self, lab):
        x = tensor(16)
        y = x * 2.0
        apart, over = (lab.plan([y.node], [x.node], donations)[0] for donations in ({}, {y.node: x.node}))
        assert (apart.inputs, apart.results, len(apart.outputs)) == (1, (1,), 1)
        assert (over.inputs, over.results, over.outputs) == (1, (0,), ())

    def test_what_is_offered_for_another_node_is_left_alone(self, lab):
        x, other = tensor(16), tensor(16)
        y, z = x * 2.0, other + 1.0
        plan, _ = lab.plan([y.node], [x.node], {z.node: x.node})
        assert plan.results == (1,)


def test_a_scatter_in_two_phases_is_two_launches_with_names_of_their_own(lab, device):
    x, at = tensor(64), zyx.Tensor(np.arange(64) % 5)
    before = len(device.compiled)
    assert zyx.scatter_add(zyx.zeros(8), 0, at, x).tolist() == [13.0, 13.0, 13.0, 13.0, 12.0, 0.0, 0.0, 0.0]
    assert device.compiled[before:] == ["scatter_8_base", "scatter_8"]


def test_what_is_there_under_another_name_is_not_computed(lab):
    x = (tensor(16) * 2.0).realize()
    again = x.flip(0).flip(0)
    plan, _ = lab.plan([again.node], [x.node])
    assert (plan.launches, plan.results) == (0, (0,))
    assert again.tolist() == [2.0] * 16


def test_nothing_is_compiled_for_what_no_buffer_can_hold(lab, device, monkeypatch):
    monkeypatch.setattr(type(device), "info", replace(device.info, max_buffer_bytes=256))
    x = tensor(64)
    (x * 2.0).realize()  # as much as one holds
    before = list(device.compiled)
    with pytest.raises(AllocationError, match="at most 256"):
        zyx.concat([x, x * 5.0]).realize()
    assert device.compiled == before


def test_what_was_computed_before_is_copied_to_another_device_as_it_is(lab, device):
    x = tensor(4, value=3.0)
    y = x * x
    z = y.to("lab:1") + 1.0
    y.realize()
    (product,) = z._node.sources[0].sources
    assert product.storage is not None
    assert product.sources
    assert z.tolist() == [10.0] * 4
    assert len(device.launched) == 1


def test_a_plan_asks_once_for_a_kernel_that_it_launches_many_times(lab, device, monkeypatch):
    asked, start = [], lab.compiler.start_kernel

    def noted(kernel, device):
        asked.append(kernel)
        return start(kernel, device)

    monkeypatch.setattr(lab.compiler, "start_kernel", noted)
    zyx.sort(zyx.Tensor(np.arange(5000, dtype=np.int32)))[0].realize()
    assert device.launched.count("merge_5000") > 1
    assert len(asked) == len({name for name in device.launched if name.startswith(("sort", "merge"))}) == 2


def test_a_launch_of_several_kernels_is_named_with_how_many(lab, device):
    for count in (1, 2, 3):
        zyx.realize([tensor(4 + number) * 2.0 for number in range(count)])
    assert device.launched == ["binary_4", "2_binary_4", "3_binary_4"]


def test_what_a_device_refuses_is_tried_once_unless_it_sorts(lab, device, monkeypatch, capsys):
    ways = []
    prepare = planners.prepare

    def noted(*arguments, variant, **others):
        ways.append(variant)
        return prepare(*arguments, variant=variant, **others)

    monkeypatch.setattr(planners, "prepare", noted)
    monkeypatch.setattr(device, "fails_in_compile", "")
    x = tensor(64)
    with zyx.debug("plan"), pytest.raises(ZyxError):
        (x * 3.0).realize()
    assert ways == [0]
    assert "next: a kernel for each place" not in capsys.readouterr().err
    with zyx.debug("plan"), pytest.raises(ZyxError):
        zyx.sort(x).realize()
    assert ways[1:] == [0, 1, 2]
    assert capsys.readouterr().err.count("next: with fewer hand-written kernels") == 2


class TestPlaces:
    """Places of temporaries are made once a plan, so that each must fit everything it ever holds."""

    @pytest.mark.parametrize("seed", range(40))
    def test_a_place_has_room_for_all_it_holds_and_no_more_for_what_is_copied_as_a_whole(self, lab, seed):
        rng = np.random.default_rng(seed)
        pools = [lab.device(f"lab:{number}").memory_pool for number in (0, 1)]
        slices, free, exact, held, taken = [], [], set(), {}, []
        for _ in range(60):
            if taken and rng.random() < 0.45:
                free.append(taken.pop(int(rng.integers(len(taken)))))
                continue
            wanted = Slice(pools[int(rng.random() < 0.3)], int(rng.choice([4, 8, 12, 16, 64])))
            is_copied = bool(rng.random() < 0.4)
            place = find_place(wanted, slices, free, exact, is_copied)
            assert place not in taken
            assert place not in free
            taken.append(place)
            held.setdefault(place, []).append((wanted, is_copied))
        assert len(slices) == len(held)
        assert len(slices) < sum(map(len, held.values()))  # some are used again
        for place, contents in held.items():
            for wanted, is_copied in contents:
                assert slices[place].pool is wanted.pool
                assert slices[place].nbytes == wanted.nbytes if is_copied else slices[place].nbytes >= wanted.nbytes

    @pytest.mark.parametrize(("sizes", "best"), [((128, 64), 1), ((64, 128), 0), ((32, 96, 256), 1), ((32, 16), 0)])
    def test_the_least_that_is_large_enough_is_taken_and_else_the_largest_is_grown(self, lab, sizes, best):
        pool = lab.device().memory_pool
        slices, free = [Slice(pool, size) for size in sizes], list(range(len(sizes)))
        assert find_place(Slice(pool, 64), slices, free, set(), is_copied=False) == best
        assert slices[best].nbytes == max(sizes[best], 64)
        assert free == [place for place in range(len(sizes)) if place != best]

    @pytest.mark.parametrize(("nbytes", "best"), [(32, 0), (64, 0), (96, 1)])
    def test_a_place_that_is_copied_as_a_whole_is_taken_again_as_long_as_it_need_not_grow(self, lab, nbytes, best):
        pool = lab.device().memory_pool
        assert find_place(Slice(pool, nbytes), [Slice(pool, 64)], [0], {0}, is_copied=False) == best

    @pytest.mark.parametrize("seed", range(12))
    def test_what_is_copied_to_another_device_is_copied_whole_and_is_no_more_than_it(self, lab, seed):
        rng = np.random.default_rng(seed)
        x, array, expected = zyx.Tensor(np.ones(4, np.float32)), np.ones(4, np.float32), []
        for _ in range(8):
            size = int(rng.choice([2, 3, 4, 8, 16, 64]))
            array = np.resize(array, size) * 2
            x = (x.tile((-(-size // x.size),))[:size] * 2.0).contiguous()
            target = f"lab:{rng.integers(2)}"
            if target != x.device:
                x = x.to(target)
                expected.append(("copy", size * 4))
        np.testing.assert_array_equal(x.numpy(), array)
        pools = [lab.device(f"lab:{number}").memory_pool for number in (0, 1)]
        copies = [copy for pool in pools for copy in pool.copies if copy[0] == "copy"]
        assert sorted(copies) == sorted(expected)


class TestDeepGraphs:
    def test_a_loop_that_never_reads_is_computed_in_pieces(self, lab, monkeypatch):
        monkeypatch.setattr(handles, "MAX_DEPTH", 100)
        x = tensor(4, value=0.0)
        depths = []
        for _ in range(950):
            x = x + 1.0
            depths.append(x.node.depth)
        assert max(depths) <= 100
        assert x.tolist() == [950.0] * 4

    def test_a_very_deep_graph_is_computed(self, lab):
        x = tensor(2, value=0.0)
        for _ in range(9000):
            x = x + 1.0
        assert x.tolist() == [9000.0, 9000.0]

    def test_a_tape_keeps_the_history_of_pieces(self, lab, monkeypatch):
        monkeypatch.setattr(handles, "MAX_DEPTH", 50)
        x = tensor(2, value=1.0)
        with zyx.Tape() as tape:
            y = x
            for _ in range(200):
                y = y * 1.001
            loss = y.sum()
        np.testing.assert_allclose(tape.gradient(loss, x).numpy(), [1.001**200] * 2, 1e-4)


def test_tensors_in_any_nesting_are_computed_by_one_plan(lab, device):
    x = zyx.Tensor(np.arange(4, dtype=np.float32))
    a, b, c, d = (x + number for number in range(1, 5))
    zyx.realize(a, [b, (c, None)], {"d": d, "again": iter([a])})
    assert len(device.launched) == 1
    assert all(each.node.storage is not None for each in (a, b, c, d))
    zyx.realize()
    with pytest.raises(DTypeError, match="not str"):
        zyx.realize([x + 9, "text"])
