"""Recognise attention in a graph.

    product    sum(d) of f32(q[i, d]) * f32(k[j, d])
    scores     whatever is done with each of these, element by element
    weights    exp(scores - max(j) of scores), over sum(j) of them
    result     half(sum(j) of f32(half(weights[i, j])) * f32(v[j, e]))

`scores` may be any expression of the product, of its coordinates and of values that are repeated over some of its axes,
such as masks. If it ends with minus infinity for the keys behind a query, the kernel leaves these out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.graph import node as n
from zyx.kernels.attention.problem import Sizes
from zyx.kernels.attention.scores import Scores
from zyx.ops import BinaryOp, ReduceOp, UnaryOp

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zyx.dtype import DType
    from zyx.graph import Graph
    from zyx.graph.node import Node

#: Axes of scores, counted from the end.
_QUERIES: Final = -2
_KEYS: Final = -1


@dataclass(frozen=True, slots=True)
class AttentionMatch:
    """What was found.

    Attributes:
        sizes: What is computed.
        query: ``(..., queries, width)``, in the new graph; `key` and `value` likewise.
        key: ``(..., keys, width)``.
        value: ``(..., keys, width_out)``.
        change: What becomes of scores before the softmax; None if that is said by `sizes`.
    """

    sizes: Sizes
    query: Node
    key: Node
    value: Node
    change: Scores | None


def find_attention(
    graph: Graph, node: n.Cast, new: Mapping[Node, Node], users: Mapping[Node, int]
) -> AttentionMatch | None:
    """Return the attention whose result is `node`; see `zyx.kernels.attention.attended`."""
    return _Finder(graph, node.dtype, new, users).found(node)


class _Finder:
    """Goes down from the result; every step returns None where the graph is another."""

    def __init__(self, graph: Graph, dtype: DType, new: Mapping[Node, Node], users: Mapping[Node, int]) -> None:
        self._graph = graph
        self._dtype = dtype
        self._new = new
        self._users = users

    def found(self, node: n.Cast) -> AttentionMatch | None:
        """Return what `node` is the result of."""
        second = self._product(node.sources[0])
        for left, right in (second, second[::-1]) if second else ():
            weights, value = _without(left, -2), _without(right, -3)
            softmax = None if weights is None or value is None else self._softmax(self._rounded(weights))
            if softmax is not None and value is not None:
                transposed = self._half(value)
                return None if transposed is None else self._attention(*softmax, self._transpose(transposed))
        return None

    def _attention(self, scores: Node, is_guarded: bool, value: Node) -> AttentionMatch | None:
        behind, scale = _behind(scores), 1.0
        inner = scores.sources[1] if behind is not None else scores
        if inner is not scores and not self._is_own(inner):
            return None
        times = 2 if inner is scores else 1  # scores are read by the maximum, too
        product, scale = self._scaled(inner, times)
        own = times if product is inner else 1
        factors = self._first_factors(product, own) if product.dtype is dtypes.float32 else None
        change: Scores | None = None
        if factors is None:
            scale = 1.0
            change = Scores.of(inner, self._new, lambda node: self._first_factors(node) is not None, self._users)
            factors = None if change is None else self._first_factors(change.product)
        if factors is None:
            return None
        query, key = factors
        *batch, queries, width = query.shape
        keys, width_out = value.shape[-2:]
        if (*batch, keys, width) != key.shape or (*batch, keys, width_out) != value.shape:
            return None
        sizes = Sizes(math.prod(batch), queries, keys, width, width_out, behind, scale, is_guarded)
        return AttentionMatch(sizes, query, key, value, change)

    def _is_own(self, node: Node, times: int = 1) -> bool:
        """Whether `node` is still to be computed, and needed only so many times."""
        return node.storage is None and self._users[node] == times

    # ---- products

    def _product(self, node: Node) -> tuple[Node, Node] | None:
        """Return the factors that `node` sums up the products of, along their last axis."""
        if not isinstance(node, n.Reduce) or node.op is not ReduceOp.SUM or not self._is_own(node):
            return None
        product = node.sources[0]
        if node.dtype is not dtypes.float32 or node.axes != (product.ndim - 1,) or not self._is_own(product):
            return None
        if not isinstance(product, n.Binary) or product.op is not BinaryOp.MUL or product.ndim < 3:
            return None
        first, second = product.sources
        return first, second

    def _first_factors(self, node: Node, times: int = 1) -> tuple[Node, Node] | None:
        """Return q and k in the new graph, if `node` is their product, rounded or not."""
        if (
            not isinstance(node, n.Reshape)
            or not self._is_own(node, times)
            or node.sources[0].shape != (*node.shape, 1)
        ):
            return None
        below = node.sources[0]
        if isinstance(below, n.Cast) and self._is_own(below):
            below = below.sources[0]
        factors = self._product(below)
        for left, right in (factors, factors[::-1]) if factors else ():
            query, key = _without(left, -2), _without(right, -3)
            halves = [None if factor is None else self._half(factor) for factor in (query, key)]
            if halves[0] is not None and halves[1] is not None:
                return halves[0], halves[1]
        return None

    def _half(self, node: Node) -> Node | None:
        """Return what `node`, of float32, is without having been converted, in the new graph."""
        if node.storage is not None:
            return None
        if isinstance(node, n.Cast):
            return self._new[node.sources[0]] if node.sources[0].dtype is self._dtype else None
        below = self._half(node.sources[0]) if isinstance(node, n.Reshape | n.Permute | n.Expand) else None
        if below is None:
            return None
        if isinstance(node, n.Permute):
            return self._graph.permute(below, node.order)
        if isinstance(node, n.Reshape):
            return self._graph.reshape(below, node.shape)
        return self._graph.expand(below, node.shape)

    def _transpose(self, node: Node) -> Node:
        axes = range(node.ndim)
        return self._graph.permute(node, (*axes[:-2], axes[-1], axes[-2]))

    # ---- the softmax

    def _rounded(self, node: Node) -> Node | None:
        """Return what is rounded to the factors' dtype and converted back."""
        was_rounded = False
        while isinstance(node, n.Cast) and self._is_own(node):
            was_rounded = was_rounded or node.dtype is self._dtype
            node = node.sources[0]
        return node if was_rounded and node.dtype is dtypes.float32 else None

    def _softmax(self, node: Node | None) -> tuple[Node, bool] | None:
        """Return the scores whose softmax `node` is, along its last axis, and whether it is 0 where all are hidden."""
        if not isinstance(node, n.Binary) or node.op is not BinaryOp.DIV or not self._is_own(node):
            return None
        powers, divisor = node.sources
        if not isinstance(powers, n.Unary) or powers.op is not UnaryOp.EXP or not self._is_own(powers, 2):
            return None
        shifted = powers.sources[0]
        if not isinstance(shifted, n.Binary) or shifted.op is not BinaryOp.SUB or not self._is_own(shifted):
            return None
        scores, top = shifted.sources
        total = self._row_value(divisor)
        nearest = self._row_value(top)
        empty: Node | None = None
        if isinstance(total, n.Where) and isinstance(nearest, n.Where):
            empty = total.sources[0]
            if nearest.sources[0] is not empty or not _is(total.sources[1], 1.0) or not _is(nearest.sources[1], 0.0):
                return None
            total, nearest = total.sources[2], nearest.sources[2]
        while isinstance(nearest, n.Alias) and nearest.storage is None:
            nearest = nearest.sources[0]
        if empty is not None and not _is_empty(empty, nearest):
            return None
        if not _reduces(total, ReduceOp.SUM, powers) or not _reduces(nearest, ReduceOp.MAX, scores):
            return None
        return (scores, empty is not None) if self._is_own(scores, 2) else None

    def _row_value(self, node: Node) -> Node:
        """Return what `node` repeats along its last axis."""
        is_repeated = isinstance(node, n.Expand) and node.storage is None
        return node.sources[0] if is_repeated and node.sources[0].shape == (*node.shape[:-1], 1) else node

    def _scaled(self, node: Node, times: int) -> tuple[Node, float]:
        """Return what `node` is a positive multiple of, and by which factor."""
        if isinstance(node, n.Binary) and node.op in (BinaryOp.MUL, BinaryOp.DIV) and node.dtype is dtypes.float32:
            x, factor = node.sources
            if isinstance(factor, n.Const) and 0 < factor.value < math.inf and self._is_own(node, times):
                return x, factor.value if node.op is BinaryOp.MUL else 1 / factor.value
        return node, 1.0


