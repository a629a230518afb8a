"""The pool of host memory."""

import sys
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from zyx.backend import Event
from zyx.builtin.dummy import DummyPool
from zyx.builtin.host import ALIGNMENT, HostBuffer, HostPool, physical_bytes
from zyx.errors import AllocationError, InvalidBufferError, InvalidEventError, TransferError
from zyx.testing.handlers import at_each_line

CAPACITY = 4096


@pytest.fixture
def pool() -> HostPool:
    return HostPool(capacity_bytes=CAPACITY)


def allocated(pool: HostPool, nbytes: int) -> HostBuffer:
    buffer, event = pool.allocate(nbytes)
    pool.sync_events([event])
    return buffer


@pytest.mark.parametrize("nbytes", [1, 3, 63, 64, 65, 1000])
def test_a_buffer_has_the_size_asked_for_and_starts_on_a_cache_line(pool: HostPool, nbytes: int) -> None:
    buffer = allocated(pool, nbytes)
    assert buffer.nbytes == buffer.array.nbytes == nbytes
    assert buffer.address % ALIGNMENT == 0
    assert buffer.address == buffer.array.ctypes.data


def test_free_bytes_falls_and_rises(pool: HostPool) -> None:
    buffer = allocated(pool, 1000)
    assert pool.free_bytes == CAPACITY - 1000
    pool.deallocate(buffer)
    assert pool.free_bytes == CAPACITY


def test_out_of_memory_names_pool_request_and_room_and_changes_nothing(pool: HostPool) -> None:
    buffer = allocated(pool, 4000)
    with pytest.raises(AllocationError, match=r"pool host has no room for 97 bytes: 96 of 4096 bytes are free"):
        pool.allocate(97)
    assert pool.free_bytes == 96
    pool.deallocate(buffer)
    assert allocated(pool, CAPACITY).nbytes == CAPACITY


def test_an_allocation_that_the_system_refuses_is_an_allocation_error() -> None:
    pool = HostPool(capacity_bytes=1 << 62)
    with pytest.raises(AllocationError, match="got no memory"):
        pool.allocate(1 << 61)
    assert pool.free_bytes == 1 << 62


@pytest.mark.parametrize("nbytes", [0, -1])
def test_a_buffer_of_no_bytes_is_refused(pool: HostPool, nbytes: int) -> None:
    with pytest.raises(ValueError, match="at least one"):
        pool.allocate(nbytes)


def test_what_was_uploaded_is_read_back_from_any_offset(pool: HostPool) -> None:
    data = np.arange(100, dtype=np.uint8)
    buffer = allocated(pool, 100)
    event = pool.host_to_pool(memoryview(data), buffer)
    for offset, length in [(0, 100), (0, 1), (37, 20), (100, 0)]:
        target = bytearray(length)
        pool.pool_to_host(buffer, memoryview(target), [event] if offset == 0 and length == 100 else [], offset)
        assert bytes(target) == data.tobytes()[offset : offset + length]


def test_a_view_of_any_dtype_and_shape_can_be_copied(pool: HostPool) -> None:
    data = np.arange(12, dtype=np.float64).reshape(3, 4)
    buffer = allocated(pool, data.nbytes)
    pool.release_events([pool.host_to_pool(memoryview(data), buffer)])
    back = np.empty_like(data)
    pool.pool_to_host(buffer, memoryview(back))
    assert (back == data).all()


def test_double_free_and_use_after_free_are_refused(pool: HostPool) -> None:
    buffer = allocated(pool, 8)
    pool.deallocate(buffer)
    with pytest.raises(InvalidBufferError, match="after it was freed"):
        pool.deallocate(buffer)
    with pytest.raises(InvalidBufferError, match="after it was freed"):
        pool.pool_to_host(buffer, memoryview(bytearray(1)))
    assert pool.free_bytes == CAPACITY


def test_a_buffer_of_another_pool_is_refused(pool: HostPool) -> None:
    stranger = allocated(HostPool("other", CAPACITY), 8)
    with pytest.raises(InvalidBufferError, match="a buffer of pool other was given to pool host"):
        pool.deallocate(stranger)


def test_copies_past_the_end_are_refused(pool: HostPool) -> None:
    buffer = allocated(pool, 8)
    with pytest.raises(InvalidBufferError, match="9 bytes reach past the end of a buffer of 8 bytes"):
        pool.host_to_pool(memoryview(bytes(9)), buffer)
    with pytest.raises(InvalidBufferError, match="9 bytes reach past the end"):
        pool.pool_to_host(buffer, memoryview(bytearray(4)), offset=5)
    with pytest.raises(InvalidBufferError, match="starts at byte -1"):
        pool.pool_to_host(buffer, memoryview(bytearray(4)), offset=-1)


def test_a_target_that_cannot_be_written_is_refused(pool: HostPool) -> None:
    with pytest.raises(TransferError, match="read-only"):
        pool.pool_to_host(allocated(pool, 8), memoryview(b"12345678"))


def test_an_event_is_used_once_also_by_a_call_that_fails(pool: HostPool) -> None:
    buffer = allocated(pool, 8)
    event = pool.completed()
    with pytest.raises(InvalidBufferError):
        pool.host_to_pool(memoryview(bytes(9)), buffer, [event])
    with pytest.raises(InvalidEventError, match="used before"):
        pool.sync_events([event])


