"""The device that runs kernels by the interpreter."""

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.backend import Launch, Slot, SupportsCapture
from zyx.builtin.dummy import DummyPool
from zyx.builtin.host import HostBuffer, HostPool
from zyx.builtin.interpreter import InterpreterDevice
from zyx.errors import InitializationError, LaunchError, UnsupportedError
from zyx.kernel.data import Axis, Binary, Const, Define, Index, Kernel, Load, Memory, Store, Type, Variable
from zyx.ops import BinaryOp

F32, I32 = Type(dtypes.float32), Type(dtypes.int32)


@pytest.fixture
def device() -> InterpreterDevice:
    return InterpreterDevice("interpreter:0", HostPool(capacity_bytes=1 << 20))


def scale(length: int, threads: int = 1) -> Kernel:
    """``y[i] = x[i] * factor`` for i < length, in groups of one thread or one group of many."""
    return Kernel(
        "scale",
        (
            Define(Memory.GLOBAL, dtypes.float32, length, mutable=False),
            Define(Memory.GLOBAL, dtypes.float32, length),
            Variable(F32, "factor"),
            Index(Axis.GROUP if threads == 1 else Axis.LOCAL, 0, length if threads == 1 else threads, I32),
            Load(0, 3, F32),
            Binary(BinaryOp.MUL, 4, 2, F32),
            Store(1, 3, 5),
        ),
    )


def buffer_of(device: InterpreterDevice, values: list[float]) -> HostBuffer:
    data = np.array(values, np.float32)
    buffer, event = device.memory_pool.allocate(data.nbytes)
    device.memory_pool.sync_events([device.memory_pool.host_to_pool(memoryview(data), buffer, [event])])
    assert isinstance(buffer, HostBuffer)
    return buffer


def values_of(buffer: HostBuffer) -> list[float]:
    return buffer.array.view(np.float32).tolist()


@pytest.mark.parametrize("threads", [1, 3])
def test_a_launch_computes(device: InterpreterDevice, threads: int) -> None:
    program = device.compile(scale(3, threads))
    x, y = buffer_of(device, [1, 2, 3]), buffer_of(device, [0, 0, 0])
    device.memory_pool.sync_events([device.launch(program, [x, y, 0.5])])
    assert values_of(y) == [0.5, 1.0, 1.5]
    device.release(program)


def test_a_captured_sequence_runs_in_order_with_the_buffers_given_at_its_launch(device: InterpreterDevice) -> None:
    assert isinstance(device, SupportsCapture)
    program = device.compile(scale(2))
    middle, out = buffer_of(device, [0, 0]), buffer_of(device, [0, 0])
    captured = device.capture([Launch(program, (Slot(0), middle, 2.0)), Launch(program, (middle, Slot(1), 5.0))], 2)
    for values in ([1, 2], [3, 4]):
        device.memory_pool.sync_events([device.launch(captured, [buffer_of(device, values), out])])
        assert values_of(out) == [10 * value for value in values]
    with pytest.raises(LaunchError, match="1 buffers for 2 free places"):
        device.launch(captured, [out])


def test_arguments_that_do_not_fit_are_refused_with_kernel_and_device(device: InterpreterDevice) -> None:
    program = device.compile(scale(3))
    x, small = buffer_of(device, [1, 2, 3]), buffer_of(device, [0])
    for args in ([x, x], [x, small, 1.0], [x, x, x], [1.0, x, 1.0], [x, x, 1.0, x]):
        with pytest.raises(LaunchError, match="kernel scale on device interpreter:0"):
            device.launch(program, args)
    stranger, _ = DummyPool("dummy:0").allocate(12)
    with pytest.raises(LaunchError, match="a buffer of pool dummy:0 was given to pool host"):
        device.launch(program, [stranger, x, 1.0])


def test_a_kernel_beyond_its_limits_is_refused_with_kernel_and_limit(device: InterpreterDevice) -> None:
    with pytest.raises(UnsupportedError, match="kernel scale: 1025 threads a group; device interpreter:0 takes 1024"):
        device.compile(scale(1025, 1025))
    wide = Kernel("wide", (Define(Memory.LOCAL, dtypes.float64, 1 << 18), Const(0, I32)))
    with pytest.raises(UnsupportedError, match="kernel wide: 2097152 bytes of local memory"):
        device.compile(wide)


def test_it_works_on_host_memory_only() -> None:
    with pytest.raises(InitializationError, match="not on pool dummy:0"):
        InterpreterDevice("interpreter:0", DummyPool("dummy:0"))


def test_it_claims_every_dtype_and_no_vectors(device: InterpreterDevice) -> None:
    for dtype in dtypes.ALL:
        assert device.info.can_compute(dtype)
        assert device.info.lanes(dtype) == 1
