"""A process that fails is named in time, with where the others wait for it, and none is left behind."""

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

_SPEC = importlib.util.spec_from_file_location("watching", Path(__file__).with_name("watching.py"))
_MODULE = sys.modules["watching"] = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(_MODULE)
from watching import command, is_there, watch  # noqa: E402  # a program as well, beside this

pytestmark = [
    pytest.mark.usefixtures("run_program"),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc"),
]

#: When a limit of 0.5 s is seen to be over at the earliest: the line that starts the clock here comes a bit late.
_NOT_BEFORE_S = 0.45


@pytest.mark.parametrize(
    ("how", "status", "text"),
    [
        ("SIGKILL", 137, "waits for rank 1, which was ended by signal 9 (SIGKILL)"),
        ("raises", 1, "waits for rank 1, which ended by ValueError"),
        ("exits", 1, "waits for rank 1, which has come to the end of its program"),
        ("leaves", 1, "waits for rank 1, which ended with exit status 0 before the end of its program"),
    ],
)
def test_who_waits_for_a_process_that_has_ended_says_where(how, status, text):
    seen = watch(how, 10.0, 20.0)
    assert seen.by_others_s is not None and seen.by_others_s < 5, seen
    assert text in "".join(seen.output)
    assert seen.status == status
    assert seen.by_launcher_s is not None or how == "exits"  # there it is the others that have failed
    assert not seen.left


def test_a_process_that_is_stopped_is_named_at_once_and_all_end_at_the_limit():
    seen = watch("SIGSTOP", 0.5, 2.0)
    text = "".join(seen.output)
    assert _NOT_BEFORE_S <= seen.by_others_s < 2, seen
    assert _NOT_BEFORE_S <= seen.by_launcher_s < 3, seen
    assert "LateWarning: all_reduce sum of float32 [3]: rank 0 of 3 has waited" in text
    assert "CollectiveTimeoutError" in text
    assert seen.status == 1
    assert not seen.left


def test_a_process_that_loops_is_named_and_ended():
    seen = watch("loops", 0.5, 2.0)
    assert _NOT_BEFORE_S <= seen.by_others_s < 2, seen
    assert "CollectiveTimeoutError" in "".join(seen.output)
    assert seen.status == 1
    assert not seen.left


def test_a_process_that_is_slow_is_named_and_nothing_fails():
    seen = watch("slow", 0.5, 20.0)
    assert _NOT_BEFORE_S <= seen.by_others_s < 5, seen
    assert seen.status == 0, seen
    assert sum("is through" in line for line in seen.output) == 3
    assert not seen.left


@pytest.mark.parametrize(("how", "name", "status"), [("SIGSTOP", "SIGINT", 130), ("loops", "SIGTERM", 143)])
def test_signals_end_processes_that_are_stopped_or_loop(how, name, status):
    with subprocess.Popen(
        command(2, how, 10.0),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"ZYX_DEVICE": "interpreter"},
    ) as launched:
        text = ""
        while text.count("process ") < 2 or "at " not in text or not text.endswith("\n"):
            piece = os.read(launched.stdout.fileno(), 4096).decode()
            assert piece, text
            text += piece
        numbers = [int(line.split()[1]) for line in text.splitlines() if line.startswith("process")]
        time.sleep(0.2)
        started = time.monotonic()
        launched.send_signal(signal.Signals[name])
        with contextlib.suppress(subprocess.TimeoutExpired):
            launched.wait(20)
        assert time.monotonic() - started < 8
        assert launched.returncode == status
    assert not [number for number in numbers if is_there(number)]
