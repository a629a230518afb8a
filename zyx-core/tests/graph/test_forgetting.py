"""Graphs forget nodes that nobody needs any more, whatever happens meanwhile."""

from __future__ import annotations

import gc
import itertools

from zyx import dtype as dtypes
from zyx.graph import Graph


def test_nodes_are_made_while_dead_ones_are_forgotten():
    """As by another thread, or by a finaliser, which run where the garbage collector does."""
    graph, numbers = Graph(), itertools.count()
    kept = [graph.const(next(numbers), dtypes.int32, "test:0") for _ in range(2000)]

    def make(phase: str, info: dict[str, int]) -> None:
        kept.append(graph.const(next(numbers), dtypes.int32, "test:0"))

    before = gc.get_threshold()
    gc.callbacks.append(make)
    gc.set_threshold(1)
    try:
        graph._forget_dead()
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(make)
    assert len({id(node) for node in kept}) == len(kept)
