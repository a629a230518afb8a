"""Images read between their elements: grids, regions of interest, convolutions whose windows are bent."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from zyx.functions import arithmetic, choosing, elementwise, linalg, selection
from zyx.functions.joining import concat
from zyx.io.onnx.margins import windows_of
from zyx.io.onnx.registry import operator

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.io.onnx.node import NodeCall
    from zyx.tensor.tensor import Tensor


def _pick(x: Tensor, places: Sequence[Tensor]) -> Tensor:
    """Return elements ``(N, C, P)`` of images ``(N, C, *sizes)`` at whole places, each ``(N, P)``; outside is zero."""
    sizes = x.shape[2:]
    flat: Tensor | None = None
    inside: Tensor | None = None
    for size, place in zip(sizes, places, strict=True):
        within = (place >= 0) & (place <= size - 1)
        inside = within if inside is None else inside & within
        whole = choosing.clip(place, 0, size - 1).astype("int64")
        flat = whole if flat is None else flat * size + whole
    assert flat is not None, "there is at least one axis"
    assert inside is not None, "there is at least one axis"
    n, channels = x.shape[:2]
    count = flat.shape[1]
    index = flat.reshape((n, 1, count)).broadcast_to((n, channels, count))
    taken = selection.gather(x.reshape((n, channels, -1)), 2, index)
    return choosing.where(inside.reshape((n, 1, count)), taken, 0)


def _linear(x: Tensor, places: Sequence[Tensor], pick: Callable[..., Tensor] = _pick) -> Tensor:
    """Interpolate between neighbours along each axis."""
    lower = [elementwise.floor(place) for place in places]
    total: Tensor | None = None
    for corner in itertools.product((0, 1), repeat=len(places)):
        weight: Tensor | None = None
        for side, place, low in zip(corner, places, lower, strict=True):
            share = place - low if side else 1 - (place - low)
            weight = share if weight is None else weight * share
        assert weight is not None, "there is at least one axis"
        part = pick(x, [low + side for low, side in zip(lower, corner, strict=True)])
        part = part * weight.reshape((weight.shape[0], 1, weight.shape[1]))
        total = part if total is None else total + part
    assert total is not None, "there is at least one corner"
    return total


def _cubic_weights(t: Tensor) -> list[Tensor]:
    """Return the weights of four neighbours at ``t`` behind the second, by Keys' formula with a = -0.75."""
    a = -0.75

    def near(d: Tensor) -> Tensor:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: Tensor) -> Tensor:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def _cubic(x: Tensor, places: Sequence[Tensor], pick: Callable[..., Tensor]) -> Tensor:
    lower = [elementwise.floor(place) for place in places]
    weights = [_cubic_weights(place - low) for place, low in zip(places, lower, strict=True)]
    total: Tensor | None = None
    for corner in itertools.product(range(4), repeat=len(places)):
        weight: Tensor | None = None
        for number, shares in zip(corner, weights, strict=True):
            weight = shares[number] if weight is None else weight * shares[number]
        assert weight is not None, "there is at least one axis"
        part = pick(x, [low + (number - 1) for low, number in zip(lower, corner, strict=True)])
        part = part * weight.reshape((weight.shape[0], 1, weight.shape[1]))
        total = part if total is None else total + part
    assert total is not None, "there is at least one corner"
    return total


def _reflected(place: Tensor, low: float, high: float) -> Tensor:
    """Return places that are mirrored at the edges until they lie between them."""
    span = high - low
    if span <= 0:
        return place * 0
    distance = arithmetic.remainder(elementwise.abs(place - low), 2 * span)
    return choosing.where(distance > span, 2 * span - distance, distance) + low


@operator("GridSample")
def grid_sample(node: NodeCall, x: Tensor, grid: Tensor) -> Tensor:
    """Read images at places between -1 and 1, of which the last axis has one for each axis, the last one first."""
    corners = bool(node["align_corners"])
    sizes = x.shape[2:]
    n, channels = x.shape[:2]
    points = grid.reshape((n, -1, len(sizes)))
    padding = node["padding_mode"]

    def within(place: Tensor, size: int) -> Tensor:
        if padding == "border":
            return choosing.clip(place, 0, size - 1)
        if padding == "reflection":
            low, high = (0.0, size - 1.0) if corners else (-0.5, size - 0.5)
            return choosing.clip(_reflected(place, low, high), 0, size - 1)
        return place

    def pick(images: Tensor, places: Sequence[Tensor]) -> Tensor:
        return _pick(images, [within(place, size) for place, size in zip(places, sizes, strict=True)])

    places = []
    for axis, size in enumerate(sizes):
        at = points[..., len(sizes) - 1 - axis]
        places.append((at + 1) * ((size - 1) / 2) if corners else ((at + 1) * size - 1) / 2)
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(node["mode"], node["mode"])
    if mode == "nearest":
        found = pick(x, [elementwise.round(place) for place in places])
    elif mode == "linear":
        found = _linear(x, [within(place, size) for place, size in zip(places, sizes, strict=True)])
    else:
        found = _cubic(x, places, pick)
    return found.reshape((n, channels, *grid.shape[1:-1])).astype(x.dtype)


