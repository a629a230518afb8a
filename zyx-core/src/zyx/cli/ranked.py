"""``python -P ranked.py FOLDER SCRIPT ...``: run a program as a process of ``zyx launch``, and note how it ended.

The program runs in a child of this process, which waits for it: whatever ends that, this one is there to say so, before
the others are ended for it and end in their turn. The launcher's signals come to both. The program is run by mpi4py,
which ends all processes by an error that nobody has caught: this one would wait for the others before it ends, and
they for it.

The file is run by its path, and imports nothing of zyx: a process is best forked while it has one thread.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Run the program in a child."""
    folder, rank, parent = Path(sys.argv.pop(1)), os.environ.get("PMI_RANK", "0"), os.getpid()
    child = os.fork()
    if child == 0:
        if sys.platform == "linux":  # elsewhere a child may be left if somebody kills this process alone
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)
        _program(folder, rank)
        return
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the child gets it, too, and ends as it likes
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        note(folder, rank, 128 - code, f"was ended by signal {-code} ({signal.Signals(-code).name})")
    elif code:
        note(folder, rank, code, f"ended with exit status {code}")
    os._exit(code if code >= 0 else 128 - code)


def _program(folder: Path, rank: str) -> None:
    from mpi4py import run

    sys.path.insert(0, "")  # for mpi4py to put the folder of the program there
    try:
        run.main()
    except SystemExit as ended:
        if ended.code not in (None, 0):
            status = ended.code if isinstance(ended.code, int) else 1
            note(folder, rank, status, f"ended with exit status {status}")
        raise
    except BaseException as error:
        note(folder, rank, 1, f"ended by {type(error).__name__}")
        raise


def note(folder: Path, rank: str, status: int, how: str) -> None:
    """Note the end of a process, unless it has itself; in one step, so that there is never half of a note."""
    unfinished = folder / f"{rank}.{os.getpid()}"
    unfinished.write_text(json.dumps({"rank": int(rank), "status": status, "how": how}), encoding="utf-8")
    if not (folder / f"{rank}.end").exists():
        unfinished.rename(folder / f"{rank}.end")


if __name__ == "__main__":
    main()
