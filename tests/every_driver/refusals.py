"""A driver that refuses, or has no memory: what is raised, and that everything goes on afterwards.

A module that imports these brings one fixture or both: ``refusing(call, cause)`` lets the driver refuse the next
``launch``, ``upload`` or ``download`` within a ``with`` block, and gives what it calls that; ``scarce`` is a pool, and
a function that lets its driver have no memory for the next so many requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from every_driver.fixtures import COUNT
from every_driver.transfers import download, upload
from zyx.drivers.faults import Cause
from zyx.errors import AllocationError, DeviceLostError, LaunchError, TransferError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from every_driver.fixtures import Card
    from zyx.backend import Device, MemoryPool
    from zyx.kernel.data import Kernel


@pytest.mark.parametrize(
    ("call", "kind", "where"),
    [
        ("launch", LaunchError, "kernel unlucky on {name}:0"),
        ("upload", TransferError, "{name}:0 memory"),
        ("download", TransferError, "{name}:0 memory"),
    ],
)
@pytest.mark.parametrize(
    ("cause", "better"), [(Cause.LOST, DeviceLostError), (Cause.MEMORY, AllocationError), (Cause.REFUSED, None)]
)
def test_a_call_that_the_driver_refuses_is_an_error_of_the_right_kind_and_changes_nothing(
    card: Card, device: Device, pool: MemoryPool, add: Callable[..., Kernel],
    refusing: Callable[[str, Cause], AbstractContextManager[str]],
    call: str, kind: type[Exception], where: str, cause: Cause, better: type[Exception] | None,
):  # fmt: skip
    data = (5).to_bytes(4, "little") * COUNT
    program, buffer = device.compile(add(1, "unlucky")), upload(pool, data)
    calls: dict[str, Callable[[], object]] = {
        "launch": lambda: device.launch(program, [buffer], [pool.completed()]),
        "upload": lambda: pool.host_to_pool(memoryview(bytes(4)), buffer, [pool.completed()]),
        "download": lambda: pool.pool_to_host(buffer, memoryview(bytearray(4))),
    }
    with refusing(call, cause) as said, pytest.raises(better or kind) as refused:
        calls[call]()
    assert where.format(name=card.name) in str(refused.value)
    assert said in str(refused.value)
    assert download(pool, buffer, len(data)) == data
    pool.sync_events([device.launch(program, [buffer])])
    assert download(pool, buffer, len(data)) == (6).to_bytes(4, "little") * COUNT
    pool.deallocate(buffer)


def test_when_the_driver_has_no_memory_what_is_idle_goes_back_and_it_is_asked_again(
    scarce: tuple[MemoryPool, Callable[[int], None]],
):
    pool, refuse = scarce
    pool.deallocate(pool.allocate(1 << 17)[0])
    refuse(1)
    buffer, _ = pool.allocate(1 << 18)
    assert pool.cached_bytes == 0
    free = pool.free_bytes
    refuse(2)
    said = rf"{pool.name} has no room for 5000 bytes: the driver has none.*{free} of"
    with pytest.raises(AllocationError, match=said):
        pool.allocate(5000)
    assert pool.free_bytes == free
    refuse(0)
    pool.deallocate(buffer)
    pool.deallocate(pool.allocate(5000)[0])
    assert pool.free_bytes == free + (1 << 18)
