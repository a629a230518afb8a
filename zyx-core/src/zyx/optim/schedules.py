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
from zyx.errors import ShapeError
from zyx.functions.arithmetic import maximum, minimum
from zyx.functions.choosing import where
from zyx.functions.elementwise import cos
from zyx.integers import as_index, as_integers

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.tensor.tensor import Tensor


class Schedule(ABC):
    """A learning rate as a function of the number of steps made so far. Schedules are not changed once made."""

    @abstractmethod
    def __call__(self, step: Tensor) -> Tensor:
        """Return the rate of the next step.

        Args:
            step: One integer, 0 at the first step.
        """


@dataclass(frozen=True, slots=True)
class LambdaLR(Schedule):
    """`lr` times what `factor` returns for the number of steps, a tensor of one integer."""

    lr: float
    factor: Callable[[Tensor], Tensor]

    def __call__(self, step: Tensor) -> Tensor:
        return self.factor(step) * self.lr


@dataclass(frozen=True, slots=True)
class StepLR(Schedule):
    """`lr`, times `gamma` after every `step_size` steps."""

    lr: float
    step_size: int
    gamma: float = 0.1

    def __post_init__(self) -> None:
        check_steps("step_size", self.step_size)

    def __call__(self, step: Tensor) -> Tensor:
        return power(self.gamma, (step // self.step_size).astype(float32)) * self.lr


@dataclass(frozen=True, slots=True)
class MultiStepLR(Schedule):
    """`lr`, times `gamma` after each number of steps in `milestones`."""

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
    """`lr`, times `gamma` after every step."""

    lr: float
    gamma: float

    def __call__(self, step: Tensor) -> Tensor:
        return power(self.gamma, step.astype(float32)) * self.lr


@dataclass(frozen=True, slots=True)
class CosineAnnealingLR(Schedule):
    """From `lr` down to `min_lr` in `total_steps` steps, along half a cosine; then it stays there.

    Loshchilov and Hutter, "SGDR: stochastic gradient descent with warm restarts", 2016.
    """

    lr: float
    total_steps: int
    min_lr: float = 0.0

    def __post_init__(self) -> None:
        check_steps("total_steps", self.total_steps)

    def __call__(self, step: Tensor) -> Tensor:
        return half_cosine(self.lr, self.min_lr, minimum(step.astype(float32) / self.total_steps, 1.0))


@dataclass(frozen=True, slots=True)
class LinearWarmup(Schedule):
    """From `start_factor` times the rate of another schedule (or number) up to all of it, in `warmup_steps` steps.

    The other schedule begins when the warm-up is over: its step 0 is step `warmup_steps`.
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

    Both ways are half cosines; `pct_start` is the share of `total_steps` in which the rate rises. Smith and Topin,
    "Super-convergence: very fast training of neural networks using large learning rates", 2017.
    """

    max_lr: float
    total_steps: int
    pct_start: float = 0.3
    div_factor: float = 25.0
    final_div_factor: float = 1e4

    def __post_init__(self) -> None:
        check_steps("total_steps", self.total_steps)
        if not 0.0 <= self.pct_start <= 1.0:
            raise ShapeError(f"pct_start is 0 to 1, not {self.pct_start}")

    def __call__(self, step: Tensor) -> Tensor:
        first = self.max_lr / self.div_factor
        top = self.pct_start * self.total_steps - 1.0
        rest = self.total_steps - 1.0 - top
        now = step.astype(float32)
        up = minimum(now / top, 1.0) if top > 0 else now * 0.0 + 1.0
        down = minimum((now - top) / rest, 1.0) if rest > 0 else now * 0.0 + 1.0
        falling = half_cosine(self.max_lr, first / self.final_div_factor, down)
        return where(now <= top, half_cosine(first, self.max_lr, up), falling)


def half_cosine(start: float, end: float, part: Tensor) -> Tensor:
    """Return a rate on the way from `start` to `end`, `part` being 0 at the beginning and 1 at the end."""
    return (cos(part * math.pi) + 1.0) * ((start - end) / 2.0) + end


def power(base: float, exponent: Tensor) -> Tensor:
    """Return ``base ** exponent`` of whole exponents >= 0."""
    return (exponent * math.log2(base)).exp2() if base > 0.0 else where(exponent == 0.0, 1.0, exponent * 0.0)


def check_steps(name: str, steps: int) -> int:
    """Return a number of steps; raise `ShapeError` unless it is at least 1."""
    steps = as_index(steps, name)
    if steps < 1:
        raise ShapeError(f"{name} is at least 1, not {steps}")
    return steps
