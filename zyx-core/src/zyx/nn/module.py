"""`Module`: a part of a network, made of tensors and other modules.

    class Net(zyx.nn.Module):
        def __init__(self):
            self.layers = [zyx.nn.Linear(784, 128), zyx.nn.Linear(128, 10)]

        def forward(self, x):
            return self.layers[1](self.layers[0](x).relu())

What belongs to a module is found by looking at its attributes, also in lists, tuples and dicts:

1. `Parameter`s are trained and saved.
2. Other tensors are *buffers*, saved and not trained; those whose name begins with an underscore are not saved, either.
3. Modules are parts; everything in them belongs to this module, too.

Dropout and batch normalisation behave differently in training, in which a module begins: `eval` and `train` set the
mode of a module and its parts.

A function under `zyx.jit` that calls a module is traced again when the mode of a module that it called is another one
(each mode keeps its trace), and when an attribute of such a module was replaced. What it cannot see is a change inside
a plain list or dict; `ModuleList` and `ModuleDict` tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, cast

from zyx.nn.parameter import Parameter
from zyx.nn.tree import is_buffer, members
from zyx.runtime.runtime import current
from zyx.tensor.loading import LoadReport, load_into
from zyx.tensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from zyx.dtype import DTypeLike
    from zyx.nn.tree import Member


class Module:
    """A part of a network; see the module. Subclasses define `forward`, and need not call ``super().__init__``."""

    _training: bool = True
    _revision: int = 0

    def __init__(self) -> None:
        """Take nothing; layers without settings have this one, which says so where they are given some."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # what a network takes is its business
        """Compute the result."""
        raise NotImplementedError(f"{type(self).__name__} has no method forward")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # as forward
        """Return what `forward` does."""
        self._note_use()
        return self.forward(*args, **kwargs)

    def _note_use(self) -> None:
        """Tell the function that is being traced, if one is, that it depends on this module."""
        tracing = current().tracing
        if tracing is not None:
            tracing.depends_on(self)

    def __setattr__(self, name: str, value: object) -> None:
        if name in self.__dict__ and self.__dict__[name] is not value:
            self._changed()
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        self._changed()
        object.__delattr__(self, name)

    def _changed(self) -> None:
        """Note that what was traced before may have met something that is not there any more."""
        self.__dict__["_revision"] = self._revision + 1

    @property
    def trace_key(self) -> tuple[int, bool]:
        """What a trace that called this module depends on."""
        return self._revision, self._training

    # ---- what it has

    def named_members(self) -> Iterator[tuple[str, Member]]:
        """Yield the tensors and modules among the attributes, not those in other modules."""
        for name, value in self.__dict__.items():
            yield from members(value, name, Module)

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield the modules that are direct parts."""
        for name, member in self.named_members():
            if isinstance(member, Module):
                yield name, member

    def children(self) -> list[Module]:
        """Return the modules that are direct parts."""
        return [module for _, module in self.named_children()]

    def named_modules(self) -> Iterator[tuple[str, Module]]:
        """Yield this module, called "", and all in it, each once, under the first of its names."""
        seen: set[int] = set()
        waiting: list[tuple[str, Module]] = [("", self)]
        while waiting:
            name, module = waiting.pop()
            if id(module) not in seen:
                seen.add(id(module))
                yield name, module
                waiting += [(_join(name, own), child) for own, child in reversed(list(module.named_children()))]

    def modules(self) -> list[Module]:
        """Return this module and all in it, each once."""
        return [module for _, module in self.named_modules()]

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """Yield all parameters, each once, under the first of its names."""
        for name, tensor in self._named_tensors():
            if isinstance(tensor, Parameter):
                yield name, tensor

    def parameters(self) -> list[Parameter]:
        """Return all parameters, each once."""
        return [parameter for _, parameter in self.named_parameters()]

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """Yield all tensors that are not parameters, each once, under the first of its names."""
        for name, tensor in self._named_tensors():
            if not isinstance(tensor, Parameter):
                yield name, tensor

    def buffers(self) -> list[Tensor]:
        """Return all tensors that are not parameters, each once."""
        return [buffer for _, buffer in self.named_buffers()]

    def _named_tensors(self) -> Iterator[tuple[str, Tensor]]:
        seen: set[int] = set()
        for prefix, module in self.named_modules():
            for name, member in module.named_members():
                if isinstance(member, Tensor) and id(member) not in seen:
                    seen.add(id(member))
                    yield _join(prefix, name), member

    # ---- saving and loading

    def state_dict(self) -> dict[str, Tensor]:
        """Return the values of parameters and buffers now, by name; later changes do not reach them.

        One that has several names comes under each.
        """
        return {name: tensor.detach() for name, tensor in self._state(())}

    def _state(self, path: tuple[Module, ...]) -> Iterator[tuple[str, Tensor]]:
        for name, member in self.named_members():
            if isinstance(member, Module):
                if not any(member is module for module in (*path, self)):  # a part may refer to the whole
                    for inner, tensor in member._state((*path, self)):
                        yield _join(name, inner), tensor
            elif isinstance(member, Parameter) or is_buffer(name, member):
                yield name, member

    def load_state_dict(self, state: Mapping[str, object], strict: bool = True) -> LoadReport:
        """Take over saved values, converted to the dtype and device of the tensors that are there.

        Args:
            state: Tensors or arrays by name, as `state_dict` gives them.
            strict: Whether names must agree. If not, what fits by name is taken over, and the report says the rest.

        Raises:
            StateError: Shapes differ, or with `strict`, names; the text has all of them. Then nothing was changed.
        """
        return load_into(dict(self._state(())), state, type(self).__name__, strict=strict)

    # ---- modes, places

    @property
    def training(self) -> bool:
        """Whether the module behaves as in training, as it does at first; to set it leaves its parts as they are."""
        self._note_use()
        return self._training

    @training.setter
    def training(self, mode: bool) -> None:
        self.__dict__["_training"] = bool(mode)

    def train(self, mode: bool = True) -> Self:
        """Let this module and all in it behave as in training, or outside of it; return this module."""
        for module in self.modules():
            module.__dict__["_training"] = bool(mode)
        return self

    def eval(self) -> Self:
        """Let this module and all in it behave as outside of training; return this module."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Let all parameters require gradients, or none; return this module."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Let the parameters have no ``.grad``; or, unless `set_to_none`, zeros where they have one."""
        for parameter in self.parameters():
            grad = None if set_to_none else parameter.grad
            parameter.grad = None if grad is None else grad * 0

    def to(self, device: str | None = None, dtype: DTypeLike | None = None) -> Self:
        """Move all parameters and buffers to `device`, and convert those of floats to `dtype`; return this module.

        The tensors stay the same objects. What an optimiser keeps for them is not moved: make it afterwards.
        """
        tensors = [tensor for _, tensor in self._named_tensors()]
        for tensor in tensors:
            moved = Tensor.of(tensor.node, tensor.runtime)
            if dtype is not None and moved.dtype.is_float:
                moved = moved.astype(dtype)
            if device is not None:
                moved = moved.to(device)
            tensor.runtime.assign(tensor, moved.node)
        if tensors:
            tensors[0].runtime.realize(tensors)
        return self

    def apply(self, function: Callable[[Module], object]) -> Self:
        """Call `function` on all modules in this one, parts before what they are part of; return this module."""
        for module in reversed(self.modules()):
            function(module)
        return self

    # ---- text

    def describe(self) -> str:
        """Return the arguments worth showing in `repr`."""
        return ""

    def __repr__(self) -> str:
        return self._text(())

    def _text(self, path: tuple[Module, ...]) -> str:
        name, own = type(self).__name__, self.describe()
        parts = []
        for label, child in self.named_children():
            within = any(child is module for module in (*path, self))
            text = f"{type(child).__name__}(...)" if within else child._text((*path, self))
            parts.append(f"({label}): {text}".replace("\n", "\n  "))
        if not parts:
            return f"{name}({own})"
        return "\n  ".join([f"{name}({own}", *parts]) + "\n)"


def _join(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def call(module: Module, *args: Any) -> Tensor:  # noqa: ANN401  # as `Module.__call__`
    """Return what `module` computes, which is a tensor."""
    return cast("Tensor", module(*args))
