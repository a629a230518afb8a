"""Activations, and normalised exponentials."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zyx.functions import activations, arithmetic, choosing, selection, transcendental
from zyx.functions.reduction import argmax
from zyx.io.onnx.registry import operator
from zyx.io.onnx.sources import generator_of
from zyx.tensor import creation, random

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.io.onnx.node import NodeCall
    from zyx.io.onnx.values import Value
    from zyx.tensor.tensor import Tensor

#: Those without attributes.
_PLAIN: dict[str, Callable[[Tensor], Tensor]] = {
    "Relu": activations.relu,
    "Sigmoid": activations.sigmoid,
    "Tanh": transcendental.tanh,
    "Softsign": activations.softsign,
    "HardSwish": activations.hardswish,
    "Mish": activations.mish,
}


def _plain(function: Callable[[Tensor], Tensor]) -> Callable[..., Value]:
    def compute(_: NodeCall, x: Tensor) -> Tensor:
        return function(x).astype(x.dtype)

    return compute


for _name, _function in _PLAIN.items():
    operator(_name)(_plain(_function))


@operator("Softplus")
def softplus(_: NodeCall, x: Tensor) -> Tensor:
    """Return ``log(1 + exp(x))``."""
    return transcendental.logaddexp(x, 0.0).astype(x.dtype)


@operator("LeakyRelu")
def leaky_relu(node: NodeCall, x: Tensor) -> Tensor:
    """Scale what is negative."""
    return activations.leaky_relu(x, node["alpha"])


@operator("PRelu")
def prelu(_: NodeCall, x: Tensor, slope: Tensor) -> Tensor:
    """Scale what is negative, by slopes that are broadcast."""
    if slope.ndim == 1 and slope.shape[0] not in (1, x.shape[-1]):  # of channels, as older models have it
        slope = slope.reshape((-1,) + (1,) * (x.ndim - 2))
    return choosing.where(x < 0, x * slope, x)


@operator("Elu")
def elu(node: NodeCall, x: Tensor) -> Tensor:
    """Exponential below zero."""
    return activations.elu(x, node["alpha"])


@operator("Celu")
def celu(node: NodeCall, x: Tensor) -> Tensor:
    """Exponential below zero, with a derivative that is continuous."""
    return activations.celu(x, node["alpha"])


@operator("Selu")
def selu(node: NodeCall, x: Tensor) -> Tensor:
    """Scaled exponential below zero."""
    below = transcendental.expm1(arithmetic.minimum(x, 0)) * node["alpha"]
    return choosing.where(x > 0, x, below).multiply(node["gamma"])


@operator("ThresholdedRelu")
def thresholded_relu(node: NodeCall, x: Tensor) -> Tensor:
    """Keep what is above a threshold."""
    return choosing.where(x > node["alpha"], x, 0)


@operator("HardSigmoid")
def hard_sigmoid(node: NodeCall, x: Tensor) -> Tensor:
    """Return a line, clipped to 0 and 1."""
    return choosing.clip(x * node["alpha"] + node["beta"], 0, 1)


@operator("Gelu")
def gelu(node: NodeCall, x: Tensor) -> Tensor:
    """Weigh by the normal distribution."""
    return activations.gelu(x, node["approximate"])


@operator("Swish")
def swish(node: NodeCall, x: Tensor) -> Tensor:
    """Weigh by a sigmoid."""
    return x * activations.sigmoid(x * node["alpha"])


@operator("Shrink")
def shrink(node: NodeCall, x: Tensor) -> Tensor:
    """Move towards zero; what is close to it becomes zero."""
    edge, bias = node["lambd"], node["bias"]
    return choosing.where(x < -edge, x + bias, choosing.where(x > edge, x - bias, 0)).astype(x.dtype)


def _normalised(function: Callable[[Tensor, int], Tensor]) -> Callable[..., Value]:
    def compute(node: NodeCall, x: Tensor) -> Tensor:
        axis = node["axis"]
        if node.version >= 13:
            return function(x, axis)
        place = axis % x.ndim if x.ndim else 0  # all axes from this one on
        return function(x.reshape((math.prod(x.shape[:place]), math.prod(x.shape[place:]))), 1).reshape(x.shape)

    return compute


def _hardmax(x: Tensor, axis: int) -> Tensor:
    return selection.one_hot(argmax(x, axis), x.shape[axis], axis=axis, dtype=x.dtype)


operator("Softmax")(_normalised(activations.softmax))
operator("LogSoftmax")(_normalised(activations.log_softmax))
operator("Hardmax")(_normalised(_hardmax))


@operator("Dropout", reads=(1, 2))
def dropout(node: NodeCall, x: Tensor, ratio: Value = None, training: Value = None) -> Value:
    """Return the input, and that all is kept; in training elements are left out at random."""
    share = node.get("ratio", 0.5) if ratio is None else float(ratio.reshape(()))
    if training is None or not bool(training.reshape(())) or share == 0:
        return (x, creation.ones(x.shape, dtype="bool", device=x.device)) if node.gives(1) else x
    kept = random.rand(x.shape, device=x.device, generator=generator_of(node)) >= share
    return choosing.where(kept, x / (1 - share), 0).astype(x.dtype), kept
