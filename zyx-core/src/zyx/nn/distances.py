"""How near vectors are, and channels among their neighbours, as modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.functions.linalg import cosine_similarity
from zyx.integers import as_given, as_index
from zyx.nn.functional.distances import pairwise_distance
from zyx.nn.functional.neighbours import local_response_norm
from zyx.nn.module import Module

if TYPE_CHECKING:
    from zyx.tensor.tensor import Tensor


class CosineSimilarity(Module):
    """`zyx.cosine_similarity`.

    Two inputs of one shape; the result lacks `axis`.

    Raises:
        ShapeError: When called: the shapes do not broadcast.

    >>> zyx.nn.CosineSimilarity()(zyx.Tensor([[1.0, 0.0]]), zyx.Tensor([[0.0, 2.0]])).tolist()
    [0.0]
    """

    def __init__(self, axis: int = 1, eps: float = 1e-8) -> None:
        self.axis: int = as_given(axis, "axis")
        self.eps = eps

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return cosine_similarity(x, y, self.axis, self.eps)


class PairwiseDistance(Module):
    """`zyx.nn.functional.pairwise_distance`.

    Two inputs of shape ``(N, D)`` give ``(N,)``, and ``(N, 1)`` with `keepdims`.

    Raises:
        ShapeError: When called: the shapes do not broadcast.

    >>> [round(v, 4) for v in zyx.nn.PairwiseDistance()(zyx.Tensor([[3.0, 0.0]]), zyx.Tensor([[0.0, 4.0]])).tolist()]
    [5.0]
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdims: bool = False) -> None:
        self.norm, self.eps, self.keepdims = p, eps, keepdims

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return pairwise_distance(x, y, self.norm, self.eps, self.keepdims)


class LocalResponseNorm(Module):
    """`zyx.nn.functional.local_response_norm`.

    From ``(N, C, ...)`` to the same shape.

    Raises:
        ShapeError: When called: fewer axes than three, or a `size` below 1.

    >>> zyx.nn.LocalResponseNorm(3)(zyx.ones(1, 4, 2, 2)).shape
    (1, 4, 2, 2)
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        self.size, self.alpha, self.beta, self.k = as_index(size, "size"), alpha, beta, k

    def forward(self, x: Tensor) -> Tensor:
        return local_response_norm(x, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
