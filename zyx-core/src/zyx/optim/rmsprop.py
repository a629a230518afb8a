"""RMSprop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.optim.optimizer import Optimizer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zyx.functions.term import Term
    from zyx.optim.optimizer import LearningRate, Params


class RMSprop(Optimizer):
    """Steps along the gradient, divided by the root of its mean square.

    Parameters have any shape.

    Tieleman and Hinton, lecture 6.5 of "Neural networks for machine learning", 2012; centred as in Graves, "Generating
    sequences with recurrent neural networks", 2013.

    Raises:
        GradientError: No parameters.
        DTypeError: A parameter is not of floats.
        ShapeError: A negative learning rate, or another setting out of its range.

    >>> w = zyx.Tensor([1.0], requires_grad=True)
    >>> optimizer = zyx.optim.RMSprop([w], lr=0.05)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> f"{w.item():.4f}"
    '0.5000'
    """

    alpha: float
    eps: float
    momentum: float
    centered: bool

    def __init__(
        self,
        params: Params,
        lr: LearningRate = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        maximize: bool = False,
    ) -> None:
        """Make the optimiser.

        Args:
            params: Tensors, tensors by name, or groups; see `Optimizer`.
            lr: Learning rate.
            alpha: How much of the mean square stays from step to step.
            eps: Added to the root.
            weight_decay: What of a parameter is added to its gradient.
            momentum: Share of the direction before in the next.
            centered: Whether to divide by the deviation from the mean gradient.
            maximize: Whether to go up.

        Raises:
            ShapeError: A number out of its range; see also `Optimizer`.
        """
        super().__init__(
            params,
            lr,
            alpha=alpha,
            eps=eps,
            weight_decay=weight_decay,
            momentum=momentum,
            centered=centered,
            maximize=maximize,
        )

    def state_names(self) -> tuple[str, ...]:
        names = ["square_avg"]
        names += ["grad_avg"] if self.centered else []
        names += ["momentum_buffer"] if self.momentum else []
        return tuple(names)

    def update(self, param: Term, grad: Term, state: Mapping[str, Term], lr: Term, step: Term) -> dict[str, Term]:
        param, grad = self.decayed(param, grad, lr)
        square = state["square_avg"] * self.alpha + grad * grad * (1.0 - self.alpha)
        new = {"square_avg": square}
        spread = square
        if "grad_avg" in state:
            mean = new["grad_avg"] = state["grad_avg"] + (grad - state["grad_avg"]) * (1.0 - self.alpha)
            spread = (square - mean * mean).maximum(0.0)  # rounding may take it below 0
        direction = grad / (spread.sqrt() + self.eps)
        if "momentum_buffer" in state:
            direction = new["momentum_buffer"] = state["momentum_buffer"] * self.momentum + direction
        new["param"] = param - direction * lr
        return new
