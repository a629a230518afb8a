"""First values of weights, spread so that signals keep their size from layer to layer.

`shape` is (outputs, inputs, window...): an output has inputs times window weights.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx import shape as shapes
from zyx.errors import ShapeError
from zyx.tensor.random import normal, shape_of, uniform

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.dtype import DTypeLike
    from zyx.shape import Shape
    from zyx.tensor.generator import Generator
    from zyx.tensor.tensor import Tensor

__all__ = ["glorot_uniform", "kaiming_normal", "kaiming_uniform"]


def glorot_uniform(
    *shape: int | Sequence[int],
    dtype: DTypeLike = dtypes.float32,
    device: str | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Return weights drawn evenly within ``sqrt(6 / (fan_in + fan_out))`` of 0.

    Of any shape: outputs, inputs, and the axes of a window.

    Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks", 2010.

    Raises:
        ShapeError: Fewer axes than two.
        DTypeError: Not a floating-point dtype.

    >>> bool((zyx.abs(zyx.glorot_uniform(4, 2)) <= 1).all())
    True
    """
    sizes = shape_of(shape)
    inputs, outputs = fans(sizes)
    bound = math.sqrt(6.0 / max(inputs + outputs, 1))
    return uniform(sizes, low=-bound, high=bound, dtype=dtype, device=device, generator=generator)


def kaiming_uniform(
    *shape: int | Sequence[int],
    a: float = 0.0,
    dtype: DTypeLike = dtypes.float32,
    device: str | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Return weights drawn evenly within ``sqrt(6 / ((1 + a**2) * fan_in))`` of 0, for a leaky ReLU of slope `a`.

    He et al., "Delving deep into rectifiers", 2015. `shape` is (outputs, inputs, window...).

    Raises:
        ShapeError: Fewer axes than two.
        DTypeError: Not a floating-point dtype.

    >>> bool((zyx.abs(zyx.kaiming_uniform(4, 6)) <= 1).all())
    True
    """
    sizes = shape_of(shape)
    bound = math.sqrt(6.0 / ((1.0 + a * a) * max(fans(sizes)[0], 1)))
    return uniform(sizes, low=-bound, high=bound, dtype=dtype, device=device, generator=generator)


def kaiming_normal(
    *shape: int | Sequence[int],
    a: float = 0.0,
    dtype: DTypeLike = dtypes.float32,
    device: str | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Return weights of standard deviation ``sqrt(2 / ((1 + a**2) * fan_in))``; see `kaiming_uniform`.

    Raises:
        ShapeError: Fewer axes than two.
        DTypeError: Not a floating-point dtype.

    >>> zyx.kaiming_normal(4, 3).shape
    (4, 3)
    """
    sizes = shape_of(shape)
    deviation = math.sqrt(2.0 / ((1.0 + a * a) * max(fans(sizes)[0], 1)))
    return normal(sizes, std=deviation, dtype=dtype, device=device, generator=generator)


def fans(shape: Shape) -> tuple[int, int]:
    """Return how many inputs an output of such weights has, and how many outputs an input."""
    if len(shape) < 2:
        raise ShapeError(f"weights have at least two axes, outputs and inputs, not {shape}")
    window = shapes.size_of(shape[2:])
    return shape[1] * window, shape[0] * window
