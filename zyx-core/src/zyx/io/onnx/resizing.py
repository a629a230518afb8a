"""Images of other sizes. Each axis is resized by itself: by a matrix of weights, made on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zyx.errors import FormatError
from zyx.functions import choosing, linalg, movement
from zyx.functions.elementwise import round as rounded
from zyx.io.onnx.registry import operator
from zyx.io.onnx.values import check_count

if TYPE_CHECKING:
    from zyx.functions.operands import Array
    from zyx.io.onnx.node import NodeCall
    from zyx.tensor.tensor import Tensor


def _places(node: NodeCall, old: int, new: int, scale: float, region: tuple[float, float]) -> Array:
    """Return where the elements of the result lie along an axis of the input."""
    x = np.arange(new, dtype=np.float64)
    mode = node.get("coordinate_transformation_mode", "asymmetric")
    match mode:
        case "half_pixel":
            return (x + 0.5) / scale - 0.5
        case "half_pixel_symmetric":
            return old / 2 * (1 - new / (old * scale)) + (x + 0.5) / scale - 0.5
        case "pytorch_half_pixel":
            return (x + 0.5) / scale - 0.5 if new > 1 else np.zeros(new)
        case "align_corners":
            return x * (old - 1) / (old * scale - 1) if new > 1 else np.zeros(new)
        case "asymmetric":
            return x / scale
        case "tf_half_pixel_for_nn":
            return (x + 0.5) / scale
        case "tf_crop_and_resize":
            start, end = region
            if new == 1:
                return np.full(1, 0.5 * (start + end) * (old - 1))
            return start * (old - 1) + x * (end - start) * (old - 1) / (new - 1)
        case _:
            raise FormatError(f"Resize: coordinate_transformation_mode {mode!r} is unknown")


def _nearest(x: Array, mode: str) -> Array:
    match mode:
        case "round_prefer_floor":
            return np.ceil(x - 0.5)
        case "round_prefer_ceil":
            return np.floor(x + 0.5)
        case "floor":
            return np.floor(x)
        case _:
            return np.ceil(x)


def _linear(distance: Array) -> Array:
    weights: Array = np.maximum(1 - np.abs(distance), 0)
    return weights


def _cubic(distance: Array, a: float) -> Array:
    """Return the weights of Keys, "Cubic convolution interpolation for digital image processing", 1981."""
    d = np.abs(distance)
    near = (a + 2) * d**3 - (a + 3) * d**2 + 1
    far = a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
    return np.asarray(np.where(d <= 1, near, np.where(d < 2, far, 0)))


def _weights(node: NodeCall, mode: str, old: int, x: Array, scale: float) -> Array:
    """Return a matrix: each row makes an element of the result."""
    new = len(x)
    matrix = np.zeros((new, old))
    rows = np.arange(new)
    if mode == "nearest":
        place = np.clip(_nearest(x, node.get("nearest_mode", "floor")), 0, old - 1).astype(np.int64)
        matrix[rows, place] = 1
        return matrix
    stretch = min(scale, 1.0) if node.get("antialias", 0) else 1.0
    reach = (1 if mode == "linear" else 2) / stretch
    taps = int(np.ceil(reach)) * 2 + 1
    first = np.floor(x).astype(np.int64) - taps // 2
    places = first[:, None] + np.arange(taps + 1)
    distance = (places - x[:, None]) * stretch
    weights = _linear(distance) if mode == "linear" else _cubic(distance, node.get("cubic_coeff_a", -0.75))
    inside = (places >= 0) & (places < old)
    if node.get("exclude_outside", 0):
        weights = np.where(inside, weights, 0)
    total = weights.sum(1, keepdims=True)
    weights = weights / np.where(total == 0, 1, total)
    np.add.at(matrix, (np.broadcast_to(rows[:, None], places.shape), np.clip(places, 0, old - 1)), weights)
    return matrix


def _target(
    node: NodeCall, shape: tuple[int, ...], axes: list[int], scales: Array | None, sizes: Array | None
) -> tuple[dict[int, int], dict[int, float]]:
    """Return the size and the scale of each axis that changes."""
    if sizes is not None and sizes.size:
        wanted = {axis: int(size) for axis, size in zip(axes, sizes, strict=True)}
        factors = {axis: size / shape[axis] for axis, size in wanted.items()}
        policy = node.get("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            factor = (min if policy == "not_larger" else max)(factors.values())
            wanted = {axis: int(np.floor(factor * shape[axis] + 0.5)) for axis in axes}
            factors = dict.fromkeys(axes, factor)
        return wanted, factors
    if scales is None or not scales.size:
        raise FormatError("Resize: neither scales nor sizes are there")
    factors = {axis: float(scale) for axis, scale in zip(axes, scales, strict=True)}
    return {axis: int(np.floor(shape[axis] * factor)) for axis, factor in factors.items()}, factors


def _resized(node: NodeCall, x: Tensor, region: Array | None, scales: Array | None, sizes: Array | None) -> Tensor:
    axes = [int(axis) % x.ndim for axis in node.get("axes") or range(x.ndim)]
    wanted, factors = _target(node, x.shape, axes, scales, sizes)
    mode = node["mode"]
    mode = "linear" if mode == "bilinear" else mode
    crops = node.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    outside: Tensor | None = None
    dtype, y = x.dtype, x
    exact = dtype if dtype.is_float else "float32"
    for number, axis in enumerate(axes):
        old, new = x.shape[axis], wanted[axis]
        bounds = (0.0, 1.0)
        if crops and region is not None and region.size:
            bounds = (float(region[number]), float(region[number + len(axes)]))
        if new == old and factors[axis] == 1 and bounds == (0.0, 1.0):
            continue
        check_count((old, new), "Resize")
        places = _places(node, old, new, factors[axis], bounds)
        matrix = _weights(node, mode, old, places, factors[axis])
        if crops:
            missing = ((places < 0) | (places > old - 1)).reshape([-1 if a == axis else 1 for a in range(x.ndim)])
            outside = node.tensor(missing) if outside is None else outside | node.tensor(missing)
        if mode == "nearest":
            y = y.take(np.argmax(matrix, 1), axis=axis)
        else:
            weights = node.tensor(matrix.astype(np.float64 if dtype == "float64" else np.float32)).astype(exact)
            y = movement.moveaxis(linalg.matmul(movement.moveaxis(y.astype(exact), axis, -1), weights.T), -1, axis)
    if outside is not None:
        y = choosing.where(outside, node.get("extrapolation_value", 0.0), y)
    if not dtype.is_float and mode != "nearest":
        y = rounded(y)
    return y.astype(dtype)


@operator("Resize", reads=(1, 2, 3))
def resize(
    node: NodeCall, x: Tensor, region: Array | None = None, scales: Array | None = None, sizes: Array | None = None
) -> Tensor:
    """Resize by scales or to sizes."""
    if node.version < 11:
        return _resized(node, x, None, region, None)
    return _resized(node, x, region, scales, sizes)


@operator("Upsample", reads=(1,), moved={"scales": (9, 1)})
def upsample(node: NodeCall, x: Tensor, scales: Array | None = None) -> Tensor:
    """Enlarge by scales."""
    return _resized(node, x, None, scales, None)
