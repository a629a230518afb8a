"""Products of vectors and matrices, and norms of vectors.

Each product is one of two operands expanded against each other, summed along the axes they share; that form is what
the scheduler knows as a matrix product. Dtypes are promoted; float16 and bfloat16 are multiplied and summed in float32,
and the result is rounded once. Integers keep their dtype and wrap; bools become int64. Axes of norms are those of
`zyx.functions.reduction`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx import shape as shapes
from zyx.dtype import as_dtype
from zyx.errors import ShapeError
from zyx.functions import complex_numbers, formulas, take_habits
from zyx.functions.joining import join_terms
from zyx.functions.movement import diagonal
from zyx.functions.operands import (
    align,
    common_dtype,
    first_tensor,
    float_dtype,
    lowered,
    node_of,
    require,
    term_of,
    wide_term,
    wrap,
)
from zyx.functions.reduction import check_not_empty, drop_axes, sum_dtype
from zyx.functions.term import Term, broadcast_shapes
from zyx.integers import as_index, is_several
from zyx.modes import low_precision
from zyx.ops import ReduceOp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.dtype import DType, DTypeLike
    from zyx.functions import Tensor
    from zyx.functions.operands import Operand
    from zyx.functions.reduction import AxisLike

__all__ = [
    "cosine_similarity", "cross", "dot", "matmul", "matrix_power", "norm", "normalize", "outer", "tensordot", "trace",
    "vecdot",
]  # fmt: skip


def factors(operands: Sequence[Operand], what: str, dtype: DTypeLike | None = None) -> tuple[Tensor, list[Term], DType]:
    """Return a tensor among `operands`, all of them in the type of the sums, and the type of the result."""
    like = first_tensor(operands, what)
    common = common_dtype(operands, what)
    if low_precision() is not None:
        common = lowered(common)
    target = (dtypes.int64 if common.is_bool else common) if dtype is None else as_dtype(dtype)
    wide = dtypes.accumulator(target)
    graph = like.runtime.graph
    nodes = [graph.cast(node_of(x, common, like), wide) for x in operands]
    return like, [Term(graph, node) for node in nodes], target


def matmul(x: Operand, y: Operand, *, dtype: DTypeLike | None = None) -> Tensor:
    """Return the matrix product.

    Args:
        x: ``(..., m, k)`` or ``(k,)``.
        y: ``(..., k, n)`` or ``(k,)``. The axes in front broadcast.
        dtype: Of the result, and of the sums; the promoted one if None.

    Returns:
        ``(..., m, n)``, without m or n where an operand has one axis.

    Raises:
        ShapeError: Rank 0, different k, or axes in front that do not broadcast.

    >>> zyx.matmul(zyx.ones(2, 3), zyx.ones(3, 4)).shape
    (2, 4)
    """
    like, (left, right), target = factors((x, y), "matmul", dtype)
    a, b = left.node.shape, right.node.shape
    if not a or not b:
        raise ShapeError(f"matmul needs at least one axis on each side: {a} @ {b}; multiply numbers with *")
    row, column = len(a) == 1, len(b) == 1
    if row:
        left = left.reshape((1, *a))
    if column:
        right = right.reshape((*b, 1))
    m, k = (1, *a) if row else a[-2:]
    k_too, n = (*b, 1) if column else b[-2:]
    if k != k_too:
        raise ShapeError(f"matmul: {a} @ {b}: {k} columns on the left, {k_too} rows on the right")
    try:
        batch = broadcast_shapes(a[:-2], b[:-2])
    except ShapeError as error:
        raise ShapeError(f"matmul: {a} @ {b}: the axes in front do not broadcast") from error
    last = len(right.node.shape) - 1
    turned = right.permute([*range(last - 1), last, last - 1])
    left = left.reshape((*a[:-2], m, 1, k)).expand((*batch, m, n, k))
    turned = turned.reshape((*b[:-2], 1, n, k)).expand((*batch, m, n, k))
    total = (left * turned).sum((len(batch) + 2,)).cast(target)
    return wrap(total.reshape((*batch, *([] if row else [m]), *([] if column else [n]))).node, like)


def vecdot(x: Operand, y: Operand, *, axis: int = -1) -> Tensor:
    """Return the sum of ``conj(x) * y`` along `axis`, which both have with the same size; other axes broadcast.

    Raises:
        ShapeError: Different sizes.

    >>> zyx.vecdot(zyx.Tensor([[1.0, 2.0]]), zyx.Tensor([[3.0, 4.0]])).tolist()
    [11.0]
    """
    like, (a, b), target = factors((x, y), "vecdot")
    if not a.shape or not b.shape:
        raise ShapeError(f"vecdot needs an axis on each side, not {a.shape} and {b.shape}")
    places = [shapes.normalize_axis(axis, len(v.shape)) for v in (a, b)]
    sizes = [v.shape[i] for v, i in zip((a, b), places, strict=True)]
    if sizes[0] != sizes[1]:
        raise ShapeError(f"vecdot: {a.shape} and {b.shape} have sizes {sizes[0]} and {sizes[1]} along axis {axis}")
    a, b = (v.permute([i for i in range(len(v.shape)) if i != p] + [p]) for v, p in zip((a, b), places, strict=True))
    product = Term(a.graph, a.graph.conjugate(a.node)) * b
    last = len(product.shape) - 1
    return wrap(product.sum((last,)).cast(target).reshape(product.shape[:-1]).node, like)


def dot(x: Operand, y: Operand, *, dtype: DTypeLike | None = None) -> Tensor:
    """Return `matmul`, or the plain product if an operand has rank 0.

    Raises:
        ShapeError: The shapes of `x` and `y` do not fit together.

    >>> zyx.dot(zyx.Tensor([1.0, 2.0]), zyx.Tensor([3.0, 4.0])).item()
    11.0
    """
    if any(getattr(operand, "ndim", 0) == 0 for operand in (x, y)):
        like, (a, b), target = factors((x, y), "dot", dtype)
        return wrap((a * b).cast(target).node, like)
    return matmul(x, y, dtype=dtype)


def outer(x: Operand, y: Operand) -> Tensor:
    """Return the matrix of products of each element of `x` with each of `y`.

    Raises:
        DTypeError: Neither is a tensor, or one is nothing to compute with.

    >>> zyx.outer(zyx.Tensor([1, 2]), zyx.Tensor([3, 4])).tolist()
    [[3, 4], [6, 8]]
    """
    like, (a, b), target = factors((x, y), "outer")
    rows, columns = shapes.size_of(a.shape), shapes.size_of(b.shape)
    return wrap((a.reshape((rows, 1)) * b.reshape((1, columns))).cast(target).node, like)


def tensordot(x: Operand, y: Operand, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Tensor:
    """Return the sums of products along pairs of axes.

    Args:
        x: Any rank.
        y: Any rank.
        axes: A count n pairs the last n axes of `x` with the first n of `y`; two sequences pair the axes they name.

    Returns:
        The other axes of `x`, then those of `y`.

    Raises:
        ShapeError: Paired axes of different sizes, or more pairs than axes.

    >>> zyx.tensordot(zyx.ones(2, 3), zyx.ones(3, 4), 1).shape
    (2, 4)
    """
    like, (a, b), target = factors((x, y), "tensordot")
    axes = _checked_axes(axes)
    if isinstance(axes, int):
        if not 0 <= axes <= min(len(a.shape), len(b.shape)):
            raise ShapeError(f"tensordot: {axes} axes of {a.shape} and {b.shape}")
        left, right = tuple(range(len(a.shape) - axes, len(a.shape))), tuple(range(axes))
    else:
        left = shapes.normalize_axes(axes[0], len(a.shape), "axes")
        right = shapes.normalize_axes(axes[1], len(b.shape), "axes")
    if [a.shape[i] for i in left] != [b.shape[i] for i in right]:
        raise ShapeError(f"tensordot: axes {left} of {a.shape} and {right} of {b.shape} do not match")
    free_left = [i for i in range(len(a.shape)) if i not in left]
    free_right = [i for i in range(len(b.shape)) if i not in right]
    kept = [a.shape[i] for i in free_left] + [b.shape[i] for i in free_right]
    summed = [a.shape[i] for i in left]
    a = a.permute([*free_left, *left]).reshape([a.shape[i] for i in free_left] + [1] * len(free_right) + summed)
    b = b.permute([*free_right, *right])
    product = a * b
    result = product.sum(range(len(kept), len(kept) + len(summed)))
    return wrap(result.cast(target).reshape(kept).node, like)


def _checked_axes(axes: object) -> int | tuple[Sequence[int], Sequence[int]]:
    """Return what `tensordot` is given as `axes`, of which the numbers are still to be compared with the operands."""
    if not is_several(axes):
        return as_index(axes, "axes")
    if isinstance(axes, list | tuple) and len(axes) == 2:
        return axes[0], axes[1]
    raise ShapeError(f"tensordot: axes is a number of axes or two sequences of them, not {axes!r}")


def trace(x: Tensor, offset: int = 0, *, dtype: DTypeLike | None = None) -> Tensor:
    """Return the sum of a diagonal of the matrices in the last two axes; dtypes as for `sum`.

    Raises:
        AxisError: `x` has fewer axes than two.

    >>> zyx.trace(zyx.Tensor([[1, 2], [3, 4]])).item()
    5
    """
    term = term_of(diagonal(x, offset), "trace")
    target = sum_dtype(term.dtype) if dtype is None else as_dtype(dtype)
    total = term.cast(dtypes.accumulator(target)).sum((len(term.shape) - 1,)).cast(target)
    return wrap(total.reshape(term.shape[:-1]).node, x)


def cross(x: Operand, y: Operand, *, axis: int = -1) -> Tensor:
    """Return the cross product of vectors of 3 along `axis`; other axes broadcast.

    Raises:
        ShapeError: Another size than 3.

    >>> zyx.cross(zyx.Tensor([1, 0, 0]), zyx.Tensor([0, 1, 0])).tolist()
    [0, 0, 1]
    """
    like, (a, b) = align((x, y), "cross")
    place = shapes.normalize_axis(axis, len(a.shape))
    for operand in (x, y):  # not what they were broadcast to
        shape = (1,) * len(a.shape) + tuple(getattr(operand, "shape", ()))
        size = shape[len(shape) - len(a.shape) + place]
        if size != 3:
            raise ShapeError(f"cross: vectors have 3 elements, axis {axis} of {shape[len(a.shape) :]} has {size}")

    def turned(v: Term, by: int) -> Term:
        return join_terms([v.narrow(place, by, 3), v.narrow(place, 0, by)], place)

    return wrap((turned(a, 1) * turned(b, 2) - turned(a, 2) * turned(b, 1)).node, like)


def matrix_power(x: Tensor, n: int) -> Tensor:
    """Return the square matrices `x` multiplied with themselves, `n` >= 1 factors.

    Raises:
        ShapeError: Not square, or `n` below 1.

    >>> zyx.matrix_power(zyx.Tensor([[1, 1], [0, 1]]), 3).tolist()
    [[1, 3], [0, 1]]
    """
    shape, n = require(x, "matrix_power").node.shape, as_index(n, "n")
    if len(shape) < 2 or shape[-1] != shape[-2] or n < 1:
        raise ShapeError(f"matrix_power takes square matrices and n >= 1, not {shape} and {n}")
    result = x
    for bit in f"{n:b}"[1:]:
        result = matmul(result, result)
        if bit == "1":
            result = matmul(result, x)
    return result


# ---- norms


def norm(x: Tensor, ord: float | str = 2.0, axis: AxisLike = None, *, keepdims: bool = False) -> Tensor:
    """Return the vector norm along `axis`: ``sum(|x| ** ord) ** (1 / ord)``.

    `ord` may also be infinity (greatest magnitude), minus infinity (least), 0 (how many are not 0) or "fro", which is
    2. At a zero vector the gradient is 0. Integers and bools are computed as float32; of complex numbers it is the
    norm of magnitudes.

    Raises:
        ShapeError: Another text: ``zyx.linalg.matrix_norm`` has the norms of matrices.

    >>> zyx.norm(zyx.Tensor([3.0, 4.0])).item()
    5.0
    """
    term = wide_term(x, "norm")
    if term.dtype.is_complex:
        term = complex_numbers.magnitude(term)
    target = float_dtype(term.dtype)
    axes = shapes.normalize_axes(axis, len(term.shape))
    wide = term.cast(dtypes.accumulator(target))
    return wrap(drop_axes(_norm(wide, ord, axes).cast(target), axes, keepdims=keepdims).node, x)


def _norm(term: Term, order: float | str, axes: Sequence[int]) -> Term:
    if order == "fro":
        order = 2
    if isinstance(order, str):
        raise ShapeError(f"norm: ord is a number or 'fro', not {order!r}; 'nuc' is of zyx.linalg.matrix_norm")
    if order == 2:
        return formulas.safe_sqrt((term * term).sum(axes))
    size = term.abs()
    if order == 1:
        return size.sum(axes)
    if order == 0:
        return (term != 0).cast(term.dtype).sum(axes)
    if math.isinf(order):
        check_not_empty(term, axes, "norm")
        return size.reduce(ReduceOp.MAX if order > 0 else ReduceOp.MIN, axes)
    total = formulas.power(size, order).sum(axes)
    return formulas.power(total, 1.0 / order)


def normalize(x: Tensor, ord: float = 2.0, axis: AxisLike = -1, eps: float = 1e-12) -> Tensor:
    """Return `x` divided by its norm along `axis`, or by `eps` where that is greater.

    Raises:
        DTypeError: `x` is complex.
        AxisError: `x` has no such axis.

    >>> zyx.normalize(zyx.Tensor([0.0, 2.0])).tolist()
    [0.0, 1.0]
    """
    term = term_of(x, "normalize")
    target = float_dtype(term.dtype)
    wide = term.cast(dtypes.accumulator(target))
    length = _norm(wide, ord, shapes.normalize_axes(axis, len(term.shape)))
    return wrap((wide / (length < eps).where(eps, length)).cast(target).node, x)


def cosine_similarity(x: Tensor, y: Tensor, axis: int = 1, eps: float = 1e-8) -> Tensor:
    """Return the cosine of the angle between vectors along `axis`; lengths count as at least `eps`.

    Raises:
        DTypeError: `x` or `y` is complex.
        AxisError: `x` has no such axis.

    >>> zyx.cosine_similarity(zyx.Tensor([[1.0, 0.0]]), zyx.Tensor([[2.0, 0.0]])).tolist()
    [1.0]
    """
    like, (a, b) = align((require(x, "cosine_similarity"), y), "cosine_similarity", floating=True)
    target = a.dtype
    wide = dtypes.accumulator(target)
    a, b = a.cast(wide), b.cast(wide)
    axes = shapes.normalize_axes(axis, len(a.shape))
    lengths = [_norm(v, 2, axes) for v in (a, b)]
    bounded = [(length < eps).where(eps, length) for length in lengths]
    result = (a * b).sum(axes) / (bounded[0] * bounded[1])
    return wrap(drop_axes(result.cast(target), axes, keepdims=False).node, like)


take_habits(globals(), but=("matmul",))
