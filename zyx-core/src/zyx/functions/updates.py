"""Products added to a tensor, and slices of it replaced or added to, under PyTorch's names.

The methods of PyTorch that end in an underscore assign the same results.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from zyx import dtype as dtypes
from zyx import shape as shapes
from zyx.errors import ArgumentError, ShapeError
from zyx.functions import reduction, take_habits
from zyx.functions.arithmetic import pow as power
from zyx.functions.choosing import where
from zyx.functions.cumulative import cumsum
from zyx.functions.indexing import replaced
from zyx.functions.linalg import matmul, norm, outer
from zyx.functions.movement import diagonal, moveaxis, reshape
from zyx.functions.operands import is_tensor, require, wrap
from zyx.functions.rearranging import diag_embed
from zyx.functions.selection import scatter, scatter_reduce, take
from zyx.integers import as_integer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.functions import Tensor
    from zyx.functions.operands import Operand

__all__ = [
    "addbmm", "addcdiv", "addcmul", "addmm", "addmv", "addr", "baddbmm", "cdist", "diagonal_scatter", "dist",
    "index_add", "index_copy", "index_fill", "index_put", "index_reduce", "masked_scatter", "renorm",
    "select_scatter", "slice_scatter",
]  # fmt: skip


# ---- products added


def _added(x: Tensor, product: Tensor, beta: float, alpha: float) -> Tensor:
    scaled = product if alpha == 1 else product * alpha
    if beta == 0:  # what is not read cannot be NaN
        return scaled.broadcast_to(shapes.broadcast(x.node.shape, scaled.node.shape))
    return scaled + (x if beta == 1 else x * beta)


def addmm(x: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """Return ``beta * x + alpha * mat1 @ mat2``; with a `beta` of 0, `x` is not read.

    `mat1` is (N, M), `mat2` (M, P); `x` broadcasts to (N, P), the shape of the result.

    Raises:
        ShapeError: The shapes do not fit together.

    >>> zyx.addmm(zyx.ones(2, 2), zyx.ones(2, 3), zyx.ones(3, 2)).tolist()
    [[4.0, 4.0], [4.0, 4.0]]
    """
    return _added(require(x, "addmm"), matmul(mat1, mat2), beta, alpha)


def addmv(x: Tensor, mat: Tensor, vec: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """Return ``beta * x + alpha * mat @ vec``; see `addmm`.

    `mat` is (N, M), `vec` (M,); `x` broadcasts to (N,), the shape of the result.

    Raises:
        ShapeError: The shapes do not fit together.

    >>> zyx.addmv(zyx.Tensor([1.0, 1.0]), zyx.ones(2, 3), zyx.ones(3)).tolist()
    [4.0, 4.0]
    """
    return _added(require(x, "addmv"), matmul(mat, vec), beta, alpha)


def addr(x: Tensor, vec1: Tensor, vec2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """Return ``beta * x`` plus `alpha` times the outer product of two vectors; see `addmm`.

    `vec1` is (N,), `vec2` (M,); `x` broadcasts to (N, M), the shape of the result.

    Raises:
        ShapeError: The shapes do not fit together.

    >>> zyx.addr(zyx.zeros(2, 2), zyx.Tensor([1.0, 2.0]), zyx.Tensor([3.0, 4.0])).tolist()
    [[3.0, 4.0], [6.0, 8.0]]
    """
    return _added(require(x, "addr"), outer(vec1, vec2), beta, alpha)


def baddbmm(x: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """Return ``beta * x + alpha * batch1 @ batch2`` of each matrix of a batch; see `addmm`.

    Raises:
        ShapeError: The shapes do not fit together.

    >>> zyx.baddbmm(zyx.ones(4, 2, 2), zyx.ones(4, 2, 3), zyx.ones(4, 3, 2)).shape
    (4, 2, 2)
    """
    return _added(require(x, "baddbmm"), matmul(batch1, batch2), beta, alpha)


def addbmm(x: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """Return ``beta * x`` plus `alpha` times the sum over a batch of ``batch1 @ batch2``; see `addmm`.

    `x` broadcasts to (N, P); `batch1` is (B, N, M) and `batch2` (B, M, P).

    Raises:
        ShapeError: The shapes do not fit together.

    >>> zyx.addbmm(zyx.ones(2, 2), zyx.ones(4, 2, 3), zyx.ones(4, 3, 2)).tolist()
    [[13.0, 13.0], [13.0, 13.0]]
    """
    return _added(require(x, "addbmm"), reduction.sum(matmul(batch1, batch2), 0), beta, alpha)


def addcmul(x: Tensor, tensor1: Operand, tensor2: Operand, *, value: float = 1) -> Tensor:
    """Return ``x + value * tensor1 * tensor2``.

    The result has the shape that all three broadcast to.

    Raises:
        ShapeError: The shapes do not broadcast.

    >>> zyx.addcmul(zyx.Tensor([1.0, 1.0]), zyx.Tensor([4.0, 6.0]), 2.0, value=0.5).tolist()
    [5.0, 7.0]
    """
    product = require(tensor1, "addcmul") * tensor2
    return require(x, "addcmul") + (product if value == 1 else product * value)


def addcdiv(x: Tensor, tensor1: Operand, tensor2: Operand, *, value: float = 1) -> Tensor:
    """Return ``x + value * tensor1 / tensor2``.

    The result has the shape that all three broadcast to.

    Raises:
        ShapeError: The shapes do not broadcast.

    >>> zyx.addcdiv(zyx.Tensor([1.0, 1.0]), zyx.Tensor([4.0, 6.0]), 2.0, value=0.5).tolist()
    [2.0, 2.5]
    """
    product = require(tensor1, "addcdiv")
    return require(x, "addcdiv") + (product if value == 1 else product * value) / tensor2


# ---- distances


def dist(x: Tensor, y: Tensor, p: float = 2.0) -> Tensor:
    """Return the norm of order `p` of the difference of all elements.

    Raises:
        ShapeError: The shapes of `x` and `y` do not broadcast.

    >>> zyx.dist(zyx.Tensor([3.0, 0.0]), zyx.Tensor([0.0, 4.0])).item()
    5.0
    """
    apart = require(x, "dist") - require(y, "dist")
    return norm(reshape(apart, apart.size), p)


def cdist(x: Tensor, y: Tensor, p: float = 2.0) -> Tensor:
    """Return the distances, of order `p`, of each of the vectors `x`, (..., P, M), from each of `y`, (..., R, M).

    They are computed from differences, and not from a product of matrices, so close vectors lose no digits. The slope
    at a distance of 0 is 0.

    Returns:
        (..., P, R).

    Raises:
        ShapeError: Vectors of other lengths, or fewer than two axes.
        ArgumentError: A negative `p`.

    >>> zyx.cdist(zyx.Tensor([[0.0, 0.0]]), zyx.Tensor([[3.0, 4.0]])).tolist()
    [[5.0]]
    """
    a, b = require(x, "cdist"), require(y, "cdist")
    if a.node.ndim < 2 or b.node.ndim < 2 or a.node.shape[-1] != b.node.shape[-1]:
        raise ShapeError(f"cdist takes (..., P, M) and (..., R, M), not {a.node.shape} and {b.node.shape}")
    if not p >= 0:
        raise ArgumentError(f"cdist: p is at least 0, not {p}")
    apart = (a.expand_dims(-2) - b.expand_dims(-3)).abs()
    if p == 0:
        return (apart != 0).astype(apart.node.dtype).sum(axis=-1)
    if not apart.node.shape[-1]:
        return apart.sum(axis=-1)
    if p == math.inf:
        return apart.max(axis=-1)
    if p == 1:
        return apart.sum(axis=-1)
    total = (apart * apart if p == 2 else power(apart, p)).sum(axis=-1)
    is_zero = total == 0
    return where(is_zero, 0.0, power(where(is_zero, 1.0, total), 1 / p))


def renorm(x: Tensor, p: float, axis: int, maxnorm: float) -> Tensor:
    """Return `x`, whose slices along `axis` of a norm of order `p` above `maxnorm` are scaled down to it.

    Raises:
        AxisError: `x` has no such axis.

    >>> [[round(v, 4) for v in row] for row in zyx.renorm(zyx.Tensor([[3.0, 4.0], [0.5, 0.0]]), 2, 0, 1.0).tolist()]
    [[0.6, 0.8], [0.5, 0.0]]
    """
    base = require(x, "renorm")
    place = shapes.normalize_axis(axis, base.node.ndim)
    others = tuple(i for i in range(base.node.ndim) if i != place)
    size = norm(reshape(moveaxis(base, place, 0), base.node.shape[place], -1), p, 1)
    size = reshape(size, [base.node.shape[place] if i == place else 1 for i in range(base.node.ndim)])
    return base * where(size > maxnorm, maxnorm / (size + 1e-7), 1.0) if others else base


# ---- slices replaced


def _spread(index: Tensor, source: Tensor, axis: int) -> Tensor:
    """Return a vector of places in the shape of `source`, along `axis`."""
    return reshape(index, [-1 if i == axis else 1 for i in range(source.node.ndim)]).broadcast_to(source.node.shape)


def _sliced(x: Tensor, axis: int, index: Tensor, source: Tensor, what: str) -> tuple[Tensor, int, Tensor, Tensor]:
    base, places, values = require(x, what), require(index, what), require(source, what)
    if not base.node.ndim:
        base, values = reshape(base, 1), reshape(values, max(values.size, 1))
    if not places.node.ndim:
        places = reshape(places, 1)
    place = shapes.normalize_axis(axis, base.node.ndim)
    if values.node.ndim < base.node.ndim:
        values = values.expand_dims(place)
    wanted = (*base.node.shape[:place], places.size, *base.node.shape[place + 1 :])
    if places.node.ndim != 1 or values.node.shape != wanted:
        raise ShapeError(
            f"{what}: {places.node.shape} places along axis {axis} want values {wanted}, not {values.node.shape}"
        )
    return base, place, _spread(places, values, place), values


def index_add(x: Tensor, axis: int, index: Tensor, source: Tensor, *, alpha: float = 1) -> Tensor:
    """Return `x` with slice i of `source`, times `alpha`, added to its slice ``index[i]`` along `axis`.

    Raises:
        ShapeError: `source` has another shape than `x` with as many positions along `axis` as `index` has.

    >>> zyx.index_add(zyx.zeros(3), 0, zyx.Tensor([0, 2]), zyx.Tensor([1.0, 2.0])).tolist()
    [1.0, 0.0, 2.0]
    """
    base, place, places, values = _sliced(x, axis, index, source, "index_add")
    return reshape(scatter(base, place, places, values if alpha == 1 else values * alpha, "sum"), x.node.shape)


def index_copy(x: Tensor, axis: int, index: Tensor, source: Tensor) -> Tensor:
    """Return `x` with slice i of `source` in the place of its slice ``index[i]`` along `axis`; see `index_add`.

    Raises:
        AxisError: `x` has no such axis.
        ShapeError: `source` has another shape than the slices.

    >>> zyx.index_copy(zyx.zeros(3), 0, zyx.Tensor([2, 0]), zyx.Tensor([5.0, 7.0])).tolist()
    [7.0, 0.0, 5.0]
    """
    base, place, places, values = _sliced(x, axis, index, source, "index_copy")
    return reshape(scatter(base, place, places, values), x.node.shape)


def index_reduce(
    x: Tensor, axis: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Return `x` with slice i of `source` combined into its slice ``index[i]``: "prod", "mean", "amax" or "amin".

    `source` has the shape of `x`, but as many slices along `axis` as `index` has elements.

    Raises:
        AxisError: `x` has no such axis.
        ShapeError: Another `reduce`.

    >>> zyx.index_reduce(zyx.ones(2), 0, zyx.Tensor([0, 0, 1]), zyx.Tensor([2.0, 3.0, 4.0]), "prod").tolist()
    [6.0, 4.0]
    """
    base, place, places, values = _sliced(x, axis, index, source, "index_reduce")
    found = scatter_reduce(base, place, places, values, reduce, include_self=include_self)
    return reshape(found, x.node.shape)


