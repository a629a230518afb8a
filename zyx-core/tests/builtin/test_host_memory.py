"""The allocator of host memory: what is given back is used again, and little is wasted."""

from itertools import pairwise

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from zyx.builtin import host_memory
from zyx.builtin.host import HostPool
from zyx.builtin.host_memory import ALIGNMENT, HostMemory, small_capacity
from zyx.errors import AllocationError

MIB = 1 << 20
KEEP = 64 * MIB


@given(st.integers(1, 2 * MIB))
def test_a_small_block_is_at_most_a_quarter_too_large_or_within_a_cache_line(nbytes: int) -> None:
    capacity = small_capacity(nbytes)
    assert capacity >= nbytes
    assert capacity % ALIGNMENT == 0
    assert capacity - nbytes < max(ALIGNMENT, nbytes / 4)


def test_there_are_four_size_classes_to_a_power_of_two() -> None:
    assert len({small_capacity(n) for n in range((1 << 15) + 1, (1 << 16) + 1)}) == 4


@given(st.integers(1, 3 * MIB) | st.integers(2 * MIB, 40 * MIB))
def test_memory_given_back_is_the_next_to_be_used(nbytes: int) -> None:
    memory = HostMemory(KEEP)
    first = memory.take(nbytes)
    other = memory.take(nbytes)
    assert first.capacity >= nbytes
    memory.give_back(first)
    assert memory.take(nbytes) is first
    memory.give_back(other)
    memory.give_back(first)
    assert memory.take(nbytes) is first  # the last one given back, which a cache may still hold
    assert memory.statistics.reused == 2
    assert memory.statistics.fresh == 2


def test_large_blocks_start_on_huge_pages_and_small_ones_on_cache_lines() -> None:
    memory = HostMemory(KEEP)
    for nbytes in (2 * MIB, 3 * MIB, 17 * MIB):
        assert memory.take(nbytes).address % (2 * MIB) == 0
    for nbytes in (1, 65, 4097, MIB + 1):
        assert memory.take(nbytes).address % ALIGNMENT == 0


def test_a_large_block_is_used_for_less_only_if_little_is_wasted() -> None:
    memory = HostMemory(KEEP)
    blocks = {size: memory.take(size * MIB) for size in (8, 10, 20)}
    for block in blocks.values():
        memory.give_back(block)
    assert memory.take(9 * MIB) is blocks[10]  # the best fit
    assert memory.take(15 * MIB) not in blocks.values()  # a third would be wasted
    assert memory.take(16 * MIB) is blocks[20]
    assert memory.take(7 * MIB) is blocks[8]


def test_blocks_can_be_written_to_the_last_byte() -> None:
    memory = HostMemory(KEEP)
    blocks = [memory.take(nbytes) for nbytes in (1, 100, 70_000, 3 * MIB)]
    for value, block in enumerate(blocks):
        block.array[:] = value
    for value, block in enumerate(blocks):
        assert (block.array == value).all()
        assert block.address == block.array.ctypes.data


def test_idle_memory_is_bounded_by_what_was_once_in_use() -> None:
    memory = HostMemory(keep_bytes=4 * MIB)
    for size in range(2, 60, 2):  # each a new size that no idle block fits
        block = memory.take(size * MIB)
        memory.give_back(block)
        statistics = memory.statistics
        assert statistics.idle_bytes <= max(4 * MIB, statistics.peak_bytes)


def test_trimming_gives_idle_memory_back_and_keeps_what_is_in_use() -> None:
    memory = HostMemory(KEEP)
    small, large = memory.take(1000), memory.take(10 * MIB)
    small.array[:] = 7
    memory.give_back(memory.take(1000))
    memory.give_back(memory.take(20 * MIB))
    before = memory.statistics.mapped_bytes
    assert memory.trim() == 20 * MIB
    assert memory.statistics.mapped_bytes == before - 20 * MIB
    assert (small.array == 7).all()
    memory.give_back(small)
    memory.give_back(large)
    assert memory.trim() == before - 20 * MIB
    assert memory.statistics.mapped_bytes == memory.statistics.idle_bytes == 0
    assert memory.take(1000).capacity == 1024


def test_an_array_that_somebody_keeps_stays_readable_after_trimming() -> None:
    pool = HostPool(capacity_bytes=KEEP)
    buffer, _ = pool.allocate(4 * MIB)
    kept = buffer.array
    kept[:] = 3
    pool.deallocate(buffer)
    pool.trim()
    assert (kept == 3).all()


def test_the_pool_drops_idle_memory_before_it_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = HostPool(capacity_bytes=KEEP)
    buffer, _ = pool.allocate(8 * MIB)
    pool.deallocate(buffer)
    room = 9 * MIB
    original = host_memory._map

    def scarce(nbytes: int) -> np.ndarray:
        if nbytes + pool._memory.statistics.mapped_bytes > room:
            raise MemoryError("scarce")
        return original(nbytes)

    monkeypatch.setattr(host_memory, "_map", scarce)
    other, _ = pool.allocate(4 * MIB)  # too unlike the idle block to use that, and there is no room beside it
    assert pool.statistics.idle_bytes == 0
    free = pool.free_bytes
    with pytest.raises(AllocationError, match=r"pool host got no memory for \d+ bytes from the system, with \d+ of"):
        pool.allocate(16 * MIB)
    assert pool.free_bytes == free
    pool.deallocate(other)


def test_a_freed_buffer_has_neither_address_nor_bytes() -> None:
    pool = HostPool(capacity_bytes=KEEP)
    buffer, _ = pool.allocate(100)
    assert buffer.extent == (buffer.address, 100)
    pool.deallocate(buffer)
    assert (buffer.extent, buffer.address, buffer.array.nbytes) == ((0, 0), 0, 0)


def test_what_is_kept_counts_as_free() -> None:
    pool = HostPool(capacity_bytes=KEEP)
    buffer, _ = pool.allocate(8 * MIB)
    pool.deallocate(buffer)
    assert pool.free_bytes == KEEP
    assert pool.statistics.idle_bytes == 8 * MIB
    assert pool.trim() == 8 * MIB


class AllocatorMachine(RuleBasedStateMachine):
    """Blocks in use never overlap, hold what was written to them, and the books are right."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = HostMemory(keep_bytes=6 * MIB)
        self.live: list[tuple[host_memory.HostBlock, int]] = []
        self.count = 0

    @rule(nbytes=st.one_of(st.integers(1, 5000), st.integers(MIB, 9 * MIB)))
    def take(self, nbytes: int) -> None:
        block = self.memory.take(nbytes)
        assert block.capacity >= nbytes
        self.count += 1
        block.array[[0, -1]] = self.count % 251
        self.live.append((block, self.count % 251))

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        block, _ = self.live.pop(data.draw(st.integers(0, len(self.live) - 1)))
        self.memory.give_back(block)

    @rule()
    def trim(self) -> None:
        self.memory.trim()

    @invariant()
    def contents_are_kept(self) -> None:
        for block, value in self.live:
            assert block.array[0] == block.array[-1] == value

    @invariant()
    def blocks_are_disjoint(self) -> None:
        spans = sorted((block.address, block.address + block.capacity) for block, _ in self.live)
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))

    @invariant()
    def books_are_right(self) -> None:
        statistics = self.memory.statistics
        assert statistics.used_bytes == sum(block.capacity for block, _ in self.live)
        assert statistics.used_bytes + statistics.idle_bytes <= statistics.mapped_bytes


TestAllocator = AllocatorMachine.TestCase
TestAllocator.settings = settings(max_examples=30, stateful_step_count=30)
