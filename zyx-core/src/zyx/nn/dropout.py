"""Layers that leave out values at random, in training only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.errors import ShapeError
from zyx.functions.operands import require
from zyx.nn.module import Module
from zyx.tensor.creation import ones
from zyx.tensor.random import dropout

if TYPE_CHECKING:
    from zyx.tensor.tensor import Tensor


class Dropout(Module):
    """In training, each element is 0 with probability `p`, the others are times ``1 / (1 - p)``; else what is given.

    Raises:
        ShapeError: `p` is not from 0 to 1.

    >>> zyx.nn.Dropout(0.5).eval()(zyx.ones(3)).tolist()
    [1.0, 1.0, 1.0]
    """

    def __init__(self, p: float = 0.5) -> None:
        """Make the layer.

        Raises:
            ShapeError: `p` is not 0 to 1.
        """
        if not 0.0 <= p <= 1.0:
            raise ShapeError(f"p is 0 to 1, not {p}")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.p, self.training)

    def extra_repr(self) -> str:
        return f"p={self.p}"


class ChannelDropout(Dropout):
    """`Dropout` of whole channels of ``(N, C, ...)``: PyTorch's Dropout1d, Dropout2d and Dropout3d.

    Raises:
        ShapeError: `p` is not from 0 to 1.

    >>> zyx.nn.ChannelDropout(0.5).eval()(zyx.ones(1, 2, 3)).tolist()
    [[[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]]
    """

    def forward(self, x: Tensor) -> Tensor:
        node = require(x, "ChannelDropout").node
        if node.ndim < 2:
            raise ShapeError(f"ChannelDropout takes (N, C, ...), not {node.shape}")
        if not self.training or self.p == 0.0:
            return x
        channels = ones(*node.shape[:2], *[1] * (node.ndim - 2), dtype=node.dtype, device=node.device)
        return x * dropout(channels, self.p, True)
