"""Handlers of signals: they may compute in the middle of a launch, and end a long one between two of its pieces."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.backend import Launch, Slot
from zyx.kernel.build import Builder
from zyx.kernel.data import Axis, Kernel, Memory
from zyx.ops import BinaryOp
from zyx.testing.handlers import at_each_line
from zyx_backend_c import device as device_module
from zyx_backend_c import pieces
from zyx_backend_c.device import CpuDevice
from zyx_backend_c.start import make_device, make_workers
from zyx_backend_c.workers import Sharing

pytestmark = pytest.mark.skipif(
    "PYTEST_XDIST_WORKER" in os.environ, reason="the processes of pytest-xdist do not pass on Ctrl-C"
)
needs_signals = pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="signals are no Windows thing")

GROUPS = 64


def add(number: int, *, work: int = 1, in_place: bool = False) -> Kernel:
    """``y = x + number * work``, or ``y += ...``, an element a group."""
    b = Builder()
    x = None if in_place else b.define(Memory.GLOBAL, dtypes.int64, GROUPS, mutable=False)
    y = b.define(Memory.GLOBAL, dtypes.int64, GROUPS)
    total, zero = b.define(Memory.REGISTER, dtypes.int64, 1), b.const(0, dtypes.int64)
    group = b.index(Axis.GROUP, 0, GROUPS)
    b.store(total, zero, b.load(y if x is None else x, group))
    b.loop(work)
    b.store(total, zero, b.binary(BinaryOp.ADD, b.load(total, zero), b.const(number, dtypes.int64)))
    b.end_loop()
    b.store(y, group, b.load(total, zero))
    return b.finish("add_in_place" if in_place else "add")


def numbers(device: CpuDevice, value: int):
    buffer, _ = device.memory_pool.allocate(8 * GROUPS)
    buffer.array.view(np.int64)[:] = value
    return buffer


def values(buffer) -> set[int]:
    return set(buffer.array.view(np.int64).tolist())


@pytest.fixture(autouse=True)
def ctrl_c_interrupts() -> Iterator[None]:
    """What runs in the background of a shell ignores Ctrl-C, and so would the tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(params=[1, 3], ids=["one thread", "three threads"])
def own(request: pytest.FixtureRequest, llvm_device: CpuDevice) -> Iterator[CpuDevice]:
    toolchain = llvm_device.toolchain
    workers = make_workers(toolchain, request.param, Sharing(share_ns=0, wake_ns=0, chunk_ns=1, spins=20))
    device = make_device(7, llvm_device.memory_pool, toolchain, toolchain, workers)
    yield device
    device.close()


def test_a_handler_may_launch_the_same_program_at_any_line_of_a_launch(own: CpuDevice) -> None:
    program = own.compile(add(1))
    x, y, u, v = numbers(own, 0), numbers(own, 0), numbers(own, 100), numbers(own, 0)
    calls = 0

    def launch() -> None:
        nonlocal calls
        calls += 1
        x.array.view(np.int64)[:] = calls
        own.launch(program, [x, y])
        assert values(y) == {calls + 1}

    def handler() -> None:
        v.array.view(np.int64)[:] = 0
        own.launch(program, [u, v])
        assert values(v) == {101}

    assert at_each_line(launch, handler, "zyx_backend_c") > 10


def test_after_an_exception_at_any_line_of_a_launch_the_next_is_right(own: CpuDevice) -> None:
    program = own.compile(add(1))
    arrays = [(numbers(own, value), numbers(own, 0)) for value in (10, 20)]
    calls = 0

    def launch() -> None:
        nonlocal calls
        calls += 1
        x, y = arrays[calls % 2]
        with contextlib.suppress(KeyboardInterrupt):
            own.launch(program, [x, y])
        sys.settrace(None)
        for x, y in reversed(arrays):
            y.array.view(np.int64)[:] = 0
            own.launch(program, [x, y])
            assert values(y) == {x.array.view(np.int64)[0] + 1}

    def handler() -> None:
        raise KeyboardInterrupt

    assert at_each_line(launch, handler, "zyx_backend_c") > 10


