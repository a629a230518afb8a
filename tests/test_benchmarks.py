"""What is timed beside other libraries, and what schedules are fitted to."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from zyx.errors import ShapeError

FIT = Path(__file__).parents[1] / "benchmarks" / "fit_schedules.py"


def run_script(script: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(script), *arguments], capture_output=True, text=True, check=False, timeout=300
    )


def test_each_library_that_is_installed_has_a_column_and_gives_the_same_values(tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    given = ["-m", "zyx", "bench", "--small", "--seconds", "0.1", "--json", str(file)]
    done = subprocess.run([sys.executable, *given], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(file.read_text(encoding="utf-8"))["rows"]
    assert not [row for row in rows if "fault" in row]
    libraries = {row["library"].partition(" ")[0] for row in rows}
    assert {name for name in ("numpy", "torch", "jax") if importlib.util.find_spec(name)} <= libraries
    device, *others = re.split(r"\s{2,}", next(line for line in done.stdout.splitlines() if line[:7] == "PROGRAM"))[
        1:-1
    ]
    assert {device, *others} == {row["library"] for row in rows}


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


PACKED = Path(__file__).parents[1] / "benchmarks" / "packed_weights.py"


def test_matrices_of_every_format_are_timed_those_with_rows_together_as_well() -> None:
    spec = importlib.util.spec_from_file_location("packed_weights", PACKED)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    random = np.random.default_rng(0)
    for name in ("float32", "Q4_1", "Q8_0+", "int4/16", "Q4_1x8", "int8/16x8"):
        assert script.weights(name, 8, 32, random).shape == (8, 32)
    with pytest.raises(ShapeError, match="Q4_1x8 has 8 rows together, and 12 are no multiple"):
        script.weights("Q4_1x8", 12, 32, random)
