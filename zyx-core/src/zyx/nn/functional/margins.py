"""Losses beside those of `zyx.functions.losses`, whose rules they follow; PyTorch's, with `reduction` last."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zyx import shape as shapes
from zyx.errors import DTypeError, ShapeError
from zyx.functions import formulas
from zyx.functions.activations import logsigmoid, relu
from zyx.functions.arithmetic import maximum, minimum
from zyx.functions.choosing import where
from zyx.functions.losses import check_reduction, cross_entropy, elementwise
from zyx.functions.operands import require
from zyx.functions.reduction import mean as mean_of
from zyx.functions.reduction import sum as sum_of
from zyx.functions.selection import one_hot
from zyx.functions.transcendental import exp, log
from zyx.integers import as_index
from zyx.nn.functional.distances import pairwise_distance
from zyx.nn.functional.linear import linear

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.functions.term import Term
    from zyx.tensor.tensor import Tensor


def reduced(loss: Tensor, reduction: str) -> Tensor:
    """Return the mean or the sum of `loss`, or itself.

    Raises:
        ShapeError: An unknown reduction.
    """
    check_reduction(reduction)
    return loss if reduction == "none" else mean_of(loss) if reduction == "mean" else sum_of(loss)


def margin_ranking_loss(x: Tensor, y: Tensor, target: Tensor, margin: float = 0.0, reduction: str = "mean") -> Tensor:
    """Return ``max(-target * (x - y) + margin, 0)``, reduced: a target of 1 wants `x` greater, of -1 `y`.

    Raises:
        ShapeError: Shapes of `x` and `y` that differ, or an unknown reduction.

    >>> zyx.nn.functional.margin_ranking_loss(zyx.Tensor([1.0]), zyx.Tensor([3.0]), zyx.Tensor([1.0])).item()
    2.0
    """

    def formula(a: Term, b: Term, t: Term) -> Term:
        return (margin - t * (a - b)).maximum(0.0)

    return elementwise((x, y, target), "margin_ranking_loss", reduction, formula)


def hinge_embedding_loss(x: Tensor, target: Tensor, margin: float = 1.0, reduction: str = "mean") -> Tensor:
    """Return `x` where the target is 1, and ``max(margin - x, 0)`` where it is -1, reduced; `x` are distances.

    Raises:
        ShapeError: Different shapes, or an unknown reduction.

    >>> zyx.nn.functional.hinge_embedding_loss(zyx.Tensor([0.5, 0.25]), zyx.Tensor([1.0, -1.0])).item()
    0.625
    """

    def formula(a: Term, t: Term) -> Term:
        return (t != 1.0).where((margin - a).maximum(0.0), 0.0) + (t != -1.0).where(a, 0.0)

    return elementwise((x, target), "hinge_embedding_loss", reduction, formula)


def soft_margin_loss(x: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """Return ``log(1 + exp(-target * x))``, reduced; targets are 1 and -1.

    Raises:
        ShapeError: Different shapes, or an unknown reduction.

    >>> round(zyx.nn.functional.soft_margin_loss(zyx.zeros(2), zyx.Tensor([1.0, -1.0])).item(), 4)
    0.6931
    """
    return elementwise((x, target), "soft_margin_loss", reduction, lambda a, t: formulas.softplus(-t * a))


def cosine_embedding_loss(x: Tensor, y: Tensor, target: Tensor, margin: float = 0.0, reduction: str = "mean") -> Tensor:
    """Return ``1 - cos`` of `x` and `y` where the target is 1, and ``max(cos - margin, 0)`` where it is -1, reduced.

    Args:
        x: ``(N, D)`` or ``(D,)``.
        y: Of the same shape.
        target: ``(N,)`` or ``()``.
        margin: -1 to 1.
        reduction: See `zyx.functions.losses`.

    Raises:
        ShapeError: Shapes that do not fit, or an unknown reduction.

    >>> x, y = zyx.Tensor([[1.0, 0.0]]), zyx.Tensor([[0.0, 2.0]])
    >>> zyx.nn.functional.cosine_embedding_loss(x, y, zyx.Tensor([1.0])).item()
    1.0
    """
    shapes_of = [require(t, "cosine_embedding_loss").node.shape for t in (x, y, target)]
    if shapes_of[0] != shapes_of[1] or not shapes_of[0] or shapes_of[2] != shapes_of[0][:-1]:
        raise ShapeError(f"cosine_embedding_loss: vectors {shapes_of[0]} and {shapes_of[1]} for targets {shapes_of[2]}")
    lengths = [(t * t).sum(-1) + 1e-12 for t in (x, y)]
    cosine = (x * y).sum(-1) / (lengths[0] * lengths[1]).sqrt()
    return reduced(where(target == 1, 1.0 - cosine, where(target == -1, relu(cosine - margin), 0.0)), reduction)


def multi_margin_loss(
    x: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the mean over classes of ``max(margin - x[target] + x[class], 0) ** p``, but for the target, reduced.

    Args:
        x: Scores ``(N, C)`` or ``(C,)``.
        target: Classes ``(N,)`` or ``()``.
        p: 1 or 2.
        margin: How much greater the target's score ought to be.
        weight: Of the target class, ``(C,)``.
        reduction: See `zyx.functions.losses`.

    Raises:
        ShapeError: Shapes that do not fit, another `p`, or an unknown reduction.

    >>> zyx.nn.functional.multi_margin_loss(zyx.Tensor([[0.5, 1.0]]), zyx.Tensor([1])).item()
    0.25
    """
    p = as_index(p, "p")
    if p not in (1, 2):
        raise ShapeError(f"multi_margin_loss: p is 1 or 2, not {p}")
    hits = _hits(x, target, "multi_margin_loss")
    own = sum_of(where(hits, x, 0.0), -1, keepdims=True)
    short = relu(margin - own + x)
    short = short * short if p == 2 else short
    if weight is not None:
        short = short * sum_of(where(hits, weight, 0.0), -1, keepdims=True)
    return reduced(mean_of(where(hits, 0.0, short), -1), reduction)


