"""Events: one owner, one use; and the order that they make."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.backend import Event
from zyx.errors import BackendError, InvalidBufferError, InvalidEventError
from zyx.ir import kernel as k
from zyx.ir.builder import Builder
from zyx.ops import BinaryOp
from zyx.testing.launching import Loaded, bytes_of, download, prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.backend import Device, MemoryPool
    from zyx.ir.kernel import Kernel


class AnothersEvent(Event):
    """An event that no pool of the device has made."""

    __slots__ = ()


def increment(length: int) -> Kernel:
    """Return a kernel that adds 1 to every element of its param."""
    b = Builder()
    array = b.define(k.Memory.GLOBAL, dtypes.int32, length)
    at = b.index(k.Axis.GROUP, 0, length)
    b.store(array, at, b.binary(BinaryOp.ADD, b.load(array, at), b.const(1, dtypes.int32)))
    return b.finish("increment")


@pytest.fixture
def users(device: Device, pool: MemoryPool) -> Callable[[Sequence[Event]], dict[str, Callable[[], object]]]:
    """Everything that uses events up, by name."""
    program = device.compile(prepare(increment(4), device))
    buffer, event = pool.allocate(16)
    pool.sync_events([event])

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


@pytest.mark.parametrize("name", ["sync_events", "release_events"])
def test_an_event_of_another_device_is_refused(
    users: Callable[[Sequence[Event]], dict[str, Callable[[], object]]], name: str
) -> None:
    with pytest.raises(InvalidEventError):
        users([AnothersEvent()])[name]()


def test_events_are_used_up_by_a_call_that_fails(pool: MemoryPool) -> None:
    buffer, event = pool.allocate(4)
    with pytest.raises(InvalidBufferError):
        pool.host_to_pool(memoryview(bytes(5)), buffer, [event])
    with pytest.raises(InvalidEventError):
        pool.sync_events([event])
    pool.deallocate(buffer)


def test_launches_in_a_chain_of_events_run_in_order(device: Device, pool: MemoryPool) -> None:
    length, launches = 10_001, 20
    program = device.compile(prepare(increment(length), device))
    start = np.arange(length, dtype=np.int32)
    with Loaded(device, [start]) as loaded:
        event = pool.completed()
        for _ in range(launches):
            event = device.launch(program, loaded.args, [event])
        target = np.empty_like(start)
        pool.pool_to_host(loaded.args[0], bytes_of(target), [event])  # type: ignore[arg-type]
    np.testing.assert_array_equal(target, start + launches)
    device.release(program)


def test_an_upload_is_seen_by_the_launch_that_waits_for_it(device: Device, pool: MemoryPool) -> None:
    program = device.compile(prepare(increment(3), device))
    data = np.array([5, -7, 2**31 - 1], np.int32)
    buffer, event = pool.allocate(12)
    event = pool.host_to_pool(bytes_of(data), buffer, [event])
    event = device.launch(program, [buffer], [event])
    pool.sync_events([event])
    np.testing.assert_array_equal(download(pool, buffer, data), np.array([6, -6, -(2**31)], np.int32))
    pool.deallocate(buffer, [pool.completed()])
    with pytest.raises(BackendError):
        pool.deallocate(buffer)
    device.release(program)
