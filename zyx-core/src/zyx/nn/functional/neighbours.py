"""Normalisation of channels by their neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.errors import ShapeError
from zyx.functions.joining import pad
from zyx.functions.movement import moveaxis, windows
from zyx.functions.operands import require
from zyx.integers import as_index

if TYPE_CHECKING:
    from zyx.tensor.tensor import Tensor


def local_response_norm(x: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """Return ``x / (k + alpha * mean) ** beta``, the mean being of the squares of `size` channels around each.

    Channels beyond the first and the last count as 0. Krizhevsky, Sutskever and Hinton, "ImageNet classification with
    deep convolutional neural networks", 2012.

    Args:
        x: ``(N, C, ...)``.
        size: How many channels; of an even number one more lies before.
        alpha: See above.
        beta: See above.
        k: See above.

    Raises:
        ShapeError: Fewer than three axes, or `size` below 1.

    >>> zyx.nn.functional.local_response_norm(zyx.ones(1, 4, 2), 3).shape
    (1, 4, 2)
    """
    shape, size = require(x, "local_response_norm").node.shape, as_index(size, "size")
    if len(shape) < 3 or size < 1:
        raise ShapeError(
            f"local_response_norm takes (N, C, ...) of at least three axes and a size from 1 on, not {shape} and {size}"
        )
    squares = pad(moveaxis(x * x, 1, -1), [(0, 0)] * (len(shape) - 1) + [(size // 2, (size - 1) // 2)])
    mean = moveaxis(windows(squares, (size,)).mean(-1), -1, 1)
    return x / (mean * alpha + k) ** beta
