"""The fake libraries notice what a program must not do: so where they notice nothing, nothing of it was done."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import numpy as np
import pytest
from fake_hip import COUNT, values

from zyx_backend_hip.driver import Arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fake_hip import Fake

    from zyx.kernel.data import Kernel
    from zyx_backend_hip.device import HipDevice
    from zyx_backend_hip.memory import HipBuffer, HipPool
    from zyx_backend_hip.program import KernelProgram

NBYTES = 4 * COUNT


@pytest.fixture
def program(device: HipDevice, add: Callable[..., Kernel]) -> KernelProgram:
    return device.compile(add(1))


@pytest.fixture
def refused(fake: Fake, pool: HipPool) -> Iterator[Callable[[int, str], None]]:
    """``refused(code, text)``: a call failed, and the fake has noted why. The device of this test is selected."""

    def check(code: int, text: str) -> None:
        assert code
        noted = fake.violations()
        assert text in noted, noted

    with pool.session.selected():
        yield check


def launch(program: KernelProgram, pool: HipPool, address: int, grid: tuple[int, ...] = (COUNT, 1, 1, 1, 1, 1)) -> int:
    """Launch a kernel with nothing between it and the library; return the code."""
    arguments = Arguments(1)
    arguments.set([address])
    session = pool.session
    return session.runtime.native.hipModuleLaunchKernel(
        program._function, *grid, 0, session.launches, arguments.pointers, None
    )


def test_work_that_does_not_wait_for_what_it_needs_computes_something_else(
    device: HipDevice, pool: HipPool, program: KernelProgram, integers: Callable[[int], HipBuffer]
):
    buffer = integers(1)
    uploaded = pool.host_to_pool(memoryview(np.full(COUNT, 10, np.int32)).cast("B"), buffer)
    launched = device.launch(program, [buffer])  # and not behind the upload
    pool.sync_events([launched])
    pool.sync_events([uploaded])
    assert values(buffer) == {10}


def test_what_a_kernel_is_given_is_memory_of_its_device(
    pool: HipPool, program: KernelProgram, refused: Callable[[int, str], None], fake: Fake
):
    assert launch(program, pool, 12345) == 0  # as in AMD's library, which does not look
    refused(1, "hipModuleLaunchKernel: argument 0 is no memory of device 0")
    assert pool.session.runtime.native.hipStreamSynchronize(pool.session.launches) == 700
    refused(1, "a kernel: argument 0 is no memory of its device")
    fake.recover()


@pytest.mark.parametrize(
    ("grid", "text"),
    [((0, 1, 1, 1, 1, 1), "groups 0 1 1"), ((1, 1, 1, 2, 1, 1), "2 threads"), ((1 << 22, 1, 1, 1024, 1, 1), "groups")],
    ids=["no groups", "another group", "too many threads"],
)
def test_a_grid_is_one_that_the_kernel_was_compiled_for(
    grid: tuple[int, ...],
    text: str,
    pool: HipPool,
    program: KernelProgram,
    integers: Callable[[int], HipBuffer],
    refused: Callable[[int, str], None],
):
    refused(launch(program, pool, integers(0).memory, grid), f"hipModuleLaunchKernel: {text}")


def test_the_device_of_a_stream_is_selected(
    pool: HipPool,
    program: KernelProgram,
    integers: Callable[[int], HipBuffer],
    refused: Callable[[int, str], None],
    fake: Fake,
):
    address = integers(0).memory
    fake.native.hipSetDevice(1)
    refused(launch(program, pool, address), "function, stream and current device are not one")
    fake.native.hipSetDevice(0)


def test_a_code_object_outlives_what_is_queued_of_it(
    pool: HipPool, program: KernelProgram, integers: Callable[[int], HipBuffer], refused: Callable[[int, str], None]
):
    assert launch(program, pool, integers(0).memory) == 0
    native, session = pool.session.runtime.native, pool.session
    refused(native.hipModuleUnload(program._module.handle), "hipModuleUnload: queued work needs it")
    native.hipStreamSynchronize(session.launches)


def test_writing_outside_of_memory_is_noticed_when_it_is_freed(
    pool: HipPool, program: KernelProgram, refused: Callable[[int, str], None]
):
    native, memory = pool.session.runtime.native, ctypes.c_void_p()
    assert native.hipMalloc(ctypes.byref(memory), NBYTES - 4) == 0
    assert launch(program, pool, memory.value or 0) == 0
    assert native.hipFree(memory.value) == 0  # which waits
    refused(1, f"hipFree: something was written outside of {NBYTES - 4} bytes")


def test_memory_is_freed_once_and_by_its_start(
    pool: HipPool, integers: Callable[[int], HipBuffer], refused: Callable[[int, str], None]
):
    native, memory = pool.session.runtime.native, ctypes.c_void_p()
    refused(native.hipFree(integers(0).memory + 4), "hipFree: ")
    assert native.hipMalloc(ctypes.byref(memory), NBYTES) == 0
    assert native.hipFree(memory.value) == 0
    refused(native.hipFree(memory.value), "is no memory of device 0")


def test_a_copy_stays_inside_of_memory(
    pool: HipPool, integers: Callable[[int], HipBuffer], refused: Callable[[int, str], None]
):
    native, buffer, host = pool.session.runtime.native, integers(0), (ctypes.c_char * 2 * NBYTES)()
    for function, arguments in (
        ("hipMemcpyHtoDAsync", (buffer.memory, host)), ("hipMemcpyDtoHAsync", (host, buffer.memory))
    ):  # fmt: skip
        code = getattr(native, function)(*arguments, 1 << 29, pool.session.transfers)
        refused(code, f"{function}: ")


def test_streams_and_events_that_are_gone_or_never_were_recorded_are_noticed(
    pool: HipPool, refused: Callable[[int, str], None]
):
    native, event = pool.session.runtime.native, ctypes.c_void_p()
    assert native.hipEventCreateWithFlags(ctypes.byref(event), 2) == 0
    refused(native.hipStreamWaitEvent(pool.session.launches, event, 0), "the event was never recorded")
    assert native.hipEventRecord(event, pool.session.launches) == 0
    refused(native.hipEventDestroy(event), "hipEventDestroy: queued work needs it")
    native.hipStreamSynchronize(pool.session.launches)
    assert native.hipEventDestroy(event) == 0
    refused(native.hipEventQuery(event), "hipEventQuery: no event")
    refused(native.hipStreamSynchronize(event), "hipStreamSynchronize: no stream")


def test_a_stream_that_is_recorded_takes_no_copies_and_is_not_waited_for(
    pool: HipPool, integers: Callable[[int], HipBuffer], refused: Callable[[int, str], None]
):
    native, stream, graph = pool.session.runtime.native, pool.session.recording, ctypes.c_void_p()
    assert native.hipStreamBeginCapture(stream, 1) == 0
    refused(native.hipStreamSynchronize(stream), "while capturing")
    code = native.hipMemcpyHtoDAsync(integers(0).memory, b"12345678", 8, stream)
    refused(code, "hipMemcpyHtoDAsync: while capturing")
    assert native.hipStreamEndCapture(stream, ctypes.byref(graph)) == 0
    assert native.hipGraphDestroy(graph) == 0
    refused(native.hipGraphDestroy(graph), "hipGraphDestroy: no graph")
