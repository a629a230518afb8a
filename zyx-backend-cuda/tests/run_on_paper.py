"""Run a program in a process whose GPU is of paper, and whose NCCL too: ``run_on_paper.py PROGRAM [ARGUMENTS]``.

The process whose rank is ``PAPER_WITHOUT_NCCL`` in the environment has no NCCL; that whose rank is
``PAPER_UNCONNECTED`` cannot connect its GPU.
"""

from __future__ import annotations

import os
import runpy
import sys
import threading
import time
from pathlib import Path

import pytest
from fake_driver import FakeSession, fake_cuda
from fake_nccl import SYSTEM_ERROR, FakeNccl

sessions: list[FakeSession] = []


class Session(FakeSession):
    """A device of this process, opened once more for each runtime."""

    def __init__(self) -> None:
        super().__init__()
        sessions.append(self)


def run_streams() -> None:
    """Run what streams are given, as devices do: another process waits for what this one does not wait for."""
    while True:
        for session in list(sessions):
            for stream in list(session.streams.values()):
                stream.run_to(stream.given, waits=False)
        time.sleep(1e-4)


def main() -> None:
    """Run the program, and check that the library was called as it must be."""
    program, sys.argv = sys.argv[1], sys.argv[1:]
    sys.path.insert(0, str(Path(program).parent))
    library = FakeNccl(sessions)
    rank = os.environ["PMI_RANK"]
    without, unconnected = (os.environ.get(f"PAPER_{name}", "") for name in ("WITHOUT_NCCL", "UNCONNECTED"))
    found = None if rank == without else library
    if unconnected:
        library.waits = False  # the others connect, and have to give that up
        library.refusals["CommInitRank"] = [SYSTEM_ERROR] if rank == unconnected else []
    threading.Thread(target=run_streams, daemon=True).start()
    with fake_cuda(pytest.MonkeyPatch(), [Session], nccl=found):
        runpy.run_path(program, run_name="__main__")
    exchanges = sum(count for name, count in library.counts.items() if not name.startswith(("Comm", "Get", "Group")))
    assert bool(exchanges) is not bool(without or unconnected), f"{exchanges} exchanges from device to device"
    assert not library.violations, library.violations


if __name__ == "__main__":
    main()
