"""The worker pool: every group runs once, whoever runs it; threads come and go without harm."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.builtin.host import HostPool
from zyx.errors import AllocationError
from zyx.kernel.build import Builder
from zyx.kernel.data import Axis, Kernel, Memory
from zyx.ops import BinaryOp, ReduceOp
from zyx_backend_c import driver
from zyx_backend_c.device import CpuDevice
from zyx_backend_c.start import make_device, make_workers
from zyx_backend_c.target import Target
from zyx_backend_c.workers import Sharing, can_share, runtime_text

EVERYTHING = Sharing(share_ns=0, wake_ns=0, chunk_ns=1, spins=20)

needs_workers = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="workers exist on Linux only")


def count_up(groups: int, work: int = 1) -> Kernel:
    """Each group adds `work`, one at a time, to an element of its own."""
    b = Builder()
    y = b.define(Memory.GLOBAL, dtypes.int64, groups)
    group = b.index(Axis.GROUP, 0, groups)
    b.loop(work)
    b.store(y, group, b.binary(BinaryOp.ADD, b.load(y, group), b.const(1, dtypes.int64)))
    b.end_loop()
    return b.finish("count_up")


def make(llvm_device: CpuDevice, threads: int, sharing: Sharing) -> CpuDevice:
    toolchain = llvm_device.toolchain
    return make_device(7, llvm_device.memory_pool, toolchain, toolchain, make_workers(toolchain, threads, sharing))


@needs_workers
@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_every_group_runs_once_in_every_launch(llvm_device: CpuDevice, threads: int) -> None:
    device = make(llvm_device, threads, EVERYTHING)
    launches = 200
    for groups in (1, 2, 7, 64, 1000):
        program = device.compile(count_up(groups))
        buffer, _ = device.memory_pool.allocate(8 * groups)
        buffer.array[:] = 0
        for _ in range(launches):
            device.launch(program, [buffer])
        assert (buffer.array.view(np.int64) == launches).all()
        device.memory_pool.deallocate(buffer)
    assert device.workers.counters.calls == 5 * launches
    assert (device.workers.counters.shared > 0) == (threads > 1)
    device.close()


@needs_workers
def test_workers_that_slept_are_woken_and_help(llvm_device: CpuDevice) -> None:
    device = make(llvm_device, 2, Sharing(wake_ns=0))
    program = device.compile(count_up(64, work=20_000))
    buffer, _ = device.memory_pool.allocate(8 * 64)
    buffer.array[:] = 0
    for _ in range(10):
        device.launch(program, [buffer])
        time.sleep(0.005)  # longer than workers stay awake
    assert (buffer.array.view(np.int64) == 200_000).all()
    assert device.workers.counters.wakes >= 5
    assert device.workers.counters.helped > 0
    device.close()


@needs_workers
def test_small_work_is_not_shared_and_starts_no_threads(llvm_device: CpuDevice) -> None:
    device = make(llvm_device, 2, Sharing())
    before = threading.active_count()
    program = device.compile(count_up(64))
    buffer, _ = device.memory_pool.allocate(8 * 64)
    device.launch(program, [buffer])
    assert device.workers.counters.shared == 0
    assert threading.active_count() == before
    device.close()


@needs_workers
def test_a_pool_can_be_closed_at_any_time_and_its_threads_end(llvm_device: CpuDevice) -> None:
    before = set(threading.enumerate())
    device = make(llvm_device, 4, EVERYTHING)
    program = device.compile(count_up(64))
    buffer, _ = device.memory_pool.allocate(8 * 64)
    device.launch(program, [buffer])
    assert len(set(threading.enumerate()) - before) == 3
    device.close()
    device.close()
    assert set(threading.enumerate()) <= before


@needs_workers
def test_threads_of_a_program_may_launch_at_the_same_time(llvm_device: CpuDevice) -> None:
    device = make(llvm_device, 3, EVERYTHING)
    program = device.compile(count_up(100, work=10))
    buffers = [device.memory_pool.allocate(800)[0] for _ in range(4)]
    for buffer in buffers:
        buffer.array[:] = 0

    def launch_many(buffer: object) -> None:
        for _ in range(100):
            device.launch(program, [buffer])

    threads = [threading.Thread(target=launch_many, args=(buffer,)) for buffer in buffers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for buffer in buffers:
        assert (buffer.array.view(np.int64) == 1000).all()
    device.close()


@needs_workers
def test_threads_have_scratch_memory_of_their_own(llvm_device: CpuDevice) -> None:
    device = make(llvm_device, 4, EVERYTHING)
    for length in (10, 1000, 300_000):
        b = Builder()
        y = b.define(Memory.GLOBAL, dtypes.int64, 64)
        row = b.define(Memory.LOCAL, dtypes.int64, length)
        group = b.index(Axis.GROUP, 0, 64)
        i = b.loop(length)
        b.store(row, i, group)
        b.end_loop()
        j = b.loop(length)
        b.atomic(ReduceOp.SUM, y, group, b.load(row, j))
        b.end_loop()
        program = device.compile(b.finish("scratch"))
        buffer, _ = device.memory_pool.allocate(8 * 64)
        buffer.array[:] = 0
        device.launch(program, [buffer])
        np.testing.assert_array_equal(buffer.array.view(np.int64), np.arange(64) * length)
    device.close()


SCRIPT = """
import os, sys
sys.path.insert(0, {tests!r})
from test_workers import EVERYTHING, count_up
from zyx.drivers.cache import MemoryCache
from zyx.builtin.host import HostPool
from zyx.errors import AllocationError
from zyx_backend_c.start import make_device, make_workers, open_devices
import numpy as np
first, = open_devices("llvm", "", 2, MemoryCache(), HostPool())
workers = make_workers(first.toolchain, 3, EVERYTHING)
device = make_device(1, first.memory_pool, first.toolchain, first.toolchain, workers)
program = device.compile(count_up(50))
buffer, _ = device.memory_pool.allocate(400)
buffer.array[:] = 0
device.launch(program, [buffer])
"""


def run_script(rest: str) -> subprocess.CompletedProcess[str]:
    script = SCRIPT.format(tests=str(Path(__file__).parent)) + rest
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)


@needs_workers
def test_a_program_that_closes_nothing_ends_quietly() -> None:
    start = time.perf_counter()
    result = run_script("print(buffer.array.view(np.int64).sum())")
    assert (result.returncode, result.stdout.strip(), result.stderr) == (0, "50", "")
    assert time.perf_counter() - start < 30


@needs_workers
def test_a_program_that_fails_ends_too() -> None:
    result = run_script("raise SystemExit(3)")
    assert result.returncode == 3


@needs_workers
def test_a_child_process_starts_workers_of_its_own() -> None:
    result = run_script(
        """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of fork with threads
