"""How far a right result may lie from the oracle's, element by element.

Integers, bools, comparisons, movement, and single operations on exact numbers have one right result. Where sums are
taken in another order, or a function is accurate to a few units in the last place only, errors start; from there on
they are followed through the graph as a running error analysis does (Higham, "Accuracy and Stability of Numerical
Algorithms", 3.3): beside each value stands a bound on what a conforming device may be off, computed in float64. A
bound of infinity means that nothing can be said, for instance where a sum comes near the end of the range of its
type.

An operation that is not continuous (comparisons, rounding, conversion to integers) has no such bound unless its
operands are exact: `Exactness` says so before anything is computed, and generators keep to it.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

import numpy as np

from zyx import dtype as dtypes
from zyx.graph import Graph
from zyx.graph import node as n
from zyx.graph.evaluate import evaluate
from zyx.graph.rebuild import rebuild
from zyx.ops import COMPARISONS, BinaryOp, ReduceOp, UnaryOp
from zyx.semantics import apply_unary
from zyx.testing.values import epsilon, largest, least_normal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zyx.dtype import DType
    from zyx.graph import Node
    from zyx.testing.values import Array

#: Units in the last place that a transcendental function may be off, and a quotient or root.
FUNCTION_ULPS: Final = 4.0
QUOTIENT_ULPS: Final = 3.0

_MOVEMENT: Final = (n.Reshape, n.Expand, n.Permute, n.Pad, n.Shrink, n.Flip, n.Slide, n.Unslide)
_SAME_VALUES: Final = (*_MOVEMENT, n.Contiguous, n.ToDevice, n.Alias, n.Gather)
_MONOTONE: Final = frozenset(
    {
        UnaryOp.SQRT, UnaryOp.EXP, UnaryOp.EXP2, UnaryOp.EXPM1, UnaryOp.LOG, UnaryOp.LOG2, UnaryOp.LOG1P, UnaryOp.TANH,
        UnaryOp.ATAN, UnaryOp.ERF,
    }
)  # fmt: skip


class Exactness(enum.IntEnum):
    """What all conforming devices agree on: the bits, the value (up to the sign of a zero, and NaN), or neither."""

    BITS = 0
    VALUE = 1
    ROUGH = 2


def exactness(node: Node, known: Mapping[Node, Exactness]) -> Exactness:
    """Return the exactness of `node`; `known` has that of its sources."""
    if not node.dtype.is_float:
        return Exactness.BITS
    below = max((known[source] for source in node.sources if source.dtype.is_float), default=Exactness.BITS)
    match node:
        case n.Leaf() | n.Const() | n.Where() | n.Contiguous() | n.ToDevice() | n.Alias() | n.Gather() | n.Cast():
            return below
        case _ if isinstance(node, _MOVEMENT):
            return below
        case n.Scatter(op=None):
            return below
        case n.Bitcast():
            return Exactness.VALUE
        case n.Unary(op=UnaryOp.NEG | UnaryOp.ABS | UnaryOp.FLOOR | UnaryOp.TRUNC):
            return max(below, Exactness.VALUE)
        case n.Binary(op=BinaryOp.MUL | BinaryOp.MOD | BinaryOp.MAX | BinaryOp.MIN):
            return max(below, Exactness.VALUE)
        case n.Binary(op=BinaryOp.ADD | BinaryOp.SUB):
            # A product that is added may be fused with the sum, and rounded once instead of twice.
            return Exactness.ROUGH if any(map(_may_be_product, node.sources)) else max(below, Exactness.VALUE)
        case n.Reduce(op=ReduceOp.MAX | ReduceOp.MIN) | n.Scan(op=ReduceOp.MAX | ReduceOp.MIN):
            return max(below, Exactness.VALUE)
        case n.Scatter(op=ReduceOp.MAX | ReduceOp.MIN):
            return max(below, Exactness.VALUE)
        case _:
            return Exactness.ROUGH


def _may_be_product(node: Node) -> bool:
    seen: set[Node] = set()
    stack = [node]
    while stack:
        current = stack.pop()
        if current in seen:
            continue
        seen.add(current)
        if isinstance(current, n.Binary) and current.op is BinaryOp.MUL:
            return True
        if isinstance(current, (*_SAME_VALUES, n.Where)) or (
            isinstance(current, n.Unary) and current.op is UnaryOp.NEG
        ):
            stack.extend(source for source in current.sources if source.dtype.is_float)
    return False


def error_bounds(order: Sequence[Node], values: Mapping[Node, Array]) -> dict[Node, Array]:
    """Return for every node of `order`, which is topological, the greatest error of a right result, in float64.

    `values` are those of the oracle, `zyx.graph.evaluate`.
    """
    known: dict[Node, Exactness] = {}
    bounds: dict[Node, Array] = {}
    with np.errstate(all="ignore"):
        for node in order:
            known[node] = exactness(node, known)
            if known[node] is not Exactness.ROUGH or isinstance(node, n.Leaf):
                bounds[node] = np.zeros(node.shape)
                continue
            x = [values[source].astype(np.float64) for source in node.sources]
            b = [bounds[source] for source in node.sources]
            value = values[node].astype(np.float64)
            bound = np.broadcast_to(_bound(node, x, b, value), node.shape)
            near_end = np.abs(value) + bound >= largest(node.dtype)
            bounds[node] = np.where(np.isnan(bound) | near_end | ~np.isfinite(value), np.inf, bound)
    return bounds


def _rounding(dtype: DType, value: Array, ulps: float = 1.0) -> Array:
    """Return a bound on rounding, subnormal results included; devices may flush those to 0."""
    result: Array = ulps * (epsilon(dtype) * np.abs(value) + least_normal(dtype))
    return result


def _bound(node: Node, x: Sequence[Array], b: Sequence[Array], value: Array) -> Array:
    """Return the bound of a rough node with source values `x`, whose bounds are `b`."""
    match node:
        case n.Unary(op=op):
            return _unary_bound(op, node.dtype, x[0], b[0], value)
        case n.Binary(op=op2):
            return _binary_bound(op2, node.dtype, x, b, value)
        case n.Where():
            return np.where(x[0] != 0, b[1], b[2])
        case n.Cast():
            return b[0] + _rounding(node.dtype, value)
        case n.Pad(widths=widths):
            return np.pad(b[0], widths)
        case n.Gather():
            return _moved(node, [b[0], x[1].astype(np.int64)])
        case _ if isinstance(node, _SAME_VALUES):
            return _moved(node, b)
        case n.Reduce(op=ReduceOp.MAX | ReduceOp.MIN, axes=axes):
            most: Array = np.max(b[0], axis=axes, keepdims=True)
            return most
        case n.Reduce(op=op3, axes=axes):
            count = int(np.prod([x[0].shape[axis] for axis in axes]))
            return _combined(
                op3, node.dtype, x[0], b[0], count, value, lambda f, a: f.reduce(a, axis=axes, keepdims=True)
            )
        case n.Scan(op=ReduceOp.MAX | ReduceOp.MIN, axis=axis):
            return np.maximum.accumulate(b[0], axis=axis)
        case n.Scan(op=op3, axis=axis):
            count = x[0].shape[axis]
            return _combined(op3, node.dtype, x[0], b[0], count, value, lambda f, a: f.accumulate(a, axis=axis))
        case n.Scatter(op=op4):
            return _scattered(node, op4, x, b, value)
        case _:
            return np.full(node.shape, np.inf)


def _moved(node: Node, arrays: Sequence[Array]) -> Array:
    """Return what `node` makes of other arrays than its sources' values."""
    graph = Graph()
    leaves = [graph.leaf(array.shape, dtypes.as_dtype(array.dtype), node.device, array) for array in arrays]
    return evaluate([graph.contiguous(leaves[0]) if isinstance(node, n.ToDevice) else rebuild(graph, node, leaves)])[0]


