"""Losses: how far predictions are from targets.

Each takes ``reduction``: "mean" and "sum" give one number, "none" one for each element or example. Integers are
computed as float32, float16 and bfloat16 in float32 with one rounding at the end. Logarithms and exponentials are
shifted or combined so that large inputs neither overflow nor turn into NaN.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

from zyx import dtype as dtypes
from zyx import shape as shapes
from zyx.errors import DTypeError, ShapeError
from zyx.functions import formulas, take_habits
from zyx.functions.operands import align, float_dtype, kept, require, term_of, wrap
from zyx.integers import as_integer

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.dtype import DType
    from zyx.functions import Tensor
    from zyx.functions.operands import Operand
    from zyx.functions.term import Term

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "huber_loss", "kl_div", "l1_loss",
    "mse_loss", "nll_loss", "smooth_l1_loss", "triplet_margin_loss",
]  # fmt: skip

Reduction: TypeAlias = str


def _check_width(width: object, name: str, what: str) -> None:
    """Check a number of which PyTorch's functions have the reduction in its place."""
    if not isinstance(width, int | float):
        raise DTypeError(f"{what}: {name} is a number, not {width!r}; give the reduction by name, reduction=...")


def check_reduction(reduction: str) -> None:
    """Raise `ShapeError` unless `reduction` is "mean", "sum" or "none"."""
    if reduction not in ("mean", "sum", "none"):
        raise ShapeError(f'reduction is "mean", "sum" or "none", not {reduction!r}')


def reduced(loss: Term, reduction: str) -> Term:
    check_reduction(reduction)
    if reduction == "none":
        return loss
    axes = range(len(loss.shape))
    total = loss.sum(axes).reshape(())
    return total if reduction == "sum" else total / shapes.as_float(shapes.size_of(loss.shape))


def elementwise(
    operands: tuple[Operand, ...], what: str, reduction: str, formula: Callable[..., Term], *, same_shape: bool = True
) -> Tensor:
    like, terms = align(operands, what, floating=True)
    if same_shape:
        given = {require(x, what).node.shape for x in operands[:2]}
        if len(given) > 1:
            raise ShapeError(f"{what}: prediction and target have shapes {' and '.join(map(str, sorted(given)))}")
    dtype = kept(terms[0].dtype)
    wide = dtypes.accumulator(dtype)
    return wrap(reduced(formula(*(term.cast(wide) for term in terms)), reduction).cast(dtype).node, like)


def mse_loss(x: Tensor, target: Tensor, reduction: Reduction = "mean") -> Tensor:
    """Return ``(x - target) ** 2``, reduced.

    Raises:
        ShapeError: Different shapes, or an unknown reduction.

    >>> zyx.mse_loss(zyx.Tensor([1.0, 3.0]), zyx.Tensor([1.0, 1.0])).item()
    2.0
    """
    return elementwise((x, target), "mse_loss", reduction, lambda p, t: (p - t) * (p - t))


def l1_loss(x: Tensor, target: Tensor, reduction: Reduction = "mean") -> Tensor:
    """Return ``|x - target|``, reduced.

    Raises:
        ShapeError: Different shapes, or an unknown reduction.

    >>> zyx.l1_loss(zyx.Tensor([1.0, 3.0]), zyx.Tensor([1.0, 1.0])).item()
    1.0
    """
    return elementwise((x, target), "l1_loss", reduction, lambda p, t: (p - t).abs())


def huber_loss(x: Tensor, target: Tensor, delta: float = 1.0, reduction: Reduction = "mean") -> Tensor:
    """Return half the squared distance up to `delta`, and a line of slope `delta` beyond, reduced.

    Raises:
        ShapeError: Different shapes, `delta` not above 0, or an unknown reduction.

    >>> zyx.huber_loss(zyx.Tensor([3.0]), zyx.Tensor([0.0])).item()
    2.5
    """
    _check_width(delta, "delta", "huber_loss")
    if delta <= 0:
        raise ShapeError(f"huber_loss: delta is above 0, not {delta}")

    def formula(p: Term, t: Term) -> Term:
        distance = (p - t).abs()
        return (distance <= delta).where(distance * distance * 0.5, (distance - 0.5 * delta) * delta)

    return elementwise((x, target), "huber_loss", reduction, formula)


