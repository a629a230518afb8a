"""Pictures, sounds and volumes at other sizes.

Each axis is resized by itself, as a product with a matrix or a choice of elements.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from zyx import dtype as dtypes
from zyx.errors import ShapeError
from zyx.functions.linalg import tensordot
from zyx.functions.movement import moveaxis, spread
from zyx.functions.operands import float_dtype, require, wrap
from zyx.functions.pooling import avg_pool
from zyx.functions.selection import take
from zyx.integers import as_integer, is_several

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.functions.conv import Sizes
    from zyx.functions.operands import Array
    from zyx.tensor.tensor import Tensor

_LINEAR = {"linear": 1, "bilinear": 2, "trilinear": 3}


def interpolate(
    x: Tensor,
    size: Sizes | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool = False,
) -> Tensor:
    """Resize all axes behind batch and channels.

    Args:
        x: ``(N, C, n1, .., nk)``.
        size: The new sizes, for all axes or each.
        scale_factor: In place of `size`: the new sizes are the old ones times this, rounded down.
        mode: "nearest" takes the element that covers the place; "linear", "bilinear" and "trilinear", for one, two and
            three axes, weigh the neighbours.
        align_corners: Of the linear modes: whether the outermost elements lie on the border, or fill it.

    Returns:
        ``(N, C, o1, .., ok)``.

    Raises:
        ShapeError: Neither or both of `size` and `scale_factor`, sizes below 1, an unknown mode or one of another rank.
    """
    shape = require(x, "interpolate").node.shape
    count = len(shape) - 2
    if count < 1 or (mode != "nearest" and _LINEAR.get(mode) != count):
        raise ShapeError(
            f'interpolate: mode {mode!r} does not fit {shape}: it is "nearest", or for (N, C) and one, two or three '
            'more axes "linear", "bilinear" or "trilinear"'
        )
    if (size is None) == (scale_factor is None):
        raise ShapeError("interpolate takes either size or scale_factor")
    if size is not None:
        new = spread(size, count, "size")
    else:
        assert scale_factor is not None
        factors = list(scale_factor) if hasattr(scale_factor, "__iter__") else [scale_factor] * count
        if len(factors) != count:
            raise ShapeError(f"interpolate: {len(factors)} factors for {count} axes")
        new = tuple(math.floor(old * factor) for old, factor in zip(shape[2:], factors, strict=True))
    if min(*shape[2:], *new) < 1:
        raise ShapeError(f"interpolate: cannot resize {shape} to {new}: sizes are at least 1")
    result = x
    for axis, (old, wanted) in enumerate(zip(shape[2:], new, strict=True), start=2):
        if mode == "nearest":
            places = np.arange(wanted, dtype=np.int64) * old // wanted
            result = take(result, places, axis=axis) if wanted != old else result
        elif wanted != old:
            result = _weighted(result, _between(old, wanted, align_corners), axis)
    return result


def _between(old: int, new: int, align_corners: bool) -> Array:
    """Return the weights, ``(new, old)``, of the two neighbours of each new place."""
    places = np.arange(new, dtype=np.float64)
    if align_corners:
        places = places * ((old - 1) / (new - 1)) if new > 1 else places
    else:
        places = np.maximum((places + 0.5) * (old / new) - 0.5, 0.0)
    left = np.minimum(np.floor(places).astype(np.int64), old - 1)
    share = places - left
    weights = np.zeros((new, old))
    rows = np.arange(new)
    np.add.at(weights, (rows, left), 1.0 - share)
    np.add.at(weights, (rows, np.minimum(left + 1, old - 1)), share)
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
    """Return `adaptive_avg_pool` over the last axis."""
    return adaptive_avg_pool(x, spread(output_size, 1, "output_size"))


def adaptive_avg_pool2d(x: Tensor, output_size: Sizes | Sequence[int | None]) -> Tensor:
    """Return `adaptive_avg_pool` over the last two axes."""
    return adaptive_avg_pool(x, _spread_or_none(output_size, 2))


def adaptive_avg_pool3d(x: Tensor, output_size: Sizes | Sequence[int | None]) -> Tensor:
    """Return `adaptive_avg_pool` over the last three axes."""
    return adaptive_avg_pool(x, _spread_or_none(output_size, 3))


def _spread_or_none(output_size: Sizes | Sequence[int | None], count: int) -> list[int | None]:
    """Return a size for each of `count` axes; None stays."""
    if not is_several(output_size):
        return [as_integer(output_size, "output_size")] * count
    given = list(output_size)
    sizes = spread([1 if n is None else n for n in given], count, "output_size")
    return [None if n is None else size for size, n in zip(sizes, given, strict=True)]
