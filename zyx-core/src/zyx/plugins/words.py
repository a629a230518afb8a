"""What other packages say, as text that can be shown: there always is some, in one line, without control codes."""

from __future__ import annotations

import importlib
import traceback
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import pluggy

if TYPE_CHECKING:
    from collections.abc import Callable

ValueT = TypeVar("ValueT")

#: Folders whose lines are on the way to a plugin, and never the place of its fault.
_MACHINERY: Final = {Path(__file__).parent, *(Path(str(m.__file__)).parent for m in (importlib, metadata, pluggy))}


def text_of(value: ValueT, show: Callable[[ValueT], str] = str) -> str:
    """Return the text of a value in one line, or that it has none: methods of others may raise anything."""
    try:
        return one_line(show(value))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  # boundary: a method of another package's class
        return f"a {type(value).__name__} whose text cannot be had, since that raises {type(error).__name__}"


def shown(value: object, most: int = 120) -> str:
    """Return how a value is written in Python, as far as that goes in `most` characters."""
    return text_of(value, repr)[:most]


def one_line(text: str) -> str:
    """Return a text in one line, with control characters written out: those of a terminal would act on it."""
    text = " ".join(text.split())
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def explain(error: BaseException) -> str:
    """Return an exception in one line, with the place where it was raised if it is not one of ours."""
    text = text_of(error)
    if str(type(error).__module__).startswith("zyx.") and text:
        return text
    place = "" if isinstance(error, SyntaxError) else _place(error)
    return f"{type(error).__name__}: {text}{place}" if text else f"{type(error).__name__}{place}"


def _place(error: BaseException) -> str:
    """Return the innermost line of somebody else's source, which is where a fault in a plugin is looked for first."""
    lines = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    theirs = [f"{name}:{line}" for name, line in lines if name[:1] != "<" and not _MACHINERY & set(Path(name).parents)]
    return f" ({theirs[-1]})" if theirs else ""
