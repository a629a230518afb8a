"""Steps of optimisers, and gradients, as networks that train themselves have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zyx.functions import transcendental
from zyx.io.onnx.registry import operator
from zyx.io.onnx.values import to_host

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.io.onnx.node import NodeCall
    from zyx.io.onnx.values import Value
    from zyx.tensor.tensor import Tensor

_DOMAIN = "ai.onnx.preview.training"


def _each(function: Callable[..., tuple[Tensor, ...]], parts: int) -> Callable[..., Value]:
    """Return a step over groups of tensors: the parameters, their gradients, and what is kept of them."""

    def compute(node: NodeCall, rate: Value, count: Value, *values: Tensor) -> Value:
        number = len(values) // parts
        groups = [values[part * number : (part + 1) * number] for part in range(parts)]
        steps = int(np.asarray(to_host(count)).reshape(-1)[0])
        results = [function(node, rate, steps, *(group[place] for group in groups)) for place in range(number)]
        return tuple(result[part] for part in range(len(results[0])) for result in results)

    return compute


def _adagrad(
    node: NodeCall, rate: Tensor, steps: int, x: Tensor, gradient: Tensor, squares: Tensor
) -> tuple[Tensor, ...]:
    """Follow Duchi, Hazan and Singer, "Adaptive subgradient methods", 2011."""
    slowed = rate / (1 + steps * node["decay_factor"])
    gradient = gradient + node["norm_coefficient"] * x
    squares = squares + gradient * gradient
    return x - slowed * gradient / (transcendental.sqrt(squares) + node["epsilon"]), squares


def _momentum(
    node: NodeCall, rate: Tensor, steps: int, x: Tensor, gradient: Tensor, speed: Tensor
) -> tuple[Tensor, ...]:
    gradient = gradient + node["norm_coefficient"] * x
    alpha = node["alpha"]
    speed = alpha * speed + (node["beta"] if steps > 0 else 1.0) * gradient
    if node["mode"] == "nesterov":
        return x - rate * (gradient + alpha * speed), speed
    return x - rate * speed, speed


def _adam(
    node: NodeCall, rate: Tensor, steps: int, x: Tensor, gradient: Tensor, first: Tensor, second: Tensor
) -> tuple[Tensor, ...]:
    """Follow Kingma and Ba, "Adam", 2014."""
    alpha, beta = node["alpha"], node["beta"]
    gradient = gradient + node["norm_coefficient"] * x
    first = alpha * first + (1 - alpha) * gradient
    second = beta * second + (1 - beta) * gradient * gradient
    if steps > 0:
        rate = rate * ((1 - beta**steps) ** 0.5 / (1 - alpha**steps))
    stepped = x - rate * first / (transcendental.sqrt(second) + node["epsilon"])
    return (1 - node["norm_coefficient_post"]) * stepped, first, second


operator("Adagrad", domain=_DOMAIN)(_each(_adagrad, 3))
operator("Momentum", domain=_DOMAIN)(_each(_momentum, 3))
operator("Adam", domain=_DOMAIN)(_each(_adam, 4))
