"""``zyx launch``: which process ended, how, and that none is left behind."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from zyx.cli.launch import launcher
from zyx.cli.main import main
from zyx.errors import PackageMissingError

PROGRAM = os.fspath(Path(__file__).parent / "programs" / "ending.py")
pytestmark = pytest.mark.usefixtures("run_program")


def command(size, *arguments):
    return [sys.executable, "-m", "zyx", "launch", "--processes", str(size), PROGRAM, *arguments]


def launch(size, *arguments, **environ):
    return subprocess.run(
        command(size, *arguments), env=os.environ | environ, capture_output=True, text=True, timeout=60, check=False
    )


def test_all_processes_are_given_the_arguments_and_share_the_processors():
    done = launch(2, "well", "--epochs", "3")
    assert done.returncode == 0, done.stderr
    threads = max(1, len(os.sched_getaffinity(0)) // 2)
    wanted = [f"rank {rank} of 2 has ['--epochs', '3'] {threads}" for rank in range(2)]
    assert sorted(done.stdout.splitlines()) == wanted
    assert "zyx launch" not in done.stderr
    assert launch(1, "well", ZYX_NUM_THREADS="7").stdout == "rank 0 of 1 has [] 7\n"


@pytest.mark.parametrize(
    ("how", "status", "text"),
    [
        ("raises", 1, "rank 1 of 3 ended by ValueError; the others were ended"),
        ("exits", 5, "rank 1 of 3 ended with exit status 5; the others were ended"),
        ("vanishes", 3, "rank 1 of 3 ended with exit status 3; the others were ended"),
        ("SIGKILL", 137, "rank 1 of 3 was ended by signal 9 (SIGKILL); the others were ended"),
        ("SIGSEGV", 139, "rank 1 of 3 was ended by signal 11 (SIGSEGV); the others were ended"),
    ],
)
def test_the_process_that_ends_is_named_and_ends_all(how, status, text):
    started = time.monotonic()
    done = launch(3, how)
    assert time.monotonic() - started < 20
    assert done.returncode == status
    assert done.stderr.endswith(f"zyx launch: {text}\n")
    assert ("ValueError: enough" in done.stderr) == (how == "raises")


def started_processes(launched):
    """Return the numbers of two processes, once they have said them."""
    text = ""
    while len(found := re.findall(r"process (\d+)", text)) < 2 or not text.endswith("\n"):
        piece = os.read(launched.stdout.fileno(), 4096).decode()
        assert piece, text
        text += piece
    return [int(number) for number in found]


def is_there(number):
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(("name", "status"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGKILL", -9)])
def test_whatever_ends_the_launcher_ends_the_processes(name, status):
    if not Path("/proc/self/stat").exists():
        pytest.skip("processes are looked up in /proc")
    with subprocess.Popen(command(2, "waits"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as launched:
        numbers = started_processes(launched)
        assert all(is_there(number) for number in numbers)
        launched.send_signal(signal.Signals[name])
        assert launched.wait(20) == status
        deadline = time.monotonic() + 10
        while any(is_there(number) for number in numbers):
            assert time.monotonic() < deadline, numbers
            time.sleep(0.05)


def test_what_cannot_be_launched_is_said(tmp_path, monkeypatch, capsys):
    assert main(["launch", "--processes", "0", PROGRAM]) == 1
    assert main(["launch", "--processes", "2", str(tmp_path / "none.py")]) == 1
    text = capsys.readouterr().err
    assert "--processes 0: there is at least one" in text
    assert "there is no file" in text
    other = tmp_path / "mpiexec"
    other.write_text("#!/bin/sh\necho 'mpiexec (OpenRTE) 4.1.6'\n")
    other.chmod(0o755)
    monkeypatch.setattr("shutil.which", lambda name, path=None: os.fspath(other))
    with pytest.raises(PackageMissingError, match="not MPICH's mpiexec"):
        launcher()
    monkeypatch.setattr("shutil.which", lambda name, path=None: None)
    with pytest.raises(PackageMissingError, match="there is no mpiexec"):
        launcher()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(PackageMissingError, match=r"zyx-core\[mpi\]"):
        launcher()
