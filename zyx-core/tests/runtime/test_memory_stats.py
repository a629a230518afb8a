"""What tensors hold of each memory, and giving the rest back."""

import numpy as np
import pytest

import zyx


def test_each_pool_has_what_lives_its_peak_and_what_is_free(lab, pool):
    free = pool.free_bytes
    given = zyx.Tensor(np.ones(100, np.float32))
    x = (given + 1).realize()
    y = (x * 2).realize()
    stats = zyx.memory_stats()
    assert stats["lab:0"] == (1200, 1200, 0, free - 1200, 3, 3)
    assert stats["lab:1"].live_bytes == 0
    assert "disk" not in stats
    del x, given
    assert zyx.memory_stats()["lab:0"].live_bytes == 400
    assert zyx.memory_stats()["lab:0"].peak_bytes == 1200
    assert y.numpy()[0] == 4.0


def test_memory_that_was_given_back_is_cached_until_the_cache_is_emptied(interpreter):
    x = zyx.ones(1 << 20).realize()
    before = zyx.memory_stats()["host"]
    assert before.live_bytes >= 4 << 20
    del x
    after = zyx.memory_stats()["host"]
    assert after.live_bytes == before.live_bytes - (4 << 20)
    assert after.cached_bytes >= 4 << 20
    assert zyx.empty_cache() >= 4 << 20
    assert zyx.memory_stats()["host"].cached_bytes == 0


def test_emptying_the_cache_leaves_tensors_as_they_are(lab, pool):
    x = zyx.Tensor(np.arange(5, dtype=np.float32))
    trims = pool.trims
    zyx.empty_cache()
    assert pool.trims == trims + 1
    np.testing.assert_array_equal(x.numpy(), np.arange(5))


@pytest.mark.parametrize(
    "field", ["live_bytes", "peak_bytes", "cached_bytes", "free_bytes", "live_buffers", "allocations"]
)
def test_numbers_have_names(field, interpreter):
    assert isinstance(getattr(zyx.memory_stats()["host"], field), int)
