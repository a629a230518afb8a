"""Programs that have a limit of time, and what they printed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

LAST_LINES: Final = 15


class PartError(Exception):
    """A part of the record could not be measured; the text says why."""


def output_of(command: Sequence[str], limit_s: float) -> str:
    """Return what a program prints, which runs in a group of processes that ends with it.

    Raises:
        PartError: Its status is not 0, or it took longer than `limit_s` seconds; nothing of its group is left.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as printed:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            status: int | None = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            end_group(process)
        printed.seek(0)
        text = printed.read()
    if status == 0:
        return text
    why = f"took longer than {limit_s:.0f} s" if status is None else f"ended with status {status}"
    last = "\n".join(text.splitlines()[-LAST_LINES:])
    raise PartError(f"{' '.join(command)} {why}, and printed last:\n{last}")


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and all of its group, if they still run, and wait for it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS says the latter of a group that is gone
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
