"""Reductions that leave out NaN, and quantiles, under NumPy's names."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, TypeAlias

from zyx import dtype as dtypes
from zyx import shape as shapes
from zyx.errors import ArgumentError, ShapeError
from zyx.functions import reduction, take_habits
from zyx.functions.choosing import where
from zyx.functions.cumulative import cumprod, cumsum
from zyx.functions.elementwise import isnan
from zyx.functions.joining import stack
from zyx.functions.movement import moveaxis, reshape
from zyx.functions.operands import REALS, float_dtype, is_tensor, require, require_real
from zyx.functions.selection import take_along_axis
from zyx.functions.sorting import sort
from zyx.functions.transcendental import sqrt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.functions import Tensor
    from zyx.functions.reduction import AxisLike

__all__ = [
    "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmedian", "nanmin", "nanpercentile",
    "nanprod", "nanquantile", "nanstd", "nansum", "nanvar", "percentile", "quantile",
]  # fmt: skip

Levels: TypeAlias = "float | Sequence[float] | Tensor"


def _without(x: Tensor, value: float, what: str) -> Tensor:
    """Return `x` with `value` in the place of NaN."""
    base = require(x, what)
    return where(isnan(base), value, base) if base.node.dtype.is_inexact else base


def nansum(x: Tensor, axis: AxisLike = None, *, keepdims: bool = False) -> Tensor:
    """Return the sum along `axis`, NaN left out; of nothing 0.

    Raises:
        AxisError: `x` has no such axis.

    >>> zyx.nansum(zyx.Tensor([1.0, zyx.nan, 3.0])).item()
    4.0
    """
    return reduction.sum(_without(x, 0.0, "nansum"), axis, keepdims=keepdims)


def nanprod(x: Tensor, axis: AxisLike = None, *, keepdims: bool = False) -> Tensor:
    """Return the product along `axis`, NaN left out; of nothing 1.

    Raises:
        AxisError: `x` has no such axis.

    >>> zyx.nanprod(zyx.Tensor([2.0, zyx.nan, 3.0])).item()
    6.0
    """
    return reduction.prod(_without(x, 1.0, "nanprod"), axis, keepdims=keepdims)


def nancumsum(x: Tensor, axis: int | None = None) -> Tensor:
    """Return running sums along `axis`, to which NaN adds nothing; without an axis, of `x` as one axis.

    Raises:
        AxisError: `x` has no such axis.

    >>> zyx.nancumsum(zyx.Tensor([2.0, zyx.nan, 3.0])).tolist()
    [2.0, 2.0, 5.0]
    """
    found = _without(x, 0.0, "nancumsum")
    return cumsum(reshape(found, found.size) if axis is None else found, 0 if axis is None else axis)


def nancumprod(x: Tensor, axis: int | None = None) -> Tensor:
    """Return running products along `axis`, in which NaN counts as 1; without an axis, of `x` as one axis.

    Raises:
        AxisError: `x` has no such axis.

    >>> zyx.nancumprod(zyx.Tensor([2.0, zyx.nan, 3.0])).tolist()
    [2.0, 2.0, 6.0]
    """
    found = _without(x, 1.0, "nancumprod")
    return cumprod(reshape(found, found.size) if axis is None else found, 0 if axis is None else axis)


def _number(x: Tensor, axis: AxisLike, what: str, *, keepdims: bool) -> Tensor:
    """Return how many elements along `axis` are no NaN."""
    return reduction.count_nonzero(isnan(require(x, what)) == 0, axis, keepdims=keepdims)


def nanmean(x: Tensor, axis: AxisLike = None, *, keepdims: bool = False) -> Tensor:
    """Return the mean along `axis` of what is no NaN; of nothing NaN.

    Raises:
        AxisError: `x` has no such axis.

    >>> zyx.nanmean(zyx.Tensor([1.0, zyx.nan, 3.0])).item()
    2.0
    """
    base = require(x, "nanmean")
    if not base.node.dtype.is_inexact:
        return reduction.mean(base, axis, keepdims=keepdims)
    total = nansum(base, axis, keepdims=keepdims)
    return total / _number(base, axis, "nanmean", keepdims=keepdims).astype(total.node.dtype)


def nanvar(x: Tensor, axis: AxisLike = None, *, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """Return the variance along `axis` of what is no NaN: squares of distances from the mean, over n - `correction`.

    Where n is not more than `correction`, the result is NaN.

    Raises:
        AxisError: `x` has no such axis.

    >>> zyx.nanvar(zyx.Tensor([1.0, zyx.nan, 5.0])).item()
    4.0
    """
    base = require(x, "nanvar")
    require_real(base.node.dtype, "nanvar")
    base = base.astype(float_dtype(base.node.dtype))
    apart = _without(base - nanmean(base, axis, keepdims=True), 0.0, "nanvar")
    total = reduction.sum(apart * apart, axis, keepdims=keepdims)
    divisor = _number(base, axis, "nanvar", keepdims=keepdims).astype(total.node.dtype) - correction
    return where(divisor > 0, total / where(divisor > 0, divisor, 1.0), math.nan)


def nanstd(x: Tensor, axis: AxisLike = None, *, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """Return the square root of `nanvar`.

    The result lacks `axis`, unless `keepdims` leaves it with size 1.

    Raises:
        AxisError: `x` has no such axis.

    >>> zyx.nanstd(zyx.Tensor([1.0, zyx.nan, 3.0])).item()
    1.0
    """
    return sqrt(nanvar(x, axis, correction=correction, keepdims=keepdims))


def nanmax(x: Tensor, axis: AxisLike = None, *, keepdims: bool = False) -> Tensor:
    """Return the greatest element along `axis` that is no NaN; NaN where all are.

    Raises:
        DTypeError: `x` is complex.
        AxisError: `x` has no such axis.

    >>> zyx.nanmax(zyx.Tensor([1.0, zyx.nan, 3.0])).item()
    3.0
    """
    return _extreme(x, axis, -math.inf, "nanmax", keepdims=keepdims)


def nanmin(x: Tensor, axis: AxisLike = None, *, keepdims: bool = False) -> Tensor:
    """Return the least element along `axis` that is no NaN; NaN where all are.

    Raises:
        DTypeError: `x` is complex.
        AxisError: `x` has no such axis.

    >>> zyx.nanmin(zyx.Tensor([1.0, zyx.nan, 3.0])).item()
    1.0
    """
    return _extreme(x, axis, math.inf, "nanmin", keepdims=keepdims)


def _extreme(x: Tensor, axis: AxisLike, value: float, what: str, *, keepdims: bool) -> Tensor:
    reduce = reduction.max if value < 0 else reduction.min
    found = reduce(_without(x, value, what), axis, keepdims=keepdims)
    if not x.node.dtype.is_inexact:
        return found
    return where(_number(x, axis, what, keepdims=keepdims) > 0, found, math.nan)


def nanargmax(x: Tensor, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Return the first place of the greatest element along `axis` that is no NaN; where all are, 0.

    Raises:
        DTypeError: `x` is complex.
        AxisError: `x` has no such axis.

    >>> zyx.nanargmax(zyx.Tensor([1.0, zyx.nan, 3.0])).item()
    2
    """
    return reduction.argmax(_without(x, -math.inf, "nanargmax"), axis, keepdims=keepdims)


