"""Modules that hold parameters. Unlike plain lists and dicts, they tell traced functions when they are changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.errors import DTypeError, StateError
from zyx.functions.operands import is_tensor
from zyx.nn.module import Module
from zyx.nn.parameter import Parameter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zyx.tensor.tensor import Tensor


class _Parameters(Module):
    """What both have in common: parameters by name, in the order in which they came."""

    def _named(self) -> dict[str, Parameter]:
        return {name: value for name, value in self.__dict__.items() if isinstance(value, Parameter)}

    def _put(self, name: str, value: Tensor) -> None:
        if not is_tensor(value):
            raise DTypeError(f"{type(self).__name__} holds parameters, not {type(value).__name__}")
        self._changed()
        setattr(self, name, value if isinstance(value, Parameter) else Parameter(value))

    def __len__(self) -> int:
        return len(self._named())

    def extra_repr(self) -> str:
        """Return a line for each."""
        lines = [f"({name}): Parameter {p.dtype}{list(p.shape)} on {p.device}" for name, p in self._named().items()]
        return "\n".join(lines)


class ParameterList(_Parameters):
    """A list of parameters, called "0", "1", ...; tensors become parameters.

    Parameters have any shape.

    Raises:
        DTypeError: A value is no tensor.

    >>> list(zyx.nn.ParameterList([zyx.ones(2), zyx.zeros(3)]).state_dict())
    ['0', '1']
    """

    def __init__(self, values: Iterable[Tensor] = ()) -> None:
        self.extend(values)

    def append(self, value: Tensor) -> ParameterList:
        """Add a parameter at the end; return this list."""
        self._put(str(len(self)), value)
        return self

    def extend(self, values: Iterable[Tensor]) -> ParameterList:
        """Add parameters at the end; return this list."""
        for value in values:
            self.append(value)
        return self

    def __iter__(self) -> Iterator[Parameter]:
        return iter(self._named().values())

    def __getitem__(self, index: int) -> Parameter:
        return list(self._named().values())[index]

    def __setitem__(self, index: int, value: Tensor) -> None:
        self._put(str(range(len(self))[index]), value)


class ParameterDict(_Parameters):
    """Parameters by name; tensors become parameters.

    Parameters have any shape.

    Raises:
        DTypeError: A value is no tensor.

    >>> list(zyx.nn.ParameterDict({"scale": zyx.ones(2)}).state_dict())
    ['scale']
    """

    def __init__(self, parameters: Mapping[str, Tensor] | None = None) -> None:
        self.update(parameters or {})

    def update(self, parameters: Mapping[str, Tensor]) -> None:
        """Add parameters, or put them in the place of those of their names."""
        for name, value in parameters.items():
            self[name] = value

    def __getitem__(self, name: str) -> Parameter:
        return self._named()[name]

    def __setitem__(self, name: str, value: Tensor) -> None:
        if hasattr(type(self), name):
            raise StateError(
                f"{name!r} is an attribute of every {type(self).__name__}, and cannot be a parameter's name"
            )
        self._put(name, value)

    def __delitem__(self, name: str) -> None:
        delattr(self, name)

    def __contains__(self, name: object) -> bool:
        return name in self._named()

    def __iter__(self) -> Iterator[str]:
        return iter(self._named())

    def keys(self) -> list[str]:
        """Return the names."""
        return list(self._named())

    def values(self) -> list[Parameter]:
        """Return the parameters."""
        return list(self._named().values())

    def items(self) -> list[tuple[str, Parameter]]:
        """Return names and parameters."""
        return list(self._named().items())
