"""The device: launches, arguments, captured sequences, and what it refuses."""

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.backend import Event, Launch, Program, Slot, SupportsCapture, SupportsTiming
from zyx.builtin.host import HostBuffer, HostPool
from zyx.errors import CompileError, InvalidEventError, LaunchError, UnsupportedError
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.kernel.data import Axis, Kernel, Memory
from zyx.ops import BinaryOp, UnaryOp
from zyx_backend_c.device import CpuDevice

COUNT = 32


def scale_and_add() -> Kernel:
    """``y = factor * x + y``."""
    b = Builder()
    x = b.define(Memory.GLOBAL, dtypes.float32, COUNT, mutable=False)
    y = b.define(Memory.GLOBAL, dtypes.float32, COUNT)
    factor = b.add(k.Variable(k.Type(dtypes.float32), "factor"))
    at = b.binary(BinaryOp.MUL, b.index(Axis.GROUP, 0, 4), b.const(8, dtypes.int64))
    b.store(y, at, b.mad(b.splat(factor, 8), b.load(x, at, 8), b.load(y, at, 8)))
    return b.finish("scale_and_add")


def add_one() -> Kernel:
    """``y = x + 1``."""
    b = Builder()
    x = b.define(Memory.GLOBAL, dtypes.float32, COUNT, mutable=False)
    y = b.define(Memory.GLOBAL, dtypes.float32, COUNT)
    at = b.binary(BinaryOp.MUL, b.index(Axis.GROUP, 0, 4), b.const(8, dtypes.int64))
    b.store(y, at, b.binary(BinaryOp.ADD, b.load(x, at, 8), b.const(1.0, dtypes.float32, 8)))
    return b.finish("add_one")


def buffer_of(device: CpuDevice, value: float, count: int = COUNT) -> HostBuffer:
    buffer, event = device.memory_pool.allocate(4 * count)
    device.memory_pool.release_events([event])
    floats(buffer)[:] = value
    return buffer


def floats(buffer: HostBuffer) -> np.ndarray:
    return buffer.array.view(np.float32)


def test_a_launch_runs_the_kernel_and_gives_an_event_that_is_complete(device: CpuDevice) -> None:
    program = device.compile(scale_and_add())
    x, y = buffer_of(device, 3.0), buffer_of(device, 1.0)
    event = device.launch(program, [x, y, 2.0], [device.memory_pool.completed()])
    assert (floats(y) == 7.0).all()
    device.memory_pool.sync_events([event])


def test_other_arguments_reach_the_kernel_at_the_next_launch(device: CpuDevice) -> None:
    program = device.compile(scale_and_add())
    x, y, z = buffer_of(device, 1.0), buffer_of(device, 0.0), buffer_of(device, 0.0)
    for target, factor in ((y, 1.0), (y, 2.0), (z, 5.0), (y, 0.25)):
        device.launch(program, [x, target, factor])
    assert (floats(y) == 3.25).all()
    assert (floats(z) == 5.0).all()


def test_an_event_is_used_up_by_a_launch_that_fails(device: CpuDevice) -> None:
    program = device.compile(add_one())
    event = device.memory_pool.completed()
    with pytest.raises(LaunchError):
        device.launch(program, [], [event])
    with pytest.raises(InvalidEventError):
        device.launch(program, [], [event])


def test_arguments_that_do_not_fit_are_refused_by_name_and_number(device: CpuDevice) -> None:
    program = device.compile(scale_and_add())
    x, y = buffer_of(device, 1.0), buffer_of(device, 1.0)
    small, stranger = buffer_of(device, 1.0, 16), HostPool("other", 1 << 20).allocate(4 * COUNT)[0]
    dead = buffer_of(device, 1.0)
    device.memory_pool.deallocate(dead)
    for args, text in (
        ([x, y], "scale_and_add takes 3 arguments"),
        ([x, y, 1.0, 2.0], "scale_and_add takes 3 arguments"),
        ([x, 1.0, 1.0], "scale_and_add takes 3 arguments"),
        ([x, y, "one"], "scale_and_add takes 3 arguments"),
        ([x, small, 1.0], "argument 1 of scale_and_add has 64 bytes; the kernel reaches 128"),
        ([stranger, y, 1.0], "argument 0 of scale_and_add is not a buffer of pool host"),
        ([dead, y, 1.0], "argument 0 of scale_and_add was freed before"),
    ):
        with pytest.raises(LaunchError, match=text):
            device.launch(program, args)
    device.launch(program, [x, y, 1.0])
    assert (floats(y) == 2.0).all()


