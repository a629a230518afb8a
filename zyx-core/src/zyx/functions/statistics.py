"""Averages, covariances and order statistics, under NumPy's and PyTorch's names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx import shape as shapes
from zyx.errors import ArgumentError, DTypeError, ShapeError
from zyx.functions import reduction, take_habits
from zyx.functions.choosing import clip, where
from zyx.functions.complex_numbers import conj
from zyx.functions.cumulative import cummax
from zyx.functions.joining import concat
from zyx.functions.linalg import matmul
from zyx.functions.movement import diagonal, matrix_transpose, moveaxis, reshape
from zyx.functions.operands import float_dtype, require, wrap
from zyx.functions.selection import take_along_axis
from zyx.functions.sorting import ValuesIndices, argsort, sort
from zyx.integers import as_integer
from zyx.ops import ReduceOp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.functions import Tensor
    from zyx.functions.reduction import AxisLike

__all__ = [
    "amax", "amin", "argpartition", "average", "corrcoef", "cov", "kthvalue", "lexsort", "mode", "msort",
    "partition", "ptp",
]  # fmt: skip


def average(x: Tensor, axis: AxisLike = None, weights: Tensor | None = None, *, keepdims: bool = False) -> Tensor:
    """Return the mean along `axis`, weighed by `weights`: of the shape of `x`, or of its size along the one axis.

    Raises:
        ShapeError: `weights` have another shape.

    >>> zyx.average(zyx.Tensor([1.0, 3.0]), weights=zyx.Tensor([3.0, 1.0])).item()
    1.5
    """
    base = require(x, "average")
    if weights is None:
        return reduction.mean(base, axis, keepdims=keepdims)
    own = require(weights, "average")
    if own.node.shape != base.node.shape:
        if own.node.ndim != 1 or type(axis) is not int:
            raise ShapeError(f"average: weights of shape {own.node.shape} for {base.node.shape} along axis {axis}")
        place = shapes.normalize_axis(axis, base.node.ndim)
        if own.size != base.node.shape[place]:
            raise ShapeError(f"average: {own.size} weights for {base.node.shape[place]} positions along axis {axis}")
        own = reshape(own, [own.size if i == place else 1 for i in range(base.node.ndim)])
        own = own.broadcast_to(base.node.shape)
    dtype = float_dtype(base.node.dtype)
    total = reduction.sum(base.astype(dtype) * own, axis, keepdims=keepdims)
    return total / reduction.sum(own.astype(dtype), axis, keepdims=keepdims)


def amax(x: Tensor, axis: AxisLike = None, *, keepdims: bool = False) -> Tensor:
    """Return the greatest element along `axis`; `max`, by a name that means values in every library.

    Raises:
        DTypeError: `x` is complex.
        AxisError: `x` has no such axis.

    >>> zyx.amax(zyx.Tensor([[1, 5], [7, 3]]), axis=1).tolist()
    [5, 7]
    """
    return reduction.extreme(x, ReduceOp.MAX, axis, "amax", keepdims=keepdims)


def amin(x: Tensor, axis: AxisLike = None, *, keepdims: bool = False) -> Tensor:
    """Return the least element along `axis`; `min`, by a name that means values in every library.

    Raises:
        DTypeError: `x` is complex.
        AxisError: `x` has no such axis.

    >>> zyx.amin(zyx.Tensor([[1, 5], [7, 3]]), axis=1).tolist()
    [1, 3]
    """
    return reduction.extreme(x, ReduceOp.MIN, axis, "amin", keepdims=keepdims)


def ptp(x: Tensor, axis: AxisLike = None, *, keepdims: bool = False) -> Tensor:
    """Return how far the greatest element along `axis` is above the least; its name means peak to peak.

    Raises:
        AxisError: `x` has no such axis.
        ShapeError: There are no elements.
        DTypeError: `x` is of bools, or complex.

    >>> zyx.ptp(zyx.Tensor([1, 5, 3])).item()
    4
    """
    least, greatest = reduction.aminmax(x, axis, keepdims=keepdims)
    return greatest - least


def cov(
    x: Tensor,
    y: Tensor | None = None,
    rowvar: bool = True,
    *,
    correction: float = 1.0,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:
    """Return the covariances of variables, (V, V); of one alone, its variance.

    V and N are the numbers of variables and observations, sizes of axes.

    Args:
        x: (V, N), a variable a row and an observation a column; or (N), one variable.
        y: More variables, in the same form.
        rowvar: False if variables are columns.
        correction: What is taken off the number of observations, which is then the divisor.
        fweights: (N), integers: how often each observation counts.
        aweights: (N): how much each counts.

    Raises:
        ShapeError: Rank 3 or more, or weights of another length.
        DTypeError: `fweights` are no integers.

    >>> zyx.cov(zyx.Tensor([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]])).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    rows = _variables(x, rowvar=rowvar)
    if y is not None:
        rows = concat([rows, _variables(y, rowvar=rowvar)], 0)
    rows = rows.astype(float_dtype(rows.node.dtype))
    count = rows.node.shape[1]
    weights: Tensor | None = None
    for name, given in (("fweights", fweights), ("aweights", aweights)):
        if given is None:
            continue
        if require(given, "cov").node.shape != (count,):
            raise ShapeError(f"cov: {name} have shape {given.node.shape}, for {count} observations")
        if name == "fweights" and not given.node.dtype.is_integer:
            raise DTypeError(f"cov: fweights are integers, not {given.node.dtype}")
        weights = given if weights is None else weights * given
    if weights is None:
        apart = rows - reduction.mean(rows, 1, keepdims=True)
        found = matmul(apart, conj(matrix_transpose(apart))) / max(count - correction, 0.0)
    else:
        weights = weights.astype(dtypes.float64 if rows.node.dtype.bits == 64 else dtypes.float32)
        total = weights.sum()
        apart = rows - reduction.sum(rows * weights, 1, keepdims=True) / total
        squares = total if aweights is None else (weights * aweights).sum() / total
        divisor = total - correction * squares if aweights is not None else total - correction
        found = matmul(apart * weights, conj(matrix_transpose(apart))) / divisor.clip(0.0, None)
    return reshape(found, ()) if found.size == 1 else found