def _without(node: Node, axis: int) -> Node | None:
    """Return what `node` repeats along an axis, which it has one less of."""
    shape = list(node.shape)
    del shape[axis]
    if isinstance(node, n.Expand) and node.storage is None:
        below = node.sources[0]
        if below.shape != (*node.shape[:axis], 1, *node.shape[node.ndim + axis + 1 :]):
            return None
        node = below
    if not isinstance(node, n.Reshape) or node.storage is not None:
        return None
    return node.sources[0] if node.sources[0].shape == tuple(shape) else None


def _is(node: Node, value: float) -> bool:
    while isinstance(node, n.Expand) and node.storage is None:
        node = node.sources[0]
    return isinstance(node, n.Const) and node.value == value


def _is_empty(node: Node, top: Node) -> bool:
    """Whether `node` says where `top` is minus infinity."""
    if not isinstance(node, n.Binary) or node.op is not BinaryOp.EQ or not _is(node.sources[1], -math.inf):
        return False
    compared = node.sources[0]
    while isinstance(compared, n.Alias) and compared.storage is None:
        compared = compared.sources[0]
    return compared is top


def _reduces(node: Node, op: ReduceOp, source: Node) -> bool:
    """Whether `node` combines the rows of `source`."""
    is_one = isinstance(node, n.Reduce) and node.op is op and node.storage is None
    return is_one and node.sources[0] is source and node.attributes == (op, (source.ndim - 1,))


