"""A device that accepts every kernel and computes nothing, with a memory that keeps nothing.

For the tests of what stands above devices, and for timing it: whatever a program costs on the dummy is not the
device's. Reads give zeros. It is off by default, and is never chosen unless it is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

import msgspec

from zyx import dtype as dtypes
from zyx.backend.device import Argument, Device, Program
from zyx.backend.event import Event, take_all
from zyx.backend.info import DeviceInfo, full_capability
from zyx.backend.pool import MemoryPool, PoolBuffer
from zyx.errors import AllocationError, InvalidEventError
from zyx.ops import reduce_ops
from zyx.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.kernel.data import Kernel

_LARGEST_GRID: Final = (1 << 32) - 1


@dataclass(frozen=True)
class DummyConfig:
    """The section ``backends.dummy``.

    Attributes:
        count: Number of devices, each with a pool of its own.
        pool_bytes: Size of each pool.
    """

    count: Annotated[int, msgspec.Meta(ge=1, le=64)] = 1
    pool_bytes: Annotated[int, msgspec.Meta(ge=1)] = 1 << 40


class DummyEvent(Event):
    """Work that was never done, on the pool `pool`."""

    __slots__ = ("pool",)

    def __init__(self, pool: MemoryPool) -> None:
        super().__init__()
        self.pool = pool

    def again(self) -> DummyEvent:
        return DummyEvent(self.pool)


class DummyPool(MemoryPool):
    """A memory of `capacity_bytes` that only counts."""

    takes_target_events: ClassVar[bool] = True

    def __init__(self, name: str, capacity_bytes: int = 1 << 40) -> None:
        super().__init__(name)
        self.capacity_bytes = capacity_bytes
        self._used_bytes = 0

    @property
    def free_bytes(self) -> int:
        return self.capacity_bytes - self._used_bytes

    def allocate(self, nbytes: int) -> tuple[PoolBuffer, Event]:
        if nbytes <= 0:
            raise ValueError(f"pool {self.name} was asked for {nbytes} bytes; a buffer has at least one")
        if nbytes > self.free_bytes:
            raise AllocationError(
                f"pool {self.name} has no room for {nbytes} bytes: {self.free_bytes} of {self.capacity_bytes} are free"
            )
        self._used_bytes += nbytes
        return PoolBuffer(self, nbytes), self.completed()

    def deallocate(self, buffer: PoolBuffer, events: Sequence[Event] = ()) -> None:
        self.take(events)
        self.check_buffer(buffer)
        buffer.freed = True
        self._used_bytes -= buffer.nbytes

    def host_to_pool(self, source: memoryview, target: PoolBuffer, events: Sequence[Event] = ()) -> Event:
        self.take(events)
        self.check_buffer(target, source.nbytes)
        return self.completed()

    def pool_to_host(
        self, source: PoolBuffer, target: memoryview, events: Sequence[Event] = (), offset: int = 0
    ) -> None:
        self.take(events)
        self.check_read(source, target, offset)
        target.cast("B")[:] = bytes(target.nbytes)

    def completed(self) -> Event:
        return DummyEvent(self)

    def sync_events(self, events: Sequence[Event]) -> None:
        self.take(events)

    def release_events(self, events: Sequence[Event]) -> None:
        self.take(events)

    def close(self) -> None:
        pass  # there is nothing behind it

    def take(self, events: Sequence[Event]) -> None:
        """Use up `events`.

        Raises:
            InvalidEventError: One is of another pool, or was used before.
        """
        take_all(events)
        for event in events:
            if not isinstance(event, DummyEvent) or event.pool is not self:
                raise InvalidEventError(f"pool {self.name} was given a {type(event).__name__} of another pool")


class DummyDevice(Device):
    """Accepts every kernel of every size; checks the buffers of a launch, and does nothing."""

    def __init__(self, name: str, pool: DummyPool) -> None:
        super().__init__(name, pool)
        self._pool = pool
        self._info = DeviceInfo(
            model="zyx dummy",
            driver=f"zyx {__version__}",
            capabilities={
                dtype: full_capability(dtype, lanes=(2, 4, 8, 16), atomic=reduce_ops(dtype)) for dtype in dtypes.ALL
            },
            flops_per_s=20.0 * 2**50,
            bytes_per_s=2.0**50,
            max_groups=(_LARGEST_GRID,) * 3,
            max_group_threads=256 * 256,
            max_group_shape=(256, 256, 1),
            warp_size=32,
            vector_bytes=16,
            registers=256,
            wmma=(((16, 8, 16), dtypes.float16), ((16, 8, 16), dtypes.bfloat16)),
        )

    @property
    def info(self) -> DeviceInfo:
        return self._info

    def pose_as(self, info: DeviceInfo) -> None:
        """Take the record of another device, before anything is planned: kernels are made and scheduled as for it."""
        self._info = info

    def compile(self, kernel: Kernel) -> Program:
        return Program(kernel.name)

    def release(self, program: Program) -> None:
        pass  # a program is a name only

    def launch(self, program: Program, args: Sequence[Argument], events: Sequence[Event] = ()) -> Event:
        self._pool.take(events)
        for argument in args:
            if isinstance(argument, PoolBuffer):
                self._pool.check_buffer(argument)
        return self._pool.completed()

    def close(self) -> None:
        pass  # there is nothing behind it
