"""Memory is written and read in words; lengths and offsets may be any."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from every_driver.memory import test_free_bytes_fall_and_rise_and_running_out_names_the_sizes  # noqa: F401
from every_driver.transfers import *  # noqa: F403
from every_driver.transfers import download, upload

from zyx.errors import InvalidEventError

if TYPE_CHECKING:
    from zyx_backend_wgpu.memory import WgpuPool


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
