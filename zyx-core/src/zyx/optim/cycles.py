"""Schedules in parts: constant, linear and polynomial ones, cycles, and schedules put together. See `schedules`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from zyx.dtype import float32
from zyx.errors import ArgumentError, ShapeError
from zyx.functions.arithmetic import minimum
from zyx.functions.choosing import where
from zyx.functions.selection import take
from zyx.integers import as_integers
from zyx.optim.phases import check_steps, half_cosine
from zyx.optim.schedules import Schedule, power
from zyx.tensor.creation import asarray

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.tensor.tensor import Tensor


@dataclass(frozen=True, slots=True)
class ConstantLR(Schedule):
    """`lr` times `factor` for `total_iters` steps, then `lr`.

    Raises:
        ShapeError: `total_iters` is below 1.

    >>> rate = zyx.optim.ConstantLR(1.0, factor=0.5, total_iters=2)
    >>> [round(rate(zyx.Tensor(step)).item(), 4) for step in (0, 1, 2)]
    [0.5, 0.5, 1.0]
    """

    lr: float
    factor: float = 1.0 / 3.0
    total_iters: int = 5

    def __post_init__(self) -> None:
        object.__setattr__(self, "total_iters", check_steps("total_iters", self.total_iters))

    def __call__(self, step: Tensor) -> Tensor:
        return where(step < self.total_iters, self.lr * self.factor, self.lr).astype(float32)


@dataclass(frozen=True, slots=True)
class LinearLR(Schedule):
    """`lr` times a factor that goes from `start_factor` to `end_factor` in `total_iters` steps.

    Raises:
        ShapeError: `total_iters` is below 1.

    >>> rate = zyx.optim.LinearLR(1.0, start_factor=0.5, total_iters=2)
    >>> [round(rate(zyx.Tensor(step)).item(), 4) for step in (0, 1, 2)]
    [0.5, 0.75, 1.0]
    """

    lr: float
    start_factor: float = 1.0 / 3.0
    end_factor: float = 1.0
    total_iters: int = 5

    def __post_init__(self) -> None:
        object.__setattr__(self, "total_iters", check_steps("total_iters", self.total_iters))

    def __call__(self, step: Tensor) -> Tensor:
        part = minimum(step, self.total_iters).astype(float32) / self.total_iters
        return (part * (self.end_factor - self.start_factor) + self.start_factor) * self.lr


@dataclass(frozen=True, slots=True)
class PolynomialLR(Schedule):
    """`lr` times ``(1 - step / total_iters) ** power``, then 0.

    Raises:
        ShapeError: `total_iters` is below 1.

    >>> rate = zyx.optim.PolynomialLR(1.0, total_iters=4)
    >>> [round(rate(zyx.Tensor(step)).item(), 4) for step in (0, 1, 4)]
    [1.0, 0.75, 0.0]
    """

    lr: float
    total_iters: int = 5
    power: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "total_iters", check_steps("total_iters", self.total_iters))

    def __call__(self, step: Tensor) -> Tensor:
        left = (self.total_iters - minimum(step, self.total_iters)).astype(float32) / self.total_iters
        return left**self.power * self.lr


@dataclass(frozen=True, slots=True)
class MultiplicativeLR(Schedule):
    """`lr` times ``lr_lambda(1) * .. * lr_lambda(step)``; factors are Python's, and known for `total_steps` steps.

    PyTorch's goes on without an end: there the host computes each rate. Behind the last factor the rate stays.

    Raises:
        ShapeError: `total_steps` is below 1.

    >>> rate = zyx.optim.MultiplicativeLR(1.0, lambda step: 0.5, total_steps=4)
    >>> [round(rate(zyx.Tensor(step)).item(), 4) for step in (0, 1, 2)]
    [1.0, 0.5, 0.25]
    """

    lr: float
    lr_lambda: Callable[[int], float]
    total_steps: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "total_steps", check_steps("total_steps", self.total_steps))

    def __call__(self, step: Tensor) -> Tensor:
        factors = [1.0, *(float(self.lr_lambda(number)) for number in range(1, self.total_steps + 1))]
        rates = asarray((self.lr * np.cumprod(factors)).astype(np.float32), device=step.device)
        return take(rates, minimum(step, self.total_steps).reshape(1), 0).reshape(())


@dataclass(frozen=True, slots=True)
class CosineAnnealingWarmRestarts(Schedule):
    """From `lr` down to `eta_min` along half a cosine, again and again; each time takes `T_mult` times as long.

    Loshchilov and Hutter, "SGDR: stochastic gradient descent with warm restarts", 2016.

    Raises:
        ShapeError: `T_0` is below 1.

    >>> rate = zyx.optim.CosineAnnealingWarmRestarts(1.0, T_0=2)
    >>> [round(rate(zyx.Tensor(step)).item(), 4) for step in (0, 1, 2)]
    [1.0, 0.5, 1.0]
    """

    lr: float
    T_0: int
    T_mult: int = 1
    eta_min: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "T_0", check_steps("T_0", self.T_0))
        object.__setattr__(self, "T_mult", check_steps("T_mult", self.T_mult))

    def __call__(self, step: Tensor) -> Tensor:
        if self.T_mult == 1:
            part = (step % self.T_0).astype(float32) / self.T_0
            return half_cosine(self.lr, self.eta_min, part)
        starts, lengths = [0], [self.T_0]
        while starts[-1] + lengths[-1] < 1 << 40:  # more steps than anybody makes
            starts.append(starts[-1] + lengths[-1])
            lengths.append(lengths[-1] * self.T_mult)
        begun = (asarray(starts, device=step.device) <= step.reshape(())).sum().reshape(1) - 1
        start, length = (take(asarray(each, device=step.device), begun, 0).reshape(()) for each in (starts, lengths))
        return half_cosine(self.lr, self.eta_min, (step - start).astype(float32) / length.astype(float32))


@dataclass(frozen=True, slots=True)
class CyclicLR(Schedule):
    """From `base_lr` to `max_lr` in `step_size_up` steps and back in `step_size_down`, again and again.

    Smith, "Cyclical learning rates for training neural networks", 2015.

    Attributes:
        base_lr: The least rate.
        max_lr: The greatest rate of the first cycle.
        step_size_up: Steps of the way up.
        step_size_down: Steps of the way down; None is as many.
        mode: What the height of a cycle is multiplied by: "triangular" 1, "triangular2" one half for each cycle before,
            "exp_range" ``gamma ** step``.
        gamma: See `mode`.
        scale_fn: What the height is multiplied by instead: of the number of the cycle, counted from 1, or of the step.
        scale_mode: Of which: "cycle" or "iterations".

    Raises:
        ShapeError: `step_size_up` is below 1.
        ArgumentError: Another `mode` or `scale_mode`.

    >>> rate = zyx.optim.CyclicLR(0.0, 1.0, step_size_up=2)
    >>> [round(rate(zyx.Tensor(step)).item(), 4) for step in (0, 1, 2, 3)]
    [0.0, 0.5, 1.0, 0.5]
    """

    base_lr: float
    max_lr: float
    step_size_up: int = 2000
    step_size_down: int | None = None
    mode: str = "triangular"
    gamma: float = 1.0
    scale_fn: Callable[[Tensor], Tensor] | None = None
    scale_mode: str = "cycle"

    def __post_init__(self) -> None:
        object.__setattr__(self, "step_size_up", check_steps("step_size_up", self.step_size_up))
        if self.step_size_down is not None:
            object.__setattr__(self, "step_size_down", check_steps("step_size_down", self.step_size_down))
        check_modes(self.mode, self.scale_mode)

    def __call__(self, step: Tensor) -> Tensor:
        up = self.step_size_up
        down = up if self.step_size_down is None else self.step_size_down
        place = (step % (up + down)).astype(float32)
        height = where(place <= up, place / up, (float(up + down) - place) / down)
        if self.scale_fn is not None:
            number = (step // (up + down) + 1) if self.scale_mode == "cycle" else step
            height = height * self.scale_fn(number.astype(float32))
        elif self.mode == "triangular2":
            height = height * power(0.5, (step // (up + down)).astype(float32))
        elif self.mode == "exp_range":
            height = height * power(self.gamma, step.astype(float32))
        return height * (self.max_lr - self.base_lr) + self.base_lr


def check_modes(mode: str, scale_mode: str) -> None:
    """Raise `ArgumentError` unless these are modes of `CyclicLR`."""
    if mode not in ("triangular", "triangular2", "exp_range"):
        raise ArgumentError(f'CyclicLR: mode is "triangular", "triangular2" or "exp_range", not {mode!r}')
    if scale_mode not in ("cycle", "iterations"):
        raise ArgumentError(f'CyclicLR: scale_mode is "cycle" or "iterations", not {scale_mode!r}')


@dataclass(frozen=True, slots=True)
class SequentialLR(Schedule):
    """Schedules one after the other: each begins at its milestone, counting steps from there; the first at 0.

    Raises:
        ShapeError: Milestones that are not one fewer than schedules, or not ascending.

    >>> up, down = zyx.optim.LinearLR(1.0, 0.5, 1.0, 2), zyx.optim.ExponentialLR(1.0, 0.5)
    >>> rate = zyx.optim.SequentialLR([up, down], [2])
    >>> [rate(zyx.Tensor(step)).item() for step in (0, 1, 2, 3)]
    [0.5, 0.75, 1.0, 0.5]
    """

    schedulers: Sequence[Schedule]
    milestones: Sequence[int]

    def __post_init__(self) -> None:
        edges = as_integers(self.milestones, "milestones")
        if len(self.schedulers) != len(edges) + 1 or list(edges) != sorted(set(edges)):
            raise ShapeError(
                f"SequentialLR: {len(self.schedulers)} schedules take one milestone less, ascending, not {edges}"
            )
        object.__setattr__(self, "milestones", edges)

    def __call__(self, step: Tensor) -> Tensor:
        rate = self.schedulers[0](step)
        for schedule, edge in zip(self.schedulers[1:], self.milestones, strict=True):
            begun = step >= edge
            rate = where(begun, schedule(where(begun, step - edge, 0)), rate)
        return rate


@dataclass(frozen=True, slots=True)
class ChainedScheduler(Schedule):
    """The rate of the first schedule, times what each of the others makes of its own `lr`.

    Raises:
        ArgumentError: No schedules, or one without an `lr` above 0 behind the first.

    >>> rate = zyx.optim.ChainedScheduler([zyx.optim.ExponentialLR(1.0, 0.5), zyx.optim.ConstantLR(1.0, 0.5, 1)])
    >>> [round(rate(zyx.Tensor(step)).item(), 4) for step in (0, 1, 2)]
    [0.5, 0.5, 0.25]
    """

    schedulers: Sequence[Schedule]

    def __post_init__(self) -> None:
        if not self.schedulers:
            raise ArgumentError("ChainedScheduler takes at least one schedule")
        for schedule in self.schedulers[1:]:
            lr = getattr(schedule, "lr", 0.0)
            if not isinstance(lr, int | float) or not lr > 0.0 or not math.isfinite(lr):
                raise ArgumentError(f"ChainedScheduler: {type(schedule).__name__} has no lr above 0 to be divided by")

    def __call__(self, step: Tensor) -> Tensor:
        rate = self.schedulers[0](step)
        for schedule in self.schedulers[1:]:
            rate = rate * (schedule(step) / getattr(schedule, "lr"))  # noqa: B009  # of schedules that have one
        return rate
