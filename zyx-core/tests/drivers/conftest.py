"""A backend on core's helpers, whose driver is a list: it counts what it is asked for, and does what it is told to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from zyx import dtype as dtypes
from zyx.backend.info import DeviceInfo, full_capability
from zyx.drivers.caching_pool import CachedBuffer, CachingPool
from zyx.drivers.device_program import DeviceProgram
from zyx.drivers.driver_device import DriverDevice
from zyx.drivers.faults import Cause, Fault

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend import Event, PoolBuffer, Program
    from zyx.drivers.arguments import Parameter

_CAUSES = {"GONE": Cause.LOST, "FULL": Cause.MEMORY}


class ListPool(CachingPool[int, str]):
    """Memory is numbers, work is texts.

    Attributes:
        made, thrown_away: Memory that the driver gave, and was given back.
        done: Work that is complete.
        refusals: What the driver answers to the next requests: a code, or nothing if it has memory.
        log: What was done, in order.
    """

    grain_bytes = 4

    def __init__(self, capacity_bytes: int = 1 << 20, max_buffer_bytes: int | None = None) -> None:
        super().__init__("list memory", capacity_bytes, max_buffer_bytes)
        self.made: list[int] = []
        self.thrown_away: list[int] = []
        self.done: set[str] = set()
        self.refusals: list[str] = []
        self.log: list[str] = []

    def obtain(self, nbytes: int) -> int:
        code = self.refusals.pop(0) if self.refusals else ""
        if code:
            fault = Fault(_CAUSES.get(code, Cause.REFUSED), code)
            raise self.refused(fault) from fault
        self.made.append(len(self.made))
        self.log.append(f"obtain {nbytes}")
        return self.made[-1]

    def discard(self, memory: int, work: Sequence[str]) -> None:
        self.log.append(f"discard {memory} after {', '.join(work) or 'nothing'}")
        self.thrown_away.append(memory)

    def settle(self) -> None:
        self.log.append("settle")

    def unfinished(self, work: Sequence[str]) -> Sequence[str]:
        return [name for name in work if name not in self.done]

    def host_to_pool(self, source: memoryview, target: PoolBuffer, events: Sequence[Event] = ()) -> Event:
        behind = self.take(events)
        self.own(target, source.nbytes)
        self.log.append(f"upload {bytes(source).decode()} after {', '.join(behind) or 'nothing'}")
        return self.event(("upload",))

    def pool_to_host(self, source, target, events=(), offset=0) -> None:
        self.take(events)
        self.check_read(source, target, offset)

    def sync_events(self, events: Sequence[Event]) -> None:
        self.done.update(self.take(events))

    def close(self) -> None:
        self._is_open = False
        self.trim()


class ListProgram(DeviceProgram):
    """A program of numbers and buffers."""

    __slots__ = ()

    def __init__(self, name: str, pool: ListPool, parameters: Sequence[Parameter]) -> None:
        super().__init__(name, "", f"kernel {name} on list:0", pool, parameters)


class ListSequence(DeviceProgram):
    """A captured sequence."""

    __slots__ = ()
    is_sequence = True


class ListDevice(DriverDevice[ListProgram]):
    """Launches nothing."""

    def __init__(self, pool: ListPool) -> None:
        super().__init__("list:0", pool, DeviceInfo("list", "0", {dtypes.int32: full_capability(dtypes.int32)}, 6e9))
        self.stops = 0

    @property
    def in_flight(self) -> int:
        return 2

    def compile(self, kernel) -> Program:
        raise NotImplementedError

    def launch(self, program, args, events=()) -> Event:
        raise NotImplementedError

    def stop(self) -> None:
        self.stops += 1


@pytest.fixture
def new_pool() -> type[ListPool]:
    return ListPool


@pytest.fixture
def new_program() -> type[ListProgram]:
    return ListProgram


@pytest.fixture
def pool() -> ListPool:
    return ListPool()


@pytest.fixture
def device(pool: ListPool) -> ListDevice:
    return ListDevice(pool)


@pytest.fixture
def sequence(pool: ListPool) -> ListSequence:
    return ListSequence("two steps", "", "a sequence", pool, ())


@pytest.fixture
def allocate(pool: ListPool):
    """A function that returns a buffer that is ready, of some bytes."""

    def make(nbytes: int) -> CachedBuffer[int]:
        buffer, event = pool.allocate(nbytes)
        pool.sync_events([event])
        return buffer

    return make
