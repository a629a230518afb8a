"""Run `zyx.cli.trial` in a process of its own, and say how that one ended, whatever a driver did to it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from zyx.plugins.words import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Seconds for which a process that was killed is waited for; one that is inside of a driver may stay.
_PATIENCE_S: Final = 5.0
#: Characters of what it wrote last to its errors.
_SHOWN: Final = 300


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a process told.

    Attributes:
        lines: The objects that it wrote.
        end: How it ended, as what follows "opening it": ``ended the process by SIGSEGV``.
        is_clean: Whether it ended by itself, and with status 0.
    """

    lines: tuple[dict[str, Any], ...]
    end: str
    is_clean: bool


def attempt(arguments: Sequence[str], limit_s: float) -> Outcome:
    """Return what ``python -m zyx.cli.trial`` tells with `arguments`, within `limit_s` seconds."""
    # Files, not pipes: a process that outlives its end would keep a pipe open, and us waiting.
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        command = [sys.executable, "-m", "zyx.cli.trial", *arguments]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors)
        try:
            status = process.wait(limit_s)
            end = _end(status, _last_line(errors))
        except subprocess.TimeoutExpired:
            status = -1
            end = f"took longer than {limit_s:g} s, and was stopped"
        finally:
            _stop(process)
        return Outcome(tuple(_objects(output)), end, status == 0)


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
        with suppress(subprocess.TimeoutExpired):  # it waits for a driver that does not return, and is left alone
            process.wait(_PATIENCE_S)


def _objects(output: BinaryIO) -> list[dict[str, Any]]:
    output.seek(0)
    found = []
    for line in output.read().decode("utf-8", "replace").splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:  # the last one, half written
            break
    return found


def _last_line(errors: BinaryIO) -> str:
    errors.seek(0)
    lines = errors.read().decode("utf-8", "replace").strip().splitlines()
    return one_line(lines[-1])[-_SHOWN:] if lines else ""


def _end(status: int, said: str) -> str:
    """Return a status in words; negative is the signal that ended the process (POSIX)."""
    if status < 0:
        try:
            by = signal.Signals(-status).name
        except ValueError:
            by = f"signal {-status}"
    else:
        by = f"status {status & 0xFFFFFFFF:#x}" if status > 255 else f"status {status}"  # Windows: an NTSTATUS
    return f"ended the process by {by}{f', which said: {said}' if said else ''}"
