"""Captured sequences: the same values as launch by launch, whatever buffers and numbers they come with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from zyx.backend import Launch, Slot
from zyx.drivers.faults import Cause, Fault
from zyx.errors import LaunchError

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.kernel.data import Kernel
    from zyx_backend_vulkan.device import VulkanDevice

Integers = "Callable[[int], Any]"


def play(device: VulkanDevice, sequence: Any, *args: Any) -> None:
    device.pool.sync_events([device.launch(sequence, args)])


def test_a_sequence_does_the_same_the_first_time_and_recorded(
    device: VulkanDevice, add: Callable[..., Kernel], integers: Integers, values: Callable[[Any], set[int]]
):
    one, ten = device.compile(add(1)), device.compile(add(10))
    fixed = integers(0)
    steps = [(one, Slot(0)), (ten, Slot(1)), (one, Slot(0)), (ten, fixed)]
    sequence = device.capture([Launch(program, (arg,)) for program, arg in steps], 2)
    a, b = integers(0), integers(100)
    for turn in range(1, 8):
        play(device, sequence, a, b)
        assert (values(a), values(b), values(fixed)) == ({2 * turn}, {100 + 10 * turn}, {10 * turn})
    play(device, sequence, b, a)  # the other way round
    assert (values(a), values(b)) == ({24}, {172})
    for buffer in (a, b, fixed):
        device.pool.deallocate(buffer)
    for program in (sequence, one, ten):
        device.release(program)


def test_numbers_may_be_others_at_each_launch(
    device: VulkanDevice, add: Callable[..., Kernel], add_number: Kernel, integers: Integers, values: Any
):
    one, number = device.compile(add(1)), device.compile(add_number)
    sequence = device.capture(
        [
            Launch(one, (Slot(0),)),
            Launch(number, (Slot(0), Slot(1))),
            Launch(number, (Slot(0), 7)),
            Launch(one, (Slot(0),)),
        ],
        2,
    )
    buffer, total = integers(0), 0
    for turn in (5, -3, 5, 1 << 20, 0):
        play(device, sequence, buffer, turn)
        total += 9 + turn
        assert values(buffer) == {total}
    with pytest.raises(LaunchError, match="is 'much', not a number"):
        device.launch(sequence, [buffer, "much"])
    assert values(buffer) == {total}
    device.pool.deallocate(buffer)


def test_a_sequence_may_be_queued_again_while_it_runs(
    device: VulkanDevice, add: Callable[..., Kernel], integers: Integers, values: Any
):
    program = device.compile(add(1))
    sequence = device.capture([Launch(program, (Slot(0),))] * 50, 1)
    buffer = integers(0)
    events: list[Any] = []
    for _ in range(30):
        events = [device.launch(sequence, [buffer], events)]
    device.pool.sync_events(events)
    assert values(buffer) == {1500}
    device.pool.deallocate(buffer)


def test_launches_that_share_no_buffer_need_no_barrier_and_others_have_one(
    device: VulkanDevice, add: Callable[..., Kernel], integers: Integers, values: Any, monkeypatch: pytest.MonkeyPatch
):
    program = device.compile(add(1))
    buffers = [integers(0) for _ in range(4)]
    sequence = device.capture([Launch(program, (Slot(number % 4),)) for number in range(12)], 4)
    play(device, sequence, *buffers)
    queue, good = device.pool.session.compute, device.pool.session.compute.barrier
    barriers: list[object] = []
    monkeypatch.setattr(queue, "barrier", lambda commands: (barriers.append(commands), good(commands)))
    play(device, sequence, *buffers)  # which records it
    assert len(barriers) == 3
    for _ in range(5):
        play(device, sequence, *buffers)
    assert [values(buffer) for buffer in buffers] == [{21}] * 4
    for buffer in buffers:
        device.pool.deallocate(buffer)


def test_programs_and_memory_of_a_recording_outlive_their_release_and_go_with_it(
    fresh: Callable[..., Any], add: Callable[..., Kernel]
):
    device = fresh().device()
    pool = device.memory_pool
    held = pool.session.held
    program = device.compile(add(3))
    buffer, ready = pool.allocate(256)
    pool.sync_events([pool.host_to_pool(memoryview(bytes(256)), buffer, [ready])])
    sequence = device.capture([Launch(program, (Slot(0),))] * 2, 1)
    device.release(program)
    for _ in range(4):
        play(device, sequence, buffer)
    found = np.zeros(64, np.int32)
    pool.pool_to_host(buffer, found.view(np.uint8).data)
    assert set(found) == {24}
    event = device.launch(sequence, [buffer])
    device.release(sequence)
    pool.deallocate(buffer, [event])
    pool.synchronize()
    pool.trim()
    # Layouts stay, for the next kernels that bind as much.
    assert pool.session.held <= held + 2


def test_a_recording_that_the_driver_refuses_leaves_everything_as_it_was(
    device: VulkanDevice, add: Callable[..., Kernel], integers: Integers, values: Any, monkeypatch: pytest.MonkeyPatch
):
    program = device.compile(add(1))
    sequence = device.capture([Launch(program, (Slot(0),))] * 3, 1)
    buffer = integers(0)
    play(device, sequence, buffer)

    def refuse(commands: object) -> None:
        raise Fault(Cause.MEMORY, "no room for commands")

    with monkeypatch.context() as patched:
        patched.setattr(device.pool.session.compute, "end", refuse)
        with pytest.raises(Exception, match=r"a sequence of 3 kernels on vulkan:0 .* no room for commands"):
            device.launch(sequence, [buffer])
    for _ in range(3):
        play(device, sequence, buffer)
    assert values(buffer) == {12}
    device.pool.deallocate(buffer)


def test_a_sequence_of_nothing_is_done_at_once(device: VulkanDevice):
    sequence = device.capture([], 0)
    assert device.launch(sequence, []).complete_when_made
    assert device.timed_launch(sequence, []) == 0.0
