"""The threads of a group combine rows and columns together: coalesced, of any size, with as many threads as pay."""

from __future__ import annotations

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.ir import kernel as k
from zyx.ir.verify import verify
from zyx.ops import BinaryOp
from zyx.schedule.heuristics import choose_schedule
from zyx.schedule.lower import lower
from zyx.testing.traffic import run_counted

#: A card of few processors, so that little work keeps it busy.
CARD = {
    "units": 2, "max_group_threads": 1024, "max_group_shape": (1024, 1024, 64), "warp_size": 32, "vector_bytes": 16,
    "lanes": (2, 4, 8), "registers": 255, "local_bytes": 49152, "cache_bytes": (1 << 17, 1 << 24), "subgroup_size": 32,
    "swaps": frozenset({dtypes.float32, dtypes.int32}),
}  # fmt: skip


@pytest.fixture
def card(device_with):
    return device_with(**CARD)


def counted(bench, *outputs, tolerance=1e-4):
    """Return (kernel, waste) of each kernel of the outputs, having checked the values."""
    found = []

    def run(nests, arrays):
        (nest,) = nests
        kernel = lower(choose_schedule(nest, bench.info)[0], "test")
        verify(kernel)
        found.append((kernel, run_counted(kernel, [arrays[param] for param in nest.params]).waste(kernel)))

    bench.check(*outputs, tolerance=tolerance, run=run)
    return found


def barriers(kernel):
    return sum(isinstance(op, k.Barrier) for op in kernel.ops)


@pytest.mark.parametrize("width", [20, 33, 88, 255, 512])
def test_short_rows_are_shared_by_threads_that_run_in_step_and_several_by_a_group(card, width):
    ((kernel, waste),) = counted(card, card.softmax(card.normal(300, width)))
    threads, rows = kernel.grid[1]
    assert threads <= 32
    assert threads * rows == 256
    assert barriers(kernel) == 0
    assert waste < 1.6


@pytest.mark.parametrize(
    ("rows", "width", "threads"), [(300, 1000, 32), (300, 9907, 1024), (300, 3000, 128), (3, 4099, 1024)]
)
def test_longer_rows_have_more_threads_and_few_long_ones_most(card, rows, width, threads):
    ((kernel, waste),) = counted(card, card.layer_norm(card.normal(rows, width)))
    assert kernel.grid[1][0] == threads
    assert np.prod(kernel.grid[0]) * np.prod(kernel.grid[1][1:]) in range(rows, rows + 8)
    assert waste < 1.3


def test_of_several_axes_that_are_combined_threads_share_the_one_that_lies_side_by_side(card):
    ((kernel, waste),) = counted(card, card.sum(card.normal(3, 40, 517), 0, 2))
    assert waste < 1.3
    assert kernel.grid[1][0] > 32


@pytest.mark.parametrize("shape", [(1000, 67), (523, 7), (700, 33), (70, 300)], ids=str)
def test_columns_of_any_number_are_read_line_by_line(card, shape):
    """Neighbouring threads have neighbouring columns, several threads each, unless there are plenty of columns."""
    ((kernel, waste),) = counted(card, card.sum(card.normal(*shape), 0))
    columns, across = kernel.grid[1]
    assert columns in (8, 16, 32)
    assert columns * across >= 128 or across == 8
    assert waste < 2.5


def test_where_results_keep_all_threads_busy_each_has_its_own(card):
    ((kernel, waste),) = counted(card, card.sum(card.normal(50, 3001), 0))
    assert barriers(kernel) == 0
    assert waste < 1.25


def test_a_reduction_of_reductions_is_done_by_one_group_of_threads(card):
    x = card.normal(181, 32)
    total = card.sum(card.exp(card.sum(card.mul(x, card.constant(0.01)), 1)), 0)
    ((kernel, _),) = counted(card, total)
    assert kernel.grid == ((), (256,))


@pytest.mark.parametrize("shape", [(2, 70_000), (1, 3, 190, 191), (7, 2, 90, 91), (5, 9000, 3)], ids=str)
def test_the_rows_of_a_softmax_over_few_long_rows_are_cut_into_blocks(device_with, shape):
    """Each kernel that goes over all elements has many groups: none leaves rows to the threads of a few."""
    card = device_with(**{**CARD, "units": 8})
    x = card.normal(*shape)
    axes = tuple(axis for axis in range(1, len(shape)) if shape[axis] > 3)
    powers = card.exp(card.sub(x, card.expand(card.max(x, *axes), *shape)))
    outputs = card.graph.binary(BinaryOp.DIV, powers, card.expand(card.sum(powers, *axes), *shape))
    kernels = counted(card, outputs)
    for kernel, _ in kernels:
        lengths = [op.length for op in kernel.params]
        if max(lengths) == int(np.prod(shape)):
            assert int(np.prod(kernel.grid[0])) >= 8


def test_what_combines_rows_and_columns_of_a_small_matrix_has_threads_along_both(card):
    """As the last layer of a network and its gradients do, in one group."""
    x = card.normal(97, 21)
    count = card.sum(card.exp(card.normal(97, 1)), 0)
    shares = card.mul(x, card.expand(count, 97, 21))
    kernels = counted(card, shares, card.sum(shares, 0), count)
    assert [kernel.grid for kernel, _ in kernels] == [((), (32, 32))]


def test_rows_of_short_axes_share_a_group_as_those_of_long_ones_do(card):
    graph = card.graph
    x = graph.shrink(card.normal(130, 4, 34), [(0, 130), (1, 4), (1, 34)])  # rows that do not lie one after the other
    ((kernel, _),) = counted(card, card.sum(x, 2))
    threads, rows = kernel.grid[1]
    assert threads * rows == 256


def test_threads_meet_outside_of_branches_where_rows_do_not_fit_groups(device_with):
    """There are drivers that compile barriers in branches wrongly, also in such that a whole group takes."""
    bench = device_with(**{**CARD, "units": 1, "meets_in_branches": False, "subgroup_size": 0, "swaps": frozenset()})
    for output in (
        bench.softmax(bench.normal(5, 70)),
        bench.layer_norm(bench.normal(37, 33)),
        bench.sum(bench.normal(99, 7), 0),
    ):
        for kernel, _ in counted(bench, output):
            depth, met = 0, 0
            for op in kernel.ops:
                depth += isinstance(op, k.If) - isinstance(op, k.EndIf)
                met += isinstance(op, k.Barrier)
                assert not (depth and isinstance(op, k.Barrier))
            assert met
