"""Rows of a table by number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.errors import DTypeError, ShapeError
from zyx.functions.choosing import where
from zyx.functions.operands import require
from zyx.functions.selection import take
from zyx.integers import as_index
from zyx.quantize import QuantizedTensor
from zyx.quantize import take as packed_rows

if TYPE_CHECKING:
    from zyx.tensor.tensor import Tensor


def embedding(indices: Tensor, weight: Tensor | QuantizedTensor, padding_idx: int | None = None) -> Tensor:
    """Return the rows of `weight` that `indices` name.

    Args:
        indices: Integers of any shape, 0 to n - 1, or from -n on counted from the end. Others give zeros.
        weight: ``(n, width)``; packed ones are constants, and give float32.
        padding_idx: The number of a row that gets no gradient.

    Returns:
        ``(*indices.shape, width)``.

    Raises:
        DTypeError: `indices` are no integers.
        ShapeError: `weight` is no matrix, or `padding_idx` no row of it.

    >>> zyx.nn.functional.embedding(zyx.Tensor([1, 0]), zyx.Tensor([[1.0], [2.0]])).tolist()
    [[2.0], [1.0]]
    """
    table = weight.shape if isinstance(weight, QuantizedTensor) else require(weight, "embedding").node.shape
    dtype = require(indices, "embedding").node.dtype
    if not dtype.is_integer:
        raise DTypeError(f"embedding: indices are integers, not {dtype}")
    if len(table) != 2:
        raise ShapeError(f"embedding: weights have shape (n, width), not {table}")
    rows = packed_rows(weight, indices) if isinstance(weight, QuantizedTensor) else take(weight, indices, axis=0)
    if padding_idx is None:
        return rows
    padding_idx = as_index(padding_idx, "padding_idx")
    if not -table[0] <= padding_idx < table[0]:
        raise ShapeError(f"embedding: padding_idx {padding_idx} is no row of weights {table}")
    from_start = padding_idx % table[0]
    is_padding = (indices == from_start).logical_or(indices == from_start - table[0])
    return where(is_padding.expand_dims(-1), rows.detach(), rows)
