"""First values of parameters, as in PyTorch.

Bounds are of `zyx.uniform`: low <= x < high. All draw from the default generator, so `zyx.manual_seed` repeats them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from zyx.dtype import as_dtype
from zyx.nn.parameter import Parameter
from zyx.runtime.runtime import current
from zyx.shape import as_shape
from zyx.tensor.random import normal, uniform
from zyx.tensor.tensor import Tensor

if TYPE_CHECKING:
    from zyx.dtype import DTypeLike
    from zyx.shape import Shape


def within(bound: float, shape: Shape, dtype: DTypeLike, device: str | None) -> Parameter:
    """Return values drawn evenly from `-bound` to `bound`; zeros if `bound` is 0."""
    if bound <= 0.0 or 0 in shape:
        return constant(0.0, shape, dtype, device)
    return Parameter(uniform(shape, low=-bound, high=bound, dtype=dtype, device=device))


def for_inputs(inputs: int, shape: Shape, dtype: DTypeLike, device: str | None) -> Parameter:
    """Return values within ``1 / sqrt(inputs)``: weights and biases of what sums up `inputs` products.

    (Kaiming's uniform formula with a = sqrt(5), which is what PyTorch uses for linear layers and convolutions.)
    """
    return within(1.0 / math.sqrt(inputs) if inputs > 0 else 0.0, shape, dtype, device)


def glorot(shape: tuple[int, int], dtype: DTypeLike, device: str | None) -> Parameter:
    """Return values within ``sqrt(6 / (inputs + outputs))``, for a shape (outputs, inputs)."""
    return within(math.sqrt(6.0 / max(sum(shape), 1)), shape, dtype, device)


def gaussian(std: float, shape: Shape, dtype: DTypeLike, device: str | None) -> Parameter:
    """Return values drawn from the normal distribution of mean 0."""
    return Parameter(normal(shape, std=std, dtype=dtype, device=device))


def constant(value: float, shape: Shape, dtype: DTypeLike, device: str | None) -> Parameter:
    """Return one value everywhere."""
    return Parameter(np.full(as_shape(shape), value, as_dtype(dtype).numpy), device=device)


def buffer(value: float, shape: Shape, dtype: DTypeLike, device: str | None) -> Tensor:
    """Return a tensor, not a parameter, of one value everywhere, in memory of its own."""
    runtime = current()
    place = runtime.default_device if device is None else runtime.device_name(device)
    return Tensor.of(runtime.upload(np.full(as_shape(shape), value, as_dtype(dtype).numpy), place), runtime)
