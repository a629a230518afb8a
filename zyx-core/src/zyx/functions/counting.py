"""Count elements: by value, and in the bins of histograms."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from zyx import dtype as dtypes
from zyx.errors import ArgumentError, DTypeError, ShapeError
from zyx.functions import reduction, take_habits
from zyx.functions.choosing import where
from zyx.functions.movement import reshape
from zyx.functions.operands import float_dtype, is_tensor, require, require_real, wrap
from zyx.functions.selection import scatter
from zyx.functions.sorting import searchsorted
from zyx.integers import as_integer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.functions import Tensor

__all__ = ["bincount", "bucketize", "digitize", "histc", "histogram", "histogram_bin_edges"]


def bincount(x: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """Return how often each of 0, 1, ... is in `x`, or the sum of the weights there; reads the greatest.

    Raises:
        ShapeError: `x` is no vector, `weights` have another shape, or `minlength` is negative.
        DTypeError: `x` is not of integers.
        ArgumentError: A negative number in `x`.

    >>> zyx.bincount(zyx.Tensor([0, 1, 1])).tolist()
    [1, 2]
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

    >>> zyx.histogram_bin_edges(zyx.Tensor([0.0, 1.0, 4.0]), bins=2).tolist()
    [0.0, 2.0, 4.0]
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

    >>> counts, edges = zyx.histogram(zyx.Tensor([0.0, 1.0, 1.0]), 2)
    >>> counts.tolist()
    [1, 2]
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

    Raises:
        ShapeError: Fewer than one bin.
        ArgumentError: `min` is above `max`, or not finite.
        DTypeError: `x` is no tensor, or complex.

    >>> zyx.histc(zyx.Tensor([1.0, 2.0, 2.5, 4.0]), bins=3, min=1.0, max=4.0).tolist()
    [1.0, 2.0, 1.0]
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

    >>> zyx.digitize(zyx.Tensor([0.5, 2.0, 9.0]), zyx.Tensor([1.0, 2.0, 3.0])).tolist()
    [0, 2, 3]
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

    The result has the shape of `x`, int64; `boundaries` are an ascending vector.

    Raises:
        ShapeError: `boundaries` are no vector.
        DTypeError: One is no tensor, or complex.

    >>> zyx.bucketize(zyx.Tensor([0.5, 2.0, 9.0]), zyx.Tensor([1.0, 2.0, 3.0])).tolist()
    [0, 1, 3]
    """
    return searchsorted(require(boundaries, "bucketize"), x, side="right" if right else "left")


take_habits(globals())
