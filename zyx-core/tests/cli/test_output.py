"""What commands write is theirs: whatever else is printed, closed or replaced."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from zyx.cli.output import own_output


def test_what_others_print_goes_to_the_errors() -> None:
    code = """
import os
from zyx.cli.output import own_output
with own_output() as (output, errors):
    print("printed", flush=True)
    os.write(1, b"by a library\\n")
    output.write("ours\\n")
    errors.write("our error\\n")
print("after")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "ours\nafter\n"
    assert sorted(done.stderr.splitlines()) == ["by a library", "our error", "printed"]


def test_output_that_is_in_memory_stays_there(capsys: pytest.CaptureFixture[str]) -> None:
    with own_output() as (output, _):
        print("printed")
        output.write("ours\n")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("ours\n", "printed\n")


@pytest.mark.parametrize(
    "harm", ["sys.stdout.close()", "sys.__stdout__.close()", "sys.stdout = None", "os.close(1)", "sys.stderr = None"]
)
def test_nobody_can_close_or_replace_it(harm: str) -> None:
    code = (
        "import os, sys\nfrom zyx.cli.output import own_output\n"
        f"with own_output() as (output, errors):\n    {harm}\n    output.write('ours')\n    errors.write('error')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ours", "error")


@pytest.mark.skipif(os.name != "posix", reason="a shell of POSIX closes them")
@pytest.mark.parametrize(("closed", "seen"), [(">&-", 0), ("2>&-", 1), (">&- 2>&-", 0)])
def test_a_process_without_output_or_errors_runs(closed: str, seen: int, tmp_path: Path) -> None:
    command = f"{sys.executable} -m zyx cache path {closed}"
    environ = {"HOME": str(tmp_path), "ZYX_CACHE_DIR": str(tmp_path / "kept")}
    done = subprocess.run(["/bin/sh", "-c", command], env=environ, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0
    assert done.stdout.decode() == f"{tmp_path / 'kept'}\n" * seen
    assert done.stderr == b""
