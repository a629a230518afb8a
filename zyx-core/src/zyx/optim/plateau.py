"""A learning rate that falls when a measure stays where it is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from zyx.errors import ArgumentError, DTypeError, ShapeError
from zyx.functions.operands import is_tensor
from zyx.integers import as_index
from zyx.optim.check import check_range, groups_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.optim.optimizer import Optimizer
    from zyx.optim.param_groups import ParamGroup
    from zyx.tensor.tensor import Tensor


class ReduceLROnPlateau:
    """Multiplies the learning rates of an optimiser by a factor when a measure has not become better for a while.

    It reads the measure, so it is no `Schedule`: call `step` outside of traced functions, once an epoch. Learning rates
    must be numbers.

    A measure that is a tensor has one element.

    Attributes:
        best: The best measure so far.
        num_bad_epochs: How many calls since then.
        cooldown_counter: How many calls are left in which nothing counts.
        last_epoch: How many calls there were.

    Raises:
        ArgumentError: Another `mode` or `threshold_mode`.

    >>> optimizer = zyx.optim.SGD([zyx.ones(2, requires_grad=True)], lr=1.0)
    >>> scheduler = zyx.optim.ReduceLROnPlateau(optimizer, factor=0.5, patience=0)
    >>> for loss in (3.0, 3.0):
    ...     scheduler.step(loss)
    >>> optimizer.lr
    0.5
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0.0,
        eps: float = 1e-8,
    ) -> None:
        """Take the optimiser.

        Args:
            optimizer: Whose rates fall.
            mode: Whether the measure is to become "min" or "max".
            factor: What rates are multiplied by, below 1.
            patience: How many calls without a better measure are borne.
            threshold: How much better counts as better.
            threshold_mode: Whether that is a share, "rel", or a difference, "abs".
            cooldown: How many calls after a fall do not count.
            min_lr: The least rate, of all groups or each.
            eps: A fall by less than this does not happen.

        Raises:
            ShapeError: `factor` is not below 1, or another number of `min_lr` than groups.
            ArgumentError: No optimiser, or an unknown mode.
        """
        check_range("factor", factor, 0.0, 1.0)
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise ArgumentError(
                f'ReduceLROnPlateau: mode is "min" or "max" and threshold_mode "rel" or "abs", not {mode!r} and '
                f"{threshold_mode!r}"
            )
        groups = groups_of(optimizer, "ReduceLROnPlateau")
        self.min_lrs = [min_lr] * len(groups) if isinstance(min_lr, int | float) else list(min_lr)
        if len(self.min_lrs) != len(groups):
            raise ShapeError(f"ReduceLROnPlateau: {len(self.min_lrs)} least rates for {len(groups)} groups")
        self.optimizer, self.mode, self.factor = optimizer, mode, factor
        self.patience, self.cooldown = as_index(patience, "patience"), as_index(cooldown, "cooldown")
        self.threshold, self.threshold_mode, self.eps = threshold, threshold_mode, eps
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = self.cooldown_counter = self.last_epoch = 0

    def step(self, metrics: float | Tensor) -> None:
        """Take the measure of an epoch, and let the rates fall if it is time.

        Raises:
            DTypeError: A learning rate that is no number.
        """
        current = float(metrics.item()) if is_tensor(metrics) else float(metrics)
        self.last_epoch += 1
        if self._is_better(current):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for group, least in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
                self._reduce(group, least)
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0

    def _is_better(self, current: float) -> bool:
        sign = 1.0 if self.mode == "min" else -1.0
        if self.threshold_mode == "abs":
            return sign * current < sign * self.best - self.threshold
        edge = self.best * (1.0 - sign * self.threshold)
        return sign * current < sign * edge

    def _reduce(self, group: ParamGroup, least: float) -> None:
        old = group.lr
        if not isinstance(old, int | float):
            raise DTypeError(f"ReduceLROnPlateau changes learning rates that are numbers, not {type(old).__name__}")
        new = max(old * self.factor, least)
        if old - new > self.eps:
            group.set_rate(new)
            if not group.has_own_rate:
                self.optimizer._first_rate = new

    def state_dict(self) -> dict[str, Any]:
        """Return all that changes, as numbers."""
        return {name: getattr(self, name) for name in ("best", "num_bad_epochs", "cooldown_counter", "last_epoch")}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` returned.

        Raises:
            ArgumentError: Something else.
        """
        if state.keys() != self.state_dict().keys():
            raise ArgumentError(f"ReduceLROnPlateau has {', '.join(self.state_dict())}, not {', '.join(state)}")
        vars(self).update(state)
