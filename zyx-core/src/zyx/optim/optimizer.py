"""What optimisers share: parameters, their state, the step.

    optimizer = zyx.optim.AdamW(model.parameters(), lr=1e-3)

    @zyx.jit
    def step(x, y):
        with zyx.Tape() as tape:
            loss = loss_of(model(x), y)
        optimizer.step(tape.gradient(loss, model.parameters()))
        return loss

or, as in PyTorch, ``optimizer.zero_grad(); loss.backward(); optimizer.step()``.

1. The parameters are fixed when the optimiser is made; gradients are given in their order, None for those that stay.
2. State (moments, the count of steps, the learning rate) is made then, too, and held in tensors, so that a traced
   function finds it and updates it in place. It is kept in float32 for parameters of float16 and bfloat16.
3. A step assigns new values to parameters and state. Outside of a traced function it computes them, all together.
4. A learning rate that is a number can be set at any time, also between calls of a traced function. One that follows a
   schedule is computed from the count of steps, on the device. Other settings may be changed, too; what was traced with
   the old ones is traced again.

The count of steps is one for all parameters: it goes on also for those that are given no gradient.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from zyx import dtype as dtypes
from zyx.errors import ArgumentError, GradientError, ShapeError, StateError
from zyx.functions.operands import is_tensor
from zyx.functions.term import Term
from zyx.graph import node as n
from zyx.optim.check import check_setting
from zyx.optim.param_groups import ParamGroup, check_apart, named, split_groups
from zyx.optim.schedules import Schedule
from zyx.tensor.loading import LoadReport, load_into
from zyx.tensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from zyx.dtype import DType
    from zyx.shape import Shape

LearningRate: TypeAlias = "float | Tensor | Schedule"
Params: TypeAlias = "Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]] | Mapping[str, Tensor]"


class Optimizer(ABC):
    """Changes parameters along their gradients; see the module.

    A subclass says in `update` what one step does to one parameter, and in `state_names` what it keeps for each.

    Parameters have any shape.

    Attributes:
        params: The parameters.
        names: What they are called in errors and saved state.
        step_count: How many steps were made: int64, on the device of the first parameter.
        state: For each name of `state_names`, one tensor a parameter.
        param_groups: The parameters with their learning rates and settings; see `zyx.optim.param_groups`.

    Raises:
        GradientError: No parameters, or one twice.
        DTypeError: A parameter is no tensor of floats, or a learning rate no number.
        ShapeError: A setting out of its range.

    >>> w = zyx.ones(2, requires_grad=True)
    >>> optimizer = zyx.optim.Adam([w], lr=0.5)
    >>> isinstance(optimizer, zyx.optim.Optimizer), len(optimizer.params)
    (True, 1)
    """

    settings: tuple[str, ...] = ()
    """Names of the attributes, other than the learning rate, that `update` reads."""
    kept: ClassVar[tuple[str, ...]] = ()
    """Names of what is kept for each parameter; see `state_names`."""
    weight_decay: float = 0.0
    decoupled_weight_decay: bool = False
    maximize: bool = False

    def __init__(self, params: Params, lr: LearningRate, **settings: Any) -> None:  # noqa: ANN401
        """Take the parameters, and make their state.

        Args:
            params: Tensors, pairs of names and tensors, tensors by name, or groups: dicts with "params" and settings.
            lr: Learning rate of the groups that have none of their own.
            settings: Values of what are the `settings` then, checked by `zyx.optim.check.RANGES`. A subclass that gives
                none has set them itself.

        Raises:
            DTypeError: Something that is no tensor of floats.
            GradientError: No parameters, or one twice.
            ShapeError: A learning rate below 0, or a tensor of several elements; a setting out of its range.
        """
        for name, value in settings.items():
            check_setting(name, value)
            setattr(self, name, value)
        self.settings = tuple(settings) or self.settings
        groups = split_groups(params)
        first = named(groups[0]["params"])[1][0] if groups and "params" in groups[0] else None
        if first is None:
            raise GradientError('a group of parameters is a dict with "params"')
        self._runtime = first.runtime
        self._revision = 0
        self._first_rate = lr
        self.names: list[str] = []
        self.params: list[Tensor] = []
        self.param_groups: list[ParamGroup] = []
        self.state: dict[str, list[Tensor]] = {}
        self.step_count = self._new((), dtypes.int64, first.node.device)
        self._rate_dtype = dtypes.float32
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """Train more parameters, by a learning rate and settings of their own.

        Their state begins as 0; the count of steps goes on for all.

        Args:
            param_group: "params", and "lr" and any of `settings`, without which they follow the optimiser.

        Raises:
            DTypeError: Something that is no tensor of floats.
            GradientError: No parameters, or one that is there already.
            ArgumentError: Something that is no setting.
            ShapeError: A learning rate below 0, or a tensor of several elements.
        """
        given = dict(param_group)
        if "params" not in given:
            raise GradientError('a group of parameters is a dict with "params"')
        names, tensors = named(given.pop("params"), len(self.params))
        check_apart([*self.names, *names], [*self.params, *tensors])
        unknown = [name for name in given if name != "lr" and name not in self.settings]
        if unknown:
            raise ArgumentError(
                f"a group of {type(self).__name__} has lr, {', '.join(self.settings)}, and not {unknown[0]!r}"
            )
        before = len(self.params)
        if any(dtypes.accumulator(tensor.node.dtype) is dtypes.float64 for tensor in tensors):
            self._rate_dtype = dtypes.float64
        rate = self._new((), self._rate_dtype, tensors[0].node.device)
        own = {name: value for name, value in given.items() if name != "lr"}
        group = ParamGroup(self, range(before, before + len(tensors)), own, rate)
        group.has_own_rate = "lr" in given
        group.set_rate(given.get("lr", self._first_rate))
        self.names += names
        self.params += tensors
        self.param_groups.append(group)
        self._make_state(group)
        for parameter in tensors:
            if isinstance(parameter.node, n.Const):  # equal constants are one node, which has no gradient of its own
                self._runtime.assign(parameter, self._runtime.graph.alias(parameter.node))
        self._runtime.realize(tensors)
        self._revision += 1

    def _make_state(self, group: ParamGroup) -> None:
        """Make what is kept for the parameters of a group; what other groups alone keep is empty for them."""
        kept = group.seen_by().state_names()
        for name in kept:
            self.state.setdefault(name, [self._nothing(tensor) for tensor in self.params[: group.positions.start]])
        for name, tensors in self.state.items():
            for position in group.positions:
                parameter = self.params[position]
                tensors.append(self._kept(name, parameter) if name in kept else self._nothing(parameter))

    def _kept(self, name: str, parameter: Tensor) -> Tensor:
        """Return what is kept for a parameter at first."""
        node = parameter.node
        shape, value = self.state_shape(name, node.shape), self.first_value(name)
        array = np.full(shape, value, dtypes.accumulator(node.dtype).numpy)
        return Tensor.of(self._runtime.upload(array, node.device), self._runtime)

    def _nothing(self, parameter: Tensor) -> Tensor:
        return self._new((0,), dtypes.accumulator(parameter.node.dtype), parameter.node.device)

    def state_names(self) -> tuple[str, ...]:
        """Return the names of what is kept for each parameter: `kept`, unless settings decide."""
        return self.kept

    def state_shape(self, name: str, shape: Shape) -> Shape:
        """Return the shape of what is kept under `name` for a parameter of `shape`: that, unless a subclass says so."""
        return shape

    def first_value(self, name: str) -> float:
        """Return what the elements of what is kept under `name` begin as: 0, unless a subclass says so."""
        return 0.0

    @abstractmethod
    def update(self, param: Term, grad: Term, state: Mapping[str, Term], lr: Term, step: Term) -> dict[str, Term]:
        """Return the new values of what is kept for a parameter, and of the parameter as "param".

        Args:
            param: Its value.
            grad: Its gradient.
            state: What is kept for it.
            lr: The learning rate, of shape ().
            step: The number of this step, counted from 1, of shape (). All are of one dtype.
        """

    def decayed(self, param: Term, grad: Term, lr: Term) -> tuple[Term, Term]:
        """Return parameter and gradient after weight decay, the gradient turned if the way is up.

        What decays is the gradient, by a part of the parameter, or with `decoupled_weight_decay` the parameter itself.
        """
        grad = -grad if self.maximize else grad
        if self.weight_decay and self.decoupled_weight_decay:
            param = param * (1.0 - lr * self.weight_decay)
        elif self.weight_decay:
            grad = grad + param * self.weight_decay
        return param, grad

    # ---- learning rate and other settings

    @property
    def lr(self) -> LearningRate:
        """The learning rate as it was set: a number, a tensor of one element, or a schedule.

        That of the groups that have none of their own; to set it sets theirs.
        """
        return self._first_rate

    @lr.setter
    def lr(self, given: LearningRate) -> None:
        for group in self.param_groups:
            if not group.has_own_rate:
                group.set_rate(given)
        self._first_rate = given

    @property
    def last_lr(self) -> Tensor:
        """The rate of the last step if it follows a schedule, else that of the next one; of shape (), of group 0."""
        return self.param_groups[0].last_lr

    @property
    def trace_key(self) -> tuple[int, tuple[object, ...]]:
        """What a traced function that makes a step depends on."""
        shared = [getattr(self, name) for name in self.settings]
        return self._revision, (*shared, *[tuple(group.own.items()) for group in self.param_groups if group.own])

    # ---- steps

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Let the parameters have no ``.grad``; or, unless `set_to_none`, zeros where they have one."""
        for parameter in self.params:
            grad = None if set_to_none else parameter.grad
            parameter.grad = None if grad is None else grad * 0

    def step(self, grads: Sequence[Tensor | None] | Callable[[], Any] | None = None) -> Tensor | None:
        """Change the parameters along `grads`, which are given in their order; None leaves one as it is.

        Without `grads`, along what `Tensor.backward` left in ``.grad``. `grads` may be a closure as well, which is
        called, and whose loss is returned; see `evaluated`.

        Raises:
            ArgumentError: What a closure returns is no loss.
            GradientError: Another number of gradients; or none are given, and no parameter has a ``.grad``.
            ShapeError: A gradient of another shape than its parameter.
            StateError: A setting was changed so that more must be kept, such as a momentum that was 0; or a parameter
                is of another shape than it was, such as after `zyx.distributed.fully_shard`.
        """
        if self._runtime.tracing is not None:
            self._runtime.tracing.depends_on(self)
        loss = None
        if callable(grads):
            loss, grads = evaluated(grads, type(self).__name__)
        given = self._checked(grads_of(self.params, type(self).__name__) if grads is None else grads)
        seen = self.check_state()
        count = self._term(self.step_count)
        # Not `count + 1` in floats: that would be the new count, and everything would wait for it to be stored.
        number = count.cast(self._rate_dtype) + 1.0
        rates = [self._current_rate(group) for group in self.param_groups]
        groups = [place for place, group in enumerate(self.param_groups) for _ in group.positions]
        changed = [self.step_count]
        new = [(count + 1).node]
        for position, grad in given:
            param = self.params[position]
            wide = dtypes.accumulator(param.node.dtype)
            group = seen[groups[position]]
            values = group.update(
                self._term(param).cast(wide),
                self._term(grad).cast(wide),
                {name: self._term(self.state[name][position]) for name in group.state_names()},
                self._near(rates[groups[position]], param).cast(wide),
                self._near(number, param).cast(wide),
            )
            for name, value in values.items():
                target = param if name == "param" else self.state[name][position]
                changed.append(target)
                new.append(value.detach().cast(target.node.dtype).node)
        for target, node in zip(changed, new, strict=True):
            self._runtime.assign(target, node, is_fresh=True)
        self._runtime.realize(changed)
        return loss

    def check_state(self) -> list[Optimizer]:
        """Return the optimiser as each group sees it.

        Raises:
            StateError: Settings were changed so that more must be kept, or the shape of a parameter was.
        """
        seen = [group.seen_by() for group in self.param_groups]
        for group, settings in zip(self.param_groups, seen, strict=True):
            for name in settings.state_names():
                kept = self.state[name][group.positions.start] if name in self.state else None
                wanted = self.state_shape(name, self.params[group.positions.start].node.shape)
                if kept is not None and kept.node.shape != wanted and kept.numel():
                    raise StateError(
                        f"{type(self).__name__} keeps {name} of shape {kept.node.shape} for parameter "
                        f"{self.names[group.positions.start]}, which is of another shape now and would need {wanted}; "
                        "make a new one"
                    )
                if kept is None or kept.node.shape != wanted:
                    raise StateError(f"{type(self).__name__} was made without {name}; make a new one")
        return seen

    def _current_rate(self, group: ParamGroup) -> Term:
        """Return the learning rate of the step to be made."""
        dtype = group.rate.node.dtype
        if isinstance(group.lr, Schedule):
            rate = self._term(group.lr(self.step_count)).cast(dtype).reshape(())
            rate = self._near(rate, group.rate)
            self._runtime.assign(group.rate, rate.node)
            return rate
        if is_tensor(group.lr):
            rate = self._term(group.lr.detach()).cast(dtype).reshape(())
            return self._near(rate, self.step_count)
        return self._term(group.rate)

    def _checked(self, grads: Sequence[Tensor | None]) -> list[tuple[int, Tensor]]:
        listed = list(grads)
        if len(listed) != len(self.params):
            raise GradientError(
                f"{type(self).__name__} has {len(self.params)} parameters and was given {len(listed)} gradients; "
                "give one for each, in their order, or None"
            )
        found = []
        for position, grad in enumerate(listed):
            if grad is None:
                continue
            param = self.params[position].node
            if not is_tensor(grad) or grad.node.shape != param.shape:
                what = f"has shape {grad.node.shape}" if is_tensor(grad) else f"is a {type(grad).__name__}"
                raise ShapeError(f"the gradient of parameter {self.names[position]}, {param.shape}, {what}")
            found.append((position, grad))
        return found

    # ---- saving and loading

    def state_dict(self) -> dict[str, Tensor]:
        """Return the state now, by name: "step", "lr" if it is a number, and "<parameter>.<what is kept>".

        Groups behind the first have "lr.1", "lr.2", ...
        """
        return {name: tensor.detach() for name, tensor in self._named_state().items()}

    def load_state_dict(self, state: Mapping[str, object], strict: bool = True) -> LoadReport:
        """Take over a saved state.

        Args:
            state: Tensors or arrays by name, as `state_dict` gives them.
            strict: Whether names must agree. If not, what fits by name is taken over, and the report says the rest.

        Raises:
            StateError: Shapes differ, or with `strict`, names. Then nothing was changed.
        """
        report = load_into(self._named_state(), state, type(self).__name__, strict=strict)
        for name, group in self._numbers().items():
            if name in report.loaded:
                group._lr = group.rate.item()
        if "lr" in report.loaded and not self.param_groups[0].has_own_rate:
            self._first_rate = self.param_groups[0].lr
        return report

    def _numbers(self) -> dict[str, ParamGroup]:
        """Return the groups whose learning rate is a number, by the name of that."""
        return {
            f"lr.{place}" if place else "lr": group
            for place, group in enumerate(self.param_groups)
            if not is_tensor(group.lr) and not isinstance(group.lr, Schedule)
        }

    def _named_state(self) -> dict[str, Tensor]:
        found = {"step": self.step_count}
        found.update((name, group.rate) for name, group in self._numbers().items())
        for group in self.param_groups:
            kept = group.seen_by().state_names()
            for position in group.positions:
                found.update((f"{self.names[position]}.{name}", self.state[name][position]) for name in kept)
        return found

    def __getstate__(self) -> dict[str, Any]:
        """Return everything but the runtime, which is that of the parameters wherever they are made again."""
        return {name: value for name, value in vars(self).items() if name != "_runtime"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._runtime = self.params[0].runtime

    # ---- small things

    def _new(self, shape: Shape, dtype: DType, device: str) -> Tensor:
        """Return zeros in memory of their own."""
        return Tensor.of(self._runtime.upload(np.zeros(shape, dtype.numpy), device), self._runtime)

    def _term(self, tensor: Tensor) -> Term:
        return Term(self._runtime.graph, tensor.node)

    def _near(self, term: Term, like: Tensor) -> Term:
        """Return `term` on the device of `like`."""
        return Term(term.graph, term.graph.to_device(term.node, like.node.device))


def grads_of(params: Sequence[Tensor], what: str) -> list[Tensor | None]:
    """Return what `Tensor.backward` left.

    Raises:
        GradientError: Nothing.
    """
    found = [parameter.grad for parameter in params]
    if all(grad is None for grad in found):
        raise GradientError(
            f"{what}.step: no parameter has a gradient; call loss.backward() before, in the same function under "
            "zyx.jit, or give gradients: step(grads), as zyx.Tape and zyx.value_and_grad return them"
        )
    return found


def evaluated(closure: Callable[[], Any], what: str) -> tuple[Tensor, Sequence[Tensor | None] | None]:
    """Return the loss that a closure computes, and the gradients if it returns them as well.

    Else they are what `Tensor.backward` left in ``.grad``.

    Raises:
        ArgumentError: What it returns is no loss.
    """
    returned = closure()
    loss, grads = returned if isinstance(returned, tuple) and len(returned) == 2 else (returned, None)
    if not is_tensor(loss):
        raise ArgumentError(f"{what}: the closure returns the loss, a tensor, not {type(loss).__name__}")
    return loss.detach(), grads
