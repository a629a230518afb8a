"""Kernels under Oclgrind, a simulated device that sees data races and accesses outside of buffers.

Debian's package ``oclgrind`` brings it; it is not announced to the loader, so no other test meets it. Without it these
tests are skipped, or fail if ZYX_REQUIRE_DEVICES names ``oclgrind``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ORACLE = Path("/usr/lib/oclgrind/liboclgrind-rt-icd.so")

#: Parts of the conformance kit that the device computes within seconds. Random numbers are not among them: it does not
#: know the instruction that clang makes of rotations. Races are alike for dtypes of one size, of which one is enough.
ALIKE = " and ".join(f"not {dtype}" for dtype in ("i8", "u16", "i16", "bf16", "u32", "f32", "u64", "i64"))
PARTS = {
    # Oclgrind's compiler makes llvm.usub.sat of the differences that "turned" positions are, which Oclgrind cannot run.
    "gathers and scatters": f"test_indexing and not random_words and not turned and {ALIKE}",
    "windows": "test_windows and (f32 or i32)",
    "sums, scans and products": "test_reductions and (f32 or i32) and not 129",
    "movement": "test_movement and f32",
}

KERNELS = """
import numpy as np
import zyx
from zyx.runtime.runtime import Runtime, use
from zyx.tensor.tensor import Tensor

rng = np.random.default_rng(0)

def normal(*shape):
    return rng.standard_normal(shape).astype(np.float32)

x, weights, long, left, right = normal(3, 70), normal(70, 4), normal(3000), normal(40, 50), normal(50, 48)
columns, places, added = rng.integers(0, 70, (3, 20)), rng.integers(0, 9, 300), normal(300)
powers = np.exp(x - x.max(1, keepdims=True))
scattered = np.zeros(9, np.float32)
np.add.at(scattered, places, added)
hidden = np.tanh(x @ weights)
runtime = Runtime({"devices": {"default": "opencl"}, "cache": {"enabled": False}})
with use(runtime):
    t = Tensor(x)

    def loss(w):
        return ((t @ w).tanh() ** 2).sum()

    cases = {
        "elementwise": (t * 2 + 1, x * 2 + 1),
        "softmax": (t.softmax(axis=-1), powers / powers.sum(1, keepdims=True)),
        "sum": (t.sum(), x.sum()),
        "columns": (t.sum(axis=0), x.sum(0)),
        "sum in two steps": (Tensor(long).sum(), long.sum()),
        "product": (t @ Tensor(weights), x @ weights),
        "product in tiles": (Tensor(left) @ Tensor(right), left @ right),
        "gather": (zyx.take_along_axis(t, Tensor(columns), axis=1), np.take_along_axis(x, columns, 1)),
        "rows": (t[Tensor(np.array([2, 0, 0, 1]))], x[[2, 0, 0, 1]]),
        "scatter": (zyx.scatter_add(zyx.zeros(9), 0, Tensor(places), Tensor(added)), scattered),
        "scan": (t.cumsum(1), x.cumsum(1)),
        "scan in two steps": (zyx.cumsum(Tensor(long), 0), long.cumsum()),
        "sort": (zyx.sort(t, axis=1), np.sort(x, 1)),
        "layer norm": (
            zyx.nn.LayerNorm(70)(t), (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
        ),
        "gradient": (zyx.grad(loss)(Tensor(weights)), x.T @ (2 * hidden * (1 - hidden * hidden))),
    }
    for name, (found, wanted) in cases.items():
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-4, err_msg=name)
    runtime.close()
"""

HEAD = """
import numpy as np
from zyx import dtype as dtypes
from zyx.kernel import data as k
from zyx.kernel.build import Builder
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


def complaints(log: Path, *command: str) -> str:
    """Run Python with `command` on the simulated device, and return what it has to say."""
    if not ORACLE.exists():
        reason = f"Oclgrind is not installed (Debian: apt install oclgrind): there is no {ORACLE}"
        if "oclgrind" in os.environ.get("ZYX_REQUIRE_DEVICES", "").split(","):
            pytest.fail(f"ZYX_REQUIRE_DEVICES names oclgrind: {reason}", pytrace=False)
        pytest.skip(reason)
    environ = {
        **os.environ,
        "OCL_ICD_VENDORS": str(ORACLE),
        "OCLGRIND_DATA_RACES": "1",
        "OCLGRIND_LOG": str(log),
        "ZYX_REQUIRE_DEVICES": "opencl",
    }
    result = subprocess.run(
        [sys.executable, *command], env=environ, capture_output=True, text=True, timeout=560, check=False
    )
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-2000:]
    return log.read_text() if log.exists() else ""


def test_kernels_have_no_races_and_stay_inside_their_buffers(tmp_path: Path):
    assert complaints(tmp_path / "log", "-c", KERNELS) == ""


@pytest.mark.parametrize("part", PARTS)
def test_a_part_of_the_kit_has_no_races_and_stays_inside_its_buffers(tmp_path: Path, part: str):
    kit = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--pyargs", "zyx.testing", "--zyx-device", "opencl")
    assert complaints(tmp_path / "log", *kit, "-k", PARTS[part]) == ""


@pytest.mark.parametrize(
    ("wrong", "complaint"), [(RACE, "data race"), (OUTSIDE, "Invalid write of size 4")], ids=["race", "outside"]
)
def test_a_race_or_a_write_outside_of_a_buffer_would_be_seen(tmp_path: Path, wrong: str, complaint: str):
    assert complaint in complaints(tmp_path / "log", "-c", HEAD + wrong + TAIL)