def test_a_buffer_freed_after_a_launch_is_noticed_at_the_next(device: CpuDevice) -> None:
    program = device.compile(add_one())
    x, y = buffer_of(device, 1.0), buffer_of(device, 1.0)
    device.launch(program, [x, y])
    device.memory_pool.deallocate(y)
    with pytest.raises(LaunchError, match="argument 1 of add_one was freed before"):
        device.launch(program, [x, y])


def test_a_captured_sequence_is_one_native_call(device: CpuDevice) -> None:
    assert isinstance(device, SupportsCapture)
    first, second = device.compile(add_one()), device.compile(scale_and_add())
    inside = buffer_of(device, 0.0)
    launches = [
        Launch(first, (Slot(0), inside)),
        Launch(second, (inside, Slot(1), 10.0)),
        Launch(second, (Slot(0), Slot(1), 1.0)),
    ]
    program = device.capture(launches, 2)
    device.release(first)  # a sequence keeps what it needs
    x, y, z = buffer_of(device, 1.0), buffer_of(device, 0.0), buffer_of(device, 5.0)
    before = device.workers.counters
    device.launch(program, [x, y])
    after = device.workers.counters
    assert (after.calls - before.calls, after.steps - before.steps) == (1, 3)
    assert (floats(y) == 21.0).all()
    device.launch(program, [x, z])
    assert (floats(z) == 26.0).all()
    assert (floats(y) == 21.0).all()


def test_a_captured_sequence_takes_numbers(device: CpuDevice) -> None:
    program = device.compile(scale_and_add())
    launches = [Launch(program, (Slot(0), Slot(1), Slot(2))), Launch(program, (Slot(1), Slot(0), Slot(3)))]
    once = device.capture(launches, 4)
    twice = device.capture(
        [Launch(once, (Slot(0), Slot(1), Slot(2), 1.0)), Launch(once, (Slot(0), Slot(1), 0.5, Slot(2)))], 3
    )
    for numbers in ((2.0, 3.0), (2.0, -0.5), (-1.5, 0.25)):
        x, y = buffer_of(device, 1.0), buffer_of(device, 10.0)
        device.launch(once, [x, y, *numbers])
        wanted_y = 10.0 + numbers[0]
        wanted_x = 1.0 + wanted_y * numbers[1]
        assert ((floats(y) == wanted_y) & (floats(x) == wanted_x)).all()
        device.launch(twice, [x, y, numbers[0]])
        wanted_y += wanted_x * numbers[0]
        wanted_x += wanted_y
        wanted_y += wanted_x * 0.5
        wanted_x += wanted_y * numbers[0]
        np.testing.assert_allclose((floats(x)[0], floats(y)[0]), (wanted_x, wanted_y), rtol=1e-6)
    with pytest.raises(LaunchError, match=r"takes 4 arguments: .*, a number, a number"):
        device.launch(once, [x, y, 1.0, "many"])


def test_sequences_can_be_captured_again(device: CpuDevice) -> None:
    program = device.compile(add_one())
    middle = buffer_of(device, 0.0)
    twice = device.capture([Launch(program, (Slot(0), middle)), Launch(program, (middle, Slot(1)))], 2)
    other = buffer_of(device, 0.0)
    four_times = device.capture([Launch(twice, (Slot(1), other)), Launch(twice, (other, Slot(0)))], 2)
    x, y = buffer_of(device, 0.5), buffer_of(device, 0.0)
    device.launch(four_times, [y, x])
    assert (floats(y) == 4.5).all()
    assert four_times.count == 4


def test_a_captured_sequence_may_be_empty_or_leave_slots_unused(device: CpuDevice) -> None:
    device.launch(device.capture([], 0), [])
    program = device.compile(add_one())
    captured = device.capture([Launch(program, (Slot(2), Slot(0)))], 3)
    x, y, z = (buffer_of(device, 1.0) for _ in range(3))
    device.launch(captured, [x, y, z])
    assert (floats(x) == 2.0).all()


def test_captures_check_their_arguments(device: CpuDevice) -> None:
    program, scalars = device.compile(add_one()), device.compile(scale_and_add())
    x = buffer_of(device, 1.0)
    small = buffer_of(device, 1.0, 4)
    for launch, text in (
        (Launch(program, (x,)), "was given 1 arguments; it takes 2"),
        (Launch(program, (x, Slot(1))), "argument 1 of add_one is slot 1; there are 1 slots"),
        (Launch(program, (x, small)), "argument 1 of add_one has 16 bytes; the kernel reaches 128"),
        (Launch(program, (x, 1.0)), "argument 1 of add_one is 1.0, not a buffer"),
        (
            Launch(scalars, (x, Slot(0), Slot(0))),
            "argument 2 .* is slot 0, which cannot stand for buffers and float32s",
        ),
        (Launch(scalars, (x, x, x)), "argument 2 of scale_and_add is .*, not a number"),
    ):
        with pytest.raises(LaunchError, match=text):
            device.capture([launch], 1)
    captured = device.capture([Launch(program, (x, Slot(0)))], 1)
    with pytest.raises(LaunchError, match="has 16 bytes; the kernel reaches 128"):
        device.launch(captured, [small])


