"""What is stored in another order than it is read goes through tiles in local memory, and moves once."""

from __future__ import annotations

import numpy as np
import pytest

from zyx.graph import node as n
from zyx.kernel import data as k
from zyx.nest.data import Kind
from zyx.schedule.moves import Stage


def counted(bench, output):
    """Return the only kernel of an output, having checked its values."""
    (found,) = bench.counted(output, tolerance=0)
    return found


def is_staged(kernel):
    return any(isinstance(op, k.Define) and op.memory is k.Memory.LOCAL for op in kernel.ops)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize(("shape", "order"), [
    ((256, 128), (1, 0)),
    ((317, 131), (1, 0)),
    ((8, 24, 27, 4, 13), (1, 4, 0, 3, 2)),
    ((40, 33, 50), (2, 1, 0)),
    ((64, 7, 96), (0, 2, 1)),
    ((5, 300, 41), (2, 0, 1)),
    ((9, 2500), (1, 0)),
], ids=str)  # fmt: skip
def test_a_transposition_reads_and_stores_whole_lines(card, shape, order, dtype):
    values = card.random.integers(-100, 100, shape).astype(dtype)
    found = counted(card, card.graph.contiguous(card.graph.permute(card.leaf(values), order)))
    assert found.threads == 256
    # Lines of odd rows begin and end within sectors: of elements of a byte, few of them have several.
    assert found.waste < (2.8 if dtype is np.int8 else 1.8)


@pytest.mark.parametrize("dtype", [np.float16, np.float32], ids=lambda dtype: dtype.__name__)
def test_tiles_of_powers_of_two_use_all_banks(card, dtype):
    values = card.random.integers(-100, 100, (256, 256)).astype(dtype)
    found = counted(card, card.graph.contiguous(card.graph.permute(card.leaf(values), (1, 0))))
    assert is_staged(found.kernel)
    assert [move.skew is not None for move in found.moves if isinstance(move, Stage)] == [True]
    assert found.waste < 1.3  # of elements of two bytes a warp reads half a line, which begins anywhere
    assert found.traffic.conflicts == 0


def test_tiles_of_any_shape_keep_to_what_is_there(card):
    for seed in range(6):
        random = np.random.default_rng(seed)
        rank = int(random.integers(2, 6))
        shape = tuple(int(size) for size in random.integers(2, int(60_000 ** (1 / rank)), rank))
        values = random.integers(-100, 100, shape).astype(random.choice([np.float16, np.float32]))
        order = tuple(int(axis) for axis in random.permutation(rank))
        moved = card.graph.contiguous(card.graph.permute(card.leaf(values), order))
        if isinstance(moved, n.Contiguous):
            counted(card, moved)


def test_what_lies_in_one_order_takes_no_local_memory(card):
    graph = card.graph
    same_rows = graph.contiguous(graph.permute(card.normal(3, 37, 13, 51), (2, 1, 0, 3)))
    short = graph.contiguous(graph.permute(card.normal(901, 3, 7, 5), (0, 1, 3, 2)))
    flipped = graph.contiguous(graph.flip(card.normal(301, 77), (0, 1)))
    for output in (same_rows, short, flipped):
        assert not is_staged(counted(card, output).kernel)


def test_a_tile_of_short_axes_has_all_of_them(card):
    moved = card.graph.contiguous(card.graph.permute(card.normal(8, 24, 27, 4, 13, dtype=np.float16), (1, 4, 0, 3, 2)))
    found = counted(card, moved)
    assert is_staged(found.kernel)
    groups = [range_.size for range_ in found.nest.ranges if found.nest.kind(range_) is Kind.GROUP]
    assert np.prod(groups) == 8 * 24


def test_what_is_computed_and_padded_on_the_way_goes_through_tiles_too(card):
    graph = card.graph
    turned = graph.permute(card.normal(190, 131), (1, 0))
    padded = graph.pad(turned, [(2, 3), (1, 0)], 0.5)
    found = counted(card, graph.contiguous(padded))
    assert is_staged(found.kernel)
    assert found.waste < 1.8


def test_without_local_memory_elements_are_moved_one_by_one(card_with):
    bench = card_with(local_bytes=0)
    moved = bench.graph.contiguous(bench.graph.permute(bench.normal(200, 130), (1, 0)))
    assert not is_staged(counted(bench, moved).kernel)