def _behind(node: Node) -> int | None:
    """Return `Sizes.behind`, if `node` is minus infinity for the keys behind each query."""
    if not isinstance(node, n.Where) or not _is(node.sources[2], -math.inf):
        return None
    seen = node.sources[0]
    while isinstance(seen, n.Expand) and seen.storage is None and seen.shape[-2:] == seen.sources[0].shape[-2:]:
        seen = seen.sources[0]
    if not isinstance(seen, n.Binary) or seen.storage is not None:
        return None
    first, second = seen.sources
    match seen.op:
        case BinaryOp.LE:
            key, query, less = first, second, 0
        case BinaryOp.LT:
            key, query, less = first, second, 1
        case _:
            return None
    columns, rows = _coordinate(key, seen.ndim + _KEYS), _coordinate(query, seen.ndim + _QUERIES)
    return None if columns is None or rows is None else rows - columns - less


def _coordinate(node: Node, axis: int) -> int | None:
    """Return what `node` adds to the coordinate along an axis, if that is all it is."""
    if node.storage is not None:
        return None
    if isinstance(node, n.Expand):
        below = node.sources[0]
        return _coordinate(below, axis) if below.shape[axis] == node.shape[axis] else None
    if isinstance(node, n.Iota) and node.dtype.bits >= 32:
        return 0 if node.axis == axis else None
    if isinstance(node, n.Binary) and node.op in (BinaryOp.ADD, BinaryOp.SUB):
        x, y = node.sources
        start = _coordinate(x, axis)
        if start is None or not isinstance(y, n.Const):
            return None
        return start + int(y.value) * (1 if node.op is BinaryOp.ADD else -1)
    return None