def smooth_l1_loss(x: Tensor, target: Tensor, beta: float = 1.0, reduction: Reduction = "mean") -> Tensor:
    """Return `huber_loss` over `beta`; with ``beta = 0``, `l1_loss`.

    Raises:
        ShapeError: Different shapes, a negative `beta`, or an unknown reduction.

    >>> zyx.smooth_l1_loss(zyx.Tensor([0.0, 3.0]), zyx.zeros(2)).item()
    1.25
    """
    _check_width(beta, "beta", "smooth_l1_loss")
    if beta < 0:
        raise ShapeError(f"smooth_l1_loss: beta is at least 0, not {beta}")
    if beta == 0:
        return l1_loss(x, target, reduction)

    def formula(p: Term, t: Term) -> Term:
        distance = (p - t).abs()
        return (distance < beta).where(distance * distance * (0.5 / beta), distance - 0.5 * beta)

    return elementwise((x, target), "smooth_l1_loss", reduction, formula)


def binary_cross_entropy(
    x: Tensor, target: Tensor, weight: Tensor | None = None, reduction: Reduction = "mean"
) -> Tensor:
    """Return ``-(target * log(x) + (1 - target) * log(1 - x))``, reduced; logarithms are at least -100.

    Args:
        x: Probabilities.
        target: Probabilities, of the same shape.
        weight: Of each element; broadcasts.
        reduction: See the module.

    Raises:
        ShapeError: Different shapes, or an unknown reduction.

    >>> round(zyx.binary_cross_entropy(zyx.Tensor([0.5, 0.5]), zyx.Tensor([0.0, 1.0])).item(), 4)
    0.6931
    """

    def formula(p: Term, t: Term, *factors: Term) -> Term:
        loss = -(t * _bounded_log(p) + (1.0 - t) * _bounded_log(1.0 - p))
        return loss * factors[0] if factors else loss

    operands = (x, target) if weight is None else (x, target, weight)
    return elementwise(operands, "binary_cross_entropy", reduction, formula)


def _bounded_log(p: Term) -> Term:
    small = p < 3.8e-44  # exp(-100)
    return small.where(-100.0, small.where(1.0, p).log())


def binary_cross_entropy_with_logits(
    x: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    pos_weight: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    """Return the binary cross entropy of ``sigmoid(x)``, without computing that.

    Args:
        x: Logits.
        target: Probabilities, of the same shape.
        weight: Of each element; broadcasts.
        pos_weight: Of the positive part of each element; broadcasts.
        reduction: See the module.

    Raises:
        ShapeError: Different shapes, or an unknown reduction.

    >>> f"{zyx.binary_cross_entropy_with_logits(zyx.zeros(2), zyx.Tensor([0.0, 1.0])).item():.4f}"
    '0.6931'
    """
    extra = [each for each in (weight, pos_weight) if each is not None]

    def formula(p: Term, t: Term, *factors: Term) -> Term:
        # -log sigmoid(x) is softplus(-x), and -log(1 - sigmoid(x)) is softplus(-x) + x.
        if pos_weight is None:
            loss = formulas.softplus(-p) + (1.0 - t) * p
        else:
            loss = (1.0 + (factors[-1] - 1.0) * t) * formulas.softplus(-p) + (1.0 - t) * p
        return loss if weight is None else loss * factors[0]

    return elementwise((x, target, *extra), "binary_cross_entropy_with_logits", reduction, formula)


def kl_div(x: Tensor, target: Tensor, reduction: Reduction = "mean", *, log_target: bool = False) -> Tensor:
    """Return ``target * (log(target) - x)``, reduced, where `x` are logarithms of probabilities.

    Args:
        x: Logarithms of predicted probabilities.
        target: Probabilities, or their logarithms if `log_target`.
        reduction: See the module; also "batchmean", the sum over the size of the first axis.
        log_target: See `target`.

    Raises:
        ShapeError: Different shapes, or an unknown reduction.

    >>> round(zyx.kl_div(zyx.log(zyx.Tensor([0.5, 0.5])), zyx.Tensor([1.0, 0.0]), "sum").item(), 4)
    0.6931
    """

    def formula(p: Term, t: Term) -> Term:
        if log_target:
            return t.exp() * (t - p)
        zero = t == 0
        return zero.where(0.0, t * (zero.where(1.0, t).log() - p))

    if reduction == "batchmean":
        total = elementwise((x, target), "kl_div", "sum", formula)
        if not x.node.shape:
            raise ShapeError('kl_div: "batchmean" needs a first axis; the shape is ()')
        return wrap((term_of(total, "kl_div") / shapes.as_float(x.node.shape[0])).node, x)
    return elementwise((x, target), "kl_div", reduction, formula)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    *,
    swap: bool = False,
    reduction: Reduction = "mean",
) -> Tensor:
    """Return ``max(d(anchor, positive) - d(anchor, negative) + margin, 0)``, with distances along the last axis.

    Args:
        anchor: ``(..., D)``.
        positive: Close to the anchor, ``(..., D)``.
        negative: Far from it, ``(..., D)``.
        margin: How much farther the negative ought to be.
        p: Which norm of the difference, to which `eps` is added, is the distance.
        eps: Keeps the distance of equal points from 0.
        swap: Whether the distance of positive and negative counts if it is less than that of anchor and negative.
        reduction: See the module.

    Raises:
        ShapeError: Rank 0, shapes that do not broadcast, or an unknown reduction.

    >>> zyx.triplet_margin_loss(zyx.zeros(1, 2), zyx.zeros(1, 2), zyx.zeros(1, 2)).item()
    1.0
    """

    def formula(a: Term, b: Term, c: Term) -> Term:
        if not a.shape:
            raise ShapeError("triplet_margin_loss needs an axis of coordinates; the shape is ()")
        axis = len(a.shape) - 1

        def distance(u: Term, v: Term) -> Term:
            apart = (u - v + eps).abs()
            if p == 2:
                length = formulas.safe_sqrt((apart * apart).sum((axis,)))
            else:
                length = formulas.power(formulas.power(apart, p).sum((axis,)), 1.0 / p)
            return length.reshape(length.shape[:-1])

        far = distance(a, c)
        if swap:
            far = far.minimum(distance(b, c))
        return (distance(a, b) - far + margin).maximum(0.0)

    return elementwise((anchor, positive, negative), "triplet_margin_loss", reduction, formula, same_shape=False)


