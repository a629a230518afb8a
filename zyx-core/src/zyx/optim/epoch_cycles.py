"""Cycles that are told of steps by ``step()``, with the momentum against the rate, and schedulers put together.

PyTorch's of the same names have these values. Behind the last step of a cycle the rate stays, where PyTorch's ends.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from zyx.errors import ArgumentError, ShapeError
from zyx.integers import as_integers
from zyx.optim.check import groups_of
from zyx.optim.cycles import check_modes
from zyx.optim.epochs import LRScheduler
from zyx.optim.phases import anneal, check_anneal, check_steps, one_cycle, steps_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zyx.optim.optimizer import Optimizer


class _Cycle(LRScheduler):
    """Sets the rates, and what stays of the direction before: the momentum, or the first of the betas."""

    def __init__(self, optimizer: Optimizer, cycle_momentum: bool, last_epoch: int) -> None:
        """Take the optimiser, and set rates and momentum of step 0.

        Raises:
            ArgumentError: An optimiser without momentum or betas; a `last_epoch` other than -1.
            StateError: An optimiser that was made with the momentum 0, and so keeps no direction.
            ShapeError: Another number of values than groups.
        """
        self.cycle_momentum = cycle_momentum
        self._name = next((name for name in ("betas", "momentum") if name in optimizer.settings), "")
        if cycle_momentum and not self._name:
            raise ArgumentError(
                f"{type(self).__name__}: {type(optimizer).__name__} has no momentum and no betas; give "
                "cycle_momentum=False"
            )
        super().__init__(optimizer, last_epoch)
        optimizer.check_state()

    def rate(self, place: int, step: int) -> float:
        """Return the rate of group `place`."""
        raise NotImplementedError

    def momentum(self, place: int, step: int) -> float:
        """Return the momentum of group `place`."""
        raise NotImplementedError

    def first(self, place: int, lr: float) -> float:
        return self.rate(place, 0)

    def next(self, place: int, lr: float) -> float:
        return self.rate(place, self.last_epoch)

    def _set(self, rates: Sequence[float]) -> None:
        super()._set(rates)
        if self.cycle_momentum:
            for place, group in enumerate(self.optimizer.param_groups):
                value = self.momentum(place, self.last_epoch)
                group[self._name] = value if self._name == "momentum" else (value, *group[self._name][1:])

    def _each(self, given: float | Sequence[float], name: str) -> list[float]:
        """Return a value for each group."""
        count = len(groups_of(self.optimizer, type(self).__name__))
        found = [float(given)] * count if isinstance(given, int | float) else [float(each) for each in given]
        if len(found) != count:
            raise ShapeError(f"{type(self).__name__}: {len(found)} {name} for {count} groups")
        return found


class OneCycleLR(_Cycle):
    """Up from ``max_lr / div_factor`` to `max_lr`, then down to ``max_lr / div_factor / final_div_factor``.

    The momentum goes from `max_momentum` to `base_momentum` and back meanwhile. See `zyx.optim.phases`.

    Raises:
        ArgumentError: No number of steps.
        StateError: `cycle_momentum` with an optimiser that was made without momentum.

    >>> optimizer = zyx.optim.SGD([zyx.ones(2, requires_grad=True)], lr=1.0)
    >>> scheduler = zyx.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=10, cycle_momentum=False)
    >>> for epoch in range(3):
    ...     scheduler.step()
    >>> [round(lr, 4) for lr in scheduler.get_last_lr()]
    [0.9505]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | Sequence[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.85,
        max_momentum: float | Sequence[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        """Take the optimiser, and set rates and momentum of step 0.

        Args:
            optimizer: Whose rates.
            max_lr: The greatest rate, of all groups or each.
            total_steps: How many steps the cycle has; None is `epochs` times `steps_per_epoch`.
            epochs: See `total_steps`.
            steps_per_epoch: Likewise.
            pct_start: The share of them in which the rate rises, 0 to 1.
            anneal_strategy: Whether ways are half cosines, "cos", or "linear".
            cycle_momentum: Whether the momentum, or the first of the betas, is set as well.
            base_momentum: The least momentum, of all groups or each.
            max_momentum: The greatest one.
            div_factor: What `max_lr` is divided by at first.
            final_div_factor: What that is divided by at last.
            three_phase: Whether the rate comes down to the first one in as many steps as it rose, and then to the last.
            last_epoch: -1.

        Raises:
            ArgumentError: No number of steps, an unknown strategy, or an optimiser without momentum or betas.
            StateError: An optimiser that was made with the momentum 0.
            ShapeError: A number out of its range, or another number of values than groups.
        """
        self.optimizer = optimizer
        self.total_steps = steps_of(total_steps, epochs, steps_per_epoch)
        self._phases = one_cycle(self.total_steps, pct_start, three_phase)
        self._strategy = check_anneal(anneal_strategy)
        tops = self._each(max_lr, "max_lr")
        self._rates = [(top / div_factor, top, top / div_factor / final_div_factor) for top in tops]
        least, most = self._each(base_momentum, "base_momentum"), self._each(max_momentum, "max_momentum")
        self._momenta = [(high, low, high) for low, high in zip(least, most, strict=True)]
        super().__init__(optimizer, cycle_momentum, last_epoch)

    def rate(self, place: int, step: int) -> float:
        return self._along(self._rates[place], step)

    def momentum(self, place: int, step: int) -> float:
        return self._along(self._momenta[place], step)

    def _along(self, values: tuple[float, float, float], step: int) -> float:
        begun = 0.0
        for phase in self._phases:
            if step <= phase.end or phase is self._phases[-1]:
                break
            begun = phase.end
        width = phase.end - begun
        part = min((step - begun) / width, 1.0) if width > 0.0 else 1.0
        return anneal(self._strategy, values[phase.start], values[phase.stop], part)


class CyclicLR(_Cycle):
    """From `base_lr` to `max_lr` in `step_size_up` steps and back in `step_size_down`, again and again.

    The momentum goes from `max_momentum` to `base_momentum` and back meanwhile. Smith, "Cyclical learning rates for
    training neural networks", 2015.

    Raises:
        ShapeError: `step_size_up` is below 1.
        StateError: `cycle_momentum` with an optimiser that was made without momentum.

    >>> optimizer = zyx.optim.SGD([zyx.ones(2, requires_grad=True)], lr=1.0)
    >>> scheduler = zyx.optim.lr_scheduler.CyclicLR(optimizer, 0.0, 1.0, step_size_up=4, cycle_momentum=False)
    >>> for epoch in range(2):
    ...     scheduler.step()
    >>> [round(lr, 4) for lr in scheduler.get_last_lr()]
    [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | Sequence[float],
        max_lr: float | Sequence[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.8,
        max_momentum: float | Sequence[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        """Take the optimiser, and set rates and momentum of step 0.

        Args:
            optimizer: Whose rates.
            base_lr: The least rate, of all groups or each.
            max_lr: The greatest rate of the first cycle, likewise.
            step_size_up: Steps of the way up.
            step_size_down: Steps of the way down; None is as many.
            mode: What the height of a cycle is multiplied by: "triangular" 1, "triangular2" one half for each cycle
                before, "exp_range" ``gamma ** step``.
            gamma: See `mode`.
            scale_fn: What the height is multiplied by instead: of the number of the cycle, from 1, or of the step.
            scale_mode: Of which: "cycle" or "iterations".
            cycle_momentum: Whether the momentum, or the first of the betas, is set as well.
            base_momentum: The least momentum of the first cycle, of all groups or each.
            max_momentum: The greatest one.
            last_epoch: -1.

        Raises:
            ArgumentError: An unknown mode, or an optimiser without momentum or betas.
            StateError: An optimiser that was made with the momentum 0.
            ShapeError: Steps below 1, or another number of values than groups.
        """
        self.optimizer = optimizer
        self._up = check_steps("step_size_up", step_size_up)
        self._down = self._up if step_size_down is None else check_steps("step_size_down", step_size_down)
        check_modes(mode, scale_mode)
        self._scale = (
            scale_fn
            or {
                "triangular": lambda number: 1.0,
                "triangular2": lambda number: 0.5 ** (number - 1.0),
                "exp_range": lambda number: gamma**number,
            }[mode]
        )
        self._by_cycle = scale_mode == "cycle" if scale_fn is not None else mode != "exp_range"
        self._rates = list(zip(self._each(base_lr, "base_lr"), self._each(max_lr, "max_lr"), strict=True))
        least, most = self._each(base_momentum, "base_momentum"), self._each(max_momentum, "max_momentum")
        self._momenta = list(zip(most, least, strict=True))
        super().__init__(optimizer, cycle_momentum, last_epoch)

    def rate(self, place: int, step: int) -> float:
        return self._at(self._rates[place], step)

    def momentum(self, place: int, step: int) -> float:
        return self._at(self._momenta[place], step)

    def _at(self, ends: tuple[float, float], step: int) -> float:
        cycle, within = divmod(step, self._up + self._down)
        height = within / self._up if within <= self._up else (self._up + self._down - within) / self._down
        return ends[0] + (ends[1] - ends[0]) * height * self._scale(cycle + 1.0 if self._by_cycle else step)


class _Several(LRScheduler):
    """Of several schedulers of one optimiser.

    Attributes:
        schedulers: The schedulers.
    """

    schedulers: Sequence[LRScheduler]

    def _take(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None) -> Optimizer:
        self.schedulers = list(schedulers)
        if not self.schedulers:
            raise ArgumentError(f"{type(self).__name__} takes at least one scheduler")
        wanted = optimizer or getattr(self.schedulers[0], "optimizer", None)
        for scheduler in self.schedulers:
            if not isinstance(scheduler, LRScheduler) or scheduler.optimizer is not wanted:
                raise ArgumentError(
                    f"{type(self).__name__} takes schedulers of one optimiser, and {type(scheduler).__name__} is none"
                )
        return self.schedulers[0].optimizer

    def state_dict(self) -> dict[str, Any]:
        """Return all that changes, as numbers, and those of each scheduler."""
        return super().state_dict() | {"schedulers": [scheduler.state_dict() for scheduler in self.schedulers]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` returned.

        Raises:
            ArgumentError: Something else.
        """
        own = dict(state)
        parts = own.pop("schedulers", None)
        if not isinstance(parts, list) or len(parts) != len(self.schedulers):
            raise ArgumentError(f"{type(self).__name__} has schedulers, a list of {len(self.schedulers)}")
        super().load_state_dict(own)
        for scheduler, part in zip(self.schedulers, parts, strict=True):
            scheduler.load_state_dict(part)


class SequentialLR(_Several):
    """Schedulers one after the other: each begins at its milestone, counting steps from there; the first at 0.

    Raises:
        ArgumentError: No schedulers.

    >>> optimizer = zyx.optim.SGD([zyx.ones(2, requires_grad=True)], lr=1.0)
    >>> constant = zyx.optim.lr_scheduler.ConstantLR(optimizer, 0.5, total_iters=1)
    >>> halving = zyx.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    >>> scheduler = zyx.optim.lr_scheduler.SequentialLR(optimizer, [constant, halving], [1])
    >>> for epoch in range(2):
    ...     scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: Sequence[int], last_epoch: int = -1
    ) -> None:
        """Take schedulers of the optimiser, and set the rates of the first.

        Raises:
            ArgumentError: A scheduler of another optimiser, or a `last_epoch` other than -1.
            ShapeError: Not one milestone less than schedulers, ascending.
        """
        self._take(schedulers, optimizer)
        self.milestones = as_integers(milestones, "milestones")
        edges = list(self.milestones)
        if len(self.schedulers) != len(edges) + 1 or edges != sorted(set(edges)):
            raise ShapeError(
                f"SequentialLR: {len(self.schedulers)} schedulers take one milestone less, ascending, not {edges}"
            )
        super().__init__(optimizer, last_epoch)

    def begin(self, rates: Sequence[float] | None = None) -> None:
        self.last_epoch = 0
        self.schedulers[0].begin()

    def step(self, epoch: None = None) -> None:
        self.last_epoch += 1
        number = bisect_right(self.milestones, self.last_epoch)
        if number and self.milestones[number - 1] == self.last_epoch:
            self.schedulers[number].begin()
        else:
            self.schedulers[number].step()


class ChainedScheduler(_Several):
    """Schedulers that all step: each from the rates that the ones before it have set.

    Raises:
        ArgumentError: No schedulers.

    >>> optimizer = zyx.optim.SGD([zyx.ones(2, requires_grad=True)], lr=1.0)
    >>> constant = zyx.optim.lr_scheduler.ConstantLR(optimizer, 0.5, total_iters=1)
    >>> halving = zyx.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    >>> scheduler = zyx.optim.lr_scheduler.ChainedScheduler([constant, halving])
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        """Take schedulers of one optimiser.

        Raises:
            ArgumentError: None, or of several optimisers.
        """
        super().__init__(self._take(schedulers, optimizer))

    def begin(self, rates: Sequence[float] | None = None) -> None:
        self.last_epoch = 0

    def step(self, epoch: None = None) -> None:
        self.last_epoch += 1
        for scheduler in self.schedulers:
            scheduler.step()
