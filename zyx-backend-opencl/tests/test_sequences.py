"""Captured sequences: queued together, or played as a command buffer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from refused import Refused

from zyx.backend import Launch, Slot, SupportsCapture, SupportsTiming
from zyx.errors import LaunchError
from zyx_backend_opencl.driver import RecordingError
from zyx_backend_opencl.sequence import ClSequence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zyx.kernel.data import Kernel
    from zyx_backend_opencl.device import ClDevice
    from zyx_backend_opencl.memory import ClBuffer, ClPool
    from zyx_backend_opencl.program import ClProgram

    Make = Callable[[int], ClBuffer]
    Read = Callable[[ClBuffer], set[int]]


@pytest.fixture
def programs(device: ClDevice, add: Callable[..., Kernel]) -> Iterator[list[ClProgram]]:
    made = [device.compile(add(constant)) for constant in (1, 10)]
    yield made
    for program in made:
        if not program.is_released:
            device.release(program)


@pytest.fixture
def log(pool: ClPool, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands and flushes that the session is asked for, in order."""
    events: list[str] = []
    for name in ("launch", "flush"):
        method = getattr(pool.session, name)

        def noted(*args: object, name: str = name, method: Callable[..., object] = method) -> object:
            events.append(name)
            return method(*args)

        monkeypatch.setitem(vars(pool.session), name, noted)
    return events


def run(device: ClDevice, sequence: ClSequence, *buffers: ClBuffer) -> None:
    device.pool.sync_events([device.launch(sequence, buffers)])


def test_the_device_supports_capture_and_timing(device: ClDevice):
    assert isinstance(device, SupportsCapture)
    assert isinstance(device, SupportsTiming)


def test_a_sequence_is_one_flush(
    device: ClDevice, pool: ClPool, programs: list[ClProgram], integers: Make, values: Read, log: list[str]
):
    one, ten = programs
    fixed, given = integers(0), integers(100)
    sequence = device.capture([Launch(one, (Slot(0),)), Launch(ten, (fixed,)), Launch(ten, (Slot(0),))], 1)
    run(device, sequence, given)
    assert log == ["launch", "launch", "launch", "flush"]
    assert values(given) == {111}
    assert values(fixed) == {10}
    for buffer in (fixed, given):
        pool.deallocate(buffer)


def test_a_sequence_with_the_same_buffers_is_recorded_and_played(
    device: ClDevice, pool: ClPool, programs: list[ClProgram], integers: Make, values: Read, log: list[str]
):
    if device._recorder is None:
        pytest.skip(f"{device.name} has no command buffers")
    sequence = device.capture([Launch(program, (Slot(0),)) for program in programs * 3], 1)
    first, second = integers(0), integers(1000)
    run(device, sequence, first)
    log.clear()
    for _ in range(4):
        run(device, sequence, first)
    assert log == ["flush"] * 4  # one submission each
    log.clear()
    run(device, sequence, second)
    assert log.count("launch") == 6  # buffers that were not seen before
    run(device, sequence, second)
    run(device, sequence, first)
    assert log.count("launch") == 6
    assert values(first) == {6 * 33}
    assert values(second) == {1000 + 2 * 33}
    for buffer in (first, second):
        pool.deallocate(buffer)


def test_plays_of_one_recording_follow_each_other(
    device: ClDevice, pool: ClPool, programs: list[ClProgram], integers: Make, values: Read
):
    sequence = device.capture([Launch(program, (Slot(0),)) for program in programs * 10], 1)
    buffer = integers(0)
    event = pool.completed()
    for _ in range(20):
        event = device.launch(sequence, [buffer], [event])
    pool.sync_events([event])
    assert values(buffer) == {20 * 110}
    pool.deallocate(buffer)


def test_few_recordings_are_kept_and_trimming_drops_them(
    device: ClDevice, pool: ClPool, programs: list[ClProgram], integers: Make, values: Read
):
    sequence = device.capture([Launch(programs[0], (Slot(0),))], 1)
    buffers = [integers(number) for number in range(6)]
    for _ in range(3):
        for buffer in buffers:
            run(device, sequence, buffer)
    assert len(sequence._recordings) <= 4
    pool.trim()
    assert not sequence._recordings
    for number, buffer in enumerate(buffers):
        run(device, sequence, buffer)
        assert values(buffer) == {number + 4}
        pool.deallocate(buffer)


