"""Schedulers that are told of epochs by ``step()``, as in PyTorch; those of `zyx.optim.schedules` count steps.

    scheduler = zyx.optim.lr_scheduler.StepLR(optimizer, step_size=10, gamma=0.5)
    for epoch in range(30): ...; scheduler.step()

Rates are computed by the host, in Python's floats, from the rates that the groups have: so schedulers may be chained,
and a rate that somebody sets in between is what the next one is made of. In a traced function they are not seen to
change; there give ``lr=`` a schedule.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import TYPE_CHECKING

from zyx.errors import ArgumentError
from zyx.integers import as_integers, is_several
from zyx.optim.check import groups_of
from zyx.optim.epoch_cycles import ChainedScheduler, CyclicLR, OneCycleLR, SequentialLR
from zyx.optim.epochs import LRScheduler
from zyx.optim.phases import check_steps
from zyx.optim.plateau import ReduceLROnPlateau

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from zyx.optim.optimizer import Optimizer

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR", "ExponentialLR",
    "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR", "PolynomialLR",
    "ReduceLROnPlateau", "SequentialLR", "StepLR",
]  # fmt: skip


class StepLR(LRScheduler):
    """Rates times `gamma` after every `step_size` epochs.

    Raises:
        ShapeError: `step_size` is below 1.

    >>> optimizer = zyx.optim.SGD([zyx.ones(2, requires_grad=True)], lr=1.0)
    >>> scheduler = zyx.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5)
    >>> for epoch in range(2):
    ...     scheduler.step()
    >>> [round(lr, 4) for lr in scheduler.get_last_lr()]
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size, self.gamma = check_steps("step_size", step_size), gamma
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch: int) -> float:
        return self.gamma ** (epoch // self.step_size)


class MultiStepLR(LRScheduler):
    """Rates times `gamma` after each number of epochs in `milestones`.

    Raises:
        IntegerError: A milestone is no integer.
        ArgumentError: No optimiser, or a `last_epoch` other than -1.

    >>> optimizer = zyx.optim.SGD([zyx.ones(2, requires_grad=True)], lr=1.0)
    >>> scheduler = zyx.optim.lr_scheduler.MultiStepLR(optimizer, [1, 3], gamma=0.5)
    >>> for epoch in range(3):
    ...     scheduler.step()
    >>> [round(lr, 4) for lr in scheduler.get_last_lr()]
    [0.25]
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones, self.gamma = sorted(as_integers(milestones, "milestones")), gamma
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch: int) -> float:
        return self.gamma ** bisect_right(self.milestones, epoch)


class ExponentialLR(LRScheduler):
    """Rates times `gamma` after every epoch.

    Raises:
        ArgumentError: A `last_epoch` other than -1.

    >>> optimizer = zyx.optim.SGD([zyx.ones(2, requires_grad=True)], lr=1.0)
    >>> scheduler = zyx.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> for epoch in range(2):
    ...     scheduler.step()
    >>> [round(lr, 4) for lr in scheduler.get_last_lr()]
    [0.25]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch: int) -> float:
        return self.gamma**epoch


class ConstantLR(LRScheduler):
    """Rates times `factor` for `total_iters` epochs, then as they were.

    Raises:
        ShapeError: `total_iters` is below 1.

    >>> optimizer = zyx.optim.SGD([zyx.ones(2, requires_grad=True)], lr=1.0)
    >>> scheduler = zyx.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=4)
    >>> for epoch in range(3):
    ...     scheduler.step()
    >>> [round(lr, 4) for lr in scheduler.get_last_lr()]
    [0.5]
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3.0, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        self.start_factor, self.total_iters = factor, check_steps("total_iters", total_iters)
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch: int) -> float:
        return self.start_factor if epoch < self.total_iters else 1.0


class LinearLR(LRScheduler):
    """Rates times a factor that goes from `start_factor` to `end_factor` in `total_iters` epochs.

    Raises:
        ShapeError: `total_iters` is below 1.

    >>> optimizer = zyx.optim.SGD([zyx.ones(2, requires_grad=True)], lr=1.0)
    >>> scheduler = zyx.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.5, total_iters=4)
    >>> for epoch in range(2):
    ...     scheduler.step()
    >>> [round(lr, 4) for lr in scheduler.get_last_lr()]
    [0.75]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3.0,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        self.start_factor, self.end_factor = start_factor, end_factor
        self.total_iters = check_steps("total_iters", total_iters)
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch: int) -> float:
        part = min(epoch, self.total_iters) / self.total_iters
        return self.start_factor + (self.end_factor - self.start_factor) * part


