"""Asynchronous work: order by events, what stays alive, and failures that surface at the next wait."""

from __future__ import annotations

import gc
import time
import weakref
from typing import TYPE_CHECKING

import numpy as np
import pyopencl as cl
import pytest
from probe_gates import what_is_wrong

from zyx.drivers.work_event import WorkEvent
from zyx.errors import DeviceLostError, InvalidEventError, LaunchError
from zyx_backend_opencl.work import Command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zyx.backend import Event
    from zyx.kernel.data import Kernel
    from zyx.runtime.runtime import Runtime
    from zyx_backend_opencl.device import ClDevice
    from zyx_backend_opencl.memory import ClBuffer, ClPool
    from zyx_backend_opencl.program import ClProgram

    Make = Callable[[int], ClBuffer]
    Read = Callable[[ClBuffer], set[int]]

OUT_OF_RESOURCES = -5


class Gate:
    """An event that the test completes, or lets fail: what is behind it can be looked at before it runs."""

    def __init__(self, pool: ClPool) -> None:
        self._native = cl.UserEvent(pool.session._context)
        self.is_used = False
        self.event = WorkEvent(pool, [pool.work.add(self._native, "the gate")])

    def open(self) -> None:
        self._end(cl.command_execution_status.COMPLETE)

    def fail(self) -> None:
        self._end(OUT_OF_RESOURCES)

    def _end(self, status: int) -> None:
        if not self.is_used:
            self.is_used = True
            self._native.set_status(status)


@pytest.fixture
def gate(pool: ClPool) -> Iterator[Gate]:
    gate = Gate(pool)
    yield gate
    gate.open()  # else a test that fails before would never end


def skip_unless_sound(device: ClDevice, *, at_once: bool) -> None:
    session = device.pool.session
    listed = session.device
    wrong = what_is_wrong(listed.platform, listed.name, out_of_order=session.is_out_of_order, at_once=at_once)
    if wrong:
        pytest.skip(f"where an event of the user's fails, {listed.platform} goes on wrongly: {wrong}")


@pytest.fixture(scope="session")
def failing_gates(device: ClDevice) -> None:
    """For tests that let a gate fail. `test_failures` has the same with a stand-in for the driver."""
    skip_unless_sound(device, at_once=False)


@pytest.fixture(scope="session")
def failing_gates_at_once(device: ClDevice, failing_gates: None) -> None:
    """For tests that launch something else before they look what became of the work behind the gate."""
    del failing_gates
    skip_unless_sound(device, at_once=True)


@pytest.fixture
def increment(device: ClDevice, add: Callable[..., Kernel]) -> Iterator[ClProgram]:
    program = device.compile(add(1, "increment"))
    yield program
    device.release(program)


def is_running(pool: ClPool, event: Event) -> bool:
    assert isinstance(event, WorkEvent)
    return any(pool.session.status(command.native) > 0 for command in event.work)


def test_a_launch_returns_before_it_runs_and_runs_when_its_events_are_complete(
    device: ClDevice, pool: ClPool, increment: ClProgram, integers: Make, values: Read, gate: Gate
):
    buffer = integers(5)
    event = device.launch(increment, [buffer], [gate.event])
    assert not event.complete_when_made
    assert is_running(pool, event)
    assert pool.work.count == 2
    assert device.free_compute == device.info.flops_per_s / 3
    gate.open()
    pool.sync_events([event])
    assert values(buffer) == {6}
    assert pool.work.count == 0
    assert device.free_compute == device.info.flops_per_s
    pool.deallocate(buffer)


def test_work_waits_for_its_events_and_for_nothing_else(
    device: ClDevice, pool: ClPool, increment: ClProgram, integers: Make, values: Read, gate: Gate
):
    first, second = integers(0), integers(10)
    held = device.launch(increment, [first], [gate.event])
    behind = device.launch(increment, [first], [held])
    if pool.session.is_out_of_order:  # other queues keep the order of launches
        passing = device.launch(increment, [second])
        deadline = time.monotonic() + 5
        while is_running(pool, passing) and time.monotonic() < deadline:
            time.sleep(0.01)
        if is_running(pool, passing):  # as the standard allows
            pytest.skip(f"{device.info.model} keeps the order of launches also in a queue that need not")
        pool.sync_events([passing])
    assert values(second) <= {10, 11}  # transfers pass by in any case
    assert is_running(pool, behind)
    gate.open()
    pool.sync_events([behind])
    assert values(first) == {2}
    for buffer in (first, second):
        pool.deallocate(buffer)


