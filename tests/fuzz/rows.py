"""Calls of rows of the table of meanings (`meanings`), their operands and arguments drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from meanings.row import Argument, Bits, Of

from fuzz.drawing import Unfit
from fuzz.program import Call

if TYPE_CHECKING:
    from collections.abc import Callable

    from meanings.row import Row

    from fuzz.drawing import Draw
    from zyx.dtype import DType

_FITTING: Final[dict[Of, Callable[[DType], bool]]] = {
    Of.VALUES: lambda dtype: True,
    Of.NUMBERS: lambda dtype: not dtype.is_bool,
    Of.FLOATS: lambda dtype: dtype.is_float,
    Of.INTEGERS: lambda dtype: dtype.is_integer,
}


def call_of(d: Draw, row: Row, *, as_method: bool = False) -> Call:
    """Return a call of a row, of operands that there are or that are new.

    Raises:
        Unfit: The operand does not fit.
    """
    certain = row.bits is Bits.JUMPING
    least, most = row.ranks
    x = d.value(
        _FITTING[row.of], least_rank=least, most_rank=most, certain=certain, not_empty=row.not_empty
    )  # fmt: skip
    others = [d.like(x, certain=certain, thin=not row.are_alike) for _ in range(row.operands - 1)]
    arguments = [_drawn(d, x, argument) for argument in row.arguments]
    keywords = {name: _drawn(d, x, argument) for name, argument in row.keywords.items()}
    if row.fits is not None and not row.fits(d, x, *arguments):
        raise Unfit
    inner = row.inner
    return Call(
        row.called([*map(repr, arguments), *(f"{name}={value!r}" for name, value in keywords.items())],
                   as_method=as_method),
        row.means(arguments, keywords), (x, *others),
        exact=row.bits in (Bits.CERTAIN, Bits.JUMPING) or (row.bits is Bits.OF_INTEGERS and d.dtype(x).is_integer),
        jumps=certain, has_slope=row.has_slope and not certain,
        inner=None if inner is None else lambda *values: inner(*values, *arguments, **keywords),
    )  # fmt: skip


def _drawn(d: Draw, x: int, argument: Any) -> Any:  # whatever a function takes
    return argument.draw(d, x) if isinstance(argument, Argument) else argument


@dataclass(frozen=True, slots=True)
class Family:
    """Draws a call of one of some rows.

    Attributes:
        name: That of all of them, as a function's.
        rows: Each as likely as the others.
    """

    name: str
    rows: tuple[Row, ...]

    @property
    def __name__(self) -> str:
        return self.name

    def __call__(self, d: Draw) -> Call:
        return call_of(d, d.choices.pick(self.rows))
