"""Events: one owner, one use, and others for the same work; and the order that they make."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.backend import Event
from zyx.builtin.host import HostPool
from zyx.errors import BackendError, InvalidBufferError, InvalidEventError
from zyx.testing.increments import counted_dtype, increment, successor
from zyx.testing.launching import Loaded, bytes_of, download, upload

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.backend import Argument, Device, MemoryPool, Program


class AnothersEvent(Event):
    """An event that no pool of the device has made."""

    __slots__ = ()


def queue_chain(device: Device, program: Program, args: Sequence[Argument], launches: int) -> Event:
    """Launch `program` several times, one after the other; return the event of the last time."""
    event = device.memory_pool.completed()
    for _ in range(launches):
        event = device.launch(program, args, [event])
    return event


def another(event: Event) -> Event:
    """Return another event for the same work."""
    other = event.again()
    if other is None:
        pytest.skip("events of this device cannot be had again")
    assert other is not event
    return other


@pytest.fixture
def users(device: Device, pool: MemoryPool) -> Callable[[Sequence[Event]], dict[str, Callable[[], object]]]:
    """Everything that uses events up, by name."""
    program = increment(device, 4)
    buffer, event = pool.allocate(16)
    pool.sync_events([event])
    elsewhere = upload(HostPool("elsewhere", 1 << 20), np.zeros(4, np.int32))

    def make(events: Sequence[Event]) -> dict[str, Callable[[], object]]:
        spare, ready = pool.allocate(16)
        pool.sync_events([ready])
        return {
            "sync_events": lambda: pool.sync_events(events),
            "release_events": lambda: pool.release_events(events),
            "host_to_pool": lambda: pool.host_to_pool(memoryview(bytes(16)), buffer, events),
            "pool_to_host": lambda: pool.pool_to_host(buffer, memoryview(bytearray(16)), events),
            "launch": lambda: device.launch(program, [buffer], events),
            "deallocate": lambda: pool.deallocate(spare, events),
            "pool_to_pool": lambda: pool.pool_to_pool(elsewhere, buffer, (), events),
        }

    return make


NAMES = ["sync_events", "release_events", "host_to_pool", "pool_to_host", "launch", "deallocate"]


@pytest.mark.parametrize("second", NAMES)
@pytest.mark.parametrize("first", NAMES)
def test_an_event_is_used_once(
    pool: MemoryPool,
    users: Callable[[Sequence[Event]], dict[str, Callable[[], object]]],
    first: str,
    second: str,
) -> None:
    events = [pool.completed()]
    result = users(events)[first]()
    if isinstance(result, Event):
        pool.sync_events([result])
    with pytest.raises(InvalidEventError):
        users(events)[second]()


def test_one_event_twice_in_a_list_is_refused(pool: MemoryPool) -> None:
    event = pool.completed()
    with pytest.raises(InvalidEventError):
        pool.sync_events([event, event])


@pytest.mark.parametrize("name", [*NAMES, "pool_to_pool"])
def test_an_event_of_another_pool_is_refused_and_used_up(
    pool: MemoryPool, users: Callable[[Sequence[Event]], dict[str, Callable[[], object]]], name: str
) -> None:
    if name == "pool_to_pool" and not pool.takes_target_events:
        pytest.skip("the pool takes no events of the targets of copies")
    mine, anothers = pool.completed(), AnothersEvent()
    before = pool.free_bytes
    using = users([mine, anothers])[name]
    with pytest.raises(InvalidEventError):
        using()
    assert pool.free_bytes < before  # nothing was given back
    for event in (mine, anothers):
        with pytest.raises(InvalidEventError):
            event.take()


def test_events_are_used_up_by_a_call_that_fails(pool: MemoryPool) -> None:
    buffer, event = pool.allocate(4)
    with pytest.raises(InvalidBufferError):
        pool.host_to_pool(memoryview(bytes(5)), buffer, [event])
    with pytest.raises(InvalidEventError):
        pool.sync_events([event])
    pool.deallocate(buffer)


def test_launches_in_a_chain_of_events_run_in_order(device: Device, pool: MemoryPool) -> None:
    length, launches = 10_001, 20
    program = increment(device, length)
    start = np.arange(length, dtype=counted_dtype(device).numpy)
    with Loaded(device, [start]) as loaded:
        event = queue_chain(device, program, loaded.args, launches)
        target = np.empty_like(start)
        pool.pool_to_host(loaded.args[0], bytes_of(target), [event])  # type: ignore[arg-type]
    np.testing.assert_array_equal(target, start + launches)
    device.release(program)


def test_an_upload_is_seen_by_the_launch_that_waits_for_it(device: Device, pool: MemoryPool) -> None:
    program = increment(device, 3)
    dtype = counted_dtype(device)
    greatest = 2**31 - 1 if dtype is dtypes.int32 else 2**24 - 1
    data = np.array([5, -7, greatest], dtype.numpy)
    buffer, event = pool.allocate(12)
    event = pool.host_to_pool(bytes_of(data), buffer, [event])
    event = device.launch(program, [buffer], [event])
    pool.sync_events([event])
    after = -(2**31) if dtype is dtypes.int32 else 2**24
    np.testing.assert_array_equal(download(pool, buffer, data), np.array([6, -6, after], dtype.numpy))
    pool.deallocate(buffer, [pool.completed()])
    with pytest.raises(BackendError):
        pool.deallocate(buffer)
    device.release(program)


def test_several_can_wait_for_one_piece_of_work(device: Device, pool: MemoryPool) -> None:
    another(pool.completed())
    length, launches = 10_001, 20
    program = increment(device, length)
    start = np.arange(length, dtype=counted_dtype(device).numpy)
    with Loaded(device, [start]) as loaded:
        event = queue_chain(device, program, loaded.args, launches)
        second = another(event)
        events = [event, second, another(second), another(event)]
        target = np.empty_like(start)
        pool.pool_to_host(loaded.args[0], bytes_of(target), [second])  # type: ignore[arg-type]
        np.testing.assert_array_equal(target, start + launches)
        pool.sync_events([device.launch(program, loaded.args, [events[2]])])
        pool.sync_events([event])
        pool.release_events([events[3]])
        for used in events:
            with pytest.raises(InvalidEventError):
                pool.sync_events([used])
        np.testing.assert_array_equal(loaded.arrays()[0], start + launches + 1)
    device.release(program)


def test_memory_is_given_back_behind_the_work_that_still_uses_it(device: Device, pool: MemoryPool) -> None:
    """It counts as free at once, and whoever gets it next writes to it only when that work is done."""
    another(pool.completed())
    length, launches = 100_003, 10
    slow = increment(device, length)
    last = successor(device, length)
    start = np.arange(length, dtype=counted_dtype(device).numpy)
    noise = np.full(length, -1, counted_dtype(device).numpy)
    pool.synchronize()
    before = pool.free_bytes
    for _ in range(5):
        source = upload(pool, start)
        target, ready = pool.allocate(start.nbytes)
        event = queue_chain(device, slow, [source], launches)
        event = device.launch(last, [target, source], [event, ready])
        used = pool.free_bytes
        pool.deallocate(source, [another(event)])
        assert pool.free_bytes >= used + start.nbytes
        taken, ready = pool.allocate(start.nbytes)
        filled = pool.host_to_pool(bytes_of(noise), taken, [ready])
        pool.sync_events([filled])
        np.testing.assert_array_equal(download(pool, taken, noise), noise)
        pool.sync_events([event])
        np.testing.assert_array_equal(download(pool, target, start), start + launches + 1)
        pool.deallocate(taken)
        pool.deallocate(target)
    pool.synchronize()
    assert pool.free_bytes == before
    device.release(slow)
    device.release(last)


def test_a_copy_waits_for_the_work_on_its_target(device: Device, pool: MemoryPool) -> None:
    if not pool.takes_target_events:
        pytest.skip("the pool takes no events of the targets of copies")
    length = 10_001
    program = increment(device, length)
    other = HostPool("elsewhere", 1 << 20)
    values = np.arange(length, dtype=counted_dtype(device).numpy)
    source = upload(other, values)
    with Loaded(device, [np.full(length, 7, counted_dtype(device).numpy)]) as loaded:
        (target,) = loaded.args
        assert not isinstance(target, bool | int | float)
        event = queue_chain(device, program, loaded.args, 20)
        copied = pool.pool_to_pool(source, target, [other.completed()], [event])
        with pytest.raises(InvalidEventError):
            pool.sync_events([event])
        pool.sync_events([device.launch(program, loaded.args, [copied])])
        pool.synchronize()  # the work from before the copy is done by now as well
        np.testing.assert_array_equal(loaded.arrays()[0], values + 1)
        event = pool.completed()
        with pytest.raises(InvalidBufferError):
            pool.pool_to_pool(upload(other, np.zeros(length + 1, counted_dtype(device).numpy)), target, (), [event])
        with pytest.raises(InvalidEventError):
            pool.sync_events([event])
    device.release(program)
