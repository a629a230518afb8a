"""Sequences as samples of functions: convolution, interpolation, slopes, areas; under NumPy's names.

Everything is put together from movement, products and sums, so that gradients are theirs.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from zyx import dtype as dtypes
from zyx import shape as shapes
from zyx.errors import ArgumentError, ShapeError
from zyx.functions import arithmetic, elementwise, take_habits
from zyx.functions.choosing import where
from zyx.functions.complex_numbers import conj
from zyx.functions.cumulative import cumsum, diff
from zyx.functions.joining import concat, pad
from zyx.functions.linalg import matmul
from zyx.functions.movement import flip, narrow, reshape, windows
from zyx.functions.operands import float_dtype, is_tensor, require, require_real, wrap
from zyx.functions.selection import take
from zyx.functions.sorting import searchsorted
from zyx.integers import as_integer, is_several

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.functions import Tensor
    from zyx.functions.operands import Operand

__all__ = [
    "convolve", "correlate", "cumulative_trapezoid", "ediff1d", "gradient", "inner", "interp", "matvec",
    "trapezoid", "unwrap", "vdot", "vecmat",
]  # fmt: skip


# ---- products


def inner(x: Tensor, y: Tensor) -> Tensor:
    """Return the sums of products along the last axis of both; of a number and anything, products.

    Raises:
        ShapeError: The last axes differ in size.

    >>> zyx.inner(zyx.Tensor([1, 2]), zyx.Tensor([3, 4])).item()
    11
    """
    a, b = require(x, "inner"), require(y, "inner")
    if not a.node.ndim or not b.node.ndim:
        return a * b
    if a.node.shape[-1] != b.node.shape[-1]:
        raise ShapeError(f"inner: the last axes of {a.node.shape} and {b.node.shape} differ in size")
    size = a.node.shape[-1]
    rows = reshape(a, math.prod(a.node.shape[:-1]), size)
    columns = reshape(b, math.prod(b.node.shape[:-1]), size)
    return reshape(matmul(rows, columns.mT), *a.node.shape[:-1], *b.node.shape[:-1])


def matvec(x: Tensor, y: Tensor) -> Tensor:
    """Return the products of matrices, (..., M, N), and vectors, (..., N), whose other axes broadcast.

    Raises:
        ShapeError: Too few axes, or sizes that do not fit.

    >>> zyx.matvec(zyx.Tensor([[1, 2], [3, 4]]), zyx.Tensor([1, 1])).tolist()
    [3, 7]
    """
    a, b = require(x, "matvec"), require(y, "matvec")
    if a.node.ndim < 2 or not b.node.ndim:
        raise ShapeError(f"matvec takes (..., M, N) and (..., N), not {a.node.shape} and {b.node.shape}")
    return matmul(a, b.expand_dims(-1)).squeeze(-1)


def vecmat(x: Tensor, y: Tensor) -> Tensor:
    """Return the products of vectors, (..., M), conjugated, and matrices, (..., M, N); other axes broadcast.

    Raises:
        ShapeError: Too few axes, or sizes that do not fit.

    >>> zyx.vecmat(zyx.Tensor([1, 1]), zyx.Tensor([[1, 2], [3, 4]])).tolist()
    [4, 6]
    """
    a, b = require(x, "vecmat"), require(y, "vecmat")
    if b.node.ndim < 2 or not a.node.ndim:
        raise ShapeError(f"vecmat takes (..., M) and (..., M, N), not {a.node.shape} and {b.node.shape}")
    return matmul(conj(a).expand_dims(-2), b).squeeze(-2)


def vdot(x: Tensor, y: Tensor) -> Tensor:
    """Return the sum of products of all elements, those of `x` conjugated.

    Raises:
        ShapeError: Other numbers of elements.

    >>> zyx.vdot(zyx.Tensor([1, 2]), zyx.Tensor([3, 4])).item()
    11
    """
    a, b = require(x, "vdot"), require(y, "vdot")
    if a.size != b.size:
        raise ShapeError(f"vdot: {a.node.shape} and {b.node.shape} have other numbers of elements")
    return matmul(conj(reshape(a, a.size)), reshape(b, b.size))


def _overlapping(x: Tensor, y: Tensor, mode: str, what: str) -> tuple[Tensor, Tensor, int, int, bool]:
    """Return what slides, what it slides over, where the result starts, its length, and whether they are exchanged."""
    a, b = require(x, what), require(y, what)
    if a.node.ndim > 1 or b.node.ndim > 1 or not a.size or not b.size:
        raise ShapeError(f"{what} takes two vectors that are not empty, not shapes {a.node.shape} and {b.node.shape}")
    a, b = reshape(a, a.size), reshape(b, b.size)
    is_exchanged = b.size > a.size
    long, short = (b, a) if is_exchanged else (a, b)
    if mode == "full":
        first, length = 0, long.size + short.size - 1
    elif mode == "same":
        first, length = (short.size - 1) // 2, long.size
    elif mode == "valid":
        first, length = short.size - 1, long.size - short.size + 1
    else:
        raise ArgumentError(f'{what}: mode is "full", "same" or "valid", not {mode!r}')
    return long, short, first, length, is_exchanged


def _slid(long: Tensor, short: Tensor, first: int, length: int) -> Tensor:
    """Return the sums of products of `short`, reversed, with what of `long` is below it, from place `first` on."""
    if long.node.dtype is not short.node.dtype:
        dtype = dtypes.promote(long.node.dtype, short.node.dtype)
        long, short = long.astype(dtype), short.astype(dtype)
    is_bool = long.node.dtype.is_bool
    if is_bool:
        long, short = long.astype(dtypes.int32), short.astype(dtypes.int32)
    room = short.size - 1
    rows = narrow(windows(pad(long, ((room, room),)), (short.size,)), 0, first, length)
    found = matmul(rows, flip(short, 0))
    return found != 0 if is_bool else found


def convolve(x: Tensor, y: Tensor, mode: str = "full") -> Tensor:
    """Return the convolution of two vectors: ``out[n] = sum over k of x[k] * y[n - k]``.

    Args:
        x: (N).
        y: (M).
        mode: "full" gives all N + M - 1 sums, "same" the max(N, M) in the middle, "valid" those where the shorter
            one lies within the longer one.

    Raises:
        ShapeError: No vectors, or an empty one.
        ArgumentError: An unknown mode.

    >>> zyx.convolve(zyx.Tensor([1.0, 2.0]), zyx.Tensor([1.0, 1.0])).tolist()
    [1.0, 3.0, 2.0]
    """
    long, short, first, length, _ = _overlapping(x, y, mode, "convolve")
    return _slid(long, short, first, length)


def correlate(x: Tensor, y: Tensor, mode: str = "valid") -> Tensor:
    """Return the correlation of two vectors: ``out[n] = sum over k of x[k + n] * conj(y[k])``; see `convolve`.

    With N and M elements the result has N - M + 1 if `mode` is "valid".

    Raises:
        ShapeError: No vectors, or empty ones.
        ArgumentError: Another `mode`.

    >>> zyx.correlate(zyx.Tensor([1.0, 2.0, 3.0]), zyx.Tensor([1.0, 1.0])).tolist()
    [3.0, 5.0]
    """
    other = flip(conj(reshape(require(y, "correlate"), y.size)), 0)
    long, short, first, length, is_exchanged = _overlapping(x, other, mode, "correlate")
    if is_exchanged and mode == "same" and short.size % 2 == 0:
        first += 1  # as in NumPy, whose result is that of the exchanged ones reversed
    return _slid(long, short, first, length)


# ---- interpolation, slopes, areas


def interp(
    x: Tensor,
    xp: Tensor,
    fp: Tensor,
    left: float | None = None,
    right: float | None = None,
    period: float | None = None,
) -> Tensor:
    """Return the piecewise linear function through the points (`xp`, `fp`) at `x`.

    Args:
        x: Where, any shape.
        xp: (N), ascending; with a period, in any order.
        fp: (N), the values there.
        left: The value below `xp`; None takes ``fp[0]``.
        right: That above; None takes ``fp[-1]``.
        period: After which the function repeats; then `left` and `right` are not used.

    Raises:
        ShapeError: No points, or another number of values.
        ArgumentError: A period of 0.

    >>> zyx.interp(zyx.Tensor([1.5]), zyx.Tensor([1.0, 2.0]), zyx.Tensor([10.0, 20.0])).tolist()
    [15.0]
    """
    points, values, at = require(xp, "interp"), require(fp, "interp"), require(x, "interp")
    if points.node.ndim != 1 or points.node.shape != values.node.shape or not points.size:
        raise ShapeError(f"interp: points are vectors of one length, not {points.node.shape} and {values.node.shape}")
    dtype = float_dtype(dtypes.promote(points.node.dtype, at.node.dtype))
    points, at = points.astype(dtype), at.astype(dtype)
    if period is not None:
        if not period:
            raise ArgumentError("interp: a period is not 0")
        period = abs(period)
        at, points = arithmetic.remainder(at, period), arithmetic.remainder(points, period)
        order = points.argsort()
        points, values = take(points, order, 0), take(values, order, 0)
        points = concat([points[-1:] - period, points, points[:1] + period], 0)
        values = concat([values[-1:], values, values[:1]], 0)
        left = right = None
    if points.size == 1:
        found = values[0].broadcast_to(at.node.shape).astype(float_dtype(values.node.dtype))
    else:
        place = (searchsorted(points, at, side="right") - 1).clip(0, points.size - 2)
        x0, x1, y0, y1 = (take(each, place + by, 0) for each in (points, values) for by in (0, 1))
        width = where(x1 == x0, 1.0, x1 - x0)
        found = y0 + (y1 - y0) * ((at - x0) / width)
        found = where(at >= points[-1], values[-1], where(at <= points[0], values[0], found))
    if left is not None:
        found = where(at < points[0], left, found)
    if right is not None:
        found = where(at > points[-1], right, found)
    return where(elementwise.isnan(at), math.nan, found)


def gradient(x: Tensor, *spacing: Any, axis: int | Sequence[int] | None = None, edge_order: int = 1) -> Any:  # noqa: ANN401
    """Return the slopes of samples by differences of neighbours: central ones of second order, at the ends one-sided.

    Args:
        x: Samples.
        spacing: None for 1; one number for all axes; or, an axis each, a number or a vector of coordinates.
        axis: One or several; None takes all.
        edge_order: 1 or 2, the order of the differences at the ends.

    Returns:
        A tensor; of several axes a tuple.

    Raises:
        ShapeError: Fewer than ``edge_order + 1`` samples along an axis, or coordinates of another number.
        ArgumentError: Another number of spacings, or another order.

    >>> zyx.gradient(zyx.Tensor([1.0, 4.0, 9.0])).tolist()
    [3.0, 4.0, 5.0]
    """
    base = require(x, "gradient")
    base = base.astype(float_dtype(base.node.dtype))
    ndim = base.node.ndim
    axes = shapes.normalize_axes(axis, ndim)
    edge_order = as_integer(edge_order, "edge_order")
    if edge_order not in (1, 2):
        raise ArgumentError(f"gradient: edge_order is 1 or 2, not {edge_order}")
    steps = list(spacing) or [1.0]
    steps = steps * len(axes) if len(steps) == 1 else steps
    if len(steps) != len(axes):
        raise ArgumentError(f"gradient: {len(spacing)} spacings for {len(axes)} axes")
    found = tuple(_slopes(base, place, step, edge_order) for place, step in zip(axes, steps, strict=True))
    return found[0] if len(found) == 1 and (ndim == 1 or not (axis is None or is_several(axis))) else found


def _slopes(x: Tensor, axis: int, step: Any, edge_order: int) -> Tensor:  # noqa: ANN401
    size = x.node.shape[axis]
    if size < edge_order + 1:
        raise ShapeError(f"gradient: {size} samples along axis {axis} are fewer than {edge_order + 1}")

    def at(start: int, count: int) -> Tensor:
        return narrow(x, axis, start, count)

    if is_tensor(step) and step.node.ndim:
        if step.node.shape != (size,):
            raise ShapeError(f"gradient: coordinates of shape {step.node.shape} for {size} samples along axis {axis}")
        widths = reshape(diff(step), [size - 1 if i == axis else 1 for i in range(x.node.ndim)]).astype(x.node.dtype)
    else:
        one = wrap(x.runtime.graph.const(1, x.node.dtype, x.node.device), x) * step
        widths = one.broadcast_to([size - 1 if i == axis else 1 for i in range(x.node.ndim)])
    parts = []
    before, behind = narrow(widths, axis, 0, max(size - 2, 0)), narrow(widths, axis, min(1, size - 1), max(size - 2, 0))
    middle = None
    if size > 2:
        a, b = before, behind
        middle = (
            -b / (a * (a + b)) * at(0, size - 2)
            + (b - a) / (a * b) * at(1, size - 2)
            + a / (b * (a + b)) * at(2, size - 2)
        )
    for end in (0, 1):
        near, far, next_ = (0, 1, 2) if end == 0 else (size - 1, size - 2, size - 3)
        h = narrow(widths, axis, 0 if end == 0 else size - 2, 1)
        sign = 1.0 if end == 0 else -1.0
        if edge_order == 1:
            parts.append((at(far, 1) - at(near, 1)) / h * sign)
        else:
            k = narrow(widths, axis, 1 if end == 0 else size - 3, 1)
            total = -(2 * h + k) / (h * (h + k)) * at(near, 1) + (h + k) / (h * k) * at(far, 1)
            parts.append((total - h / (k * (h + k)) * at(next_, 1)) * sign)
        if end == 0 and middle is not None:
            parts.append(middle)
    return concat(parts, axis)


def _areas(y: Tensor, x: Tensor | None, dx: float, axis: int, what: str) -> tuple[Tensor, int]:
    base = require(y, what)
    place = shapes.normalize_axis(axis, base.node.ndim)
    size = base.node.shape[place]
    base = base.astype(float_dtype(base.node.dtype))
    if size < 2:
        return narrow(base, place, 0, 0), place
    heights = narrow(base, place, 1, size - 1) + narrow(base, place, 0, size - 1)
    if x is None:
        return heights * (0.5 * dx), place
    widths = diff(require(x, what), axis=-1 if x.node.ndim == 1 else place)
    if x.node.ndim == 1:
        if x.size != size:
            raise ShapeError(f"{what}: {x.size} coordinates for {size} samples along axis {axis}")
        widths = reshape(widths, [size - 1 if i == place else 1 for i in range(base.node.ndim)])
    return heights * widths * 0.5, place


def trapezoid(y: Tensor, x: Tensor | None = None, dx: float = 1.0, axis: int = -1) -> Tensor:
    """Return the area below samples along `axis`, by the trapezoidal rule.

    Args:
        y: Samples.
        x: Their coordinates, a vector or of the shape of `y`; None says that they are `dx` apart.
        dx: See above.
        axis: Along which.

    Raises:
        ShapeError: Another number of coordinates.

    >>> zyx.trapezoid(zyx.Tensor([1.0, 2.0, 3.0])).item()
    4.0
    """
    parts, place = _areas(y, x, dx, axis, "trapezoid")
    return parts.sum(axis=place)


def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, dx: float = 1.0, axis: int = -1) -> Tensor:
    """Return the areas up to each sample but the first; see `trapezoid`. PyTorch's name.

    The result has the shape of `y`, but for one element less along `axis`.

    Raises:
        AxisError: `y` has no such axis.
        ShapeError: Another number of coordinates than samples.

    >>> zyx.cumulative_trapezoid(zyx.Tensor([1.0, 3.0, 5.0])).tolist()
    [2.0, 6.0]
    """
    parts, place = _areas(y, x, dx, axis, "cumulative_trapezoid")
    return cumsum(parts, place)


def ediff1d(x: Tensor, to_end: Operand | None = None, to_begin: Operand | None = None) -> Tensor:
    """Return the differences of neighbours in `x` as one axis, between `to_begin` and `to_end`, if these are given.

    Raises:
        DTypeError: `x` is no tensor.

    >>> zyx.ediff1d(zyx.Tensor([1, 4, 9])).tolist()
    [3, 5]
    """
    base = require(x, "ediff1d")
    flat = diff(reshape(base, base.size))
    zero = wrap(base.runtime.graph.const(0, flat.node.dtype, base.node.device), base)
    ends = [each if is_tensor(each) or each is None else zero + each for each in (to_begin, to_end)]
    parts = [
        part if part is flat else reshape(part, part.size) for part in (ends[0], flat, ends[1]) if part is not None
    ]
    return concat([part.astype(flat.node.dtype) for part in parts], 0) if len(parts) > 1 else flat


def unwrap(x: Tensor, discont: float | None = None, axis: int = -1, *, period: float = 2 * math.pi) -> Tensor:
    """Return `x` with multiples of `period` added, so that neighbours along `axis` are half of it apart at most.

    Args:
        x: Angles, or what else repeats.
        discont: What is apart less than this stays; at least half of `period`, which is what None takes.
        axis: Along which.
        period: After which it repeats.

    Raises:
        AxisError: `x` has no such axis.
        DTypeError: `x` is no tensor, or complex.

    >>> zyx.unwrap(zyx.Tensor([1, 2, 0, 1]), period=3).tolist()
    [1, 2, 3, 4]
    """
    base = require(x, "unwrap")
    require_real(base.node.dtype, "unwrap")
    place = shapes.normalize_axis(axis, base.node.ndim)
    half = period / 2
    if base.node.dtype.is_integer and isinstance(period, int):
        half = period // 2
    else:
        base = base.astype(float_dtype(base.node.dtype))
    size = base.node.shape[place]
    if size < 2:
        return base
    steps = diff(base, axis=place)
    near = arithmetic.remainder(steps + half, period) - half
    if not (isinstance(half, int) and period % 2):
        near = where((near == -half) & (steps > 0), half, near)
    change = where(elementwise.abs(steps) < (period / 2 if discont is None else discont), 0, near - steps)
    return concat([narrow(base, place, 0, 1), narrow(base, place, 1, size - 1) + cumsum(change, place)], place)


take_habits(globals())
