"""The benchmark runs, and prints what its readers need."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "kernels.py"
FIT = SCRIPT.with_name("fit_schedules.py")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_script(SCRIPT, *arguments)


def run_script(script: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(script), *arguments], capture_output=True, text=True, check=False, timeout=300
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


@pytest.mark.slow
def test_picks_among_drawn_schedules_are_compared_with_the_best_and_kept_for_the_fit(tmp_path: Path) -> None:
    if os.environ.get("ZYX_DEVICE") == "interpreter":
        pytest.skip("the interpreter would take minutes")
    kept = tmp_path / "times.jsonl"
    small = ["--nests", "3", "--schedules", "5", "--points", "20000"]
    done = run_script(FIT, *small, "--save", str(kept))
    assert done.returncode == 0, done.stderr
    assert "as installed: 3 nests" in done.stdout
    assert len(kept.read_text(encoding="utf-8").splitlines()) == 3
    again = run_script(FIT, "--load", str(kept))
    assert again.stdout == done.stdout
    fitted = run_script(FIT, "--load", str(kept), "--fit")
    assert fitted.returncode == 0, fitted.stderr
    assert "Weights(vector=" in fitted.stdout
    losses = [float(line.split()[-1]) for line in fitted.stdout.splitlines() if line.startswith("times ")]
    assert losses == sorted(losses, reverse=True)
