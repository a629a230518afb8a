"""Pooling beside `zyx.functions.pooling`: a number of windows, windows at random, p-norms, and the way back."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from zyx import dtype as dtypes
from zyx.errors import ShapeError
from zyx.functions.choosing import where
from zyx.functions.elementwise import abs as magnitude
from zyx.functions.elementwise import sign
from zyx.functions.movement import broadcast_to, reshape
from zyx.functions.operands import require
from zyx.functions.pooling import avg_pool
from zyx.functions.selection import scatter, take_along_axis
from zyx.integers import as_index, is_several, spread
from zyx.tensor.creation import arange, asarray, zeros
from zyx.tensor.random import rand

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.functions.conv import Sizes
    from zyx.tensor.tensor import Tensor


def adaptive_max_pool(
    x: Tensor, output_size: int | Sequence[int | None], count: int, return_indices: bool = False
) -> Any:  # noqa: ANN401  # a tensor, or two
    """Return the greatest of as many windows as are wanted along each of the last `count` axes.

    Window i of n along an axis of N begins at ``floor(i * N / n)`` and ends before ``ceil((i + 1) * N / n)``.

    Args:
        x: ``(..., n1, .., nk)``.
        output_size: For all axes or each; None keeps one.
        count: How many axes, k.
        return_indices: Whether the place of each result among the ``n1 * .. * nk`` is returned, too.

    Raises:
        ShapeError: Too few axes, another number of sizes, or a size below 1.

    >>> zyx.nn.functional.adaptive_max_pool(zyx.Tensor([[1.0, 3.0, 5.0, 7.0]]), 2, 1).tolist()
    [[3.0, 7.0]]
    """
    shape = require(x, "adaptive_max_pool").node.shape
    count = as_index(count, "count")
    wanted = list(output_size) if is_several(output_size) else [output_size] * count
    if len(shape) < count or len(wanted) != count:
        raise ShapeError(f"adaptive_max_pool: {len(wanted)} sizes and {count} axes of {shape}")
    sizes = shape[len(shape) - count :]
    news = [n if each is None else as_index(each, "output_size") for n, each in zip(sizes, wanted, strict=True)]
    if min(*news, *sizes) < 1:
        raise ShapeError(f"adaptive_max_pool: cannot bring {sizes} to {tuple(news)}: sizes are at least 1")
    places = [_windows(n, new) for n, new in zip(sizes, news, strict=True)]
    return _greatest(x, [asarray(each, device=x.device) for each in places], return_indices)


def _windows(size: int, count: int) -> np.ndarray:
    """Return the places of the elements of each window, ``(count, longest)``; the last stands for what lacks."""
    starts = [i * size // count for i in range(count)]
    stops = [-(-(i + 1) * size // count) for i in range(count)]
    longest = max(stop - start for start, stop in zip(starts, stops, strict=True))
    return np.array([[min(a + j, b - 1) for j in range(longest)] for a, b in zip(starts, stops, strict=True)])


def _greatest(x: Tensor, places: list[Tensor], return_indices: bool) -> Any:  # noqa: ANN401
    """Return the greatest element of windows, of which `places` has those of elements, axis by axis.

    Each is ``(windows, extent)``, or with what stands before the axes that are pooled in front.
    """
    count = len(places)
    front = x.shape[: x.ndim - count]
    sizes = x.shape[x.ndim - count :]
    news, extents = [each.shape[-2] for each in places], [each.shape[-1] for each in places]
    flat: Tensor | int = 0
    for axis, (each, size) in enumerate(zip(places, sizes, strict=True)):
        inner = [1] * (2 * count)
        inner[axis], inner[count + axis] = news[axis], extents[axis]
        flat = flat * size + reshape(each, (*each.shape[:-2], *inner))
    assert not isinstance(flat, int)
    full = (*front, *news, *extents)
    flat = reshape(broadcast_to(flat, full), (*front, math.prod(news), math.prod(extents)))
    rows = reshape(x, (*front, math.prod(sizes)))
    picked = take_along_axis(rows, reshape(flat, (*front, math.prod(flat.shape[-2:]))), -1)
    seen = reshape(picked, flat.shape)
    greatest = reshape(seen.max(-1), (*front, *news))
    if not return_indices:
        return greatest
    chosen = take_along_axis(flat, seen.argmax(-1, keepdims=True), -1)
    return greatest, reshape(chosen, (*front, *news)).astype("int64")


def adaptive_max_pool1d(x: Tensor, output_size: Sizes, return_indices: bool = False) -> Any:  # noqa: ANN401
    """Return `adaptive_max_pool` over the last axis; with ``return_indices`` also the places.

    Raises:
        ShapeError: A size below 1.

    >>> zyx.nn.functional.adaptive_max_pool1d(zyx.Tensor([[1.0, 3.0, 5.0, 7.0]]), 2).tolist()
    [[3.0, 7.0]]
    """
    return adaptive_max_pool(x, output_size, 1, return_indices)


def adaptive_max_pool2d(x: Tensor, output_size: int | Sequence[int | None], return_indices: bool = False) -> Any:  # noqa: ANN401
    """Return `adaptive_max_pool` over the last two axes; with ``return_indices`` also the places.

    Raises:
        ShapeError: A size below 1.

    >>> zyx.nn.functional.adaptive_max_pool2d(zyx.ones(1, 3, 7, 5), (1, 1)).shape
    (1, 3, 1, 1)
    """
    return adaptive_max_pool(x, output_size, 2, return_indices)


def adaptive_max_pool3d(x: Tensor, output_size: int | Sequence[int | None], return_indices: bool = False) -> Any:  # noqa: ANN401
    """Return `adaptive_max_pool` over the last three axes; with ``return_indices`` also the places.

    Raises:
        ShapeError: A size below 1.

    >>> zyx.nn.functional.adaptive_max_pool3d(zyx.ones(1, 3, 4, 5, 6), 2).shape
    (1, 3, 2, 2, 2)
    """
    return adaptive_max_pool(x, output_size, 3, return_indices)


def _fractional(
    x: Tensor,
    count: int,
    kernel_size: Sizes,
    output_size: Sizes | None,
    output_ratio: float | Sequence[float] | None,
    return_indices: bool,
    samples: Tensor | None,
) -> Any:  # noqa: ANN401
    """Return the greatest of windows at random places. Graham, "Fractional max-pooling", 2014."""
    what = f"fractional_max_pool{count}d"
    shape = require(x, what).node.shape
    if len(shape) not in (count + 1, count + 2):
        raise ShapeError(f"{what} takes {count} axes behind channels, with or without a batch, not {shape}")
    if (output_size is None) == (output_ratio is None):
        raise ShapeError(f"{what} takes either output_size or output_ratio")
    sizes, window = shape[-count:], spread(kernel_size, count, "kernel_size")
    if output_size is None:
        assert output_ratio is not None
        ratios: list[Any] = list(output_ratio) if is_several(output_ratio) else [output_ratio] * count
        news = tuple(int(n * ratio) for n, ratio in zip(sizes, ratios, strict=True))
    else:
        news = spread(output_size, count, "output_size")
    if any(new < 1 or new + extent - 1 > n for n, new, extent in zip(sizes, news, window, strict=True)):
        raise ShapeError(f"{what}: {news} windows of {window} do not fit {sizes}")
    front = shape[:-count]
    batch = (shape[0] if len(shape) == count + 2 else 1, shape[-count - 1], count)
    drawn = rand(batch, device=x.device) if samples is None else require(samples, what).to(x.device)
    if drawn.shape != batch:
        raise ShapeError(f"{what}: _random_samples are {batch}, not {drawn.shape}")
    # PyTorch takes the numbers of two axes in the order W, H, of three in that of the axes.
    order = (1, 0) if count == 2 else range(count)
    places = [
        _places(reshape(drawn[..., number], (*front, 1)), n, new, extent)
        for number, n, new, extent in zip(order, sizes, news, window, strict=True)
    ]
    return _greatest(x, places, return_indices)


def _places(sample: Tensor, size: int, count: int, extent: int) -> Tensor:
    """Return the places of elements of windows whose distances are whole numbers near the one that fills the axis."""
    last = size - extent
    number = arange(count, device=sample.device)
    if count > 1:
        step = last / (count - 1)
        start = ((number + sample) * step).trunc() - (sample * step).trunc()
        start = where(number == count - 1, float(last), start)
    else:
        start = sample * 0.0 + float(last)
    within = arange(extent, device=sample.device)
    return start.astype(dtypes.int64).expand_dims(-1) + within


def fractional_max_pool2d(
    x: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:  # noqa: ANN401  # a tensor, or two
    """Return the greatest of windows over the last two axes, at places that are drawn at random for each channel.

    Graham, "Fractional max-pooling", 2014.

    Args:
        x: ``(N, C, H, W)`` or ``(C, H, W)``.
        kernel_size: Extents of a window.
        output_size: How many windows there are along each axis.
        output_ratio: In place of it: their share of the size.
        return_indices: Whether the place of each result among the ``H * W`` is returned, too.
        _random_samples: ``(N, C, 2)``, 0 to 1, in place of drawn ones.

    Raises:
        ShapeError: Sizes that do not fit, or not one of `output_size` and `output_ratio`.

    >>> zyx.nn.functional.fractional_max_pool2d(zyx.ones(1, 3, 8, 8), 2, output_size=5).shape
    (1, 3, 5, 5)
    """
    return _fractional(x, 2, kernel_size, output_size, output_ratio, return_indices, _random_samples)


def fractional_max_pool3d(
    x: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:  # noqa: ANN401  # a tensor, or two
    """Return `fractional_max_pool2d` over three axes.

    Raises:
        ShapeError: Not one of `output_size` and `output_ratio`.

    >>> zyx.nn.functional.fractional_max_pool3d(zyx.ones(1, 3, 6, 6, 6), 2, output_ratio=0.5).shape
    (1, 3, 3, 3, 3)
    """
    return _fractional(x, 3, kernel_size, output_size, output_ratio, return_indices, _random_samples)


def max_unpool(
    x: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    output_size: Sequence[int] | None,
    count: int,
) -> Tensor:
    """Return zeros with the elements of `x` at the places that pooling with ``return_indices`` gave.

    Args:
        x: ``(..., o1, .., ok)``.
        indices: Of its shape: places among the ``n1 * .. * nk``.
        kernel_size: That of the pooling.
        stride: Likewise; None is the size of a window.
        padding: Likewise.
        output_size: n1 to nk, or the whole shape, where the arguments above leave it open.
        count: How many axes, k.

    Returns:
        ``(..., n1, .., nk)``.

    Raises:
        ShapeError: Shapes that differ, or sizes that do not fit.

    >>> zyx.nn.functional.max_unpool(zyx.Tensor([[5.0, 7.0]]), zyx.Tensor([[1, 2]]), 2, None, 0, None, 1).tolist()
    [[0.0, 5.0, 7.0, 0.0]]
    """
    count = as_index(count, "count")
    shape = require(x, f"max_unpool{count}d").node.shape
    if require(indices, f"max_unpool{count}d").node.shape != shape or len(shape) < count:
        raise ShapeError(f"max_unpool{count}d: places {indices.shape} for elements {shape}")
    window = spread(kernel_size, count, "kernel_size")
    steps = window if stride is None else spread(stride, count, "stride")
    borders = spread(padding, count, "padding")
    usual = [
        (n - 1) * step - 2 * border + extent
        for n, step, border, extent in zip(shape[len(shape) - count :], steps, borders, window, strict=True)
    ]
    news = usual if output_size is None else [as_index(n, "output_size") for n in list(output_size)[-count:]]
    if len(news) != count or any(abs(a - b) >= step for a, b, step in zip(news, usual, steps, strict=True)):
        raise ShapeError(f"max_unpool{count}d: output_size {output_size} is not within a stride of {tuple(usual)}")
    front = shape[: len(shape) - count]
    rows = (*front, math.prod(shape[len(shape) - count :]))
    base = zeros(*front, math.prod(news), dtype=x.dtype, device=x.device)
    found = scatter(base, len(front), reshape(indices, rows), reshape(x, rows))
    return reshape(found, (*front, *news))


def max_unpool1d(
    x: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Return `max_unpool` over the last axis.

    Raises:
        ShapeError: `x` and `indices` have other shapes.

    >>> zyx.nn.functional.max_unpool1d(zyx.Tensor([[5.0, 7.0]]), zyx.Tensor([[1, 2]]), 2).tolist()
    [[0.0, 5.0, 7.0, 0.0]]
    """
    return max_unpool(x, indices, kernel_size, stride, padding, output_size, 1)