@pytest.mark.parametrize("step", ["record", "play"])
def test_what_cannot_be_recorded_or_played_is_queued(
    device: ClDevice, pool: ClPool, programs: list[ClProgram], integers: Make, values: Read, log: list[str],
    monkeypatch: pytest.MonkeyPatch, step: str,
):  # fmt: skip
    if device._recorder is None:
        pytest.skip(f"{device.name} has no command buffers")

    def refuse(*args: object) -> None:
        raise RecordingError("not today")

    monkeypatch.setattr(device._recorder, step, refuse)
    sequence = device.capture([Launch(programs[0], (Slot(0),))], 1)
    buffer = integers(0)
    for _ in range(3):
        run(device, sequence, buffer)
    assert log == ["launch", "flush"] * 3
    assert values(buffer) == {3}
    pool.deallocate(buffer)


@pytest.mark.parametrize(("owner", "step"), [("sequence", "_bind"), ("session", "flush")])
def test_a_driver_that_refuses_a_step_of_recording_or_playing_is_an_error_that_names_the_sequence(
    device: ClDevice, pool: ClPool, programs: list[ClProgram], integers: Make, values: Read,
    monkeypatch: pytest.MonkeyPatch, owner: str, step: str,
):  # fmt: skip
    if device._recorder is None:
        pytest.skip(f"{device.name} has no command buffers")

    def refuse(*args: object) -> None:
        raise Refused(-5)

    sequence = device.capture([Launch(programs[0], (Slot(0),))], 1)
    buffer = integers(0)
    run(device, sequence, buffer)
    with monkeypatch.context() as patch:
        if owner == "sequence":
            patch.setattr(ClSequence, step, refuse)
        else:
            patch.setitem(vars(pool.session), step, refuse)
        with pytest.raises(LaunchError, match=r"a sequence of 1 kernels on opencl:0.*\(-5\)"):
            device.launch(sequence, [buffer])
    pool.synchronize()
    run(device, sequence, buffer)
    assert values(buffer) == {2 if owner == "sequence" else 3}  # what was played before the flush runs
    pool.deallocate(buffer)


def test_a_sequence_outlives_the_release_of_its_programs(
    device: ClDevice, pool: ClPool, programs: list[ClProgram], integers: Make, values: Read
):
    sequence = device.capture([Launch(program, (Slot(0),)) for program in programs], 1)
    for program in programs:
        device.release(program)
    buffer = integers(0)
    for _ in range(3):
        run(device, sequence, buffer)
    assert values(buffer) == {33}
    device.release(sequence)
    with pytest.raises(LaunchError, match="released before"):
        device.launch(sequence, [buffer])
    pool.deallocate(buffer)


def test_an_empty_sequence_passes_its_events_on(device: ClDevice, pool: ClPool):
    sequence = device.capture([], 0)
    pool.sync_events([device.launch(sequence, [], [pool.completed()])])


def test_sequences_that_cannot_run_are_refused(
    device: ClDevice, pool: ClPool, programs: list[ClProgram], integers: Make
):
    buffer, small = integers(0), pool.allocate(16)[0]
    sequence = device.capture([Launch(programs[0], (Slot(0),))], 1)
    with pytest.raises(LaunchError, match="cannot be part of another"):
        device.capture([Launch(sequence, (buffer,))], 0)
    with pytest.raises(LaunchError, match="slot 3; there are 1 slots"):
        device.capture([Launch(programs[0], (Slot(3),))], 1)
    with pytest.raises(LaunchError, match="has 16 bytes; the kernel reaches 256"):
        device.launch(sequence, [small])
    with pytest.raises(LaunchError, match="was given 2 arguments; it takes 1"):
        device.capture([Launch(programs[0], (buffer, buffer))], 0)
    for used in (buffer, small):
        pool.deallocate(used)


def test_durations_are_those_of_the_device(
    device: ClDevice, pool: ClPool, programs: list[ClProgram], integers: Make, values: Read
):
    buffer = integers(0)
    sequence = device.capture([Launch(program, (Slot(0),)) for program in programs], 1)
    assert 0 < device.timed_launch(programs[0], [buffer]) < 10
    assert 0 < device.timed_launch(sequence, [buffer]) < 10
    assert values(buffer) == {12}
    many = device.capture([Launch(programs[0], (Slot(0),))] * 50, 1)
    assert device.timed_launch(many, [buffer]) > device.timed_launch(programs[0], [buffer])
    assert values(buffer) == {63}
    assert device.timed_launch(device.capture([], 0), []) == 0
    pool.deallocate(buffer)
