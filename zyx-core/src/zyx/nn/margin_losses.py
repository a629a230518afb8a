"""Losses as modules, beside those of `zyx.nn.losses`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zyx.dtype import float32
from zyx.functions import losses
from zyx.integers import as_index
from zyx.nn.distances import PairwiseDistance
from zyx.nn.functional import ctc, margins
from zyx.nn.linear import Linear
from zyx.nn.module import Module

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.dtype import DTypeLike
    from zyx.tensor.tensor import Tensor


class KLDivLoss(Module):
    """`zyx.nn.functional.kl_div`.

    Inputs are logarithms of probabilities; targets have the same shape.

    Raises:
        ShapeError: When called: the shapes differ, or `reduction` is none of "mean", "sum" and "none".

    >>> round(zyx.nn.KLDivLoss(reduction="sum")(zyx.log(zyx.Tensor([0.5, 0.5])), zyx.Tensor([1.0, 0.0])).item(), 4)
    0.6931
    """

    def __init__(self, reduction: str = "mean", log_target: bool = False) -> None:
        self.log_target, self.reduction = log_target, reduction

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        return losses.kl_div(x, target, log_target=self.log_target, reduction=self.reduction)


class MarginRankingLoss(Module):
    """`zyx.nn.functional.margin_ranking_loss`.

    Both inputs and the target are of one shape.

    Raises:
        ShapeError: When called: the shapes differ.

    >>> zyx.nn.MarginRankingLoss()(zyx.Tensor([1.0]), zyx.Tensor([3.0]), zyx.Tensor([1.0])).item()
    2.0
    """

    def __init__(self, margin: float = 0.0, reduction: str = "mean") -> None:
        self.margin, self.reduction = margin, reduction

    def forward(self, x: Tensor, y: Tensor, target: Tensor) -> Tensor:
        return margins.margin_ranking_loss(x, y, target, margin=self.margin, reduction=self.reduction)


class HingeEmbeddingLoss(Module):
    """`zyx.nn.functional.hinge_embedding_loss`.

    Inputs and targets are of one shape.

    Raises:
        ShapeError: When called: the shapes differ, or `reduction` is none of "mean", "sum" and "none".

    >>> zyx.nn.HingeEmbeddingLoss()(zyx.Tensor([0.5, 0.25]), zyx.Tensor([1.0, -1.0])).item()
    0.625
    """

    def __init__(self, margin: float = 1.0, reduction: str = "mean") -> None:
        self.margin, self.reduction = margin, reduction

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        return margins.hinge_embedding_loss(x, target, margin=self.margin, reduction=self.reduction)


class SoftMarginLoss(Module):
    """`zyx.nn.functional.soft_margin_loss`.

    Inputs and targets are of one shape.

    Raises:
        ShapeError: When called: the shapes differ, or `reduction` is none of "mean", "sum" and "none".

    >>> round(zyx.nn.SoftMarginLoss()(zyx.zeros(2), zyx.Tensor([1.0, -1.0])).item(), 4)
    0.6931
    """

    def __init__(self, reduction: str = "mean") -> None:
        self.reduction = reduction

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        return margins.soft_margin_loss(x, target, reduction=self.reduction)


class CosineEmbeddingLoss(Module):
    """`zyx.nn.functional.cosine_embedding_loss`.

    Inputs are ``(N, D)``, targets of shape ``(N,)``.

    Raises:
        ShapeError: When called: the shapes do not fit together.

    >>> zyx.nn.CosineEmbeddingLoss()(zyx.Tensor([[1.0, 0.0]]), zyx.Tensor([[0.0, 2.0]]), zyx.Tensor([1.0])).item()
    1.0
    """

    def __init__(self, margin: float = 0.0, reduction: str = "mean") -> None:
        self.margin, self.reduction = margin, reduction

    def forward(self, x: Tensor, y: Tensor, target: Tensor) -> Tensor:
        return margins.cosine_embedding_loss(x, y, target, margin=self.margin, reduction=self.reduction)


class MultiMarginLoss(Module):
    """`zyx.nn.functional.multi_margin_loss`.

    Inputs are ``(N, C)``, targets are classes, of shape ``(N,)``.

    Raises:
        ShapeError: When called: the shapes do not fit together.

    >>> zyx.nn.MultiMarginLoss()(zyx.Tensor([[0.5, 1.0]]), zyx.Tensor([1])).item()
    0.25
    """

    def __init__(self, p: int = 1, margin: float = 1.0, weight: Tensor | None = None, reduction: str = "mean") -> None:
        self.p, self.margin, self.weight, self.reduction = as_index(p, "p"), margin, weight, reduction

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        return margins.multi_margin_loss(
            x, target, p=self.p, margin=self.margin, weight=self.weight, reduction=self.reduction
        )


class MultiLabelMarginLoss(Module):
    """`zyx.nn.functional.multilabel_margin_loss`.

    Inputs and targets are ``(N, C)``: classes in front, and -1 after the last one; of one shape.

    Raises:
        ShapeError: When called: the shapes differ.

    >>> zyx.nn.MultiLabelMarginLoss()(zyx.Tensor([[0.5, 1.0]]), zyx.Tensor([[1, -1]])).item()
    0.25
    """

    def __init__(self, reduction: str = "mean") -> None:
        self.reduction = reduction

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        return margins.multilabel_margin_loss(x, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(Module):
    """`zyx.nn.functional.multilabel_soft_margin_loss`.

    Inputs and targets have the shape ``(N, C)``.

    Raises:
        ShapeError: When called: the shapes differ.

    >>> round(zyx.nn.MultiLabelSoftMarginLoss()(zyx.zeros(1, 2), zyx.Tensor([[1.0, 0.0]])).item(), 4)
    0.6931
    """

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean") -> None:
        self.weight, self.reduction = weight, reduction

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        return margins.multilabel_soft_margin_loss(x, target, weight=self.weight, reduction=self.reduction)


class PoissonNLLLoss(Module):
    """`zyx.nn.functional.poisson_nll_loss`.

    Inputs and targets are of one shape.

    Raises:
        ShapeError: When called: the shapes do not broadcast, or `reduction` is none of "mean", "sum" and "none".

    >>> zyx.nn.PoissonNLLLoss()(zyx.zeros(2), zyx.Tensor([1.0, 2.0])).item()
    1.0
    """

    def __init__(self, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: str = "mean") -> None:
        self.log_input, self.full, self.eps, self.reduction = log_input, full, eps, reduction

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        return margins.poisson_nll_loss(
            x, target, log_input=self.log_input, full=self.full, eps=self.eps, reduction=self.reduction
        )


class GaussianNLLLoss(Module):
    """`zyx.nn.functional.gaussian_nll_loss`.

    Inputs, targets and variances are of one shape.

    Raises:
        ShapeError: When called: the shapes do not fit together.

    >>> zyx.nn.GaussianNLLLoss()(zyx.zeros(2), zyx.ones(2), zyx.ones(2)).item()
    0.5
    """

    def __init__(self, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        self.full, self.eps, self.reduction = full, eps, reduction

    def forward(self, x: Tensor, target: Tensor, var: Tensor) -> Tensor:
        return margins.gaussian_nll_loss(x, target, var, full=self.full, eps=self.eps, reduction=self.reduction)


class TripletMarginLoss(Module):
    """`zyx.nn.functional.triplet_margin_loss`.

    Anchors, positives and negatives have the shape ``(N, D)``.

    Raises:
        ShapeError: When called: the shapes do not broadcast.

    >>> zyx.nn.TripletMarginLoss()(zyx.zeros(1, 2), zyx.zeros(1, 2), zyx.zeros(1, 2)).item()
    1.0
    """

    def __init__(
        self, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False, reduction: str = "mean"
    ) -> None:
        self.margin, self.p, self.eps, self.swap, self.reduction = margin, p, eps, swap, reduction

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return losses.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )


class TripletMarginWithDistanceLoss(Module):
    """`zyx.nn.functional.triplet_margin_with_distance_loss`.

    Anchors, positives and negatives have the shape ``(N, D)``.

    Raises:
        ShapeError: When called: the shapes do not broadcast.

    >>> far = zyx.nn.TripletMarginWithDistanceLoss(distance_function=lambda x, y: zyx.abs(x - y).sum(-1))
    >>> far(zyx.zeros(1, 2), zyx.zeros(1, 2), zyx.ones(1, 2)).item()
    0.0
    """

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        self.distance_function = PairwiseDistance() if distance_function is None else distance_function
        self.margin, self.swap, self.reduction = margin, swap, reduction

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return margins.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )


class CTCLoss(Module):
    """`zyx.nn.functional.ctc_loss`.

    Logarithms of probabilities are ``(T, N, C)``, targets of shape ``(N, S)``.

    Raises:
        DTypeError: When called: targets are no integers.

    >>> scores = zyx.log_softmax(zyx.zeros(4, 1, 3), -1)
    >>> round(zyx.nn.CTCLoss()(scores, zyx.Tensor([[1, 2]]), zyx.Tensor([4]), zyx.Tensor([2])).item(), 4)
    0.8432
    """

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        self.blank, self.reduction, self.zero_infinity = as_index(blank, "blank"), reduction, zero_infinity

    def forward(
        self,
        log_probs: Tensor,
        targets: Tensor,
        input_lengths: Tensor | Sequence[int],
        target_lengths: Tensor | Sequence[int],
    ) -> Tensor:
        return ctc.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity
        )


class LinearCrossEntropyLoss(Module):
    """`zyx.nn.functional.linear_cross_entropy` with a linear layer of its own, also of several numbers an example.

    Of `out_features` ``(d1, .., dk)`` the layer gives ``num_classes * d1 * .. * dk`` numbers for ``(N, in_features)``,
    which are the logits ``(N, num_classes, d1, .., dk)`` of targets ``(N, d1, .., dk)``.

    Raises:
        ShapeError: When called: the last axis of the input is not `in_features` long.

    >>> zyx.nn.LinearCrossEntropyLoss(3, 5)(zyx.ones(2, 3), zyx.Tensor([0, 4])).shape
    ()
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: Sequence[int] = (),
        bias: bool = False,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        dtype: DTypeLike = float32,
        device: str | None = None,
    ) -> None:
        self.num_classes = as_index(num_classes, "num_classes")
        self.out_features = tuple(as_index(size, "out_features") for size in out_features)
        self.linear = Linear(in_features, self.num_classes * math.prod(self.out_features), bias, dtype, device)
        self.reduction, self.weight, self.label_smoothing = reduction, weight, label_smoothing
        self.ignore_index = None if ignore_index is None else as_index(ignore_index, "ignore_index")

    def extra_repr(self) -> str:
        text = f"in_features={self.linear.in_features}, num_classes={self.num_classes}"
        text += f", out_features={self.out_features}, bias={self.linear.bias is not None}, reduction={self.reduction}"
        return f"{text}, ignore_index={self.ignore_index}, label_smoothing={self.label_smoothing}"

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        if not self.out_features:
            return margins.linear_cross_entropy(
                x,
                self.linear.weight,
                target,
                linear_bias=self.linear.bias,
                weight=self.weight,
                reduction=self.reduction,
                ignore_index=self.ignore_index,
                label_smoothing=self.label_smoothing,
            )
        logits = self.linear.forward(x).reshape((*x.shape[:-1], self.num_classes, *self.out_features))
        return losses.cross_entropy(
            logits,
            target,
            self.weight,
            ignore_index=-100 if self.ignore_index is None else self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )
