"""Sums, as gradients need them: of 16-bit floats in float32, rounded once at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.autograd.term import GradientTerm
from zyx.dtype import accumulator
from zyx.graph.node import Cast
from zyx.ops import ReduceOp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.graph import Graph, Node


def widened(graph: Graph, x: Node) -> Node:
    """Return `x` in the type in which sums of it are accumulated; if rounded from it, `x` before that."""
    dtype = accumulator(x.dtype)
    if dtype is not x.dtype and isinstance(x, Cast) and x.storage is None and x.sources[0].dtype is dtype:
        return x.sources[0]
    return graph.cast(x, dtype)


def sum_over(graph: Graph, x: Node, axes: tuple[int, ...]) -> Node:
    """Return the sum of `x` along `axes`, which keep size 1."""
    return graph.cast(graph.reduce(ReduceOp.SUM, widened(graph, x), axes), x.dtype)


def sum_of(graph: Graph, parts: Sequence[Node]) -> Node:
    """Return the sum of at least one node, of one shape and dtype, as a balanced tree."""
    if len(parts) == 1:
        return parts[0]
    dtype = parts[0].dtype
    wide = len(parts) > 2  # a sum of two is rounded once anyway
    terms = [GradientTerm(graph, widened(graph, part) if wide else part) for part in parts]
    while len(terms) > 1:
        pairs = [terms[i] + terms[i + 1] for i in range(0, len(terms) - 1, 2)]
        terms = pairs + terms[len(terms) // 2 * 2 :]
    return graph.cast(terms[0].node, dtype)
