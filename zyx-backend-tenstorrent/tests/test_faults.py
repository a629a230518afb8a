"""What goes wrong on the device is an error of zyx, and says what it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import zyx
from zyx.drivers.faults import Cause, Fault
from zyx.errors import AllocationError, CompileError, DeviceLostError, LaunchError, NoDeviceError, UnsupportedError
from zyx.kernel.data import Kernel
from zyx.runtime.runtime import use

if TYPE_CHECKING:
    from zyx_backend_tenstorrent.device import TenstorrentDevice

ONES = np.ones((64, 64), np.float32)

#: One block each, and a compute kernel that does what is asked for.
TEXT = """
@ttl.operation(grid=(1, 1))
def op(x, y):
    a = ttl.make_dataflow_buffer_like(x, shape=(2, 2), block_count=2)
    b = ttl.make_dataflow_buffer_like(y, shape=(2, 2), block_count=2)
    @ttl.compute()
    def compute():
        for _ in range({waits}):
            with a.wait() as p, b.reserve() as o:
                o.store({value})
    @ttl.datamovement()
    def read():
        with a.reserve() as block:
            copy = ttl.copy(x[{rows}, 0:2], block)
            copy.wait()
    @ttl.datamovement()
    def write():
        with b.wait() as block:
            copy = ttl.copy(block, y[0:2, 0:2])
            copy.wait()
"""


def run(device: TenstorrentDevice, waits: int = 1, value: str = "p + p", rows: str = "0:2") -> np.ndarray:
    servant = device.pool.servant
    x, y = (servant.tensor(array, zyx.float32) for array in (ONES, np.zeros_like(ONES)))
    servant.run(servant.build(TEXT.format(waits=waits, value=value, rows=rows), "op", []), [x, y])
    return servant.matrix(y, zyx.float32)


def test_the_text_of_these_tests_runs(device):
    np.testing.assert_array_equal(run(device), ONES * 2)


def test_kernels_that_wait_for_each_other_are_a_deadlock(device):
    with pytest.raises(Fault, match="Deadlock") as found:
        run(device, waits=2)
    assert found.value.cause is Cause.DEADLOCK


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rows": "1:3"}, "does not match"),
        ({"value": "p * 2.5"}, "float"),
        ({"value": "ttl.block.fill(1.0, shape=(2, 2), dtype=ttnn.float32)"}, "pop|read|wait"),
    ],
    ids=["outside of the tensor", "a number for a block", "a block that is not used"],
)
def test_faults_of_the_simulator_say_what_was_wrong(changes, said, device):
    with pytest.raises(Fault, match=f"(?i){said}") as found:
        run(device, **changes)
    assert found.value.cause is Cause.REFUSED
    assert "diagnostics.py" not in str(found.value)


def test_the_simulator_prints_nothing(device, capsys):
    with pytest.raises(Fault):
        run(device, waits=2)
    assert capsys.readouterr().out == ""


def test_more_local_memory_than_there_is_is_an_error(device):
    servant = device.pool.servant
    text = TEXT.format(waits=1, value="p + p", rows="0:2").replace("block_count=2", "block_count=200")
    x, y = (servant.tensor(array, zyx.float32) for array in (ONES, np.zeros_like(ONES)))
    with pytest.raises(Fault, match="exceeds the L1 memory limit"):
        servant.run(servant.build(text, "op", []), [x, y])


def test_a_deadlock_at_a_launch_names_the_kernel(fresh, monkeypatch):
    runtime = fresh()
    servant = runtime.device().pool.servant

    def stuck(operation, tensors):
        raise Fault(Cause.DEADLOCK, "read waits for compute")

    with use(runtime):
        x = zyx.Tensor(ONES) + 1
        monkeypatch.setattr(servant, "run", stuck)
        with pytest.raises(LaunchError, match=r"tenstorrent:0.*wait for each other"):
            x.numpy()
        monkeypatch.undo()
        np.testing.assert_array_equal((zyx.Tensor(ONES) + 1).numpy(), ONES + 1)


def test_a_lost_device_stays_lost(fresh, monkeypatch):
    runtime = fresh()
    servant = runtime.device().pool.servant

    def lost(operation, tensors):
        raise Fault(Cause.LOST, "no answer")

    with use(runtime):
        x = zyx.Tensor(ONES) + 1
        monkeypatch.setattr(servant, "run", lost)
        with pytest.raises(DeviceLostError, match="no answer"):
            x.numpy()
        monkeypatch.undo()
        with pytest.raises(NoDeviceError, match="lost"):
            (zyx.Tensor(ONES, device="tenstorrent") + 2).numpy()


def test_a_text_that_is_refused_is_an_error_and_nothing_is_done_in_its_place(fresh, monkeypatch):
    runtime = fresh()

    def refused(text, name, likes):
        raise Fault(Cause.REFUSED, "no such function")

    monkeypatch.setattr(runtime.device().pool.servant, "build", refused)
    with use(runtime), pytest.raises(CompileError, match="no such function"):
        (zyx.Tensor(ONES) + 1).numpy()


def test_buffers_that_do_not_fit_are_refused(fresh):
    with use(fresh(memory_bytes=1 << 16)), pytest.raises(AllocationError, match="65536"):
        zyx.Tensor(np.ones((256, 256), np.float32)).realize().numpy()


def test_tiles_make_room_for_each_other(fresh):
    with use(fresh(memory_bytes=1 << 17)):  # 32 tiles
        x = [zyx.Tensor(ONES * k).realize() for k in range(4)]  # 16 of them
        for _ in range(2):
            for k, each in enumerate(x):
                np.testing.assert_array_equal((each + 1).numpy(), ONES * k + 1)


def test_kernels_are_refused_by_name(device):
    with pytest.raises(UnsupportedError, match="kernel nothing: tenstorrent:0 computes on tiles"):
        device.compile(Kernel("nothing", ()))
