"""Losses as modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.functions import losses
from zyx.integers import as_index
from zyx.nn.module import Module

if TYPE_CHECKING:
    from zyx.tensor.tensor import Tensor


class CrossEntropyLoss(Module):
    """`zyx.cross_entropy`.

    Scores are ``(N, C, ...)``, targets classes of shape ``(N, ...)``, or probabilities of the shape of the scores.

    Raises:
        ShapeError: When called: the shape of the target is not that of the scores without the classes.

    >>> f"{zyx.nn.CrossEntropyLoss()(zyx.zeros(2, 4), zyx.Tensor([1, 3])).item():.4f}"
    '1.3863'
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        self.weight, self.ignore_index = weight, as_index(ignore_index, "ignore_index")
        self.reduction, self.label_smoothing = reduction, label_smoothing

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        return losses.cross_entropy(
            x,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class NLLLoss(Module):
    """`zyx.nll_loss`.

    Logarithms of probabilities ``(N, C, ...)``, and classes of shape ``(N, ...)``.

    Raises:
        ShapeError: When called: the shape of the target is not that of the inputs without the classes.

    >>> zyx.nn.NLLLoss()(zyx.Tensor([[-0.5, -2.0], [-3.0, -0.25]]), zyx.Tensor([0, 1])).item()
    0.375
    """

    def __init__(self, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean") -> None:
        self.weight, self.ignore_index = weight, as_index(ignore_index, "ignore_index")
        self.reduction = reduction

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        return losses.nll_loss(x, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class MSELoss(Module):
    """`zyx.mse_loss`.

    Inputs and targets are of one shape.

    Raises:
        ShapeError: When called: the shapes differ, or `reduction` is none of "mean", "sum" and "none".

    >>> zyx.nn.MSELoss()(zyx.Tensor([1.0, 3.0]), zyx.Tensor([1.0, 1.0])).item()
    2.0
    """

    def __init__(self, reduction: str = "mean") -> None:
        self.reduction = reduction

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        return losses.mse_loss(x, target, self.reduction)


class L1Loss(Module):
    """`zyx.l1_loss`.

    Inputs and targets are of one shape.

    Raises:
        ShapeError: When called: the shapes differ, or `reduction` is none of "mean", "sum" and "none".

    >>> zyx.nn.L1Loss()(zyx.Tensor([1.0, 3.0]), zyx.Tensor([1.0, 1.0])).item()
    1.0
    """

    def __init__(self, reduction: str = "mean") -> None:
        self.reduction = reduction

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        return losses.l1_loss(x, target, self.reduction)


class HuberLoss(Module):
    """`zyx.huber_loss`.

    Inputs and targets are of one shape.

    Raises:
        ShapeError: When called: the shapes differ, or `reduction` is none of "mean", "sum" and "none".

    >>> zyx.nn.HuberLoss()(zyx.Tensor([0.0, 3.0]), zyx.zeros(2)).item()
    1.25
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        self.reduction, self.delta = reduction, delta

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        return losses.huber_loss(x, target, self.delta, self.reduction)


class SmoothL1Loss(Module):
    """`zyx.smooth_l1_loss`.

    Inputs and targets are of one shape.

    Raises:
        ShapeError: When called: the shapes differ, or `reduction` is none of "mean", "sum" and "none".

    >>> zyx.nn.SmoothL1Loss()(zyx.Tensor([0.0, 3.0]), zyx.zeros(2)).item()
    1.25
    """

    def __init__(self, reduction: str = "mean", beta: float = 1.0) -> None:
        self.reduction, self.beta = reduction, beta

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        return losses.smooth_l1_loss(x, target, self.beta, self.reduction)


class BCELoss(Module):
    """`zyx.binary_cross_entropy`.

    Inputs are probabilities, of the shape of the targets.

    Raises:
        ShapeError: When called: the shapes differ, or `reduction` is none of "mean", "sum" and "none".

    >>> round(zyx.nn.BCELoss()(zyx.Tensor([0.5, 0.5]), zyx.Tensor([0.0, 1.0])).item(), 4)
    0.6931
    """

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean") -> None:
        self.weight, self.reduction = weight, reduction

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        return losses.binary_cross_entropy(x, target, self.weight, self.reduction)


class BCEWithLogitsLoss(Module):
    """`zyx.binary_cross_entropy_with_logits`.

    Inputs and targets are of one shape.

    Raises:
        ShapeError: When called: the shapes differ, or `reduction` is none of "mean", "sum" and "none".

    >>> f"{zyx.nn.BCEWithLogitsLoss()(zyx.zeros(2), zyx.Tensor([0.0, 1.0])).item():.4f}"
    '0.6931'
    """

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean", pos_weight: Tensor | None = None) -> None:
        self.weight, self.reduction, self.pos_weight = weight, reduction, pos_weight

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        return losses.binary_cross_entropy_with_logits(x, target, self.weight, self.pos_weight, self.reduction)
