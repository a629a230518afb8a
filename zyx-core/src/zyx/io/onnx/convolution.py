"""Convolutions, plain and transposed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zyx.functions import conv as convolutions
from zyx.functions import joining
from zyx.functions.selection import scatter_add
from zyx.io.onnx.margins import windows_of
from zyx.io.onnx.movement import cut
from zyx.io.onnx.registry import operator
from zyx.tensor import creation

if TYPE_CHECKING:
    from zyx.io.onnx.node import NodeCall
    from zyx.tensor.tensor import Tensor


@operator("Conv")
def conv(node: NodeCall, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Cross-correlate with filters."""
    windows = windows_of(node, x.shape[2:], weight.shape[2:])
    return convolutions.conv(x, weight, bias, windows.stride, windows.margins, windows.dilation, node["group"])


@operator("ConvTranspose")
def conv_transpose(node: NodeCall, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Spread each element over a window, weighted by filters; margins are cut off."""
    windows = windows_of(node, x.shape[2:], weight.shape[2:])
    full = convolutions.conv_transpose(
        x, weight, None, windows.stride, 0, 0, groups=node["group"], dilation=windows.dilation
    )
    count = len(windows.size)
    extra = node.get("output_padding") or (0,) * count
    wanted = node.get("output_shape")
    auto = node.get("auto_pad", "NOTSET")
    if wanted is None and auto.startswith("SAME"):
        wanted = [n * s for n, s in zip(x.shape[2:], windows.stride, strict=True)]
    margins = windows.margins
    if wanted is not None:
        surplus = [have + more - want for have, more, want in zip(full.shape[2:], extra, wanted[-count:], strict=True)]
        margins = tuple(
            (total // 2, total - total // 2) if auto == "SAME_UPPER" else (total - total // 2, total // 2)
            for total in surplus
        )
    grown, parts = [(0, 0), (0, 0)], {}
    for axis, ((before, after), more) in enumerate(zip(margins, extra, strict=True), 2):
        end = full.shape[axis] - after + more
        grown.append((max(-before, 0), max(end - full.shape[axis], 0)))
        start = max(before, 0)
        parts[axis] = slice(start, start + end - before)
    full = cut(joining.pad(full, grown) if any(low or high for low, high in grown) else full, parts)
    y: Tensor = full if bias is None else full + bias.reshape((1, -1) + (1,) * count)
    return y


@operator("Col2Im", reads=(1, 2))
def col2im(node: NodeCall, x: Tensor, image: np.ndarray, block: np.ndarray) -> Tensor:
    """Add blocks up where they lie in an image."""
    sizes, kernel = [int(n) for n in image], [int(n) for n in block]
    windows = windows_of(node, sizes, kernel)
    padded = [n + low + high for n, (low, high) in zip(sizes, windows.margins, strict=True)]
    grid = np.arange(int(np.prod(padded))).reshape(padded)
    for axis, (n, k, s, d) in enumerate(zip(padded, kernel, windows.stride, windows.dilation, strict=True)):
        steps = (n - d * (k - 1) - 1) // s + 1
        index = np.arange(k)[:, None] * d + np.arange(steps) * s  # (window, place)
        grid = np.take(grid, index, axis=2 * axis)
    count = len(sizes)
    order = [*range(0, 2 * count, 2), *range(1, 2 * count, 2)]
    places = grid.transpose(order).reshape(-1)  # of blocks, then of their places: as the rows and columns of x
    batch, rows = x.shape[0], x.shape[1]
    channels = rows // int(np.prod(kernel))
    values = x.reshape((batch * channels, -1))
    index = np.ascontiguousarray(np.broadcast_to(places, values.shape))
    base = creation.zeros((batch * channels, int(np.prod(padded))), dtype=x.dtype, device=x.device)
    summed = scatter_add(base, 1, node.tensor(index), values).reshape((batch, channels, *padded))
    lows = [low for low, _ in windows.margins]
    image_of: Tensor = cut(
        summed, {axis: slice(low, low + n) for axis, (n, low) in enumerate(zip(sizes, lows, strict=True), 2)}
    )
    return image_of
