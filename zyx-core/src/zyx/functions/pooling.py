"""Pooling of any number of axes: the greatest, or the mean, of each window."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from zyx import dtype as dtypes
from zyx.errors import ShapeError
from zyx.functions import take_habits
from zyx.functions.conv import check_fits, paddings
from zyx.functions.formulas import slide_windows
from zyx.functions.operands import float_dtype, term_of, wrap
from zyx.functions.term import Term
from zyx.integers import as_integer, as_integers, is_several, spread
from zyx.ops import ReduceOp, identity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.functions import Tensor
    from zyx.functions.conv import Padding, Sizes

__all__ = [
    "avg_pool", "avg_pool1d", "avg_pool2d", "avg_pool3d", "max_pool", "max_pool1d", "max_pool2d", "max_pool3d",
    "max_pool_with_indices",
]  # fmt: skip


def _one(given: Any) -> Any:  # noqa: ANN401  # what users give
    """Return the number of a sequence of one, which is for all axes."""
    return given[0] if isinstance(given, list | tuple) and len(given) == 1 else given


def _strides(stride: Sizes | None, window: Sequence[int]) -> Sizes:
    """Return the distances of windows: their sizes if none are given."""
    is_given = stride is not None and not (isinstance(stride, list | tuple) and not stride)
    return _one(stride) if is_given else window


def _windows(
    term: Term,
    kernel_size: Sequence[int],
    stride: Sizes | None,
    padding: Padding,
    dilation: Sizes,
    fill: float,
    what: str,
    *,
    ceil_mode: bool,
) -> Term:
    """Return ``(..., *places, *window)`` of `term` padded with `fill`."""
    count = len(kernel_size)
    if len(term.shape) < count:
        raise ShapeError(f"{what}: windows of {tuple(kernel_size)} need {count} axes; the shape is {term.shape}")
    strides = spread(_strides(stride, kernel_size), count, "stride")
    dilations = spread(dilation, count, "dilation")
    if min(*strides, *dilations, *kernel_size) < 1:
        raise ShapeError(
            f"{what}: window {tuple(kernel_size)}, stride {strides} and dilation {dilations} are at least 1"
        )
    widths = paddings(_one(padding), kernel_size, strides, dilations)
    reaches = [gap * (extent - 1) + 1 for gap, extent in zip(dilations, kernel_size, strict=True)]
    if any(max(pair) * 2 > reach for pair, reach in zip(widths, reaches, strict=True)):
        raise ShapeError(f"{what}: padding {widths} is more than half of a window of {tuple(kernel_size)}")
    sizes = term.shape[len(term.shape) - count :]
    check_fits([n + a + b for n, (a, b) in zip(sizes, widths, strict=True)], kernel_size, dilations, what)
    if ceil_mode:
        # One more window where a part of the input is left over, unless it would begin in the border behind it.
        for i, (size, (before, after), reach, step) in enumerate(zip(sizes, widths, reaches, strides, strict=True)):
            left = (size + before + after - reach) % step
            places = (size + before + after - reach) // step + 1
            if left and places * step < size + before:
                widths[i] = (before, after + step - left)
    padded = term.pad([(0, 0)] * (len(term.shape) - count) + widths, fill)
    return slide_windows(padded, kernel_size, strides, dilations)


def _kernel_size(kernel_size: Sizes, ndim: int) -> tuple[int, ...]:
    """Return the sizes of a window; one number is for all axes but batch and channels."""
    return as_integers(kernel_size, "kernel_size") * (1 if is_several(kernel_size) else max(ndim - 2, 1))


def max_pool(
    x: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    dilation: Sizes = 1,
    *,
    ceil_mode: bool = False,
) -> Tensor:
    """Return the greatest element of each window over the last axes.

    Args:
        x: ``(..., n1, .., nk)``.
        kernel_size: Sizes of a window; one number is for all axes after the first two.
        stride: Distance between windows; None means their size.
        padding: Border on both sides, at most half a window; it never is the greatest.
        dilation: Distance between the elements of a window.
        ceil_mode: Whether what is left over at the end gets a window too.

    Returns:
        ``(..., o1, .., ok)``; NaN where a window has one.

    Raises:
        ShapeError: Sizes that do not fit.

    >>> zyx.max_pool(zyx.Tensor([1.0, 3.0, 5.0, 7.0]), (2,)).tolist()
    [3.0, 7.0]
    """
    term = term_of(x, "max_pool")
    window = _kernel_size(kernel_size, len(term.shape))
    low = identity(ReduceOp.MAX, term.dtype)
    seen = _windows(term, window, stride, padding, dilation, low, "max_pool", ceil_mode=ceil_mode)
    first = len(seen.shape) - len(window)
    return wrap(seen.max(range(first, len(seen.shape))).reshape(seen.shape[:first]).node, x)


def max_pool1d(
    x: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    dilation: Sizes = 1,
    *,
    ceil_mode: bool = False,
) -> Tensor:
    """Return `max_pool` over the last one axis.

    Raises:
        ShapeError: A window is larger than the input with its border.

    >>> zyx.max_pool1d(zyx.Tensor([[[1.0, 3.0, 2.0, 4.0]]]), 2).tolist()
    [[[3.0, 4.0]]]
    """
    return max_pool(x, spread(kernel_size, 1, "kernel_size"), stride, padding, dilation, ceil_mode=ceil_mode)


def max_pool2d(
    x: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    dilation: Sizes = 1,
    *,
    ceil_mode: bool = False,
) -> Tensor:
    """Return `max_pool` over the last two axes.

    Raises:
        ShapeError: A window is larger than the input with its border.

    >>> zyx.max_pool2d(zyx.ones(1, 3, 8, 8), 2).shape
    (1, 3, 4, 4)
    """
    return max_pool(x, spread(kernel_size, 2, "kernel_size"), stride, padding, dilation, ceil_mode=ceil_mode)


def max_pool3d(
    x: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    dilation: Sizes = 1,
    *,
    ceil_mode: bool = False,
) -> Tensor:
    """Return `max_pool` over the last three axes.

    Raises:
        ShapeError: A window is larger than the input with its border.

    >>> zyx.max_pool3d(zyx.ones(1, 3, 4, 4, 4), 2).shape
    (1, 3, 2, 2, 2)
    """
    return max_pool(x, spread(kernel_size, 3, "kernel_size"), stride, padding, dilation, ceil_mode=ceil_mode)


def max_pool_with_indices(
    x: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    dilation: Sizes = 1,
    *,
    ceil_mode: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return `max_pool`, and the place of each result among the ``n1 * .. * nk``, int64, the first of equals.

    Both have the shape of `max_pool`.

    Raises:
        ShapeError: A window is larger than the input with its border.

    >>> [each.tolist() for each in zyx.max_pool_with_indices(zyx.Tensor([[1.0, 3.0, 7.0, 5.0]]), (2,))]
    [[[3.0, 7.0]], [[1, 2]]]
    """
    greatest = max_pool(x, kernel_size, stride, padding, dilation, ceil_mode=ceil_mode)
    term = term_of(x, "max_pool")
    window = _kernel_size(kernel_size, len(term.shape))
    count = len(window)
    low = identity(ReduceOp.MAX, term.dtype)
    seen = _windows(term, window, stride, padding, dilation, low, "max_pool", ceil_mode=ceil_mode)
    first = len(seen.shape) - count
    flat = seen.reshape((*seen.shape[:first], math.prod(window)))
    # The border has place -1; a window of nothing but the least value must not point there.
    sizes = term.shape[len(term.shape) - count :]
    place = Term(term.graph, term.graph.iota((math.prod(sizes),), 0, dtypes.int64, term.node.device)).reshape(sizes)
    places = _windows(place, window, stride, padding, dilation, -1, "max_pool", ceil_mode=ceil_mode)
    places = places.reshape((*places.shape[:count], math.prod(window))).expand(flat.shape)
    top = flat.max((first,))
    hit = (flat == top) | flat.is_nan() if flat.dtype.is_float else flat == top
    chosen = (hit & (places >= 0)).where(places, math.prod(sizes)).reduce(ReduceOp.MIN, (first,))
    return greatest, wrap(chosen.reshape(seen.shape[:first]).node, x)


