"""Switches that hold for a stretch of a program: implicit casts, gradients, and what debugging shows.

A setter works at once, and gives back what undoes it at the end of a ``with`` block::

    set_implicit_casts(False)           # from now on, in all threads
    with set_implicit_casts(True):      # for this block, in this thread or task
        ...

Without ``with``, a switch is the process's: what the main thread switches on is on in the threads of a pool, too. With
it, it is a context variable's, so that threads and tasks do not disturb each other; so is what is set inside of such a
block, until it ends. What debugging shows is always of the thread or task that says so.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from zyx.dtype import DType

__all__ = ["implicit_casts", "is_grad_enabled", "set_implicit_casts"]

T = TypeVar("T")


class _Said:
    """What a setter was told.

    Attributes:
        value: That.
        is_of_block: Whether it holds for a ``with`` block, or inside of one.
        is_everywhere: Whether it has become the process's, so that what is said later in other threads counts here.
    """

    __slots__ = ("is_everywhere", "is_of_block", "value")

    def __init__(self, value: bool, is_of_block: bool) -> None:
        self.value = value
        self.is_of_block = is_of_block
        self.is_everywhere = False


class _Switch:
    """Something that is on or off.

    Attributes:
        value: What it is where nothing else was said.
        here: What was said last in this thread or task.
    """

    __slots__ = ("here", "value")

    def __init__(self, name: str, value: bool) -> None:
        self.value = value
        self.here: Final[ContextVar[_Said | None]] = ContextVar(name, default=None)

    def get(self) -> bool:
        """Return what it is here."""
        said = self.here.get()
        return self.value if said is None or said.is_everywhere else said.value

    def set(self, value: bool) -> UndoSwitch:
        """Set it here at once; elsewhere as soon as it is known that no ``with`` block begins."""
        before = self.here.get()
        said = _Said(value, before is not None and before.is_of_block)
        self.here.set(said)
        return UndoSwitch(self, said, before)


class UndoSwitch:
    """Puts a switch back at the end of a ``with`` block.

    A setter cannot know whether one begins. Where nobody keeps what it returns, as in a statement of its own, or it is
    shown, as in an interactive session, none does: then what was set holds in all threads. Were it set there before
    that, each block would be seen by others for a moment.
    """

    __slots__ = ("_before", "_said", "_switch")

    def __init__(self, switch: _Switch, said: _Said, before: _Said | None) -> None:
        self._switch = switch
        self._said = said
        self._before = before

    def __enter__(self) -> None:
        """Begin the block; the switch is set already."""
        self._said.is_of_block = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._switch.here.set(self._before)

    def __del__(self) -> None:
        self._spread()

    def __repr__(self) -> str:
        self._spread()
        return f"<{self._switch.here.name} is {self._said.value}; as a with block, for its length>"

    def _spread(self) -> None:
        if not self._said.is_of_block and not self._said.is_everywhere:
            self._switch.value = self._said.value
            self._said.is_everywhere = True


class Undo(Generic[T]):
    """Puts a variable back at the end of a ``with`` block; without one, nothing is undone."""

    __slots__ = ("_before", "_switch", "_then")

    def __init__(self, switch: ContextVar[T], before: T, then: Callable[[], None] | None = None) -> None:
        self._switch = switch
        self._before = before
        self._then = then

    def __enter__(self) -> None:
        """Begin the block; the switch is set already."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._switch.set(self._before)
        if self._then is not None:
            self._then()


_IMPLICIT_CASTS: Final = _Switch("implicit_casts", True)
_GRAD: Final = _Switch("grad", True)
_SHOWN: Final[ContextVar[int | None]] = ContextVar("shown", default=None)
_LOW: Final[ContextVar[DType | None]] = ContextVar("low precision", default=None)
_RANK: Final[ContextVar[Rank | None]] = ContextVar("rank", default=None)


def implicit_casts() -> bool:
    """Return whether operands of different dtypes are converted to their common one; they are unless switched off.

    >>> zyx.implicit_casts()
    True
    """
    return _IMPLICIT_CASTS.get()


def set_implicit_casts(enabled: bool) -> UndoSwitch:
    """Let operations on different dtypes convert them (the default), or refuse them. Python numbers stay weak.

    As a statement this holds in all threads; ``with set_implicit_casts(False): ...`` holds for the block, in this
    thread or task alone.

    >>> with zyx.set_implicit_casts(False):
    ...     print(zyx.implicit_casts())
    False
    """
    return _IMPLICIT_CASTS.set(bool(enabled))


def is_grad_enabled() -> bool:
    """Return whether results remember what they were computed from, for `backward`; see `zyx.no_grad`.

    >>> with zyx.no_grad():
    ...     print(zyx.is_grad_enabled())
    False
    """
    return _GRAD.get()


def switch_grad(enabled: bool) -> UndoSwitch:
    """Set that; to be called by `zyx.autograd.switches`, which tells the runtime."""
    return _GRAD.set(enabled)


#: Returns the subjects that debugging shows, as the bits of `zyx.settings.debug.Debug`; None: those configured. Every
#: launch asks; this is the variable's own method, without a call of Python's.
shown: Final = _SHOWN.get


def set_shown(bits: int | None, then: Callable[[], None] | None = None) -> Undo[int | None]:
    """Let debugging show these subjects, and no others; None are those of the configuration.

    `then` is called at the end of a ``with`` block.
    """
    before = _SHOWN.get()
    _SHOWN.set(bits)
    return Undo(_SHOWN, before, then)


class Rank:
    """One of several ranks of `zyx.distributed` that are threads of this process.

    Attributes:
        own: What it has for itself of what a runtime has for a process, by the runtime.
    """

    __slots__ = ("own",)

    def __init__(self) -> None:
        self.own: dict[object, dict[str, Any]] = {}


def own_of(runtime: object) -> dict[str, Any]:
    """Return where attributes of a runtime are kept that each rank has for itself: its own ones, if this is no rank."""
    rank = _RANK.get()
    return vars(runtime) if rank is None else rank.own.setdefault(runtime, {})


@contextmanager
def as_rank(rank: Rank) -> Iterator[None]:
    """Let this thread be a rank for the length of a ``with`` block."""
    token = _RANK.set(rank)
    try:
        yield
    finally:
        _RANK.reset(token)


#: Returns the dtype of products and convolutions under `zyx.autocast`; None outside of it. As `shown`, without a call.
low_precision: Final = _LOW.get


def set_low_precision(dtype: DType | None) -> Undo[DType | None]:
    """Let products and convolutions be computed in this dtype, or in that of their operands; see `zyx.autocast`."""
    before = _LOW.get()
    _LOW.set(dtype)
    return Undo(_LOW, before)


def state() -> tuple[bool, bool, DType | None, Rank | None]:
    """Return the switches that results depend on: what was traced under one state is not replayed under another.

    A rank is among them: what one of them has traced is no other's, which does it with other partners.
    """
    casts, grads = _IMPLICIT_CASTS.here.get(), _GRAD.here.get()  # without calls of Python's: each traced one asks
    return (
        _IMPLICIT_CASTS.value if casts is None or casts.is_everywhere else casts.value,
        _GRAD.value if grads is None or grads.is_everywhere else grads.value,
        _LOW.get(),
        _RANK.get(),
    )