def _hits(x: Tensor, target: Tensor, what: str) -> Tensor:
    """Return where classes are the target."""
    scores, classes = require(x, what).node, require(target, what).node
    if scores.ndim not in (1, 2) or classes.shape != scores.shape[:-1] or not classes.dtype.is_integer:
        raise ShapeError(
            f"{what} takes scores (N, C) or (C,) and integers without the last axis, not {scores.shape} and "
            f"{classes.dtype} {classes.shape}"
        )
    return one_hot(target, scores.shape[-1]) == 1


def multilabel_margin_loss(x: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """Return the sum over targets and other classes of ``max(1 - x[target] + x[other], 0)``, over C, reduced.

    Args:
        x: Scores ``(N, C)`` or ``(C,)``.
        target: Integers of that shape: the classes of each example, then -1, behind which nothing counts.
        reduction: See `zyx.functions.losses`.

    Raises:
        ShapeError: Different shapes, or an unknown reduction.

    >>> zyx.nn.functional.multilabel_margin_loss(zyx.Tensor([[0.5, 1.0]]), zyx.Tensor([[1, -1]])).item()
    0.25
    """
    scores, classes = require(x, "multilabel_margin_loss").node, require(target, "multilabel_margin_loss").node
    if scores.ndim not in (1, 2) or classes.shape != scores.shape:
        raise ShapeError(f"multilabel_margin_loss: scores {scores.shape} for targets {classes.shape}")
    if not classes.dtype.is_integer:
        raise DTypeError(f"multilabel_margin_loss: targets are integers, not {classes.dtype}")
    count = scores.shape[-1]
    counts = (target < 0).astype("int32").cumsum(-1) == 0
    hits = (one_hot(where(counts, target, 0), count) == 1).logical_and(counts.expand_dims(-1))  # (N, target, class)
    own = sum_of(where(hits, x.expand_dims(-2), 0.0), -1, keepdims=True)
    short = relu(1.0 - own + x.expand_dims(-2))
    others = hits.any(-2, keepdims=True).logical_not().logical_and(counts.expand_dims(-1))
    return reduced(sum_of(where(others, short, 0.0), (-2, -1)) / count, reduction)


def multilabel_soft_margin_loss(
    x: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """Return the binary cross entropy of ``sigmoid(x)``, its mean over the last axis, reduced.

    Args:
        x: Logits ``(..., C)``.
        target: 0 and 1, of the same shape.
        weight: Of classes, ``(C,)``.
        reduction: See `zyx.functions.losses`.

    Raises:
        ShapeError: Different shapes, or an unknown reduction.

    >>> round(zyx.nn.functional.multilabel_soft_margin_loss(zyx.zeros(1, 2), zyx.Tensor([[1.0, 0.0]])).item(), 4)
    0.6931
    """
    given = [require(t, "multilabel_soft_margin_loss").node.shape for t in (x, target)]
    if given[0] != given[1]:
        raise ShapeError(f"multilabel_soft_margin_loss: logits {given[0]} for targets {given[1]}")
    loss = -(target * logsigmoid(x) + (1 - target) * logsigmoid(-x))
    return reduced(mean_of(loss if weight is None else loss * weight, -1), reduction)


def poisson_nll_loss(
    x: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Tensor:
    """Return minus the logarithm of the probability of counts, without ``log(target!)``, reduced.

    `x` and `target` are of one shape.

    Args:
        x: Expected counts, or their logarithms if `log_input`.
        target: Counts.
        log_input: See `x`.
        full: Whether Stirling's approximation of ``log(target!)`` is added where the count is above 1.
        eps: Added to expected counts, whose logarithm is taken.
        reduction: See `zyx.functions.losses`.

    Raises:
        ShapeError: An unknown reduction.

    >>> zyx.nn.functional.poisson_nll_loss(zyx.zeros(2), zyx.Tensor([1.0, 2.0])).item()
    1.0
    """
    loss = exp(x) - target * x if log_input else x - target * log(x + eps)
    if full:
        many = maximum(target, 1)
        stirling = target * log(many) - target + 0.5 * log(many * (2.0 * math.pi))
        loss = loss + where(target > 1, stirling, 0.0)
    return reduced(loss, reduction)


def gaussian_nll_loss(
    x: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """Return minus the logarithm of the density of normal distributions, reduced.

    Nix and Weigend, "Estimating the mean and variance of the target probability distribution", 1994.

    Args:
        x: Their means.
        target: Where the density is taken.
        var: Their variances: of the shape of `x`, with a last axis of 1 or without it, or a number. What is below
            `eps` counts as `eps`, but gradients pass.
        full: Whether ``log(2 * pi) / 2`` is added.
        eps: See `var`.
        reduction: See `zyx.functions.losses`.

    Raises:
        ShapeError: Shapes that do not fit, `eps` not above 0, or an unknown reduction.

    >>> zyx.nn.functional.gaussian_nll_loss(zyx.zeros(2), zyx.ones(2), zyx.ones(2)).item()
    0.5
    """
    if not eps > 0.0:
        raise ShapeError(f"gaussian_nll_loss: eps is above 0, not {eps}")
    shape = require(x, "gaussian_nll_loss").node.shape
    if isinstance(var, int | float):
        spread = x * 0.0 + var
    else:
        spread = require(var, "gaussian_nll_loss")
        if spread.shape == shape[:-1] and spread.shape != shape:
            spread = spread.expand_dims(-1)
        if shapes.broadcast(spread.shape, shape) != shape:
            raise ShapeError(f"gaussian_nll_loss: variances {spread.shape} for means {shape}")
    spread = spread + (maximum(spread, eps) - spread).detach()
    apart = x - target
    loss = 0.5 * (log(spread) + apart * apart / spread)
    return reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """Return `triplet_margin_loss` with distances that a function of two tensors gives; None is `pairwise_distance`.

    `anchor`, `positive` and `negative` are of one shape; the distances lack its last axis.

    Raises:
        ShapeError: `margin` is not above 0, or an unknown reduction.

    >>> x, far = zyx.zeros(1, 2), lambda x, y: zyx.abs(x - y).sum(-1)
    >>> zyx.nn.functional.triplet_margin_with_distance_loss(x, x, x + 1, distance_function=far).item()
    0.0
    """
    if not margin > 0.0:
        raise ShapeError(f"triplet_margin_with_distance_loss: margin is above 0, not {margin}")
    distance = pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    far = minimum(far, distance(positive, negative)) if swap else far
    return reduced(relu(near - far + margin), reduction)


def linear_cross_entropy(
    x: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
) -> Tensor:
    """Return `cross_entropy` of ``linear(x, linear_weight, linear_bias)``.

    Args:
        x: ``(..., width)``.
        linear_weight: ``(C, width)``.
        target: Classes, or probabilities of them; see `cross_entropy`.
        linear_bias: ``(C,)``.
        weight: Of each class.
        reduction: See `zyx.functions.losses`.
        ignore_index: Examples of this class count as absent; None is -100.
        label_smoothing: See `cross_entropy`.

    Raises:
        ShapeError: Shapes that do not fit, or an unknown reduction.

    >>> x, weight = zyx.zeros(2, 3), zyx.ones(4, 3)
    >>> round(zyx.nn.functional.linear_cross_entropy(x, weight, zyx.Tensor([0, 3])).item(), 4)
    1.3863
    """
    return cross_entropy(
        linear(x, linear_weight, linear_bias),
        target,
        weight,
        ignore_index=-100 if ignore_index is None else ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )
