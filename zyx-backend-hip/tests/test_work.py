"""The host side on the fake libraries: order, ownership, counts of calls, caches, failures, several devices."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import pytest
from every_driver.refusals import *  # noqa: F403
from fake_hip import COUNT, values

from zyx.backend import Launch, Slot
from zyx.drivers.faults import Cause
from zyx.errors import AllocationError, CompileError, DeviceLostError, LaunchError, TransferError
from zyx_backend_hip.errors import CODES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from fake_hip import Fake

    from zyx.kernel.data import Kernel
    from zyx.runtime.runtime import Runtime
    from zyx_backend_hip.device import HipDevice
    from zyx_backend_hip.memory import HipBuffer, HipPool

ILLEGAL_ADDRESS, OUT_OF_MEMORY, INVALID_VALUE, CAPTURE_UNSUPPORTED = 700, 2, 1, 900

#: Calls that make something that should be there when a program is launched.
MAKING = ("hiprtcCreateProgram", "hipModuleLoadData", "hipModuleGetFunction", "hipMalloc", "hipStreamCreateWithFlags")


def test_work_waits_for_what_it_is_told_to_across_both_streams(
    device: HipDevice, pool: HipPool, add: Callable[..., Kernel]
):
    program = device.compile(add(1))
    buffer, event = pool.allocate(4 * COUNT)
    for value in (10, 20, 30):  # each upload must come before the launch, and the next one after it
        data = np.full(COUNT, value, np.int32)
        event = device.launch(program, [buffer], [pool.host_to_pool(memoryview(data).cast("B"), buffer, [event])])
    assert values(buffer, (event,)) == {31}


def test_a_launch_makes_nothing_and_is_one_call(
    device: HipDevice, pool: HipPool, fake: Fake, add: Callable[..., Kernel], integers: Callable[[int], HipBuffer]
):
    program, buffer = device.compile(add(1)), integers(0)
    pool.sync_events([device.launch(program, [buffer])])
    before = {name: fake.count(name) for name in (*MAKING, "hipEventCreateWithFlags")}
    launches = fake.count("hipModuleLaunchKernel")
    for _ in range(5):
        pool.sync_events([device.launch(program, [buffer])])
    assert {name: fake.count(name) for name in before} == before
    assert fake.count("hipModuleLaunchKernel") == launches + 5
    assert values(buffer) == {6}


def test_a_sequence_is_one_submission_from_the_second_launch_on(
    device: HipDevice, pool: HipPool, fake: Fake, add: Callable[..., Kernel], integers: Callable[[int], HipBuffer]
):
    programs, first, second = [device.compile(add(1)), device.compile(add(10))], integers(0), integers(100)
    sequence = device.capture([Launch(programs[0], (Slot(0),)), Launch(programs[1], (Slot(0),))] * 3, 1)
    before = fake.count("hipGraphLaunch")
    for _ in range(2):
        pool.sync_events([device.launch(sequence, [first])])
    launches, played = fake.count("hipModuleLaunchKernel"), fake.count("hipGraphLaunch")
    assert played == before + 1
    for _ in range(4):
        pool.sync_events([device.launch(sequence, [first])])
    assert fake.count("hipModuleLaunchKernel") == launches
    assert fake.count("hipGraphLaunch") == played + 4
    pool.sync_events([device.launch(sequence, [second])])  # other buffers: launch by launch at first
    assert (values(first), values(second)) == ({6 * 33}, {133})


def test_a_graph_that_the_driver_cannot_record_is_queued_launch_by_launch(
    device: HipDevice, pool: HipPool, fake: Fake, add: Callable[..., Kernel], integers: Callable[[int], HipBuffer]
):
    program, buffer = device.compile(add(1)), integers(0)
    sequence = device.capture([Launch(program, (Slot(0),))] * 2, 1)
    fake.fail("hipStreamBeginCapture", CAPTURE_UNSUPPORTED)
    for _ in range(3):
        pool.sync_events([device.launch(sequence, [buffer])])
    assert values(buffer) == {6}
    assert fake.count("hipStreamBeginCapture") > 0


def test_graphs_go_before_the_memory_in_them(
    device: HipDevice, pool: HipPool, fake: Fake, add: Callable[..., Kernel], integers: Callable[[int], HipBuffer]
):
    program, buffer = device.compile(add(1)), integers(0)
    sequence = device.capture([Launch(program, (Slot(0),))] * 2, 1)
    graphs = fake.alive()["executable graphs"]
    for _ in range(2):
        pool.sync_events([device.launch(sequence, [buffer])])
    assert fake.alive()["executable graphs"] == graphs + 1
    pool.deallocate(buffer)
    pool.trim()
    assert fake.alive()["executable graphs"] == graphs


def test_memory_is_used_again_after_the_work_that_it_was_given_back_behind(
    device: HipDevice, pool: HipPool, fake: Fake, add: Callable[..., Kernel], integers: Callable[[int], HipBuffer]
):
    buffer = integers(1)
    event, address, made = device.launch(device.compile(add(1)), [buffer]), buffer.memory, fake.count("hipMalloc")
    pool.deallocate(buffer, [event])
    again, event = pool.allocate(4 * COUNT)
    data = np.full(COUNT, 7, np.int32)
    pool.sync_events([pool.host_to_pool(memoryview(data).cast("B"), again, [event])])
    pool.synchronize()
    assert again.memory == address
    assert fake.count("hipMalloc") == made
    assert values(again) == {7}


def test_what_was_compiled_is_kept_on_disk(
    fresh: Callable[..., Runtime],
    fake: Fake,
    tmp_path: Path,
    add: Callable[..., Kernel],
    monkeypatch: pytest.MonkeyPatch,
):
    from zyx.testing.opening import open_runtime

    monkeypatch.setenv("ZYX_CACHE_DIR", str(tmp_path))
    counts = []
    for _ in range(2):
        settings = {"backends": {"hip": fake.section}, "cache": {"enabled": True}}
        runtime = open_runtime("hip", settings=settings)
        before = fake.count("hiprtcCompileProgram")
        runtime.device().compile(add(1234))
        counts.append(fake.count("hiprtcCompileProgram") - before)
        runtime.close()
    assert counts == [1, 0]


def test_a_copy_between_devices_is_direct_and_waits_for_the_other_device(
    fresh: Callable[..., Runtime], fake: Fake, add: Callable[..., Kernel]
):
    runtime = fresh()
    first, second = (runtime.device(name) for name in ("hip:0", "hip:1"))
    source, event = first.memory_pool.allocate(4 * COUNT)
    data = np.full(COUNT, 5, np.int32)
    event = first.memory_pool.host_to_pool(memoryview(data).cast("B"), source, [event])
    event = first.launch(first.compile(add(1)), [source], [event])
    target, ready = second.memory_pool.allocate(4 * COUNT)
    second.memory_pool.sync_events([ready])
    copies, reads = fake.count("hipMemcpyPeerAsync"), fake.count("hipMemcpyDtoHAsync")
    copied = second.memory_pool.pool_to_pool(source, target, [event])
    event = second.launch(second.compile(add(100)), [target], [copied])
    assert fake.count("hipMemcpyPeerAsync") == copies + 1
    assert fake.count("hipMemcpyDtoHAsync") == reads
    assert values(target, (event,)) == {106}


def test_a_copy_from_a_device_that_is_lost_says_which_of_the_two_it_is(
    fresh: Callable[..., Runtime], fake: Fake, add: Callable[..., Kernel]
):
    runtime = fresh()
    first, second = (runtime.device(name) for name in ("hip:0", "hip:1"))
    source, _ = first.memory_pool.allocate(4 * COUNT)
    target, _ = second.memory_pool.allocate(4 * COUNT)
    program = first.compile(add(1, "last"))
    event = first.launch(program, [source])
    fake.lose(ILLEGAL_ADDRESS, 0)
    assert first.memory_pool.work.count == 0  # it was looked at
    with pytest.raises(DeviceLostError, match=r"a copy of .* did not run.*kernel last on hip:0") as lost:
        second.memory_pool.pool_to_pool(source, target, [event])
    assert lost.value.place == "hip:0 memory"
    fake.recover()
    with pytest.raises(DeviceLostError, match=r"kernel last on hip:0") as lost:
        first.memory_pool.synchronize()
    assert lost.value.place == "hip:0 memory"


def test_the_current_device_of_the_thread_stays_what_it_was(fresh: Callable[..., Runtime], fake: Fake):
    import ctypes

    runtime, now = fresh(), ctypes.c_int(-1)
    for wanted in (0, 1):
        fake.native.hipSetDevice(wanted)
        for name in ("hip:0", "hip:1"):
            runtime.device(name).memory_pool.allocate(100)
            fake.native.hipGetDevice(ctypes.byref(now))
            assert now.value == wanted


def test_memory_that_runs_out_is_an_error_with_numbers(pool: HipPool):
    free = pool.free_bytes
    with pytest.raises(AllocationError, match=rf"hip:0 memory has no room for {free + 1} bytes: {free} of"):
        pool.allocate(free + 1)


@pytest.fixture
def refusing(fake: Fake) -> Callable[[str, Cause], AbstractContextManager[str]]:
    codes = {Cause.LOST: ILLEGAL_ADDRESS, Cause.MEMORY: OUT_OF_MEMORY, Cause.REFUSED: INVALID_VALUE}
    functions = {"launch": "hipModuleLaunchKernel", "upload": "hipMemcpyHtoDAsync", "download": "hipMemcpyDtoHAsync"}

    @contextmanager
    def refuse(call: str, cause: Cause) -> Iterator[str]:
        fake.fail(functions[call], codes[cause])
        yield f"{functions[call]}: {CODES.name(codes[cause])}"

    return refuse


@pytest.fixture
def scarce(fake: Fake, pool: HipPool) -> tuple[HipPool, Callable[[int], None]]:
    def refuse(count: int) -> None:
        for _ in range(count):
            fake.fail("hipMalloc", OUT_OF_MEMORY)

    return pool, refuse


def test_a_lost_device_is_named_with_the_work_that_it_was_lost_in(
    device: HipDevice, pool: HipPool, fake: Fake, add: Callable[..., Kernel], integers: Callable[[int], HipBuffer]
):
    first, second, buffer = device.compile(add(1, "first")), device.compile(add(2, "second")), integers(0)
    events = [device.launch(first, [buffer])]
    last = device.launch(second, [buffer])
    fake.lose(ILLEGAL_ADDRESS)
    with pytest.raises(DeviceLostError, match=r"kernel first on hip:0: .*hipErrorIllegalAddress \(700\)") as lost:
        pool.sync_events(events)
    assert lost.value.place == "hip:0 memory"
    with pytest.raises(
        DeviceLostError, match="kernel second on hip:0 did not run, since work before it failed"
    ) as lost:
        pool.sync_events([last])
    assert lost.value.place == "hip:0 memory"
    with pytest.raises(DeviceLostError):
        device.launch(first, [buffer])
    assert pool.work.count == 0


def test_a_failure_whose_event_was_released_is_told_at_the_next_wait_once(
    device: HipDevice, pool: HipPool, fake: Fake, add: Callable[..., Kernel], integers: Callable[[int], HipBuffer]
):
    program, buffer = device.compile(add(1, "lonely")), integers(0)
    pool.release_events([device.launch(program, [buffer])])
    fake.lose(ILLEGAL_ADDRESS)
    with pytest.raises(DeviceLostError, match="lonely"):
        pool.synchronize()
    fake.recover()
    pool.synchronize()


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        ("hipModuleLaunchKernel", LaunchError), ("hipEventRecord", TransferError),
        ("hipMemcpyHtoDAsync", TransferError),
        ("hipMemcpyDtoHAsync", TransferError), ("hipModuleLoadData", CompileError),
        ("hiprtcCompileProgram", CompileError), ("hipModuleGetFunction", CompileError),
    ],
)  # fmt: skip
def test_a_call_that_fails_is_an_error_of_its_kind_and_the_device_goes_on(
    function: str,
    kind: type[Exception],
    device: HipDevice,
    pool: HipPool,
    fake: Fake,
    add: Callable[..., Kernel],
    integers: Callable[[int], HipBuffer],
):
    def use() -> set[int]:
        program, buffer = device.compile(add(3)), integers(1)
        return values(buffer, (device.launch(program, [buffer]),))

    use()
    fake.fail(function, INVALID_VALUE)
    with pytest.raises(kind):
        use()
    assert use() == {4}


def test_a_source_that_is_refused_is_shown_with_the_compilers_log(
    device: HipDevice, add: Callable[..., Kernel], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("zyx_backend_hip.device.render", lambda kernel: "void zyx_kernel( {")
    with pytest.raises(CompileError, match=r"(?s)kernel add_1 on hip:0: hiprtc refused it.*error.*void zyx_kernel"):
        device.compile(add(1))


def test_modules_are_unloaded_with_their_programs_and_not_while_they_run(
    device: HipDevice, pool: HipPool, fake: Fake, add: Callable[..., Kernel], integers: Callable[[int], HipBuffer]
):
    import gc

    buffer, modules = integers(0), fake.alive()["modules"]
    program = device.compile(add(77))
    event = device.launch(program, [buffer])
    device.release(program)
    del program
    gc.collect()
    assert fake.alive()["modules"] == modules + 1  # it is queued
    pool.sync_events([event])
    gc.collect()
    assert fake.alive()["modules"] == modules
    assert values(buffer) == {77}


def test_time_is_measured_by_the_device(
    device: HipDevice, add: Callable[..., Kernel], integers: Callable[[int], HipBuffer], fake: Fake
):
    events = fake.alive()["events"]
    assert device.timed_launch(device.compile(add(1)), [integers(0)]) > 0
    assert fake.alive()["events"] <= events + 1  # that of the upload
