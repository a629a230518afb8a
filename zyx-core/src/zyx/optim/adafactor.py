"""Adam without a second moment for each element: of matrices, one for each row and each column."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx import shape as shapes
from zyx.functions import formulas
from zyx.optim.check import check_range
from zyx.optim.optimizer import Optimizer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zyx.functions.term import Term
    from zyx.optim.optimizer import LearningRate, Params
    from zyx.shape import Shape


class Adafactor(Optimizer):
    """Steps divided by the root of a mean square that is put together of rows and columns.

    Parameters have any shape.

    Shazeer and Stern, "Adafactor: adaptive learning rates with sublinear memory cost", 2018.

    Raises:
        GradientError: No parameters.
        DTypeError: A parameter is not of floats.
        ShapeError: A negative learning rate, or another setting out of its range.

    >>> w = zyx.Tensor([1.0], requires_grad=True)
    >>> optimizer = zyx.optim.Adafactor([w], lr=0.5)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> f"{w.item():.4f}"
    '0.5000'
    """

    kept = ("row_var", "col_var")
    beta2_decay: float
    eps: tuple[float | None, float]
    d: float

    def __init__(
        self,
        params: Params,
        lr: LearningRate = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        maximize: bool = False,
    ) -> None:
        """Make the optimiser.

        Args:
            params: Tensors, tensors by name, or groups; see `Optimizer`.
            lr: Learning rate.
            beta2_decay: The share of the new squares in step t is ``t ** beta2_decay``.
            eps: The least mean square, of which None is the distance of 1 to the next number of the dtype; and the
                least size that a parameter counts as.
            d: The greatest root mean square of a step before it is scaled.
            weight_decay: Share of the learning rate by which parameters decay.
            maximize: Whether to go up.

        Raises:
            ShapeError: A number out of its range; see also `Optimizer`.
        """
        check_range("-beta2_decay", -beta2_decay, 0.0)
        super().__init__(
            params, lr, beta2_decay=beta2_decay, eps=eps, d=d, weight_decay=weight_decay, maximize=maximize
        )

    def state_shape(self, name: str, shape: Shape) -> Shape:
        """Return that of means of rows and of columns; of a vector the first is the whole."""
        if len(shape) < 2:
            return shape if name == "row_var" else ()
        return (*shape[:-1], 1) if name == "row_var" else (*shape[:-2], 1, shape[-1])

    def update(self, param: Term, grad: Term, state: Mapping[str, Term], lr: Term, step: Term) -> dict[str, Term]:
        grad = -grad if self.maximize else grad
        axes, count = range(len(param.shape)), shapes.as_float(max(shapes.size_of(param.shape), 1))
        least = 2.0 ** -(52 if param.dtype is dtypes.float64 else 23) if self.eps[0] is None else self.eps[0]
        share = (step.log() * self.beta2_decay).exp()
        rate = lr.minimum(step.sqrt().reciprocal())
        size = ((param * param).sum(axes).reshape(()) / count).sqrt().maximum(self.eps[1]) * rate
        if self.weight_decay:
            param = param * (1.0 - lr * self.weight_decay)
        square, new = grad * grad, {}
        if len(param.shape) > 1:
            last, before = len(param.shape) - 1, len(param.shape) - 2
            rows = _toward(state["row_var"], formulas.mean(square, (last,)), share)
            columns = _toward(state["col_var"], formulas.mean(square, (before,)), share)
            estimate = rows * columns / formulas.mean(rows, (before,)).maximum(least)
            new = {"row_var": rows, "col_var": columns}
        else:
            estimate = _toward(state["row_var"], square, share)
            new = {"row_var": estimate}
        change = grad / estimate.maximum(least * least).sqrt()
        length = ((change * change).sum(axes).reshape(()) / count).sqrt()
        return {**new, "param": param - change * (size / (length * (1.0 / self.d)).maximum(1.0))}


def _toward(old: Term, new: Term, share: Term) -> Term:
    return old + (new - old) * share
