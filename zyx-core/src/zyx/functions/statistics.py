"""Averages, covariances, histograms, order statistics, and values by place, under NumPy's and PyTorch's names."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from zyx import dtype as dtypes
from zyx import shape as shapes
from zyx.errors import ArgumentError, DTypeError, ShapeError
from zyx.functions import reduction, take_habits
from zyx.functions.choosing import clip, where
from zyx.functions.complex_numbers import conj
from zyx.functions.joining import concat
from zyx.functions.linalg import matmul
from zyx.functions.movement import diagonal, matrix_transpose, moveaxis, reshape
from zyx.functions.operands import float_dtype, is_tensor, require, require_real, wrap
from zyx.functions.selection import scatter, take_along_axis
from zyx.functions.sorting import argsort, searchsorted, sort
from zyx.integers import as_integer
from zyx.ops import ReduceOp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.functions import Tensor
    from zyx.functions.reduction import AxisLike

__all__ = [
    "amax", "amin", "argpartition", "average", "bincount", "bucketize", "corrcoef", "cov", "digitize", "histc",
    "histogram", "histogram_bin_edges", "kthvalue", "lexsort", "mode", "msort", "partition", "ptp",
]  # fmt: skip


class ValuesIndices(NamedTuple):
    """Values, and the places along the axis where they are, int64."""

    values: Tensor
    indices: Tensor


def average(x: Tensor, axis: AxisLike = None, weights: Tensor | None = None, *, keepdims: bool = False) -> Tensor:
    """Return the mean along `axis`, weighed by `weights`: of the shape of `x`, or of its size along the one axis.

    Raises:
        ShapeError: `weights` have another shape.
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
    """Return the greatest element along `axis`; `max`, by a name that means values in every library."""
    return reduction.extreme(x, ReduceOp.MAX, axis, "amax", keepdims=keepdims)


def amin(x: Tensor, axis: AxisLike = None, *, keepdims: bool = False) -> Tensor:
    """Return the least element along `axis`; `min`, by a name that means values in every library."""
    return reduction.extreme(x, ReduceOp.MIN, axis, "amin", keepdims=keepdims)


def ptp(x: Tensor, axis: AxisLike = None, *, keepdims: bool = False) -> Tensor:
    """Return how far the greatest element along `axis` is above the least; its name means peak to peak."""
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
    """Return the correlations of variables, (V, V), from -1 to 1; of one alone, 1. See `cov`."""
    found = cov(x, y, rowvar)
    if not found.node.ndim:
        return found / found
    deviation = diagonal(found).real.sqrt()
    scaled: Tensor = found / reshape(deviation, -1, 1) / deviation
    return scaled if scaled.node.dtype.is_complex else clip(scaled, -1.0, 1.0)


# ---- counting


