"""Small programs are builtin functions of Python, with their arguments on the stack."""

import contextlib
import sys
import threading

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.errors import LaunchError
from zyx.kernel.build import Builder
from zyx.kernel.data import Axis, Kernel, Memory
from zyx.ops import BinaryOp
from zyx.testing.handlers import at_each_line
from zyx_backend_c.device import CpuDevice

pytestmark = pytest.mark.skipif(sys.implementation.name != "cpython", reason="only CPython has entries")

GROUPS = 16


def plus(*, loop: int = 1) -> Kernel:
    """``y = x + number``, `loop` times."""
    b = Builder()
    x = b.define(Memory.GLOBAL, dtypes.int64, GROUPS, mutable=False)
    y = b.define(Memory.GLOBAL, dtypes.int64, GROUPS)
    number = b.variable(dtypes.int64, "number")
    group = b.index(Axis.GROUP, 0, GROUPS)
    b.loop(loop)
    b.store(y, group, b.binary(BinaryOp.ADD, b.load(x, group), number))
    b.end_loop()
    return b.finish("plus")


def buffer(device: CpuDevice, value: int):
    made, _ = device.memory_pool.allocate(8 * GROUPS)
    made.array.view(np.int64)[:] = value
    return made


def values(of) -> set[int]:
    return set(of.array.view(np.int64).tolist())


@pytest.mark.parametrize("loop", [1, 100], ids=["with the interpreter's lock", "without"])
@pytest.mark.parametrize("number", [0, 1, -1, 2**62, -(2**63)])
def test_it_is_given_buffers_and_numbers(llvm_device: CpuDevice, loop: int, number: int) -> None:
    program = llvm_device.compile(plus(loop=loop))
    assert program.entry is not None
    x, y = buffer(llvm_device, 5), buffer(llvm_device, 0)
    calls = llvm_device.workers.counters.calls
    llvm_device.launch(program, [x, y, number])
    assert values(y) == {5 + number}
    assert llvm_device.workers.counters.calls == calls + 1


def test_what_does_not_fit_is_refused_and_nothing_runs(llvm_device: CpuDevice) -> None:
    program = llvm_device.compile(plus())
    x, y = buffer(llvm_device, 5), buffer(llvm_device, 7)
    small, _ = llvm_device.memory_pool.allocate(8)
    gone = buffer(llvm_device, 1)
    llvm_device.memory_pool.deallocate(gone)
    for args in (
        [x, y],
        [x, y, 1, 2],
        [x, 3, 1],
        [x, None, 1],
        [x, small, 1],
        [gone, y, 1],
        [x, y, x],
        [x, y, float("nan")],
    ):
        with pytest.raises(LaunchError, match="plus"):
            llvm_device.launch(program, args)
    assert values(y) == {7}


def test_a_handler_may_launch_the_same_program_at_any_line_of_a_launch(llvm_device: CpuDevice) -> None:
    program = llvm_device.compile(plus())
    x, y, u, v = (buffer(llvm_device, value) for value in (1, 0, 100, 0))

    def launch() -> None:
        y.array[:] = 0
        llvm_device.launch(program, [x, y, 1])
        assert values(y) == {2}

    def handler() -> None:
        v.array[:] = 0
        llvm_device.launch(program, [u, v, 3])
        assert values(v) == {103}

    assert at_each_line(launch, handler, "zyx_backend_c") > 5


def test_after_an_exception_at_any_line_of_a_launch_the_next_is_right(llvm_device: CpuDevice) -> None:
    program = llvm_device.compile(plus())
    x, y = buffer(llvm_device, 1), buffer(llvm_device, 0)

    def launch() -> None:
        with contextlib.suppress(KeyboardInterrupt):
            llvm_device.launch(program, [x, y, 1])
        sys.settrace(None)
        y.array[:] = 0
        llvm_device.launch(program, [x, y, 2])
        assert values(y) == {3}

    def handler() -> None:
        raise KeyboardInterrupt

    assert at_each_line(launch, handler, "zyx_backend_c") > 5


def test_threads_launch_one_program_at_once(llvm_device: CpuDevice) -> None:
    program = llvm_device.compile(plus(loop=100))
    wrong = []

    def work(start: int) -> None:
        x, y = buffer(llvm_device, start), buffer(llvm_device, 0)
        for number in range(300):
            llvm_device.launch(program, [x, y, number])
            if values(y) != {start + number}:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(1000 * index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
