"""Switch gradients off and on: `no_grad`, `enable_grad`, `inference_mode`, `set_grad_enabled`.

    with zyx.no_grad():                 @zyx.no_grad()
        y = model(x)                    def predict(x): ...

What is computed while they are off has no history: `backward` does not pass it, and memory holds nothing for it. Tapes
and `zyx.grad` are not concerned: they record what is in their block.
"""

from __future__ import annotations

import functools
import inspect
import threading
from typing import TYPE_CHECKING, ParamSpec, TypeVar, overload

from zyx.errors import ArgumentError
from zyx.modes import UndoSwitch, is_grad_enabled, switch_grad
from zyx.runtime.leaves import Quiet
from zyx.runtime.runtime import current

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from zyx.runtime.runtime import Runtime

__all__ = ["enable_grad", "inference_mode", "no_grad", "set_grad_enabled"]

P = ParamSpec("P")
R = TypeVar("R")


class GradBlock:
    """A ``with`` block in which gradients are on or off, in this thread or task; or a decorator."""

    def __init__(self, enabled: bool) -> None:
        self._enabled = enabled
        self._entered: dict[int, list[tuple[UndoSwitch, Runtime]]] = {}  # by thread

    def __enter__(self) -> None:
        runtime = current()
        if not self._enabled:
            with runtime.lock:
                runtime.observers.quieten(Quiet())
        undo = switch_grad(self._enabled)
        undo.__enter__()
        self._entered.setdefault(threading.get_ident(), []).append((undo, runtime))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        undo, runtime = self._entered[threading.get_ident()].pop()
        undo.__exit__(kind, error, trace)
        if not self._enabled:
            with runtime.lock:
                runtime.observers.unquieten()

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Return `function` with its calls in such a block.

        Raises:
            ArgumentError: It is no function; or a generator or async function, whose calls do nothing yet: put a
                block inside.
        """
        if not callable(function):
            raise ArgumentError(f"gradients are switched on or off in a function, not in {function!r}")
        if any(is_one(function) for is_one in (inspect.isgeneratorfunction, inspect.iscoroutinefunction)):
            raise ArgumentError(
                f"{function!r} is a generator or async function, a call of which computes nothing yet; put the with "
                "block inside of it"
            )

        @functools.wraps(function)
        def in_block(*args: P.args, **kwargs: P.kwargs) -> R:
            with GradBlock(self._enabled):
                return function(*args, **kwargs)

        return in_block


@overload
def no_grad() -> GradBlock: ...
@overload
def no_grad(function: Callable[P, R]) -> Callable[P, R]: ...


def no_grad(function: Callable[P, R] | None = None) -> GradBlock | Callable[P, R]:
    """Return a block in which what is computed has no history for `backward`; or `function` with its calls in one.

    Raises:
        ArgumentError: No function; or a generator or async function, whose calls do nothing yet.

    >>> x = zyx.ones(2, requires_grad=True)
    >>> with zyx.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """
    return GradBlock(False) if function is None else GradBlock(False)(function)


@overload
def enable_grad() -> GradBlock: ...
@overload
def enable_grad(function: Callable[P, R]) -> Callable[P, R]: ...


def enable_grad(function: Callable[P, R] | None = None) -> GradBlock | Callable[P, R]:
    """Return a block in which results have a history again, inside of one of `no_grad`; or `function` with such.

    Raises:
        ArgumentError: No function; or a generator or async function, whose calls do nothing yet.

    >>> x = zyx.ones(2, requires_grad=True)
    >>> with zyx.no_grad(), zyx.enable_grad():
    ...     y = x * 2
    >>> y.requires_grad
    True
    """
    return GradBlock(True) if function is None else GradBlock(True)(function)


def inference_mode(mode: bool = True) -> GradBlock:
    """Return what `no_grad` does, or with False `enable_grad`; its results may be used later, unlike PyTorch's.

    >>> x = zyx.ones(2, requires_grad=True)
    >>> with zyx.inference_mode():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """
    return GradBlock(not mode)


def set_grad_enabled(mode: bool) -> UndoSwitch:
    """Switch gradients on or off at once.

    As a statement this holds in all threads; ``with set_grad_enabled(False): ...`` holds for the block, in this thread
    or task alone.

    >>> x = zyx.ones(2, requires_grad=True)
    >>> with zyx.set_grad_enabled(False):
    ...     y = x * 2
    >>> y.requires_grad
    False
    """
    if not mode and is_grad_enabled():
        runtime = current()
        with runtime.lock:
            runtime.observers.quieten(Quiet())  # for good: nobody says whether a block ends
    return switch_grad(bool(mode))
