"""Steps divided by what gradients were so far: all of them, or the latest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.optim.adam import begun
from zyx.optim.optimizer import Optimizer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zyx.functions.term import Term
    from zyx.optim.optimizer import LearningRate, Params


class Adagrad(Optimizer):
    """Steps divided by the root of the sum of squares. Duchi, Hazan and Singer, 2011.

    Parameters have any shape.

    Raises:
        GradientError: No parameters.
        DTypeError: A parameter is not of floats.
        ShapeError: A negative learning rate, or another setting out of its range.

    >>> w = zyx.Tensor([1.0], requires_grad=True)
    >>> optimizer = zyx.optim.Adagrad([w], lr=0.5)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> f"{w.item():.4f}"
    '0.5000'
    """

    kept = ("sum",)
    lr_decay: float
    initial_accumulator_value: float
    eps: float

    def __init__(
        self,
        params: Params,
        lr: LearningRate = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        maximize: bool = False,
    ) -> None:
        """Make the optimiser.

        Args:
            params: Tensors, tensors by name, or groups; see `Optimizer`.
            lr: Learning rate.
            lr_decay: The rate of step t is divided by ``1 + (t - 1) * lr_decay``.
            weight_decay: What of a parameter is added to its gradient.
            initial_accumulator_value: What sums begin as.
            eps: Added to the root.
            maximize: Whether to go up.

        Raises:
            ShapeError: A number out of its range; see also `Optimizer`.
        """
        super().__init__(
            params,
            lr,
            lr_decay=lr_decay,
            weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value,
            eps=eps,
            maximize=maximize,
        )

    def first_value(self, name: str) -> float:
        return self.initial_accumulator_value

    def update(self, param: Term, grad: Term, state: Mapping[str, Term], lr: Term, step: Term) -> dict[str, Term]:
        param, grad = self.decayed(param, grad, lr)
        total = state["sum"] + grad * grad
        rate = lr / (1.0 + (step - 1.0) * self.lr_decay)
        return {"sum": total, "param": param - grad * rate / (total.sqrt() + self.eps)}


class Adadelta(Optimizer):
    """Steps in the unit of the parameters: of the size of the latest ones. Zeiler, 2012.

    Parameters have any shape.

    Raises:
        GradientError: No parameters.
        DTypeError: A parameter is not of floats.
        ShapeError: A negative learning rate, or another setting out of its range.

    >>> w = zyx.Tensor([1.0], requires_grad=True)
    >>> optimizer = zyx.optim.Adadelta([w], lr=1.0)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> f"{w.item():.4f}"
    '0.9968'
    """

    kept = ("square_avg", "acc_delta")
    rho: float
    eps: float

    def __init__(
        self,
        params: Params,
        lr: LearningRate = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        maximize: bool = False,
    ) -> None:
        """Make the optimiser.

        Args:
            params: Tensors, tensors by name, or groups; see `Optimizer`.
            lr: Learning rate.
            rho: How much of the mean squares, of gradients and of steps, stays from step to step.
            eps: Added to mean squares.
            weight_decay: What of a parameter is added to its gradient.
            maximize: Whether to go up.

        Raises:
            ShapeError: A number out of its range; see also `Optimizer`.
        """
        super().__init__(params, lr, rho=rho, eps=eps, weight_decay=weight_decay, maximize=maximize)

    def update(self, param: Term, grad: Term, state: Mapping[str, Term], lr: Term, step: Term) -> dict[str, Term]:
        param, grad = self.decayed(param, grad, lr)
        square = state["square_avg"] * self.rho + grad * grad * (1.0 - self.rho)
        delta = (state["acc_delta"] + self.eps).sqrt() / (square + self.eps).sqrt() * grad
        moved = state["acc_delta"] * self.rho + delta * delta * (1.0 - self.rho)
        return {"square_avg": square, "acc_delta": moved, "param": param - delta * lr}


class Adamax(Optimizer):
    """Adam with the greatest latest gradient in place of the root of the mean square. Kingma and Ba, 2014.

    Parameters have any shape.

    Raises:
        GradientError: No parameters.
        DTypeError: A parameter is not of floats.
        ShapeError: A negative learning rate, or another setting out of its range.

    >>> w = zyx.Tensor([1.0], requires_grad=True)
    >>> optimizer = zyx.optim.Adamax([w], lr=0.5)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> f"{w.item():.4f}"
    '0.5000'
    """

    kept = ("exp_avg", "exp_inf")
    betas: tuple[float, float]
    eps: float

    def __init__(
        self,
        params: Params,
        lr: LearningRate = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        maximize: bool = False,
    ) -> None:
        """Make the optimiser.

        Args:
            params: Tensors, tensors by name, or groups; see `Optimizer`.
            lr: Learning rate.
            betas: How much of the mean gradient, and of the greatest one, stays from step to step.
            eps: Added to magnitudes.
            weight_decay: What of a parameter is added to its gradient.
            maximize: Whether to go up.

        Raises:
            ShapeError: A number out of its range; see also `Optimizer`.
        """
        super().__init__(params, lr, betas=betas, eps=eps, weight_decay=weight_decay, maximize=maximize)

    def update(self, param: Term, grad: Term, state: Mapping[str, Term], lr: Term, step: Term) -> dict[str, Term]:
        param, grad = self.decayed(param, grad, lr)
        beta1, beta2 = self.betas
        mean = state["exp_avg"] + (grad - state["exp_avg"]) * (1.0 - beta1)
        greatest = (state["exp_inf"] * beta2).maximum(grad.abs() + self.eps)
        return {"exp_avg": mean, "exp_inf": greatest, "param": param - mean * (lr / begun(beta1, step)) / greatest}