child = os.fork()
for _ in range(20):
    device.launch(program, [buffer])
total = int(buffer.array.view(np.int64).sum())
if child == 0:
    device.close()
    os._exit(0 if total == 50 * 21 else 1)
_, status = os.waitpid(child, 0)
print(total, os.waitstatus_to_exitcode(status))
"""
    )
    assert result.stdout.split() == ["1050", "0"], result.stderr


def test_other_systems_get_code_without_system_calls() -> None:
    for triple in ("x86_64-apple-darwin", "arm64-apple-darwin", "x86_64-pc-windows-msvc", "riscv64-unknown-linux-gnu"):
        target = Target(triple, "generic", frozenset())
        text = runtime_text(target)
        assert not can_share(target)
        assert "declare i64 @syscall" not in text
        assert "FUTEX," not in text and "PAUSE\n" not in text and "YIELD)" not in text


def test_where_there_are_no_workers_the_caller_does_everything(llvm_device: CpuDevice) -> None:
    device = make(llvm_device, 1, EVERYTHING)
    pool = HostPool()
    program = device.compile(count_up(64, work=1000))
    assert program.steps[0].chunk == 64
    assert device.info.units == 1
    device.close()
    assert pool.free_bytes > 0


def test_scratch_memory_that_the_system_refuses_is_an_allocation_error(llvm_device: CpuDevice) -> None:
    b = Builder()
    y = b.define(Memory.GLOBAL, dtypes.int64, 1)
    row = b.define(Memory.LOCAL, dtypes.int64, 1 << 50)
    zero = b.const(0, dtypes.int64)
    b.store(row, zero, zero)
    b.store(y, zero, b.load(row, zero))
    kernel = b.finish("huge")
    with pytest.raises(AllocationError, match="scratch memory"):
        llvm_device.compile(kernel)
    program = llvm_device.compile(count_up(4))
    buffer, _ = llvm_device.memory_pool.allocate(32)
    buffer.array[:] = 0
    llvm_device.launch(program, [buffer])
    assert (buffer.array.view(np.int64) == 1).all()


@needs_workers
@pytest.mark.parametrize("refused", [1, 2, 3])
def test_where_the_system_refuses_threads_those_that_started_do_the_work(
    llvm_device: CpuDevice, monkeypatch: pytest.MonkeyPatch, refused: int
) -> None:
    started: list[int] = []

    class Refused(threading.Thread):
        def start(self) -> None:
            if len(started) + 1 == refused:
                raise RuntimeError("can't start new thread")
            started.append(1)
            super().start()

    monkeypatch.setattr(driver.threading, "Thread", Refused)
    before = threading.active_count()
    device = make(llvm_device, 4, EVERYTHING)
    program = device.compile(count_up(100))
    buffer, _ = device.memory_pool.allocate(800)
    buffer.array[:] = 0
    for _ in range(50):
        device.launch(program, [buffer])
    assert (buffer.array.view(np.int64) == 50).all()
    assert len(started) == threading.active_count() - before == refused - 1
    device.close()
    assert threading.active_count() == before


@needs_workers
def test_a_worker_whose_start_was_interrupted_is_stopped_and_never_started_twice(
    llvm_device: CpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(threading.Thread):
        def start(self) -> None:
            super().start()
            if self.name == "zyx-c-2":
                raise KeyboardInterrupt

    monkeypatch.setattr(driver.threading, "Thread", Interrupted)
    before = set(threading.enumerate())
    device = make(llvm_device, 4, EVERYTHING)
    program = device.compile(count_up(100))
    buffer, _ = device.memory_pool.allocate(800)
    buffer.array[:] = 0
    with pytest.raises(KeyboardInterrupt):
        device.launch(program, [buffer])
    for _ in range(50):
        device.launch(program, [buffer])
    assert (buffer.array.view(np.int64) == 50).all()
    assert len(set(threading.enumerate()) - before) == 2
    device.close()
    assert set(threading.enumerate()) <= before
