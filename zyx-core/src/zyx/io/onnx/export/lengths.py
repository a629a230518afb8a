"""Lengths that a call gives: which they are, and whether a function is written for all of them.

A function is traced at lengths that hardly anything else has, with sizes that are polynomials in them; see
`zyx.jit.sizes`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from zyx.errors import DimError
from zyx.jit.dims import Dim
from zyx.jit.sizes import Extent
from zyx.specialise.length import Length

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.jit.numbers import Numbers
    from zyx.shape import Shape
    from zyx.tensor.tensor import Tensor

#: Lengths up to this one are enough for all: places are int32 up to there.
_MOST: Final = (1 << 31) - 1
#: Lengths to trace at: which no other size is likely to be.
_UNLIKELY: Final = (97, 89, 83, 113, 127, 79, 131, 73, 61, 47, 37, 23, 11, 7, 5)
#: The least length that a network is for: where there is one element, it may be repeated beside others.
_LEAST: Final = 2


class Lengths:
    """Which axes of inputs have lengths that a call gives.

    Attributes:
        names: Their names, by input and axis.
        numbers: The number of each name.
        examples: The length of each in the example inputs.
        bounds: The least and the greatest of each.
    """

    def __init__(self, dynamic: Mapping[str, Mapping[int, Any]] | None, tensors: Mapping[str, Tensor]) -> None:
        """Check what is dynamic.

        Raises:
            DimError: No input has the name, or not the axis; or axes of one name have different lengths.
        """
        self.names: dict[tuple[str, int], str] = {}
        self.numbers: dict[str, int] = {}
        self.examples: list[int] = []
        self.bounds: list[tuple[int, int]] = []
        for given, axes in (dynamic or {}).items():
            if given not in tensors:
                raise DimError(
                    f"onnx.save: dynamic names the input {given!r}; there are {', '.join(tensors) or 'none'}"
                )
            shape = tensors[given].shape
            if not isinstance(axes, dict):
                raise DimError(
                    f'onnx.save: dynamic has {{axis: name}} of each input, such as {{{given!r}: {{0: "n"}}}}'
                )
            for axis, label in axes.items():
                name = label.name if isinstance(label, Dim) else label
                if type(axis) is not int or not -len(shape) <= axis < len(shape):
                    raise DimError(f"onnx.save: dynamic has axis {axis!r} of {given!r}, whose shape is {tuple(shape)}")
                if type(name) is not str or not name:
                    raise DimError(f"onnx.save: the name of axis {axis} of {given!r} is a text or a Dim, not {label!r}")
                self._add(given, axis % len(shape), name, int(shape[axis]))
                if isinstance(label, Dim):
                    least, most = self.bounds[self.numbers[name]]
                    self.bounds[self.numbers[name]] = max(least, label.min), min(most, label.max or _MOST)

    def _add(self, given: str, axis: int, name: str, length: int) -> None:
        number = self.numbers.setdefault(name, len(self.numbers))
        if number == len(self.examples):
            self.examples.append(length)
            self.bounds.append((_LEAST, _MOST))
        elif self.examples[number] != length:
            raise DimError(
                f"onnx.save: {name!r} is {self.examples[number]} in one example input, and {length} along axis {axis} "
                f"of {given!r}; axes of one name have one length"
            )
        self.names[given, axis] = name

    def made_at(self, turn: int) -> list[int]:
        """Return lengths within bounds to trace at, other ones in each turn."""
        made: list[int] = []
        for least, most in self.bounds:
            fitting = [size for size in _UNLIKELY if least <= size <= most and size not in made]
            made.append(fitting[turn] if turn < len(fitting) else max(least, most - turn))
        return made

    def shapes(self, tensors: Mapping[str, Tensor], extent: Extent) -> list[Shape]:
        """Return shapes that follow the lengths of `extent`."""

        def size(name: str, axis: int, given: int) -> int:
            label = self.names.get((name, axis))
            found: int = given if label is None else extent.made(Length.of({(self.numbers[label],): 1}))
            return found

        return [
            tuple([size(name, axis, number) for axis, number in enumerate(tensor.node.shape)])
            for name, tensor in tensors.items()
        ]


class FreeExtent(Extent):
    """The lengths that a network is for, which are to be all.

    Whether two sizes are equal is asked by our functions to see whether there is something to do: what they compute
    is the same either way, as long as lengths are 2 or more. So that is no limit; what others ask is one.
    """

    def __init__(self, made_at: Sequence[int], numbers: Numbers, lengths: Lengths) -> None:
        super().__init__(made_at, numbers)
        self._names = [*lengths.numbers]
        self._bounds = lengths.bounds

    def compare(self, size: Length, relation: str) -> bool:
        if relation == "== 0" and size.at(*self.lengths) and _is_asked_by_us():
            return False
        return super().compare(size, relation)

    def described(self) -> str:
        """Return in words at which lengths the function is traced."""
        return ", ".join([f"{name} = {length}" for name, length in zip(self._names, self.lengths, strict=True)])

    def limit(self) -> str:
        """Return in words to which lengths the trace is limited; "" if it is for all."""
        if self.numbers.looked_at:
            return f"{self.place or 'the function'} looks at the number itself"
        for number, (name, (least, most)) in enumerate(zip(self._names, self._bounds, strict=True)):
            low, high = self._low[number], self._high[number]
            if low > least:
                return f"it is for {name} of {low} and more; say so by zyx.Dim({name!r}, min={low})"
            if high < most:
                return f"it is for {name} up to {high}; say so by zyx.Dim({name!r}, max={high})"
            for excluded in sorted(length for place, length in self._excluded if place == number):
                if least <= excluded <= most:
                    return f"it is for other {name} than {excluded}"
        for (size, relation), outcome in self._others.items():
            if not _holds_always(size, relation, outcome):
                return f"sizes made of {' and '.join(self._names)} are compared"
        return ""


def _holds_always(size: Length, relation: str, outcome: bool) -> bool:
    """Whether a relation is as it was found at all lengths; False if that is not seen."""
    if outcome:
        return relation == "< 0" and size.terms.get((), 0) <= -_MOST
    beyond = Length(0, 0)  # in what lengths are more than the least
    for product, factor in size.terms.items():
        term = Length(0, factor)
        for number in product:
            term = term * Length.of({(number,): 1, (): _LEAST})
        beyond = beyond + term
    least = beyond.terms.get((), 0)
    return all(factor >= 0 for factor in beyond.terms.values()) and (least > 0 or relation == "< 0")


def _is_asked_by_us() -> bool:
    """Whether the innermost frame that does not belong to sizes is one of this package."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__") == "zyx.jit.sizes":
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] == "zyx"
