"""``zyx launch --processes N SCRIPT``: run a program in several processes, which `zyx.distributed` connects.

zyx launch --processes 2 train.py --epochs 3      in two processes of this machine

MPICH's ``mpiexec`` starts the processes; it comes with the package mpich. Output is passed on as it comes. When a
process ends by an error, a signal or an exit status, the others are ended, and it is said which one it was; those that
wait for it say where, before. Of a process that is stopped it is said which one it is: the others wait for it. The exit
status is that of this process; 128 and the number of the signal; or 130 if it was interrupted. Processes read nothing
from standard input, and share the processors: ``ZYX_NUM_THREADS`` is set for it, unless it is set already.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, NamedTuple

from zyx.cli import ranked
from zyx.cli.script import INTERRUPTED, declare_script, script_of
from zyx.errors import InvalidArgumentError, PackageMissingError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence
    from types import FrameType

    from rich.console import Console

#: How long processes that are to end have for it, before they are ended by force.
_PATIENCE_S: Final = 5.0
#: After how many seconds it is said that a process is stopped: as soon as the others say that they wait for it.
STOPPED_S: Final = 10.0
#: States of processes that are stopped, by a signal or a debugger.
_STOPPED: Final = ("T", "t")
_PR_SET_PDEATHSIG: Final = 1
#: The status of what was ended by SIGTERM, as shells have it.
TERMINATED: Final = 128 + signal.SIGTERM


class ProcessExit(NamedTuple):
    """How a process ended.

    Attributes:
        rank: Its number.
        status: Its exit status, as shells have it.
        how: In words.
    """

    rank: int
    status: int
    how: str


class Terminated(Exception):
    """A signal to end has come."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--processes", type=int, required=True, metavar="N", help="how many")
    declare_script(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Run the program; return the exit status."""
    if arguments.processes < 1:
        raise InvalidArgumentError(f"--processes {arguments.processes}: there is at least one")
    script = script_of(arguments.script)
    with tempfile.TemporaryDirectory(prefix="zyx-launch-") as folder:
        program = [sys.executable, "-P", ranked.__file__, folder, os.fspath(script), *arguments.arguments]
        command = [launcher(), "-n", str(arguments.processes), *program]
        status = _run(command, _environment(arguments.processes), console.file, Path(folder))
        ended = first_end(Path(folder)) if status not in (0, INTERRUPTED, TERMINATED) else None
    if ended is None:
        return status
    sys.stderr.write(f"zyx launch: rank {ended.rank} of {arguments.processes} {ended.how}; the others were ended\n")
    return ended.status


def launcher() -> str:
    """Return the mpiexec of MPICH: that of this environment, or else the first one that is found.

    Raises:
        PackageMissingError: There is none, or no mpi4py.
    """
    import importlib.util

    here = os.fspath(Path(sys.executable).parent)
    found = shutil.which("mpiexec", path=here) or shutil.which("mpiexec")
    how = 'pip install "zyx-core[mpi]" brings it'
    if importlib.util.find_spec("mpi4py") is None:
        raise PackageMissingError(f"several processes are connected by mpi4py, which is not installed; {how}")
    if found is None:
        raise PackageMissingError(f"there is no mpiexec, which starts processes; {how}")
    about = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
    if "HYDRA" not in about.stdout:
        raise PackageMissingError(
            f"{found} is not MPICH's mpiexec; {how}, or start the program by the launcher that you have: "
            "mpiexec -n 2 python -m mpi4py SCRIPT"
        )
    return found


def first_end(folder: Path) -> ProcessExit | None:
    """Return how the process ended that the others were ended for; None if none has noted that.

    Args:
        folder: Where processes note their ends; see `zyx.cli.ranked`.
    """
    notes = sorted(folder.glob("*.end"), key=lambda path: path.stat().st_mtime_ns)
    return ProcessExit(**json.loads(notes[0].read_text(encoding="utf-8"))) if notes else None


def _environment(processes: int) -> dict[str, str]:
    """Return the environment of processes, which share the processors of this machine."""
    environ = dict(os.environ)
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    environ.setdefault("ZYX_NUM_THREADS", str(max(1, available // processes)))
    return environ


def _run(command: Sequence[str], environ: dict[str, str], output: IO[str], folder: Path) -> int:
    """Run mpiexec, which writes to `output`; return its exit status. None of its processes is left."""
    output.flush()
    with _terminations():
        # In a session of its own, so that an interrupt from the keyboard comes to it once: from here.
        process = subprocess.Popen(
            command,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            start_new_session=True,
            preexec_fn=_end_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509  # there is one thread
        )
        try:
            with _watched(folder):
                return process.wait()
        except KeyboardInterrupt:
            _end(process, signal.SIGINT, folder)
            return INTERRUPTED
        except Terminated:
            _end(process, signal.SIGTERM, folder)
            return TERMINATED
        except BaseException:
            _end(process, signal.SIGTERM, folder)
            raise
        finally:
            _signal_all(folder, signal.SIGKILL)


@contextlib.contextmanager
def _terminations() -> Iterator[None]:
    """Have SIGTERM and SIGHUP raise `Terminated`, as SIGINT raises `KeyboardInterrupt`."""

    def raise_terminated(_number: int, _frame: FrameType | None) -> None:
        raise Terminated

    numbers = [number for name in ("SIGTERM", "SIGHUP") if (number := getattr(signal, name, None)) is not None]
    is_main = threading.current_thread() is threading.main_thread()
    before = [signal.signal(number, raise_terminated) for number in numbers] if is_main else []
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=False):
            signal.signal(number, handler)


def _end(process: subprocess.Popen[bytes], number: int, folder: Path) -> None:
    """End mpiexec, which ends the processes; by force if it takes too long."""
    for attempt in (number, signal.SIGTERM, signal.SIGKILL):
        process.send_signal(attempt)
        _signal_all(folder, signal.SIGCONT)  # those that are stopped get no other signal
        with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt, Terminated):
            process.wait(_PATIENCE_S)
            return


def _processes(folder: Path) -> Iterator[tuple[int, int, str]]:
    """Yield rank, number and state of the processes that are there; where the system does not say, none."""
    for path in sorted(folder.glob("*.process")):
        for number, began in json.loads(path.read_text(encoding="utf-8")).items():
            found = ranked.status_of(int(number))
            if found is not None and found[1] == began:  # or another process has this number by now
                yield int(path.stem), int(number), found[0]


def _signal_all(folder: Path, number: int) -> None:
    """Send a signal to all processes."""
    for _, process, _ in _processes(folder):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)


@contextlib.contextmanager
def _watched(folder: Path) -> Iterator[None]:
    """Say for the length of a ``with`` block which processes are stopped for long."""
    is_over = threading.Event()

    def watch() -> None:
        since: dict[int, float] = {}  # by the number of the process
        said: set[int] = set()
        while not is_over.wait(min(1.0, STOPPED_S / 2)):
            now = time.monotonic()
            for rank, process, state in _processes(folder):
                if state not in _STOPPED:
                    since.pop(process, None)
                    if process in said:
                        said.remove(process)
                        sys.stderr.write(f"zyx launch: rank {rank} goes on\n")
                elif now - since.setdefault(process, now) >= STOPPED_S and process not in said:
                    said.add(process)
                    sys.stderr.write(
                        f"zyx launch: rank {rank} is stopped, as by SIGSTOP, for {now - since[process]:.0f} s by now; "
                        f"the others wait for it. kill -CONT {process} lets it go on\n"
                    )
                sys.stderr.flush()

    thread = threading.Thread(target=watch, name="zyx launch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _end_with_parent() -> None:
    """Have the kernel send SIGTERM to this process when its parent dies."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