def _variables(x: Tensor, *, rowvar: bool) -> Tensor:
    base = require(x, "cov")
    if base.node.ndim > 2:
        raise ShapeError(f"cov takes at most two axes; the shape is {base.node.shape}")
    if base.node.ndim < 2:
        return reshape(base, 1, base.size)
    return base if rowvar else matrix_transpose(base)


def corrcoef(x: Tensor, y: Tensor | None = None, rowvar: bool = True) -> Tensor:
    """Return the correlations of variables, (V, V), from -1 to 1; of one alone, 1. See `cov`.

    `x` and `y` have the shapes that `cov` takes.

    Raises:
        ShapeError: Rank 3 or more, or another number of observations.

    >>> x = zyx.Tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])
    >>> [round(v, 4) for v in zyx.corrcoef(x)[0].tolist()]
    [1.0, -1.0]
    """
    found = cov(x, y, rowvar)
    if not found.node.ndim:
        return found / found
    deviation = diagonal(found).real.sqrt()
    scaled: Tensor = found / reshape(deviation, -1, 1) / deviation
    return scaled if scaled.node.dtype.is_complex else clip(scaled, -1.0, 1.0)


# ---- order


def msort(x: Tensor) -> Tensor:
    """Return `x` in order along axis 0.

    Raises:
        AxisError: `x` has no axis.
        DTypeError: `x` is no tensor, or complex.

    >>> zyx.msort(zyx.Tensor([[3, 1], [2, 4]])).tolist()
    [[2, 1], [3, 4]]
    """
    return sort(x, 0)


def _kth(x: Tensor, kth: int | Sequence[int], axis: int, what: str) -> None:
    size = require(x, what).node.shape[shapes.normalize_axis(axis, x.node.ndim)]
    for place in [kth] if isinstance(kth, int) or not isinstance(kth, list | tuple) else kth:
        if not -size <= as_integer(place, "kth") < size:
            raise ShapeError(f"{what}: kth {place} is out of range for {size} positions along axis {axis}")


def partition(x: Tensor, kth: int | Sequence[int], axis: int = -1) -> Tensor:
    """Return `x` such that the element that sorting puts at `kth` is there, what is less before it, the rest behind.

    It is sorted as a whole, which is one such order.

    Raises:
        ShapeError: `kth` is out of range.

    >>> zyx.partition(zyx.Tensor([5, 1, 3]), 1)[1].item()
    3
    """
    _kth(x, kth, axis, "partition")
    return sort(x, axis)


def argpartition(x: Tensor, kth: int | Sequence[int], axis: int = -1) -> Tensor:
    """Return the places, int64, that bring `x` into the order of `partition`.

    The result has the shape of `x`.

    Raises:
        AxisError: `x` has no such axis.
        ShapeError: `kth` lies outside the axis.

    >>> zyx.argpartition(zyx.Tensor([5, 1, 3]), 0)[0].item()
    1
    """
    _kth(x, kth, axis, "argpartition")
    return argsort(x, axis)


def lexsort(keys: Sequence[Tensor] | Tensor, axis: int = -1) -> Tensor:
    """Return the places, int64, that sort by the last of `keys`, where it is equal by the one before, and so on.

    `keys` are of one shape, which the result has, too.

    Raises:
        ArgumentError: No keys.

    >>> zyx.lexsort((zyx.Tensor([3, 1, 2]), zyx.Tensor([1, 1, 0]))).tolist()
    [2, 1, 0]
    """
    given = list(keys)
    if not given:
        raise ArgumentError("lexsort takes at least one key")
    order = argsort(given[0], axis)
    for key in given[1:]:
        found = argsort(take_along_axis(key, order, axis), axis)
        order = take_along_axis(order, found, axis)
    return order


def kthvalue(x: Tensor, k: int, axis: int = -1, *, keepdims: bool = False) -> ValuesIndices:
    """Return the `k`-th least element along `axis`, counted from 1, and its place.

    Raises:
        ShapeError: There are fewer, or `k` is below 1.

    >>> [each.item() for each in zyx.kthvalue(zyx.Tensor([5, 1, 3]), 2)]
    [3, 2]
    """
    base, k = require(x, "kthvalue"), as_integer(k, "k")
    if not base.node.ndim:
        if k != 1 or axis not in (0, -1):
            raise ShapeError(f"kthvalue: element {k} of one, along axis {axis}")
        return ValuesIndices(base, wrap(base.runtime.graph.const(0, dtypes.int64, base.node.device), base))
    place = shapes.normalize_axis(axis, base.node.ndim)
    if not 1 <= k <= base.node.shape[place]:
        raise ShapeError(f"kthvalue: element {k} of the {base.node.shape[place]} along axis {axis}, counted from 1")
    where_ = argsort(base, place).narrow(place, k - 1, 1)
    values = take_along_axis(base, where_, place)
    return ValuesIndices(values, where_) if keepdims else ValuesIndices(values.squeeze(place), where_.squeeze(place))


def mode(x: Tensor, axis: int = -1, *, keepdims: bool = False) -> ValuesIndices:
    """Return the element that is most often along `axis`, of several the least, and its last place.

    Raises:
        ShapeError: No elements.

    >>> [each.item() for each in zyx.mode(zyx.Tensor([3, 1, 3, 2]))]
    [3, 2]
    """
    base = require(x, "mode")
    if not base.node.ndim:
        return ValuesIndices(base, wrap(base.runtime.graph.const(0, dtypes.int64, base.node.device), base))
    place = shapes.normalize_axis(axis, base.node.ndim)
    if not base.node.shape[place]:
        raise ShapeError(f"mode of no elements: axis {axis} of {base.node.shape}")
    order = argsort(base, place)
    ordered = moveaxis(take_along_axis(base, order, place), place, -1)
    last = _run_lengths(ordered.detach())
    best = moveaxis(reduction.argmax(last, -1, keepdims=True), -1, place)
    # Of equal elements sorting keeps the order: the last one of the run that ends here.
    found = take_along_axis(order, best, place)
    values = take_along_axis(base, found, place)
    return ValuesIndices(values, found) if keepdims else ValuesIndices(values.squeeze(place), found.squeeze(place))


def _run_lengths(ordered: Tensor) -> Tensor:
    """Return, at the end of each run of equal elements along the last axis, its length, and less elsewhere."""
    size = ordered.node.shape[-1]
    ramp = wrap(
        ordered.runtime.graph.iota(ordered.node.shape, ordered.node.ndim - 1, dtypes.int64, ordered.node.device),
        ordered,
    )
    if size == 1:
        return ramp
    is_new = concat([ramp[..., :1] == 0, ordered[..., 1:] != ordered[..., :-1]], -1)
    return ramp - cummax(where(is_new, ramp, 0), -1) + 1


take_habits(globals())
