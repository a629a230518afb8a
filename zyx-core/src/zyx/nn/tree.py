"""Find what a module has: the tensors and modules among its attributes, and in lists, tuples and dicts there.

    class Net(Module):
        layers = [Linear(2, 3), Linear(3, 1)]     -> "layers.0", "layers.1"
        scales = {"in": Parameter(..)}            -> "scales.in"
        weight = QuantizedTensor(data, "Q8_0")    -> "weight.data", as of all named tuples

Members come in the order in which the attributes were set, and of dicts in their order. Other objects are not looked
into.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from zyx.nn.parameter import Parameter
from zyx.tensor.tensor import Tensor
from zyx.tree import parts, rebuilt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zyx.nn.module import Module

Member: TypeAlias = "Tensor | Module"


def members(value: object, name: str, module_class: type[Module]) -> Iterator[tuple[str, Member]]:
    """Yield the members in `value`, itself or inside of it, with their names, of which the first part is `name`."""
    if isinstance(value, Tensor | module_class):
        yield name, value
    else:
        for key, item in parts(value) or ():
            yield from members(item, f"{name}.{_key(value, key)}", module_class)


def _key(holder: object, key: object) -> object:
    """Return what a part is called: in a named tuple, the name of its field."""
    names = getattr(holder, "_fields", None) if isinstance(holder, tuple) else None
    return names[key] if names else key


def is_buffer(name: str, member: Member) -> bool:
    """Whether a member is saved though it is not trained: a tensor whose name does not begin with an underscore."""
    return isinstance(member, Tensor) and not isinstance(member, Parameter) and not name.startswith("_")


def places(
    module: Module,
    module_class: type[Module],
    prefix: str = "",
    path: tuple[Module, ...] = (),
    skip: Callable[[Module], bool] = lambda _: False,
) -> Iterator[tuple[str, Any, Any, Tensor]]:
    """Yield the name of each tensor in a module and its parts, what holds it, the key, and it.

    ``holder[key] = other`` puts another in its place, also where a tuple holds it: that is replaced by a new one.

    A tensor comes under each of its names. A part may refer to the whole, which is not looked into again; nor are parts
    that are to be skipped.
    """
    for name, holder, key, value in _held(module.__dict__, prefix):
        if not isinstance(value, module_class):
            yield name, holder, key, value
        elif not any(value is each for each in (*path, module)) and not skip(value):
            yield from places(value, module_class, name, (*path, module), skip)


class _InTuple:
    """A tuple in a holder: what is put in there makes another one."""

    def __init__(self, holder: Any, key: Any) -> None:  # noqa: ANN401  # as `places` yields them
        self._holder, self._key = holder, key

    @property
    def found(self) -> tuple[Any, ...]:
        """The tuple that is there now."""
        found: tuple[Any, ...] = self._holder[self._key]
        return found

    def __getitem__(self, index: int) -> Any:  # noqa: ANN401  # what the tuple has
        return self.found[index]

    def __setitem__(self, index: int, value: object) -> None:
        self._holder[self._key] = rebuilt(self.found, (*self.found[:index], value, *self.found[index + 1 :]))


def _held(holder: Any, prefix: str) -> Iterator[tuple[str, Any, Any, Any]]:  # noqa: ANN401  # what may hold others
    """Yield the tensors and modules in a dict, list or tuple, with their names, and what holds them."""
    inside = holder.found if isinstance(holder, _InTuple) else holder
    for key, value in list(inside.items() if isinstance(inside, dict) else enumerate(inside)):
        called = str(_key(inside, key))
        name = f"{prefix}.{called}" if prefix else called
        if isinstance(value, dict | list):
            yield from _held(value, name)
        elif isinstance(value, tuple):
            yield from _held(_InTuple(holder, key), name)
        elif isinstance(value, Tensor) or hasattr(value, "named_members"):
            yield name, holder, key, value