def max_unpool2d(
    x: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Return `max_unpool` over the last two axes.

    Raises:
        ShapeError: `x` and `indices` have other shapes.

    >>> x, places = zyx.Tensor([[[[9.0]]]]), zyx.Tensor([[[[3]]]])
    >>> zyx.nn.functional.max_unpool2d(x, places, 2).tolist()
    [[[[0.0, 0.0], [0.0, 9.0]]]]
    """
    return max_unpool(x, indices, kernel_size, stride, padding, output_size, 2)


def max_unpool3d(
    x: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Return `max_unpool` over the last three axes.

    Raises:
        ShapeError: `x` and `indices` have other shapes.

    >>> zyx.nn.functional.max_unpool3d(zyx.ones(1, 1, 1, 1, 1), zyx.zeros(1, 1, 1, 1, 1, dtype=zyx.int64), 2).shape
    (1, 1, 2, 2, 2)
    """
    return max_unpool(x, indices, kernel_size, stride, padding, output_size, 3)


def _lp_pool(
    x: Tensor, norm_type: float, kernel_size: Sizes, stride: Sizes | None, ceil_mode: bool, count: int
) -> Tensor:
    """Return the p-th root of the sum of p-th powers of each window over the last `count` axes."""
    window = spread(kernel_size, count, "kernel_size")
    if not norm_type > 0:
        raise ShapeError(f"lp_pool{count}d: norm_type is above 0, not {norm_type}")
    mean = avg_pool(x**norm_type, window, stride, 0, ceil_mode=ceil_mode)
    positive = where(mean == 0, 0.0, where(mean == 0, 1.0, sign(mean) * magnitude(mean)).clip(min=0.0))
    return where(positive == 0, 0.0, (where(positive == 0, 1.0, positive) * math.prod(window)) ** (1.0 / norm_type))


def lp_pool1d(
    x: Tensor, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
) -> Tensor:
    """Return the `norm_type`-norm of each window over the last axis; 0, with the slope 0, where the sum is not above 0.

    Raises:
        ShapeError: Sizes that do not fit, or a `norm_type` that is not above 0.

    >>> zyx.nn.functional.lp_pool1d(zyx.Tensor([[3.0, 4.0, 0.0, 2.0]]), 2.0, 2).tolist()
    [[5.0, 2.0]]
    """
    return _lp_pool(x, norm_type, kernel_size, stride, ceil_mode, 1)


def lp_pool2d(
    x: Tensor, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
) -> Tensor:
    """Return `lp_pool1d` over the last two axes.

    Raises:
        ShapeError: A window is larger than the input.

    >>> zyx.nn.functional.lp_pool2d(zyx.ones(1, 1, 2, 2), 1.0, 2).tolist()
    [[[[4.0]]]]
    """
    return _lp_pool(x, norm_type, kernel_size, stride, ceil_mode, 2)


def lp_pool3d(
    x: Tensor, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
) -> Tensor:
    """Return `lp_pool1d` over the last three axes.

    Raises:
        ShapeError: A window is larger than the input.

    >>> zyx.nn.functional.lp_pool3d(zyx.ones(1, 1, 2, 2, 2), 1.0, 2).flatten().tolist()
    [8.0]
    """
    return _lp_pool(x, norm_type, kernel_size, stride, ceil_mode, 3)
