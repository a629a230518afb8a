"""Schedulers that are told of epochs by ``step()``, as in PyTorch; those of `zyx.optim.schedules` count steps.

    scheduler = zyx.optim.lr_scheduler.StepLR(optimizer, step_size=10, gamma=0.5)
    for epoch in range(30): ...; scheduler.step()

Rates are computed by the host, in Python's floats, from the rates that the groups have: so schedulers may be chained,
and a rate that somebody sets in between is what the next one is made of. In a traced function they are not seen to
change; there give ``lr=`` a schedule. What rises and falls from step to step, such as `zyx.optim.OneCycleLR`, is a
schedule alone.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from zyx.errors import ArgumentError, DTypeError
from zyx.optim.plateau import ReduceLROnPlateau
from zyx.optim.schedules import check_steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from zyx.optim.optimizer import Optimizer

__all__ = [
    "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "ExponentialLR", "LRScheduler", "LambdaLR",
    "LinearLR", "MultiStepLR", "MultiplicativeLR", "PolynomialLR", "ReduceLROnPlateau", "StepLR",
]  # fmt: skip


class LRScheduler:
    """Sets the rates of an optimiser's groups, one epoch after the other. Subclasses say by what `factor`.

    The rate above `floor` is multiplied by ``factor(epoch) / factor(epoch - 1)`` in each epoch.

    Attributes:
        optimizer: Whose rates.
        base_lrs: The rates at first, of each group.
        last_epoch: How many calls of `step` there were.
    """

    floor: float = 0.0

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        """Take the optimiser, and set the rates of epoch 0.

        Raises:
            DTypeError: A learning rate that is no number.
            ArgumentError: A `last_epoch` other than -1.
        """
        if last_epoch != -1:
            raise ArgumentError(f"{type(self).__name__}: last_epoch is -1, not {last_epoch}; see load_state_dict")
        self.optimizer = optimizer
        self.base_lrs = self.get_last_lr()
        self.last_epoch = 0
        self._set([self.first(place) for place in range(len(self.base_lrs))])

    def factor(self, epoch: int) -> float:
        """Return what a rate is multiplied by in all the epochs up to this one."""
        raise NotImplementedError

    def first(self, place: int) -> float:
        """Return the rate of group `place` in epoch 0."""
        return self.floor + (self.base_lrs[place] - self.floor) * self.factor(0)

    def next(self, place: int, lr: float) -> float:
        """Return the rate of group `place` in `last_epoch`, which is `lr` in the epoch before."""
        before, now = self.factor(self.last_epoch - 1), self.factor(self.last_epoch)
        if not before:  # at the floor: up from there
            return lr + (self.base_lrs[place] - self.floor) * now
        return self.floor + (lr - self.floor) / before * now

    def step(self, epoch: None = None) -> None:
        """Begin the next epoch."""
        self.last_epoch += 1
        self._set([self.next(place, rate) for place, rate in enumerate(self.get_last_lr())])

    def get_last_lr(self) -> list[float]:
        """Return the rates of the groups now.

        Raises:
            DTypeError: A learning rate that is no number.
        """
        rates = [group.lr for group in self.optimizer.param_groups]
        for rate in rates:
            if not isinstance(rate, int | float):
                raise DTypeError(
                    f"{type(self).__name__} changes learning rates that are numbers, not {type(rate).__name__}"
                )
        return [float(rate) for rate in rates]  # type: ignore[arg-type]  # numbers, see above

    def _set(self, rates: Sequence[float]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group.set_rate(rate)
            if not group.has_own_rate:
                self.optimizer._first_rate = rate

    def state_dict(self) -> dict[str, Any]:
        """Return all that changes, as numbers; the rates are in the state of the optimiser."""
        return {"base_lrs": list(self.base_lrs), "last_epoch": self.last_epoch}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` returned.

        Raises:
            ArgumentError: Something else.
        """
        if state.keys() != self.state_dict().keys() or len(state["base_lrs"]) != len(self.base_lrs):
            raise ArgumentError(f"{type(self).__name__} has base_lrs of {len(self.base_lrs)} groups and last_epoch")
        self.base_lrs, self.last_epoch = list(state["base_lrs"]), state["last_epoch"]


class StepLR(LRScheduler):
    """Rates times `gamma` after every `step_size` epochs."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size, self.gamma = check_steps("step_size", step_size), gamma
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch: int) -> float:
        return self.gamma ** (epoch // self.step_size)


class MultiStepLR(LRScheduler):
    """Rates times `gamma` after each number of epochs in `milestones`."""

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones, self.gamma = sorted(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch: int) -> float:
        return self.gamma ** bisect_right(self.milestones, epoch)


class ExponentialLR(LRScheduler):
    """Rates times `gamma` after every epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch: int) -> float:
        return self.gamma**epoch


class ConstantLR(LRScheduler):
    """Rates times `factor` for `total_iters` epochs, then as they were."""

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3.0, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        self.start_factor, self.total_iters = factor, check_steps("total_iters", total_iters)
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch: int) -> float:
        return self.start_factor if epoch < self.total_iters else 1.0


class LinearLR(LRScheduler):
    """Rates times a factor that goes from `start_factor` to `end_factor` in `total_iters` epochs."""

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
    """Rates times ``(1 - epoch / total_iters) ** power``, then 0."""

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
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max, self.floor = check_steps("T_max", T_max), eta_min
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch: int) -> float:
        turn = epoch % (2 * self.T_max)
        return 0.0 if turn == self.T_max else (1.0 + math.cos(math.pi * turn / self.T_max)) / 2.0


class CosineAnnealingWarmRestarts(LRScheduler):
    """Rates down to `eta_min` along half a cosine, again and again; each time takes `T_mult` times as long."""

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
    """The first rates times what `lr_lambda`, one for all groups or one for each, returns for the epoch."""

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        count = len(optimizer.param_groups)
        self.lr_lambdas = [lr_lambda] * count if callable(lr_lambda) else list(lr_lambda)
        if len(self.lr_lambdas) != count:
            raise ArgumentError(f"{type(self).__name__}: {len(self.lr_lambdas)} functions for {count} groups")
        super().__init__(optimizer, last_epoch)

    def first(self, place: int) -> float:
        return self.base_lrs[place] * float(self.lr_lambdas[place](0))

    def next(self, place: int, lr: float) -> float:
        return self.base_lrs[place] * float(self.lr_lambdas[place](self.last_epoch))


class MultiplicativeLR(LambdaLR):
    """Rates times what `lr_lambda` returns for the epoch, after each."""

    def first(self, place: int) -> float:
        return self.base_lrs[place]

    def next(self, place: int, lr: float) -> float:
        return lr * float(self.lr_lambdas[place](self.last_epoch))
