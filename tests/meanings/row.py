"""A row: a function of zyx, what it means in NumPy, and what it may be given.

Row("flip", np.flip, (AXES,), bits=Bits.CERTAIN)          zyx.flip(x, (0, 2)) is np.flip(x, (0, 2)), to the bit
Row("log", np.log, into=FROM_HALF, ulps=2)                zyx.log(zyx.abs(x) + 0.5) for any x
Row("add", np.add, operands=2, text="{0} + {1}")          the operator
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fuzz.drawing import Draw

    from zyx.testing.values import Array


class Of(enum.Enum):
    """What a row takes."""

    VALUES = "any"
    NUMBERS = "numbers"
    FLOATS = "floats"
    INTEGERS = "integers"


class Bits(enum.Enum):
    """How exactly a result is known, where its operands are."""

    ROUNDED = "it is rounded"
    OF_INTEGERS = "to the bit of integers, rounded of floats"
    CERTAIN = "to the bit"
    JUMPING = "to the bit, but it jumps: operands have to be known to the bit"


@dataclass(frozen=True, slots=True)
class Into:
    """What takes any float into the domain of a function, within the range of every dtype.

    Attributes:
        text: The expression, with ``{}`` for the float.
        meaning: The same in NumPy.
    """

    text: str
    meaning: Callable[[Array], Array]


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument that is drawn.

    Attributes:
        draw: Returns it for an operand, of which it gets the number.
    """

    draw: Callable[[Draw, int], Any]


@dataclass(frozen=True, slots=True)
class Row:
    """A function and its meaning.

    Attributes:
        name: Of the function in `zyx`, and of the method where tensors have one.
        meaning: The same in NumPy: of arrays, and of the arguments.
        arguments: Behind the operands: each is drawn, or stands as it is.
        keywords: Likewise, by their names in zyx and in `meaning`.
        of: What the operands are.
        operands: How many there are, each broadcasting with the first one.
        are_alike: Whether they have one shape, and do not broadcast.
        bits: How exactly the result is known.
        has_slope: Whether a gradient goes through it; never where it jumps, or is of integers.
        into: For each operand, what takes it into the domain; None if it lies there.
        text: The call, with ``{0}`` for operands and ``%s`` for arguments; by default that of the function.
        part: What is taken of the result, as text, such as ``[1]``.
        ranks: Least and greatest rank of the operand.
        not_empty: Whether it has elements.
        fits: Whether a call of an operand's shape, dtype and values is drawn, by the operand's number and arguments.
        inner: What cancels within the call, of operands and arguments; see `fuzz.program.Call`.
        ulps: What the result may be off of any operand, special ones included, in units of the last place beyond
            rounding; None where the meaning is of ordinary operands alone.
    """

    name: str
    meaning: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict)
    of: Of = Of.FLOATS
    operands: int = 1
    are_alike: bool = False
    bits: Bits = Bits.ROUNDED
    has_slope: bool = True
    into: Into | tuple[Into | None, ...] | None = None
    text: str = ""
    part: str = ""
    ranks: tuple[int, int] = (0, 5)
    not_empty: bool = False
    fits: Callable[..., bool] | None = None
    inner: Callable[..., Any] | None = None
    ulps: float | None = None

    def __str__(self) -> str:
        return self.called([])

    @property
    def domains(self) -> Sequence[Into | None]:
        """What takes each operand into the domain."""
        return self.into if isinstance(self.into, tuple) else (self.into,) * self.operands

    def called(self, arguments: Sequence[str], *, as_method: bool = False) -> str:
        """Return the call as text, with arguments as text."""
        operands = [
            domain.text.format(f"{{{number}}}") if domain else f"{{{number}}}"
            for number, domain in enumerate(self.domains)
        ]
        if self.text:
            return self.text.replace("%s", ", ".join(arguments))
        if as_method:
            first = f"({operands[0]})" if self.domains[0] else operands[0]
            return f"{first}.{self.name}({', '.join([*operands[1:], *arguments])}){self.part}"
        return f"zyx.{self.name}({', '.join([*operands, *arguments])}){self.part}"

    def means(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Callable[..., Any]:
        """Return what the call of some arguments means, domains included."""
        domains = self.domains
        if self.text or not any(domains):
            return lambda *operands: np.asarray(self.meaning(*operands, *arguments, **keywords))

        def meaning(*operands: Array) -> Array:
            inside = [domain.meaning(x) if domain else x for x, domain in zip(operands, domains, strict=True)]
            return np.asarray(self.meaning(*inside, *arguments, **keywords))

        return meaning


def one_of(*options: Any) -> Argument:  # whatever a function takes
    """Return an argument that is one of some."""
    return Argument(lambda d, _: d.choices.pick(options))


AXIS: Final = Argument(lambda d, x: d.axis(x))
#: None, an axis, or several.
AXES: Final = Argument(lambda d, x: d.axes(x))
FLAG: Final = Argument(lambda d, _: d.choices.chance(30))
SHIFT: Final = Argument(lambda d, _: d.place(-7, 9))
#: Of matrices, counted from the main one.
DIAGONAL: Final = Argument(lambda d, _: d.place(-4, 4))
