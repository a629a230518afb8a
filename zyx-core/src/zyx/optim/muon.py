"""Matrices moved by the orthogonal matrix that is nearest to their momentum."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from zyx.errors import ArgumentError, ShapeError
from zyx.functions.linalg import matmul
from zyx.functions.term import Term
from zyx.optim.optimizer import Optimizer
from zyx.optim.param_groups import named
from zyx.tensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zyx.optim.optimizer import LearningRate, Params


class Muon(Optimizer):
    """Momentum, brought near to an orthogonal matrix by Newton and Schulz's iteration, for matrices alone.

    Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024. The iteration is computed in
    float32, where PyTorch takes bfloat16. Give vectors, embeddings and the last layer to another optimiser.

    Raises:
        GradientError: No parameters.
        DTypeError: A parameter is not of floats.
        ShapeError: A parameter that is no matrix, a negative learning rate, or another setting out of its range.

    >>> w = zyx.ones(2, 2, requires_grad=True)
    >>> optimizer = zyx.optim.Muon([w], lr=0.5)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> f"{w.sum().item():.4f}"
    '3.1036'
    """

    kept = ("momentum_buffer",)
    decoupled_weight_decay = True
    momentum: float
    nesterov: bool
    ns_coefficients: tuple[float, float, float]
    eps: float
    ns_steps: int
    adjust_lr_fn: str | None

    def __init__(
        self,
        params: Params,
        lr: LearningRate = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        """Make the optimiser.

        Args:
            params: Tensors, tensors by name, or groups; see `Optimizer`.
            lr: Learning rate.
            weight_decay: Share of the learning rate by which parameters decay.
            momentum: Share of the mean gradient that stays from step to step.
            nesterov: Whether to look ahead along it.
            ns_coefficients: Of the iteration ``a X + b X X' X + c X X' X X' X``.
            eps: The least norm that a matrix is divided by.
            ns_steps: How many iterations.
            adjust_lr_fn: "original", which is None, multiplies rates by the root of rows over columns, if that is
                above 1; "match_rms_adamw" by 0.2 and the root of the greater of both.

        Raises:
            ShapeError: A number out of its range, or a parameter that is no matrix; see also `Optimizer`.
            ArgumentError: Another `adjust_lr_fn`.
        """
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ArgumentError(f'adjust_lr_fn is "original" or "match_rms_adamw", not {adjust_lr_fn!r}')
        super().__init__(
            params,
            lr,
            weight_decay=weight_decay,
            momentum=momentum,
            nesterov=nesterov,
            ns_coefficients=ns_coefficients,
            eps=eps,
            ns_steps=ns_steps,
            adjust_lr_fn=adjust_lr_fn,
        )

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """Train more matrices; see `Optimizer.add_param_group`.

        Raises:
            ShapeError: A parameter that is no matrix.
        """
        names, parameters = named(param_group.get("params", ()), len(self.params))
        for name, parameter in zip(names, parameters, strict=True):
            if parameter.node.ndim != 2:
                raise ShapeError(f"Muon moves matrices, and parameter {name} is {parameter.node.shape}")
        super().add_param_group(param_group)

    def update(self, param: Term, grad: Term, state: Mapping[str, Term], lr: Term, step: Term) -> dict[str, Term]:
        param, grad = self.decayed(param, grad, lr)
        mean = state["momentum_buffer"] + (grad - state["momentum_buffer"]) * (1.0 - self.momentum)
        ahead = grad + (mean - grad) * self.momentum if self.nesterov else mean
        rows, columns = param.shape
        ratio = math.sqrt(max(1.0, rows / max(columns, 1)))
        if self.adjust_lr_fn == "match_rms_adamw":
            ratio = 0.2 * math.sqrt(max(rows, columns))
        moved = param - self._orthogonal(ahead) * (lr * ratio)
        return {"momentum_buffer": mean, "param": moved}

    def _orthogonal(self, term: Term) -> Term:
        """Return a matrix of the same singular vectors whose singular values are near 1."""
        a, b, c = self.ns_coefficients
        size = (term * term).sum((0, 1)).reshape(()).sqrt().maximum(self.eps)
        x = Tensor.of((term / size).node, self._runtime)
        is_tall = x.shape[0] > x.shape[1]
        x = x.mT if is_tall else x
        for _ in range(self.ns_steps):
            gram = matmul(x, x.mT)
            x = x * a + matmul(gram * b + matmul(gram, gram) * c, x)
        return Term(term.graph, (x.mT if is_tall else x).node)
