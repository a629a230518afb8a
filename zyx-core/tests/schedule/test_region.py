"""Following a kernel's root to what it needs: points, masks, and which ranges are shared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.fusion.region import follow, mask_needed
from zyx.graph.walk import topological
from zyx.nest.pool import Pool
from zyx.ops import BinaryOp, ReduceOp

if TYPE_CHECKING:
    from zyx.graph import node as n


def region_of(root, stop=lambda region, node: False):
    order = topological([root])
    return follow(root, Pool(), {node: number for number, node in enumerate(order)}, stop)


def points(region, node) -> list[str]:
    return [", ".join(map(str, view.point)) for view in region.views[node]]


def test_elementwise_operations_are_needed_where_their_result_is(cpu):
    x = cpu.normal(3, 4)
    y = cpu.tanh(x)
    region = region_of(cpu.exp(y))
    assert [range_.size for range_ in region.root_ranges.values()] == [3, 4]
    assert points(region, y) == points(region, x) == ["r0, r1"]
    assert list(region.inputs) == [x]


def test_axes_of_size_one_have_no_range(cpu):
    region = region_of(cpu.tanh(cpu.normal(1, 4, 1)))
    assert list(region.root_ranges) == [1]
    assert region.extent(region.all_ranges[0].bit) == 4


def test_movement_changes_the_point_and_adds_masks(cpu):
    x = cpu.normal(3, 4)
    moved = cpu.graph.pad(cpu.graph.permute(x, (1, 0)), [(2, 0), (0, 0)], 1.0)
    region = region_of(moved)
    (view,) = region.views[x]
    assert points(region, x) == ["r1, (r0 + -2)"]
    assert str(view.mask) == "((r0 + -2) >= 0)"


def test_one_node_may_be_needed_at_several_points(cpu):
    x = cpu.normal(4, 4)
    y = cpu.tanh(x)
    region = region_of(cpu.add(y, cpu.graph.permute(y, (1, 0))))
    assert sorted(points(region, y)) == ["r0, r1", "r1, r0"]


class TestReductions:
    def test_a_row_is_read_under_the_roots_own_range(self, cpu):
        region = region_of(cpu.softmax(cpu.normal(5, 7)))
        assert [range_.size for range_ in region.all_ranges] == [5, 7]

    def test_ranges_that_are_used_around_are_not_taken_again(self, cpu):
        inner = cpu.graph.reshape(cpu.sum(cpu.normal(6, 6, 6), 2), (6, 6))
        assert len(region_of(cpu.max(inner, 1)).all_ranges) == 3
        columns = cpu.sum(cpu.normal(6, 6), 0)  # needed for each column only: the rows' range is free
        assert len(region_of(cpu.max(cpu.mul(cpu.normal(6, 6), columns), 1)).all_ranges) == 2

    def test_only_ranges_of_the_same_size_are_shared(self, cpu):
        total = cpu.add(cpu.sum(cpu.normal(5, 7), 1), cpu.sum(cpu.normal(5, 8), 1))
        assert sorted(range_.size for range_ in region_of(total).all_ranges) == [5, 7, 8]

    def test_a_view_knows_the_ranges_around_it(self, cpu):
        x = cpu.normal(5, 7)
        total = cpu.sum(cpu.tanh(x), 1)
        region = region_of(cpu.add(cpu.tanh(x), total))
        rows, columns = (range_.bit for range_ in region.all_ranges)
        assert {(view.around, view.reduced) for view in region.views[x]} == {
            (rows | columns, columns), (rows | columns, 0),
        }  # fmt: skip
        assert [view.around for view in region.views[total]] == [rows | columns]

    def test_a_mask_around_is_dropped_where_the_row_exists_anyway(self, cpu):
        total = cpu.sum(cpu.normal(5, 7), 1)
        padded = cpu.graph.pad(cpu.graph.expand(total, (5, 3)), [(0, 0), (1, 1)])
        region = region_of(padded)
        (below,) = region.views[total.sources[0]]
        assert below.mask is None
        rows_padded = cpu.graph.pad(cpu.graph.reshape(total, (5,)), [(1, 0)])
        (below,) = region_of(rows_padded).views[total.sources[0]]
        assert below.mask is not None


def test_mask_needed_looks_at_the_bounds_of_the_point(cpu):
    pool, x = Pool(), cpu.normal(4, 4)
    at, mask = pool.ref(pool.range(4)), pool.less(pool.ref(pool.range(9)), 3)
    assert mask_needed(x, (at, at), mask) is None
    assert mask_needed(x, (pool.shift(at, 1), at), mask) is mask
    assert mask_needed(x, (pool.shift(at, -1), at), mask) is mask


def test_a_gather_needs_its_data_at_a_place_that_is_not_known(cpu):
    data, index = cpu.normal(9, 3), cpu.leaf(np.zeros((4, 3), np.int64))
    region = region_of(cpu.graph.gather(data, index, 0))
    assert points(region, index) == ["r0, r1"]
    (view,) = region.views[data]
    assert view.point[0].free == region.all_ranges[0].bit | region.all_ranges[1].bit
    assert (view.point[0].low, view.point[0].high) == (0, 8)
    assert str(view.point[1]) == "r1"


def test_a_scatter_has_ranges_of_its_own_for_its_updates(cpu):
    index = cpu.leaf(np.zeros((4, 3), np.int64))
    node = cpu.graph.scatter(cpu.normal(9, 3), index, cpu.normal(4, 3), 0, ReduceOp.SUM)
    region = region_of(node)
    assert [range_.size for range_ in region.all_ranges] == [9, 3, 4, 3]
    assert points(region, node.sources[2]) == ["r2, r3"]


def test_random_words_need_the_whole_state(cpu):
    state = cpu.leaf(np.zeros(4, np.uint32))
    bits = cpu.graph.random_bits(state, (3, 4), dtypes.uint32)
    assert points(region_of(bits), state) == ["0"]


class TestStopping:
    def test_the_caller_is_asked_for_every_node_when_all_its_views_are_known(self, cpu):
        x = cpu.normal(4, 4)
        y = cpu.tanh(x)
        asked: dict[n.Node, int] = {}

        def stop(region, node):
            assert node not in asked
            asked[node] = len(region.views[node])
            return node is y

        region = region_of(cpu.add(cpu.exp(y), cpu.graph.permute(y, (1, 0))), stop)
        assert asked[y] == 2
        assert list(region.inputs) == [y]
        assert x not in region.views

    def test_leaves_and_what_is_computed_end_the_region_unasked(self, cpu):
        x = cpu.normal(4)
        y = cpu.tanh(x)
        y.storage = np.zeros(4, np.float32)

        def stop(region, node):
            assert node not in (x, y)
            return False

        region = region_of(cpu.graph.binary(BinaryOp.ADD, cpu.exp(y), x), stop)
        assert set(region.inputs) == {x, y}


@pytest.mark.parametrize("depth", [20_000])
def test_deep_graphs_are_followed_without_recursion(cpu, depth):
    node = cpu.normal(2)
    for _ in range(depth):
        node = cpu.tanh(node)
    assert len(region_of(node).views) == depth + 1
