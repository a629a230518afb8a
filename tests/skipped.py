"""What a run of all environments left out, and why: noted by each of them, listed by the last.

    python tests/skipped.py        print the list and empty it

Notes are files in the folder that the variable ZYX_SKIPPED names, with a reason in each line; without it there is
nothing to note and to list. An environment notes what it leaves out as a whole; and pytest, through the ``conftest.py``
of the repository, why it skipped tests.
"""

from __future__ import annotations

import os
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Characters of a reason that are listed.
WIDTH: Final = 240


def note(environment: str, reason: str = "") -> None:
    """Note that `environment` left something out, or, without a reason, that it has left out nothing so far."""
    if reason:
        print(f"SKIPPED: {reason}", flush=True)
        note_all(environment, [reason])
    elif folder := os.environ.get("ZYX_SKIPPED"):
        (Path(folder) / f"{environment}.txt").unlink(missing_ok=True)


def note_all(environment: str, reasons: Iterable[str]) -> None:
    """Note reasons beside those that are noted already, each once."""
    folder = os.environ.get("ZYX_SKIPPED")
    short = [textwrap.shorten(reason, WIDTH, placeholder=" ...") for reason in reasons]
    if not folder or not short:
        return
    path = Path(folder) / f"{environment}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    path.write_text("".join(f"{line}\n" for line in dict.fromkeys([*lines, *short])), encoding="utf-8")


def report() -> str:
    """Return what was noted, a line for each reason, and forget it.

    Reasons of the same environments that differ in the last word alone, such as a dtype, share a line.
    """
    where: dict[str, list[str]] = {}
    for path in sorted(Path(os.environ.get("ZYX_SKIPPED") or os.devnull).glob("*.txt")):
        for reason in path.read_text(encoding="utf-8").splitlines():
            where.setdefault(reason, []).append(path.stem)
        path.unlink()
    endings: dict[tuple[str, str], list[str]] = {}
    for reason, names in where.items():
        start, _, last = reason.rpartition(" ")
        endings.setdefault((", ".join(names), start), []).append(last)
    lines = [f"skipped in {names}: {start} {', '.join(last)}" for (names, start), last in sorted(endings.items())]
    return "\n".join(lines or ["nothing was skipped"])


if __name__ == "__main__":
    print(report())