def index_fill(x: Tensor, axis: int, index: Tensor, value: float | Tensor) -> Tensor:
    """Return `x` with `value` in its slices `index` along `axis`.

    Raises:
        AxisError: `x` has no such axis.

    >>> zyx.index_fill(zyx.zeros(3), 0, zyx.Tensor([0, 2]), 9.0).tolist()
    [9.0, 0.0, 9.0]
    """
    base, places = require(x, "index_fill"), require(index, "index_fill")
    inner = base if base.node.ndim else reshape(base, 1)
    place = shapes.normalize_axis(axis, inner.node.ndim)
    rows = reshape(places, places.size)
    shape = (*inner.node.shape[:place], places.size, *inner.node.shape[place + 1 :])
    fill = (
        value
        if is_tensor(value)
        else wrap(base.runtime.graph.const(0, base.node.dtype, base.node.device), base) + value
    )
    values = fill.astype(base.node.dtype).broadcast_to(shape)
    return reshape(scatter(inner, place, _spread(rows, values, place), values), base.node.shape)


def index_put(x: Tensor, indices: Sequence[Tensor], values: Tensor, accumulate: bool = False) -> Tensor:
    """Return `x` with ``x[indices] = values``; with `accumulate`, all values are added to what is there.

    Raises:
        ShapeError: More indices than axes, or values that do not broadcast.

    >>> zyx.index_put(zyx.zeros(3), (zyx.Tensor([0, 0]),), zyx.Tensor([1.0, 2.0]), accumulate=True).tolist()
    [3.0, 0.0, 0.0]
    """
    base, key = require(x, "index_put"), tuple(indices)
    if not accumulate:
        return replaced(base, key, values)
    shape = base.node.shape
    places = wrap(base.runtime.graph.iota((shapes.size_of(shape),), 0, dtypes.int64, base.node.device), base)
    at = reshape(places, shape)[key]
    amounts = require(values, "index_put").broadcast_to(at.node.shape)
    found = scatter(reshape(base, base.size), 0, reshape(at, at.size), reshape(amounts, at.size), "sum")
    return reshape(found, shape)


def masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Return `x` with the first elements of `source`, in row-major order, where `mask` holds; the two broadcast.

    Nothing is read: where `source` has too few, the result is 0.

    Raises:
        ShapeError: The shapes do not broadcast.

    >>> zyx.masked_scatter(zyx.zeros(3), zyx.Tensor([True, False, True]), zyx.Tensor([5.0, 7.0])).tolist()
    [5.0, 0.0, 7.0]
    """
    base, chooser = require(x, "masked_scatter"), require(mask, "masked_scatter")
    values = require(source, "masked_scatter")
    shape = shapes.broadcast(base.node.shape, chooser.node.shape)
    chosen = (chooser != 0).broadcast_to(shape)
    flat = reshape(chosen, chosen.size)
    places = (cumsum(flat.astype(dtypes.int64), 0) - 1).clip(0, None)
    found = take(reshape(values, values.size), places, 0) if values.size else flat.astype(base.node.dtype) * 0
    return where(chosen, reshape(found, shape).astype(base.node.dtype), base.broadcast_to(shape))


def select_scatter(x: Tensor, source: Tensor, axis: int, index: int) -> Tensor:
    """Return `x` with `source` in the place of its slice at `index` along `axis`.

    Raises:
        AxisError: `x` has no such axis.
        ShapeError: `source` has another shape than the slice.

    >>> zyx.select_scatter(zyx.zeros(2, 2), zyx.Tensor([5.0, 7.0]), 0, 1).tolist()
    [[0.0, 0.0], [5.0, 7.0]]
    """
    base = require(x, "select_scatter")
    place = shapes.normalize_axis(axis, base.node.ndim)
    return replaced(base, (*[slice(None)] * place, as_integer(index, "index")), require(source, "select_scatter"))


def slice_scatter(
    x: Tensor, source: Tensor, axis: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """Return `x` with `source` in the place of ``x[start:end:step]`` along `axis`.

    Raises:
        ShapeError: The shapes of `x` and `source` do not fit together.
        AxisError: `x` has no such axis.

    >>> zyx.slice_scatter(zyx.zeros(4), zyx.ones(2), start=1, end=3).tolist()
    [0.0, 1.0, 1.0, 0.0]
    """
    base = require(x, "slice_scatter")
    place = shapes.normalize_axis(axis, base.node.ndim)
    bounds = [None if each is None else as_integer(each, name) for each, name in ((start, "start"), (end, "end"))]
    part = slice(bounds[0], bounds[1], as_integer(step, "step"))
    return replaced(base, (*[slice(None)] * place, part), require(source, "slice_scatter"))


def diagonal_scatter(x: Tensor, source: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """Return `x` with `source` on the diagonal that `diagonal` reads.

    Raises:
        ShapeError: `source` has another shape than that diagonal.

    >>> zyx.diagonal_scatter(zyx.zeros(2, 2), zyx.Tensor([1.0, 2.0])).tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    base, values = require(x, "diagonal_scatter"), require(source, "diagonal_scatter")
    wanted = diagonal(base, offset, axis1, axis2).node.shape
    if values.node.shape != wanted:
        raise ShapeError(f"diagonal_scatter: the diagonal has shape {wanted}, not {values.node.shape}")
    offset = as_integer(offset, "offset")
    first, second = (shapes.normalize_axis(axis, base.node.ndim) for axis in (axis1, axis2))
    moved = moveaxis(base, (first, second), (-2, -1))
    rows, columns = moved.node.shape[-2:]
    graph = base.runtime.graph
    row, column = (wrap(graph.iota((rows, columns), axis, dtypes.int32, base.node.device), base) for axis in (0, 1))
    made: Any = diag_embed(values, offset)
    size = made.node.shape[-1]
    widths = [(0, 0)] * (made.node.ndim - 2) + [(0, max(rows - size, 0)), (0, max(columns - size, 0))]
    spread = made.pad(widths)[..., :rows, :columns]
    found = (column - row == offset).where(spread.astype(base.node.dtype), moved)
    return moveaxis(found, (-2, -1), (first, second))


take_habits(globals())
