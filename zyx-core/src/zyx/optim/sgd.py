"""Stochastic gradient descent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.errors import ShapeError
from zyx.optim.optimizer import Optimizer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zyx.functions.term import Term
    from zyx.optim.optimizer import LearningRate, Params


class SGD(Optimizer):
    """``param -= lr * gradient``, with momentum as in PyTorch.

    Parameters have any shape.

    Sutskever et al., "On the importance of initialization and momentum in deep learning", 2013.

    Raises:
        GradientError: No parameters.
        DTypeError: A parameter is not of floats.
        ShapeError: A negative learning rate, or another setting out of its range.

    >>> w = zyx.Tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = zyx.optim.SGD([w], lr=0.5)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.tolist()
    [0.0, 0.0]
    """

    momentum: float
    dampening: float
    nesterov: bool

    def __init__(
        self,
        params: Params,
        lr: LearningRate = 1e-3,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        dampening: float = 0.0,
        nesterov: bool = False,
        maximize: bool = False,
    ) -> None:
        """Make the optimiser.

        Args:
            params: Tensors, tensors by name, or groups; see `Optimizer`.
            lr: Learning rate.
            momentum: Share of the direction before in the next.
            weight_decay: What of a parameter is added to its gradient.
            dampening: What the gradient loses when it is added to the direction before.
            nesterov: Whether to look ahead along the direction; needs momentum, and no dampening.
            maximize: Whether to go up.

        Raises:
            ShapeError: A number out of its range; see also `Optimizer`.
        """
        if nesterov and (momentum <= 0.0 or dampening != 0.0):
            raise ShapeError("nesterov needs a momentum above 0 and no dampening")
        super().__init__(
            params,
            lr,
            momentum=momentum,
            weight_decay=weight_decay,
            dampening=dampening,
            nesterov=nesterov,
            maximize=maximize,
        )

    def state_names(self) -> tuple[str, ...]:
        return ("momentum_buffer",) if self.momentum else ()

    def update(self, param: Term, grad: Term, state: Mapping[str, Term], lr: Term, step: Term) -> dict[str, Term]:
        param, grad = self.decayed(param, grad, lr)
        if "momentum_buffer" not in state:
            return {"param": param - grad * lr}
        before = state["momentum_buffer"] * self.momentum
        if self.dampening:
            # The first direction is the gradient itself.
            direction = before + grad * (step == 1.0).where(step.like(1.0), 1.0 - self.dampening)
        else:
            direction = before + grad
        ahead = grad + direction * self.momentum if self.nesterov else direction
        return {"momentum_buffer": direction, "param": param - ahead * lr}
