"""Axes that vary from call to call, because the author of a traced function says so.

n = zyx.Dim("n", 1, 8192)

@zyx.jit(lengths={"x": {0: n}, "mask": {0: n}})
def pooled(x, mask): return (x * mask).sum(0)

pooled(x[20, 3], mask[20, 1])       one trace for all lengths, and a plan for up to 128
pooled(x[25, 3], mask[25, 1])       the same plan
pooled(x[25, 3], mask[24, 1])       an error: n is 25 in one, and 24 in the other
pooled(x[9000, 3], ...)             an error: n is at most 8192
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from zyx.errors import DimError
from zyx.jit.parameters import Parameters
from zyx.jit.structure import take_apart

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zyx.runtime.handle import Handle

__all__ = ["Dim"]


class Dim:
    """The length of axes that vary from call to call of a function of `zyx.jit`, and between which bounds.

    Axes that are declared as of one Dim have one length in each call. Dims of one name in one function are the same,
    and have the same bounds. Lengths of 0 and 1 have traces of their own, since other rules of broadcasting hold there.

    Args:
        name: What errors call it.
        min: The least length.
        max: The greatest length; None if there is none.

    Raises:
        DimError: The name is empty, a bound is no int or negative, or `max` is less than `min`.

    Attributes:
        name: What errors call it.
        min: The least length.
        max: The greatest length; None if there is none.

    >>> total = zyx.jit(lambda x: x.sum(), lengths={"x": {0: zyx.Dim("n", 1, 64)}})
    >>> total(zyx.ones(3)).item(), total(zyx.ones(5)).item()
    (3.0, 5.0)
    """

    __slots__ = ("max", "min", "name")

    def __init__(self, name: str, min: int = 0, max: int | None = None) -> None:
        if type(name) is not str or not name:
            raise DimError(f"the name of a Dim is a str that is not empty, not {name!r}")
        for word, bound in (("min", min), ("max", max)):
            if (type(bound) is not int or bound < 0) and not (bound is None and word == "max"):
                raise DimError(f"Dim {name!r}: {word} is a length, an int that is not negative, not {bound!r}")
        if max is not None and max < min:
            raise DimError(f"Dim {name!r}: max is {max}, which is less than min, {min}")
        self.name: Final = name
        self.min: Final = min
        self.max: Final = max

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dim) and (self.name, self.min, self.max) == (other.name, other.min, other.max)

    def __hash__(self) -> int:
        return hash((self.name, self.min, self.max))

    def __repr__(self) -> str:
        return f"Dim({self.name!r}, {self.min}, {self.max})"


class Declared(NamedTuple):
    """Which sizes of a call are lengths, as its author says.

    Attributes:
        number_of: The number of its length, by the place of a size among those of all tensors.
        most: The greatest of each length, None if there is none.
    """

    number_of: Mapping[int, int]
    most: tuple[int | None, ...]


class DeclaredLengths:
    """What the author of a function says of the axes of its arguments.

    Args:
        function: Whose.
        lengths: The Dims, by the name of a parameter and the axis of the tensors that are given for it.

    Raises:
        DimError: It is no mapping of these; or two Dims have one name, and other bounds.
        TraceError: The function has no such parameter.
    """

    __slots__ = ("_axes", "_parameters")

    def __init__(self, function: Callable[..., object], lengths: Mapping[str, Mapping[int, Dim]]) -> None:
        self._parameters = Parameters(function, lengths, "lengths")
        self._axes: dict[str, dict[int, Dim]] = {}
        known: dict[str, Dim] = {}
        for parameter, dims in lengths.items():
            if not hasattr(dims, "items"):
                raise DimError(f'lengths: {{axis: Dim}} is expected of {parameter!r}, such as {{0: zyx.Dim("n")}}')
            for axis, dim in dims.items():
                if type(axis) is not int or not isinstance(dim, Dim):
                    raise DimError(f"lengths: of {parameter!r}, {axis!r}: {dim!r} is no axis and its Dim")
                if known.setdefault(dim.name, dim) != dim:
                    raise DimError(f"lengths: {known[dim.name]} and {dim} have one name, and other bounds")
            self._axes[parameter] = dict(dims)

    def declared(
        self, bound: Sequence[object], args: Sequence[object], kwargs: Mapping[str, object]
    ) -> Declared | None:
        """Return which sizes of a call are lengths; None if none are, since no tensor is given there.

        Args:
            bound: The object of a bound method, whose parameters begin behind it.
            args: Arguments by position.
            kwargs: Arguments by name.

        Raises:
            DimError: A length is not within its bounds, axes of one Dim have other lengths, or there is no such axis.
        """
        number_of: dict[int, int] = {}
        found: dict[Dim, tuple[int, str]] = {}
        numbers: dict[Dim, int] = {}
        count = 0
        for value, name in self._parameters.arguments(bound, args, kwargs):
            tensors: list[Handle] = []
            take_apart(value, tensors)
            for tensor in tensors:
                shape = tensor._node.shape
                for axis, dim in self._axes.get(name, {}).items():
                    if not -len(shape) <= axis < len(shape):
                        raise DimError(f"{name!r} has no axis {axis}, which is declared as {dim}: its shape is {shape}")
                    place = axis % len(shape)
                    here = f"axis {axis} of {name!r}, of shape {shape}"
                    length, there = found.setdefault(dim, (shape[place], here))
                    if length != shape[place]:
                        raise DimError(
                            f"{dim.name} is {length} along {there}, and {shape[place]} along {here}; both are declared "
                            f"as {dim}, and have one length in a call"
                        )
                    number_of[count + place] = numbers.setdefault(dim, len(numbers))
                count += len(shape)
        for dim, (length, here) in found.items():
            if length < dim.min or (dim.max is not None and length > dim.max):
                most = "" if dim.max is None else f" and at most {dim.max}"
                raise DimError(f"{dim.name} is {length} along {here}; it is declared as at least {dim.min}{most}")
        return Declared(number_of, tuple([dim.max for dim in numbers])) if number_of else None