def _unary_bound(op: UnaryOp, dtype: DType, x: Array, b: Array, value: Array) -> Array:
    match op:
        case UnaryOp.NEG | UnaryOp.ABS:
            return b
        case UnaryOp.RECIPROCAL:
            return _quotient_bound(dtype, np.ones_like(x), np.zeros_like(x), x, b, value)
        case UnaryOp.SIN | UnaryOp.COS:
            # Near the zeros of the function its relative error may be larger.
            return np.minimum(b, 2.0) + _rounding(dtype, np.maximum(np.abs(value), 0.0625), FUNCTION_ULPS)
        case _ if op in _MONOTONE:
            ulps = QUOTIENT_ULPS if op is UnaryOp.SQRT else FUNCTION_ULPS
            middle, below, above = (apply_unary(op, at) for at in (x, x - b, x + b))
            spread = np.where(b == 0, 0.0, np.maximum(np.abs(above - middle), np.abs(middle - below)))
            return spread + _rounding(dtype, value, ulps)
        case _:  # rounding to integers is not continuous
            return np.full(x.shape, np.inf)


def _quotient_bound(dtype: DType, x: Array, bx: Array, y: Array, by: Array, value: Array) -> Array:
    room = np.abs(y) - by
    bound: Array = np.where(room > 0, (bx + np.abs(value) * by) / room + _rounding(dtype, value, QUOTIENT_ULPS), np.inf)
    return bound


