"""What a run of all environments left out, and why: noted by each of them, listed by the last.

    python tests/skipped.py        print the list and empty it

Notes are files in the folder that the variable ZYX_SKIPPED names; without it there is nothing to note and to list.
"""

from __future__ import annotations

import os
from pathlib import Path


def note(environment: str, reason: str = "") -> None:
    """Note that `environment` left something out, or, without a reason, that it has left out nothing so far."""
    if reason:
        print(f"SKIPPED: {reason}", flush=True)
    folder = os.environ.get("ZYX_SKIPPED")
    if not folder:
        return
    path = Path(folder) / f"{environment}.txt"
    if reason:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{reason}\n", encoding="utf-8")
    else:
        path.unlink(missing_ok=True)


def report() -> str:
    """Return what was noted, a line each, and forget it."""
    notes = sorted(Path(os.environ.get("ZYX_SKIPPED") or os.devnull).glob("*.txt"))
    lines = [f"skipped in {path.stem}: {path.read_text(encoding='utf-8').strip()}" for path in notes]
    for path in notes:
        path.unlink()
    return "\n".join(lines or ["nothing was skipped"])


if __name__ == "__main__":
    print(report())
