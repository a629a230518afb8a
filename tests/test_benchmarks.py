"""The benchmark runs, and prints what its readers need."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "kernels.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False, timeout=300
    )


def test_a_row_has_a_median_its_quartiles_and_a_ratio() -> None:
    if os.environ.get("ZYX_DEVICE") == "interpreter":
        pytest.skip("the interpreter would take minutes")
    done = run("sum", "--rounds", "2")
    assert done.returncode == 0, done.stderr
    head, *rows = [line.split() for line in done.stdout.splitlines()[2:]]
    assert head == ["operation", "library", "median", "ms", "1st", "qu.", "3rd", "qu.", "to", "zyx"]
    assert [row[:2] for row in rows[:2]] == [["sum", "zyx"], ["sum", "numpy"]]
    for row in rows:
        median, low, high = map(float, row[3:6])
        assert 0 < low <= median <= high
    assert float(rows[1][6]) == pytest.approx(float(rows[1][3]) / float(rows[0][3]), abs=0.05, rel=0.05)


@pytest.mark.parametrize("arguments", [["nonsense"], ["--rounds", "1"]])
def test_what_cannot_be_measured_is_refused(arguments: list[str]) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert "no operation nonsense" in done.stderr or "quartiles need two rounds" in done.stderr
