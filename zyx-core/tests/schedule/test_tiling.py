"""Blocks of results are ranked by what they copy, load, compute in vain and wait for, and by what is idle."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from zyx.nest.pool import Pool
from zyx.schedule.contraction import Matrices
from zyx.schedule.seeds.tiling import Block, Instruction, Tiling
from zyx.testing.paper import PAPER

CARD = replace(PAPER["card with tensor cores"], units=1, registers=255)
#: Parts of 8 x 8 for a warp, of 2 x 2 for a thread of it, of which everything else is free.
FREE = Instruction(
    part=(8, 8), loaded=(2, 2), depth=0, registers=(4, 2, 2, 8), copied_bytes=0, threads=(32,), all_registers=1 << 16,
    address_registers=0, all_local=math.inf, copy_cost=0, load_cost=0, wait_cost=0, latency=0, most_waste=2.0,
)  # fmt: skip
SMALL, HIGH, LARGE = Block((1, 1), (2, 2), 8), Block((4, 1), (2, 2), 8), Block((4, 4), (2, 2), 8)


def costs(m, n, k, info=CARD, batch=1, blocks=(SMALL, HIGH, LARGE), **fields):
    """Return the costs of blocks for a product of so many rows, columns and points of the sum."""
    pool = Pool()
    rows, columns, depth, others = (pool.range(size) for size in (m, n, k, batch))
    matrices = Matrices((rows, columns), (None, None), depth, ((others,), ()), (None, None))
    return Tiling(matrices, (4, 4), (False, False), replace(FREE, **fields), info).costs(blocks)


def test_a_block_costs_nothing_but_multiplications_where_all_else_is_free():
    assert costs(64, 64, 32) == {SMALL: 1.0, HIGH: 1.0, LARGE: 1.0}


def test_what_is_computed_in_vain_counts_and_too_much_of_it_is_left_out():
    waste = 40 / 36 * 64 / 48
    assert costs(48, 64, 36) == pytest.approx({SMALL: 40 / 36, HIGH: waste, LARGE: waste})
    assert list(costs(16, 64, 32)) == [SMALL]
    assert costs(64, 64, 36, depth=4)[SMALL] == 1.0  # of what is copied past the end, nothing is multiplied


@pytest.mark.parametrize("cost", ["copy_cost", "load_cost"])
def test_larger_blocks_copy_and_load_less_for_a_multiplication(cost):
    found = costs(256, 256, 32, **{cost: 8.0})
    assert found[SMALL] > found[HIGH] > found[LARGE] > 1.0


def test_smaller_blocks_keep_more_processors_busy():
    assert costs(64, 64, 32, replace(CARD, units=4)) == {SMALL: 1.0, HIGH: 1.0, LARGE: 4.0}
    assert costs(64, 64, 32, replace(CARD, units=4), batch=4)[LARGE] == 1.0


def test_waits_are_hidden_by_groups_that_have_room_beside_and_by_their_multiplications():
    assert costs(64, 64, 32, wait_cost=1.0, all_registers=1 << 14)[LARGE] > costs(64, 64, 32, wait_cost=1.0)[LARGE]
    assert costs(64, 64, 32, latency=1 << 16)[LARGE] == 3.0  # there is one group
    assert 1.0 < costs(256, 256, 32, latency=1 << 16)[LARGE] < 1.2


def test_threads_that_would_stand_along_more_axes_than_there_are_stand_along_one():
    assert costs(256, 256, 32, replace(CARD, max_group_shape=(128, 1, 1)), threads=(8, 4))


@pytest.mark.parametrize(
    ("limits", "left"),
    [
        ({"max_group_threads": 64}, []),
        ({"max_group_shape": (32, 1, 1)}, []),
        ({"max_group_shape": (128,)}, []),  # threads stand along three axes
        ({"registers": 32}, [SMALL]),
        ({"local_bytes": 2 * 8 * 4 * (64 + 16)}, [SMALL, HIGH]),
        ({"local_bytes": 0}, []),
    ],
    ids=str,
)
def test_blocks_that_a_device_has_no_room_for_are_left_out(limits, left):
    assert list(costs(256, 256, 32, replace(CARD, **limits))) == left
