"""Lay the factors of convolutions out for warps that multiply matrices: what is summed up at each place, side by side.

    c[n, o, y, x] = sum(ky, kx, i) of image[n, i, y + ky, x + kx] * weight[o, i, ky, kx]

Threads load vectors of neighbouring i, all of which are within the image, or none is, if image[n, y, x, i] and
weight[o, ky, kx, i] are what lies in memory. Copies of that are made first, with rows of whole vectors: the image is
used for each place of a window and each o, and the weights for all of the image. On an H200, 2.1 billion products of
float16 take 0.1 ms where they lie as the caller has them, and 0.04 ms so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.fusion.materialise import contraction_operands
from zyx.fusion.movement import MOVEMENT, source_point
from zyx.graph import node as n
from zyx.graph.rebuild import rebuild
from zyx.nest import expr as e
from zyx.nest.pool import Pool
from zyx.ops import BinaryOp
from zyx.shape import size_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend.info import DeviceInfo
    from zyx.graph import Graph
    from zyx.graph.node import Node
    from zyx.nest.expr import Expr, Range

#: Copies pay for so many products, of so many with each element, and if so many neighbours are summed up.
_LEAST_PRODUCTS: Final = 1 << 26
_LEAST_USES: Final = 64
_LEAST_DEPTH: Final = 16
#: Elements of a vector: each row begins with a whole one.
_VECTOR: Final = 8
_HALVES: Final = (dtypes.float16, dtypes.bfloat16)


@dataclass(frozen=True, slots=True)
class _Factor:
    """A factor of a product: what is in memory, where an element of it is, and the steps to what is multiplied."""

    base: Node
    point: tuple[Expr, ...]
    steps: Sequence[Node]

    def axis_of(self, range_: Range) -> int | None:
        """Return the axis of what is in memory that is `range_`, if one is and no other goes along it."""
        axes = [axis for axis, index in enumerate(self.point) if index.free & range_.bit]
        return axes[0] if len(axes) == 1 and isinstance(self.point[axes[0]], e.RangeRef) else None


def channels_last(graph: Graph, node: n.Reduce, info: DeviceInfo) -> n.Reduce:
    """Return the sum of products `node` of copies of its factors, if it is a convolution that takes less time then."""
    operands = contraction_operands(node) if info.wmma else None
    product = node.sources[0]
    if operands is None or size_of(product.shape) < _LEAST_PRODUCTS:
        return node
    pool = Pool()
    ranges = [pool.range(size, f"r{axis}") for axis, size in enumerate(product.shape)]
    factors = [_factor(pool, operand, ranges) for operand in operands]
    if not any(isinstance(step, n.Slide | n.Unslide) for factor in factors for step in factor.steps):
        return node
    if any(factor.base.dtype not in _HALVES for factor in factors):
        return node
    if size_of(product.shape) < _LEAST_USES * sum(size_of(factor.base.shape) for factor in factors):
        return node
    depths = [ranges[axis] for axis in node.axes if all(f.axis_of(ranges[axis]) is not None for f in factors)]
    depth = max(depths, key=lambda range_: range_.size, default=None)
    if depth is None or depth.size < _LEAST_DEPTH:
        return node
    first, second = (_laid_out(graph, factor, depth) for factor in factors)
    casts = []
    while isinstance(product, n.Cast):
        casts.append(product)
        (product,) = product.sources
    total: Node = graph.binary(BinaryOp.MUL, first, second)
    for cast in reversed(casts):
        total = graph.cast(total, cast.dtype)
    result = graph.reduce(node.op, total, node.axes)
    assert isinstance(result, n.Reduce)
    return result


def _factor(pool: Pool, operand: Node, ranges: Sequence[Range]) -> _Factor:
    """Follow a factor at `ranges` through movement and casts, down to the last node of 16 bits."""
    steps: list[Node] = []
    point: tuple[Expr, ...] = tuple(map(pool.ref, ranges))
    found = _Factor(operand, point, ())
    node = operand
    while node.storage is None and isinstance(node, (*MOVEMENT, n.Cast)):
        steps.append(node)
        if not isinstance(node, n.Cast):
            point, _ = source_point(pool, node, point)
        (node,) = node.sources
        if node.dtype in _HALVES or found.base.dtype not in _HALVES:
            found = _Factor(node, point, tuple(steps))
    return found


def _laid_out(graph: Graph, factor: _Factor, depth: Range) -> Node:
    """Return the factor over a copy of its base that has `depth` as its last axis."""
    axis = factor.axis_of(depth)
    assert axis is not None
    base = factor.base
    order = (*(i for i in range(base.ndim) if i != axis), axis)
    missing = -base.shape[axis] % _VECTOR
    node = base
    if missing or math.prod(base.shape[axis + 1 :]) > 1:
        node = graph.permute(base, order)
        copy = graph.contiguous(graph.pad(node, [(0, missing if i == node.ndim - 1 else 0) for i in range(node.ndim)]))
        node = graph.permute(graph.shrink(copy, [(0, size) for size in node.shape]), _inverse(order))
    for step in reversed(factor.steps):
        node = rebuild(graph, step, [node])
    return node


def _inverse(order: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(range(len(order)), key=order.__getitem__))
