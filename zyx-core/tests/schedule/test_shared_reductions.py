"""The threads of a group combine rows and columns together: coalesced, of any size, with as many threads as pay."""

from __future__ import annotations

import numpy as np
import pytest

from zyx.kernel import data as k
from zyx.ops import BinaryOp

LONG_GROUPS = {
    "units": 2, "max_group_threads": 1024, "max_group_shape": (1024, 1024, 64), "cache_bytes": (1 << 17, 1 << 24)
}  # fmt: skip


@pytest.fixture
def card(card_with):
    """A card with long groups."""
    return card_with(**LONG_GROUPS)


def barriers(kernel):
    return sum(isinstance(op, k.Barrier) for op in kernel.ops)


@pytest.mark.parametrize("width", [20, 33, 88, 255, 512])
def test_short_rows_are_shared_by_threads_that_run_in_step_and_several_by_a_group(card, width):
    (found,) = card.counted(card.softmax(card.normal(300, width)))
    assert barriers(found.kernel) == 0
    assert found.waste < 1.6


@pytest.mark.parametrize(("rows", "width"), [(300, 1000), (300, 9907), (300, 3000), (3, 4099)])
def test_rows_are_read_once(card, rows, width):
    (found,) = card.counted(card.layer_norm(card.normal(rows, width)))
    assert found.waste < 1.3


def test_of_several_axes_that_are_combined_threads_share_the_one_that_lies_side_by_side(card):
    (found,) = card.counted(card.sum(card.normal(3, 40, 517), 0, 2))
    assert found.waste < 1.3


@pytest.mark.parametrize("shape", [(1000, 67), (523, 17), (700, 33), (70, 300)], ids=str)
def test_columns_of_any_number_are_read_line_by_line(card, shape):
    """Neighbouring threads have neighbouring columns, several threads each, unless there are plenty of columns."""
    (found,) = card.counted(card.sum(card.normal(*shape), 0))
    assert found.waste < 2.5


def test_columns_of_few_rows_are_read_side_by_side(card):
    (found,) = card.counted(card.sum(card.normal(50, 3001), 0))
    assert found.waste < 1.25


@pytest.mark.parametrize("shape", [(90, 111, 6), (300, 700)], ids=str)
def test_columns_that_the_caches_do_not_hold_are_kept_by_threads_and_read_once(card_with, shape):
    """As many threads share each as leave few points of it to a thread, though there are columns enough for all."""
    read = []
    for caches in ((1 << 10, 1 << 12), (1 << 17, 1 << 24)):
        card = card_with(**LONG_GROUPS | {"units": 1, "max_group_threads": 512, "cache_bytes": caches})
        x, axis = card.normal(*shape), len(shape) - 2
        (found,) = card.counted(card.sum(card.exp(card.sub(x, card.expand(card.max(x, axis), *shape))), axis))
        read.append(found.traffic.sectors.total())
    assert read[0] < 1.2 * 2 * x.dtype.itemsize * np.prod(shape) / 32


def test_a_reduction_of_reductions_is_done_by_one_group_of_threads(card):
    x = card.normal(181, 32)
    total = card.sum(card.exp(card.sum(card.mul(x, card.constant(0.01)), 1)), 0)
    (found,) = card.counted(total)
    assert found.kernel.grid[0] == ()


@pytest.mark.parametrize("shape", [(2, 70_000), (1, 3, 190, 191), (7, 2, 90, 91), (5, 9000, 3)], ids=str)
def test_the_rows_of_a_softmax_over_few_long_rows_are_cut_into_blocks(card_with, shape):
    """Each kernel that goes over all elements has many groups: none leaves rows to the threads of a few."""
    card = card_with(**LONG_GROUPS | {"units": 8})
    x = card.normal(*shape)
    axes = tuple(axis for axis in range(1, len(shape)) if shape[axis] > 3)
    powers = card.exp(card.sub(x, card.expand(card.max(x, *axes), *shape)))
    outputs = card.graph.binary(BinaryOp.DIV, powers, card.expand(card.sum(powers, *axes), *shape))
    kernels = card.counted(outputs)
    for found in kernels:
        lengths = [op.length for op in found.kernel.params]
        if max(lengths) == int(np.prod(shape)):
            assert int(np.prod(found.kernel.grid[0])) >= 8


def test_what_combines_rows_and_columns_of_a_small_matrix_has_threads_along_both(card):
    """As the last layer of a network and its gradients do, in one group."""
    x = card.normal(97, 21)
    count = card.sum(card.exp(card.normal(97, 1)), 0)
    shares = card.mul(x, card.expand(count, 97, 21))
    kernels = card.counted(shares, card.sum(shares, 0), count)
    (found,) = kernels
    assert found.kernel.grid[0] == ()
    assert min(found.kernel.grid[1]) > 1


def test_rows_of_short_axes_share_a_group_as_those_of_long_ones_do(card):
    graph = card.graph
    x = graph.shrink(card.normal(130, 4, 34), [(0, 130), (1, 4), (1, 34)])  # rows that do not lie one after the other
    (found,) = card.counted(card.sum(x, 2))
    threads, rows = found.kernel.grid[1]
    assert threads > 1 < rows


def test_threads_meet_outside_of_branches_where_rows_do_not_fit_groups(card_with):
    """There are drivers that compile barriers in branches wrongly, also in such that a whole group takes."""
    bench = card_with(
        **LONG_GROUPS | {"units": 1, "meets_in_branches": False, "subgroup_size": 0, "swaps": frozenset()}
    )
    for output in (
        bench.softmax(bench.normal(5, 70)),
        bench.layer_norm(bench.normal(37, 33)),
        bench.sum(bench.normal(99, 7), 0),
    ):
        for found in bench.counted(output):
            depth, met = 0, 0
            for op in found.kernel.ops:
                depth += isinstance(op, k.If) - isinstance(op, k.EndIf)
                met += isinstance(op, k.Barrier)
                assert not (depth and isinstance(op, k.Barrier))
            assert met
