"""What becomes of a process whose kernel goes astray, or whose GPU is full: each in a process of its own, on a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from zyx_backend_cuda.errors import TEXTS

if TYPE_CHECKING:
    from zyx.runtime.runtime import Runtime

#: A kernel stores 4 TB behind its buffer.
ASTRAY = """
from zyx import dtype as dtypes, Tensor
from zyx.errors import DeviceLostError
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.ops import BinaryOp
from zyx.runtime.runtime import current

device = current().device("cuda:0")
kept = (Tensor([1.0, 2.0]) + 1.0).realize()
b = Builder()
x = b.define(k.Memory.GLOBAL, dtypes.int32, 64)
thread = b.index(k.Axis.LOCAL, 0, 64)
b.store(x, b.binary(BinaryOp.ADD, thread, b.const(1 << 40, dtypes.int64)), b.const(7, dtypes.int32))
program = device.compile(b.finish("astray"))
buffer, _ = device.memory_pool.allocate(256)
event = device.launch(program, [buffer])
try:
    device.memory_pool.sync_events([event])
except DeviceLostError as error:
    print("lost:", error)
try:
    print(kept.numpy())
except DeviceLostError as error:
    print("still lost:", error.place)
print("the end")
"""

#: Memory is taken from the driver, past the pool, until it has less than 64 MiB left.
FULL = """
from zyx import rand
from zyx.errors import AllocationError
from zyx.runtime.runtime import current
from zyx.drivers.faults import Cause, Fault

MIB = 1 << 20

def compute():
    return (rand(16 * MIB, device="cuda:0") + 1.0).realize()

runtime = current()
pool = runtime.device("cuda:0").memory_pool
compute().numpy()  # so that all kernels are loaded
runtime.memory.reclaim()
pool.trim()
free = pool.free_bytes
taken, size = [], 1 << 36
with pool.session as session:
    while size >= 16 * MIB:
        try:
            taken.append(session.allocate(size))
        except Fault as error:
            assert error.cause is Cause.MEMORY, error
            size //= 2
kept = []
try:
    for _ in range(4):
        kept.append(compute())
except AllocationError as error:
    print("full:", error)
runtime.memory.reclaim()
with pool.session as session:
    for address in taken:
        session.free(address)
result = compute().numpy()
print("again:", len(result), bool(((result >= 1.0) & (result <= 2.0)).all()))
del kept
runtime.memory.reclaim()
print("left:", free - pool.free_bytes)
"""


@pytest.fixture
def driver(gpu: Runtime, request: pytest.FixtureRequest) -> str:
    """The package that the GPU is used through: one after the other."""
    del gpu
    return str(request.node.callspec.params["gpu"])


def output_of(script: str, driver: str) -> str:
    """Run a script through one of the packages; it has to end well. Return what it printed."""
    variables = {**os.environ, "ZYX_CUDA_DRIVER": driver, "ZYX_DEVICE": "cuda", "PYTHONFAULTHANDLER": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120, env=variables
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    for word in ("Traceback", "terminate called", "Fatal Python error", "Exception ignored"):
        assert word not in done.stderr, done.stderr
    if driver == "cuda-bindings":  # pycuda warns of what it cannot free
        assert not done.stderr
    return done.stdout


def test_a_kernel_that_stores_out_of_bounds_is_named_and_the_process_ends_well(driver: str):
    lines = output_of(ASTRAY, driver).splitlines()
    assert len(lines) == 3, lines
    assert lines[0].startswith("lost: ")
    assert "kernel astray on cuda:0 was queued last" in lines[0]
    assert "(700)" in lines[0]
    assert lines[1:] == ["still lost: cuda:0 memory", "the end"]


@pytest.mark.skipif("PYTEST_XDIST_WORKER" in os.environ, reason="it takes all memory of the GPU: run it without -n")
def test_memory_that_others_hold_is_an_error_with_the_bytes_and_comes_back_with_them(driver: str):
    lines = output_of(FULL, driver).splitlines()
    assert len(lines) == 3, lines
    assert "pool cuda:0 memory has no room for 67108864 bytes: the driver has none" in lines[0]
    assert "CUDA_ERROR_OUT_OF_MEMORY (2)" in lines[0]
    assert lines[1:] == ["again: 16777216 True", "left: 0"]


@pytest.mark.usefixtures("driver")
def test_the_driver_says_what_is_expected_of_its_errors():
    cu = pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")
    known = 0
    for text, code in TEXTS.items():
        status, said = cu.cuGetErrorString(cu.CUresult(code))
        if status == 0:  # else the driver is older than that error
            assert (code, said.decode()) == (code, text)
            known += 1
    assert known > len(TEXTS) // 2