def test_an_upload_waits_for_its_events_and_keeps_its_source_alive_until_then(
    pool: ClPool, integers: Make, values: Read, gate: Gate
):
    class Source(np.ndarray):
        """An array that can be watched."""

    buffer = integers(1)
    source = np.full(buffer.nbytes // 4, 9, np.int32).view(Source)
    alive = weakref.ref(source)
    event = pool.host_to_pool(memoryview(source).cast("B"), buffer, [gate.event])
    del source
    gc.collect()
    assert alive() is not None
    gate.open()
    pool.sync_events([event])
    assert values(buffer) == {9}
    del event
    pool.synchronize()
    gc.collect()
    assert alive() is None
    pool.deallocate(buffer)


def test_a_buffer_that_is_given_back_early_is_used_again_behind_its_last_work(
    device: ClDevice, pool: ClPool, increment: ClProgram, integers: Make, values: Read, gate: Gate
):
    buffer = integers(1)
    pool.trim()
    memory = buffer.memory
    pool.deallocate(buffer, [device.launch(increment, [buffer], [gate.event])])
    again, ready = pool.allocate(buffer.nbytes)
    assert again.memory is memory
    assert not ready.complete_when_made
    event = device.launch(increment, [again], [ready])
    assert is_running(pool, event)
    gate.open()
    pool.sync_events([event])
    assert values(again) == {3}
    pool.deallocate(again)


@pytest.mark.usefixtures("failing_gates")
def test_a_failure_surfaces_at_the_wait_with_kernel_and_device(
    device: ClDevice, pool: ClPool, increment: ClProgram, integers: Make, values: Read, gate: Gate
):
    buffer = integers(1)
    event = device.launch(increment, [buffer], [gate.event])
    gate.fail()
    wanted = rf"kernel increment on {device.name} did not run, since work before it failed: the gate: .*-\d"
    with pytest.raises(LaunchError, match=wanted):
        pool.sync_events([event])
    pool.sync_events([device.launch(increment, [buffer])])  # the device goes on
    assert values(buffer) == {2}
    pool.synchronize()  # all who are concerned were told
    pool.deallocate(buffer)


@pytest.mark.usefixtures("failing_gates")
def test_everything_behind_a_kernel_that_failed_names_that_kernel(
    device: ClDevice, pool: ClPool, add: Callable[..., Kernel], integers: Make, gate: Gate
):
    first, second = device.compile(add(1, "culprit")), device.compile(add(2, "victim"))
    buffer = integers(1)
    event = device.launch(first, [buffer], [gate.event])
    assert isinstance(event, WorkEvent)
    again = [WorkEvent(pool, event.work) for _ in range(2)]
    behind = device.launch(second, [buffer], [event])
    gate.fail()
    name = rf"kernel victim on {device.name} did not run.*kernel culprit on {device.name}"
    with pytest.raises(LaunchError, match=name):
        pool.pool_to_host(buffer, memoryview(bytearray(4)), [behind])
    with pytest.raises(LaunchError, match=name):
        device.launch(second, [buffer], [again[0]])
    with pytest.raises(LaunchError, match=r"an upload .* did not run.*kernel culprit"):
        pool.host_to_pool(memoryview(bytes(4)), buffer, [again[1]])
    pool.synchronize()
    pool.deallocate(buffer)


@pytest.mark.usefixtures("failing_gates")
@pytest.mark.parametrize("how", ["sync_events", "pool_to_host", "synchronize"])
def test_a_failure_that_nobody_waits_for_surfaces_once_at_the_next_wait(
    device: ClDevice, pool: ClPool, increment: ClProgram, integers: Make, gate: Gate, how: str
):
    buffer, other = integers(1), integers(1)
    event = device.launch(increment, [buffer], [gate.event])
    native = event.work[0].native  # type: ignore[attr-defined]  # of this backend
    pool.release_events([event])
    gate.fail()
    with pytest.raises(cl.Error):
        native.wait()
    waits: dict[str, Callable[[], None]] = {
        "sync_events": lambda: pool.sync_events([pool.host_to_pool(memoryview(bytes(4)), other)]),
        "pool_to_host": lambda: pool.pool_to_host(other, memoryview(bytearray(4))),
        "synchronize": pool.synchronize,
    }
    wanted = "the gate:" if how == "synchronize" else f"kernel increment on {device.name}"  # the first that failed
    with pytest.raises(LaunchError, match=wanted):
        waits[how]()
    for wait in waits.values():
        wait()
    for used in (buffer, other):
        pool.deallocate(used)


@pytest.mark.usefixtures("failing_gates_at_once")
def test_a_failure_is_not_told_to_those_who_wait_for_something_else(
    device: ClDevice, pool: ClPool, increment: ClProgram, integers: Make, values: Read, gate: Gate
):
    broken, sound = integers(1), integers(1)
    event = device.launch(increment, [broken], [gate.event])
    gate.fail()
    pool.sync_events([device.launch(increment, [sound])])
    assert values(sound) == {2}
    with pytest.raises(LaunchError, match="kernel increment"):
        pool.sync_events([event])
    for buffer in (broken, sound):
        pool.deallocate(buffer)


@pytest.mark.parametrize("code", [-2, -36])
def test_a_device_that_is_gone_is_a_lost_device(code: int):
    command = Command(None, "kernel increment on opencl:3", LaunchError, (), None)
    command.complete(code)
    assert isinstance(command.error, DeviceLostError)
    assert "kernel increment on opencl:3: the device can do no more work in this process" in str(command.error)


def test_an_event_of_another_device_is_refused(
    device: ClDevice, pool: ClPool, fresh: Callable[..., Runtime], increment: ClProgram, integers: Make, values: Read
):
    other = fresh().device().memory_pool
    buffer = integers(1)
    with pytest.raises(InvalidEventError, match="another pool"):
        device.launch(increment, [buffer], [other.completed()])
    assert values(buffer) == {1}
    pool.deallocate(buffer)