def bincount(x: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """Return how often each of 0, 1, ... is in `x`, or the sum of the weights there; reads the greatest.

    Raises:
        ShapeError: `x` is no vector, `weights` have another shape, or `minlength` is negative.
        DTypeError: `x` is not of integers.
        ArgumentError: A negative number in `x`.
    """
    base = require(x, "bincount")
    if base.node.ndim != 1:
        raise ShapeError(f"bincount takes one axis; the shape is {base.node.shape}")
    if not base.node.dtype.is_integer:
        raise DTypeError(f"bincount takes integers, not {base.node.dtype}")
    least = as_integer(minlength, "minlength")
    if least < 0:
        raise ShapeError(f"bincount: minlength is at least 0, not {least}")
    if weights is not None and require(weights, "bincount").node.shape != base.node.shape:
        raise ShapeError(f"bincount: weights of shape {weights.node.shape} for {base.node.shape}")
    length = least
    if base.size:
        low, high = (int(each.item()) for each in reduction.aminmax(base))
        if low < 0:
            raise ArgumentError(f"bincount takes numbers of at least 0, not {low}")
        length = max(length, high + 1)
    dtype = dtypes.int64 if weights is None else float_dtype(weights.node.dtype)
    return _counted(base, length, 1 if weights is None else weights.astype(dtype), dtype)


def _counted(places: Tensor, length: int, amounts: Any, dtype: dtypes.DType) -> Tensor:  # noqa: ANN401
    zeros = wrap(places.runtime.graph.const(0, dtype, places.node.device, (int(length),)), places)
    return scatter(zeros, 0, places, amounts, "sum") if length else zeros


def histogram_bin_edges(
    x: Tensor, bins: int | Sequence[float] | Tensor = 10, range: Sequence[float] | None = None
) -> Tensor:  # NumPy's name
    """Return the `bins` + 1 edges of equal bins from the least to the greatest element, or over `range`; or `bins`
    itself, if it is edges.

    Raises:
        ShapeError: Fewer than 1 bin.
        IntegerError: `bins` is neither a number nor edges; NumPy's texts that choose a number are not there.
        ArgumentError: `range` is no two ascending finite numbers.
    """
    return _edges(require(x, "histogram_bin_edges"), bins, range, "histogram_bin_edges")


def _edges(x: Tensor, bins: Any, bounds: Sequence[float] | None, what: str) -> Tensor:  # noqa: ANN401
    dtype = float_dtype(x.node.dtype)
    require_real(dtype, what)
    if is_tensor(bins) and bins.node.ndim:
        return bins
    if isinstance(bins, list | tuple | np.ndarray) and np.ndim(bins):
        return wrap(x.runtime.upload(np.asarray(bins, dtype.numpy), x.node.device), x)
    count = as_integer(bins, "bins")
    if count < 1:
        raise ShapeError(f"{what}: there is at least one bin, not {count}")
    steps = np.arange(count + 1) / count
    if bounds is None and x.size:
        low, high = reduction.aminmax(x)
        low, high = low.astype(dtype), high.astype(dtype)
        is_one = low == high
        low, high = where(is_one, low - 0.5, low), where(is_one, high + 0.5, high)
        ramp = wrap(x.runtime.upload(steps.astype(dtypes.accumulator(dtype).numpy), x.node.device), x)
        return where(ramp == 1.0, high, low + (high - low) * ramp)
    first, last = (0.0, 1.0) if bounds is None else (float(bounds[0]), float(bounds[1]))
    if not (math.isfinite(first) and math.isfinite(last)) or first > last:
        raise ArgumentError(f"{what}: range is two finite numbers that ascend, not {bounds!r}")
    if first == last:
        first, last = first - 0.5, last + 0.5
    edges = (first + (last - first) * steps).astype(dtype.numpy)
    return wrap(x.runtime.upload(edges, x.node.device), x)


def histogram(
    x: Tensor,
    bins: int | Sequence[float] | Tensor = 10,
    range: Sequence[float] | None = None,  # NumPy's name
    density: bool = False,
    weights: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return how many elements of `x` are in each bin, and the edges of the bins, one more.

    Args:
        x: Real numbers; they count as one axis. NaN, and what is outside, is in no bin.
        bins: So many equal bins, or their edges, ascending. Each has its lower edge, and the last one both.
        range: From where to where there are bins; None takes the least and the greatest element.
        density: Whether the integral over all bins is 1.
        weights: What each element counts, in the shape of `x`.

    Returns:
        Counts, int64, or floats if there are weights or `density`; edges, floats.

    Raises:
        ShapeError: Fewer than 1 bin, or weights of another shape.
        ArgumentError: `range` is no two ascending finite numbers.
    """
    base = require(x, "histogram")
    edges = _edges(base, bins, range, "histogram")
    flat = reshape(base, base.size)
    if weights is not None and require(weights, "histogram").node.shape != base.node.shape:
        raise ShapeError(f"histogram: weights of shape {weights.node.shape} for {base.node.shape}")
    count = edges.size - 1
    wide = flat.astype(edges.node.dtype) if flat.node.dtype is not edges.node.dtype else flat
    places = searchsorted(edges, wide, side="right") - 1
    places = where(wide == edges[-1], count - 1, places)
    inside = (wide >= edges[0]) & (wide <= edges[-1])
    places = where(inside, places, count)
    dtype = dtypes.int64 if weights is None else float_dtype(weights.node.dtype)
    amounts: Any = 1 if weights is None else reshape(weights, base.size).astype(dtype)
    found = _counted(places.astype(dtypes.int64), count + 1, amounts, dtype)[:count]
    if density:
        total = found.astype(edges.node.dtype)
        found = total / (edges[1:] - edges[:-1]) / total.sum()
    return found, edges


def histc(x: Tensor, bins: int = 100, min: float = 0.0, max: float = 0.0) -> Tensor:  # PyTorch's names
    """Return how many elements are in each of `bins` equal bins from `min` to `max`, in the dtype of `x`.

    With both 0, from the least element to the greatest.
    """
    base = require(x, "histc")
    counts, _ = histogram(base, bins, None if min == max == 0 else (min, max))
    return counts.astype(base.node.dtype)


def digitize(x: Tensor, bins: Tensor, right: bool = False) -> Tensor:
    """Return in which bin each element is, int64: i where ``bins[i - 1] <= x < bins[i]``.

    Args:
        x: Any shape.
        bins: A vector of edges that ascend, or that descend; the first and the last one are read to tell.
        right: Whether a bin has its upper edge in place of its lower one.

    Raises:
        ShapeError: `bins` is no vector.
    """
    edges = require(bins, "digitize")
    if edges.node.ndim != 1:
        raise ShapeError(f"digitize: bins are one axis, not of shape {edges.node.shape}")
    side = "left" if right else "right"
    if edges.size > 1 and float(edges[0].item()) > float(edges[-1].item()):
        return edges.size - searchsorted(edges.flip(0), x, side="right" if right else "left")
    return searchsorted(edges, x, side=side)


def bucketize(x: Tensor, boundaries: Tensor, *, right: bool = False) -> Tensor:
    """Return PyTorch's ``bucketize``: i where ``boundaries[i - 1] < x <= boundaries[i]``; with `right` the lower edge
    is in the bin, and not the upper one. So `right` says the opposite of that of `digitize`.
    """
    return searchsorted(require(boundaries, "bucketize"), x, side="right" if right else "left")


# ---- order


def msort(x: Tensor) -> Tensor:
    """Return `x` in order along axis 0."""
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
    """
    _kth(x, kth, axis, "partition")
    return sort(x, axis)


def argpartition(x: Tensor, kth: int | Sequence[int], axis: int = -1) -> Tensor:
    """Return the places, int64, that bring `x` into the order of `partition`."""
    _kth(x, kth, axis, "argpartition")
    return argsort(x, axis)


def lexsort(keys: Sequence[Tensor] | Tensor, axis: int = -1) -> Tensor:
    """Return the places, int64, that sort by the last of `keys`, where it is equal by the one before, and so on.

    Raises:
        ArgumentError: No keys.
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
    from zyx.functions.cumulative import cummax

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
