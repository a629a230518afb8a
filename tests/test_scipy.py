"""SciPy computes with tensors by the Array API, on the default device."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("scipy", reason="SciPy, which these tests call, is not installed")


def test_scipy_gives_of_tensors_what_it_gives_of_arrays():
    script = Path(__file__).with_name("scipy_calls.py")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script)],
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
