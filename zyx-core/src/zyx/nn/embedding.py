"""Tables of rows that are looked up by number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zyx.dtype import float32
from zyx.errors import ShapeError
from zyx.integers import as_index
from zyx.nn import initial
from zyx.nn.functional.bags import embedding_bag
from zyx.nn.functional.embedding import embedding
from zyx.nn.module import Module
from zyx.nn.parameter import Parameter
from zyx.tensor.random import normal

if TYPE_CHECKING:
    from zyx.dtype import DTypeLike
    from zyx.tensor.tensor import Tensor


class Embedding(Module):
    """Row ``indices[i]`` of a table of `num_embeddings` rows: indices of any shape to ``(*shape, embedding_dim)``.

    The rows begin normally distributed. Row `padding_idx`, if there is one, begins as 0 and gets no gradient.

    Raises:
        ShapeError: `padding_idx` is no row.
        DTypeError: When called: indices are no integers.

    >>> zyx.nn.Embedding(10, 4)(zyx.Tensor([[1, 2, 3]])).shape
    (1, 3, 4)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        dtype: DTypeLike = float32,
        device: str | None = None,
    ) -> None:
        """Make the table.

        Raises:
            ShapeError: `padding_idx` is no row.
        """
        num_embeddings = as_index(num_embeddings, "num_embeddings")
        embedding_dim = as_index(embedding_dim, "embedding_dim")
        padding_idx = None if padding_idx is None else as_index(padding_idx, "padding_idx")
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ShapeError(f"padding_idx {padding_idx} is no row of {num_embeddings}")
        self.padding_idx = padding_idx
        if padding_idx is None:
            self.weight = initial.gaussian(1.0, (num_embeddings, embedding_dim), dtype, device)
        else:
            rows = normal((num_embeddings, embedding_dim), dtype=dtype, device=device)
            is_kept = np.ones((num_embeddings, 1), rows.dtype.numpy)
            is_kept[padding_idx] = 0
            self.weight = Parameter(rows * is_kept)

    def forward(self, indices: Tensor) -> Tensor:
        return embedding(indices, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.weight.shape[0]}, {self.weight.shape[1]}{padding}"


class EmbeddingBag(Module):
    """The sum, mean or greatest elements of the rows of bags; see `zyx.nn.functional.embedding_bag`.

    The rows begin normally distributed. Row `padding_idx`, if there is one, begins as 0, counts as absent and gets no
    gradient.

    Raises:
        ShapeError: When called: indices of one axis without offsets.

    >>> zyx.nn.EmbeddingBag(10, 4)(zyx.Tensor([[1, 2], [3, 4]])).shape
    (2, 4)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        mode: str = "mean",
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        dtype: DTypeLike = float32,
        device: str | None = None,
    ) -> None:
        """Make the table.

        Raises:
            ShapeError: `padding_idx` is no row.
        """
        table = Embedding(num_embeddings, embedding_dim, padding_idx, dtype, device)
        self.weight, self.padding_idx = table.weight, table.padding_idx
        self.mode, self.include_last_offset = mode, include_last_offset

    def forward(
        self, indices: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        return embedding_bag(
            indices, self.weight, offsets, self.mode, per_sample_weights, self.include_last_offset, self.padding_idx
        )

    def extra_repr(self) -> str:
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.weight.shape[0]}, {self.weight.shape[1]}, mode={self.mode!r}{padding}"
