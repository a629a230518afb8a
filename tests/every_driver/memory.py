"""Memory that runs out, or is to be so much and no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import zyx
from zyx.errors import AllocationError
from zyx.runtime.runtime import use

if TYPE_CHECKING:
    from collections.abc import Callable

    from every_driver.fixtures import Card
    from zyx.runtime.runtime import Runtime


def test_the_memory_to_use_can_be_set(fresh: Callable[..., Runtime]):
    assert fresh(memory_bytes=12345).device().memory_pool.free_bytes == 12345


def test_free_bytes_fall_and_rise_and_running_out_names_the_sizes(card: Card, fresh: Callable[..., Runtime]):
    pool = fresh(memory_bytes=10_000).device().memory_pool
    first, _ = pool.allocate(6000)
    free = pool.free_bytes
    assert 0 < free <= 4000
    said = rf"{card.name}:0 memory has no room for 5000 bytes: {free} of 10000 bytes"
    with pytest.raises(AllocationError, match=said):
        pool.allocate(5000)
    assert pool.free_bytes == free
    pool.deallocate(first)
    assert pool.free_bytes == 10_000
    pool.deallocate(pool.allocate(9999)[0])
    assert pool.free_bytes == 10_000
    with pytest.raises(AllocationError, match="a buffer has at most"):
        fresh(memory_bytes=1 << 50).device().memory_pool.allocate(1 << 40)


def test_a_plan_that_runs_out_of_memory_names_the_device_and_gives_back_what_it_took(
    card: Card, fresh: Callable[..., Runtime]
):
    runtime = fresh(memory_bytes=1 << 20)
    pool = runtime.device().memory_pool
    with use(runtime):
        x = zyx.Tensor(np.ones((300, 300), np.float32)).realize()
        before = pool.free_bytes
        with pytest.raises(AllocationError, match=f"{card.name}:0 memory has no room"):
            (x @ x @ x @ x + (x @ x).exp()).realize()
        runtime.memory.reclaim()
        assert pool.free_bytes == before
        assert float((x + 1.0).sum().item()) == 180_000.0