def test_an_event_of_another_kind_of_pool_is_refused(pool: HostPool) -> None:
    with pytest.raises(InvalidEventError, match="was given an event of another pool: Event"):
        pool.sync_events([Event()])


def test_a_copy_from_another_pool_lands_in_the_buffer(pool: HostPool) -> None:
    other = DummyPool("dummy:0")
    source, ready = other.allocate(16)
    target = allocated(pool, 32)
    target.array[:] = 7
    pool.sync_events([pool.pool_to_pool(source, target, [ready])])
    assert target.array[:16].tolist() == [0] * 16  # the dummy gives zeros
    assert target.array[16:].tolist() == [7] * 16


def test_a_closed_pool_allocates_nothing(pool: HostPool) -> None:
    pool.close()
    pool.close()
    with pytest.raises(AllocationError, match="after it was closed"):
        pool.allocate(1)


def test_the_size_of_the_machine_is_plausible() -> None:
    assert physical_bytes() >= 1 << 28
    assert HostPool().free_bytes == physical_bytes()


class HostPoolMachine(RuleBasedStateMachine):
    """Random calls on a pool and on a dictionary of bytes must agree."""

    buffers = Bundle("buffers")

    def __init__(self) -> None:
        super().__init__()
        self.pool = HostPool(capacity_bytes=CAPACITY)
        self.model: dict[HostBuffer, bytearray] = {}

    @rule(target=buffers, nbytes=st.integers(1, 2000))
    def allocate(self, nbytes: int) -> HostBuffer | None:
        room = CAPACITY - sum(map(len, self.model.values()))
        if nbytes > room:
            with pytest.raises(AllocationError):
                self.pool.allocate(nbytes)
            return None
        buffer = allocated(self.pool, nbytes)
        buffer.array[:] = 0
        self.model[buffer] = bytearray(nbytes)
        return buffer

    @rule(buffer=buffers, data=st.binary(max_size=64))
    def write(self, buffer: HostBuffer | None, data: bytes) -> None:
        if buffer in self.model and len(data) <= len(self.model[buffer]):
            self.pool.sync_events([self.pool.host_to_pool(memoryview(data), buffer)])
            self.model[buffer][: len(data)] = data

    @rule(buffer=buffers, start=st.floats(0, 1), stop=st.floats(0, 1))
    def read(self, buffer: HostBuffer | None, start: float, stop: float) -> None:
        if buffer in self.model:
            content = self.model[buffer]
            low, high = sorted((int(start * len(content)), int(stop * len(content))))
            target = bytearray(high - low)
            self.pool.pool_to_host(buffer, memoryview(target), offset=low)
            assert target == content[low:high]

    @rule(buffer=consumes(buffers))
    def free(self, buffer: HostBuffer | None) -> None:
        if buffer in self.model:
            self.pool.deallocate(buffer, [self.pool.completed()])
            del self.model[buffer]

    @invariant()
    def free_bytes_are_true(self) -> None:
        assert self.pool.free_bytes == CAPACITY - sum(map(len, self.model.values()))


TestHostPool = HostPoolMachine.TestCase
TestHostPool.settings = settings(stateful_step_count=20)


@pytest.mark.parametrize("nbytes", [100, 2 << 20])
def test_a_handler_of_a_signal_may_use_the_pool_at_any_line_of_its_methods(nbytes: int) -> None:
    pool = HostPool("host", 1 << 30)
    kept: list[HostBuffer] = []

    def use() -> None:
        for _ in range(2):
            buffer, _ = pool.allocate(nbytes)
            buffer.array[:] = 1
            pool.trim()
            pool.deallocate(buffer)

    def handler() -> None:
        buffers = [pool.allocate(size)[0] for size in (nbytes, 3 * nbytes)]
        for buffer in buffers:
            buffer.array[:] = 2
        pool.trim()
        pool.deallocate(buffers.pop(0))
        kept.extend(buffers)
        if len(kept) > 4:
            pool.deallocate(kept.pop(0))

    assert at_each_line(use, handler, "zyx.builtin.host") > 30
    assert all((buffer.array == 2).all() for buffer in kept)
    for buffer in kept:
        pool.deallocate(buffer)
    assert pool.free_bytes == pool.capacity_bytes
    assert pool.statistics.used_bytes == 0
    pool.trim()
    assert pool.statistics.idle_bytes == 0


@pytest.mark.parametrize("nbytes", [100, 2 << 20])
def test_an_exception_at_any_line_leaves_a_pool_that_works(nbytes: int) -> None:
    pool = HostPool("host", 1 << 30)

    def use() -> None:
        with suppress(KeyboardInterrupt):
            buffers = [pool.allocate(size)[0] for size in (nbytes, nbytes, 2 * nbytes)]
            for buffer in buffers:
                pool.deallocate(buffer)
        sys.settrace(None)
        for _ in range(2):
            buffer, _ = pool.allocate(nbytes)
            buffer.array[:] = 1
            pool.deallocate(buffer)

    def handler() -> None:
        raise KeyboardInterrupt

    assert at_each_line(use, handler, "zyx.builtin.host") > 30
