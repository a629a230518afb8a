"""Adam, and AdamW.

Moments are corrected for having begun as 0 by dividing them by ``1 - beta ** step``. That is computed as
``-expm1(step * log(beta))``: in float32, 1 - 0.999 would keep only four digits.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zyx.optim.optimizer import Optimizer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zyx.functions.term import Term
    from zyx.optim.optimizer import LearningRate, Params


class Adam(Optimizer):
    """Steps along the mean gradient, divided by the root of the mean square. Kingma and Ba, 2014.

    Parameters have any shape.

    Raises:
        GradientError: No parameters.
        DTypeError: A parameter is not of floats.
        ShapeError: A negative learning rate, or another setting out of its range.

    >>> w = zyx.Tensor([1.0], requires_grad=True)
    >>> optimizer = zyx.optim.Adam([w], lr=0.5)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> f"{w.item():.2f}"
    '0.50'
    """

    betas: tuple[float, float]
    eps: float
    amsgrad: bool

    def __init__(
        self,
        params: Params,
        lr: LearningRate = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        maximize: bool = False,
    ) -> None:
        """Make the optimiser.

        Args:
            params: Tensors, tensors by name, or groups; see `Optimizer`.
            lr: Learning rate.
            betas: How much of the mean gradient, and of the mean square, stays from step to step.
            eps: Added to the root.
            weight_decay: What of a parameter is added to its gradient.
            amsgrad: Whether to divide by the greatest mean square so far. Reddi, Kale and Kumar, 2018.
            maximize: Whether to go up.

        Raises:
            ShapeError: A number out of its range; see also `Optimizer`.
        """
        super().__init__(
            params,
            lr,
            betas=(float(betas[0]), float(betas[1])),
            eps=eps,
            weight_decay=weight_decay,
            amsgrad=amsgrad,
            maximize=maximize,
        )

    def state_names(self) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq", "max_exp_avg_sq") if self.amsgrad else ("exp_avg", "exp_avg_sq")

    def update(self, param: Term, grad: Term, state: Mapping[str, Term], lr: Term, step: Term) -> dict[str, Term]:
        param, grad = self.decayed(param, grad, lr)
        beta1, beta2 = self.betas
        new = moments(self.betas, grad, state)
        mean, square = new.values()
        if "max_exp_avg_sq" in state:
            square = new["max_exp_avg_sq"] = state["max_exp_avg_sq"].maximum(square)
        rate = lr / begun(beta1, step)
        root = square.sqrt() * begun(beta2, step).sqrt().reciprocal()
        new["param"] = param - mean * rate / (root + self.eps)
        return new


class AdamW(Adam):
    """`Adam` whose weight decay works on the parameters themselves: ``param -= lr * weight_decay * param``.

    Parameters have any shape.

    Loshchilov and Hutter, "Decoupled weight decay regularization", 2017.

    Raises:
        GradientError: No parameters.
        DTypeError: A parameter is not of floats.
        ShapeError: A negative learning rate, or another setting out of its range.

    >>> w = zyx.Tensor([1.0], requires_grad=True)
    >>> optimizer = zyx.optim.AdamW([w], lr=0.5, weight_decay=0.0)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> f"{w.item():.2f}"
    '0.50'
    """

    decoupled_weight_decay = True

    def __init__(
        self,
        params: Params,
        lr: LearningRate = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        maximize: bool = False,
    ) -> None:
        """Make the optimiser; see `Adam`."""
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize)


def moments(betas: tuple[float, float], grad: Term, state: Mapping[str, Term]) -> dict[str, Term]:
    """Return the new mean gradient and mean square, by the names under which they are kept, before correction."""
    mean = state["exp_avg"] + (grad - state["exp_avg"]) * (1.0 - betas[0])
    return {"exp_avg": mean, "exp_avg_sq": state["exp_avg_sq"] * betas[1] + grad * grad * (1.0 - betas[1])}


def begun(beta: float, step: Term) -> Term:
    """Return ``1 - beta ** step``."""
    return -(step * math.log(beta)).expm1() if beta > 0.0 else step.like(1.0)
