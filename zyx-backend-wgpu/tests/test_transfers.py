"""Memory is written and read in words; lengths and offsets may be any."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from zyx.errors import AllocationError, InvalidEventError

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.runtime.runtime import Runtime
    from zyx_backend_wgpu.memory import WgpuBuffer, WgpuPool


def upload(pool: WgpuPool, data: bytes, nbytes: int | None = None) -> WgpuBuffer:
    buffer, event = pool.allocate(len(data) if nbytes is None else nbytes)
    pool.sync_events([pool.host_to_pool(memoryview(data), buffer, [event])])
    return buffer


def download(pool: WgpuPool, buffer: WgpuBuffer, nbytes: int, offset: int = 0) -> bytes:
    target = bytearray(nbytes)
    pool.pool_to_host(buffer, memoryview(target), (), offset)
    return bytes(target)


@pytest.mark.parametrize("length", [*range(1, 18), 255, 256, 257, 4095, 65_537])
def test_uploads_and_downloads_of_every_length_keep_every_byte(pool: WgpuPool, length: int):
    data = bytes((7 * place + length) % 256 for place in range(length))
    buffer = upload(pool, data)
    assert download(pool, buffer, length) == data
    pool.deallocate(buffer)


def test_a_shorter_upload_leaves_what_is_behind_it(pool: WgpuPool):
    before = bytes(range(100, 119))
    for length in range(len(before) + 1):
        buffer = upload(pool, before)
        pool.sync_events([pool.host_to_pool(memoryview(bytes(length)), buffer)])
        assert download(pool, buffer, len(before)) == bytes(length) + before[length:]
        pool.deallocate(buffer)


def test_a_download_may_start_and_end_anywhere(pool: WgpuPool):
    data = bytes(range(23))
    buffer = upload(pool, data)
    for start in range(len(data)):
        for length in range(len(data) - start + 1):
            assert download(pool, buffer, length, start) == data[start : start + length]
    pool.deallocate(buffer)


def test_an_upload_can_be_waited_for_before_anything_else_is_submitted(pool: WgpuPool):
    pool.synchronize()
    buffer, event = pool.allocate(8)
    assert event.complete_when_made
    written = pool.host_to_pool(memoryview(b"12345678"), buffer, [event])
    assert not written.complete_when_made
    pool.sync_events([written])
    with pytest.raises(InvalidEventError):
        pool.sync_events([written])
    assert pool.work.count == 0
    assert download(pool, buffer, 8) == b"12345678"
    pool.deallocate(buffer)


def test_an_upload_larger_than_the_driver_stages_arrives_whole(pool: WgpuPool):
    nbytes = min((1 << 26) + 4099, pool.max_buffer_bytes)
    data = bytes(range(251)) * (nbytes // 251 + 1)
    buffer = upload(pool, data[:nbytes])
    assert download(pool, buffer, nbytes) == data[:nbytes]
    pool.deallocate(buffer)
    pool.trim()


def test_free_bytes_fall_and_rise_and_running_out_names_the_sizes(fresh: Callable[..., Runtime]):
    pool = fresh(memory_bytes=10_000).device().memory_pool
    first, _ = pool.allocate(6000)
    free = pool.free_bytes
    assert 0 < free <= 4000
    with pytest.raises(AllocationError, match=rf"wgpu:0 memory has no room for 5000 bytes: {free} of 10000 bytes"):
        pool.allocate(5000)
    assert pool.free_bytes == free
    pool.deallocate(first)
    assert pool.free_bytes == 10_000
    pool.deallocate(pool.allocate(9999)[0])
    assert pool.free_bytes == 10_000
    with pytest.raises(AllocationError, match="a buffer has at most"):
        fresh(memory_bytes=1 << 50).device().memory_pool.allocate(1 << 40)