def _binary_bound(op: BinaryOp, dtype: DType, sources: Sequence[Array], bounds: Sequence[Array], value: Array) -> Array:
    (x, y), (bx, by) = sources, bounds
    match op:
        case BinaryOp.ADD | BinaryOp.SUB:
            return bx + by + _rounding(dtype, np.abs(value) + np.abs(x) + np.abs(y))
        case BinaryOp.MUL:
            product: Array = bx * np.abs(y) + by * np.abs(x) + bx * by + _rounding(dtype, value)
            return product
        case BinaryOp.DIV:
            return _quotient_bound(dtype, x, bx, y, by, value)
        case BinaryOp.MAX | BinaryOp.MIN:
            greater: Array = np.maximum(bx, by)
            return greater
        case BinaryOp.POW:
            # d(x**y) = x**y * (y / x dx + log x dy)
            spread = np.abs(y / x) * bx + np.abs(np.log(np.abs(x))) * by
            inside = (x > bx) & (spread < 0.01)
            return np.where(
                inside | ((bx == 0) & (by == 0)), 2 * np.abs(value) * np.where(inside, spread, 0), np.inf
            ) + _rounding(dtype, value, FUNCTION_ULPS)
        case _:
            assert op not in COMPARISONS  # their results are no floats
            return np.full(value.shape, np.inf)


def _combined(
    op: ReduceOp,
    dtype: DType,
    x: Array,
    b: Array,
    count: int,
    value: Array,
    combine: Callable[[np.ufunc, Array], Array],
) -> Array:
    """Return the bound of a sum or product of `count` elements in any order; `combine` applies a ufunc likewise."""
    if op is ReduceOp.SUM:
        total = combine(np.add, np.abs(x) + b)
        return _sum_bound(dtype, total, combine(np.add, b), count)
    sizes = np.abs(x) + b
    return _product_bound(
        dtype, combine(np.multiply, sizes), combine(np.multiply, np.maximum(sizes, 1.0)), value, count
    )


def _sum_bound(dtype: DType, total: Array, errors: Array, count: int) -> Array:
    bound = errors + (count + 1) * _rounding(dtype, total)
    return np.where(total < largest(dtype) / 2, bound, np.inf)


def _product_bound(dtype: DType, most: Array, top: Array, value: Array, count: int) -> Array:
    """Return the bound where the factors' greatest product is `most`, and that of those above 1 is `top`."""
    rounding = (count + 1) * (epsilon(dtype) * most + least_normal(dtype) * top)
    return np.where(top < largest(dtype) / 2, most - np.abs(value) + 2 * rounding, np.inf)


def _scattered(node: n.Scatter, op: ReduceOp | None, x: Sequence[Array], b: Sequence[Array], value: Array) -> Array:
    index = x[1].astype(np.int64)
    graph = Graph()

    def scatter(base: Array, updates: Array, how: ReduceOp | None) -> Array:
        leaves = [graph.leaf(a.shape, dtypes.as_dtype(a.dtype), node.device, a) for a in (base, index, updates)]
        return evaluate([graph.scatter(leaves[0], leaves[1], leaves[2], node.axis, how)])[0]

    count = x[1].shape[node.axis] + 1
    match op:
        case None:
            return scatter(b[0], b[2], None)
        case ReduceOp.SUM:
            total = scatter(np.abs(x[0]) + b[0], np.abs(x[2]) + b[2], ReduceOp.SUM)
            return _sum_bound(node.dtype, total, scatter(b[0], b[2], ReduceOp.SUM), count)
        case ReduceOp.PROD:
            base, updates = np.abs(x[0]) + b[0], np.abs(x[2]) + b[2]
            most = scatter(base, updates, ReduceOp.PROD)
            top = scatter(np.maximum(base, 1.0), np.maximum(updates, 1.0), ReduceOp.PROD)
            return _product_bound(node.dtype, most, top, value, count)
        case _:
            return scatter(b[0], b[2], ReduceOp.MAX)
