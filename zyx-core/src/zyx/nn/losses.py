"""Losses as modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.functions import losses
from zyx.integers import as_index
from zyx.nn.module import Module

if TYPE_CHECKING:
    from zyx.tensor.tensor import Tensor


class CrossEntropyLoss(Module):
    """`zyx.cross_entropy`."""

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
    """`zyx.nll_loss`."""

    def __init__(self, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean") -> None:
        self.weight, self.ignore_index = weight, as_index(ignore_index, "ignore_index")
        self.reduction = reduction

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        return losses.nll_loss(x, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class MSELoss(Module):
    """`zyx.mse_loss`."""

    def __init__(self, reduction: str = "mean") -> None:
        self.reduction = reduction

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        return losses.mse_loss(x, target, self.reduction)


class L1Loss(Module):
    """`zyx.l1_loss`."""

    def __init__(self, reduction: str = "mean") -> None:
        self.reduction = reduction

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        return losses.l1_loss(x, target, self.reduction)


class HuberLoss(Module):
    """`zyx.huber_loss`."""

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        self.reduction, self.delta = reduction, delta

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        return losses.huber_loss(x, target, self.delta, self.reduction)


class SmoothL1Loss(Module):
    """`zyx.smooth_l1_loss`."""

    def __init__(self, reduction: str = "mean", beta: float = 1.0) -> None:
        self.reduction, self.beta = reduction, beta

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        return losses.smooth_l1_loss(x, target, self.beta, self.reduction)


class BCELoss(Module):
    """`zyx.binary_cross_entropy`."""

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean") -> None:
        self.weight, self.reduction = weight, reduction

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        return losses.binary_cross_entropy(x, target, self.weight, self.reduction)


class BCEWithLogitsLoss(Module):
    """`zyx.binary_cross_entropy_with_logits`."""

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean", pos_weight: Tensor | None = None) -> None:
        self.weight, self.reduction, self.pos_weight = weight, reduction, pos_weight

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        return losses.binary_cross_entropy_with_logits(x, target, self.weight, self.pos_weight, self.reduction)
