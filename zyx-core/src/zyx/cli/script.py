"""Run somebody's program as Python would, in this process."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zyx.cli.output import write_file
from zyx.errors import ArgumentError
from zyx.runtime.lines import follow_lines
from zyx.runtime.profile import Profile
from zyx.runtime.runtime import current
from zyx.runtime.trace import ANEW, LINES

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from zyx.runtime.trace import Profiler

#: The status of a program that was interrupted, as shells have it: 128, and the number of the signal.
INTERRUPTED: Final = 130


def declare_script(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments that say which program is run: the last ones, since what follows is the program's own."""
    import argparse

    parser.add_argument("script", metavar="SCRIPT", help="the program, a file of Python")
    parser.add_argument("arguments", metavar="ARGUMENT", nargs=argparse.REMAINDER, help="what the program is given")


def script_of(name: str) -> Path:
    """Return the file of a program.

    Raises:
        ArgumentError: There is none.
    """
    path = Path(name)
    if not path.is_file():
        raise ArgumentError(f"there is no file {path}")
    return path


def profiled_script(given: argparse.Namespace, *written: str | None) -> tuple[Profile, int]:
    """Run a program as `run_script` does; return the profile, as far as the program came, and the exit status.

    Args:
        given: What `declare_script` declares.
        written: Files that are written afterwards; one that cannot be is refused before the program takes its time.
            None, and ``-`` for the output, are no files.

    Raises:
        ArgumentError: There is no such program, or a file cannot be written.
    """
    path = script_of(given.script)
    for name in written:
        if name not in (None, "-"):
            write_file(name, "")
    profile = Profile()
    with current().profiled(profile):
        try:
            return profile, run_script(path, given.arguments)
        except KeyboardInterrupt:
            traceback.print_exc()
            return profile, INTERRUPTED


def followed_script(given: argparse.Namespace, following: Profiler) -> int:
    """Run a program as `run_script` does, with its lines noted, and tell `following` of its plans and launches.

    Its programs are made anew, though they may be kept on disk.

    Args:
        given: What `declare_script` declares.
        following: Is told.

    Returns:
        Its exit status.

    Raises:
        ArgumentError: There is no such program.
    """
    path = script_of(given.script)
    runtime = current()
    before = runtime.trace.configured
    runtime.trace.configured |= ANEW | LINES  # for all of its threads
    end_lines = follow_lines(runtime)
    try:
        with runtime.profiled(following):
            return run_script(path, given.arguments)
    except KeyboardInterrupt:
        traceback.print_exc()
        return INTERRUPTED
    finally:
        end_lines()
        runtime.trace.configured = before


def run_script(path: Path, arguments: Sequence[str]) -> int:
    """Run a file as ``__main__``, and return its exit status; what it raises is printed.

    Raises:
        KeyboardInterrupt: The user has interrupted it.
    """
    before = sys.argv, sys.path[:]
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, os.fspath(path.resolve().parent))
    try:
        runpy.run_path(str(path), run_name="__main__")
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        sys.stderr.write(f"{ended.code}\n")
        return 1
    except Exception:  # noqa: BLE001  # boundary: somebody's program
        traceback.print_exc()
        return 1
    finally:
        sys.argv, sys.path[:] = before
    return 0
