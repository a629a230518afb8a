"""Random numbers. Seeds make a run repeatable, not equal to that of other libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zyx.dtype import as_dtype
from zyx.functions.activations import softmax
from zyx.io.onnx.registry import operator
from zyx.io.onnx.values import dtype_of, numpy_dtype
from zyx.tensor import random
from zyx.tensor.generator import Generator

if TYPE_CHECKING:
    from zyx.dtype import DType
    from zyx.io.onnx.node import NodeCall
    from zyx.io.onnx.values import Value
    from zyx.tensor.tensor import Tensor


def generator_of(node: NodeCall) -> Generator | None:
    """Return a source that starts at the seed of a node, or None where it has none."""
    seed = node.get("seed")
    return None if seed is None else Generator(int(np.float32(seed).view(np.uint32)))


def _dtype(node: NodeCall, default: np.dtype[np.generic]) -> DType:
    number = node.get("dtype")
    return as_dtype(default if number is None else numpy_dtype(number, node.proto.op_type))


def _uniform(node: NodeCall, shape: tuple[int, ...], dtype: DType) -> Tensor:
    return random.uniform(
        shape, low=node["low"], high=node["high"], dtype=dtype, device=node.device, generator=generator_of(node)
    )


def _normal(node: NodeCall, shape: tuple[int, ...], dtype: DType) -> Tensor:
    return random.normal(
        shape, mean=node["mean"], std=node["scale"], dtype=dtype, device=node.device, generator=generator_of(node)
    )


@operator("RandomUniform", raw=True)
def uniform(node: NodeCall) -> Tensor:
    """Return numbers between two bounds."""
    return _uniform(node, tuple(node["shape"]), _dtype(node, np.dtype(np.float32)))


@operator("RandomUniformLike", raw=True)
def uniform_like(node: NodeCall, x: Value) -> Tensor:
    """Return numbers between two bounds, of the shape of a tensor."""
    return _uniform(node, tuple(x.shape), _dtype(node, dtype_of(x)))


@operator("RandomNormal", raw=True)
def normal(node: NodeCall) -> Tensor:
    """Return normally distributed numbers."""
    return _normal(node, tuple(node["shape"]), _dtype(node, np.dtype(np.float32)))


@operator("RandomNormalLike", raw=True)
def normal_like(node: NodeCall, x: Value) -> Tensor:
    """Return normally distributed numbers, of the shape of a tensor."""
    return _normal(node, tuple(x.shape), _dtype(node, dtype_of(x)))


@operator("Bernoulli")
def bernoulli(node: NodeCall, x: Tensor) -> Tensor:
    """Return 1 with the given probabilities, else 0."""
    drawn = random.rand(x.shape, device=x.device, generator=generator_of(node))
    return (drawn < x.astype("float32")).astype(_dtype(node, x.dtype.numpy))


@operator("Multinomial")
def multinomial(node: NodeCall, x: Tensor) -> Tensor:
    """Draw places by the logarithms of their probabilities."""
    number = node.get("dtype")
    dtype = as_dtype(numpy_dtype(6 if number is None else number, "Multinomial"))
    drawn = random.multinomial(softmax(x, -1), node["sample_size"], replacement=True, generator=generator_of(node))
    return drawn.astype(dtype)
