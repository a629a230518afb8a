"""The benchmark of tuning, whose losses are those of PyTorch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import networks

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "tuning_speed.py"


def test_the_losses_of_both_libraries_agree_and_are_beside_each_other(tmp_path):
    pytest.importorskip("torch")
    file = networks.save(tmp_path / "small.gguf", **{"llama.context_length": 64})
    (tmp_path / "story.txt").write_text("hello world, or world hello. " * 12)
    how = ("--text", tmp_path / "story.txt", "--length", "16", "--batch", "2", "--rank", "4", "--rounds", "2")
    command = [sys.executable, str(SCRIPT), str(file), *map(str, how)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    rows = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith(("| zyx", "| PyTorch"))]
    assert [row[0] for row in rows] == ["| zyx float32", "| PyTorch"]
    losses = [[float(loss) for loss in row[4].rstrip(" |").split(", ")] for row in rows]
    assert len({*losses[0]}) == 3  # the steps change something
    assert losses[0] == pytest.approx(losses[1], abs=1e-3)
    assert "losses of the first 3 steps agree within 0.001" in done.stdout
