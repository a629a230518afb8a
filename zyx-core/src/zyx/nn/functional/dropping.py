"""Dropout of whole channels, and dropout that keeps mean and variance."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zyx.errors import DTypeError, ShapeError
from zyx.functions.choosing import where
from zyx.functions.operands import require
from zyx.tensor.creation import ones
from zyx.tensor.random import dropout, rand

if TYPE_CHECKING:
    from zyx.tensor.tensor import Tensor

#: What SELU gives for inputs far below 0: its scale times its alpha, negated.
_LOW = -1.0507009873554805 * 1.6732632423543772


def _channels(x: Tensor, p: float, training: bool, count: int) -> Tensor:
    what = f"dropout{count}d"
    node = require(x, what).node
    if node.ndim not in (count + 1, count + 2):
        raise ShapeError(f"{what} takes (N, C, ...) or (C, ...) with {count} axes behind channels, not {node.shape}")
    front = node.ndim - count
    kept = ones(*node.shape[:front], *[1] * count, dtype=node.dtype, device=node.device)
    dropped = dropout(kept, p, training)
    return x if dropped is kept else x * dropped


def dropout1d(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Return `x` with whole channels 0 with probability `p` in training, and the others times ``1 / (1 - p)``.

    Channels have one axis: `x` is ``(N, C, L)`` or ``(C, L)``. Tompson et al., "Efficient object localization using
    convolutional networks", 2014.

    Raises:
        ShapeError: `p` is not 0 to 1, or another rank.

    >>> zyx.nn.functional.dropout1d(zyx.ones(1, 2, 3), 0.5, training=False).shape
    (1, 2, 3)
    """
    return _channels(x, p, training, 1)


def dropout2d(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Return `dropout1d` of channels of two axes.

    Raises:
        ShapeError: `p` is not from 0 to 1, or `x` has no 2 axes behind its channels.

    >>> zyx.nn.functional.dropout2d(zyx.ones(1, 2, 3, 3), 1.0).sum().item()
    0.0
    """
    return _channels(x, p, training, 2)


def dropout3d(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Return `dropout1d` of channels of three axes.

    Raises:
        ShapeError: `p` is not from 0 to 1, or `x` has no 3 axes behind its channels.

    >>> zyx.nn.functional.dropout3d(zyx.ones(1, 2, 3, 3, 3), 1.0).sum().item()
    0.0
    """
    return _channels(x, p, training, 3)


def alpha_dropout(x: Tensor, p: float = 0.5, training: bool = False) -> Tensor:
    """Return `x` with elements at what SELU saturates to with probability `p`, moved and scaled to mean 0, variance 1.

    Klambauer et al., "Self-normalizing neural networks", 2017.

    Raises:
        ShapeError: `p` is not 0 to 1.
        DTypeError: `x` is not of floats.

    >>> zyx.nn.functional.alpha_dropout(zyx.ones(2), 0.5, training=False).tolist()
    [1.0, 1.0]
    """
    return _alpha(x, p, training, require(x, "alpha_dropout").node.shape)


def feature_alpha_dropout(x: Tensor, p: float = 0.5, training: bool = False) -> Tensor:
    """Return `alpha_dropout` of whole channels of ``(N, C, ...)``.

    Raises:
        ShapeError: `p` is not 0 to 1, or fewer than two axes.
        DTypeError: `x` is not of floats.

    >>> zyx.nn.functional.feature_alpha_dropout(zyx.ones(1, 2, 2), 0.5, training=False).tolist()
    [[[1.0, 1.0], [1.0, 1.0]]]
    """
    shape = require(x, "feature_alpha_dropout").node.shape
    if len(shape) < 2:
        raise ShapeError(f"feature_alpha_dropout takes (N, C, ...), not {shape}")
    return _alpha(x, p, training, (*shape[:2], *[1] * (len(shape) - 2)))


def _alpha(x: Tensor, p: float, training: bool, shape: tuple[int, ...]) -> Tensor:
    if not 0.0 <= p <= 1.0:
        raise ShapeError(f"dropout: p is 0 to 1, not {p}")
    if not x.dtype.is_float:
        raise DTypeError(f"dropout takes floats, not {x.dtype}")
    if not training or p == 0.0:
        return x
    if p == 1.0:
        return x * 0.0
    scale = 1.0 / math.sqrt((1.0 - p) * (1.0 + p * _LOW * _LOW))
    kept = rand(shape, device=x.device) >= p
    return (where(kept, x, _LOW) * scale - scale * p * _LOW).astype(x.dtype)
