"""Steps by signs, and steps that are averaged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.optim.optimizer import Optimizer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zyx.functions.term import Term
    from zyx.optim.optimizer import LearningRate, Params
    from zyx.shape import Shape


class Rprop(Optimizer):
    """Steps by the signs of gradients alone, of sizes that grow while a sign stays. Riedmiller and Braun, 1993.

    Parameters have any shape.

    Raises:
        GradientError: No parameters.
        DTypeError: A parameter is not of floats.
        ShapeError: A negative learning rate, or another setting out of its range.

    >>> w = zyx.Tensor([1.0], requires_grad=True)
    >>> optimizer = zyx.optim.Rprop([w], lr=0.5)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> f"{w.item():.4f}"
    '0.5000'
    """

    kept = ("prev", "step_size")
    etas: tuple[float, float]
    step_sizes: tuple[float, float]

    def __init__(
        self,
        params: Params,
        lr: LearningRate = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50.0),
        maximize: bool = False,
    ) -> None:
        """Make the optimiser.

        Args:
            params: Tensors, tensors by name, or groups; see `Optimizer`.
            lr: What step sizes begin as.
            etas: What a size is multiplied by when the sign changes, and when it stays.
            step_sizes: The least and the greatest size.
            maximize: Whether to go up.

        Raises:
            ShapeError: A number out of its range; see also `Optimizer`.
        """
        super().__init__(params, lr, etas=etas, step_sizes=step_sizes, maximize=maximize)

    def update(self, param: Term, grad: Term, state: Mapping[str, Term], lr: Term, step: Term) -> dict[str, Term]:
        grad = -grad if self.maximize else grad
        kept = grad * state["prev"]
        size = (state["step_size"] == 0.0).where(lr, state["step_size"])  # 0 before the first step
        factor = (kept > 0.0).where(kept.like(self.etas[1]), (kept < 0.0).where(kept.like(self.etas[0]), 1.0))
        size = (size * factor).maximum(self.step_sizes[0]).minimum(self.step_sizes[1])
        grad = (kept < 0.0).where(0.0, grad)
        sign = (grad > 0.0).where(size, (grad < 0.0).where(-size, 0.0))
        return {"prev": grad, "step_size": size, "param": param - sign}


class ASGD(Optimizer):
    """Descent whose parameters are averaged along the way, as ``state["ax"]``. Polyak and Juditsky, 1992.

    Parameters have any shape.

    Raises:
        GradientError: No parameters.
        DTypeError: A parameter is not of floats.
        ShapeError: A negative learning rate, or another setting out of its range.

    >>> w = zyx.Tensor([1.0], requires_grad=True)
    >>> optimizer = zyx.optim.ASGD([w], lr=0.5)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> f"{w.item():.4f}"
    '0.4999'
    """

    kept = ("eta", "mu", "ax")
    lambd: float
    alpha: float
    t0: float

    def __init__(
        self,
        params: Params,
        lr: LearningRate = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0.0,
        maximize: bool = False,
    ) -> None:
        """Make the optimiser.

        Args:
            params: Tensors, tensors by name, or groups; see `Optimizer`.
            lr: Learning rate.
            lambd: How fast parameters decay, and rates fall.
            alpha: The power by which rates fall.
            t0: The step from which parameters are averaged; before, the average is the latest.
            weight_decay: What of a parameter is added to its gradient.
            maximize: Whether to go up.

        Raises:
            ShapeError: A number out of its range; see also `Optimizer`.
        """
        super().__init__(params, lr, lambd=lambd, alpha=alpha, t0=t0, weight_decay=weight_decay, maximize=maximize)

    def state_shape(self, name: str, shape: Shape) -> Shape:
        return shape if name == "ax" else ()

    def update(self, param: Term, grad: Term, state: Mapping[str, Term], lr: Term, step: Term) -> dict[str, Term]:
        param, grad = self.decayed(param, grad, lr)
        eta = (state["eta"] == 0.0).where(lr, state["eta"])  # 0 before the first step, as mu
        mu = (state["mu"] == 0.0).where(1.0, state["mu"])
        moved = param * (1.0 - eta * self.lambd) - grad * eta
        average = (mu == 1.0).where(moved, state["ax"] + (moved - state["ax"]) * mu)
        rate = lr * (-(lr * step * self.lambd).log1p() * self.alpha).exp()
        return {"eta": rate, "mu": (step - self.t0).maximum(1.0).reciprocal(), "ax": average, "param": moved}
