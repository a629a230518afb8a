"""Pictures and volumes read at places that are computed. Jaderberg et al., "Spatial transformer networks", 2015.

Places go from -1 to 1 along each axis: with `align_corners` these are the middles of the outermost elements, else their
outer borders. The last axis of a grid is x, y (and z): the last axis of the picture first.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np

from zyx.errors import DTypeError, ShapeError
from zyx.functions.choosing import where
from zyx.functions.elementwise import abs as magnitude
from zyx.functions.elementwise import floor, round
from zyx.functions.linalg import matmul
from zyx.functions.movement import broadcast_to, reshape
from zyx.functions.operands import require
from zyx.functions.selection import take_along_axis
from zyx.integers import as_integers
from zyx.tensor.creation import asarray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.tensor.tensor import Tensor

#: Slope of cubic convolution at a distance of one.
_CUBIC = -0.75


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool = False) -> Tensor:
    """Return the places that affine maps send those of a picture to.

    Args:
        theta: ``(N, 2, 3)``, or ``(N, 3, 4)`` for volumes.
        size: ``(N, C, H, W)``, or ``(N, C, D, H, W)``.
        align_corners: See the module.

    Returns:
        ``(N, H, W, 2)``, or ``(N, D, H, W, 3)``.

    Raises:
        ShapeError: Shapes that do not fit.

    >>> zyx.nn.functional.affine_grid(zyx.Tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]), (1, 3, 4, 5)).shape
    (1, 4, 5, 2)
    """
    shape, sizes = require(theta, "affine_grid").node.shape, as_integers(size, "size")
    count = len(sizes) - 2
    if count not in (2, 3) or shape != (sizes[0], count, count + 1):
        raise ShapeError(f"affine_grid: maps {shape} for size {sizes}")
    axes = []
    for n in sizes[2:]:
        ends = np.linspace(-1.0, 1.0, n) if n > 1 else np.zeros(n)
        axes.append(ends if align_corners else ends * (n - 1) / n)
    places = np.stack([*np.meshgrid(*axes, indexing="ij")[::-1], np.ones(sizes[2:])], axis=-1)
    base = asarray(places.reshape(-1, count + 1).astype(theta.dtype.numpy), device=theta.device)
    return reshape(matmul(base, theta.mT), (sizes[0], *sizes[2:], count))


def grid_sample(
    x: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = False,
) -> Tensor:
    """Return what lies at the places of a grid.

    Args:
        x: ``(N, C, H, W)``, or ``(N, C, D, H, W)``.
        grid: Places, ``(N, h, w, 2)``, or ``(N, d, h, w, 3)``.
        mode: "bilinear" weighs the neighbours, also of volumes; "nearest" takes the nearest one, of two the even one;
            "bicubic", of pictures, weighs sixteen.
        padding_mode: What lies outside: "zeros", the nearest element of the "border", or a "reflection".
        align_corners: See the module.

    Returns:
        ``(N, C, h, w)``, or ``(N, C, d, h, w)``.

    Raises:
        ShapeError: Shapes that do not fit, or an unknown mode.
        DTypeError: Not of floats.

    >>> x, grid = zyx.Tensor([[[[1.0, 3.0]]]]), zyx.Tensor([[[[0.0, 0.0]]]])
    >>> zyx.nn.functional.grid_sample(x, grid).tolist()
    [[[[2.0]]]]
    """
    shape, places = require(x, "grid_sample").node.shape, require(grid, "grid_sample").node.shape
    count = len(shape) - 2
    if count not in (2, 3) or len(places) != len(shape) or places[0] != shape[0] or places[-1] != count:
        raise ShapeError(f"grid_sample: places {places} for pictures {shape}")
    if not x.dtype.is_float or not grid.dtype.is_float:
        raise DTypeError(f"grid_sample takes floats, not {x.dtype} and {grid.dtype}")
    if mode not in ("bilinear", "nearest", "bicubic") or (mode == "bicubic" and count == 3):
        raise ShapeError(f'grid_sample: mode is "bilinear", "nearest", or of pictures "bicubic", not {mode!r}')
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ShapeError(f'grid_sample: padding_mode is "zeros", "border" or "reflection", not {padding_mode!r}')
    sizes = shape[2:]
    axes = []
    for axis, size in enumerate(sizes):
        place = grid[..., count - 1 - axis]
        place = (place + 1) * ((size - 1) / 2.0) if align_corners else ((place + 1) * size - 1) / 2.0
        axes.append(place if mode == "bicubic" else _inside(place, size, padding_mode, align_corners))
    taps = [_taps(place, mode) for place in axes]
    rows = reshape(x, (*shape[:2], math.prod(sizes)))
    total: Tensor | None = None
    for corner in itertools.product(*taps):
        indices = [index for index, _ in corner]
        if mode == "bicubic":
            indices = [_inside(i, n, padding_mode, align_corners) for i, n in zip(indices, sizes, strict=True)]
        part = _read(rows, indices, sizes)
        for _, weight in corner:
            part = part if weight is None else part * weight.expand_dims(1).astype(x.dtype)
        total = part if total is None else total + part
    assert total is not None
    return total


def _inside(place: Tensor, size: int, padding_mode: str, align_corners: bool) -> Tensor:
    """Return places in an axis as the mode of the border has them."""
    if padding_mode == "zeros":
        return place
    if padding_mode == "reflection":
        low, high = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
        span = high - low
        if span <= 0:
            return place * 0.0
        away = magnitude(place - low)
        turns = floor(away / span)
        rest = away - turns * span
        place = where(turns % 2 == 0, rest + low, span - rest + low)
    return place.clip(0, size - 1)


def _taps(place: Tensor, mode: str) -> list[tuple[Tensor, Tensor | None]]:
    """Return the whole places that are read along an axis, and their weights; None is 1."""
    if mode == "nearest":
        return [(round(place).detach(), None)]
    first = floor(place).detach()
    part = place - first
    if mode == "bilinear":
        return [(first, 1 - part), (first + 1, part)]
    distances = (part + 1, part, 1 - part, 2 - part)
    return [(first + (i - 1), _cubic(d, is_far=i in (0, 3))) for i, d in enumerate(distances)]


def _cubic(distance: Tensor, *, is_far: bool) -> Tensor:
    """Return the weight of an element so far away. Keys, 1981."""
    if is_far:
        return ((distance - 5) * distance + 8) * distance * _CUBIC - 4 * _CUBIC
    return ((_CUBIC + 2) * distance - (_CUBIC + 3)) * distance * distance + 1


def _read(rows: Tensor, indices: list[Tensor], sizes: Sequence[int]) -> Tensor:
    """Return the elements at whole places, 0 outside: ``(N, C, ...)``."""
    inside: Tensor | None = None
    flat: Tensor | None = None
    for index, size in zip(indices, sizes, strict=True):
        fits = (index >= 0).logical_and(index <= size - 1)
        inside = fits if inside is None else inside.logical_and(fits)
        whole = index.clip(0, size - 1).nan_to_num().astype("int64")
        flat = whole if flat is None else flat * size + whole
    assert inside is not None
    assert flat is not None
    n, channels = rows.shape[:2]
    places = broadcast_to(reshape(flat, (n, 1, flat.size // max(n, 1))), (n, channels, flat.size // max(n, 1)))
    found = reshape(take_along_axis(rows, places, 2), (n, channels, *flat.shape[1:]))
    return where(inside.expand_dims(1), found, 0.0)
