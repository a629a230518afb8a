"""Adam that looks ahead, and Adam that is careful at first."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zyx.optim.adam import begun, moments
from zyx.optim.optimizer import Optimizer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zyx.functions.term import Term
    from zyx.optim.optimizer import LearningRate, Params
    from zyx.shape import Shape


class NAdam(Optimizer):
    """Adam with Nesterov's momentum. Dozat, "Incorporating Nesterov momentum into Adam", 2016.

    Parameters have any shape.

    Raises:
        GradientError: No parameters.
        DTypeError: A parameter is not of floats.
        ShapeError: A negative learning rate, or another setting out of its range.

    >>> w = zyx.Tensor([1.0], requires_grad=True)
    >>> optimizer = zyx.optim.NAdam([w], lr=0.5)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> f"{w.item():.4f}"
    '0.4718'
    """

    kept = ("exp_avg", "exp_avg_sq", "mu_product")
    betas: tuple[float, float]
    eps: float
    momentum_decay: float

    def __init__(
        self,
        params: Params,
        lr: LearningRate = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        maximize: bool = False,
    ) -> None:
        """Make the optimiser.

        Args:
            params: Tensors, tensors by name, or groups; see `Optimizer`.
            lr: Learning rate.
            betas: How much of the mean gradient, and of the mean square, stays from step to step.
            eps: Added to the root.
            weight_decay: What of a parameter is added to its gradient.
            momentum_decay: How fast the momentum comes to ``betas[0]``.
            decoupled_weight_decay: Whether weight decay works on the parameters themselves, as in AdamW.
            maximize: Whether to go up.

        Raises:
            ShapeError: A number out of its range; see also `Optimizer`.
        """
        super().__init__(
            params,
            lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            momentum_decay=momentum_decay,
            decoupled_weight_decay=decoupled_weight_decay,
            maximize=maximize,
        )

    def state_shape(self, name: str, shape: Shape) -> Shape:
        return () if name == "mu_product" else shape

    def first_value(self, name: str) -> float:
        return 1.0 if name == "mu_product" else 0.0

    def update(self, param: Term, grad: Term, state: Mapping[str, Term], lr: Term, step: Term) -> dict[str, Term]:
        param, grad = self.decayed(param, grad, lr)
        new = moments(self.betas, grad, state)
        mean, square = new.values()
        now, then = (self._momentum(step), self._momentum(step + 1.0))
        product = state["mu_product"] * now
        root = square.sqrt() * begun(self.betas[1], step).sqrt().reciprocal() + self.eps
        moved = param - grad * (lr * (1.0 - now) / (1.0 - product)) / root
        moved = moved - mean * (lr * then / (1.0 - product * then)) / root
        return {**new, "mu_product": product, "param": moved}

    def _momentum(self, step: Term) -> Term:
        """Return the momentum of a step."""
        return -(step * (self.momentum_decay * math.log(0.96))).exp() * (0.5 * self.betas[0]) + self.betas[0]


class RAdam(Optimizer):
    """Adam that divides by the root once its variance is bounded, which it allows for.

    Parameters have any shape.

    Liu et al., "On the variance of the adaptive learning rate and beyond", 2019.

    Raises:
        GradientError: No parameters.
        DTypeError: A parameter is not of floats.
        ShapeError: A negative learning rate, or another setting out of its range.

    >>> w = zyx.Tensor([1.0], requires_grad=True)
    >>> optimizer = zyx.optim.RAdam([w], lr=0.5)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> f"{w.item():.4f}"
    '0.5000'
    """

    kept = ("exp_avg", "exp_avg_sq")
    betas: tuple[float, float]
    eps: float

    def __init__(
        self,
        params: Params,
        lr: LearningRate = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = False,
        maximize: bool = False,
    ) -> None:
        """Make the optimiser.

        Args:
            params: Tensors, tensors by name, or groups; see `Optimizer`.
            lr: Learning rate.
            betas: How much of the mean gradient, and of the mean square, stays from step to step.
            eps: Added to the root.
            weight_decay: What of a parameter is added to its gradient.
            decoupled_weight_decay: Whether weight decay works on the parameters themselves, as in AdamW.
            maximize: Whether to go up.

        Raises:
            ShapeError: A number out of its range; see also `Optimizer`.
        """
        super().__init__(
            params,
            lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            decoupled_weight_decay=decoupled_weight_decay,
            maximize=maximize,
        )

    def update(self, param: Term, grad: Term, state: Mapping[str, Term], lr: Term, step: Term) -> dict[str, Term]:
        param, grad = self.decayed(param, grad, lr)
        beta1, beta2 = self.betas
        new = moments(self.betas, grad, state)
        mean, square = new.values()
        most = 2.0 / (1.0 - beta2) - 1.0
        length = _length(beta2, step)
        known = length > 5.0
        safe = known.where(length, 6.0)
        rectified = ((safe - 4.0) * (safe - 2.0) / safe * (most / ((most - 4.0) * (most - 2.0)))).sqrt()
        adapted = rectified * begun(beta2, step).sqrt() / (square.sqrt() + self.eps)
        factor = known.where(adapted, 1.0)
        moved = param - mean * (lr / begun(beta1, step)) * factor
        return {**new, "param": moved}


def _length(beta: float, step: Term) -> Term:
    """Return over how many steps the mean square reaches: ``2 / (1 - beta) - 1 - 2 * t * beta**t / (1 - beta**t)``.

    With ``x = -t * log(beta)``, what is taken off is ``2 / -log(beta) * x / (exp(x) - 1)``. Its value at 0 all but
    cancels what stands before, and is taken from there in float64; the rest is a series where x is small.
    """
    if beta == 0.0:
        return step.like(1.0)
    slope = -math.log(beta)
    x = step * slope
    near = x < 0.7
    small = near.where(x, 0.0)
    square = small * small
    series = small * 0.5 - square * (1 / 12 - square * (1 / 720 - square * (1 / 30240 - square / 1209600.0)))
    large = near.where(1.0, x)
    rest = near.where(series, 1.0 - large / large.expm1())
    return rest * (2.0 / slope) + (2.0 / (1.0 - beta) - 1.0 - 2.0 / slope)
