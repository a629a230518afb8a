"""``zyx explain``: a program is run, and its kernels are listed with what they took and what was expected."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

SCRIPT = """
import sys
import numpy as np
import zyx

print("given", sys.argv[1:], __name__)
x = zyx.Tensor(np.arange(12, dtype=np.float32).reshape(3, 4))
for _ in range(3):
    (x * 2).numpy()
x.sum(0).numpy()
"""


def explain(path, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "zyx", "explain", *arguments],
        env={"PATH": "", "HOME": str(path), "ZYX_BACKENDS": "interpreter", "ZYX_DEVICE": "interpreter"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(SCRIPT, encoding="utf-8")
    return path


def test_each_kernel_has_a_row_with_its_launches_and_what_was_expected(script, tmp_path):
    done = explain(tmp_path, str(script), "--json", "7")
    assert done.returncode == 0, done.stderr
    assert "given ['--json', '7'] __main__" in done.stderr
    head, *rows = [line for line in done.stdout.splitlines() if line]
    assert head.split("  ")[0] == "KERNEL"
    assert len(rows) == 3
    assert sorted(row.split()[1] for row in rows[:2]) == ["1", "3"]
    assert rows[2].startswith("4 launches, ")


def test_data_has_bytes_instructions_and_the_bound(script, tmp_path):
    done = explain(tmp_path, "--json", str(script))
    found = json.loads(done.stdout)
    assert found["seconds"] == pytest.approx(sum(kernel["seconds"] for kernel in found["kernels"]))
    assert sorted(kernel["launches"] for kernel in found["kernels"]) == [1, 3]
    for kernel in found["kernels"]:
        assert kernel["expected_s"] > 0
        assert kernel["ratio"] == pytest.approx(kernel["measured_s"] / kernel["expected_s"])
        assert kernel["bound"]
        assert kernel["bytes"] > 0
        assert kernel["device"] == "interpreter:0"
        assert kernel["what"].startswith("p")


@pytest.mark.parametrize(("line", "status"), [("raise ValueError('no')", 1), ("sys.exit(3)", 3), ("sys.exit('no')", 1)])
def test_kernels_of_a_program_that_fails_are_listed_all_the_same(script, tmp_path, line, status):
    with script.open("a", encoding="utf-8") as file:
        file.write(line)
    done = explain(tmp_path, str(script))
    assert done.returncode == status
    assert "4 launches" in done.stdout
    assert status == 3 or "no" in done.stderr


def test_what_is_no_file_or_launches_nothing_is_said(tmp_path):
    done = explain(tmp_path, str(tmp_path / "missing.py"))
    assert (done.returncode, done.stdout.partition(" no file ")[0]) == (1, "zyx explain: there is")
    empty = tmp_path / "empty.py"
    empty.write_text("", encoding="utf-8")
    assert explain(tmp_path, str(empty)).stdout == "no kernel was launched\n"
