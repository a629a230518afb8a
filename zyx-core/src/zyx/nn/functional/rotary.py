"""Positions as rotations. Su et al., "RoFormer: enhanced transformer with rotary position embedding", 2021."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zyx.dtype import as_dtype, float32
from zyx.errors import ShapeError
from zyx.functions.joining import concat
from zyx.functions.operands import require
from zyx.integers import as_index
from zyx.tensor.tensor import Tensor

if TYPE_CHECKING:
    from zyx.dtype import DTypeLike


def rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate pairs of elements by angles that depend on the place.

    Element i of the first half and element i of the second half, a and b, become ``a * cos - b * sin`` and
    ``a * sin + b * cos``.

    Args:
        x: ``(..., length, width)``, of an even width.
        cos: ``(length, width / 2)``, or anything that broadcasts with half of `x`.
        sin: Likewise.

    Raises:
        ShapeError: An odd width, or shapes that do not broadcast.

    >>> cos, sin = zyx.nn.functional.rope_tables(5, 4)
    >>> zyx.nn.functional.rope(zyx.ones(2, 5, 4), cos, sin).shape
    (2, 5, 4)
    """
    shape = require(x, "rope").node.shape
    if len(shape) < 2 or shape[-1] % 2:
        raise ShapeError(f"rope takes (..., length, width) of an even width, not {shape}")
    half = shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return concat([a * cos - b * sin, a * sin + b * cos], axis=-1)


def rope_tables(
    length: int, width: int, base: float = 10000.0, dtype: DTypeLike = float32, device: str | None = None
) -> tuple[Tensor, Tensor]:
    """Return (cos, sin) for `rope`, ``(length, width / 2)``: of place p and pair i of ``p / base ** (2 * i / width)``.

    Raises:
        ShapeError: An odd width.

    >>> [table.shape for table in zyx.nn.functional.rope_tables(5, 4)]
    [(5, 2), (5, 2)]
    """
    length, width = as_index(length, "length"), as_index(width, "width")
    if width % 2:
        raise ShapeError(f"rope turns pairs of elements; a width of {width} is odd")
    angles = np.arange(length)[:, None] / base ** (np.arange(0, width, 2) / max(width, 1))
    kind = as_dtype(dtype).numpy
    return Tensor(np.cos(angles).astype(kind), device=device), Tensor(np.sin(angles).astype(kind), device=device)
