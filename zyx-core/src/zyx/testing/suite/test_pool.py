"""Memory: what is put into a pool comes out again, and what breaks the rules is refused and changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    rule,
    run_state_machine_as_test,
)

from zyx.builtin.host import HostPool
from zyx.errors import AllocationError, BackendError, InvalidBufferError, TransferError

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from hypothesis import settings

    from zyx.backend import MemoryPool, PoolBuffer
    from zyx.runtime.runtime import Runtime


class PoolMachine(RuleBasedStateMachine):
    """Allocates, writes, reads and frees at random, beside a dictionary of bytes that does the same."""

    buffers = Bundle("buffers")
    freed = Bundle("freed")

    def __init__(self, pool: MemoryPool, counts: Counter[str]) -> None:
        super().__init__()
        self.pool = pool
        self.counts = counts
        self.model: dict[PoolBuffer, bytearray] = {}
        self.written: dict[PoolBuffer, int] = {}
        self.foreign, _ = HostPool("elsewhere", 1 << 20).allocate(64)

    @rule(target=buffers, nbytes=st.integers(1, 5000))
    def allocate(self, nbytes: int) -> PoolBuffer:
        before = self.pool.free_bytes
        buffer, event = self.pool.allocate(nbytes)
        self.pool.sync_events([event])
        assert buffer.nbytes == nbytes
        assert buffer.pool is self.pool
        assert not buffer.freed
        assert buffer not in self.model
        assert self.pool.free_bytes <= before - nbytes
        self.model[buffer], self.written[buffer] = bytearray(nbytes), 0
        return buffer

    @rule(target=freed, buffer=consumes(buffers))
    def deallocate(self, buffer: PoolBuffer) -> PoolBuffer:
        before = self.pool.free_bytes
        self.pool.deallocate(buffer)
        self.pool.synchronize()
        assert self.pool.free_bytes >= before + buffer.nbytes
        del self.model[buffer], self.written[buffer]
        return buffer

    @rule(buffer=buffers, data=st.binary(max_size=5000))
    def upload(self, buffer: PoolBuffer, data: bytes) -> None:
        if len(data) > buffer.nbytes:
            with pytest.raises(InvalidBufferError):
                self.pool.host_to_pool(memoryview(data), buffer)
            return
        self.pool.sync_events([self.pool.host_to_pool(memoryview(data), buffer)])
        self.model[buffer][: len(data)] = data
        self.written[buffer] = max(self.written[buffer], len(data))

    @rule(buffer=buffers, start=st.integers(0, 5000), length=st.integers(0, 5000))
    def download(self, buffer: PoolBuffer, start: int, length: int) -> None:
        target = bytearray(length)
        if start + length > buffer.nbytes:
            with pytest.raises(InvalidBufferError):
                self.pool.pool_to_host(buffer, memoryview(target), (), start)
            return
        self.pool.pool_to_host(buffer, memoryview(target), (), start)
        known = self.written[buffer]  # what was never written has no particular value
        assert target[: max(known - start, 0)] == self.model[buffer][start : min(start + length, known)]

    @rule(buffer=freed)
    def use_after_free(self, buffer: PoolBuffer) -> None:
        for use in (
            lambda: self.pool.deallocate(buffer),
            lambda: self.pool.host_to_pool(memoryview(b"x"), buffer),
            lambda: self.pool.pool_to_host(buffer, memoryview(bytearray(1))),
        ):
            with pytest.raises(InvalidBufferError):
                use()

    @rule()
    def use_of_another_pools_buffer(self) -> None:
        for use in (
            lambda: self.pool.deallocate(self.foreign),
            lambda: self.pool.host_to_pool(memoryview(b"x"), self.foreign),
            lambda: self.pool.pool_to_host(self.foreign, memoryview(bytearray(1))),
        ):
            with pytest.raises(InvalidBufferError):
                use()
        assert not self.foreign.freed

    @rule()
    def ask_for_too_much(self) -> None:
        before = self.pool.free_bytes
        with pytest.raises(AllocationError) as refused:
            self.pool.allocate(before + (1 << 62))
        assert self.pool.name in str(refused.value)
        assert str(before + (1 << 62)) in str(refused.value)
        assert self.pool.free_bytes == before

    @rule(target=buffers, buffer=consumes(buffers))
    def copy_from_another_pool(self, buffer: PoolBuffer) -> PoolBuffer:
        other = HostPool("elsewhere", 1 << 20)
        source, event = other.allocate(buffer.nbytes)
        data = np.random.default_rng(buffer.nbytes).bytes(buffer.nbytes)
        other.sync_events([other.host_to_pool(memoryview(data), source, [event])])
        self.pool.sync_events([self.pool.pool_to_pool(source, buffer)])
        other.deallocate(source)
        self.model[buffer][:], self.written[buffer] = data, buffer.nbytes
        return buffer

    @invariant()
    def buffers_keep_their_sizes(self) -> None:
        assert all(buffer.nbytes == len(data) and not buffer.freed for buffer, data in self.model.items())

    def teardown(self) -> None:
        self.counts["histories of a pool"] += 1
        for buffer in self.model:
            self.pool.deallocate(buffer)


def test_a_pool_does_what_a_dictionary_of_bytes_does(
    pool: MemoryPool, profile: settings, examples: Counter[str]
) -> None:
    pool.synchronize()
    before = pool.free_bytes
    machine: Any = lambda: PoolMachine(pool, examples)  # noqa: E731  # hypothesis accepts any function, its types do not
    run_state_machine_as_test(machine, settings=profile)
    pool.synchronize()
    assert pool.free_bytes == before, "not all memory came back"


def test_buffers_do_not_share_memory(pool: MemoryPool) -> None:
    sizes = [1, 3, 63, 64, 65, 255, 256, 257, 4096, 100_003, 3_000_001]
    buffers = []
    for number, nbytes in enumerate(sizes):
        buffer, event = pool.allocate(nbytes)
        pool.sync_events([pool.host_to_pool(memoryview(bytes([number + 1]) * nbytes), buffer, [event])])
        buffers.append(buffer)
    for number, buffer in enumerate(buffers):
        target = bytearray(buffer.nbytes)
        pool.pool_to_host(buffer, memoryview(target))
        assert target == bytes([number + 1]) * buffer.nbytes
        pool.deallocate(buffer)


def test_a_copy_to_another_pool_has_the_same_bytes(pool: MemoryPool) -> None:
    data = np.random.default_rng(1).bytes(10_001)
    source, event = pool.allocate(len(data))
    written = pool.host_to_pool(memoryview(data), source, [event])
    other = HostPool("elsewhere", 1 << 20)
    target, ready = other.allocate(len(data) + 9)
    other.sync_events([ready])
    other.sync_events([other.pool_to_pool(source, target, [written])])
    result = bytearray(len(data))
    other.pool_to_host(target, memoryview(result))
    assert result == data
    pool.deallocate(source)


def test_a_read_into_memory_that_is_read_only_is_refused(pool: MemoryPool) -> None:
    buffer, event = pool.allocate(4)
    pool.sync_events([event])
    with pytest.raises((TransferError, TypeError, ValueError)):
        pool.pool_to_host(buffer, memoryview(b"abcd"))
    pool.deallocate(buffer)


@pytest.mark.parametrize("nbytes", [0, -1])
def test_an_allocation_of_nothing_is_refused(pool: MemoryPool, nbytes: int) -> None:
    before = pool.free_bytes
    with pytest.raises((ValueError, AllocationError)):
        pool.allocate(nbytes)
    assert pool.free_bytes == before


def test_trimming_keeps_what_is_in_use(pool: MemoryPool) -> None:
    buffer, event = pool.allocate(1000)
    pool.sync_events([pool.host_to_pool(memoryview(b"z" * 1000), buffer, [event])])
    assert pool.trim() >= 0
    target = bytearray(1000)
    pool.pool_to_host(buffer, memoryview(target))
    assert target == b"z" * 1000
    pool.deallocate(buffer)


def test_a_pool_that_is_closed_allocates_nothing(open_again: Callable[[], Runtime]) -> None:
    runtime = open_again()
    pool = runtime.device(None).memory_pool
    runtime.close()
    with pytest.raises(BackendError):
        pool.allocate(16)
    pool.close()  # a second time does nothing
