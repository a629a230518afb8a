"""Learning rates that change from step to step.

A schedule is called with the number of steps made so far, a tensor of one integer, and returns a tensor of one float:
the rate of the next step. So it works inside of traced functions, where that number is not known. The values are those
of PyTorch's schedulers of the same names, moved on by one at each step of the optimiser.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zyx.dtype import float32
from zyx.functions.arithmetic import maximum, minimum
from zyx.functions.choosing import where
from zyx.integers import as_integers
from zyx.optim.phases import anneal, check_anneal, check_steps, half_cosine, one_cycle, steps_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.optim.phases import Phase
    from zyx.tensor.tensor import Tensor


class Schedule(ABC):
    """A learning rate as a function of the number of steps made so far. Schedules are not changed once made.

    The number of steps and the rate have the shape ().

    >>> class Halving(zyx.optim.Schedule):
    ...     def __call__(self, step):
    ...         return 0.5**step
    >>> Halving()(zyx.Tensor(2)).item()
    0.25
    """

    @abstractmethod
    def __call__(self, step: Tensor) -> Tensor:
        """Return the rate of the next step.

        Args:
            step: One integer, 0 at the first step.
        """


@dataclass(frozen=True, slots=True)
class LambdaLR(Schedule):
    """`lr` times what `lr_lambda` returns for the number of steps, a tensor of one integer.

    >>> rate = zyx.optim.LambdaLR(1.0, lambda step: 1 / (step + 1))
    >>> [round(rate(zyx.Tensor(step)).item(), 4) for step in (0, 1, 3)]
    [1.0, 0.5, 0.25]
    """

    lr: float
    lr_lambda: Callable[[Tensor], Tensor]

    def __call__(self, step: Tensor) -> Tensor:
        return self.lr_lambda(step) * self.lr


@dataclass(frozen=True, slots=True)
class StepLR(Schedule):
    """`lr`, times `gamma` after every `step_size` steps.

    Raises:
        ShapeError: `step_size` is below 1.

    >>> rate = zyx.optim.StepLR(1.0, 2, gamma=0.5)
    >>> [round(rate(zyx.Tensor(step)).item(), 4) for step in (0, 1, 2, 4)]
    [1.0, 1.0, 0.5, 0.25]
    """

    lr: float
    step_size: int
    gamma: float = 0.1

    def __post_init__(self) -> None:
        check_steps("step_size", self.step_size)

    def __call__(self, step: Tensor) -> Tensor:
        return power(self.gamma, (step // self.step_size).astype(float32)) * self.lr


@dataclass(frozen=True, slots=True)
class MultiStepLR(Schedule):
    """`lr`, times `gamma` after each number of steps in `milestones`.

    Raises:
        IntegerError: A milestone is no integer.

    >>> rate = zyx.optim.MultiStepLR(1.0, [1, 3], gamma=0.5)
    >>> [round(rate(zyx.Tensor(step)).item(), 4) for step in (0, 1, 2, 3)]
    [1.0, 0.5, 0.5, 0.25]
    """

    lr: float
    milestones: tuple[int, ...]
    gamma: float = 0.1

    def __post_init__(self) -> None:
        as_integers(self.milestones, "milestones")

    def __call__(self, step: Tensor) -> Tensor:
        passed = sum(((step >= milestone).astype(float32) for milestone in self.milestones), 0.0 * step.astype(float32))
        return power(self.gamma, passed) * self.lr


@dataclass(frozen=True, slots=True)
class ExponentialLR(Schedule):
    """`lr`, times `gamma` after every step.

    >>> rate = zyx.optim.ExponentialLR(1.0, 0.5)
    >>> [round(rate(zyx.Tensor(step)).item(), 4) for step in (0, 1, 2)]
    [1.0, 0.5, 0.25]
    """

    lr: float
    gamma: float

    def __call__(self, step: Tensor) -> Tensor:
        return power(self.gamma, step.astype(float32)) * self.lr


@dataclass(frozen=True, slots=True)
class CosineAnnealingLR(Schedule):
    """From `lr` down to `eta_min` in `T_max` steps, along half a cosine; then it stays there.

    Loshchilov and Hutter, "SGDR: stochastic gradient descent with warm restarts", 2016.

    Raises:
        ShapeError: `T_max` is below 1.

    >>> rate = zyx.optim.CosineAnnealingLR(1.0, T_max=2)
    >>> [round(rate(zyx.Tensor(step)).item(), 4) for step in (0, 1, 2)]
    [1.0, 0.5, 0.0]
    """

    lr: float
    T_max: int
    eta_min: float = 0.0

    def __post_init__(self) -> None:
        check_steps("T_max", self.T_max)

    def __call__(self, step: Tensor) -> Tensor:
        return half_cosine(self.lr, self.eta_min, minimum(step.astype(float32) / self.T_max, 1.0))


@dataclass(frozen=True, slots=True)
class LinearWarmup(Schedule):
    """From `start_factor` times the rate of another schedule (or number) up to all of it, in `warmup_steps` steps.

    The other schedule begins when the warm-up is over: its step 0 is step `warmup_steps`.

    Raises:
        ShapeError: `warmup_steps` is below 1.

    >>> rate = zyx.optim.LinearWarmup(1.0, 4)
    >>> [round(rate(zyx.Tensor(step)).item(), 4) for step in (0, 1, 4)]
    [0.0, 0.25, 1.0]
    """

    then: float | Schedule
    warmup_steps: int
    start_factor: float = 0.0

    def __post_init__(self) -> None:
        check_steps("warmup_steps", self.warmup_steps)

    def __call__(self, step: Tensor) -> Tensor:
        part = minimum(step.astype(float32) / self.warmup_steps, 1.0)
        factor = part * (1.0 - self.start_factor) + self.start_factor
        if isinstance(self.then, Schedule):
            return self.then(maximum(step - self.warmup_steps, 0)) * factor
        return factor * self.then


@dataclass(frozen=True, slots=True)
class OneCycleLR(Schedule):
    """Up from ``max_lr / div_factor`` to `max_lr`, then down to ``max_lr / div_factor / final_div_factor``.

    Behind the last step the rate stays. See `zyx.optim.phases`.

    Attributes:
        max_lr: The greatest rate.
        total_steps: How many steps the cycle has; None is `epochs` times `steps_per_epoch`.
        pct_start: The share of them in which the rate rises, 0 to 1.
        div_factor: What `max_lr` is divided by at first.
        final_div_factor: What that is divided by at last.
        anneal_strategy: Whether ways are half cosines, "cos", or "linear".
        three_phase: Whether the rate comes down to the first one in as many steps as it rose, and then to the last.
        epochs: See `total_steps`.
        steps_per_epoch: Likewise.

    Raises:
        ArgumentError: No number of steps, or another `anneal_strategy`.
        ShapeError: `total_steps` is below 1.

    >>> rate = zyx.optim.OneCycleLR(1.0, total_steps=10)
    >>> [round(rate(zyx.Tensor(step)).item(), 4) for step in (0, 2, 9)]
    [0.04, 1.0, 0.0]
    """

    max_lr: float
    total_steps: int | None = None
    pct_start: float = 0.3
    div_factor: float = 25.0
    final_div_factor: float = 1e4
    anneal_strategy: str = "cos"
    three_phase: bool = False
    epochs: int | None = None
    steps_per_epoch: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "total_steps", steps_of(self.total_steps, self.epochs, self.steps_per_epoch))
        check_anneal(self.anneal_strategy)
        self._phases()

    def _phases(self) -> tuple[Phase, ...]:
        return one_cycle(steps_of(self.total_steps, None, None), self.pct_start, self.three_phase)

    def __call__(self, step: Tensor) -> Tensor:
        first = self.max_lr / self.div_factor
        values = (first, self.max_lr, first / self.final_div_factor)
        now = step.astype(float32)
        rate, begun = now * 0.0, 0.0
        for number, phase in enumerate(self._phases()):
            width = phase.end - begun
            part = minimum((now - begun) / width, 1.0) if width > 0.0 else now * 0.0 + 1.0
            found = anneal(self.anneal_strategy, values[phase.start], values[phase.stop], part)
            rate = where(now <= begun, rate, found) if number else found
            begun = phase.end
        return rate


def power(base: float, exponent: Tensor) -> Tensor:
    """Return ``base ** exponent`` of whole exponents >= 0."""
    return (exponent * math.log2(base)).exp2() if base > 0.0 else where(exponent == 0.0, 1.0, exponent * 0.0)
