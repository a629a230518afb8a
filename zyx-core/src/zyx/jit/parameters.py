"""What can be traced, and which arguments of a call are those of parameters that somebody named."""

from __future__ import annotations

import functools
import inspect
import types
from typing import TYPE_CHECKING

from zyx.errors import TraceError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Parameters:
    """Some parameters of a function.

    Args:
        function: Whose.
        names: Of parameters.
        option: What they are named for, in the text of errors.

    Raises:
        TraceError: One is no parameter of the function, or those are not known.
    """

    __slots__ = ("_keywords", "_known", "_others", "_positions", "_rest")

    def __init__(self, function: Callable[..., object], names: Collection[str], option: str) -> None:
        self._rest: tuple[int, str] | None = None  # where what ``*args`` takes begins, if it is named
        self._others: str | None = None  # ``**kwargs``, if it is named
        name = getattr(function, "__qualname__", type(function).__name__)
        try:
            parameters = inspect.signature(function).parameters
        except (TypeError, ValueError) as error:
            raise TraceError(f"{option}: the parameters of {name} are not known ({error})") from error
        unknown = [repr(one) for one in names if one not in parameters]
        if unknown:
            raise TraceError(
                f"{option}: {name} has no parameter {', '.join(unknown)}; it has {', '.join(parameters) or 'none'}"
            )
        positional = [one.name for one in parameters.values() if one.kind in _POSITIONAL]
        self._known = frozenset(parameters)
        self._keywords = frozenset(names)
        self._positions = {place: one for place, one in enumerate(positional) if one in self._keywords}
        for one in parameters.values():
            if one.name in self._keywords and one.kind is inspect.Parameter.VAR_POSITIONAL:
                self._rest = (len(positional), one.name)
            elif one.name in self._keywords and one.kind is inspect.Parameter.VAR_KEYWORD:
                self._others = one.name

    def arguments(
        self, bound: Sequence[object], args: Sequence[object], kwargs: Mapping[str, object]
    ) -> Iterator[tuple[object, str]]:
        """Yield each argument of a call in order, with the name of its parameter, "" if that is none of these.

        Args:
            bound: The object of a bound method, whose parameters begin behind it.
            args: Arguments by position.
            kwargs: Arguments by name.
        """
        for value in bound:
            yield value, ""
        for place, value in enumerate(args):
            is_rest = self._rest is not None and place >= self._rest[0]
            yield value, self._rest[1] if is_rest and self._rest else self._positions.get(place, "")
        for name, value in kwargs.items():
            yield value, name if name in self._keywords else (self._others or "") if name not in self._known else ""


def check_function(function: object) -> None:
    """Refuse what is no function, or whose calls do not compute: they only make something that does, later."""
    if not callable(function) or isinstance(function, staticmethod):
        raise TraceError(
            f"zyx.jit was given a {type(function).__name__}; put it below @staticmethod, @classmethod or @property, "
            "next to the function"
        )
    asked = function if isinstance(function, types.FunctionType | types.MethodType | functools.partial) else None
    for found in (asked,) if asked is not None else (function, type(function).__call__):
        if inspect.isgeneratorfunction(found) or inspect.isasyncgenfunction(found):
            kind, instead = "a generator", "return a list of tensors"
        elif inspect.iscoroutinefunction(found):
            kind, instead = "an async function", "let it await outside, and trace what computes"
        else:
            continue
        name = getattr(function, "__qualname__", type(function).__name__)
        raise TraceError(f"{name} is {kind}: a call of it computes nothing that could be traced; {instead}")
