"""Layers that multiply with weights, and those that only change shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.dtype import float32
from zyx.functions.movement import flatten, unflatten
from zyx.integers import as_index, as_integers
from zyx.nn import initial
from zyx.nn.functional.linear import bilinear, linear
from zyx.nn.module import Module

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.dtype import DTypeLike
    from zyx.tensor.tensor import Tensor


class Linear(Module):
    """``x @ weight.T + bias``: ``(..., in_features)`` to ``(..., out_features)``.

    Weights and biases begin within ``1 / sqrt(in_features)``.

    Raises:
        ShapeError: When called: the last axis of the input is not `in_features` long.

    >>> zyx.nn.Linear(3, 4)(zyx.ones(2, 3)).shape
    (2, 4)
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        dtype: DTypeLike = float32,
        device: str | None = None,
    ) -> None:
        in_features, out_features = as_index(in_features, "in_features"), as_index(out_features, "out_features")
        self.in_features, self.out_features = in_features, out_features
        self.weight = initial.for_inputs(in_features, (out_features, in_features), dtype, device)
        self.bias = initial.for_inputs(in_features, (out_features,), dtype, device) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Bilinear(Module):
    """``sum over i, j of x[i] * weight[k, i, j] * y[j] + bias[k]``.

    Weights and biases begin within ``1 / sqrt(in1_features)``.

    Raises:
        ShapeError: When called: the last axes of the inputs are not `in1_features` and `in2_features` long.

    >>> zyx.nn.Bilinear(2, 3, 4)(zyx.ones(5, 2), zyx.ones(5, 3)).shape
    (5, 4)
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        dtype: DTypeLike = float32,
        device: str | None = None,
    ) -> None:
        in1_features, in2_features = as_index(in1_features, "in1_features"), as_index(in2_features, "in2_features")
        out_features = as_index(out_features, "out_features")
        self.weight = initial.for_inputs(in1_features, (out_features, in1_features, in2_features), dtype, device)
        self.bias = initial.for_inputs(in1_features, (out_features,), dtype, device) if bias else None

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return bilinear(x, y, self.weight, self.bias)

    def extra_repr(self) -> str:
        outputs, first, second = self.weight.shape
        text = f"in1_features={first}, in2_features={second}, out_features={outputs}"
        return f"{text}, bias={self.bias is not None}"


class Identity(Module):
    """What it is given.

    From ``(N, ...)`` to the same shape: it is the input.

    >>> zyx.nn.Identity()(zyx.ones(2)).tolist()
    [1.0, 1.0]
    """

    def forward(self, x: Tensor) -> Tensor:
        return x


class Flatten(Module):
    """The axes `start_dim` to `end_dim` as one; by default all but the first.

    Raises:
        AxisError: When called: the input has no such axis.

    >>> zyx.nn.Flatten()(zyx.ones(2, 3, 4)).shape
    (2, 12)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        self.start_dim, self.end_dim = as_index(start_dim, "start_dim"), as_index(end_dim, "end_dim")

    def forward(self, x: Tensor) -> Tensor:
        return flatten(x, self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """The axis `dim` as several of `sizes`.

    Raises:
        ShapeError: When called: the product of `sizes` is not the size of the axis.

    >>> zyx.nn.Unflatten(1, (2, 3))(zyx.ones(4, 6)).shape
    (4, 2, 3)
    """

    def __init__(self, dim: int, sizes: Sequence[int]) -> None:
        self.dim, self.sizes = as_index(dim, "dim"), as_integers(sizes, "sizes")

    def forward(self, x: Tensor) -> Tensor:
        return unflatten(x, self.dim, self.sizes)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.sizes}"
