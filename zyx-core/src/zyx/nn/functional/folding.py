"""Windows as columns and back, and channels that change places with positions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from zyx.errors import ShapeError
from zyx.functions.conv import conv_transpose
from zyx.functions.joining import pad
from zyx.functions.movement import permute_dims, reshape, windows
from zyx.functions.operands import require
from zyx.integers import as_index, spread
from zyx.tensor.creation import asarray

if TYPE_CHECKING:
    from zyx.functions.conv import Sizes
    from zyx.tensor.tensor import Tensor


def unfold(x: Tensor, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1) -> Tensor:
    """Return the windows of pictures as columns.

    Args:
        x: ``(N, C, H, W)`` or ``(C, H, W)``.
        kernel_size: Extents of a window.
        dilation: Distance between its elements.
        padding: Border of zeros on both sides.
        stride: Distance between windows.

    Returns:
        ``(N, C * window, windows)``, without N if there is none.

    Raises:
        ShapeError: Another rank.

    >>> zyx.nn.functional.unfold(zyx.arange(9).reshape(1, 1, 3, 3), 2).tolist()
    [[[0, 1, 3, 4], [1, 2, 4, 5], [3, 4, 6, 7], [4, 5, 7, 8]]]
    """
    shape = require(x, "unfold").node.shape
    if len(shape) not in (3, 4):
        raise ShapeError(f"unfold takes (N, C, H, W) or (C, H, W), not {shape}")
    extents, borders = spread(kernel_size, 2, "kernel_size"), spread(padding, 2, "padding")
    padded = pad(x, [(0, 0)] * (len(shape) - 2) + [(width, width) for width in borders])
    seen = windows(padded, extents, spread(stride, 2, "stride"), spread(dilation, 2, "dilation"))
    first = len(shape) - 2  # (N, C, o1, o2, k1, k2) to (N, C, k1, k2, o1, o2)
    seen = permute_dims(seen, (*range(first), first + 2, first + 3, first, first + 1))
    rows, columns = shape[-3] * math.prod(extents), math.prod(seen.shape[-2:])
    return reshape(seen, (*shape[:-3], rows, columns))


def fold(
    x: Tensor,
    output_size: Sizes,
    kernel_size: Sizes,
    dilation: Sizes = 1,
    padding: Sizes = 0,
    stride: Sizes = 1,
) -> Tensor:
    """Return pictures of which each element is the sum of what `unfold` would put there.

    Args:
        x: Columns ``(N, C * window, windows)``, without N if there is none.
        output_size: H and W.
        kernel_size: See `unfold`.
        dilation: See `unfold`.
        padding: See `unfold`.
        stride: See `unfold`.

    Returns:
        ``(N, C, H, W)``, without N if there is none.

    Raises:
        ShapeError: Columns that are not those of such windows.

    >>> zyx.nn.functional.fold(zyx.ones(1, 4, 4), (3, 3), 2).tolist()
    [[[[1.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 1.0]]]]
    """
    shape = require(x, "fold").node.shape
    size, window = spread(output_size, 2, "output_size"), spread(kernel_size, 2, "kernel_size")
    gaps, borders, steps = spread(dilation, 2, "dilation"), spread(padding, 2, "padding"), spread(stride, 2, "stride")
    reaches = [gap * (extent - 1) + 1 for gap, extent in zip(gaps, window, strict=True)]
    spans = [n + 2 * border - reach for n, border, reach in zip(size, borders, reaches, strict=True)]
    area = math.prod(window)
    places = [span // step + 1 for span, step in zip(spans, steps, strict=True)]
    if len(shape) not in (2, 3) or shape[-2] % max(area, 1) or shape[-1] != math.prod(places) or min(spans) < 0:
        raise ShapeError(
            f"fold: columns {shape} are not (N, C * {area}, {math.prod(places)}), those of windows {window} in {size}"
        )
    channels = shape[-2] // area
    columns = reshape(x, (*shape[:-1], *places))
    columns = columns if len(shape) == 3 else columns.expand_dims(0)
    one = np.eye(area, dtype=x.dtype.numpy).reshape(area, 1, *window)
    filters = asarray(np.tile(one, (channels, 1, 1, 1)), device=x.device)
    rest = [span % step for span, step in zip(spans, steps, strict=True)]
    found = conv_transpose(columns, filters, None, steps, borders, rest, channels * area, gaps)
    found = found.reshape((found.shape[0], channels, area, *size)).sum(2)
    return found if len(shape) == 3 else found.squeeze(0)


def pixel_shuffle(x: Tensor, upscale_factor: int) -> Tensor:
    """Return ``(..., C * r * r, H, W)`` as ``(..., C, H * r, W * r)``.

    Shi et al., "Real-time single image and video super-resolution using an efficient sub-pixel convolutional neural
    network", 2016.

    Raises:
        ShapeError: Fewer than three axes, or channels that are no multiple.

    >>> zyx.nn.functional.pixel_shuffle(zyx.arange(4).reshape(4, 1, 1), 2).tolist()
    [[[0, 1], [2, 3]]]
    """
    shape, r = require(x, "pixel_shuffle").node.shape, as_index(upscale_factor, "upscale_factor")
    if len(shape) < 3 or r < 1 or shape[-3] % (r * r):
        raise ShapeError(f"pixel_shuffle: the channels of {shape} are no multiple of {r} * {r}")
    channels, height, width = shape[-3] // (r * r), shape[-2], shape[-1]
    front = len(shape) - 3
    apart = reshape(x, (*shape[:-3], channels, r, r, height, width))
    order = (*range(front), front, front + 3, front + 1, front + 4, front + 2)
    return reshape(permute_dims(apart, order), (*shape[:-3], channels, height * r, width * r))


def pixel_unshuffle(x: Tensor, downscale_factor: int) -> Tensor:
    """Return ``(..., C, H * r, W * r)`` as ``(..., C * r * r, H, W)``: what `pixel_shuffle` undoes.

    Raises:
        ShapeError: Fewer than three axes, or sizes that are no multiples.

    >>> zyx.nn.functional.pixel_unshuffle(zyx.arange(4).reshape(1, 2, 2), 2).tolist()
    [[[0]], [[1]], [[2]], [[3]]]
    """
    shape, r = require(x, "pixel_unshuffle").node.shape, as_index(downscale_factor, "downscale_factor")
    if len(shape) < 3 or r < 1 or shape[-1] % r or shape[-2] % r:
        raise ShapeError(f"pixel_unshuffle: the last two sizes of {shape} are no multiples of {r}")
    channels, height, width = shape[-3], shape[-2] // r, shape[-1] // r
    front = len(shape) - 3
    apart = reshape(x, (*shape[:-3], channels, height, r, width, r))
    order = (*range(front), front, front + 2, front + 4, front + 1, front + 3)
    return reshape(permute_dims(apart, order), (*shape[:-3], channels * r * r, height, width))


def channel_shuffle(x: Tensor, groups: int) -> Tensor:
    """Return ``(N, C, ...)`` with the first channels of all `groups` first, then the second ones, and so on.

    Zhang et al., "ShuffleNet", 2017.

    Raises:
        ShapeError: Fewer than three axes, or channels that do not fall into groups.

    >>> zyx.nn.functional.channel_shuffle(zyx.arange(4).reshape(1, 4, 1), 2).flatten().tolist()
    [0, 2, 1, 3]
    """
    shape, groups = require(x, "channel_shuffle").node.shape, as_index(groups, "groups")
    if len(shape) < 3 or groups < 1 or shape[1] % groups:
        raise ShapeError(f"channel_shuffle: the channels of {shape} do not fall into {groups} groups")
    apart = reshape(x, (shape[0], groups, shape[1] // groups, *shape[2:]))
    return reshape(permute_dims(apart, (0, 2, 1, *range(3, len(shape) + 1))), shape)
