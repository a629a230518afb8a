"""Memory runs out: what can be dropped is dropped, then the error says what was wanted, and nothing is lost."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest

import zyx
from zyx.errors import AllocationError

MIB = 1 << 20


def ones(nbytes):
    return zyx.Tensor(np.ones(nbytes // 4, np.float32))


def test_the_error_names_pool_request_and_what_is_free(lab, pool):
    kept = ones(3 * MIB)
    with pytest.raises(AllocationError) as caught:
        ones(2 * MIB)
    text = str(caught.value)
    assert re.search(r"pool lab:0 has no room for 2097152 bytes: 1048576 bytes are free", text), text
    assert isinstance(caught.value, MemoryError)
    assert kept.sum().item() == 3 * MIB // 4


def test_the_error_names_the_largest_tensors_there(lab, pool):
    kept = [ones(MIB).reshape(512, 512).realize(), ones(MIB // 2), ones(MIB // 4), ones(4), ones(MIB)]
    with pytest.raises(AllocationError) as caught:
        ones(3 * MIB)
    first, second, third = (rf"float32\[[\d, ]+\] with {nbytes} bytes" for nbytes in (MIB, MIB, MIB // 2))
    text = str(caught.value)
    assert re.search(rf"; the largest of {len(kept)} tensors there: {first}, {second}, {third}$", text), text
    del kept
    lab.memory.reclaim()
    assert ones(3 * MIB).shape == (3 * MIB // 4,)


def test_a_result_without_room_changes_nothing_and_works_later(lab, pool):
    x = ones(MIB)
    blocker = ones(2 * MIB + MIB // 2)
    y = x + 1.0
    used = pool.used
    for _ in range(3):
        with pytest.raises(AllocationError):
            y.realize()
        assert not y.is_realized
        lab.memory.reclaim()
        assert pool.used == used == lab.memory.live_bytes
    del blocker
    assert y[0].item() == 2.0


def test_outputs_that_had_room_are_given_back_if_a_later_one_has_none(lab, pool):
    x = ones(MIB)
    used = pool.used
    results = [x * float(i) for i in range(5)]
    with pytest.raises(AllocationError):
        zyx.realize(*results)
    lab.memory.reclaim()
    assert pool.used == used
    assert not any(result.is_realized for result in results)
    assert results[4].sum().item() == MIB


def test_temporaries_without_room_are_an_error_of_the_same_kind(lab, pool):
    x = ones(MIB).reshape(512, 512).realize()
    blocker = ones(MIB + MIB // 2)
    y = ((x @ x).contiguous() @ x).contiguous() @ x
    needs = r"1048576 bytes for results and \d+ for what is between, on lab:0"
    with pytest.raises(AllocationError, match=rf"pool lab:0 has no room for \d+ bytes: .*; in all, {needs}$"):
        y.realize()
    del blocker
    assert y[0, 0].item() == 512.0**3


def test_dead_buffers_are_given_back_before_memory_runs_out(lab, pool):
    for number in range(12):  # twelve MiB, in four
        assert (ones(MIB + 256 * number) * 2.0)[0].item() == 2.0


def test_caches_are_dropped_and_the_pool_trimmed_before_the_error(lab, pool):
    (ones(1024) + 1.0).realize()
    assert lab._plans
    trims = pool.trims
    with pytest.raises(AllocationError):
        ones(8 * MIB)
    assert not lab._plans
    assert pool.trims == trims + 1


def test_what_a_dropped_cache_held_makes_room(lab, pool):
    held = [lab.memory.allocate(pool, 3 * MIB)]
    lab.memory.droppers.append(held.clear)
    x = ones(2 * MIB)
    assert held == []
    assert x.sum().item() == 2 * MIB // 4


def test_a_buffer_larger_than_the_device_allows_is_refused_before_it_is_asked_for(lab, device, pool):
    device._info = dataclasses.replace(device.info, max_buffer_bytes=1000)
    x = ones(512)
    used = pool.used
    with pytest.raises(AllocationError, match=r"takes 2048 bytes; a buffer of lab:0 has at most 1000"):
        zyx.concat([x, x, x, x]).realize()
    lab.memory.reclaim()
    assert pool.used == used


def test_zero_bytes_are_no_buffer(lab, pool):
    used = pool.used
    x = zyx.Tensor(np.zeros((0, 3), np.float32))
    assert (x + 1.0).sum(axis=0).tolist() == [0.0, 0.0, 0.0]
    assert x.numpy().shape == (0, 3)
    del x
    lab.memory.reclaim()
    assert pool.used == used


def test_a_traced_function_without_room_works_later(lab, pool):
    @zyx.jit
    def double(x):
        return x * 2.0

    x = ones(MIB)
    assert double(x)[0].item() == 2.0
    lab.memory.reclaim()
    blocker = ones(2 * MIB + MIB // 2)
    with pytest.raises(
        AllocationError, match=r"in all, 1048576 bytes for results and 0 for what is between, on lab:0$"
    ):
        double(x)
    del blocker
    assert double(x)[0].item() == 2.0


def test_what_a_traced_function_keeps_for_its_next_run_is_dropped(lab, pool):
    @zyx.jit
    def rows(x):
        return ((x.cumsum(1) * 2.0).cumsum(0) - 1.0).sum()

    x = ones(MIB).reshape(512, 512).realize()
    wanted = rows(x).item()
    lab.memory.reclaim()
    assert pool.used > MIB + MIB // 2, "the temporaries are not kept"
    blocker = ones(pool.capacity - MIB - 4096)
    lab.memory.reclaim()
    del blocker
    assert rows(x).item() == wanted