def nanargmin(x: Tensor, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Return the first place of the least element along `axis` that is no NaN; where all are, 0.

    Raises:
        DTypeError: `x` is complex.
        AxisError: `x` has no such axis.

    >>> zyx.nanargmin(zyx.Tensor([zyx.nan, 5.0, 3.0])).item()
    2
    """
    return reduction.argmin(_without(x, math.inf, "nanargmin"), axis, keepdims=keepdims)


# ---- quantiles

#: Between the two neighbours: the weight of the upper one, by what is left of the place.
_METHODS: Final = ("linear", "lower", "higher", "midpoint", "nearest")


def _quantiles(
    x: Tensor, q: Levels, axis: AxisLike, method: str, what: str, *, keepdims: bool, scale: float, skips: bool
) -> Tensor:
    base = require(x, what)
    require_real(base.node.dtype, what)
    if method not in _METHODS:
        raise ArgumentError(f"{what}: method is one of {', '.join(_METHODS)}, not {method!r}")
    base = base.astype(float_dtype(base.node.dtype))
    axes = shapes.normalize_axes(axis, base.node.ndim)
    kept = [1 if i in axes else size for i, size in enumerate(base.node.shape)]
    rest = [size for i, size in enumerate(base.node.shape) if i not in axes]
    moved = moveaxis(base, axes, tuple(range(-len(axes), 0))) if axes else base
    count = math.prod(base.node.shape[i] for i in axes)
    if not count:
        raise ShapeError(f"{what} of no elements: axis {axis} of {base.node.shape}")
    ordered = sort(reshape(moved, *rest, count), -1)
    valid = _number(ordered, -1, what, keepdims=True).astype(dtypes.int64) if skips else None
    found = [_at(ordered, level, valid, method, what) for level in _levels(q, scale, what)]
    results = [reshape(each, *(kept if keepdims else rest)) for each in found]
    if is_tensor(q):
        return reshape(stack(results), *q.node.shape, *results[0].node.shape) if q.node.ndim else results[0]
    return results[0] if isinstance(q, REALS) else stack(results)


def _levels(q: Levels, scale: float, what: str) -> list[float]:
    if is_tensor(q):
        levels = [float(level) for level in q.numpy().reshape(-1)]
    elif isinstance(q, list | tuple) or hasattr(q, "__array__"):
        levels = [float(level) for level in q]  # type: ignore[union-attr]
    elif isinstance(q, REALS):
        levels = [float(q)]
    else:
        raise ArgumentError(f"{what}: q is a number or several, not {type(q).__name__}")
    if not levels or not all(0 <= level <= scale for level in levels):
        raise ArgumentError(f"{what}: q is from 0 to {scale:g}, not {q!r}")
    return [level / scale for level in levels]


def _at(ordered: Tensor, level: float, valid: Tensor | None, method: str, what: str) -> Tensor:
    """Return what is at a fraction `level` of the last axis, which has size 1 then."""
    size = ordered.node.shape[-1]
    if valid is None:
        place = level * (size - 1)
        lower = min(math.floor(place + 1e-12), size - 1)
        upper, part = min(lower + 1, size - 1), place - lower
        part = 0.0 if part < 1e-9 else part
        if method == "nearest":
            part = float(round(place) - lower)
        below, above = ordered[..., lower : lower + 1], ordered[..., upper : upper + 1]
        weight = {"lower": 0.0, "higher": float(part > 0), "midpoint": 0.5 * (part > 0)}.get(method, part)
        mixed = below if weight == 0 else above if weight == 1 else _mixed(below, above, weight)
        last = ordered[..., size - 1 :]  # NaN is greatest: if there is one, the result is it
        return where(isnan(last), last, mixed) if ordered.node.dtype.is_float else mixed
    wide = dtypes.accumulator(ordered.node.dtype)
    spot = (valid - 1).astype(wide) * level
    floor = (spot + 1e-6).floor()
    part_of = spot - floor
    part_of = where(part_of.abs() < 1e-6, 0.0, part_of)
    if method == "nearest":
        part_of = spot.round() - floor
    elif method == "lower":
        part_of = part_of * 0.0
    elif method == "higher":
        part_of = (part_of > 0).astype(wide)
    elif method == "midpoint":
        part_of = (part_of > 0).astype(wide) * 0.5
    first = floor.astype(dtypes.int64).clip(0, size - 1)
    second = where(part_of > 0, first + 1, first).clip(0, size - 1)
    below, above = (take_along_axis(ordered, places, -1) for places in (first, second))
    mixed = _mixed(below, above, part_of.astype(ordered.node.dtype))
    return where(valid > 0, mixed, math.nan)


def _mixed(below: Tensor, above: Tensor, weight: float | Tensor) -> Tensor:
    """Return the mean of both, weighed; of equal ones, infinities too, it is they."""
    apart = where(above == below, 0.0, above - below)
    return below + apart * weight


def quantile(x: Tensor, q: Levels, axis: AxisLike = None, *, keepdims: bool = False, method: str = "linear") -> Tensor:
    """Return the value below which a fraction `q` of the elements along `axis` lies; NaN where there is one.

    Args:
        x: Real numbers.
        q: From 0 to 1. Of several, the results lie along a new axis in front. It is read.
        axis: One or several; None takes all.
        keepdims: Whether the axes stay, with size 1.
        method: Between two neighbours of the place ``q * (n - 1)``: "linear" weighs them, "lower", "higher" and
            "nearest" take one, "midpoint" their mean. It is PyTorch's ``interpolation``.

    Raises:
        ArgumentError: `q` outside, or an unknown method.
        ShapeError: No elements.
        DTypeError: Complex numbers.

    >>> zyx.quantile(zyx.Tensor([1.0, 2.0, 3.0]), 0.5).item()
    2.0
    """
    return _quantiles(x, q, axis, method, "quantile", keepdims=keepdims, scale=1.0, skips=False)


def percentile(
    x: Tensor, q: Levels, axis: AxisLike = None, *, keepdims: bool = False, method: str = "linear"
) -> Tensor:
    """Return `quantile` of `q` percent, from 0 to 100.

    The result has the shape of `q`, then that of `x` without `axis`.

    Raises:
        DTypeError: `x` is complex.
        AxisError: `x` has no such axis.
        ArgumentError: `q` is out of range.

    >>> zyx.percentile(zyx.Tensor([1.0, 2.0, 3.0, 4.0, 5.0]), 25).item()
    2.0
    """
    return _quantiles(x, q, axis, method, "percentile", keepdims=keepdims, scale=100.0, skips=False)


def nanquantile(
    x: Tensor, q: Levels, axis: AxisLike = None, *, keepdims: bool = False, method: str = "linear"
) -> Tensor:
    """Return `quantile` of what is no NaN; NaN where all are.

    The result has the shape of `q`, then that of `x` without `axis`.

    Raises:
        DTypeError: `x` is complex.
        AxisError: `x` has no such axis.
        ArgumentError: `q` is out of range.

    >>> zyx.nanquantile(zyx.Tensor([1.0, zyx.nan, 3.0]), 0.5).item()
    2.0
    """
    return _quantiles(x, q, axis, method, "nanquantile", keepdims=keepdims, scale=1.0, skips=True)


def nanpercentile(
    x: Tensor, q: Levels, axis: AxisLike = None, *, keepdims: bool = False, method: str = "linear"
) -> Tensor:
    """Return `percentile` of what is no NaN; NaN where all are.

    The result has the shape of `q`, then that of `x` without `axis`.

    Raises:
        DTypeError: `x` is complex.
        AxisError: `x` has no such axis.
        ArgumentError: `q` is out of range.

    >>> zyx.nanpercentile(zyx.Tensor([1.0, zyx.nan, 3.0]), 50).item()
    2.0
    """
    return _quantiles(x, q, axis, method, "nanpercentile", keepdims=keepdims, scale=100.0, skips=True)


def nanmedian(x: Tensor, axis: AxisLike = None, *, keepdims: bool = False) -> Tensor:
    """Return the median along `axis` of what is no NaN, of an even number the mean of the two in the middle.

    So has NumPy it. PyTorch's is the lower of the two, which is ``nanquantile(x, 0.5, axis, method="lower")``.

    Raises:
        DTypeError: `x` is complex.
        AxisError: `x` has no such axis.

    >>> zyx.nanmedian(zyx.Tensor([1.0, zyx.nan, 3.0])).item()
    2.0
    """
    return _quantiles(x, 0.5, axis, "linear", "nanmedian", keepdims=keepdims, scale=1.0, skips=True)


take_habits(globals())
