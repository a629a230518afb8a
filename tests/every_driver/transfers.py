"""Bytes arrive; lengths and offsets may be any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from zyx.backend import MemoryPool


def upload(pool: MemoryPool, data: bytes, nbytes: int | None = None) -> Any:
    """Return a new buffer that holds `data`, with room for more of it if a size is given."""
    buffer, event = pool.allocate(len(data) if nbytes is None else nbytes)
    pool.sync_events([pool.host_to_pool(memoryview(data), buffer, [event])])
    return buffer


def download(pool: MemoryPool, buffer: Any, nbytes: int, offset: int = 0) -> bytes:
    """Return a part of a buffer."""
    target = bytearray(nbytes)
    pool.pool_to_host(buffer, memoryview(target), (), offset)
    return bytes(target)


@pytest.mark.parametrize("length", [*range(1, 18), 255, 256, 257, 4095, 65_537])
def test_uploads_and_downloads_of_every_length_keep_every_byte(pool: MemoryPool, length: int):
    data = bytes((7 * place + length) % 256 for place in range(length))
    buffer = upload(pool, data)
    assert download(pool, buffer, length) == data
    pool.deallocate(buffer)


def test_a_shorter_upload_leaves_what_is_behind_it(pool: MemoryPool):
    before = bytes(range(100, 119))
    for length in range(len(before) + 1):
        buffer = upload(pool, before)
        pool.sync_events([pool.host_to_pool(memoryview(bytes(length)), buffer)])
        assert download(pool, buffer, len(before)) == bytes(length) + before[length:]
        pool.deallocate(buffer)


def test_a_download_may_start_and_end_anywhere(pool: MemoryPool):
    data = bytes(range(23))
    buffer = upload(pool, data)
    for start in range(len(data)):
        for length in range(len(data) - start + 1):
            assert download(pool, buffer, length, start) == data[start : start + length]
    pool.deallocate(buffer)
