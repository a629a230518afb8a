"""Memory is given back behind the work on it: the host waits for results, and for nothing else."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import zyx
from zyx.errors import LaunchError
from zyx.io import load_safetensors, save_safetensors


def chain(lengths):
    """Return tensors made one of the other, each of another size, of which only the last one stays alive."""
    x = (zyx.ones(lengths[0]) + 1.0).realize()
    for length in lengths[1:]:
        x = (x.sum() * zyx.ones(length) / float(x.shape[0])).realize()
    return x


LENGTHS = [3, 17, 8, 40, 5, 17, 64, 3, 100, 7]


def test_a_loop_of_allocations_of_changing_sizes_waits_for_nothing(lab, pool):
    x = chain(LENGTHS)
    lab.memory.reclaim()
    assert pool.waits == 0
    assert pool.in_flight >= 2 * len(LENGTHS) - 1  # launches, and memory that was given back behind them
    assert x.tolist() == [2.0] * LENGTHS[-1]
    assert pool.waits > 0


def test_what_is_given_back_behind_work_counts_as_free_at_once(lab, pool):
    lab.memory.reclaim()
    before = pool.used
    x = chain(LENGTHS)
    lab.memory.reclaim()
    assert pool.used == before + 4 * LENGTHS[-1] == lab.memory.live_bytes
    del x
    lab.memory.reclaim()
    assert pool.used == before == lab.memory.live_bytes
    assert pool.waits == 0


def test_a_pool_that_gives_no_event_again_is_waited_for(lab, pool):
    pool.gives_events_again = False
    x = chain(LENGTHS)
    assert pool.waits > 0
    assert x.tolist() == [2.0] * LENGTHS[-1]


def test_a_traced_step_waits_for_nothing(lab, pool):
    weight = (zyx.ones((4, 4)) * 0.5).realize()

    @zyx.jit
    def step(x):
        wide = (x @ weight).contiguous().sum(axis=0).contiguous()  # between: buffers of two sizes
        return wide.sum() * zyx.ones((4, 4)) / 16.0

    x = zyx.ones((4, 4)).realize()
    for _ in range(5):
        x = step(x)
    assert pool.waits == 0
    np.testing.assert_allclose(x.numpy(), np.full((4, 4), 2.0**5), 1e-6)


@pytest.mark.parametrize("takes", [True, False])
def test_copies_to_another_device_wait_only_where_its_pool_takes_no_events(lab, pool, takes, monkeypatch):
    """The targets' memory is what the copies before had, and what those were used for is still to be done."""
    other = lab.device("lab:1").memory_pool
    monkeypatch.setattr(type(other), "takes_target_events", takes)
    sources = [(zyx.ones(8) * float(number)).realize() for number in range(4)]
    results = []
    for source in sources:
        there = source.to("lab:1").realize()
        results.append(there.sum().realize())
        del there
    assert (pool.waits + other.waits == 0) is takes
    assert [result.item() for result in results] == [0.0, 8.0, 16.0, 24.0]


def test_two_dead_buffers_may_wait_for_copies_to_another_device(lab, pool):
    """Their own pool cannot wait for the other's work, so the host does, later."""
    other = lab.device("lab:1").memory_pool
    results, waits = [], []
    for number in range(5):
        source = (zyx.ones(8 + number) * float(number)).realize()
        results.append(source.to("lab:1").realize())
        del source
        zyx.ones(100).realize()  # asks for memory
        waits.append(other.waits)
    assert waits == [0, 0, 1, 2, 3]
    assert pool.waits == 0
    lab.memory.reclaim()
    assert pool.used == lab.memory.live_bytes - other.used
    assert [result[0].item() for result in results] == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_a_file_is_read_behind_the_work_on_the_memory_that_it_is_read_to(lab, pool, tmp_path):
    save_safetensors(tmp_path / "x.safetensors", {"x": zyx.Tensor(np.arange(8, dtype=np.float32))})
    read = load_safetensors(tmp_path / "x.safetensors")["x"]
    before = (zyx.ones(8) * 3.0).realize()
    after = (before + 1.0).realize()
    del before  # its memory is what the file is read to, while `after` still has to read it
    assert (read + 0.0).tolist() == list(range(8))
    assert after.tolist() == [4.0] * 8


class TestFailures:
    def test_whoever_holds_a_result_of_dead_work_is_told(self, lab, device, pool):
        x = zyx.ones(8).realize()
        assert x.tolist() == [1.0] * 8  # its values are known to be there
        waits = pool.waits
        device.fails_while_running = "binary"
        y = (x + 1.0).realize()
        device.fails_while_running = None
        z = y.sum().realize()
        del y
        other = (zyx.ones(5) * 2.0).realize()  # gives the memory of `y` back, whose work is still to fail
        assert pool.waits == waits
        for _ in range(2):
            with pytest.raises(LaunchError, match="failed while running"):
                z.item()
        assert other.tolist() == [2.0] * 5
        assert x.tolist() == [1.0] * 8

    def test_dead_work_that_fails_keeps_no_memory(self, lab, device, pool):
        x = zyx.ones(8).realize()
        lab.memory.reclaim()
        used = pool.used
        device.fails_while_running = "binary"
        for length in LENGTHS:
            (x.sum() + zyx.ones(length)).realize()
        device.fails_while_running = None
        gc.collect()
        lab.memory.reclaim()
        assert pool.used == used == lab.memory.live_bytes
        assert (x.sum() + 1.0).item() == 9.0

    def test_a_copy_that_is_refused_leaves_both_sides_usable(self, lab, device, pool, monkeypatch):
        other = lab.device("lab:1").memory_pool
        x = (zyx.ones(8) + 1.0).realize()
        first = x.to("lab:1")
        second = (first * 2.0).realize()
        del first

        def refuse(*args):
            for events in args[2:]:
                for event in events:
                    event.take()
            raise LaunchError("refused")

        with monkeypatch.context() as patch:
            patch.setattr(other, "pool_to_pool", refuse)
            with pytest.raises(LaunchError, match="refused"):
                x.to("lab:1").realize()
        assert second.tolist() == [4.0] * 8
        assert x.to("lab:1").tolist() == [2.0] * 8
