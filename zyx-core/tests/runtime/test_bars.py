"""Bars of long work: what a terminal shows, and that nothing else shows anything."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

pty = pytest.importorskip("pty", reason="this system has no pseudo terminals")

BARS = """
import sys, time
from zyx.runtime.runtime import current
trace = current().trace
with trace.bar("outer work", 4, after_s=0.0) as outer, trace.bar("inner [work]", 2, after_s=0.0) as inner:
    outer.advance(3, "three of [them]")
    inner.advance()
    print("in between")
    time.sleep(0.3)
with trace.bar("never seen", 2) as bar:
    bar.advance()
print("over")
"""

KERNELS = """
import time
import zyx
from zyx.builtin.interpreter import InterpreterDevice
from zyx.runtime import trace
trace._PATIENCE_S = 0.1
compile_ = InterpreterDevice.compile
InterpreterDevice.compile = lambda self, kernel: time.sleep(0.1) or compile_(self, kernel)
x = zyx.ones(7)
zyx.realize(*[(x + k).cumsum(0).sort() for k in range(4)])
"""

FILES = """
import time
import zyx
from zyx.runtime import copying, trace
trace._PATIENCE_S = 0.1
read_into = copying.read_into
copying.read_into = lambda window, buffer: time.sleep(0.1) or read_into(window, buffer)
tensors = {str(number): zyx.full((256,), number) for number in range(4)}
zyx.io.save("numbers.safetensors", tensors)
total = sum(zyx.io.load("numbers.safetensors").values(), zyx.zeros(256))
assert total.sum().item() == 6 * 256
"""

WEIGHTS = (
    FILES.replace("total = sum(", "weights = list(")
    .replace(", zyx.zeros(256))", ")")
    .replace("assert total.sum()", "total = zyx.jit(lambda x: sum(weights, x))(zyx.zeros(256))\nassert total.sum()")
)

BATCHES = """
import time
from zyx import data
for batch in data.DataLoader(list(range(8)), 2, progress="train"):
    time.sleep(0.1)
"""


@pytest.fixture
def run(tmp_path):
    """Return a function that runs Python and returns what a terminal on standard error, and the output, are given."""

    def run(*arguments, is_terminal=True, **variables):
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=theirs if is_terminal else subprocess.PIPE,
            cwd=tmp_path,
            env={"PATH": "", "HOME": str(tmp_path), "TERM": "xterm", "COLUMNS": "100", "ZYX_BACKENDS": "interpreter",
                 "PYTHONWARNINGS": "ignore", "ZYX_DEVICE": "interpreter", **variables},
        )  # fmt: skip
        os.close(theirs)
        shown = []
        try:
            while is_terminal and (piece := os.read(ours, 1 << 16)):
                shown.append(piece)
        except OSError:  # as Linux says that nobody has the other end any more
            pass
        finally:
            os.close(ours)
        output, errors = process.communicate(timeout=60)
        assert process.returncode == 0, (shown, output, errors)
        text = (b"".join(shown) if is_terminal else errors).decode()
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text), output.decode()

    return run


def test_bars_are_below_each_other_and_appear_after_a_while(run):
    shown, output = run("-c", BARS)
    assert "outer work" in shown
    assert "3/4" in shown
    assert "three of [them]" in shown
    assert re.search(r"inner \[work\] .*1/2", shown)
    assert "never seen" not in shown
    assert output == "in between\nover\n"


@pytest.mark.parametrize("variables", [{}, {"ZYX_PROGRESS": "off"}], ids=["no terminal", "switched off"])
def test_nothing_is_shown_elsewhere_or_where_it_is_switched_off(run, variables):
    shown, output = run("-c", BARS, is_terminal=bool(variables), **variables)
    assert (shown, output) == ("", "in between\nover\n")


@pytest.mark.parametrize(
    ("program", "line"),
    [
        (KERNELS, r"compiling kernels .* \d+/\d+"), (FILES, r"reading files .* \d KiB of 8 KiB"),
        (WEIGHTS, r"reading files .* \d KiB of 8 KiB"),
        (BATCHES, r"train .* \d/4 .* [\d.]+/s"),
    ],
    ids=["kernels", "files", "weights of a traced function", "batches"],
)  # fmt: skip
def test_long_work_is_shown(run, program, line):
    assert re.search(line, run("-c", program)[0])
    assert run("-c", program, is_terminal=False)[0] == ""


def test_calibrating_and_tuning_are_shown(run, tmp_path):
    measuring = """
import dataclasses, sys
from zyx.backend.rates import assumed_rates
from zyx.cli import calibrate
from zyx.cli.main import main
def measured(device, progress):
    for name in ("launch_s", "flops_per_s"):
        progress(name, 2)
    return dataclasses.replace(assumed_rates(device.info), is_measured=True)
calibrate.measure_rates = measured
sys.exit(main(["calibrate", "--device", "interpreter"]))
"""
    shown, output = run("-c", measuring)
    assert re.search(r"measuring interpreter:0 .* \d/2", shown)
    assert "kept" in output
    script = tmp_path / "program.py"
    script.write_text("import zyx\nzyx.ones(500).sum().item()\n", encoding="utf-8")
    shown, output = run("-m", "zyx", "tune", "--seconds", "2", "program.py", ZYX_AUTOTUNE_N_TOTAL_OPTS="3")
    assert re.search(r"tuning .* of 2 s .*sum: \d+ tried, the best [\d.]+x", shown)
    assert output.startswith("KERNEL")