def test_a_program_that_was_released_is_refused(device: CpuDevice) -> None:
    program = device.compile(add_one())
    device.release(program)
    x, y = buffer_of(device, 1.0), buffer_of(device, 1.0)
    with pytest.raises(LaunchError, match="add_one was released before"):
        device.launch(program, [x, y])
    with pytest.raises(LaunchError, match="add_one was released before"):
        device.capture([Launch(program, (x, y))], 0)


def test_a_program_of_another_device_is_refused(device: CpuDevice) -> None:
    with pytest.raises(LaunchError, match="stranger is a program of another device"):
        device.launch(Program("stranger"), [])


def test_launches_can_be_timed(device: CpuDevice) -> None:
    assert isinstance(device, SupportsTiming)
    program = device.compile(add_one())
    seconds = device.timed_launch(program, [buffer_of(device, 1.0), buffer_of(device, 1.0)])
    assert 0 < seconds < 1


def test_what_a_group_of_one_thread_cannot_do_is_refused(device: CpuDevice) -> None:
    b = Builder()
    y = b.define(Memory.GLOBAL, dtypes.int64, 64)
    b.store(y, b.index(Axis.LOCAL, 0, 64), b.const(1, dtypes.int64))
    with pytest.raises(
        UnsupportedError, match="kernel wide: 64 threads a group along axis 0; on this device a group has 1"
    ):
        device.compile(b.finish("wide"))
    b = Builder()
    fragment = b.const(0.0, dtypes.float16, 4)
    b.add(k.Wmma((16, 8, 8), fragment, fragment, fragment, k.Type(dtypes.float32, 4)))
    with pytest.raises(UnsupportedError, match="kernel warp: Wmma needs a warp"):
        device.compile(b.finish("warp"))


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float16], ids=str)
def test_operations_that_are_not_claimed_are_refused_with_kernel_and_operation(
    device: CpuDevice, dtype: dtypes.DType
) -> None:
    b = Builder()
    b.unary(UnaryOp.SIN, b.const(1.0, dtype))
    with pytest.raises(UnsupportedError, match=r"kernel wave, operation %1: .*no native form of sin of"):
        device.compile(b.finish("wave"))


def test_odd_numbers_of_lanes_are_refused(device: CpuDevice) -> None:
    b = Builder()
    b.unary(UnaryOp.NEG, b.const(1.0, dtypes.float32, 3))
    with pytest.raises(UnsupportedError, match="kernel odd, operation %"):
        device.compile(b.finish("odd"))


def test_code_that_the_compiler_refuses_is_a_compile_error_with_its_log(device: CpuDevice) -> None:
    with pytest.raises(CompileError, match=r"(?s)kernel broken.*nonsense"):
        device.toolchain.build("broken", "this is nonsense")


def test_source_and_assembly_can_be_read(device: CpuDevice) -> None:
    program = device.compile(add_one())
    assert "zyx_kernel" in program.source
    assert "zyx_kernel:" in program.assembly()


def test_a_closed_device_launches_nothing(devices: dict[str, CpuDevice]) -> None:
    from zyx_backend_c.start import make_device

    llvm = devices["llvm"]
    second = make_device(5, llvm.memory_pool, llvm.toolchain, llvm.toolchain, llvm.workers)
    program = second.compile(add_one())
    x, y = buffer_of(second, 1.0), buffer_of(second, 1.0)
    second.close()
    with pytest.raises(LaunchError, match="add_one was launched on c:5, which is closed"):
        second.launch(program, [x, y])
    llvm.launch(program, [x, y])  # the workers are still there for the other device
    assert (floats(y) == 2.0).all()


def test_an_event_of_another_pool_is_refused_and_used_up(device: CpuDevice) -> None:
    program = device.compile(add_one())
    event = Event()
    x, y = buffer_of(device, 1.0), buffer_of(device, 0.0)
    with pytest.raises(InvalidEventError, match="an event of another pool"):
        device.launch(program, [x, y], [event])
    assert (floats(y) == 0.0).all()
    with pytest.raises(InvalidEventError):
        event.take()
