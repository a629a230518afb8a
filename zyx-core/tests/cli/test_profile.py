"""``zyx profile``: a program is run, and its kernels are listed with what they took and what was expected."""

from __future__ import annotations

import json
import re
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


def profile(path, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "zyx", "profile", *arguments],
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


def test_each_kernel_has_a_row_and_the_whole_a_summary(script, tmp_path):
    done = profile(tmp_path, str(script), "--json", "7")
    assert done.returncode == 0, done.stderr
    assert "given ['--json', '7'] __main__" in done.stderr
    head, *rows = [line for line in done.stdout.splitlines() if line]
    assert head.split("  ")[0] == "KERNEL"
    assert sorted(row.split()[1] for row in rows[:2]) == ["1", "3"]
    assert re.fullmatch(r"4 launches, .* on interpreter:0; .* in all", rows[2])
    assert re.fullmatch(r"2 plans made in .*; 2 kernels compiled in .*; 5 copies in .*, 208 B", rows[3])
    assert rows[4].startswith("most memory of host: ")
    assert "48 B copied there (1)" in rows[4]
    assert len(rows) == 5


def test_the_first_rows_can_be_listed_alone(script, tmp_path):
    rows = profile(tmp_path, "--top", "1", str(script)).stdout.splitlines()
    assert re.fullmatch(r"and 1 more, which took .* % of the time", rows[2])
    assert rows[4].startswith("4 launches")
    assert profile(tmp_path, "--top", "0", str(script)).stderr.startswith("zyx profile: --top 0: ")


def test_data_has_bytes_instructions_and_the_bound(script, tmp_path):
    found = json.loads(profile(tmp_path, "--json", "-", str(script)).stdout)
    assert found["seconds"] == pytest.approx(sum(kernel["seconds"] for kernel in found["kernels"]))
    assert found["seconds"] < found["wall_s"]
    assert [found[kind]["number"] for kind in ("plan", "compile", "restore", "copy", "call")] == [2, 2, 0, 5, 0]
    assert [pool["pool"] for pool in found["memory"]] == ["host"]
    assert {kernel["launches"]: kernel["flops"] for kernel in found["kernels"]} == {3: 12, 1: 12}
    for kernel in found["kernels"]:
        assert kernel["expected_s"] > 0
        assert kernel["ratio"] == pytest.approx(kernel["measured_s"] / kernel["expected_s"])
        assert kernel["bytes_per_s"] == pytest.approx(kernel["bytes"] / kernel["measured_s"])
        assert kernel["host_s"] >= kernel["seconds"]
        assert kernel["of_limit"] > 0
        assert kernel["bound"]
        assert kernel["bytes"] > 0
        assert kernel["device"] == "interpreter:0"
        assert kernel["what"].startswith("p")


def test_files_have_data_and_a_trace_beside_the_table(script, tmp_path):
    data, trace = tmp_path / "data.json", tmp_path / "trace.json"
    done = profile(tmp_path, "--json", str(data), "--trace", str(trace), str(script))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("KERNEL")
    kernels = json.loads(data.read_text(encoding="utf-8"))["kernels"]
    events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    for kernel in kernels:
        took = [event["dur"] for event in events if event.get("cat") == "kernel" and event["name"] == kernel["name"]]
        assert len(took) == kernel["launches"]
        assert sum(took) / 1e6 == pytest.approx(kernel["seconds"], abs=1e-8)


def test_a_file_that_cannot_be_written_is_said_before_the_program_runs(script, tmp_path):
    done = profile(tmp_path, "--trace", str(tmp_path), str(script))
    assert done.returncode == 1
    assert done.stderr.startswith(f"zyx profile: {tmp_path} cannot be written: ")
    assert "given" not in done.stderr


@pytest.mark.parametrize(
    ("line", "status", "said"),
    [
        ("raise ValueError('no')", 1, "ValueError: no"), ("sys.exit(3)", 3, ""), ("sys.exit('no')", 1, "no\n"),
        ("raise KeyboardInterrupt", 130, "KeyboardInterrupt"),
    ],
    ids=["raise", "status", "text", "interrupt"],
)  # fmt: skip
def test_kernels_of_a_program_that_fails_are_listed_all_the_same(script, tmp_path, line, status, said):
    with script.open("a", encoding="utf-8") as file:
        file.write(line)
    done = profile(tmp_path, str(script))
    assert done.returncode == status
    assert "4 launches" in done.stdout
    assert said in done.stderr


def test_what_is_no_file_or_launches_nothing_is_said(tmp_path):
    done = profile(tmp_path, str(tmp_path / "missing.py"))
    assert (done.returncode, done.stderr.partition(" no file ")[0]) == (1, "zyx profile: there is")
    empty = tmp_path / "empty.py"
    empty.write_text("", encoding="utf-8")
    assert profile(tmp_path, str(empty)).stdout.startswith("no kernel was launched\n\n0 launches; ")
