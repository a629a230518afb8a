"""Gradients of indexed reads and writes; the index has none.

A read gives its gradient back to the place it read: scatter with sum. A write that replaces takes the gradient from the
base to the update; of several updates of one place the last has written, so it alone gets it. Under `MAX` and `MIN` all
that are equally extreme share, the base included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from zyx import dtype as dtypes
from zyx.autograd.accumulate import widened
from zyx.autograd.rules.reduce import WITHOUT_GRADIENT
from zyx.autograd.term import GradientTerm
from zyx.dtype import accumulator
from zyx.errors import GradientError
from zyx.ops import ReduceOp

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.graph import Graph, Node
    from zyx.graph.node import Gather, Scatter

Formula: TypeAlias = "Callable[[Graph, Scatter, Node], tuple[Node, None, Node]]"


def gather(graph: Graph, node: Gather, upstream: Node) -> tuple[Node, None]:
    """Reads outside gave 0 and are writes outside now, which are dropped."""
    data, index = node.sources
    return scatter_sum(graph, data, index, upstream, node.axis), None


def scatter_sum(graph: Graph, like: Node, index: Node, updates: Node, axis: int) -> Node:
    """Return the sums of `updates` that fall on each place of a node with the shape and dtype of `like`."""
    wide = widened(graph, updates)
    zeros = graph.const(0, wide.dtype, like.device, like.shape)
    return graph.cast(graph.scatter(zeros, index, wide, axis, ReduceOp.SUM), like.dtype)


def _replace(graph: Graph, node: Scatter, upstream: Node) -> tuple[Node, None, Node]:
    base, index, updates = node.sources
    zeros = graph.const(0, updates.dtype, updates.device, updates.shape)
    at_base = graph.scatter(upstream, index, zeros, node.axis)
    # Who wrote last: let every update write its own position, and see whose is there in the end.
    position = graph.iota(index.shape, node.axis, dtypes.int32, index.device)
    nobody = graph.const(-1, dtypes.int32, base.device, base.shape)
    winner = graph.gather(graph.scatter(nobody, index, position, node.axis), index, node.axis)
    stays = GradientTerm(graph, winner).equals(GradientTerm(graph, position))
    return at_base, None, stays.where(GradientTerm(graph, graph.gather(upstream, index, node.axis)), 0.0).node


def _sum(graph: Graph, node: Scatter, upstream: Node) -> tuple[Node, None, Node]:
    return upstream, None, graph.gather(upstream, node.sources[1], node.axis)


def _extremum(graph: Graph, node: Scatter, upstream: Node) -> tuple[Node, None, Node]:
    base, index, updates = node.sources
    wide = accumulator(node.dtype)
    base_picked = GradientTerm(graph, base).equals(GradientTerm(graph, node))
    update_picked = GradientTerm(graph, updates).equals(GradientTerm(graph, graph.gather(node, index, node.axis)))
    count = graph.scatter(
        graph.cast(base_picked.node, wide), index, graph.cast(update_picked.node, wide), node.axis, ReduceOp.SUM
    )
    share = graph.cast((GradientTerm(graph, widened(graph, upstream)) / GradientTerm(graph, count)).node, node.dtype)
    at_updates = update_picked.where(GradientTerm(graph, graph.gather(share, index, node.axis)), 0.0)
    return base_picked.where(GradientTerm(graph, share), 0.0).node, None, at_updates.node


def _refuse_product(graph: Graph, node: Scatter, upstream: Node) -> tuple[Node, None, Node]:
    raise GradientError(
        f"scatter with prod has no gradient rule ({node}); scatter the logarithms with sum if all factors are positive"
    )


SCATTER: Final[dict[ReduceOp | None, Formula | None]] = {
    None: _replace,
    ReduceOp.SUM: _sum,
    ReduceOp.PROD: _refuse_product,
    ReduceOp.MAX: _extremum,
    ReduceOp.MIN: _extremum,
    **WITHOUT_GRADIENT,
}
"""The formula of each operation, None where there is no gradient."""


def scatter(graph: Graph, node: Scatter, upstream: Node) -> tuple[Node | None, ...]:
    """Look the formula up."""
    formula = SCATTER[node.op]
    return (None, None, None) if formula is None else formula(graph, node, upstream)
