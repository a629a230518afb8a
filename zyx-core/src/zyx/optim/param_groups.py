"""Parameters of one optimiser in groups, each with a learning rate and settings of its own.

    optimizer = AdamW([{"params": weights}, {"params": biases, "weight_decay": 0.0, "lr": 1e-4}], lr=1e-3)
    optimizer.param_groups[1]["lr"] = 5e-5

A group has what it was given; for the rest it follows the optimiser.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

import numpy as np

from zyx.errors import ArgumentError, DTypeError, GradientError, ShapeError
from zyx.functions.operands import is_tensor
from zyx.optim.check import check_setting
from zyx.optim.schedules import Schedule

if TYPE_CHECKING:
    from zyx.optim.optimizer import LearningRate, Optimizer
    from zyx.tensor.tensor import Tensor


class ParamGroup(MutableMapping[str, Any]):
    """A group, as a dict of "params", "lr" and the settings of the optimiser.

    Attributes:
        positions: Of its parameters among those of the optimiser.
        rate: The learning rate, in a tensor of shape (), which traced functions read.
        own: The settings that it does not share with the optimiser.
        has_own_rate: Whether its learning rate is such a one, too.
        initial_lr: The learning rate before it had a scheduler; None while it has none.

    Raises:
        ArgumentError: When a setting is made: there is none of that name.
        ShapeError: When a setting is made: it is out of its range.

    >>> w, b = zyx.ones(2, requires_grad=True), zyx.ones(1, requires_grad=True)
    >>> optimizer = zyx.optim.SGD([{"params": [w]}, {"params": [b], "lr": 0.25}], lr=0.5)
    >>> [group["lr"] for group in optimizer.param_groups]
    [0.5, 0.25]
    """

    def __init__(self, owner: Optimizer, positions: range, own: dict[str, Any], rate: Tensor) -> None:
        self._owner, self.positions, self.own, self.rate = owner, positions, own, rate
        self._lr: LearningRate = 0.0
        self.has_own_rate = False
        self.initial_lr: float | None = None

    @property
    def lr(self) -> LearningRate:
        """The learning rate as it was set: a number, a tensor of one element, or a schedule."""
        return self._lr

    def set_rate(self, given: LearningRate) -> None:
        """Set the learning rate.

        Raises:
            ShapeError: Below 0, or a tensor of several elements.
            DTypeError: Neither a number, nor a tensor, nor a schedule.
        """
        owner = self._owner
        if isinstance(given, Schedule):
            owner._revision += 1
        elif is_tensor(given):
            if given.size != 1 or not given.dtype.is_float:
                raise ShapeError(f"a learning rate is one number, not {given.dtype} of shape {given.shape}")
            owner._revision += 1
        else:
            if not isinstance(given, float | int | np.number):
                raise DTypeError(f"a learning rate is a number, a tensor or a schedule, not {given!r}")
            if not float(given) >= 0.0:
                raise ShapeError(f"a learning rate is at least 0, not {given}")
            if not isinstance(self._lr, float | int):
                owner._revision += 1
            array = np.array(given, self.rate.node.dtype.numpy)
            owner._runtime.assign(self.rate, owner._runtime.upload(array, self.rate.node.device))
        self._lr = given

    @property
    def last_lr(self) -> Tensor:
        """The rate of the last step if it follows a schedule, else that of the next one; of shape ()."""
        return (self._lr if is_tensor(self._lr) else self.rate).detach().reshape(())

    def seen_by(self) -> Optimizer:
        """Return the optimiser with the settings of this group."""
        if not self.own:
            return self._owner
        view = object.__new__(type(self._owner))
        vars(view).update(vars(self._owner), **self.own)
        return view

    # ---- as a dict

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401  # whatever settings are
        if name == "params":
            return [self._owner.params[position] for position in self.positions]
        if name == "lr":
            return self._lr
        if name in self._owner.settings:
            return self.own[name] if name in self.own else getattr(self._owner, name)
        raise KeyError(name)

    def __setitem__(self, name: str, value: Any) -> None:  # noqa: ANN401
        if name == "lr":
            self.has_own_rate = True
            self.set_rate(value)
        elif name in self._owner.settings:
            check_setting(name, value)
            self.own[name] = value
        else:
            raise ArgumentError(
                f"a group of {type(self._owner).__name__} has lr, {', '.join(self._owner.settings)}, which can be set, "
                f"and not {name!r}"
            )

    def __delitem__(self, name: str) -> None:
        """Let the group follow the optimiser again.

        Raises:
            KeyError: The group has no such setting of its own.
        """
        del self.own[name]

    def __iter__(self) -> Iterator[str]:
        return iter(("params", "lr", *self._owner.settings))

    def __len__(self) -> int:
        return 2 + len(self._owner.settings)

    def __repr__(self) -> str:
        shown = {name: value for name, value in self.items() if name != "params"}
        return f"ParamGroup({len(self.positions)} parameters, {', '.join(f'{n}={v!r}' for n, v in shown.items())})"


def split_groups(params: Any) -> list[dict[str, Any]]:  # noqa: ANN401  # what users give
    """Return the groups that are given, each with "params"; one of all if there are none."""
    if isinstance(params, Mapping) or is_tensor(params):
        return [{"params": params}]
    listed = list(params)
    if listed and all(isinstance(each, dict) for each in listed):
        return listed
    return [{"params": listed}]


def named(params: Any, start: int = 0) -> tuple[list[str], list[Tensor]]:  # noqa: ANN401  # what users give
    """Return names and tensors, checked: of a dict, of pairs, or of tensors, which are called by their number.

    Raises:
        DTypeError: Something that is no tensor of floats.
        GradientError: No parameters, or one tensor that is no list.
    """
    if isinstance(params, Mapping):
        names, tensors = [str(name) for name in params], list(params.values())
    elif is_tensor(params):
        raise GradientError("an optimiser takes a list of tensors, not one tensor; put it in brackets")
    else:
        listed = list(params)
        if listed and all(isinstance(each, tuple) and len(each) == 2 and isinstance(each[0], str) for each in listed):
            names, tensors = [name for name, _ in listed], [tensor for _, tensor in listed]
        else:
            names, tensors = [str(start + position) for position in range(len(listed))], listed
    if not tensors:
        raise GradientError("an optimiser takes at least one parameter")
    for name, tensor in zip(names, tensors, strict=True):
        if not is_tensor(tensor) or not tensor.node.dtype.is_float:
            what = tensor.node.dtype if is_tensor(tensor) else type(tensor).__name__
            raise DTypeError(f"parameter {name} is not a tensor of floats, but {what}")
    return names, tensors


def check_apart(names: list[str], tensors: list[Tensor]) -> None:
    """Raise `GradientError` if a tensor or a name comes twice."""
    seen: dict[int, str] = {}
    for name, tensor in zip(names, tensors, strict=True):
        if id(tensor) in seen:
            raise GradientError(f"parameters {seen[id(tensor)]} and {name} are the same tensor; give it once")
        seen[id(tensor)] = name
    twice = next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None
    if twice is not None:
        raise GradientError(f"two parameters are called {twice}")
