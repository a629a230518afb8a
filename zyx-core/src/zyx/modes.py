"""Switches that hold for a stretch of a program: implicit casts, training, and what debugging shows.

All are context variables, so threads and tasks do not disturb each other. A setter works at once, and gives back what
undoes it at the end of a ``with`` block::

    set_training(True)              # from now on
    with set_training(False):       # for this block
        ...
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from types import TracebackType

_IMPLICIT_CASTS: Final[ContextVar[bool]] = ContextVar("implicit_casts", default=True)
_TRAINING: Final[ContextVar[bool]] = ContextVar("training", default=False)
_SHOWN: Final[ContextVar[int | None]] = ContextVar("shown", default=None)

T = TypeVar("T")


class Undo(Generic[T]):
    """Puts a switch back at the end of a ``with`` block; without one, nothing is undone."""

    __slots__ = ("_before", "_switch")

    def __init__(self, switch: ContextVar[T], before: T) -> None:
        self._switch = switch
        self._before = before

    def __enter__(self) -> None:
        """Begin the block; the switch is set already."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._switch.set(self._before)


def implicit_casts() -> bool:
    """Return whether operands of different dtypes are converted to their common one; they are unless switched off."""
    return _IMPLICIT_CASTS.get()


def set_implicit_casts(enabled: bool) -> Undo[bool]:
    """Let operations on different dtypes convert them (the default), or refuse them. Python numbers stay weak."""
    before = _IMPLICIT_CASTS.get()
    _IMPLICIT_CASTS.set(bool(enabled))
    return Undo(_IMPLICIT_CASTS, before)


def training() -> bool:
    """Return whether dropout and batch normalisation, where not told otherwise, behave as in training; off at first."""
    return _TRAINING.get()


def set_training(enabled: bool) -> Undo[bool]:
    """Switch the behaviour of dropout and batch normalisation."""
    before = _TRAINING.get()
    _TRAINING.set(bool(enabled))
    return Undo(_TRAINING, before)


#: Returns the subjects that debugging shows, as the bits of `zyx.settings.debug.Debug`; None: those configured. Every
#: launch asks; this is the variable's own method, without a call of Python's.
shown: Final = _SHOWN.get


def set_shown(bits: int | None) -> Undo[int | None]:
    """Let debugging show these subjects, and no others; None are those of the configuration."""
    before = _SHOWN.get()
    _SHOWN.set(bits)
    return Undo(_SHOWN, before)


def state() -> tuple[bool, bool]:
    """Return the switches that results depend on: what was traced under one state is not replayed under another."""
    return _IMPLICIT_CASTS.get(), _TRAINING.get()
