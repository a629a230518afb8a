"""Convolutions of any number of axes (cross-correlations, as in every network library), and their transposes.

Both are a product of two operands that are expanded against each other, summed along the axes they share: windows of
the input against the filters. Sums of float16 and bfloat16 are formed in float32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from zyx import dtype as dtypes
from zyx.errors import ShapeError
from zyx.functions import take_habits
from zyx.functions.formulas import slide_windows
from zyx.functions.operands import common_dtype, first_tensor, lowered, node_of, require, wrap
from zyx.functions.term import Term
from zyx.integers import as_integer, is_several, spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.dtype import DType
    from zyx.functions import Tensor

__all__ = [
    "conv", "conv1d", "conv2d", "conv3d", "conv_transpose", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d",
]  # fmt: skip

Sizes: TypeAlias = "int | Sequence[int]"
Padding: TypeAlias = "int | Sequence[int] | Sequence[tuple[int, int]] | str"


def conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlate with filters.

    Args:
        x: ``(N, C_in, n1, .., nk)``, or without N.
        weight: ``(C_out, C_in / groups, k1, .., kk)``.
        bias: ``(C_out,)``.
        stride: Distance between windows, for all axes or each.
        padding: Zeros on both sides, for all axes or each, also as pairs (before, after); "valid" adds none, "same"
            (with stride 1) keeps the size, the odd one out behind.
        dilation: Distance between the elements of a window.
        groups: Parts into which the channels fall, each with filters of its own.

    Returns:
        ``(N, C_out, o1, .., ok)`` with ``o = (n + padding - dilation * (k - 1) - 1) // stride + 1``.

    Raises:
        ShapeError: Ranks, channels or groups that do not fit, or a filter larger than the padded input.

    >>> zyx.conv(zyx.ones(1, 2, 8), zyx.ones(4, 2, 3)).shape
    (1, 4, 6)
    """
    like, data, filters, offset, dtype = _operands(x, weight, bias, "conv")
    count = len(filters.shape) - 2
    batched = len(data.shape) == count + 2
    if count < 1 or len(data.shape) not in (count + 1, count + 2):
        raise ShapeError(
            f"conv: input {data.shape} and filters {filters.shape} do not fit: (N, C, ...) and (C_out, C, ...)"
        )
    if not batched:
        data = data.reshape((1, *data.shape))
    extents = filters.shape[2:]
    strides, dilations = spread(stride, count, "stride"), spread(dilation, count, "dilation")
    widths = paddings(padding, extents, strides, dilations)
    n, channels = data.shape[:2]
    outputs, inner = filters.shape[:2]
    groups = as_integer(groups, "groups")
    if groups < 1 or channels != inner * groups or outputs % groups:
        raise ShapeError(
            f"conv: input {data.shape} has {channels} channels, filters {filters.shape} read {inner} in each of "
            f"{groups} groups and make {outputs}"
        )
    padded = data.pad([(0, 0), (0, 0), *widths])
    check_fits(padded.shape[2:], extents, dilations, "conv")
    windows = slide_windows(padded, extents, strides, dilations)
    places = windows.shape[2 : 2 + count]
    # (N, group, 1, C_in / groups, places, window) against (1, group, C_out / groups, C_in / groups, 1.., window)
    full = (n, groups, outputs // groups, inner, *places, *extents)
    left = windows.reshape((n, groups, 1, inner, *places, *extents)).expand(full)
    right = filters.reshape((1, groups, outputs // groups, inner, *[1] * count, *extents)).expand(full)
    total = (left * right).sum((3, *range(4 + count, 4 + 2 * count)))
    result = total.reshape((n, outputs, *places))
    return wrap(_finished(result, offset, dtype, batched=batched).node, like)


def conv1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Return `conv` over one axis: ``(N, C_in, L)`` with ``(C_out, C_in / groups, K)``.

    Raises:
        ShapeError: The channels do not fit together, or a window is larger than the input with its border.

    >>> zyx.conv1d(zyx.ones(1, 2, 8), zyx.ones(4, 2, 3)).shape
    (1, 4, 6)
    """
    _check_axes(weight, 1, "conv1d")
    return conv(x, weight, bias, stride, padding, dilation, groups)


def conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Return `conv` over two axes: ``(N, C_in, H, W)`` with ``(C_out, C_in / groups, KH, KW)``.

    Raises:
        ShapeError: The channels do not fit together, or a window is larger than the input with its border.

    >>> zyx.conv2d(zyx.ones(1, 3, 8, 8), zyx.ones(4, 3, 3, 3), padding=1).shape
    (1, 4, 8, 8)
    """
    _check_axes(weight, 2, "conv2d")
    return conv(x, weight, bias, stride, padding, dilation, groups)


def conv3d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Return `conv` over three axes: ``(N, C_in, D, H, W)`` with ``(C_out, C_in / groups, KD, KH, KW)``.

    Raises:
        ShapeError: The channels do not fit together, or a window is larger than the input with its border.

    >>> zyx.conv3d(zyx.ones(1, 1, 4, 4, 4), zyx.ones(2, 1, 3, 3, 3)).shape
    (1, 2, 2, 2, 2)
    """
    _check_axes(weight, 3, "conv3d")
    return conv(x, weight, bias, stride, padding, dilation, groups)


def _check_axes(weight: Tensor, count: int, what: str) -> None:
    shape = require(weight, what).node.shape
    if len(shape) != count + 2:
        raise ShapeError(f"{what} takes filters with {count + 2} axes, not {shape}")


def conv_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """Spread each input element over a window of the output, weighted by filters: the gradient of `conv` at its input.

    Args:
        x: ``(N, C_in, n1, .., nk)``, or without N.
        weight: ``(C_in, C_out / groups, k1, .., kk)``.
        bias: ``(C_out,)``.
        stride: Distance between windows of the output, for all axes or each.
        padding: How much is cut off on both sides.
        output_padding: How much is added at the end; less than stride or dilation.
        groups: Parts into which the channels fall.
        dilation: Distance between the elements of a window.

    Returns:
        ``(N, C_out, o1, .., ok)`` with ``o = (n - 1) * stride - 2 * padding + dilation * (k - 1) + output_padding +
        1``.

    Raises:
        ShapeError: Ranks, channels or groups that do not fit, or padding that leaves nothing.

    >>> zyx.conv_transpose(zyx.Tensor([[[1.0, 2.0]]]), zyx.ones(1, 1, 2), stride=2).tolist()
    [[[1.0, 1.0, 2.0, 2.0]]]
    """
    like, data, filters, offset, dtype = _operands(x, weight, bias, "conv_transpose")
    count = len(filters.shape) - 2
    batched = len(data.shape) == count + 2
    if count < 1 or len(data.shape) not in (count + 1, count + 2):
        raise ShapeError(f"conv_transpose: input {data.shape} and filters {filters.shape} do not fit")
    if not batched:
        data = data.reshape((1, *data.shape))
    extents = filters.shape[2:]
    strides, dilations = spread(stride, count, "stride"), spread(dilation, count, "dilation")
    cuts, extra = spread(padding, count, "padding"), spread(output_padding, count, "output_padding")
    n, channels = data.shape[:2]
    inner, groups = filters.shape[1], as_integer(groups, "groups")
    if groups < 1 or channels % groups or filters.shape[0] != channels:
        raise ShapeError(
            f"conv_transpose: input {data.shape} has {channels} channels, filters {filters.shape} read "
            f"{filters.shape[0]} in {groups} groups"
        )
    if any(more and more >= max(step, gap) for more, step, gap in zip(extra, strides, dilations, strict=True)):
        raise ShapeError(
            f"conv_transpose: output_padding {extra} is not less than stride {strides} or dilation {dilations}"
        )
    places = data.shape[2:]
    full = (n, groups, inner, channels // groups, *places, *extents)
    left = data.reshape((n, groups, 1, channels // groups, *places, *[1] * count)).expand(full)
    right = filters.reshape((1, groups, channels // groups, inner, *[1] * count, *extents))
    right = right.permute((0, 1, 3, 2, *range(4, 4 + 2 * count))).expand(full)
    product = (left * right).sum((3,))
    node = product.node
    for i in range(count):
        reach = (places[i] - 1) * strides[i] + (extents[i] - 1) * dilations[i] + 1 if places[i] else 0
        node = product.graph.unslide(node, 4 + i, 4 + count + i, reach, strides[i], dilations[i])
    result = Term(product.graph, node).sum(range(4 + count, 4 + 2 * count))
    reached = result.shape[4 : 4 + count]
    result = result.reshape((n, groups * inner, *reached)).pad([(0, 0), (0, 0), *((0, more) for more in extra)])
    sizes = [reach + more - 2 * cut for reach, more, cut in zip(reached, extra, cuts, strict=True)]
    if any(size < 0 or cut < 0 for size, cut in zip(sizes, cuts, strict=True)):
        raise ShapeError(f"conv_transpose: padding {cuts} does not fit an output of {tuple(reached)}")
    result = result.shrink([(0, n), (0, groups * inner), *((cut, cut + s) for cut, s in zip(cuts, sizes, strict=True))])
    return wrap(_finished(result, offset, dtype, batched=batched).node, like)


def conv_transpose1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """Return `conv_transpose` over one axis.

    Raises:
        ShapeError: The channels do not fit together.

    >>> zyx.conv_transpose1d(zyx.Tensor([[[1.0, 2.0]]]), zyx.ones(1, 1, 2)).tolist()
    [[[1.0, 3.0, 2.0]]]
    """
    _check_axes(weight, 1, "conv_transpose1d")
    return conv_transpose(x, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """Return `conv_transpose` over two axes.

    Raises:
        ShapeError: The channels do not fit together.

    >>> zyx.conv_transpose2d(zyx.ones(1, 3, 4, 4), zyx.ones(3, 2, 2, 2), stride=2).shape
    (1, 2, 8, 8)
    """
    _check_axes(weight, 2, "conv_transpose2d")
    return conv_transpose(x, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose3d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """Return `conv_transpose` over three axes.

    Raises:
        ShapeError: The channels do not fit together.

    >>> zyx.conv_transpose3d(zyx.ones(1, 1, 2, 2, 2), zyx.ones(1, 3, 2, 2, 2), stride=2).shape
    (1, 3, 4, 4, 4)
    """
    _check_axes(weight, 3, "conv_transpose3d")
    return conv_transpose(x, weight, bias, stride, padding, output_padding, groups, dilation)


def _operands(
    x: Tensor, weight: Tensor, bias: Tensor | None, what: str
) -> tuple[Tensor, Term, Term, Term | None, DType]:
    """Return a tensor, the operands in the type of the sums, and the type of the result."""
    given = [x, weight] if bias is None else [x, weight, bias]
    like = first_tensor(given, what)
    dtype = lowered(common_dtype(given, what))
    graph = like.runtime.graph
    wide = dtypes.accumulator(dtype)
    terms = [Term(graph, graph.cast(node_of(operand, dtype, like), wide)) for operand in given]
    return like, terms[0], terms[1], terms[2] if bias is not None else None, dtype


def _finished(result: Term, offset: Term | None, dtype: DType, *, batched: bool) -> Term:
    """Add the bias, round, and drop the batch axis that was not given."""
    channels = result.shape[1]
    if offset is not None:
        if offset.shape != (channels,):
            raise ShapeError(f"a bias has one element for each of the {channels} channels, not shape {offset.shape}")
        result = result + offset.reshape((1, channels, *[1] * (len(result.shape) - 2)))
    result = result.cast(dtype)
    return result if batched else result.reshape(result.shape[1:])


def paddings(
    padding: Padding, extents: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> list[tuple[int, int]]:
    """Return (before, after) for each axis of a window.

    Raises:
        ShapeError: Something else, or "same" with a stride.
    """
    count = len(extents)
    if isinstance(padding, str):
        if padding == "valid":
            return [(0, 0)] * count
        if padding != "same":
            raise ShapeError(f'padding is "same", "valid" or numbers, not {padding!r}')
        if any(step != 1 for step in strides):
            raise ShapeError(f'padding "same" goes with stride 1, not {tuple(strides)}; give numbers')
        totals = [gap * (extent - 1) for gap, extent in zip(dilations, extents, strict=True)]
        return [(total // 2, total - total // 2) for total in totals]
    if is_several(padding) and any(is_several(entry) for entry in padding):
        pairs = [tuple(entry) for entry in padding]
        if len(pairs) != count or any(len(pair) != 2 for pair in pairs):
            raise ShapeError(f"padding {padding} is not one pair for each of {count} axes")
        widths = [(as_integer(before, "each padding"), as_integer(after, "each padding")) for before, after in pairs]
    else:
        widths = [(width, width) for width in spread(padding, count, "padding")]  # type: ignore[arg-type]  # numbers only
    if any(before < 0 or after < 0 for before, after in widths):
        raise ShapeError(f"padding {padding} is negative")
    return widths


def check_fits(sizes: Sequence[int], extents: Sequence[int], dilations: Sequence[int], what: str) -> None:
    """Raise `ShapeError` unless a window fits into each axis."""
    for size, extent, gap in zip(sizes, extents, dilations, strict=True):
        if gap * (extent - 1) + 1 > size:
            raise ShapeError(
                f"{what}: a window of {tuple(extents)} with dilation {tuple(dilations)} is larger than the padded "
                f"input {tuple(sizes)}"
            )


take_habits(globals(), __all__)
