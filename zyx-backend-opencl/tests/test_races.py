"""A few kernels under Oclgrind, a simulated device that sees data races and accesses outside of buffers.

Debian's package ``oclgrind`` brings it; it is not announced to the loader, so no other test meets it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ORACLE = Path("/usr/lib/oclgrind/liboclgrind-rt-icd.so")

KERNELS = """
import numpy as np
from zyx.runtime.runtime import Runtime, use
from zyx.tensor.tensor import Tensor

x = np.random.default_rng(0).standard_normal((3, 70)).astype(np.float32)
weights = np.random.default_rng(1).standard_normal((70, 4)).astype(np.float32)
powers = np.exp(x - x.max(1, keepdims=True))
runtime = Runtime({"devices": {"default": "opencl"}, "cache": {"enabled": False}})
with use(runtime):
    t = Tensor(x)
    cases = {
        "elementwise": (t * 2 + 1, x * 2 + 1),
        "softmax": (t.softmax(axis=-1), powers / powers.sum(1, keepdims=True)),
        "sum": (t.sum(), x.sum()),
        "columns": (t.sum(axis=0), x.sum(0)),
        "product": (t @ Tensor(weights), x @ weights),
    }
    for name, (found, wanted) in cases.items():
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-5, err_msg=name)
    runtime.close()
"""

HEAD = """
import numpy as np
from zyx import dtype as dtypes
from zyx.ir import kernel as k
from zyx.ir.builder import Builder
from zyx.ops import BinaryOp
from zyx.testing.launching import launch
from zyx.testing.opening import open_runtime

b = Builder()
y = b.define(k.Memory.GLOBAL, dtypes.int32, 8)
thread = b.index(k.Axis.LOCAL, 0, 8, dtypes.int32)
"""

RACE = """
shared = b.define(k.Memory.LOCAL, dtypes.int32, 8)
b.store(shared, thread, thread)
b.store(y, thread, b.load(shared, b.binary(BinaryOp.SUB, b.const(7, dtypes.int32), thread)))  # no barrier before
"""

OUTSIDE = """
b.store(y, b.binary(BinaryOp.ADD, b.const(1000, dtypes.int32), thread), thread)
"""

TAIL = """
runtime = open_runtime("opencl")
device = runtime.device()
launch(device, device.compile(b.finish("wrong")), [np.zeros(8, np.int32)])
"""


def complaints(script: str, log: Path) -> str:
    """Run a script on the simulated device, and return what it has to say."""
    if not ORACLE.exists():
        pytest.skip(f"Oclgrind is not installed: there is no {ORACLE}")
    environ = {**os.environ, "OCL_ICD_VENDORS": str(ORACLE), "OCLGRIND_DATA_RACES": "1", "OCLGRIND_LOG": str(log)}
    result = subprocess.run(
        [sys.executable, "-c", script], env=environ, capture_output=True, text=True, timeout=150, check=False
    )
    assert result.returncode == 0, result.stderr[-2000:]
    return log.read_text() if log.exists() else ""


def test_kernels_have_no_races_and_stay_inside_their_buffers(tmp_path: Path):
    assert complaints(KERNELS, tmp_path / "log") == ""


@pytest.mark.parametrize(
    ("wrong", "complaint"), [(RACE, "data race"), (OUTSIDE, "Invalid write of size 4")], ids=["race", "outside"]
)
def test_a_race_or_a_write_outside_of_a_buffer_would_be_seen(tmp_path: Path, wrong: str, complaint: str):
    assert complaint in complaints(HEAD + wrong + TAIL, tmp_path / "log")
