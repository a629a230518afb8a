"""Keep what commands write apart from what backends and their drivers print.

These print wherever they like, in Python or not; some close or replace what everybody prints to. While a command runs,
all of that goes to where errors go, and the command has its output to itself.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from zyx.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator

_OUTPUT: Final = 1  # the number of the descriptor that everybody writes output to


def write_file(name: str, text: str) -> None:
    """Write a file that the user has named.

    Raises:
        ArgumentError: It cannot be written.
    """
    try:
        Path(name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ArgumentError(f"{name} cannot be written: {error.strerror}") from error


@contextmanager
def own_output() -> Iterator[tuple[TextIO, TextIO]]:
    """Yield what to write output and errors to, for the length of a ``with`` block.

    Raises:
        BrokenPipeError: On leaving: nobody reads the output any more.
    """
    output: TextIO | None = sys.stdout  # None where nobody has opened it
    errors: TextIO | None = sys.stderr
    with ExitStack() as stack:
        mine = _own(output, stack)
        own_errors = _own(errors, stack)
        stack.callback(setattr, sys, "stdout", output)
        stack.callback(setattr, sys, "stderr", errors)
        sys.stdout = _own(errors, stack)
        if mine is not output and output is not None and output.fileno() == _OUTPUT:
            stack.callback(os.dup2, mine.fileno(), _OUTPUT)
            os.dup2(sys.stdout.fileno() if _descriptor(sys.stdout) is not None else _nowhere(stack), _OUTPUT)
        yield mine, own_errors
        mine.flush()


def _own(shared: TextIO | None, stack: ExitStack) -> TextIO:
    """Return a file that goes where `shared` goes, and is not closed with it; `shared` itself if it is in memory."""
    if shared is None:
        mine: TextIO = stack.enter_context(Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
        return mine
    descriptor = _descriptor(shared)
    if descriptor is None:
        return shared
    with suppress(OSError):  # nobody reads it any more: said where it is written to
        shared.flush()
    mine = open(  # noqa: PTH123, SIM115  # a descriptor has no path
        os.dup(descriptor),
        "w",
        encoding=shared.encoding,
        errors=shared.errors,
        buffering=1 if shared.isatty() else -1,
    )
    stack.callback(_close, mine)
    return mine


def _close(file: TextIO) -> None:
    with suppress(OSError, ValueError):  # nobody reads it any more, or it was closed before
        file.close()


def _descriptor(file: TextIO) -> int | None:
    try:
        return file.fileno()
    except (io.UnsupportedOperation, ValueError, AttributeError):
        return None


def _nowhere(stack: ExitStack) -> int:
    descriptor = os.open(os.devnull, os.O_WRONLY)
    stack.callback(os.close, descriptor)
    return descriptor
