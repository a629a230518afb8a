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

import difflib
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast

from zyx.dtype import as_dtype
from zyx.errors import DTypeError, StateError
from zyx.functions.operands import is_tensor
from zyx.lazy_import import lazy_import
from zyx.nn.hooks import RemovableHandle, call_with_hooks, register
from zyx.nn.parameter import Parameter
from zyx.nn.tree import is_buffer, members
from zyx.runtime.runtime import current
from zyx.tensor.habits import cuda_name, place_and_dtype
from zyx.tensor.loading import LoadReport, load_into
from zyx.tensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from zyx.dtype import DTypeLike
    from zyx.nn import layer_table
    from zyx.nn.tree import Member
else:
    layer_table = lazy_import("zyx.nn.layer_table", globals())

_M = TypeVar("_M")


class Module:
    """A part of a network; see the module. Subclasses define `forward`, and need not call ``super().__init__``.

    What shapes it takes and gives, the subclass says.

    Raises:
        NotImplementedError: When called: it defines no `forward`.

    >>> class Scale(zyx.nn.Module):
    ...     def __init__(self):
    ...         self.factor = zyx.nn.Parameter(zyx.Tensor([2.0]))
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> Scale()(zyx.Tensor([3.0])).tolist()
    [6.0]
    """

    _training: bool = True
    _revision: int = 0
    _hooks: ClassVar[list[RemovableHandle]] = []  # each module's own, once it has some
    _unsaved: ClassVar[frozenset[str]] = frozenset()  # likewise, names of buffers

    def __init__(self) -> None:
        """Take nothing; layers without settings have this one, which says so where they are given some."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # what a network takes is its business
        """Compute the result."""
        raise NotImplementedError(f"{type(self).__name__} has no method forward")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # as forward
        """Return what `forward` does."""
        self._note_use()
        if self._hooks:
            return call_with_hooks(self, args, kwargs)
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

    # ---- hooks

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args)`` before `forward`; what it returns are the arguments. See `zyx.nn.hooks`.

        Args:
            hook: Returns None, other arguments, or one that is no tuple; with `with_kwargs` a pair of arguments and
                keywords.
            prepend: Whether it comes before the others.
            with_kwargs: Whether the keywords are its third argument.

        Raises:
            ArgumentError: `hook` cannot be called.
        """
        return register(self, "forward_pre", hook, prepend=prepend, with_kwargs=with_kwargs)

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args, result)`` after `forward`; if it returns something, that is the result.

        Args:
            hook: See above.
            prepend: Whether it comes before the others.
            with_kwargs: Whether it is given the keywords, before the result.
            always_call: Whether it is called also when `forward` raises; with None as result.

        Raises:
            ArgumentError: `hook` cannot be called.
        """
        return register(self, "forward", hook, prepend=prepend, with_kwargs=with_kwargs, always_call=always_call)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_output)`` before gradients pass the module; it may return others.

        Raises:
            ArgumentError: `hook` cannot be called.
        """
        return register(self, "backward_pre", hook, prepend=prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` when gradients have passed the module.

        Both are tuples; if the hook returns something, it takes the place of the first. See `zyx.nn.hooks`.

        Raises:
            ArgumentError: `hook` cannot be called.
        """
        return register(self, "backward", hook, prepend=prepend)

    # ---- what it has

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Make `tensor` an attribute that is not trained, and saved if it is `persistent`; None is a place for one.

        Raises:
            StateError: A name that is no attribute's, or another attribute's.
            DTypeError: Something that is no tensor.
        """
        if tensor is not None and not is_tensor(tensor):
            raise DTypeError(f"register_buffer: {name} is a tensor or None, not {type(tensor).__name__}")
        self._register(name, tensor)
        unsaved = self._unsaved - {name}
        self.__dict__["_unsaved"] = unsaved if persistent else unsaved | {name}

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Make `param` an attribute; None is a place for one.

        Raises:
            StateError: A name that is no attribute's, or another attribute's.
            DTypeError: Something that is no parameter.
        """
        if param is not None and not isinstance(param, Parameter):
            raise DTypeError(f"register_parameter: {name} is a Parameter or None, not {type(param).__name__}")
        self._register(name, param)

    def add_module(self, name: str, module: Module | None) -> None:
        """Make `module` an attribute; None is a place for one.

        Raises:
            StateError: A name that is no attribute's, or another attribute's.
            DTypeError: Something that is no module.
        """
        if module is not None and not isinstance(module, Module):
            raise DTypeError(f"add_module: {name} is a Module or None, not {type(module).__name__}")
        self._register(name, module)

    register_module = add_module

    def _register(self, name: str, member: Member | None) -> None:
        if not isinstance(name, str) or not name or "." in name:
            raise StateError(f"{name!r} cannot be the name of a part: it is a text without dots that is not empty")
        if hasattr(self, name) and name not in self.named_attributes():
            raise StateError(f"{name!r} is an attribute of {type(self).__name__} already")
        setattr(self, name, member)

    def named_attributes(self) -> set[str]:
        """Return the names of the attributes that are parts, or have none yet."""
        return {name for name, value in self.__dict__.items() if value is None or isinstance(value, Tensor | Module)}

    def get_submodule(self, target: str) -> Module:
        """Return the module of the name `target`, such as "layers.0"; of "", this one.

        Raises:
            StateError: There is none.
        """
        return self._found(target, dict(self.named_modules()), "module")

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter of the name `target`, such as "layers.0.weight".

        Raises:
            StateError: There is none.
        """
        return self._found(target, dict(self.named_parameters()), "parameter")

    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer of the name `target`, such as "norm.running_mean".

        Raises:
            StateError: There is none.
        """
        return self._found(target, dict(self.named_buffers()), "buffer")

    def _found(self, target: str, known: Mapping[str, _M], what: str) -> _M:
        if target not in known:
            near = difflib.get_close_matches(target, known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise StateError(f"{type(self).__name__} has no {what} {target!r}{hint}")
        return known[target]

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

    def state_dict(self, *, prefix: str = "", keep_vars: bool = False) -> dict[str, Tensor]:
        """Return the values of parameters and buffers now, by name; later changes do not reach them.

        Names and order are PyTorch's: of each module its parameters, its buffers, then its parts. One that has several
        names comes under each.

        Args:
            prefix: What all names begin with.
            keep_vars: Whether the parameters and buffers themselves are returned.
        """
        return {prefix + name: tensor if keep_vars else tensor.detach() for name, tensor in self._state(())}

    def _state(self, path: tuple[Module, ...]) -> Iterator[tuple[str, Tensor]]:
        own = list(self.named_members())
        yield from ((name, member) for name, member in own if isinstance(member, Parameter))
        for name, member in own:
            if is_buffer(name, member) and isinstance(member, Tensor) and name not in self._unsaved:
                yield name, member
        for name, member in own:
            if isinstance(member, Module) and not any(member is module for module in (*path, self)):
                for inner, tensor in member._state((*path, self)):  # a part may refer to the whole
                    yield _join(name, inner), tensor

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

    def to(self, *given: object, device: str | None = None, dtype: DTypeLike | None = None, **rest: object) -> Self:
        """Move all parameters and buffers to a device, and convert those of floats to a dtype; return this module.

        The tensors stay the same objects. What an optimiser keeps for them is not moved: make it afterwards.

        Args:
            given: A device, a dtype, both, or a tensor of which they are taken.
            device: The name of a device.
            dtype: Of floats.
            rest: PyTorch's ``non_blocking`` and ``memory_format``, which change nothing.

        Raises:
            ArgumentError: Something else.
            DTypeError: A dtype that is not of floats.
        """
        device, dtype = place_and_dtype(given, device, dtype, rest)
        if dtype is not None and not as_dtype(dtype).is_float:
            raise DTypeError(f"the parameters of a module are floats; {as_dtype(dtype)} is none")
        return self._moved(device, dtype)

    def _moved(self, device: str | None, dtype: DTypeLike | None) -> Self:
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

    def half(self) -> Self:
        """Convert all parameters and buffers of floats to float16; return this module."""
        return self._moved(None, "float16")

    def bfloat16(self) -> Self:
        """Convert all parameters and buffers of floats to bfloat16; return this module."""
        return self._moved(None, "bfloat16")

    def float(self) -> Self:
        """Convert all parameters and buffers of floats to float32; return this module."""
        return self._moved(None, "float32")

    def double(self) -> Self:
        """Convert all parameters and buffers of floats to float64; return this module."""
        return self._moved(None, "float64")

    def cpu(self) -> Self:
        """Move all parameters and buffers to the processor; return this module."""
        return self._moved("cpu", None)

    def cuda(self, device: int | str | None = None) -> Self:
        """Move all parameters and buffers to a GPU, by its number or name; return this module."""
        return self._moved(cuda_name(device), None)

    def apply(self, function: Callable[[Module], object]) -> Self:
        """Call `function` on all modules in this one, each once, in order, parts before what they are part of.

        Returns this module.
        """
        seen: set[int] = set()
        waiting: list[tuple[Module, bool]] = [(self, False)]
        while waiting:
            module, parts_are_done = waiting.pop()
            if parts_are_done:
                function(module)
            elif id(module) not in seen:
                seen.add(id(module))
                waiting.append((module, True))
                waiting += [(child, False) for child in reversed(module.children())]
        return self

    # ---- text

    def extra_repr(self) -> str:
        """Return the arguments worth showing in `repr`."""
        return ""

    def __repr__(self) -> str:
        return self._text(())

    def _repr_html_(self) -> str:
        """Return a table of parameters and buffers, for notebooks."""
        return layer_table.tensor_table(self)

    def _text(self, path: tuple[Module, ...]) -> str:
        name, own = type(self).__name__, self.extra_repr()
        parts = []
        for label, child in self.named_children():
            within = any(child is module for module in (*path, self))
            text = f"{type(child).__name__}(...)" if within else child._text((*path, self))
            parts.append((label, text.replace("\n", "\n  ")))
        lines = own.split("\n") if own else []
        if not parts and len(lines) < 2:
            return f"{name}({own})"
        return "\n  ".join([f"{name}(", *lines, *self._lines(parts)]) + "\n)"

    def _lines(self, parts: list[tuple[str, str]]) -> list[str]:
        """Return the lines of the text that show the parts, given their names and texts."""
        return [f"({label}): {text}" for label, text in parts]


def _join(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def call(module: Module, *args: Any) -> Tensor:  # noqa: ANN401  # as `Module.__call__`
    """Return what `module` computes, which is a tensor."""
    return cast("Tensor", module(*args))
