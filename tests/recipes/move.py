"""A move that takes `Stream` back applies to a nest, and is written into stored schedules and read from them."""

from __future__ import annotations

import numpy as np

from zyx.autotune.written import read_moves, write_moves
from zyx.schedule.moves import Stream, apply_moves
from zyx.schedule.moves.values import Cached
from zyx.testing.graph_runs import case_of
from zyx.testing.nests import MACHINES, kernels_of
from zyx.testing.schedules import run_nests

x = np.arange(24, dtype=np.float32).reshape(4, 6)
case = case_of("interpreter", [x], lambda graph, leaf: graph.contiguous(graph.permute(leaf, (1, 0))))
(kernel,) = kernels_of(case, MACHINES[0])[0]
(nest,) = kernel.nests
moves = read_moves(write_moves([Stream("s0"), Cached("s0")]))
assert moves == [Stream("s0"), Cached("s0")]
assert [statement.streaming for statement in apply_moves(nest, moves[:1]).statements] == [True]
after = apply_moves(nest, moves)
assert [statement.streaming for statement in after.statements] == [False]
kernel.check(run_nests, [after])
