"""Modules that hold others. Unlike plain lists and dicts, they tell traced functions when they are changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, overload

from zyx.errors import DTypeError, StateError
from zyx.nn.module import Module


class ModuleList(Module):
    """A list of modules, called "0", "1", ...

    Raises:
        DTypeError: A part is no module.

    >>> len(zyx.nn.ModuleList([zyx.nn.ReLU(), zyx.nn.ReLU()]))
    2
    """

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        for position, module in enumerate(modules):
            setattr(self, str(position), self._part(module))

    def _part(self, module: Any) -> Module:  # noqa: ANN401  # whatever was given
        return _module(type(self), module)

    def append(self, module: Module) -> ModuleList:
        """Add a module at the end; return this list."""
        part = self._part(module)
        self._changed()
        setattr(self, str(len(self)), part)
        return self

    def extend(self, modules: Iterable[Module]) -> ModuleList:
        """Add modules at the end; return this list."""
        for module in modules:
            self.append(module)
        return self

    def __len__(self) -> int:
        return sum(1 for _ in self.named_children())

    def __iter__(self) -> Iterator[Module]:
        return iter(self.children())

    def _lines(self, parts: list[tuple[str, str]]) -> list[str]:
        """Show parts that look the same, one after the other, once."""
        if type(self) is not ModuleList:
            return super()._lines(parts)
        lines = []
        for text, group in groupby(parts, key=lambda part: part[1]):
            labels = [label for label, _ in group]
            several = len(labels) > 1
            lines.append(f"({labels[0]}-{labels[-1]}): {len(labels)} x {text}" if several else f"({labels[0]}): {text}")
        return lines

    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self, index: slice) -> list[Module]: ...
    def __getitem__(self, index: int | slice) -> Module | list[Module]:
        return self.children()[index]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, str(range(len(self))[index]), self._part(module))


class Sequential(ModuleList):
    """Modules one after the other, each given what the one before returns.

    Members may also be functions of one tensor. ``Sequential(a, b)`` calls them "0" and "1";
    ``Sequential({"first": a, "second": b})`` calls them as it says.

    Raises:
        DTypeError: A part is neither a module nor a function.

    >>> net = zyx.nn.Sequential(zyx.nn.Linear(3, 8), zyx.nn.ReLU(), zyx.nn.Linear(8, 2))
    >>> net(zyx.ones(5, 3)).shape
    (5, 2)
    """

    def __init__(self, *modules: Any) -> None:  # noqa: ANN401  # modules, functions, or one dict of them
        named: Mapping[str, Any] = (
            modules[0]
            if len(modules) == 1 and isinstance(modules[0], Mapping)
            else {str(position): module for position, module in enumerate(modules)}
        )
        for name, module in named.items():
            _check_name(type(self), name)
            setattr(self, name, self._part(module))

    def _part(self, module: Any) -> Module:  # noqa: ANN401  # a function, too
        return module if isinstance(module, Module) else Function(module)

    def forward(self, x: Any) -> Any:  # noqa: ANN401  # what the modules take and return
        for module in self:
            x = module(x)
        return x


class Function(Module):
    """A function as a module, to stand among others."""

    def __init__(self, function: Any) -> None:  # noqa: ANN401  # anything that can be called
        if not callable(function):
            raise DTypeError(f"a part of a network is a module or a function, not {type(function).__name__}")
        self.function = function

    def forward(self, *args: Any) -> Any:  # noqa: ANN401  # what the function takes and returns
        return self.function(*args)

    def extra_repr(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)


class ModuleDict(Module):
    """Modules by name.

    Raises:
        DTypeError: A part is no module.
        StateError: A name that every module has as an attribute.

    >>> list(zyx.nn.ModuleDict({"a": zyx.nn.ReLU()}))
    ['a']
    """

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        for name, module in (modules or {}).items():
            self[name] = module

    def __getitem__(self, name: str) -> Module:
        return dict(self.named_children())[name]

    def __setitem__(self, name: str, module: Module) -> None:
        _check_name(type(self), name)
        part = _module(type(self), module)
        self._changed()
        setattr(self, name, part)

    def __delitem__(self, name: str) -> None:
        delattr(self, name)

    def __contains__(self, name: object) -> bool:
        return any(name == own for own, _ in self.named_children())

    def __len__(self) -> int:
        return sum(1 for _ in self.named_children())

    def __iter__(self) -> Iterator[str]:
        return iter([name for name, _ in self.named_children()])

    def keys(self) -> list[str]:
        """Return the names."""
        return list(self)

    def values(self) -> list[Module]:
        """Return the modules."""
        return self.children()

    def items(self) -> list[tuple[str, Module]]:
        """Return names and modules."""
        return list(self.named_children())


def _module(kind: type[Module], given: Any) -> Module:  # noqa: ANN401  # whatever was given
    if not isinstance(given, Module):
        raise DTypeError(f"a part of a {kind.__name__} is a module, not {type(given).__name__}")
    return given


def _check_name(kind: type[Module], name: str) -> None:
    if hasattr(kind, name):
        raise StateError(f"{name!r} is an attribute of every {kind.__name__}, and cannot be the name of a part")