# ---- classes


def cross_entropy(
    x: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Return ``-log(softmax(x))`` at the target class, or its mean under target probabilities.

    Args:
        x: Logits ``(C,)``, ``(N, C)`` or ``(N, C, d1, .., dk)``.
        target: Classes, integers of the shape of `x` without C; or probabilities of the shape of `x`.
        weight: Of each class, ``(C,)``.
        ignore_index: Examples of this class count as absent.
        reduction: See the module; "mean" is over the weights of the classes that are not ignored.
        label_smoothing: Part of the target that is spread evenly over all classes, 0 to 1.

    Returns:
        One number, or with "none" one for each example. A class outside 0 .. C that is not `ignore_index` gives NaN.

    Raises:
        ShapeError: Shapes that do not fit, or an unknown reduction.
        DTypeError: A bool target.

    >>> f"{zyx.cross_entropy(zyx.zeros(2, 4), zyx.Tensor([1, 3])).item():.4f}"
    '1.3863'
    """
    logits, axis, dtype = _class_scores(x, "cross_entropy")
    if not 0.0 <= label_smoothing <= 1.0:
        raise ShapeError(f"cross_entropy: label_smoothing is 0 to 1, not {label_smoothing}")
    wanted = term_of(target, "cross_entropy")
    factors = _class_weights(weight, logits, axis, "cross_entropy")
    shifted, _ = formulas.shifted_by_max(logits, (axis,))
    total = shifted.exp().sum((axis,)).log()  # the loss of class c is total - shifted[c]
    count = logits.shape[axis]
    if wanted.dtype.is_float:
        if wanted.shape != logits.shape:
            raise ShapeError(f"cross_entropy: probabilities {wanted.shape} for logits {logits.shape}")
        share = wanted.cast(logits.dtype)
        if label_smoothing:
            share = share * (1.0 - label_smoothing) + label_smoothing / count
        if factors is not None:
            share = share * factors
        loss = (share * (total - shifted)).sum((axis,))
        loss = loss.reshape(_without(loss.shape, axis))
        return wrap(reduced(loss, reduction).cast(dtype).node, x)
    hit, known, counted = _class_hits(wanted, logits, axis, ignore_index, "cross_entropy")
    picked = total - hit.where(shifted, 0.0).sum((axis,))
    example_weight = None if factors is None else hit.where(factors, 0.0).sum((axis,))
    loss = picked if example_weight is None else picked * example_weight
    if label_smoothing:
        every = total - shifted if factors is None else (total - shifted) * factors
        loss = loss * (1.0 - label_smoothing) + every.sum((axis,)) * (label_smoothing / count)
    return wrap(_class_reduced(loss, example_weight, counted, known, axis, reduction).cast(dtype).node, x)


def nll_loss(
    x: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Tensor:
    """Return ``-x`` at the target class, where `x` are logarithms of probabilities; else as `cross_entropy`.

    `x` is ``(N, C, ...)``; the target is of shape ``(N, ...)``, and so are the losses before they are reduced.

    Raises:
        ShapeError: Shapes that do not fit, or an unknown reduction.
        DTypeError: A target that is not of integers.

    >>> zyx.nll_loss(zyx.Tensor([[-1.0, -2.0]]), zyx.Tensor([1])).item()
    2.0
    """
    scores, axis, dtype = _class_scores(x, "nll_loss")
    factors = _class_weights(weight, scores, axis, "nll_loss")
    hit, known, counted = _class_hits(term_of(target, "nll_loss"), scores, axis, ignore_index, "nll_loss")
    loss = -hit.where(scores, 0.0).sum((axis,))
    example_weight = None if factors is None else hit.where(factors, 0.0).sum((axis,))
    if example_weight is not None:
        loss = loss * example_weight
    return wrap(_class_reduced(loss, example_weight, counted, known, axis, reduction).cast(dtype).node, x)


def _class_scores(x: Tensor, what: str) -> tuple[Term, int, DType]:
    """Return the scores in the type of the sums, the axis of classes, and the type of the result."""
    term = term_of(x, what)
    if not term.shape:
        raise ShapeError(f"{what} needs an axis of classes; the shape is ()")
    dtype = kept(float_dtype(term.dtype))
    return term.cast(dtypes.accumulator(dtype)), 0 if len(term.shape) == 1 else 1, dtype


def _class_weights(weight: Tensor | None, scores: Term, axis: int, what: str) -> Term | None:
    if weight is None:
        return None
    term = term_of(weight, what)
    if term.shape != (scores.shape[axis],):
        raise ShapeError(f"{what}: weight {term.shape} for {scores.shape[axis]} classes")
    shape = [size if i == axis else 1 for i, size in enumerate(scores.shape)]
    return term.cast(scores.dtype).reshape(shape).expand(scores.shape)


def _class_hits(target: Term, scores: Term, axis: int, ignore_index: int, what: str) -> tuple[Term, Term, Term]:
    """Return where an axis of classes meets the target, which examples have a class that exists, and which count.

    The axis keeps size 1 in the latter two.
    """
    if not target.dtype.is_integer:
        raise DTypeError(
            f"{what}: a target is of classes, integers, or for cross_entropy probabilities, not {target.dtype}"
        )
    ignore_index = as_integer(ignore_index, "ignore_index")
    examples = _without(scores.shape, axis)
    if target.shape != examples:
        raise ShapeError(
            f"{what}: target {target.shape} for scores {scores.shape}; the target lacks axis {axis} of classes"
        )
    classes = target.reshape((*examples[:axis], 1, *examples[axis:]))
    if classes.dtype.max < scores.shape[axis]:
        classes = classes.cast(dtypes.int64)
    hit = classes.expand(scores.shape) == scores.iota(axis, classes.dtype)
    known = (classes >= 0) & (classes < scores.shape[axis])
    fits = classes.dtype.min <= ignore_index <= classes.dtype.max
    return hit, known, classes != ignore_index if fits else classes == classes  # noqa: PLR0124  # true everywhere


def _class_reduced(
    loss: Term, example_weight: Term | None, counted: Term, known: Term, axis: int, reduction: str
) -> Term:
    """Return the losses of examples, with the axis of classes of size 1, reduced over those that count."""
    check_reduction(reduction)
    loss = counted.where(known.where(loss, math.nan), 0.0)
    if reduction == "none":
        return loss.reshape(_without(loss.shape, axis))
    axes = range(len(loss.shape))
    total = loss.sum(axes).reshape(())
    if reduction == "sum":
        return total
    members = counted.cast(loss.dtype) if example_weight is None else counted.where(example_weight, 0.0)
    return total / members.sum(axes).reshape(())


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], *shape[axis + 1 :])


take_habits(globals(), __all__)
