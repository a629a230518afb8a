"""The device that does nothing."""

import pytest

from zyx import dtype as dtypes
from zyx import ops
from zyx.builtin.dummy import DummyDevice, DummyPool
from zyx.errors import AllocationError, InvalidBufferError, InvalidEventError
from zyx.kernel.data import Kernel


@pytest.fixture
def device() -> DummyDevice:
    return DummyDevice("dummy:0", DummyPool("dummy:0"))


def test_it_claims_every_operation_of_every_dtype(device: DummyDevice) -> None:
    for dtype in dtypes.ALL:
        capability = device.info.capabilities[dtype]
        assert capability.unary == ops.unary_ops(dtype)
        assert capability.binary == ops.binary_ops(dtype)
    assert device.info is device.info


def test_its_memory_counts_and_keeps_nothing(device: DummyDevice) -> None:
    pool = device.memory_pool
    total = pool.free_bytes
    assert total == 1 << 40
    buffer, event = pool.allocate(1 << 39)
    assert pool.free_bytes == total - (1 << 39)
    event = pool.host_to_pool(memoryview(b"abc"), buffer, [event])
    target = bytearray(b"xyz")
    pool.pool_to_host(buffer, memoryview(target), [event])
    assert target == bytes(3)
    with pytest.raises(AllocationError, match=r"pool dummy:0 has no room for 1099511627776 bytes: 549755813888 of"):
        pool.allocate(1 << 40)
    pool.deallocate(buffer)
    assert pool.free_bytes == total
    with pytest.raises(InvalidBufferError):
        pool.deallocate(buffer)


def test_it_launches_anything_but_checks_who_owns_what(device: DummyDevice) -> None:
    program = device.compile(Kernel("anything", ()))
    assert program.name == "anything"
    buffer, event = device.memory_pool.allocate(8)
    event = device.launch(program, [buffer, 3], [event])
    device.memory_pool.sync_events([event])
    with pytest.raises(InvalidEventError, match="used before"):
        device.launch(program, [buffer], [event])
    stranger, event = DummyPool("dummy:1").allocate(8)
    with pytest.raises(InvalidBufferError, match="a buffer of pool dummy:1 was given to pool dummy:0"):
        device.launch(program, [stranger])
    with pytest.raises(InvalidEventError, match="another pool"):
        device.memory_pool.sync_events([event])
    device.release(program)
    device.close()
