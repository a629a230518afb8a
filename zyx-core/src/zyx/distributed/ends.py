"""What has become of other processes, as ``zyx launch`` knows it: the notes of `zyx.cli.ranked`.

Under another launcher nothing is known. There a process that is gone is one that is late.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final, NamedTuple

_FOLDER: Final = "_ZYX_LAUNCH_FOLDER"


class Ends(NamedTuple):
    """Which processes have ended.

    Attributes:
        failed: By an error, an exit status or a signal: how, by their ranks, the first one first. All others are ended.
        finished: The ranks of those that have come to the end of their program. The others may go on without them.
    """

    failed: dict[int, str]
    finished: set[int]


def ends() -> Ends:
    """Return which processes have ended so far, as far as that is known."""
    folder = os.environ.get(_FOLDER)
    if folder is None:
        return Ends({}, set())
    failed = sorted(Path(folder).glob("*.end"), key=lambda path: path.stat().st_mtime_ns)
    return Ends(
        {int(path.stem): json.loads(path.read_text(encoding="utf-8"))["how"] for path in failed},
        {int(path.stem) for path in Path(folder).glob("*.finished")},
    )
