"""Pools that keep memory: used again behind its work, given back where there is no room."""

from __future__ import annotations

import gc

import pytest

from zyx.builtin.host import HostPool
from zyx.drivers.faults import Fault
from zyx.drivers.work_event import CompletedEvent, WorkEvent, dependent
from zyx.errors import (
    AllocationError,
    DeviceLostError,
    InvalidBufferError,
    InvalidEventError,
    LaunchError,
    TransferError,
)


class Holder:
    """Something that has memory in it."""

    def __init__(self, pool):
        self.pool = pool
        self.times = 0
        pool.holders.add(self)

    def let_go(self):
        self.times += 1
        self.pool.log.append("let go")


class TestAllocation:
    def test_memory_is_used_again_behind_the_work_that_is_not_done(self, pool, allocate):
        buffer = allocate(1000)
        pool.done.add("old")
        pool.deallocate(buffer, [pool.event(["old"]), pool.event(["launch", "upload"])])
        again, event = pool.allocate(900)
        assert again.memory == 0
        assert isinstance(event, WorkEvent)
        assert not event.complete_when_made
        assert list(pool.take([event])) == ["launch", "upload"]
        assert pool.made == [0]

    def test_memory_whose_work_is_done_is_ready_at_once(self, pool, allocate):
        pool.done.add("launch")
        pool.deallocate(allocate(8), [pool.event(["launch"])])
        _, event = pool.allocate(8)
        assert event.complete_when_made

    def test_what_is_kept_counts_as_free(self, pool, allocate):
        before = pool.free_bytes
        buffer = allocate(1000)
        assert pool.free_bytes == before - 1024 == before - buffer.capacity
        pool.deallocate(buffer)
        assert pool.free_bytes == before
        assert buffer.freed
        assert buffer.memory is None

    def test_the_last_bytes_are_rounded_up_to_words_only(self, new_pool):
        buffer, _ = new_pool(10_000).allocate(9001)
        assert buffer.capacity == 9004

    @pytest.mark.parametrize(
        ("nbytes", "text"),
        [(5000, "a buffer has at most 4096, 65536 of 65536 bytes are free"), (65537, "65536 of 65536 bytes are free")],
    )
    def test_more_than_there_is_or_than_a_buffer_has_is_refused(self, new_pool, nbytes, text):
        with pytest.raises(AllocationError, match=f"list memory has no room for {nbytes} bytes: {text}"):
            new_pool(65536, 4096).allocate(nbytes)

    def test_nothing_and_what_comes_after_the_end_are_refused(self, pool):
        with pytest.raises(ValueError, match="a buffer has at least one"):
            pool.allocate(0)
        pool.close()
        with pytest.raises(AllocationError, match="after it was closed"):
            pool.allocate(1)

    def test_a_buffer_that_is_given_back_after_the_end_is_not_kept(self, pool, allocate):
        buffer = allocate(8)
        pool.close()
        pool.deallocate(buffer)
        assert pool.trim() == 0


