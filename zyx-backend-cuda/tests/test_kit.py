"""The conformance kit, on a paper device whose streams run as late as they may. It computes on the interpreter, so what
operations give is tested on GPUs alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import zyx.testing

SUITE = Path(zyx.testing.__file__).parent / "suite"
OF_THE_HOST = ["pool", "events", "launches", "faults", "plans", "limits", "graphs"]


@pytest.mark.parametrize("part", OF_THE_HOST)
def test_the_host_keeps_the_rules(part: str):
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--zyx-device", "cuda",
        "--zyx-plugin", "fake_plugin", str(SUITE / f"test_{part}.py"),
    ]  # fmt: skip
    here = str(Path(__file__).parent)
    script = f"import sys; sys.path.insert(0, {here!r}); import pytest; sys.exit(pytest.main({command[3:]!r}))"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=300)
    assert result.returncode == 0, result.stdout[-3000:]
    assert " passed" in result.stdout
