"""``zyx bench``: programs are compared with NumPy, timed in turns, and shown beside other libraries."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from zyx.cli import bench
from zyx.cli.bench_peers import Numpy, Zyx
from zyx.cli.bench_programs import PROGRAMS
from zyx.cli.main import main


def run(tmp_path, *arguments):
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "zyx", "bench", "--small", *arguments],
        env={
            "HOME": str(tmp_path),
            "PATH": os.environ.get("PATH", ""),
            "ZYX_BACKENDS": "interpreter",
            "ZYX_DEVICE": "interpreter",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def program(name):
    return next(each for each in PROGRAMS if each.name == name)


class Other(Numpy):
    """A library that is NumPy by another name."""

    name = "other"


class Late(Other):
    """It takes ten times as long as what is timed at least."""

    name = "late"

    def softmax(self, x):
        bench.time.sleep(0.02)
        return super().softmax(x)


class Wrong(Other):
    """It forgets to divide."""

    name = "wrong"

    def softmax(self, x):
        return np.exp(x)


class NoNumbers(Other):
    name = "nan"

    def softmax(self, x):
        return x * np.float32(np.nan)


class Flat(Other):
    name = "flat"

    def softmax(self, x):
        return super().softmax(x).ravel()


class Broken(Other):
    name = "broken"

    def softmax(self, x):
        raise RuntimeError("no\nroom")


def test_there_are_ten_programs_each_with_a_row_and_all_of_it_as_data(tmp_path):
    file = tmp_path / "out.json"
    done = run(tmp_path, "--seconds", "0.1", "--json", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""  # progress is for terminals
    lines = done.stdout.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("PROGRAM"))
    assert lines[start].split()[1:3] == ["interpreter:0", "numpy"]
    assert [line[:13].strip() for line in lines[start + 1 : start + 11]] == [each.name for each in PROGRAMS]
    assert len(PROGRAMS) == 10
    found = json.loads(file.read_text(encoding="utf-8"))
    assert found["machine"]["zyx"].endswith(" threads")
    assert found["machine"]["beside"].startswith(f"numpy {np.__version__}")
    ours = [row for row in found["rows"] if row["library"] == "interpreter:0"]
    numpys = {row["program"]: row for row in found["rows"] if row["library"] == "numpy"}
    assert [row["program"] for row in ours] == [each.name for each in PROGRAMS]
    for row in ours:
        low, high = row["quartiles_s"]
        assert 0 < low <= row["median_s"] <= high
        assert row["rounds"] >= 2
        if row["best"] == "numpy":
            assert row["ratio"] == pytest.approx(numpys[row["program"]]["median_s"] / row["median_s"])


@pytest.mark.parametrize(
    ("peer", "text"),
    [
        (Wrong(), "other values than NumPy in float64: off by"),
        (NoNumbers(), "other values than NumPy in float64: off by nan"),
        (Flat(), "shapes [(320,)], not [(16, 20)]"),
        (Broken(), "RuntimeError: no room"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_library_that_gives_other_values_is_named_and_not_timed(peer, text):
    ours, numpy, other = bench.rows_of(program("softmax"), [Zyx("interpreter"), Numpy(), peer], 0.01, small=True)
    assert other.fault.startswith(text)
    assert (other.seconds, ours.fault, ours.best, numpy.fault) == ([], "", "numpy", "")
    assert len(ours.seconds) == len(numpy.seconds) >= 2
    table = bench.table([ours, numpy, other], [Zyx("interpreter")], [Zyx("interpreter"), Numpy(), peer])
    assert table[1][3] == "see below"
    assert f"{peer.name}, softmax: {other.fault}" in bench.summary([ours, numpy, other], [Zyx("interpreter")])


def test_the_ratio_is_of_the_fastest_library_on_the_same_kind_of_device():
    ours, late, fast = bench.rows_of(program("softmax"), [Zyx("interpreter"), Late(), Other()], 0.01, small=True)
    assert (ours.best, late.median_s > 0.02, late.ratio) == ("other", True, None)
    assert ours.ratio == pytest.approx(fast.median_s / ours.median_s)
    elsewhere = Other()
    elsewhere.on_host = False
    ours, _, _ = bench.rows_of(program("softmax"), [Zyx("interpreter"), Late(), elsewhere], 0.01, small=True)
    assert ours.best == "late"
    ours, _ = bench.rows_of(program("softmax"), [Zyx("interpreter"), elsewhere], 0.01, small=True)
    assert ours.best == "other"  # where nothing else is there


def test_zyx_that_gives_other_values_is_status_1(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(Zyx, "softmax", lambda self, x: x)
    monkeypatch.setattr(bench, "PROGRAMS", (program("softmax"),))
    assert main(["bench", "--small", "--seconds", "0.01", "--devices", "interpreter"]) == 1
    assert "interpreter:0, softmax: other values than NumPy in float64" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--seconds", "0"], "--seconds 0: it is more than 0"),
        (["--json", "/no/such/folder/x"], "--json /no/such/folder/x cannot be written: No such file or directory"),
        (["--devices", "nowhere"], "no device 'nowhere'"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_timed(arguments, text, capsys):
    assert main(["bench", "--small", *arguments]) == 1
    assert text in capsys.readouterr().err


def test_a_training_step_of_numpy_follows_the_slope_of_the_loss():
    each = program("training step")
    x, labels, *weights = (a.astype(np.float64) if a.dtype.kind == "f" else a for a in each.draw(small=True))
    loss, *after = Numpy().training_step(x, labels, *weights)
    for number, (weight, new) in enumerate(zip(weights, after, strict=True)):
        slope = (weight - new) / 0.1
        nudged = [w + 1e-6 * slope if n == number else w for n, w in enumerate(weights)]
        rise = (Numpy().training_step(x, labels, *nudged)[0] - loss) / 1e-6
        assert rise == pytest.approx((slope * slope).sum(), rel=1e-3)
