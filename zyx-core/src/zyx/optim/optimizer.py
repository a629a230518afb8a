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
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from zyx import dtype as dtypes
from zyx.errors import DTypeError, GradientError, ShapeError, StateError
from zyx.functions.operands import is_tensor
from zyx.functions.term import Term
from zyx.graph import node as n
from zyx.optim.schedules import Schedule
from zyx.tensor.loading import LoadReport, load_into
from zyx.tensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zyx.dtype import DType
    from zyx.shape import Shape

LearningRate: TypeAlias = "float | Tensor | Schedule"


class Optimizer(ABC):
    """Changes parameters along their gradients; see the module.

    A subclass says in `update` what one step does to one parameter, and in `state_names` what it keeps for each.

    Attributes:
        params: The parameters.
        names: What they are called in errors and saved state.
        step_count: How many steps were made: int64, on the device of the first parameter.
        state: For each name of `state_names`, one tensor a parameter.
    """

    settings: ClassVar[tuple[str, ...]] = ()
    """Names of the attributes, other than the learning rate, that `update` reads."""

    def __init__(self, params: Iterable[Tensor] | Mapping[str, Tensor], lr: LearningRate) -> None:
        """Take the parameters, and make their state.

        Raises:
            DTypeError: Something that is no tensor of floats.
            GradientError: No parameters, or one twice.
            ShapeError: A learning rate below 0, or a tensor of several elements.
        """
        self.names, self.params = _named(params)
        self._runtime = self.params[0].runtime
        self._revision = 0
        device = self.params[0].node.device
        self.step_count = self._new((), dtypes.int64, device)
        self._rate = self._new((), self._rate_dtype(), device)
        self._lr: LearningRate = 0.0
        self.lr = lr
        self.state: dict[str, list[Tensor]] = {
            name: [self._new(p.node.shape, dtypes.accumulator(p.node.dtype), p.node.device) for p in self.params]
            for name in self.state_names()
        }
        for parameter in self.params:
            if isinstance(parameter.node, n.Const):  # equal constants are one node, which has no gradient of its own
                self._runtime.assign(parameter, self._runtime.graph.alias(parameter.node))
        self._runtime.realize(self.params)

    def state_names(self) -> tuple[str, ...]:
        """Return the names of what is kept for each parameter; all begin as 0."""
        return ()

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

    # ---- learning rate and other settings

    @property
    def lr(self) -> LearningRate:
        """The learning rate as it was set: a number, a tensor of one element, or a schedule."""
        return self._lr

    @lr.setter
    def lr(self, given: LearningRate) -> None:
        if isinstance(given, Schedule):
            self._revision += 1
        elif is_tensor(given):
            if given.size != 1 or not given.dtype.is_float:
                raise ShapeError(f"a learning rate is one number, not {given.dtype} of shape {given.shape}")
            self._revision += 1
        else:
            if not float(given) >= 0.0:
                raise ShapeError(f"a learning rate is at least 0, not {given}")
            if not isinstance(self._lr, float | int):
                self._revision += 1
            array = np.array(given, self._rate.node.dtype.numpy)
            self._runtime.assign(self._rate, self._runtime.upload(array, self._rate.node.device))
        self._lr = given

    @property
    def last_lr(self) -> Tensor:
        """The rate of the last step if it follows a schedule, else that of the next one; of shape ()."""
        return (self._lr if is_tensor(self._lr) else self._rate).detach().reshape(())

    @property
    def trace_key(self) -> tuple[int, tuple[object, ...]]:
        """What a traced function that makes a step depends on."""
        return self._revision, tuple([getattr(self, name) for name in self.settings])

    # ---- steps

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Let the parameters have no ``.grad``; or, unless `set_to_none`, zeros where they have one."""
        for parameter in self.params:
            grad = None if set_to_none else parameter.grad
            parameter.grad = None if grad is None else grad * 0

    def step(self, grads: Sequence[Tensor | None] | None = None) -> None:
        """Change the parameters along `grads`, which are given in their order; None leaves one as it is.

        Without `grads`, along what `Tensor.backward` left in ``.grad``.

        Raises:
            GradientError: Another number of gradients; or none are given, and no parameter has a ``.grad``.
            ShapeError: A gradient of another shape than its parameter.
            StateError: A setting was changed so that more must be kept, such as a momentum that was 0.
        """
        if self._runtime.tracing is not None:
            self._runtime.tracing.depends_on(self)
        given = self._checked(grads_of(self.params, type(self).__name__) if grads is None else grads)
        lacking = [name for name in self.state_names() if name not in self.state]
        if lacking:
            raise StateError(f"{type(self).__name__} was made without {', '.join(lacking)}; make a new one")
        count = self._term(self.step_count)
        # Not `count + 1` in floats: that would be the new count, and everything would wait for it to be stored.
        number = count.cast(self._rate.node.dtype) + 1.0
        lr = self._current_rate()
        changed = [self.step_count]
        new = [(count + 1).node]
        for position, grad in given:
            param = self.params[position]
            wide = dtypes.accumulator(param.node.dtype)
            values = self.update(
                self._term(param).cast(wide),
                self._term(grad).cast(wide),
                {name: self._term(tensors[position]) for name, tensors in self.state.items()},
                self._near(lr, param).cast(wide),
                self._near(number, param).cast(wide),
            )
            for name, value in values.items():
                target = param if name == "param" else self.state[name][position]
                changed.append(target)
                new.append(value.detach().cast(target.node.dtype).node)
        for target, node in zip(changed, new, strict=True):
            self._runtime.assign(target, node, is_fresh=True)
        self._runtime.realize(changed)

    def _current_rate(self) -> Term:
        """Return the learning rate of the step to be made."""
        if isinstance(self._lr, Schedule):
            rate = self._term(self._lr(self.step_count)).cast(self._rate.node.dtype).reshape(())
            self._runtime.assign(self._rate, rate.node)
            return rate
        if is_tensor(self._lr):
            rate = self._term(self._lr.detach()).cast(self._rate.node.dtype).reshape(())
            return self._near(rate, self.step_count)
        return self._term(self._rate)

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
        """Return the state now, by name: "step", "lr" if it is a number, and "<parameter>.<what is kept>"."""
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
        if "lr" in report.loaded:
            self._lr = self._rate.item()
        return report

    def _named_state(self) -> dict[str, Tensor]:
        named = {"step": self.step_count}
        if not is_tensor(self._lr) and not isinstance(self._lr, Schedule):
            named["lr"] = self._rate
        for position, parameter in enumerate(self.names):
            named.update((f"{parameter}.{name}", tensors[position]) for name, tensors in self.state.items())
        return named

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

    def _rate_dtype(self) -> DType:
        """Return the type of the learning rate: float64 if a parameter is of it, else float32."""
        wide = {dtypes.accumulator(parameter.node.dtype) for parameter in self.params}
        return dtypes.float64 if dtypes.float64 in wide else dtypes.float32

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


def _named(params: Iterable[Tensor] | Mapping[str, Tensor]) -> tuple[list[str], list[Tensor]]:
    """Return names and tensors, checked."""
    if isinstance(params, Mapping):
        names, tensors = [str(name) for name in params], list(params.values())
    elif is_tensor(params):
        raise GradientError("an optimiser takes a list of tensors, not one tensor; put it in brackets")
    else:
        tensors = list(params)
        names = [str(position) for position in range(len(tensors))]
    if not tensors:
        raise GradientError("an optimiser takes at least one parameter")
    seen: dict[int, str] = {}
    for name, tensor in zip(names, tensors, strict=True):
        if not is_tensor(tensor) or not tensor.node.dtype.is_float:
            what = tensor.node.dtype if is_tensor(tensor) else type(tensor).__name__
            raise DTypeError(f"parameter {name} is not a tensor of floats, but {what}")
        if id(tensor) in seen:
            raise GradientError(f"parameters {seen[id(tensor)]} and {name} are the same tensor; give it once")
        seen[id(tensor)] = name
    return names, tensors
