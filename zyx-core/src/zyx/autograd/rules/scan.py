"""Gradients of running combinations, ``y[i] = x[0] op ... op x[i]``.

SUM         at x[k]: the sum of g[i] for i >= k
PROD        at x[k]: the sum for i >= k of g[i] times all of x[0..i] but x[k]; nothing is divided, so zeros do no harm
MAX, MIN    g[i] goes to the element that y[i] is; of equal ones to the last, as the extremum had just been set anew
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from zyx import dtype as dtypes
from zyx.autograd.accumulate import widened
from zyx.autograd.rules.indexing import scatter_sum
from zyx.autograd.rules.reduce import WITHOUT_GRADIENT, product_before
from zyx.autograd.term import GradientTerm
from zyx.ops import ReduceOp

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.graph import Graph, Node
    from zyx.graph.node import Scan

Formula: TypeAlias = "Callable[[Graph, Scan, Node], Node]"

#: Elements within which a recurrence is solved by doubling, over and over again: a power of two.
_BLOCK: Final = 16


def _sum(graph: Graph, node: Scan, upstream: Node) -> Node:
    axes = (node.axis,)
    backwards = graph.scan(ReduceOp.SUM, graph.flip(widened(graph, upstream), axes), node.axis)
    return graph.cast(graph.flip(backwards, axes), node.dtype)


def _product(graph: Graph, node: Scan, upstream: Node) -> Node:
    """Return ``before[k] * s[k]``: the product of ``x[0..k-1]``, and ``s[k] = g[k] + x[k + 1] * s[k + 1]``."""
    x, axis = widened(graph, node.sources[0]), node.axis
    following = _moved_up(graph, x, axis, 1)
    sums = _recurrence(graph, GradientTerm(graph, following), GradientTerm(graph, widened(graph, upstream)), axis)
    return graph.cast((GradientTerm(graph, product_before(graph, x, axis)) * sums).node, node.dtype)


def _recurrence(graph: Graph, a: GradientTerm, b: GradientTerm, axis: int) -> GradientTerm:
    """Return ``s[k] = b[k] + a[k] * s[k + 1]``, 0 past the end.

    Within blocks it is solved by doubling: with ``s[k] = b[k] + a[k] * s[k + step]``, put in what s[k + step] is by the
    same formula, until the step is past the end of the block. What the first element of the next block has, times the
    product of `a` up to there, is missing then; for these elements alone it is the same problem again.
    """
    shape, size = a.node.shape, a.node.shape[axis]
    per_block = min(_BLOCK, size)
    blocks = -(-size // per_block)
    split = (*shape[:axis], blocks, per_block, *shape[axis + 1 :])

    def in_blocks(term: GradientTerm) -> GradientTerm:
        widths = [(0, blocks * per_block - size if i == axis else 0) for i in range(len(shape))]
        return GradientTerm(graph, graph.reshape(graph.pad(term.node, widths), split))

    a, b = in_blocks(a), in_blocks(b)
    step = 1
    while step < per_block:
        b = b + a * GradientTerm(graph, _moved_up(graph, b.node, axis + 1, step))
        a = a * GradientTerm(graph, _moved_up(graph, a.node, axis + 1, step, 1))
        step *= 2
    if blocks > 1:
        first = [(0, 1 if i == axis + 1 else length) for i, length in enumerate(split)]
        whole = (*shape[:axis], blocks, *shape[axis + 1 :])
        a_start, b_start = (GradientTerm(graph, graph.reshape(graph.shrink(t.node, first), whole)) for t in (a, b))
        following = _moved_up(graph, _recurrence(graph, a_start, b_start, axis).node, axis, 1)
        b = b + a * GradientTerm(
            graph, graph.expand(graph.reshape(following, (*split[: axis + 1], 1, *split[axis + 2 :])), split)
        )
    padded = graph.reshape(b.node, (*shape[:axis], blocks * per_block, *shape[axis + 1 :]))
    return GradientTerm(graph, graph.shrink(padded, [(0, length) for length in shape]))


def _moved_up(graph: Graph, x: Node, axis: int, step: int, end: int = 0) -> Node:
    """Return element k + `step` at position k along `axis`, `end` past the end."""
    rest = graph.shrink(x, [(step if i == axis else 0, size) for i, size in enumerate(x.shape)])
    return graph.pad(rest, [(0, step if i == axis else 0) for i in range(x.ndim)], end)


def _extremum(graph: Graph, node: Scan, upstream: Node) -> Node:
    coordinate = GradientTerm(graph, graph.iota(node.shape, node.axis, dtypes.int32, node.device))
    is_set = GradientTerm(graph, node.sources[0]).equals(GradientTerm(graph, node))
    position = graph.scan(ReduceOp.MAX, is_set.where(coordinate, 0).node, node.axis)
    return scatter_sum(graph, node.sources[0], position, upstream, node.axis)


SCAN: Final[dict[ReduceOp, Formula | None]] = {
    ReduceOp.SUM: _sum,
    ReduceOp.PROD: _product,
    ReduceOp.MAX: _extremum,
    ReduceOp.MIN: _extremum,
    **WITHOUT_GRADIENT,
}
"""The formula of each operation, None where there is no gradient."""


def scan(graph: Graph, node: Scan, upstream: Node) -> tuple[Node | None]:
    """Look the formula up."""
    formula = SCAN[node.op]
    return (None if formula is None else formula(graph, node, upstream),)
