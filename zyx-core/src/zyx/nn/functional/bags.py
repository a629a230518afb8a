"""Rows of a table by number, combined in bags."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zyx.errors import DTypeError, ShapeError
from zyx.functions.choosing import where
from zyx.functions.movement import broadcast_to
from zyx.functions.operands import require
from zyx.functions.selection import scatter_add, scatter_reduce
from zyx.functions.sorting import searchsorted
from zyx.nn.functional.embedding import embedding
from zyx.tensor.creation import arange, full, ones, zeros

if TYPE_CHECKING:
    from zyx.tensor.tensor import Tensor


def embedding_bag(
    indices: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    mode: str = "mean",
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Return the sum, the mean or the greatest elements of the rows of each bag; 0 of an empty one.

    Args:
        indices: Integers, ``(bags, length)``, or all bags in a row, ``(n,)``.
        weight: ``(rows, width)``.
        offsets: Where each bag begins, of bags in a row; the first is 0.
        mode: "sum", "mean" or "max".
        per_sample_weights: What each row is multiplied by, of the shape of `indices`; with "sum" only.
        include_last_offset: Whether the last of `offsets` is the end of the last bag.
        padding_idx: Rows of this number count as absent, and get no gradient.

    Returns:
        ``(bags, width)``.

    Raises:
        ShapeError: Shapes that do not fit, or an unknown mode.
        DTypeError: Indices that are no integers.

    >>> weight = zyx.Tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> zyx.nn.functional.embedding_bag(zyx.Tensor([[0, 2]]), weight, mode="sum").tolist()
    [[6.0, 8.0]]
    """
    shape = require(indices, "embedding_bag").node.shape
    if mode not in ("sum", "mean", "max"):
        raise ShapeError(f'embedding_bag: mode is "sum", "mean" or "max", not {mode!r}')
    if len(shape) not in (1, 2) or (len(shape) == 1) != (offsets is not None):
        raise ShapeError(f"embedding_bag: indices {shape} are (bags, length), or (n,) with offsets")
    if not indices.dtype.is_integer:
        raise DTypeError(f"embedding_bag: indices are integers, not {indices.dtype}")
    if per_sample_weights is not None and (mode != "sum" or per_sample_weights.shape != shape):
        raise ShapeError(f'embedding_bag: per_sample_weights are of mode "sum" and of shape {shape}')
    rows = embedding(indices, weight, padding_idx)
    rows = rows if per_sample_weights is None else rows * per_sample_weights.expand_dims(-1)
    counts = ones(*shape, dtype=rows.dtype, device=rows.device)
    if padding_idx is not None:
        counts = where(indices == padding_idx % weight.shape[0], 0.0, counts).astype(rows.dtype)
    if offsets is None:
        return _of_rows(rows, counts, mode)
    if offsets.ndim != 1:
        raise ShapeError(f"embedding_bag: offsets are (bags,), not {offsets.shape}")
    bags = offsets.shape[0] - bool(include_last_offset)
    places = arange(shape[0], dtype=offsets.dtype, device=rows.device)
    bag = (searchsorted(offsets[:bags], places, side="right") - 1).astype("int64")
    return _in_a_row(rows, counts, bag, bags, mode)


def _of_rows(rows: Tensor, counts: Tensor, mode: str) -> Tensor:
    """Return bags ``(bags, width)`` of ``(bags, length, width)``."""
    there = counts.expand_dims(-1)
    if mode == "max":
        found = where(there > 0, rows, -math.inf).max(1) if rows.shape[1] else rows.sum(1)
        return where(there.sum(1) > 0, found, 0.0)
    total = (rows * there).sum(1)
    return total if mode == "sum" else total / there.sum(1).clip(min=1.0)


def _in_a_row(rows: Tensor, counts: Tensor, bag: Tensor, bags: int, mode: str) -> Tensor:
    """Return bags ``(bags, width)`` of ``(n, width)``, `bag` being that of each row."""
    width = rows.shape[-1]
    places = broadcast_to(bag.expand_dims(-1), rows.shape)
    there = counts.expand_dims(-1)
    empty = zeros(bags, width, dtype=rows.dtype, device=rows.device)
    size = scatter_add(zeros(bags, dtype=rows.dtype, device=rows.device), 0, bag, counts).expand_dims(-1)
    if mode == "max":
        low = full((bags, width), -math.inf, dtype=rows.dtype, device=rows.device)
        found = scatter_reduce(low, 0, places, where(there > 0, rows, -math.inf), "amax")
        return where(size > 0, found, 0.0)
    total = scatter_add(empty, 0, places, rows * there)
    return total if mode == "sum" else total / size.clip(min=1.0)
