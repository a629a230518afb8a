"""The kernels of the conformance kit are valid modules for devices of every kind; results are those of NumPy here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from targets import TARGETS

import zyx.testing

SUITE = Path(zyx.testing.__file__).parent / "suite"
#: Parts of the kit by the time that they take.
_QUICK = ["casts"]
_SLOW = [
    "kernels", "swaps", "ops", "reductions", "indexing", "movement", "sorting", "windows", "attention",
    "compute_products",
]  # fmt: skip


@pytest.mark.parametrize(
    ("part", "name"),
    [
        pytest.param(part, name, marks=pytest.mark.slow if part in _SLOW or name != "full" else ())
        for part in (*_QUICK, *_SLOW)
        for name in TARGETS
        if name != "least"  # some kernels of the kit are not made for devices without int64
    ],
)
def test_kernels_of_the_kit_are_valid(part: str, name: str):
    if shutil.which("spirv-val") is None:
        pytest.skip("spirv-val is not installed (the package spirv-tools)")
    arguments = [
        "-q", "-p", "no:cacheprovider", "--zyx-device", "paper", "--zyx-plugin", "validating_plugin",
        str(SUITE / f"test_{part}.py"),
    ]  # fmt: skip
    here = str(Path(__file__).parent)
    script = f"import sys; sys.path.insert(0, {here!r}); import pytest; sys.exit(pytest.main({arguments!r}))"
    done = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "ZYX_TEST_TARGET": name}, capture_output=True, text=True,
        check=False, timeout=1200,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout
