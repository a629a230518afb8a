"""Elements in other places: reshape, transpose, join, cut, pad, tile."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np

from zyx.errors import FormatError
from zyx.functions import joining, movement
from zyx.functions.operands import is_tensor
from zyx.io.onnx.lengths import looked_at, varies, whole, wholes
from zyx.io.onnx.registry import operator
from zyx.io.onnx.values import check_count
from zyx.shape import broadcast

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.functions.operands import Array
    from zyx.io.onnx.node import NodeCall
    from zyx.io.onnx.values import Value


@operator("Identity", raw=True, sizes=True)
def identity(_: NodeCall, x: Value) -> Value:
    """Return what it gets."""
    return x


@operator("Reshape", reads=(1,), moved={"shape": (5, 1)}, folds=True, sizes=True)
def reshape(node: NodeCall, x: Value, shape: Array) -> Value:
    """Change the sizes; 0 keeps one unless ``allowzero``, -1 is what is left."""
    sizes = [*wholes(shape)]
    if not node.get("allowzero", 0):
        sizes = [x.shape[place] if size == 0 else size for place, size in enumerate(sizes)]
    return x.reshape(tuple(sizes))


@operator("Flatten", folds=True, sizes=True)
def flatten(node: NodeCall, x: Value) -> Value:
    """Return a matrix: axes before ``axis``, and the rest."""
    axis = node["axis"] + (len(x.shape) if node["axis"] < 0 else 0)
    return x.reshape((math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


@operator("Transpose", folds=True)
def transpose(node: NodeCall, x: Value) -> Value:
    """Permute the axes, reversed by default."""
    order = tuple(node.get("perm", range(len(x.shape))[::-1]))
    return movement.permute_dims(x, order) if is_tensor(x) else np.transpose(x, order)


@operator("Squeeze", reads=(1,), moved={"axes": (13, 1)}, folds=True, sizes=True)
def squeeze(_: NodeCall, x: Value, axes: Array | None = None) -> Value:
    """Leave out axes of size 1, all by default."""
    if axes is None:
        return x.reshape(tuple(size for size in x.shape if size != 1))
    dropped = {int(axis) % len(x.shape) for axis in axes.reshape(-1)}
    if any(x.shape[axis] != 1 for axis in dropped):
        raise FormatError(f"Squeeze: axes {sorted(dropped)} of shape {tuple(x.shape)} are not all of size 1")
    return x.reshape(tuple(size for axis, size in enumerate(x.shape) if axis not in dropped))


@operator("Unsqueeze", reads=(1,), moved={"axes": (13, 1)}, folds=True, sizes=True)
def unsqueeze(_: NodeCall, x: Value, axes: Array) -> Value:
    """Insert axes of size 1, at places of the result."""
    axes = axes.reshape(-1)
    ndim = len(x.shape) + len(axes)
    added = {int(axis) % ndim for axis in axes}
    sizes = iter(x.shape)
    return x.reshape(tuple(1 if axis in added else next(sizes) for axis in range(ndim)))


@operator("Expand", reads=(1,), folds=True, sizes=True)
def expand(node: NodeCall, x: Value, shape: Array) -> Value:
    """Broadcast against a shape, both ways; over sizes that vary, what is on the host becomes a tensor."""
    target = broadcast(tuple(x.shape), wholes(shape))
    if varies(shape) and not is_tensor(x):
        x = node.tensor(looked_at(x))
    return movement.broadcast_to(x, target) if is_tensor(x) else np.broadcast_to(x, target)


@operator("Concat", folds=True, sizes=True)
def concat(node: NodeCall, *values: Value) -> Value:
    """Join along an axis."""
    axis = node.get("axis", 1)
    return joining.concat(values, axis) if is_tensor(values[0]) else np.concatenate(values, axis)


@operator("Split", reads=(1,), moved={"split": (13, 1)}, folds=True, sizes=True)
def split(node: NodeCall, x: Value, sizes: Array | None = None) -> Value:
    """Cut into parts of given sizes, or into as many as there are outputs; the last may be smaller."""
    axis, count = node.get("axis", 0), len(node.outputs)
    length = x.shape[axis]
    if sizes is None:
        each = -(-length // node.get("num_outputs", count))
        sizes = np.diff([*range(0, length, each), length]) if each else np.zeros(count, np.int64)
        sizes = np.concatenate([sizes, np.zeros(max(count - len(sizes), 0), np.int64)])
    ends = [*itertools.accumulate(wholes(sizes))]
    if ends[-1] != length:
        raise FormatError(f"Split: sizes {list(sizes)} do not make {length}")
    return tuple(cut(x, {axis: slice(start, end)}) for start, end in zip([0, *ends], ends, strict=False))


def cut(x: Value, parts: dict[int, slice]) -> Value:
    """Return slices of some axes."""
    key = [slice(None)] * len(x.shape)
    for axis, part in parts.items():
        key[axis] = part
    return x[tuple(key)]


@operator(
    "Slice",
    reads=(1, 2, 3, 4),
    moved={"starts": (10, 1), "ends": (10, 2), "axes": (10, 3)},
    folds=True,
    sizes=True,
)
def cut_slices(
    _: NodeCall, x: Value, starts: Array, ends: Array, axes: Array | None = None, steps: Array | None = None
) -> Value:
    """Cut slices, clamped to the sizes."""
    axes = np.arange(len(starts)) if axes is None else axes
    steps = np.ones(len(starts), np.int64) if steps is None else steps
    parts = {}
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        size = x.shape[int(axis)]
        first, last = whole(start), whole(end)
        if int(step) < 0:
            first = min(first + size if first < 0 else first, size - 1)
            last = max(last + size if last < 0 else last, -1)
            parts[int(axis)] = slice(max(first, -1) if first >= 0 else size, None if last < 0 else last, int(step))
            if first < 0:
                parts[int(axis)] = slice(0, 0)
        else:
            parts[int(axis)] = slice(max(first, -size), min(last, size) if last >= -size else 0, int(step))
    return cut(x, parts)


@operator("Tile", reads=(1, 2), folds=True, sizes=True)
def tile(node: NodeCall, x: Value, counts: Array, axis: Array | None = None) -> Value:
    """Repeat as a whole along each axis; before opset 6 along one."""
    if node.version < 6 and axis is not None:
        numbers = [1] * len(x.shape)
        numbers[int(axis)] = int(counts)
        counts = np.array(numbers)
    repeats = wholes(counts)
    if is_tensor(x):
        return joining.tile(x, repeats)
    check_count((max(x.size, 1), *(max(count, 1) for count in repeats)), "Tile")
    return np.tile(x, repeats)


@operator("Pad", reads=(1, 2, 3), moved={"paddings": (2, 1), "pads": (11, 1), "value": (11, 2)}, folds=True)
def pad(node: NodeCall, x: Value, pads: Array, value: Array | None = None, axes: Array | None = None) -> Value:
    """Add margins, or cut them where they are negative."""
    ndim = len(x.shape)
    chosen = range(ndim) if axes is None else [int(axis) % ndim for axis in axes]
    half = len(pads) // 2
    widths = [(0, 0)] * ndim
    for place, axis in enumerate(chosen):
        widths[axis] = (int(pads[place]), int(pads[place + half]))
    bounds = {axis: slice(max(-low, 0), x.shape[axis] - max(-high, 0)) for axis, (low, high) in enumerate(widths)}
    x = cut(x, bounds)
    grown = [(max(low, 0), max(high, 0)) for low, high in widths]
    mode = node.get("mode", "constant")
    fill = 0 if value is None or value.size == 0 else value.reshape(-1)[0].item()
    if not is_tensor(x):
        check_count((size + low + high for size, (low, high) in zip(x.shape, grown, strict=True)), "Pad")
        return np.pad(x, grown, constant_values=fill) if mode == "constant" else np.pad(x, grown, mode=mode)
    if not any(low or high for low, high in grown):
        return x
    return joining.pad(x, grown, "constant", fill) if mode == "constant" else _padded_by_places(x, grown, mode)


def _padded_by_places(x: Value, widths: Sequence[tuple[int, int]], mode: str) -> Value:
    for axis, (low, high) in enumerate(widths):
        if low or high:
            places = np.pad(np.arange(x.shape[axis]), (low, high), mode=mode)  # type: ignore[call-overload]  # as above
            x = x.take(places, axis=axis)
    return x


def _blocks(node: NodeCall, x: Value) -> tuple[int, int, int, int, int]:
    n, channels, height, width = x.shape
    return n, channels, height, width, node["blocksize"]


@operator("DepthToSpace")
def depth_to_space(node: NodeCall, x: Value) -> Value:
    """Move channels into blocks of the image."""
    n, channels, height, width, block = _blocks(node, x)
    inner = channels // block**2
    if node.get("mode", "DCR") == "DCR":
        parts = x.reshape((n, block, block, inner, height, width))
        order = (0, 3, 4, 1, 5, 2)
    else:
        parts = x.reshape((n, inner, block, block, height, width))
        order = (0, 1, 4, 2, 5, 3)
    return movement.permute_dims(parts, order).reshape((n, inner, height * block, width * block))


@operator("SpaceToDepth")
def space_to_depth(node: NodeCall, x: Value) -> Value:
    """Move blocks of the image into channels."""
    n, channels, height, width, block = _blocks(node, x)
    parts = x.reshape((n, channels, height // block, block, width // block, block))
    order = (0, 3, 5, 1, 2, 4) if node.get("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    return movement.permute_dims(parts, order).reshape((n, channels * block**2, height // block, width // block))


@operator("Trilu", reads=(1,), folds=True)
def triangle(node: NodeCall, x: Value, k: Array | None = None) -> Value:
    """Keep a triangle of each matrix."""
    offset = 0 if k is None else int(k.reshape(()))
    if is_tensor(x):
        return movement.triu(x, offset) if node["upper"] else movement.tril(x, offset)
    return np.triu(x, offset) if node["upper"] else np.tril(x, offset)