class PolynomialLR(LRScheduler):
    """Rates times ``(1 - epoch / total_iters) ** power``, then 0.

    Raises:
        ShapeError: `total_iters` is below 1.

    >>> optimizer = zyx.optim.SGD([zyx.ones(2, requires_grad=True)], lr=1.0)
    >>> scheduler = zyx.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=4)
    >>> for epoch in range(2):
    ...     scheduler.step()
    >>> [round(lr, 4) for lr in scheduler.get_last_lr()]
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters, self.power = check_steps("total_iters", total_iters), power
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch: int) -> float:
        left: float = (1.0 - min(epoch, self.total_iters) / self.total_iters) ** self.power
        return left

    def next(self, place: int, lr: float) -> float:
        return 0.0 if self.last_epoch >= self.total_iters else super().next(place, lr)


class CosineAnnealingLR(LRScheduler):
    """Rates down to `eta_min` in `T_max` epochs along half a cosine, and up again in as many.

    Loshchilov and Hutter, "SGDR: stochastic gradient descent with warm restarts", 2016.

    Raises:
        ShapeError: `T_max` is below 1.

    >>> optimizer = zyx.optim.SGD([zyx.ones(2, requires_grad=True)], lr=1.0)
    >>> scheduler = zyx.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=4)
    >>> for epoch in range(2):
    ...     scheduler.step()
    >>> [round(lr, 4) for lr in scheduler.get_last_lr()]
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max, self.floor = check_steps("T_max", T_max), eta_min
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch: int) -> float:
        turn = epoch % (2 * self.T_max)
        return 0.0 if turn == self.T_max else (1.0 + math.cos(math.pi * turn / self.T_max)) / 2.0


class CosineAnnealingWarmRestarts(LRScheduler):
    """Rates down to `eta_min` along half a cosine, again and again; each time takes `T_mult` times as long.

    Raises:
        ShapeError: `T_0` is below 1.

    >>> optimizer = zyx.optim.SGD([zyx.ones(2, requires_grad=True)], lr=1.0)
    >>> scheduler = zyx.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=4)
    >>> for epoch in range(2):
    ...     scheduler.step()
    >>> [round(lr, 4) for lr in scheduler.get_last_lr()]
    [0.5]
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_0, self.T_mult, self.floor = check_steps("T_0", T_0), check_steps("T_mult", T_mult), eta_min
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch: int) -> float:
        length = self.T_0
        while epoch >= length and self.T_mult > 1:
            epoch -= length
            length *= self.T_mult
        return (1.0 + math.cos(math.pi * (epoch % length) / length)) / 2.0

    def next(self, place: int, lr: float) -> float:
        return self.floor + (self.base_lrs[place] - self.floor) * self.factor(self.last_epoch)


class LambdaLR(LRScheduler):
    """The first rates times what `lr_lambda`, one for all groups or one for each, returns for the epoch.

    Raises:
        ArgumentError: No function, or another number of functions than groups.

    >>> optimizer = zyx.optim.SGD([zyx.ones(2, requires_grad=True)], lr=1.0)
    >>> scheduler = zyx.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.5**epoch)
    >>> for epoch in range(2):
    ...     scheduler.step()
    >>> [round(lr, 4) for lr in scheduler.get_last_lr()]
    [0.25]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        count = len(groups_of(optimizer, type(self).__name__))
        given = list(lr_lambda) if is_several(lr_lambda) else [lr_lambda] * count
        self.lr_lambdas = [each for each in given if callable(each)]
        if len(self.lr_lambdas) < len(given):
            raise ArgumentError(f"{type(self).__name__}: lr_lambda is a function or several, not {lr_lambda!r}")
        if len(self.lr_lambdas) != count:
            raise ArgumentError(f"{type(self).__name__}: {len(self.lr_lambdas)} functions for {count} groups")
        super().__init__(optimizer, last_epoch)

    def first(self, place: int, lr: float) -> float:
        return self.base_lrs[place] * float(self.lr_lambdas[place](0))

    def next(self, place: int, lr: float) -> float:
        return self.base_lrs[place] * float(self.lr_lambdas[place](self.last_epoch))


class MultiplicativeLR(LambdaLR):
    """Rates times what `lr_lambda` returns for the epoch, after each.

    Raises:
        ArgumentError: No function, or another number of functions than groups.

    >>> optimizer = zyx.optim.SGD([zyx.ones(2, requires_grad=True)], lr=1.0)
    >>> scheduler = zyx.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda epoch: 0.5)
    >>> for epoch in range(2):
    ...     scheduler.step()
    >>> [round(lr, 4) for lr in scheduler.get_last_lr()]
    [0.25]
    """

    def first(self, place: int, lr: float) -> float:
        return lr

    def next(self, place: int, lr: float) -> float:
        return lr * float(self.lr_lambdas[place](self.last_epoch))
