"""L-BFGS: steps by an approximation of the second derivatives, from the latest steps and what gradients did on them.

Nocedal and Wright, "Numerical optimization", 2006, algorithm 7.4. The losses are read by the host, so a step is made
outside of traced functions; what the closure computes may be traced.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from zyx.errors import ArgumentError, StateError
from zyx.functions.joining import concat, stack
from zyx.integers import as_index
from zyx.optim.check import check_range
from zyx.optim.line_search import LinePoint, strong_wolfe
from zyx.optim.optimizer import Optimizer, evaluated, grads_of
from zyx.tensor.creation import zeros
from zyx.tensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zyx.functions.term import Term
    from zyx.optim.optimizer import LearningRate, Params
    from zyx.tensor.loading import LoadReport

#: Pairs whose product is not above this say nothing of the second derivatives, as in PyTorch.
LEAST_CURVATURE: Final = 1e-10


class _Pair(NamedTuple):
    """A step, what the gradient changed by on it, and 1 over the product of both."""

    step: Tensor
    change: Tensor
    inverse: Tensor


class _LastStep(NamedTuple):
    """An iteration: the gradient where it began, the direction, and how far it went along that."""

    gradient: Tensor
    direction: Tensor
    length: Tensor


class LBFGS(Optimizer):
    """Steps by the latest `history_size` steps and changes of gradients. Liu and Nocedal, 1989.

    Parameters have any shape.

    There is one group of parameters. As in PyTorch, one call of `step` makes up to `max_iter` iterations.

    Attributes:
        func_evals: How often closures were called.

    Raises:
        GradientError: No parameters.
        DTypeError: A parameter is not of floats.
        ShapeError: A negative learning rate, or another setting out of its range.
        ArgumentError: Another `line_search_fn`, or several groups of parameters.

    >>> w = zyx.Tensor([3.0], requires_grad=True)
    >>> optimizer = zyx.optim.LBFGS([w])
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = (w * w).sum()
    ...     loss.backward()
    ...     return loss
    >>> loss = optimizer.step(closure)
    >>> f"{abs(w.item()):.4f}"
    '0.0000'
    """

    max_iter: int
    max_eval: int
    tolerance_grad: float
    tolerance_change: float
    history_size: int
    line_search_fn: str | None

    def __init__(
        self,
        params: Params,
        lr: LearningRate = 1.0,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        """Make the optimiser.

        Args:
            params: Tensors, tensors by name, or one group; see `Optimizer`.
            lr: Learning rate, or with a search, where along the line it begins.
            max_iter: The most iterations of a step.
            max_eval: The most calls of the closure in a step, or soon behind; None is 5 / 4 of `max_iter`.
            tolerance_grad: A gradient without a greater element ends a step.
            tolerance_change: A smaller change of the loss, or of all parameters, ends a step.
            history_size: How many steps count.
            line_search_fn: How far each iteration goes: "strong_wolfe" searches, see `zyx.optim.line_search`; None
                goes by `lr`.

        Raises:
            ArgumentError: Several groups, or an unknown search.
            ShapeError: A number out of its range; see also `Optimizer`.
        """
        iterations, history = as_index(max_iter, "max_iter"), as_index(history_size, "history_size")
        check_range("max_iter", iterations, 1)
        check_range("history_size", history, 1)
        if line_search_fn not in (None, "strong_wolfe"):
            raise ArgumentError(f'LBFGS: line_search_fn is None or "strong_wolfe", not {line_search_fn!r}')
        super().__init__(
            params,
            lr,
            max_iter=iterations,
            max_eval=iterations * 5 // 4 if max_eval is None else as_index(max_eval, "max_eval"),
            tolerance_grad=tolerance_grad,
            tolerance_change=tolerance_change,
            history_size=history,
            line_search_fn=line_search_fn,
        )
        self.func_evals = 0
        self._pairs: list[_Pair] = []
        self._scale = self._number(1.0)
        self._last: _LastStep | None = None

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """Take the parameters; there is one group.

        Raises:
            ArgumentError: There is one already.
        """
        if self.param_groups:
            raise ArgumentError("LBFGS takes one group of parameters: the second derivatives are of all together")
        super().add_param_group(param_group)

    def update(self, param: Term, grad: Term, state: Mapping[str, Term], lr: Term, step: Term) -> dict[str, Term]:
        """Return the parameter as far as `lr` along `grad`, which is the direction."""
        return {"param": param + grad * lr}

    def step(self, closure: Callable[[], Any]) -> Tensor:  # type: ignore[override]  # gradients are not enough
        """Make iterations until one of the bounds is reached; return the loss before the first.

        Args:
            closure: Computes the loss and its gradients, and returns the loss, or both; see `evaluated`.

        Raises:
            GradientError: No parameter has a gradient.
            ArgumentError: `closure` cannot be called.
        """
        if not callable(closure):
            raise ArgumentError(f"LBFGS.step takes a closure that returns the loss, not {type(closure).__name__}")
        settings = self.check_state()[0]
        assert isinstance(settings, LBFGS)
        rate = self._host(self._current_rate(self.param_groups[0]).node)
        first, loss, gradient = self._evaluated(closure)
        self._runtime.assign(self.step_count, (self._term(self.step_count) + 1).node)
        calls, is_done = 1, self._greatest(gradient) <= settings.tolerance_grad
        for number in itertools.count(1):
            if is_done:
                break
            direction = self._direction(gradient, settings.history_size)
            slope, total, width = stack(
                [(gradient * direction).sum(), gradient.abs().sum(), direction.abs().max()]
            ).tolist()
            way = rate if self._last is not None else min(1.0, 1.0 / total) * rate
            self._last = _LastStep(gradient, direction, self._number(way))
            if slope > -settings.tolerance_change:
                break
            before, at = loss, [parameter.clone().realize() for parameter in self.params]
            if settings.line_search_fn is not None:
                start = LinePoint(0.0, loss, slope, gradient)
                look = self._looker(closure, at, direction)
                most = settings.max_eval - calls
                found, more = strong_wolfe(look, start, way, width, settings.tolerance_change, most)
                way, loss, gradient = found.at, found.loss, found.gradient
                self._move(at, direction, way)
            else:
                self._move(at, direction, way)
                more = 0
                if number < settings.max_iter:
                    _, loss, gradient = self._evaluated(closure)
                    more = 1
            self._last = self._last._replace(length=self._number(way))
            calls += more
            is_done = (
                number == settings.max_iter
                or calls >= settings.max_eval
                or self._greatest(gradient) <= settings.tolerance_grad
                or width * way <= settings.tolerance_change
                or abs(loss - before) < settings.tolerance_change
            )
        self._runtime.realize([self.step_count])
        return first

    # ---- saving and loading

    def _named_state(self) -> dict[str, Tensor]:
        found = super()._named_state()
        if self._last is not None:
            found |= self._last._asdict() | {"scale": self._scale}
            for number, pair in enumerate(self._pairs):
                found.update((f"{name}.{number}", part) for name, part in pair._asdict().items())
        return found

    def load_state_dict(self, state: Mapping[str, object], strict: bool = True) -> LoadReport:
        """Take over a saved state, with as many steps as it has; see `Optimizer.load_state_dict`.

        Raises:
            StateError: Shapes differ, or with `strict`, names. Then nothing was changed.
        """
        before = self._last, self._pairs, self._scale
        count = sum(f"step.{number}" in state for number in range(len(state)))
        size = sum(parameter.size for parameter in self.params)

        def empty() -> Tensor:
            return self._new((size,), self._rate_dtype, self.step_count.node.device)

        self._scale = self._number(1.0)
        self._last = _LastStep(empty(), empty(), self._number(0.0)) if "gradient" in state else None
        self._pairs = [_Pair(empty(), empty(), self._number(0.0)) for _ in range(count)]
        try:
            return super().load_state_dict(state, strict)
        except StateError:
            self._last, self._pairs, self._scale = before
            raise

    # ---- parts of a step

    def _evaluated(self, closure: Callable[[], Any]) -> tuple[Tensor, float, Tensor]:
        """Return the loss as a tensor and as a number, and the gradient as one vector."""
        self.func_evals += 1
        loss, grads = evaluated(closure, "LBFGS")
        known = dict(self._checked(grads_of(self.params, "LBFGS") if grads is None else grads))
        parts = []
        for place, parameter in enumerate(self.params):
            part = known[place].detach() if place in known else zeros(parameter.size, device=parameter.device)
            parts.append(part.astype(self._rate_dtype).reshape((parameter.size,)).to(self.step_count.device))
        return loss, float(loss.item()), concat(parts).realize()

    def _direction(self, gradient: Tensor, history_size: int) -> Tensor:
        """Return where to go; the last step is taken note of."""
        if self._last is None:
            return (-gradient).realize()
        step, change = self._last.direction * self._last.length, gradient - self._last.gradient
        product, square = (change * step).sum(), (change * change).sum()
        if product.item() > LEAST_CURVATURE:
            pair = _Pair(step, change, 1.0 / product)
            self._scale = product / square
            self._runtime.realize([*pair, self._scale])
            self._pairs = [*self._pairs, pair][-history_size:]
        # Each part is computed by itself: its program is the same for all, however many there are.
        found, shares = -gradient, []
        for pair in reversed(self._pairs):
            share = (pair.step * found).sum() * pair.inverse
            found = found - pair.change * share
            self._runtime.realize([share, found])
            shares.append(share)
        found = (found * self._scale).realize()
        for pair, share in zip(self._pairs, reversed(shares), strict=True):
            found = (found + pair.step * (share - (pair.change * found).sum() * pair.inverse)).realize()
        return found

    def _looker(self, closure: Callable[[], Any], at: list[Tensor], direction: Tensor) -> Callable[[float], LinePoint]:
        """Return what looks at a place on the line from `at`; the parameters stay there."""

        def look(way: float) -> LinePoint:
            self._move(at, direction, way)
            _, loss, gradient = self._evaluated(closure)
            return LinePoint(way, loss, float((gradient * direction).sum().item()), gradient)

        return look

    def _move(self, at: list[Tensor], direction: Tensor, way: float) -> None:
        """Put the parameters as far as `way` from `at`."""
        first = 0
        rate, count = self._term(self._number(way)), self._term(self.step_count)
        for parameter, old in zip(self.params, at, strict=True):
            part = direction[first : first + parameter.size].reshape(parameter.shape).to(parameter.device)
            first += parameter.size
            wide = self._rate_dtype
            near = [self._near(each, parameter).cast(wide) for each in (rate, count)]
            moved = self.update(self._term(old).cast(wide), self._term(part), {}, *near)["param"]
            self._runtime.assign(parameter, moved.detach().cast(parameter.node.dtype).node, is_fresh=True)
        self._runtime.realize(self.params)

    def _number(self, value: float) -> Tensor:
        """Return a number that programs read: as a constant it would be a program of its own."""
        array = np.array(value, self._rate_dtype.numpy)
        return Tensor.of(self._runtime.upload(array, self.step_count.node.device), self._runtime)

    def _host(self, node: Any) -> float:  # noqa: ANN401  # a node
        return float(Tensor.of(node, self._runtime).item())

    @staticmethod
    def _greatest(gradient: Tensor) -> float:
        return float(gradient.abs().max().item())
