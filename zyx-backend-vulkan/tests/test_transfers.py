"""Bytes arrive, in place or through a ring of the host's memory; lengths and offsets may be any."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from every_driver.memory import test_free_bytes_fall_and_rise_and_running_out_names_the_sizes  # noqa: F401
from every_driver.transfers import *  # noqa: F403
from every_driver.transfers import download, upload

from zyx.drivers.staging import PIECE_BYTES, RING_BYTES
from zyx.errors import AllocationError, InvalidEventError

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.kernel.data import Kernel
    from zyx.runtime.runtime import Runtime
    from zyx_backend_vulkan.device import VulkanDevice
    from zyx_backend_vulkan.memory import VulkanPool


def test_an_upload_to_memory_that_nothing_uses_is_complete_where_the_host_reaches_it(pool: VulkanPool):
    pool.synchronize()
    buffer, event = pool.allocate(8)
    written = pool.host_to_pool(memoryview(b"12345678"), buffer, [event])
    assert written.complete_when_made == pool.heaps.is_mapped
    pool.sync_events([written])
    with pytest.raises(InvalidEventError):
        pool.sync_events([written])
    assert download(pool, buffer, 8) == b"12345678"
    pool.deallocate(buffer)


def test_an_upload_waits_for_the_kernels_that_use_the_buffer(device: VulkanDevice, add: Callable[..., Kernel]):
    pool = device.pool
    program = device.compile(add(1))
    buffer = upload(pool, bytes(256))
    for turn in range(40):
        event = device.launch(program, [buffer])
        written = pool.host_to_pool(memoryview(bytes([turn]) * 256), buffer, [event])
        pool.sync_events([device.launch(program, [buffer], [written])])
        assert (
            download(pool, buffer, 256) == (int.from_bytes(bytes([turn]) * 4, "little") + 1).to_bytes(4, "little") * 64
        )
    pool.deallocate(buffer)
    device.release(program)


def test_what_is_larger_than_the_ring_goes_through_it(hidden: VulkanPool):
    nbytes = min(RING_BYTES + PIECE_BYTES + 4099, hidden.max_buffer_bytes)
    data = bytes(range(251)) * (nbytes // 251 + 1)
    buffer = upload(hidden, data[:nbytes])
    assert download(hidden, buffer, nbytes) == data[:nbytes]
    assert download(hidden, buffer, PIECE_BYTES + 5, 3) == data[3 : PIECE_BYTES + 8]
    hidden.deallocate(buffer)


@pytest.mark.parametrize("length", [1, 2, 3, 5, 255, 257, 65_537])
def test_the_ring_keeps_every_byte_and_what_is_behind_a_shorter_upload(hidden: VulkanPool, length: int):
    before = bytes((7 * place) % 256 for place in range(length + 9))
    buffer = upload(hidden, before)
    hidden.sync_events([hidden.host_to_pool(memoryview(bytes(length)), buffer)])
    assert download(hidden, buffer, len(before)) == bytes(length) + before[length:]
    hidden.deallocate(buffer)


@pytest.mark.parametrize("seed", range(3))
def test_queues_of_their_own_keep_the_order_of_events(
    queues_apart: None, fresh: Callable[..., Runtime], add: Callable[..., Kernel], seed: int
):
    """Buffers are written, computed with and read, in whatever order, and given back while the device is busy."""
    del queues_apart
    device, draw = fresh().device(), random.Random(seed)
    pool = device.memory_pool
    programs = {number: device.compile(add(number)) for number in (1, 5)}
    buffers: list[list[Any]] = []  # buffer, its last event, what is in it
    for _ in range(400):
        choice = draw.random()
        if choice < 0.15 or not buffers:
            buffer, event = pool.allocate(256)
            buffers.append([buffer, pool.host_to_pool(memoryview(bytes(256)), buffer, [event]), 0])
            continue
        entry = draw.choice(buffers)
        buffer, event, value = entry
        if choice < 0.3:
            written = draw.randrange(1 << 20)
            entry[1:] = pool.host_to_pool(memoryview(written.to_bytes(4, "little") * 64), buffer, [event]), written
        elif choice < 0.8:
            number = draw.choice((1, 5))
            entry[1:] = device.launch(programs[number], [buffer], [event]), value + number
        elif choice < 0.95:
            entry[1] = event.again() or pool.completed()
            found = bytearray(256)
            pool.pool_to_host(buffer, memoryview(found), [event])
            assert found == value.to_bytes(4, "little") * 64
        else:
            buffers.remove(entry)
            pool.deallocate(buffer, [event])


def test_a_driver_that_gives_no_more_pieces_of_memory_is_out_of_memory(fresh: Callable[..., Runtime]):
    pool = fresh().device().memory_pool
    first, _ = pool.allocate(9 << 20)  # too large to share a block
    pool.trim()
    pool.heaps._most_blocks = pool.heaps._count
    with pytest.raises(AllocationError, match=r"no room for 9437184 bytes.*it gives at most \d+ pieces of memory"):
        pool.allocate(9 << 20)
    pool.deallocate(first)
    pool.deallocate(pool.allocate(9 << 20)[0])
