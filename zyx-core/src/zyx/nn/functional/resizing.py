"""Pictures, sounds and volumes at other sizes.

Each axis is resized by itself, as a product with a matrix or a choice of elements.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zyx import dtype as dtypes
from zyx.errors import ShapeError
from zyx.functions.linalg import tensordot
from zyx.functions.movement import moveaxis
from zyx.functions.operands import float_dtype, require, wrap
from zyx.functions.pooling import avg_pool
from zyx.functions.selection import take
from zyx.integers import as_integer, is_several, spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.functions.conv import Sizes
    from zyx.functions.operands import Array
    from zyx.tensor.tensor import Tensor

_ANY_RANK: Final = ("nearest", "nearest-exact", "area")
_OF_RANK: Final = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}
#: Slope of cubic convolution at a distance of one.
_CUBIC: Final = -0.75


def interpolate(
    x: Tensor,
    size: Sizes | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
) -> Tensor:
    """Resize all axes behind batch and channels.

    Args:
        x: ``(N, C, n1, .., nk)``.
        size: The new sizes, for all axes or each.
        scale_factor: In place of `size`: the new sizes are the old ones times this, rounded down; places are this far
            apart, so that the last new one may lie before the end of the old ones.
        mode: "nearest" takes the element at the place rounded down, "nearest-exact" the one that covers the middle of
            the place; "linear", "bilinear" and "trilinear", for one, two and three axes, weigh the neighbours;
            "bicubic", for two, four of them: Keys, "Cubic convolution interpolation for digital image processing",
            1981, with the slope -0.75; "area" is `adaptive_avg_pool`.
        align_corners: Of the linear modes and "bicubic": whether the outermost elements lie on the border, or fill it,
            which is what None means.
        recompute_scale_factor: Whether places are the ratio of the sizes apart, also where `scale_factor` is given.

    Returns:
        ``(N, C, o1, .., ok)``.

    Raises:
        ShapeError: Neither or both of `size` and `scale_factor`, sizes below 1, an unknown mode or one of another rank.

    >>> zyx.nn.functional.interpolate(zyx.ones(1, 1, 2, 2), scale_factor=2).shape
    (1, 1, 4, 4)
    """
    shape = require(x, "interpolate").node.shape
    count = len(shape) - 2
    if count < 1 or (mode not in _ANY_RANK and _OF_RANK.get(mode) != count):
        raise ShapeError(
            f"interpolate: mode {mode!r} does not fit {shape}: it is {', '.join(map(repr, _ANY_RANK))}, or for (N, C) "
            'and one, two or three more axes "linear", "bilinear" or "bicubic", or "trilinear"'
        )
    if (size is None) == (scale_factor is None):
        raise ShapeError("interpolate takes either size or scale_factor")
    if recompute_scale_factor and size is not None:
        raise ShapeError("interpolate: recompute_scale_factor is of scale_factor, not of size")
    if align_corners and mode in _ANY_RANK:
        raise ShapeError(f"interpolate: align_corners is of the linear modes and bicubic, not of {mode!r}")
    steps: list[float | None] = [None] * count
    if size is not None:
        new = spread(size, count, "size")
    else:
        assert scale_factor is not None
        factors: list[Any] = list(scale_factor) if is_several(scale_factor) else [scale_factor] * count
        if len(factors) != count:
            raise ShapeError(f"interpolate: {len(factors)} factors for {count} axes")
        new = tuple(math.floor(old * factor) for old, factor in zip(shape[2:], factors, strict=True))
        if not recompute_scale_factor:
            steps = [1.0 / factor for factor in factors]
    if min(*shape[2:], *new) < 1:
        raise ShapeError(f"interpolate: cannot resize {shape} to {new}: sizes are at least 1")
    if mode == "area":
        return adaptive_avg_pool(x, new)
    result = x
    for axis, (old, wanted, step) in enumerate(zip(shape[2:], new, steps, strict=True), start=2):
        if mode.startswith("nearest"):
            places = _nearest(old, wanted, step, 0.5 if mode == "nearest-exact" else 0.0)
            result = result if list(places) == list(range(old)) else take(result, places, axis=axis)
        elif wanted != old or (mode == "bicubic" and new != shape[2:]):  # of equal sizes PyTorch's linear modes copy
            between = _between_four if mode == "bicubic" else _between
            result = _weighted(result, between(old, wanted, step, bool(align_corners)), axis)
    return result


def _nearest(old: int, new: int, step: float | None, offset: float) -> Array:
    """Return the old place of each new one; with a `step`, in float32, as in PyTorch, else exactly."""
    places: Array = np.arange(new, dtype=np.int64)
    if step is None:
        return places * old // new if not offset else (2 * places + 1) * old // (2 * new)
    found = np.floor((places.astype(np.float32) + np.float32(offset)) * np.float32(step)).astype(np.int64)
    return np.minimum(found, old - 1)  # type: ignore[no-any-return]  # of NumPy's stubs


def _places(old: int, new: int, step: float | None, align_corners: bool) -> Array:
    """Return where the new elements lie among the old ones."""
    places = np.arange(new, dtype=np.float64)
    if align_corners:
        return places * ((old - 1) / (new - 1)) if new > 1 else places
    return (places + 0.5) * (old / new if step is None else step) - 0.5


def _between(old: int, new: int, step: float | None, align_corners: bool) -> Array:
    """Return the weights, ``(new, old)``, of the two neighbours of each new place."""
    places = np.maximum(_places(old, new, step, align_corners), 0.0)
    left = np.minimum(np.floor(places).astype(np.int64), old - 1)
    share = np.minimum(places - left, 1.0)
    weights = np.zeros((new, old))
    rows = np.arange(new)
    np.add.at(weights, (rows, left), 1.0 - share)
    np.add.at(weights, (rows, np.minimum(left + 1, old - 1)), share)
    return weights


def _between_four(old: int, new: int, step: float | None, align_corners: bool) -> Array:
    """Return the weights, ``(new, old)``, of the four neighbours of each new place; outside, the edge goes on."""
    places = _places(old, new, step, align_corners)
    first = np.floor(places).astype(np.int64)
    weights = np.zeros((new, old))
    for offset in (-1, 0, 1, 2):
        near = np.abs(places - (first + offset))
        inner = ((_CUBIC + 2) * near - (_CUBIC + 3)) * near * near + 1
        outer = ((near - 5) * near + 8) * near * _CUBIC - 4 * _CUBIC
        np.add.at(
            weights,
            (np.arange(new), np.clip(first + offset, 0, old - 1)),
            np.where(near <= 1, inner, outer),
        )
    return weights


def _weighted(x: Tensor, weights: Array, axis: int) -> Tensor:
    """Return the products of `weights`, ``(new, old)``, with `x` along `axis`."""
    dtype = float_dtype(x.node.dtype)
    wide = dtypes.accumulator(dtype)
    matrix = wrap(x.runtime.upload(weights.astype(wide.numpy), x.node.device), x)
    return moveaxis(tensordot(x.astype(wide), matrix, axes=((axis,), (1,))), -1, axis).astype(dtype)


def adaptive_avg_pool(x: Tensor, output_size: Sequence[int | None]) -> Tensor:
    """Return the means of ``output_size[i]`` windows along each of the last axes; None keeps an axis as it is.

    Window j of an axis goes from ``floor(j * n / o)`` to ``ceil((j + 1) * n / o)``.

    Raises:
        ShapeError: More sizes than axes, or sizes below 1.

    >>> zyx.nn.functional.adaptive_avg_pool(zyx.Tensor([[1.0, 3.0, 5.0, 7.0]]), (2,)).tolist()
    [[2.0, 6.0]]
    """
    shape = require(x, "adaptive_avg_pool").node.shape
    output_size = tuple([None if n is None else as_integer(n, "each of output_size") for n in output_size])
    count = len(output_size)
    if len(shape) < count:
        raise ShapeError(f"adaptive_avg_pool: {count} sizes for shape {shape}")
    old = shape[len(shape) - count :]
    new = tuple(n if wanted is None else wanted for n, wanted in zip(old, output_size, strict=True))
    if min(*old, *new, 1) < 1:
        raise ShapeError(f"adaptive_avg_pool: cannot bring {old} to {new}: sizes are at least 1")
    if all(n % wanted == 0 for n, wanted in zip(old, new, strict=True)):
        return avg_pool(x, [n // wanted for n, wanted in zip(old, new, strict=True)])
    result = x
    for axis, (n, wanted) in enumerate(zip(old, new, strict=True), start=len(shape) - count):
        weights = np.zeros((wanted, n))
        for row in range(wanted):
            start, stop = row * n // wanted, -(-(row + 1) * n // wanted)
            weights[row, start:stop] = 1.0 / (stop - start)
        result = _weighted(result, weights, axis)
    return result


def adaptive_avg_pool1d(x: Tensor, output_size: int) -> Tensor:
    """Return `adaptive_avg_pool` over the last axis.

    Raises:
        ShapeError: A size below 1.

    >>> zyx.nn.functional.adaptive_avg_pool1d(zyx.Tensor([[1.0, 3.0, 5.0, 7.0]]), 2).tolist()
    [[2.0, 6.0]]
    """
    return adaptive_avg_pool(x, spread(output_size, 1, "output_size"))


def adaptive_avg_pool2d(x: Tensor, output_size: Sizes | Sequence[int | None]) -> Tensor:
    """Return `adaptive_avg_pool` over the last two axes.

    Raises:
        ShapeError: A size below 1.

    >>> zyx.nn.functional.adaptive_avg_pool2d(zyx.ones(1, 3, 7, 5), (1, 1)).shape
    (1, 3, 1, 1)
    """
    return adaptive_avg_pool(x, _spread_or_none(output_size, 2))


def adaptive_avg_pool3d(x: Tensor, output_size: Sizes | Sequence[int | None]) -> Tensor:
    """Return `adaptive_avg_pool` over the last three axes.

    Raises:
        ShapeError: A size below 1.

    >>> zyx.nn.functional.adaptive_avg_pool3d(zyx.ones(1, 3, 4, 5, 6), 2).shape
    (1, 3, 2, 2, 2)
    """
    return adaptive_avg_pool(x, _spread_or_none(output_size, 3))


def _spread_or_none(output_size: Sizes | Sequence[int | None], count: int) -> list[int | None]:
    """Return a size for each of `count` axes; None stays."""
    if not is_several(output_size):
        return [as_integer(output_size, "output_size")] * count
    given = list(output_size)
    sizes = spread([1 if n is None else n for n in given], count, "output_size")
    return [None if n is None else size for size, n in zip(sizes, given, strict=True)]
