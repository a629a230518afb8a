"""Operators of the domain com.microsoft, which the optimiser of ONNX Runtime writes into files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.functions import activations, linalg, movement, reduction, transcendental
from zyx.io.onnx.registry import operator

if TYPE_CHECKING:
    from zyx.io.onnx.node import NodeCall
    from zyx.io.onnx.values import Value
    from zyx.tensor.tensor import Tensor

_DOMAIN: Final = "com.microsoft"


@operator("Gelu", domain=_DOMAIN)
def gelu(_: NodeCall, x: Tensor) -> Tensor:
    """Weigh by the normal distribution."""
    return activations.gelu(x)


@operator("FastGelu", domain=_DOMAIN)
def fast_gelu(_: NodeCall, x: Tensor, bias: Tensor | None = None) -> Tensor:
    """Weigh by a hyperbolic tangent that is close to the normal distribution."""
    return activations.gelu(x if bias is None else x + bias, "tanh")


@operator("BiasGelu", domain=_DOMAIN)
def bias_gelu(_: NodeCall, x: Tensor, bias: Tensor) -> Tensor:
    """Add a bias, and weigh by the normal distribution."""
    return activations.gelu(x + bias)


@operator("QuickGelu", domain=_DOMAIN)
def quick_gelu(node: NodeCall, x: Tensor) -> Tensor:
    """Weigh by a sigmoid."""
    return x * activations.sigmoid(x * node.get("alpha", 1.702))


@operator("SkipLayerNormalization", domain=_DOMAIN)
def skip_layer_normalization(
    node: NodeCall, x: Tensor, skip: Tensor, scale: Tensor, shift: Tensor | None = None, bias: Tensor | None = None
) -> Value:
    """Add two tensors, and normalise the last axis; the mean, the inverse deviation and the sum are outputs, too."""
    total = x + skip if bias is None else x + skip + bias
    variance, mean = reduction.var_mean(total, -1, keepdims=True)
    inverse = transcendental.rsqrt(variance + node.get("epsilon", 1e-12))
    y = (total - mean) * inverse * scale
    y = y if shift is None else y + shift
    return (y, mean, inverse, total)[: max(len(node.outputs), 1)]


@operator("FusedMatMul", domain=_DOMAIN)
def fused_matmul(node: NodeCall, x: Tensor, y: Tensor) -> Tensor:
    """Multiply matrices, transposed or not, and scale the product."""
    if node.get("transA", 0):
        x = movement.swapaxes(x, -1, -2)
    if node.get("transB", 0):
        y = movement.swapaxes(y, -1, -2)
    product: Tensor = linalg.matmul(x, y) * node.get("alpha", 1.0)
    return product