@operator("RoiAlign", reads=(2,))
def roi_align(node: NodeCall, x: Tensor, regions: Tensor, batches: np.ndarray) -> Tensor:
    """Return regions of images in one size, each element from samples between elements."""
    height, width = node["output_height"], node["output_width"]
    offset = 0.5 if node.get("coordinate_transformation_mode", "output_half_pixel") == "half_pixel" else 0.0
    boxes = regions.numpy().astype(np.float64) * node["spatial_scale"] - offset
    ratio, chosen = node["sampling_ratio"], node["mode"]
    parts = []
    for box, batch in zip(boxes, batches.tolist(), strict=True):
        begins, ends = box[[1, 0]], box[[3, 2]]
        spans = ends - begins
        if not offset:
            spans = np.maximum(spans, 1.0)
        axes = []
        counts = []
        for begin, span, size in zip(begins, spans, (height, width), strict=True):
            count = ratio if ratio > 0 else max(int(np.ceil(span / size)), 1)
            axes.append(begin + (np.arange(size * count) + 0.5) * span / (size * count))
            counts.append(count)
        grid = np.meshgrid(*axes, indexing="ij")
        outside = np.zeros(grid[0].shape, np.bool_)
        places = []
        for place, size in zip(grid, x.shape[2:], strict=True):
            outside |= (place < -1) | (place > size)
            places.append(np.clip(place, 0, size - 1))
        parts.append(
            _samples(node, x[batch : batch + 1], places, outside, (height, width), (counts[0], counts[1]), chosen)
        )
    return concat(parts, 0) if parts else node.tensor(np.zeros((0, x.shape[1], height, width), x.dtype.numpy))


def _samples(
    node: NodeCall, image: Tensor, places: Sequence[np.ndarray], outside: np.ndarray, size: tuple[int, int],
    counts: tuple[int, int], mode: str,
) -> Tensor:  # fmt: skip
    channels = image.shape[1]
    shape = (1, channels, size[0], counts[0], size[1], counts[1])
    lower = [np.floor(place) for place in places]
    corners = []
    for corner in itertools.product((0, 1), repeat=2):
        weight = np.where(outside, 0.0, 1.0)
        for side, place, low in zip(corner, places, lower, strict=True):
            weight = weight * (place - low if side else 1 - (place - low))
        whole = [
            node.tensor(np.minimum(low + side, n - 1).reshape(1, -1))
            for low, side, n in zip(lower, corner, image.shape[2:], strict=True)
        ]
        corners.append(_pick(image, whole) * node.tensor(weight.reshape(1, 1, -1).astype(np.float32)))
    if mode == "max":
        largest = corners[0]
        for part in corners[1:]:
            largest = arithmetic.maximum(largest, part)
        return largest.reshape(shape).max(axis=(3, 5)).astype(image.dtype)
    total = corners[0] + corners[1] + corners[2] + corners[3]
    return total.reshape(shape).mean(axis=(3, 5)).astype(image.dtype)


@operator("DeformConv")
def deform_conv(
    node: NodeCall, x: Tensor, weight: Tensor, offset: Tensor, bias: Tensor | None = None, mask: Tensor | None = None
) -> Tensor:
    """Cross-correlate with filters whose elements are moved by offsets ``(N, groups * elements * axes, *places)``."""
    kernel = weight.shape[2:]
    windows = windows_of(node, x.shape[2:], kernel)
    places, axes = offset.shape[2:], len(kernel)
    elements, groups = int(np.prod(kernel)), node["offset_group"]
    n, channels = x.shape[:2]
    moved = offset.reshape((n, groups, elements, axes, *places))
    rows: list[np.ndarray] = []
    for axis in range(axes):
        begin = np.arange(places[axis]) * windows.stride[axis] - windows.margins[axis][0]
        within = np.arange(kernel[axis]) * windows.dilation[axis]
        shape = [1] * (2 * axes)
        shape[axis], shape[axes + axis] = kernel[axis], places[axis]
        rows.append(
            np.broadcast_to((within[:, None] + begin).reshape(shape), (*kernel, *places)).reshape((elements, *places))
        )
    parts = []
    per_group = channels // groups
    for group in range(groups):
        at = [
            (moved[:, group, :, axis] + node.tensor(rows[axis].astype(np.float32))).reshape((n, -1))
            for axis in range(axes)
        ]
        found = _linear(x[:, group * per_group : (group + 1) * per_group], at)
        found = found.reshape((n, per_group, elements, *places))
        if mask is not None:
            found = found * mask.reshape((n, groups, 1, elements, *places))[:, group]
        parts.append(found)
    count, inner = node["group"], weight.shape[1]
    outputs = weight.shape[0]
    columns = concat(parts, 1).reshape((n, count, inner * elements, -1))
    filters = weight.reshape((count, outputs // count, inner * elements))
    y = linalg.matmul(filters, columns).reshape((n, outputs, *places))
    return y if bias is None else y + bias.reshape((1, -1) + (1,) * axes)
