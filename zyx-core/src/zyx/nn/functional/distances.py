"""Distances of vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zyx.errors import ShapeError
from zyx.functions.arithmetic import subtract
from zyx.functions.linalg import norm
from zyx.functions.operands import require
from zyx.functions.selection import take

if TYPE_CHECKING:
    from zyx.tensor.tensor import Tensor


def pairwise_distance(x: Tensor, y: Tensor, p: float = 2.0, eps: float = 1e-6, keepdims: bool = False) -> Tensor:
    """Return the `p`-norm of ``x - y + eps`` along the last axis.

    Args:
        x: ``(N, D)`` or ``(D,)``.
        y: What broadcasts with it.
        p: Which norm.
        eps: Keeps the slope at equal points finite.
        keepdims: Whether the last axis stays, of size 1.

    Raises:
        ShapeError: The shapes of `x` and `y` do not broadcast.

    >>> zyx.nn.functional.pairwise_distance(zyx.Tensor([3.0, 0.0]), zyx.Tensor([0.0, 4.0]), eps=0.0).item()
    5.0
    """
    return norm(subtract(x, y) + eps, p, -1, keepdims=keepdims)


def pdist(x: Tensor, p: float = 2.0) -> Tensor:
    """Return the `p`-norms of the differences of all pairs of rows, ``(N * (N - 1) / 2,)``: 0 and 1, 0 and 2, ...

    Raises:
        ShapeError: No matrix.

    >>> zyx.nn.functional.pdist(zyx.Tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 8.0]])).tolist()
    [5.0, 8.0, 5.0]
    """
    shape = require(x, "pdist").node.shape
    if len(shape) != 2:
        raise ShapeError(f"pdist takes a matrix of rows, not {shape}")
    first, second = np.triu_indices(shape[0], 1)
    return norm(take(x, first, 0) - take(x, second, 0), p, -1)
