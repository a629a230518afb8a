"""Threads meet where one reads what another has just made, also in the very loop that makes it."""

from __future__ import annotations

import numpy as np
import pytest

from zyx.lowering.lower import lower
from zyx.nest.data import Kind
from zyx.schedule.moves import GroupReduce, Mark, Split, Stage, SwapReduce, apply_moves
from zyx.testing.races import run_without_races

#: The sums of rows less the greatest of them; the rows are shared out among two threads, to find the greatest.
MOVES = {
    "two threads": [GroupReduce("r0", 2)],
    "two threads that swap": [GroupReduce("r0", 2), SwapReduce("r0.1", 2)],
    "written out": [Split("r0", 1), GroupReduce("r0.1", 2), SwapReduce("r0.1.1", 2), Mark("r0.0", Kind.UNROLL)],
}


@pytest.mark.parametrize("moves", MOVES.values(), ids=MOVES.keys())
def test_what_one_thread_makes_for_another_is_there_when_it_is_read(cpu, moves):
    rows = cpu.leaf(np.random.default_rng(0).integers(-50, 50, (5, 3)).astype(np.int32))
    sums = cpu.sum(rows, 1)
    (nest,) = cpu.schedule(cpu.sub(sums, cpu.max(sums, 0))).nests
    kernel = lower(apply_moves(nest, moves), "test")
    buffers = [np.zeros(5, np.int32) if param.mutable else rows.storage.ravel().copy() for param in nest.params]
    run_without_races(kernel, buffers)
    wanted = rows.storage.sum(1) - rows.storage.sum(1).max()
    found = next(buffer for buffer, param in zip(buffers, nest.params, strict=True) if param.mutable)
    np.testing.assert_array_equal(found, wanted)


def test_threads_meet_before_they_overwrite_what_others_still_read(cpu):
    rows = cpu.leaf(np.random.default_rng(1).integers(-9, 9, (4, 6)).astype(np.int32))
    columns = cpu.leaf(np.random.default_rng(2).integers(-9, 9, (6, 8)).astype(np.int32))
    (nest,) = cpu.schedule(cpu.matmul(rows, columns)).nests
    nest = apply_moves(nest, [Mark("r1", Kind.LOCAL), Stage("v0", 2, ("r2",))])  # a row, for threads with a column each
    (copied,) = (range_.label for range_ in nest.ranges if range_.label.startswith("r2@"))
    kernel = lower(apply_moves(nest, [Mark(copied, Kind.LOCAL)]), "test")
    given = {24: rows.storage, 48: columns.storage}
    buffers = [np.zeros(32, np.int32) if p.mutable else given[p.length].ravel().copy() for p in nest.params]
    run_without_races(kernel, buffers)
    found = next(buffer for buffer, param in zip(buffers, nest.params, strict=True) if param.mutable)
    np.testing.assert_array_equal(found.reshape(4, 8), rows.storage @ columns.storage)