class TestDriver:
    def test_when_it_has_none_idle_memory_goes_back_and_it_is_asked_again(self, pool, allocate):
        holder = Holder(pool)
        pool.deallocate(allocate(300), [pool.event(["launch"])])
        pool.refusals = ["FULL"]
        buffer, _ = pool.allocate(5000)
        assert buffer.memory == 1
        assert pool.log == ["obtain 512", "let go", "discard 0 after launch", "settle", "obtain 5120"]
        assert holder.times == 1

    @pytest.mark.parametrize(("code", "why"), [("FULL", "the driver has none"), ("ODD", "the driver refused")])
    def test_when_it_refuses_twice_the_error_says_why_and_nothing_is_lost(self, pool, code, why):
        before = pool.free_bytes
        pool.refusals = [code, code]
        with pytest.raises(AllocationError, match=rf"no room for 100 bytes: {why}, {code}; {before} of ") as refused:
            pool.allocate(100)
        assert isinstance(refused.value.__cause__, Fault)
        assert pool.free_bytes == before

    def test_a_lost_device_is_not_asked_again(self, pool):
        pool.refusals = ["GONE"]
        with pytest.raises(DeviceLostError, match="pool list memory: the device is lost, GONE"):
            pool.allocate(100)
        assert not pool.log

    def test_idle_memory_goes_back_before_more_is_obtained_than_there_is(self, pool, allocate):
        pool.deallocate(allocate(pool.capacity_bytes // 2))
        pool.allocate(pool.capacity_bytes // 4 * 3)
        assert pool.log[1] == "discard 0 after nothing"

    def test_trimming_frees_everything_idle_and_says_how_much(self, pool, allocate):
        kept, *others = [allocate(1000) for _ in range(3)]
        for buffer in others:
            pool.deallocate(buffer)
        assert pool.trim() == 2048
        assert pool.thrown_away == [1, 2]
        assert pool.trim() == 0
        assert kept.memory == 0

    def test_holders_are_held_weakly(self, pool):
        Holder(pool)
        gc.collect()
        assert len(pool.holders) == 0


class TestRules:
    def test_events_are_used_up_also_those_behind_one_of_another_pool(self, pool):
        mine, theirs = [pool.event(["launch"]) for _ in range(2)], type(pool)().completed()
        with pytest.raises(InvalidEventError, match="an event of another pool: CompletedEvent"):
            pool.sync_events([mine[0], theirs, mine[1]])
        for event in mine:
            with pytest.raises(InvalidEventError, match="used before"):
                pool.release_events([event])

    def test_events_can_be_had_again(self, pool):
        for event in (pool.event(["launch"]), pool.completed()):
            other = event.again()
            assert type(other) is type(event)
            assert list(pool.take([event])) == list(pool.take([other]))
            with pytest.raises(InvalidEventError):
                pool.take([other])

    def test_no_work_is_complete(self, pool):
        assert isinstance(pool.event([]), CompletedEvent)

    def test_buffers_of_others_are_refused(self, pool, allocate):
        buffer, _ = HostPool("elsewhere", 1 << 20).allocate(8)
        with pytest.raises(InvalidBufferError, match="of pool elsewhere was given to pool list memory"):
            pool.deallocate(buffer)
        mine = allocate(8)
        pool.deallocate(mine)
        with pytest.raises(InvalidBufferError, match="after it was freed"):
            pool.deallocate(mine)

    def test_reads_are_checked(self, pool, allocate):
        buffer = allocate(8)
        with pytest.raises(InvalidBufferError, match="starts at byte -1"):
            pool.pool_to_host(buffer, memoryview(bytearray(1)), (), -1)
        with pytest.raises(InvalidBufferError, match="9 bytes reach past the end"):
            pool.pool_to_host(buffer, memoryview(bytearray(1)), (), 8)
        with pytest.raises(TransferError, match="read-only"):
            pool.pool_to_host(buffer, memoryview(b"x"))


class TestCopies:
    def test_host_memory_is_uploaded_as_it_is_behind_the_work_on_the_target(self, pool, allocate):
        host = HostPool("elsewhere", 1 << 20)
        source, ready = host.allocate(3)
        host.host_to_pool(memoryview(b"abc"), source, [ready])
        pool.log.clear()
        target = allocate(8)
        event = pool.pool_to_pool(source, target, [host.completed()], [pool.event(["launch"])])
        assert pool.log[-1] == "upload abc after launch"
        assert not event.complete_when_made

    @pytest.mark.parametrize("freed", [True, False])
    def test_a_source_that_is_wrong_uses_the_events_of_the_target_up(self, pool, allocate, freed):
        host = HostPool("elsewhere", 1 << 20)
        source, ready = host.allocate(3)
        if freed:
            host.deallocate(source)
        else:
            ready.take()
        behind = pool.event(["launch"])
        with pytest.raises((InvalidBufferError, InvalidEventError)):
            pool.pool_to_pool(source, allocate(8), [ready], [behind])
        with pytest.raises(InvalidEventError):
            pool.take([behind])


def test_what_depends_on_failed_work_fails_likewise_and_names_the_lost_device():
    error = dependent("kernel b", LaunchError("kernel a went wrong"))
    assert str(error) == "kernel b did not run, since work before it failed: kernel a went wrong"
    assert type(error) is LaunchError
    lost = dependent("kernel b", DeviceLostError("gone", "list:0"))
    assert isinstance(lost, DeviceLostError)
    assert lost.place == "list:0"
