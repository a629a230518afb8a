"""How far a pass is, on a line of a terminal."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Seconds between two lines.
_PAUSE = 0.1


def shown(batches: Iterator[Any], total: int, name: str, stream: TextIO | None = None) -> Iterator[Any]:
    """Yield `batches`, and rewrite a line of `stream`, standard error, as long as it is a terminal.

    ::

        train  [#########.....................]  150/500  82.1/s  0:04 left

    (`rich` has such lines, too, but allows one at a time: two loaders may be read side by side.)
    """
    out = sys.stderr if stream is None else stream
    is_terminal = out.isatty()
    start = last = time.monotonic()
    done = 0
    try:
        for batch in batches:
            yield batch
            done += 1
            now = time.monotonic()
            if is_terminal and (now - last >= _PAUSE or done == total):
                last = now
                out.write("\r" + line(name, done, total, now - start, shutil.get_terminal_size().columns))
                out.flush()
    finally:
        if is_terminal and done:
            out.write("\n")
            out.flush()


def line(name: str, done: int, total: int, elapsed_s: float, width: int = 80) -> str:
    """Return the line after `done` of `total` batches, at most `width` characters."""
    rate = done / elapsed_s if elapsed_s > 0 else 0.0
    left = (total - done) / rate if rate else 0.0
    end = f"  {done}/{total}  {rate:.1f}/s  {int(left) // 60}:{int(left) % 60:02d} left"
    room = min(30, width - len(name) - len(end) - 5)
    full = round(room * done / total) if total and room > 0 else 0
    bar = f"  [{'#' * full}{'.' * (room - full)}]" if room > 4 else ""
    return (name + bar + end)[: max(width - 1, 0)]
