"""The parameters of a traced function of which each number has a trace of its own, because its author says so."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from zyx.errors import TraceError
from zyx.jit.structure import take_apart

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class StaticParameters:
    """Which arguments these are.

    Args:
        function: Whose.
        names: Of parameters.

    Raises:
        TraceError: One is no parameter of the function, or those are not known.
    """

    __slots__ = ("_keywords", "_others", "_positions", "_rest")

    def __init__(self, function: Callable[..., object], names: Sequence[str]) -> None:
        self._rest: int | None = None  # where what ``*args`` takes begins, if that is static
        self._others: frozenset[str] | None = None  # what ``**kwargs`` does not take, if that is static
        name = getattr(function, "__qualname__", type(function).__name__)
        try:
            parameters = inspect.signature(function).parameters
        except (TypeError, ValueError) as error:
            raise TraceError(f"static: the parameters of {name} are not known ({error})") from error
        unknown = [repr(one) for one in names if one not in parameters]
        if unknown:
            raise TraceError(
                f"static: {name} has no parameter {', '.join(unknown)}; it has {', '.join(parameters) or 'none'}"
            )
        positional = [one for one in parameters.values() if one.kind in _POSITIONAL]
        self._keywords = frozenset(names)
        self._positions = frozenset(place for place, one in enumerate(positional) if one.name in self._keywords)
        for one in parameters.values():
            if one.name in self._keywords and one.kind is inspect.Parameter.VAR_POSITIONAL:
                self._rest = len(positional)
            elif one.name in self._keywords and one.kind is inspect.Parameter.VAR_KEYWORD:
                self._others = frozenset(parameters) - {one.name}

    def places(self, bound: Sequence[object], args: Sequence[object], kwargs: Mapping[str, object]) -> frozenset[int]:
        """Return the places of the numbers of these parameters, among the numbers of all arguments of a call.

        Args:
            bound: The object of a bound method, whose parameters begin behind it.
            args: Arguments by position.
            kwargs: Arguments by name.
        """
        numbers: list[float] = []
        found: set[int] = set()
        by_name: list[tuple[Any, bool]] = [(value, self._is_static(name)) for name, value in kwargs.items()]
        by_place: list[tuple[Any, bool]] = [
            (value, place in self._positions or (self._rest is not None and place >= self._rest))
            for place, value in enumerate(args)
        ]
        for value, is_static in (*((value, False) for value in bound), *by_place, *by_name):
            before = len(numbers)
            take_apart(value, [], numbers)
            if is_static:
                found.update(range(before, len(numbers)))
        return frozenset(found)

    def _is_static(self, name: str) -> bool:
        return name in self._keywords or (self._others is not None and name not in self._others)
