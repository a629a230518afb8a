"""The parameters of a traced function of which each number has a trace of its own, because its author says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.jit.parameters import Parameters
from zyx.jit.structure import take_apart

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class StaticParameters:
    """Which arguments these are.

    Args:
        function: Whose.
        names: Of parameters.

    Raises:
        TraceError: One is no parameter of the function, or those are not known.
    """

    __slots__ = ("_parameters",)

    def __init__(self, function: Callable[..., object], names: Sequence[str]) -> None:
        self._parameters = Parameters(function, names, "static")

    def places(self, bound: Sequence[object], args: Sequence[object], kwargs: Mapping[str, object]) -> frozenset[int]:
        """Return the places of the numbers of these parameters, among the numbers of all arguments of a call.

        Args:
            bound: The object of a bound method, whose parameters begin behind it.
            args: Arguments by position.
            kwargs: Arguments by name.
        """
        numbers: list[float] = []
        found: set[int] = set()
        for value, name in self._parameters.arguments(bound, args, kwargs):
            before = len(numbers)
            take_apart(value, [], numbers)
            if name:
                found.update(range(before, len(numbers)))
        return frozenset(found)
