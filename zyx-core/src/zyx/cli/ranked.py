"""``python -P ranked.py FOLDER SCRIPT ...``: run a program as a process of ``zyx launch``, and note what becomes of it.

    FOLDER/1.process    process 1: the numbers of the two that it is, and when they began, as the kernel counts
    FOLDER/1.finished   its program has come to its end: it calls nothing more
    FOLDER/1.end        it ended before that, or by an error; how

The launcher reads them, and so does who waits for other processes, see `zyx.distributed.ends`.

The program runs in a child of this process, which waits for it: whatever ends that, this one is there to say so, before
the others are ended for it and end in their turn. The launcher's signals come to both. The program is run by mpi4py,
which ends all processes by an error that nobody has caught: this one would wait for the others before it ends, and
they for it.

The file is run by its path, and imports nothing of zyx: a process is best forked while it has one thread.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import signal
import sys
import time
from pathlib import Path

_PR_SET_PDEATHSIG = 1
#: How long others have, in seconds, to say where they waited for a process that has ended, before they are ended: some
#: times as long as it takes them to see it, and to print a traceback.
_GRACE_S = 1.0


def main() -> None:
    """Run the program in a child."""
    folder, rank, parent = Path(sys.argv.pop(1)), os.environ.get("PMI_RANK", "0"), os.getpid()
    child = os.fork()
    if child == 0:
        if sys.platform == "linux":  # elsewhere a child may be left if somebody kills this process alone
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)
        os.environ["_ZYX_LAUNCH_FOLDER"] = os.fspath(folder)
        write(folder / f"{rank}.process", {str(number): began(number) for number in (os.getpid(), parent)})
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
    elif not (folder / f"{rank}.finished").exists():  # MPICH ends the others then, as if it had failed
        note(folder, rank, 1, "ended with exit status 0 before the end of its program, as by os._exit(0)")
    if (folder / f"{rank}.end").exists():
        time.sleep(_GRACE_S)
    os._exit(code if code >= 0 else 128 - code)


def _program(folder: Path, rank: str) -> None:
    atexit.register(write, folder / f"{rank}.finished", {})  # the first one, so it is the last to be called

    from mpi4py import run

    sys.path.insert(0, "")  # for mpi4py to put the folder of the program there
    try:
        run.main()
    except SystemExit as ended:
        if ended.code not in (None, 0):
            status = ended.code if isinstance(ended.code, int) else 1
            note(folder, rank, status, f"ended with exit status {status}")
            time.sleep(_GRACE_S)
        raise
    except BaseException as error:
        note(folder, rank, 1, f"ended by {type(error).__name__}")
        raise


def note(folder: Path, rank: str, status: int, how: str) -> None:
    """Note the end of a process, unless it has itself."""
    if not (folder / f"{rank}.end").exists():
        write(folder / f"{rank}.end", {"rank": int(rank), "status": status, "how": how})


def write(path: Path, content: object) -> None:
    """Write a note, in one step, so that there is never half of it."""
    unfinished = path.with_suffix(f".{os.getpid()}")
    unfinished.write_text(json.dumps(content), encoding="utf-8")
    unfinished.rename(path)


def began(number: int) -> int:
    """Return when a process began, as the kernel counts; 0 if it does not say."""
    found = status_of(number)
    return 0 if found is None else found[1]


def status_of(number: int) -> tuple[str, int] | None:
    """Return the state of a process, such as ``T`` where it is stopped, and when it began; None if there is none."""
    try:
        fields = Path(f"/proc/{number}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:  # none, or another system
        return None
    return fields[0], int(fields[19])


if __name__ == "__main__":
    main()
