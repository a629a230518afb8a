"""Where the points of a movement node lie in its source, against what the nodes mean."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from zyx.fusion.movement import MOVEMENT, reshape_point, source_point
from zyx.graph.evaluate import evaluate
from zyx.nest.pool import Pool
from zyx.testing.index_values import index_value


def moved_nodes(bench):
    graph = bench.graph
    x = bench.normal(4, 6)
    y = bench.normal(3, 5, 2)
    return [
        graph.reshape(x, (24,)), graph.reshape(x, (2, 3, 4)), graph.reshape(x, (8, 3)), graph.reshape(x, (1, 4, 1, 6)),
        graph.reshape(y, (15, 2)), graph.reshape(y, (6, 5)), graph.reshape(y, (5, 2, 3)), graph.reshape(y, (3, 10)),
        graph.expand(graph.reshape(x, (4, 1, 6)), (4, 3, 6)), graph.expand(bench.normal(1, 1), (3, 2)),
        graph.permute(y, (2, 0, 1)), graph.permute(x, (1, 0)),
        graph.pad(x, [(1, 2), (0, 0)], 7.0), graph.pad(y, [(0, 1), (2, 0), (1, 1)], -1.0),
        graph.shrink(x, [(1, 3), (2, 6)]), graph.flip(x, (0,)), graph.flip(y, (1, 2)),
        graph.slide(bench.normal(9, 3), 0, 1, 4, 2, 1), graph.slide(bench.normal(9, 3), 0, 1, 3, 1, 3),
        graph.unslide(bench.normal(4, 3), 0, 1, 9, 2, 1), graph.unslide(bench.normal(3, 3), 0, 1, 12, 1, 3),
        graph.unslide(bench.normal(2, 5, 3), 1, 2, 17, 3, 2),
    ]  # fmt: skip


@pytest.mark.parametrize("number", range(22))
def test_points_of_movement_are_where_the_node_has_them(cpu, number):
    node = moved_nodes(cpu)[number]
    assert isinstance(node, MOVEMENT)
    (expected,) = evaluate([node])
    source = node.sources[0].storage if node.sources[0].storage is not None else evaluate(node.sources)[0]
    fill = getattr(node, "value", 0.0)
    pool = Pool()
    ranges = [pool.range(size) for size in node.shape]
    point, mask = source_point(pool, node, tuple(pool.ref(range_) for range_ in ranges))
    for place in itertools.product(*(range(size) for size in node.shape)):
        at = dict(zip(ranges, place, strict=True))
        inside = mask is None or index_value(mask, at)
        found = source[tuple(index_value(index, at) for index in point)] if inside else fill
        assert found == expected[place], place


def test_the_number_of_cases_is_that_of_the_parameters(cpu):
    assert len(moved_nodes(cpu)) == 22


@pytest.mark.parametrize(
    ("shape", "target", "text"),
    [
        ((4, 6), (4, 2, 3), "r0, r1//3, r1%3"),
        ((4, 2, 3), (4, 6), "r0, (r1*3 + r2)"),
        ((4, 1, 6), (4, 6), "r0, r1"),
        ((12, 5), (3, 4, 5), "r0//4, r0%4, r1"),
        ((5, 12), (5, 1, 12, 1), "r0, 0, r1, 0"),
    ],
)
def test_only_axes_that_change_are_divided(shape, target, text):
    pool = Pool()
    point = tuple(pool.ref(pool.range(size)) if size > 1 else pool.index(0) for size in shape)
    assert ", ".join(str(index) for index in reshape_point(pool, shape, target, point)) == text


def test_padding_on_one_side_tests_that_side_only(cpu):
    pool = Pool()
    node = cpu.graph.pad(cpu.normal(4, 4), [(2, 0), (0, 3)], 0.0)
    _, mask = source_point(pool, node, tuple(pool.ref(pool.range(size)) for size in node.shape))
    assert str(mask) == "(((r0 + -2) >= 0) & ((r1*-1 + 3) >= 0))"


def test_inside_of_a_mask_that_shuts_it_out_a_point_may_lie_anywhere(cpu):
    graph = cpu.graph
    inner = graph.pad(graph.shrink(cpu.normal(6), [(1, 4)]), [(1, 1)], 2.0)
    outer = graph.pad(graph.pad(inner, [(3, 0)], 5.0), [(0, 2)], -np.inf)
    cpu.check(cpu.tanh(outer))
