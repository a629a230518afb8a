"""Batch normalisation, and instance normalisation with the same arguments and buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from zyx.dtype import float32, int64
from zyx.errors import ShapeError
from zyx.functions.operands import require
from zyx.integers import as_index
from zyx.nn import initial
from zyx.nn.functional.normalization import batch_norm, instance_norm
from zyx.nn.module import Module

if TYPE_CHECKING:
    from zyx.dtype import DTypeLike
    from zyx.tensor.tensor import Tensor


class BatchNorm(Module):
    """Normalise each channel of ``(N, num_features, ...)`` over the batch and all axes behind.

    In training by mean and variance of the batch, which the running values follow; else by the running values.

    Attributes:
        running_mean: ``(num_features,)``, a buffer; None if they are not tracked.
        running_var: Likewise, of variances divided by n - 1.
        num_batches_tracked: How many batches they are of.

    Raises:
        ShapeError: When called: other channels.

    >>> zyx.nn.BatchNorm(3)(zyx.ones(4, 3, 5)).shape
    (4, 3, 5)
    """

    ranks: ClassVar[tuple[int, ...]] = ()
    """Ranks of input that are taken; none means any from 2 on."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        dtype: DTypeLike = float32,
        device: str | None = None,
    ) -> None:
        """Make the layer.

        Args:
            num_features: Number of channels.
            eps: Added to the variance.
            momentum: Share of a new batch in the running values; None makes them the mean of all batches.
            affine: Whether there are a weight and a bias.
            track_running_stats: Whether there are running values; if not, those of the batch are always used.
            dtype: Of all of them.
            device: Where they lie.
        """
        num_features = as_index(num_features, "num_features")
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        shape = (num_features,)
        self.weight = initial.constant(1.0, shape, dtype, device) if affine else None
        self.bias = initial.constant(0.0, shape, dtype, device) if affine else None
        self.running_mean = initial.buffer(0.0, shape, dtype, device) if track_running_stats else None
        self.running_var = initial.buffer(1.0, shape, dtype, device) if track_running_stats else None
        self.num_batches_tracked = initial.buffer(0, (), int64, device) if track_running_stats else None

    def forward(self, x: Tensor) -> Tensor:
        shape = require(x, type(self).__name__).node.shape
        if self.ranks and len(shape) not in self.ranks:
            raise ShapeError(f"{type(self).__name__} takes rank {' or '.join(map(str, self.ranks))}, not {shape}")
        is_training = self.training
        momentum: float | Tensor = 0.0 if self.momentum is None else self.momentum
        if is_training and self.num_batches_tracked is not None:
            count = self.num_batches_tracked + 1
            self.num_batches_tracked.assign(count)
            count.runtime.realize_along(self.num_batches_tracked)
            if self.momentum is None:
                momentum = 1.0 / count.astype(float32)
        return batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, is_training, momentum, self.eps
        )

    def extra_repr(self) -> str:
        text = f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.weight is not None}"
        return f"{text}, bias={self.bias is not None}, track_running_stats={self.running_mean is not None}"


class _InstanceNorm(BatchNorm):
    """Normalise each channel of each example over all axes behind; channels come first, with or without a batch."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        dtype: DTypeLike = float32,
        device: str | None = None,
    ) -> None:
        """Make the layer; see `BatchNorm`. With running values, these are what counts outside of training."""
        super().__init__(num_features, eps, momentum, affine, track_running_stats, dtype, device)

    def forward(self, x: Tensor) -> Tensor:
        shape = require(x, type(self).__name__).node.shape
        if len(shape) not in self.ranks:
            raise ShapeError(f"{type(self).__name__} takes rank {' or '.join(map(str, self.ranks))}, not {shape}")
        batch = x if len(shape) == self.ranks[-1] else x.expand_dims(0)
        if batch.shape[1] != self.num_features:
            raise ShapeError(f"{type(self).__name__} of {self.num_features} channels does not fit {shape}")
        found = instance_norm(
            batch,
            self.weight,
            self.bias,
            self.eps,
            running_mean=self.running_mean,
            running_var=self.running_var,
            use_input_stats=self.training or self.running_mean is None,
            momentum=0.1 if self.momentum is None else self.momentum,
        )
        return found if batch is x else found.squeeze(0)


class InstanceNorm1d(_InstanceNorm):
    """Instance normalisation of ``(N, C, L)`` or ``(C, L)``.

    Raises:
        ShapeError: When called: another rank, or other channels.

    >>> zyx.nn.InstanceNorm1d(3)(zyx.ones(2, 3, 4)).shape
    (2, 3, 4)
    """

    ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Instance normalisation of ``(N, C, H, W)`` or ``(C, H, W)``.

    Raises:
        ShapeError: When called: another rank, or other channels.

    >>> zyx.nn.InstanceNorm2d(3)(zyx.ones(2, 3, 4, 4)).shape
    (2, 3, 4, 4)
    """

    ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Instance normalisation of ``(N, C, D, H, W)`` or ``(C, D, H, W)``.

    Raises:
        ShapeError: When called: another rank, or other channels.

    >>> zyx.nn.InstanceNorm3d(3)(zyx.ones(2, 3, 4, 4, 4)).shape
    (2, 3, 4, 4, 4)
    """

    ranks = (4, 5)


class BatchNorm1d(BatchNorm):
    """`BatchNorm` of ``(N, C)`` and ``(N, C, L)``.

    Raises:
        ShapeError: When called: another rank, or other channels.

    >>> zyx.nn.BatchNorm1d(3)(zyx.ones(4, 3)).shape
    (4, 3)
    """

    ranks = (2, 3)


class BatchNorm2d(BatchNorm):
    """`BatchNorm` of ``(N, C, H, W)``.

    Raises:
        ShapeError: When called: another rank, or other channels.

    >>> zyx.nn.BatchNorm2d(3)(zyx.ones(2, 3, 4, 4)).shape
    (2, 3, 4, 4)
    """

    ranks = (4,)


class BatchNorm3d(BatchNorm):
    """`BatchNorm` of ``(N, C, D, H, W)``.

    Raises:
        ShapeError: When called: another rank, or other channels.

    >>> zyx.nn.BatchNorm3d(3)(zyx.ones(2, 3, 4, 4, 4)).shape
    (2, 3, 4, 4, 4)
    """

    ranks = (5,)
