"""Gradients of reductions.

`MAX` and `MIN`: elements that are equally extreme share the gradient evenly. `PROD`: an element's gradient is the
product of the others, found without dividing, so that zeros do no harm: those before it times those after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from zyx.autograd.accumulate import widened
from zyx.autograd.rules.movement import inverse
from zyx.autograd.term import GradientTerm
from zyx.dtype import accumulator
from zyx.ops import ReduceOp
from zyx.shape import size_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.graph import Graph, Node
    from zyx.graph.node import Reduce

Formula: TypeAlias = "Callable[[Graph, Reduce, Node], Node]"


def _sum(graph: Graph, node: Reduce, upstream: Node) -> Node:
    return graph.expand(upstream, node.sources[0].shape)


def _extremum(graph: Graph, node: Reduce, upstream: Node) -> Node:
    x = GradientTerm(graph, node.sources[0])
    picked = x.equals(GradientTerm(graph, graph.expand(node, x.node.shape)))
    count = graph.reduce(ReduceOp.SUM, graph.cast(picked.node, accumulator(node.dtype)), node.axes)
    share = GradientTerm(graph, widened(graph, upstream)) / GradientTerm(graph, count)
    spread = graph.expand(graph.cast(share.node, node.dtype), x.node.shape)
    return picked.where(GradientTerm(graph, spread), 0.0).node


def _product(graph: Graph, node: Reduce, upstream: Node) -> Node:
    x = node.sources[0]
    kept = tuple(axis for axis in range(x.ndim) if axis not in node.axes)
    order = (*kept, *node.axes)
    factors = graph.permute(widened(graph, x), order)
    rows = graph.reshape(factors, (*(x.shape[axis] for axis in kept), size_of(tuple(x.shape[a] for a in node.axes))))
    last = (rows.ndim - 1,)
    before = GradientTerm(graph, product_before(graph, rows, last[0]))
    after = GradientTerm(graph, graph.flip(product_before(graph, graph.flip(rows, last), last[0]), last))
    others = graph.permute(graph.reshape((before * after).node, factors.shape), inverse(order))
    slope = GradientTerm(graph, graph.expand(widened(graph, upstream), x.shape)) * GradientTerm(graph, others)
    return graph.cast(slope.node, x.dtype)


def product_before(graph: Graph, x: Node, axis: int) -> Node:
    """Return at each position along `axis` the product of the elements before it: 1 at the first."""
    all_but_last = graph.shrink(x, [(0, size - (i == axis)) for i, size in enumerate(x.shape)])
    shifted = graph.pad(all_but_last, [(int(i == axis), 0) for i in range(x.ndim)], 1)
    return graph.scan(ReduceOp.PROD, shifted, axis)


#: Reductions that are not of floats, by which no gradient passes.
WITHOUT_GRADIENT: Final[dict[Any, None]] = dict.fromkeys((ReduceOp.OR, ReduceOp.AND, ReduceOp.XOR))

REDUCE: Final[dict[ReduceOp, Formula | None]] = {
    ReduceOp.SUM: _sum,
    ReduceOp.PROD: _product,
    ReduceOp.MAX: _extremum,
    ReduceOp.MIN: _extremum,
    **WITHOUT_GRADIENT,
}
"""The formula of each operation, None where there is no gradient."""


def reduce(graph: Graph, node: Reduce, upstream: Node) -> tuple[Node | None]:
    """Look the formula up."""
    formula = REDUCE[node.op]
    return (None if formula is None else formula(graph, node, upstream),)
