"""Integer arguments: sizes, counts, axes, offsets, seeds. All that users give goes through here.

Whatever has ``__index__`` is an integer: Python's and NumPy's, and tensors of rank 0, whose value is read. Bools are
none, as in most of NumPy, and floats are none, whole or not. What stands in for a number while a function is traced
(`zyx.jit.numbers`, `zyx.jit.sizes`) stays what it is: who computes with it finds out whether the trace depends on it.
"""

from __future__ import annotations

import operator
import sys
from typing import TYPE_CHECKING, Any, TypeGuard

from zyx.errors import IntegerError, ShapeError, TraceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import NoReturn


def as_integer(given: object, name: str) -> int:
    """Return an argument as an int; of a number that stands in for one, what it is now; a size that varies as it is.

    Args:
        given: The argument.
        name: Of it, for errors, which name the function that was called themselves.

    Raises:
        IntegerError: No integer.
        TraceError: A tensor, while a function is traced and there are no values.
    """
    kind = type(given)
    if kind is int:
        return given  # type: ignore[return-value]  # `kind` says so
    if isinstance(given, int) and not issubclass(kind, int):
        now = getattr(kind, "now", None)  # as sizes have it
        if now is not None:
            return now(given)  # type: ignore[no-any-return]  # an int, or a size
    return as_index(given, name)


def as_index(given: object, name: str) -> int:
    """Return an argument as an int; of what stands in for one, that it is now. Raises as `as_integer` does."""
    if type(given) is int:
        return given
    if issubclass(type(given), bool):
        refuse(given, name, "an integer")
    try:
        return operator.index(given)  # type: ignore[arg-type]  # the error is what we are after
    except TraceError as error:
        raise TraceError(
            f"{function_called()}: {name} is an integer that is known while the function is traced, not a tensor; "
            f"pass it in as a number. {error}"
        ) from error
    except TypeError as error:
        refuse(given, name, "an integer", error)


def as_integers(given: object, name: str, count: int | None = None) -> tuple[int, ...]:
    """Return an argument that is one integer, or several.

    Args:
        given: The argument.
        name: Of it, for errors.
        count: How many there are to be, if that is known; one integer then stands for all of them.

    Raises:
        IntegerError: Something else, or another number of them.
        TraceError: As `as_integer` raises it.
    """
    if not is_several(given):
        return (as_integer(given, name),) * (1 if count is None else count)
    found = tuple([as_integer(each, name) for each in given])
    if count is not None and len(found) != count:
        refuse(given, name, f"an integer or {count} of them")
    return found


def spread(given: int | Sequence[int], count: int, what: str) -> tuple[int, ...]:
    """Return one integer an axis, of one for all or of as many.

    Raises:
        ShapeError: Another number of them.
    """
    if not is_several(given):
        return (as_integer(given, what),) * count
    listed = as_integers(given, f"each entry of {what}")
    if len(listed) != count:
        raise ShapeError(f"{what} {given} has {len(listed)} entries for {count} axes")
    return listed


def as_given(given: Any, name: str) -> Any:  # noqa: ANN401  # what it is given
    """Return an argument that is to be kept for later: integers, in the structure that it has; text and None stay.

    Raises:
        IntegerError: Something else.
        TraceError: As `as_integer` raises it.
    """
    if given is None or isinstance(given, str):
        return given
    return tuple([as_given(each, name) for each in given]) if is_several(given) else as_index(given, name)


def is_several(given: object) -> TypeGuard[Iterable[Any]]:
    """Whether an argument is a sequence; arrays and tensors of rank 0 and text are none, whatever methods they have."""
    return hasattr(type(given), "__iter__") and getattr(given, "ndim", 1) != 0 and not isinstance(given, str)


def refuse(given: object, name: str, wanted: str, cause: BaseException | None = None) -> NoReturn:
    """Raise the error for an argument that is no integer, or no sequence of them.

    Raises:
        IntegerError: Always.
    """
    text = type(given).__name__ if hasattr(given, "node") else f"{given!r} ({type(given).__name__})"
    detail = f": {cause}" if hasattr(given, "node") and cause is not None else ""
    raise IntegerError(f"{function_called()}: {name} is {wanted}, not {text}{detail}") from cause


def function_called() -> str:
    """Return the name of the function of this package, or of the class, that somebody outside of it called."""
    frame, found = sys._getframe(1), ""
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "zyx":
        name = frame.f_code.co_name
        if not name.startswith("<"):  # a comprehension
            owner = type(frame.f_locals["self"]).__name__ if "self" in frame.f_locals else ""
            found = owner if name.startswith("__") and owner else f"{owner}.{name}" if owner else name
        frame = frame.f_back
    return found or "zyx"


def check_numbers(given: tuple[object, ...]) -> None:
    """Raise `IntegerError` if sizes, or attributes, have something that only can become a number.

    A tensor in a node would be read by whoever computes with it: also by the thread that compiles it, while the reader
    of the result waits for that thread. A NumPy integer would wrap where Python's grow. What stands in for a number
    while a function is traced says that it is an int, and may be there.
    """
    for number in given:
        kind = type(number)
        if kind is int:
            continue
        if kind is tuple:
            check_numbers(number)  # type: ignore[arg-type]  # `kind` says so
        elif hasattr(kind, "__index__") and not isinstance(number, int):
            raise IntegerError(
                f"a node is made of numbers, not of {kind.__name__}; convert what stands for one with int(...) first"
            )