@pytest.fixture
def all_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run everything in pieces, of a group or two to begin with."""
    monkeypatch.setattr(device_module, "LONG_NS", 1)
    monkeypatch.setattr(pieces, "_PIECE_NS", 10)


@pytest.mark.usefixtures("all_long")
def test_what_runs_in_pieces_is_the_same(own: CpuDevice) -> None:
    one, two = own.compile(add(1)), own.compile(add(2, work=50))
    x, y, z = numbers(own, 5), numbers(own, 0), numbers(own, 0)
    before = own.workers.counters.calls
    own.launch(one, [x, y])
    assert values(y) == {6}
    assert own.workers.counters.calls - before > 5
    sequence = own.capture([Launch(one, (Slot(0), Slot(1))), Launch(two, (Slot(1), Slot(2)))] * 3, 3)
    own.launch(sequence, [x, y, z])
    assert (values(y), values(z)) == ({6}, {106})


def interrupting(own: CpuDevice, monkeypatch: pytest.MonkeyPatch, after: int) -> list[int]:
    """Let the native call number `after` be followed by Ctrl-C; return where calls are counted."""
    run, calls = own.workers.run, [0]

    def counted(pool: int, program: int) -> None:
        run(pool, program)
        calls[0] += 1
        if calls[0] == after:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(own.workers, "run", counted)
    return calls


@pytest.mark.usefixtures("all_long")
def test_a_long_kernel_ends_between_two_pieces_and_the_next_is_right(
    own: CpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = own.compile(add(1))
    x, y = numbers(own, 5), numbers(own, 0)
    calls = interrupting(own, monkeypatch, 2)
    with pytest.raises(KeyboardInterrupt):
        own.launch(program, [x, y])
    assert calls == [2]
    assert values(y) == {0, 6}
    own.launch(program, [x, y])
    assert values(y) == {6}


@pytest.mark.usefixtures("all_long")
@pytest.mark.parametrize("how", ["kernel", "sequence", "two arguments"])
def test_what_writes_over_what_it_reads_is_finished_first(
    own: CpuDevice, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    x, y = numbers(own, 5), numbers(own, 0)
    if how == "kernel":
        program, args = own.compile(add(1, in_place=True)), [x]
    elif how == "two arguments":
        program, args = own.compile(add(1)), [x, x]
    else:
        one = own.compile(add(1))
        steps = [Launch(one, (Slot(0), Slot(1))), Launch(one, (Slot(1), Slot(0)))]
        program, args = own.capture(steps, 2), [x, y]
    interrupting(own, monkeypatch, 1)
    with pytest.raises(KeyboardInterrupt):
        own.launch(program, args)
    assert values(x) == {7 if how == "sequence" else 6}


@pytest.mark.usefixtures("all_long")
def test_temporaries_of_a_sequence_do_not_keep_it_from_being_interrupted(
    own: CpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = own.compile(add(1))
    steps = [Launch(one, (Slot(0), Slot(1))), Launch(one, (Slot(1), Slot(2))), Launch(one, (Slot(2), Slot(1)))]
    program = own.capture(steps, 3)
    x, y, z = numbers(own, 5), numbers(own, 0), numbers(own, 0)
    calls = interrupting(own, monkeypatch, 1)
    with pytest.raises(KeyboardInterrupt):
        own.launch(program, [x, y, z])
    assert calls == [1]
    own.launch(program, [x, y, z])
    assert (values(x), values(y), values(z)) == ({5}, {8}, {7})


@needs_signals
def test_ctrl_c_is_noticed_while_a_long_kernel_runs(llvm_device: CpuDevice) -> None:
    program = llvm_device.compile(add(1, work=30_000_000))
    x, y = numbers(llvm_device, 0), numbers(llvm_device, 0)
    main = threading.main_thread().ident
    assert main is not None
    sent = []

    def send() -> None:
        sent.append(time.monotonic())
        signal.pthread_kill(main, signal.SIGINT)

    timer = threading.Timer(0.3, send)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        llvm_device.launch(program, [x, y])
    assert time.monotonic() - sent[0] < 5
    short = llvm_device.compile(add(1))
    llvm_device.launch(short, [x, y])
    assert values(y) == {1}


HANDLER = """
import os, signal, threading
import numpy as np, zyx
w = zyx.rand(200, 200, device="c").realize()
count, handled = 0, threading.Event()
def save(*_):
    global count
    got = (w * 1.0 + 3.0).numpy()
    assert 3 <= got.min() and got.max() <= 4, got
    count += 1
    handled.set()
signal.signal(signal.SIGUSR1, save)
def step(): w.assign(0.9 * (w @ w).tanh()); w.realize()
step(); save()
def send():
    for _ in range(30):
        handled.clear()
        os.kill(os.getpid(), signal.SIGUSR1)
        assert handled.wait(30)
        threading.Event().wait(0.002)
sender = threading.Thread(target=send)
sender.start()
while sender.is_alive(): step()
assert count == 31, count
print("done")
"""


@needs_signals
def test_a_handler_computes_while_a_program_does() -> None:
    result = subprocess.run([sys.executable, "-c", HANDLER], capture_output=True, text=True, timeout=60, check=False)
    assert (result.stdout.strip(), result.returncode) == ("done", 0), result.stderr
