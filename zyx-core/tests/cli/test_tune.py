"""``zyx tune``: a program is run and searched; what was found is listed, written down, taken and forgotten."""

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
x = zyx.Tensor(np.arange(1200, dtype=np.float32).reshape(30, 40))
for _ in range(3):
    (x * 2).numpy()
x.sum(0).numpy()
if "fail" in sys.argv:
    raise SystemExit(3)
"""


@pytest.fixture
def zyx_tune(tmp_path):
    """Return a function that runs ``zyx tune`` with a home folder of its own."""
    (tmp_path / "program.py").write_text(SCRIPT, encoding="utf-8")

    def run(*arguments, home="home", status=0, **more):
        (tmp_path / home).mkdir(exist_ok=True)
        environment = {"PATH": "", "HOME": str(tmp_path / home), "ZYX_BACKENDS": "interpreter"}
        few = {"ZYX_DEVICE": "interpreter", "ZYX_AUTOTUNE_N_TOTAL_OPTS": "4", "ZYX_AUTOTUNE_N_LAUNCHES": "2"}
        done = subprocess.run(
            [sys.executable, "-m", "zyx", "tune", *arguments],
            env=environment | few | more, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert done.returncode == status, done.stdout + done.stderr
        return done

    return run


def test_a_program_is_run_with_its_arguments_and_each_kernel_has_a_row(zyx_tune):
    done = zyx_tune("--seconds", "4", "program.py", "--json", "7")
    assert "given ['--json', '7'] __main__" in done.stderr
    head, *rows = [line for line in done.stdout.splitlines() if line]
    assert head.split()[0] == "KERNEL"
    assert sorted(row.split()[2] for row in rows) == ["1", "3"]


def test_what_was_found_is_listed_exported_imported_merged_and_forgotten(zyx_tune, tmp_path):
    data = json.loads(zyx_tune("--seconds", "4", "--json", "--measurements", "times.jsonl", "program.py").stdout)
    assert len(data["kernels"]) == 2
    assert all(kernel["tried"] >= 1 and kernel["before_s"] > 0 for kernel in data["kernels"])
    assert len((tmp_path / "times.jsonl").read_text(encoding="utf-8").splitlines()) == 2
    names = sorted(kernel["kernel"] for kernel in data["kernels"])
    listed = [line.split()[0] for line in zyx_tune("list").stdout.splitlines()[1:]]
    assert sorted(listed) == names
    assert [line.split()[0] for line in zyx_tune("list", "sum*").stdout.splitlines()[1:]] == ["sum_40"]
    assert "2 written to all.json" in zyx_tune("export", "all.json").stdout
    assert "1 written to one.json" in zyx_tune("export", "one.json", "sum_40").stdout
    assert "all.json: 2 of 2 taken" in zyx_tune("import", "all.json", home="another").stdout
    assert "one.json: 0 of 1 taken" in zyx_tune("merge", "one.json", home="another").stdout
    assert "1 forgotten" in zyx_tune("forget", "sum_40").stdout
    assert "one.json: 1 of 1 taken" in zyx_tune("merge", "one.json").stdout
    assert "2 forgotten" in zyx_tune("forget").stdout
    assert "nothing was tuned yet" in zyx_tune("list").stdout


def test_a_program_that_fails_is_not_searched(zyx_tune):
    done = zyx_tune("program.py", "fail", status=3)
    assert "program.py ended with status 3, so nothing was searched" in done.stdout
    assert "nothing was tuned yet" in zyx_tune("list").stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["absent.py"], "there is no file absent.py"),
        (["--seconds", "0", "program.py"], "seconds is a positive number, not 0.0"),
        (["list", "sum_99"], "nothing was found for a kernel sum_99"),
        (["export"], "takes a file to write to"),
        (["import"], "take files that zyx tune export wrote"),
        (["import", "absent.json"], "absent.json cannot be read: No such file"),
        (["import", "program.py"], "program.py is not JSON"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(zyx_tune, arguments, said):
    done = zyx_tune(*arguments, status=1)
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_where_nothing_can_be_kept_it_is_said(zyx_tune):
    done = zyx_tune("--seconds", "2", "program.py", ZYX_CACHE="0")
    assert "nothing of it is kept" in done.stdout
