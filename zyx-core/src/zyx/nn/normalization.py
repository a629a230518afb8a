"""Layers that bring values to mean 0 and variance 1. Weights begin as 1, biases as 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx import shape as shapes
from zyx.dtype import float32
from zyx.errors import ShapeError
from zyx.integers import as_index
from zyx.nn import initial
from zyx.nn.functional.normalization import group_norm, instance_norm, layer_norm, rms_norm
from zyx.nn.module import Module

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.dtype import DTypeLike
    from zyx.tensor.tensor import Tensor


class LayerNorm(Module):
    """Normalise over the last axes, which have sizes `normalized_shape`.

    Raises:
        ShapeError: When called: the last axes of the input are not those that are normalised.

    >>> zyx.nn.LayerNorm(4)(zyx.ones(2, 4)).shape
    (2, 4)
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        dtype: DTypeLike = float32,
        device: str | None = None,
    ) -> None:
        self.normalized_shape, self.eps = shapes.as_shape(normalized_shape, "normalized_shape"), eps
        self.weight = initial.constant(1.0, self.normalized_shape, dtype, device) if elementwise_affine else None
        self.bias = initial.constant(0.0, self.normalized_shape, dtype, device) if elementwise_affine and bias else None

    def forward(self, x: Tensor) -> Tensor:
        return layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        text = f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.weight is not None}"
        return f"{text}, bias={self.bias is not None}"


class RMSNorm(Module):
    """Divide by the root of the mean square over the last axes, which have sizes `normalized_shape`.

    `eps` None is the distance of 1 to the next number of the input's dtype.

    Raises:
        ShapeError: When called: the last axes of the input are not those that are normalised.

    >>> zyx.nn.RMSNorm(4)(zyx.ones(2, 4)).shape
    (2, 4)
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        dtype: DTypeLike = float32,
        device: str | None = None,
    ) -> None:
        self.normalized_shape, self.eps = shapes.as_shape(normalized_shape, "normalized_shape"), eps
        self.weight = initial.constant(1.0, self.normalized_shape, dtype, device) if elementwise_affine else None

    def forward(self, x: Tensor) -> Tensor:
        return rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.weight is not None}"


class GroupNorm(Module):
    """Normalise ``(N, num_channels, ...)`` over groups of channels and all axes behind them, example by example.

    Raises:
        ShapeError: The channels do not fall into as many groups. When called: other channels.

    >>> zyx.nn.GroupNorm(2, 4)(zyx.ones(1, 4, 3)).shape
    (1, 4, 3)
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        dtype: DTypeLike = float32,
        device: str | None = None,
    ) -> None:
        """Make the layer.

        Raises:
            ShapeError: `num_channels` is no multiple of `num_groups`.
        """
        num_groups, num_channels = as_index(num_groups, "num_groups"), as_index(num_channels, "num_channels")
        if num_groups < 1 or num_channels % num_groups:
            raise ShapeError(f"{num_channels} channels do not fall into {num_groups} groups")
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.weight = initial.constant(1.0, (num_channels,), dtype, device) if affine else None
        self.bias = initial.constant(0.0, (num_channels,), dtype, device) if affine else None

    def forward(self, x: Tensor) -> Tensor:
        return group_norm(x, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        text = f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.weight is not None}"
        return f"{text}, bias={self.bias is not None}"


class InstanceNorm(Module):
    """Normalise each channel of each example of ``(N, num_features, ...)``, over one or more axes behind it.

    Raises:
        ShapeError: When called: other channels, where there are weights.

    >>> zyx.nn.InstanceNorm(3)(zyx.ones(2, 3, 5)).shape
    (2, 3, 5)
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        affine: bool = False,
        dtype: DTypeLike = float32,
        device: str | None = None,
    ) -> None:
        num_features = as_index(num_features, "num_features")
        self.num_features, self.eps = num_features, eps
        self.weight = initial.constant(1.0, (num_features,), dtype, device) if affine else None
        self.bias = initial.constant(0.0, (num_features,), dtype, device) if affine else None

    def forward(self, x: Tensor) -> Tensor:
        return instance_norm(x, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_features}, eps={self.eps}"
