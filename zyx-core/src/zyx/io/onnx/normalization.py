"""Normalisations. Those that ONNX defines by other operators are computed that way: RMS, group and others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.functions import elementwise, joining, movement, reduction, transcendental
from zyx.functions.choosing import where
from zyx.io.onnx.registry import operator

if TYPE_CHECKING:
    from zyx.io.onnx.node import NodeCall
    from zyx.io.onnx.values import Value
    from zyx.tensor.tensor import Tensor


def _by_channel(vector: Tensor, x: Tensor) -> Tensor:
    return vector.reshape((1, -1) + (1,) * (x.ndim - 2)) if x.ndim > 1 else vector


@operator("BatchNormalization")
def batch_normalization(
    node: NodeCall, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor
) -> Value:
    """Normalise each channel, by running statistics, or in training by those of the batch."""
    training = bool(node.get("training_mode", 0)) or (node.version < 7 and not node.get("is_test", 0))
    wide = x.astype(mean.dtype)
    used_mean, used_variance = mean, variance
    if training:
        axes = (0, *range(2, x.ndim))
        used_mean, used_variance = reduction.mean(wide, axes), reduction.var(wide, axes)
    factor = scale.astype(mean.dtype) * transcendental.rsqrt(used_variance + node["epsilon"])
    shifted = (wide - _by_channel(used_mean, x)) * _by_channel(factor, x)
    y = (shifted + _by_channel(bias.astype(mean.dtype), x)).astype(x.dtype)
    if not training or not node.gives(1):
        return y
    keep = node["momentum"]
    return y, mean * keep + used_mean * (1 - keep), variance * keep + used_variance * (1 - keep)


@operator("InstanceNormalization")
def instance_normalization(node: NodeCall, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """Normalise each channel of each sample."""
    axes = tuple(range(2, x.ndim))
    variance, mean = reduction.var_mean(x, axes, keepdims=True)
    return (x - mean) * transcendental.rsqrt(variance + node["epsilon"]) * _by_channel(scale, x) + _by_channel(bias, x)


@operator("LayerNormalization")
def layer_normalization(node: NodeCall, x: Tensor, scale: Tensor, bias: Tensor | None = None) -> Value:
    """Normalise trailing axes; the mean and the inverse deviation are outputs, too."""
    axes = tuple(range(node["axis"] % x.ndim, x.ndim))
    wide = x.astype("float32") if node["stash_type"] == 1 and x.dtype != "float64" else x
    variance, mean = reduction.var_mean(wide, axes, keepdims=True)
    inverse = transcendental.rsqrt(variance + node["epsilon"])
    y = ((wide - mean) * inverse).astype(x.dtype) * scale
    y = y if bias is None else y + bias
    return (y, mean, inverse) if node.gives(1) or node.gives(2) else y


@operator("LRN")
def local_response_normalization(node: NodeCall, x: Tensor) -> Tensor:
    """Divide by what neighbouring channels hold."""
    size = node["size"]
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    squares = joining.pad(x * x, [(0, 0), (before, after), *[(0, 0)] * (x.ndim - 2)])
    total = movement.unfold(squares, 1, size).sum(axis=-1)
    divisor: Tensor = (node["bias"] + node["alpha"] / size * total) ** node["beta"]
    return x / divisor


@operator("LpNormalization")
def lp_normalization(node: NodeCall, x: Tensor) -> Tensor:
    """Divide by the norm along an axis; zeros stay."""
    axis = node["axis"]
    if node["p"] == 1:
        size = elementwise.abs(x).sum(axis=axis, keepdims=True)
    else:
        size = transcendental.sqrt((x * x).sum(axis=axis, keepdims=True))
    return x / where(size == 0, 1, size)
