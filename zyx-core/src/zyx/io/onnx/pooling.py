"""Poolings: what windows hold, as one number each."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from zyx.functions import elementwise, joining, movement, reduction, selection
from zyx.functions.info import iinfo
from zyx.io.onnx.margins import Windows, rounded_up, windows_of
from zyx.io.onnx.registry import operator
from zyx.tensor import creation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.functions.operands import Array
    from zyx.io.onnx.node import NodeCall
    from zyx.io.onnx.values import Value
    from zyx.tensor.tensor import Tensor


def _windows(node: NodeCall, x: Tensor) -> Windows:
    windows = windows_of(node, x.shape[2:], node["kernel_shape"])
    return rounded_up(windows, x.shape[2:]) if node.get("ceil_mode", 0) else windows


def _cut(x: Tensor, windows: Windows, fill: float) -> Tensor:
    """Return ``(N, C, *places, elements)``."""
    padded = x
    if any(low or high for low, high in windows.margins):
        padded = joining.pad(x, [(0, 0), (0, 0), *windows.margins], "constant", fill)
    found = movement.windows(padded, windows.size, windows.stride, windows.dilation)
    return found.reshape((*found.shape[: x.ndim], math.prod(found.shape[x.ndim :])))  # there may be no places


def _host_windows(array: Array, windows: Windows, fill: int) -> Array:
    """Return ``(*places, elements)`` of an array on the host."""
    padded = np.pad(array, windows.margins, constant_values=fill)
    count = array.ndim
    views = np.lib.stride_tricks.sliding_window_view(padded, windows.extents)
    views = views[tuple(slice(None, None, step) for step in (*windows.stride, *windows.dilation))]
    return views.reshape((*views.shape[:count], -1))


@operator("MaxPool")
def max_pool(node: NodeCall, x: Tensor) -> Value:
    """Return the largest of each window, and its place among all elements where that is asked for."""
    windows = _windows(node, x)
    least = -np.inf if x.dtype.is_float else iinfo(x.dtype).min
    found = _cut(x, windows, least)
    largest = found.max(axis=-1)
    if not node.gives(1):
        return largest
    sizes = x.shape[2:]
    count = int(np.prod(sizes, dtype=np.int64))
    numbers: Array = np.arange(count, dtype=np.int64)
    numbers = numbers.reshape(sizes[::-1]).T if node.get("storage_order", 0) else numbers.reshape(sizes)
    table = _host_windows(numbers, windows, -1)
    elements = table.shape[-1]
    first = np.arange(table.size // elements, dtype=np.int64).reshape(table.shape[:-1]) * elements
    index = reduction.argmax(found, -1) + node.tensor(first)
    chosen = selection.take(node.tensor(table.reshape(-1)), index.reshape((-1,)), axis=0)
    planes = np.arange(x.shape[0] * x.shape[1], dtype=np.int64).reshape((*x.shape[:2], *[1] * len(sizes))) * count
    return largest, chosen.reshape(largest.shape) + node.tensor(planes)


def _counts(sizes: Sequence[int], plain: Windows, windows: Windows, *, is_all_counted: bool) -> Array:
    """Return how many elements of each window count: those inside, or those of the margins that were asked for too."""
    counted: Array = np.ones(sizes, np.int64)
    if is_all_counted:
        counted = np.pad(counted, plain.margins, constant_values=1)
        rest = tuple((0, high - old) for (_, high), (_, old) in zip(windows.margins, plain.margins, strict=True))
        windows = Windows(windows.size, windows.stride, windows.dilation, rest)
    return np.asarray(_host_windows(counted, windows, 0).sum(-1))


@operator("AveragePool")
def average_pool(node: NodeCall, x: Tensor) -> Tensor:
    """Return the mean of each window, of all of it or of what lies inside."""
    plain = windows_of(node, x.shape[2:], node["kernel_shape"])
    windows = rounded_up(plain, x.shape[2:]) if node.get("ceil_mode", 0) else plain
    is_all_counted = bool(node.get("count_include_pad", 0))
    if windows == plain and (is_all_counted or not any(low or high for low, high in windows.margins)):
        counts: Array = np.array(math.prod(windows.size))
    else:
        counts = _counts(x.shape[2:], plain, windows, is_all_counted=is_all_counted)
    total = _cut(x, windows, 0).sum(axis=-1)
    exact = np.float64 if x.dtype == "float64" else np.float32
    scale = node.tensor((1 / np.maximum(counts, 1)).astype(exact))
    return (total * scale).astype(x.dtype)


@operator("LpPool")
def lp_pool(node: NodeCall, x: Tensor) -> Tensor:
    """Return the norm of each window."""
    order = float(node["p"])
    found = elementwise.abs(_cut(x, _windows(node, x), 0))
    return ((found**order).sum(axis=-1) ** (1 / order)).astype(x.dtype)


def _spatial(x: Tensor) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


@operator("GlobalAveragePool")
def global_average_pool(_: NodeCall, x: Tensor) -> Tensor:
    """Return the mean of each channel."""
    return reduction.mean(x, _spatial(x), keepdims=True)


@operator("GlobalMaxPool")
def global_max_pool(_: NodeCall, x: Tensor) -> Tensor:
    """Return the largest of each channel."""
    return reduction.max(x, _spatial(x), keepdims=True)


@operator("GlobalLpPool")
def global_lp_pool(node: NodeCall, x: Tensor) -> Tensor:
    """Return the norm of each channel."""
    order = float(node["p"])
    return (elementwise.abs(x) ** order).sum(axis=_spatial(x), keepdims=True) ** (1 / order)


@operator("MaxUnpool", reads=(2,))
def max_unpool(node: NodeCall, x: Tensor, places: Tensor, shape: Array | None = None) -> Tensor:
    """Put elements where `MaxPool` found them; the rest is zero."""
    windows = windows_of(node, x.shape[2:], node["kernel_shape"])
    plain = [
        (n - 1) * s + extent - low - high
        for n, s, extent, (low, high) in zip(x.shape[2:], windows.stride, windows.extents, windows.margins, strict=True)
    ]
    source = (*x.shape[:2], *plain)
    target = source if shape is None else tuple(int(n) for n in shape)
    flat = creation.zeros((int(np.prod(source)),), dtype=x.dtype, device=x.device)
    full = selection.scatter(flat, 0, places.reshape((-1,)), x.reshape((-1,))).reshape(source)
    if target == source:
        return full
    return joining.pad(full, [(0, want - have) for want, have in zip(target, source, strict=True)])
