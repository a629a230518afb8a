"""What schedulers that are told of epochs share; see `zyx.optim.lr_scheduler`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zyx.errors import ArgumentError, DTypeError
from zyx.optim.check import groups_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.optim.optimizer import Optimizer


class LRScheduler:
    """Sets the rates of an optimiser's groups, one epoch after the other. Subclasses say by what `factor`.

    The rate above `floor` is multiplied by ``factor(epoch) / factor(epoch - 1)`` in each epoch.

    Attributes:
        optimizer: Whose rates.
        base_lrs: The rates of each group before it had a scheduler.
        last_epoch: How many calls of `step` there were.

    Raises:
        ArgumentError: No optimiser, or a `last_epoch` other than -1.
        DTypeError: A learning rate that is no number.

    >>> class Halving(zyx.optim.lr_scheduler.LRScheduler):
    ...     def factor(self, epoch):
    ...         return 0.5**epoch
    >>> optimizer = zyx.optim.SGD([zyx.ones(2, requires_grad=True)], lr=1.0)
    >>> scheduler = Halving(optimizer)
    >>> scheduler.step()
    >>> optimizer.lr
    0.5
    """

    floor: float = 0.0

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        """Take the optimiser, and set the rates of epoch 0.

        Raises:
            DTypeError: A learning rate that is no number.
            ArgumentError: No optimiser, or a `last_epoch` other than -1.
        """
        if last_epoch != -1:
            raise ArgumentError(f"{type(self).__name__}: last_epoch is -1, not {last_epoch}; see load_state_dict")
        groups = groups_of(optimizer, type(self).__name__)
        self.optimizer = optimizer
        for group, rate in zip(groups, self.get_last_lr(), strict=True):
            group.initial_lr = rate if group.initial_lr is None else group.initial_lr
        self.base_lrs = [group.initial_lr or 0.0 for group in groups]
        self.begin(self.get_last_lr())

    def begin(self, rates: Sequence[float] | None = None) -> None:
        """Set the rates of epoch 0, which follow from `rates`, or from those before there was a scheduler."""
        self.last_epoch = 0
        self._set([self.first(place, rate) for place, rate in enumerate(self.base_lrs if rates is None else rates)])

    def factor(self, epoch: int) -> float:
        """Return what a rate is multiplied by in all the epochs up to this one."""
        raise NotImplementedError

    def first(self, place: int, lr: float) -> float:
        """Return the rate of group `place` in epoch 0, which is `lr` before."""
        return self.floor + (lr - self.floor) * self.factor(0)

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
        if state.keys() != {"base_lrs", "last_epoch"} or len(state["base_lrs"]) != len(self.base_lrs):
            raise ArgumentError(f"{type(self).__name__} has base_lrs of {len(self.base_lrs)} groups and last_epoch")
        self.base_lrs, self.last_epoch = list(state["base_lrs"]), state["last_epoch"]
