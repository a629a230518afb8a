"""Run ``zyx launch`` on ``programs/peers.py``, and see when rank 1 is named, by whom, and what is left.

python watching.py 10      each way to fail ten times, with the constants that users have; some minutes
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

PROGRAM = Path(__file__).parent / "programs" / "peers.py"
HOW = ("SIGKILL", "raises", "exits", "leaves", "SIGSTOP", "slow", "loops")
_LINES = PROGRAM.read_text(encoding="utf-8").splitlines()
#: The line of the traced function that waits, and of the call of it.
TRACED, CALLED = (
    1 + next(number for number, line in enumerate(_LINES) if text in line) for text in ("zyx.jit(", "# where they wait")
)
#: Runs ``zyx launch`` with another `STOPPED_S`.
_LAUNCH = (
    "import sys, zyx.cli.launch as l; from zyx.cli.main import main; l.STOPPED_S = {}; sys.exit(main(sys.argv[1:]))"
)


@dataclass
class Seen:
    """What was seen of one run.

    Attributes:
        status: Of the launcher.
        output: All lines.
        by_others_s: When others named rank 1 and where they wait, after it had failed; None if they did not.
        by_launcher_s: When the launcher did.
        ended_s: When the launcher had ended.
        left: The numbers of processes that are still there then.
    """

    status: int = 0
    output: list[str] = field(default_factory=list)
    by_others_s: float | None = None
    by_launcher_s: float | None = None
    ended_s: float = 0.0
    left: list[int] = field(default_factory=list)


def command(size: int, how: str, late_s: float) -> list[str]:
    """Return what runs the program, of which processes are late, or stopped for long, after so many seconds."""
    launch = [sys.executable, "-c", _LAUNCH.format(late_s), "launch", "--processes", str(size)]
    return [*launch, os.fspath(PROGRAM), how, str(late_s)]


def watch(how: str, late_s: float, limit_s: float, size: int = 3) -> Seen:
    """Run the program to its end; see the module."""
    own = {"ZYX_DEVICE": "interpreter", "ZYX_COLLECTIVE_TIMEOUT_S": str(limit_s), "ZYX_NUM_THREADS": "1"}
    seen, failed = Seen(), 0.0
    processes: list[int] = []
    with subprocess.Popen(
        command(size, how, late_s), env=os.environ | own, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as launched:
        assert launched.stdout is not None
        ender = threading.Timer(limit_s + 60, launched.kill)
        ender.start()
        for line in launched.stdout:
            now = time.time()
            seen.output.append(line)
            if found := re.search(r"^process (\d+)", line):
                processes.append(int(found[1]))
            if found := re.search(r"^at ([\d.]+)", line):
                failed = float(found[1])
            if re.search(rf"for rank 1\b.*peers.py:{TRACED}, traced, in a call at .*peers.py:{CALLED}", line):
                seen.by_others_s = now - failed if seen.by_others_s is None else seen.by_others_s
            if re.search(r"^zyx launch: rank 1 .*(ended|stopped)", line):
                seen.by_launcher_s = now - failed if seen.by_launcher_s is None else seen.by_launcher_s
        seen.status = launched.wait()
        ender.cancel()
    seen.ended_s = time.time() - failed
    seen.left = [number for number in processes if is_there(number)]
    return seen


def is_there(number: int) -> bool:
    """Whether there is a process of that number that has not ended."""
    try:
        return Path(f"/proc/{number}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def main() -> None:
    """Run each way several times, and write the longest times."""
    times = int(sys.argv[1])
    for how in HOW:
        waits = how in ("SIGSTOP", "slow", "loops")  # most of the time nothing is done, so that several run at once
        with ThreadPoolExecutor(5 if waits else 1) as pool:
            runs = [*pool.map(lambda _, how=how: watch(how, 10.0, 20.0), range(times))]
        named = [min(each for each in (run.by_others_s, run.by_launcher_s, 1e9) if each is not None) for run in runs]
        others = [1e9 if run.by_others_s is None else run.by_others_s for run in runs]
        statuses = sorted({run.status for run in runs})
        print(
            f"{how:8} {times} runs: named after at most {max(named):.2f} s, with where they wait {max(others):.2f} s, "
            f"all ended after {max(run.ended_s for run in runs):.2f} s, status {statuses}, "
            f"left {sum(len(run.left) for run in runs)}",
            flush=True,
        )


if __name__ == "__main__":
    main()
