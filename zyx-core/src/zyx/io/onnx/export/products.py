"""Sums of products: what is a product of matrices, or a convolution, is written as that.

    reduce sum of x[m, 1, k] * w[1, n, k] along k       MatMul of x[m, k] and w[k, n]

Axes of the two factors fall into those that both have and that stay (batch), those that both have and that are summed,
and those of one alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zyx.graph import node as n
from zyx.io.onnx.export.sizes import dims_of, product
from zyx.io.onnx.export.windows import convolution
from zyx.ops import BinaryOp, ReduceOp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.graph.node import Node
    from zyx.io.onnx.export.sizes import Dims
    from zyx.io.onnx.export.writer import GraphValue, GraphWriter


def contraction(w: GraphWriter, node: n.Reduce) -> GraphValue | None:
    """Return a sum of products as one operator, None if it is none."""
    (source,) = node.sources
    is_product = isinstance(source, n.Binary) and source.op is BinaryOp.MUL and node.op is ReduceOp.SUM
    if not is_product or node.dtype.bits < 32:
        return None
    found = convolution(w, node, *source.sources)
    return _matrix_product(w, node, *source.sources) if found is None else found


class _Axes(NamedTuple):
    """The axes of a product, by what has them."""

    batch: list[int]
    left: list[int]
    right: list[int]
    summed: list[int]


def _axes(full: Dims, left: Dims, right: Dims, reduced: Sequence[int]) -> _Axes | None:
    """Return the axes, None if it is no product of matrices."""
    axes = _Axes([], [], [], [])
    for axis, size in enumerate(full):
        if size == 1:
            continue
        mine, theirs = left[axis] != 1, right[axis] != 1
        if mine and theirs:
            (axes.summed if axis in reduced else axes.batch).append(axis)
        elif axis in reduced:
            return None
        elif mine:
            axes.left.append(axis)
        elif theirs:
            axes.right.append(axis)
    return axes if axes.summed and (axes.left or axes.right) else None


def _matrix_product(w: GraphWriter, node: n.Reduce, first: Node, second: Node) -> GraphValue | None:
    x, y = w.lean(first), w.lean(second)
    axes = _axes(dims_of(node.sources[0]), x.dims, y.dims, node.axes)
    if axes is None:
        return None
    last = (product([x.dims[axis] for axis in axes.summed]),)
    # MatMul takes any axes in front of the rows, if the other side has none of them.
    rows = tuple([x.dims[axis] for axis in axes.left])
    if axes.batch or not rows:
        rows = (product(rows),)
    columns = (product([y.dims[axis] for axis in axes.right]),)
    batch = tuple([x.dims[axis] for axis in axes.batch])
    a = _ordered(w, x, [*axes.batch, *axes.left, *axes.summed], (*batch, *rows, *last))
    b = _ordered(w, y, [*axes.batch, *axes.summed, *axes.right], (*batch, *last, *columns))
    made = w.op("MatMul", [a, b], (*batch, *rows, *columns), node.dtype)
    kept = [*axes.batch, *axes.left, *axes.right]
    sides = (*[x.dims[axis] for axis in axes.left], *[y.dims[axis] for axis in axes.right])
    made = w.reshape(made, (*batch, *sides))
    made = w.transpose(made, sorted(range(len(kept)), key=kept.__getitem__))
    sizes = iter(made.dims)
    return w.reshape(made, tuple([next(sizes) if axis in kept else 1 for axis in range(node.ndim)]))


def _ordered(w: GraphWriter, x: GraphValue, order: list[int], dims: Dims) -> GraphValue:
    """Return `x` with its axes, of which all others have size 1, in an order and then in a shape."""
    kept = sorted(order)
    x = w.reshape(x, tuple([x.dims[axis] for axis in kept]))
    return w.reshape(w.transpose(x, [kept.index(axis) for axis in order]), dims)