def avg_pool(
    x: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    *,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Return the mean of each window over the last axes.

    Args:
        x: ``(..., n1, .., nk)``; integers are computed as float32.
        kernel_size: Sizes of a window; one number is for all axes after the first two.
        stride: Distance between windows; None means their size.
        padding: Zeros on both sides, at most half a window.
        ceil_mode: Whether what is left over at the end gets a window too.
        count_include_pad: Whether padding (but not what `ceil_mode` adds) counts as elements.
        divisor_override: What sums are divided by in place of the number of elements; not 0.

    Returns:
        ``(..., o1, .., ok)``.

    Raises:
        ShapeError: Sizes that do not fit.

    >>> zyx.avg_pool(zyx.Tensor([1.0, 3.0, 5.0, 7.0]), (2,)).tolist()
    [2.0, 6.0]
    """
    term = term_of(x, "avg_pool")
    dtype = float_dtype(term.dtype)
    wide = term.cast(dtypes.accumulator(dtype))
    window = _kernel_size(kernel_size, len(term.shape))
    count = len(window)
    seen = _windows(wide, window, stride, padding, 1, 0.0, "avg_pool", ceil_mode=ceil_mode)
    first = len(seen.shape) - count
    total = seen.sum(range(first, first + count))
    strides = spread(_strides(stride, window), count, "stride")
    widths = paddings(_one(padding), window, strides, (1,) * count)
    sizes = term.shape[len(term.shape) - count :]
    places = seen.shape[first - count : first]
    divisor: Term | float = float(math.prod(window))
    if divisor_override is not None:
        divisor = float(as_integer(divisor_override, "divisor_override"))
        if not divisor:
            raise ShapeError("avg_pool: divisor_override is not 0")
    elif ceil_mode or (not count_include_pad and any(map(any, widths))):
        for i in range(count):
            along = _members(sizes[i], widths[i], window[i], strides[i], places[i], wide, with_border=count_include_pad)
            along = along.reshape([places[i] if j == first - count + i else 1 for j in range(len(total.shape))])
            divisor = along if i == 0 else along * divisor
    total = total / divisor
    return wrap(total.cast(dtype).reshape(seen.shape[:first]).node, x)


def avg_pool1d(
    x: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    *,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Return `avg_pool` over the last one axis.

    Raises:
        ShapeError: A window is larger than the input with its border.

    >>> zyx.avg_pool1d(zyx.Tensor([[1.0, 3.0, 5.0, 7.0]]), 2).tolist()
    [[2.0, 6.0]]
    """
    window = spread(kernel_size, 1, "kernel_size")
    options = {"ceil_mode": ceil_mode, "count_include_pad": count_include_pad}
    return avg_pool(x, window, stride, padding, **options, divisor_override=divisor_override)


def avg_pool2d(
    x: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    *,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Return `avg_pool` over the last two axes.

    Raises:
        ShapeError: A window is larger than the input with its border.

    >>> zyx.avg_pool2d(zyx.ones(1, 3, 8, 8), 2).shape
    (1, 3, 4, 4)
    """
    window = spread(kernel_size, 2, "kernel_size")
    options = {"ceil_mode": ceil_mode, "count_include_pad": count_include_pad}
    return avg_pool(x, window, stride, padding, **options, divisor_override=divisor_override)


def avg_pool3d(
    x: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    *,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Return `avg_pool` over the last three axes.

    Raises:
        ShapeError: A window is larger than the input with its border.

    >>> zyx.avg_pool3d(zyx.ones(1, 3, 4, 4, 4), 2).shape
    (1, 3, 2, 2, 2)
    """
    window = spread(kernel_size, 3, "kernel_size")
    options = {"ceil_mode": ceil_mode, "count_include_pad": count_include_pad}
    return avg_pool(x, window, stride, padding, **options, divisor_override=divisor_override)


def _members(
    size: int, widths: tuple[int, int], window: int, step: int, places: int, like: Term, *, with_border: bool
) -> Term:
    """Return how many elements each window along an axis has."""
    before, after = widths
    low, high = (0, before + size + after) if with_border else (before, before + size)
    start = Term(like.graph, like.graph.iota((places,), 0, dtypes.int32, like.node.device)) * step
    return ((start + window).minimum(high) - start.maximum(low)).cast(like.dtype)


take_habits(globals(), __all__)
