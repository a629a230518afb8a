"""A backend whose two devices do nothing before they must, in memory of their own, so that a missing event is noticed.

Work is put off until somebody waits for it, and then only what it was said to wait for is done before it: an operation
that forgets an event reads what is not there yet. Memory starts as garbage and becomes garbage when it is freed.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.backend import Device, DeviceInfo, Event, MemoryPool, PoolBuffer, Program
from zyx.backend.info import full_capability
from zyx.errors import (
    AllocationError,
    BackendError,
    InvalidBufferError,
    InvalidEventError,
    LaunchError,
    UnsupportedError,
)
from zyx.hookspecs import API_VERSION, BackendInfo, hookimpl
from zyx.kernel.data import Variable
from zyx.kernel.run import Executable
from zyx.runtime.runtime import Runtime, use
from zyx.testing.opening import open_runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CAPACITY = 1 << 22


class Work:
    """Something to do, after some other things; what fails is not done, and neither is what comes after it."""

    def __init__(self, action: Callable[[], None] | None, after: list[Work]) -> None:
        self.action = action
        self.after = after
        self.error: Exception | None = None

    def do(self) -> None:
        stack = [self]
        while stack:
            current = stack[-1]
            waiting = [work for work in current.after if work.action is not None]
            if waiting and current.action is not None:
                stack.extend(waiting)
                continue
            stack.pop()
            current.finish()
        if self.error is not None:
            raise copy.copy(self.error)

    def finish(self) -> None:
        action, self.action = self.action, None
        if action is None:
            return
        self.error = next((work.error for work in self.after if work.error is not None), None)
        if self.error is None:
            try:
                action()
            except BackendError as error:
                self.error = copy.copy(error)  # the frames that it came through hold buffers


class LabEvent(Event):
    complete_when_made: ClassVar[bool] = False

    def __init__(self, work: Work, pool: MemoryPool) -> None:
        super().__init__()
        self.work = work
        self.pool = pool

    def again(self) -> Event | None:
        return LabEvent(self.work, self.pool) if self.pool.gives_events_again else None


class LabBuffer(PoolBuffer):
    """A piece of memory; it `is_gone` once it was freed and the work before that is done."""

    __slots__ = ("array", "is_gone")

    def __init__(self, pool: MemoryPool, nbytes: int) -> None:
        super().__init__(pool, nbytes)
        self.array = np.full(nbytes, 0xA5, np.uint8)
        self.is_gone = False

    def lose(self) -> None:
        self.array[:] = 0x5A
        self.is_gone = True

    def there(self, nbytes: int) -> np.ndarray:
        if self.is_gone:
            raise InvalidBufferError(f"work on {nbytes} bytes of {self.pool.name} was done after they were freed")
        return self.array[:nbytes]


class LabPool(MemoryPool):
    """Memory of `capacity` bytes.

    Attributes:
        copies: Bytes of each copy that was queued, by kind.
        has_direct_path: Whether copies between two pools of this kind do not go through the host.
        gives_events_again: Whether several can wait for one piece of work.
        waits: How often the host waited for work that was not done.
        waits_apart: As in the class; off, for tests that want waits under the runtime's lock.
        before_waiting: Called by whoever waits for work, or reads.
    """

    takes_target_events = True

    def __init__(self, name: str, capacity: int = CAPACITY) -> None:
        super().__init__(name)
        self.capacity = capacity
        self.used = 0
        self.trims = 0
        self.queued: list[Work] = []
        self.copies: list[tuple[str, int]] = []
        self.has_direct_path = True
        self.gives_events_again = True
        self.waits = 0
        self.before_waiting: Callable[[], object] = bool

    @property
    def free_bytes(self) -> int:
        return self.capacity - self.used

    def allocate(self, nbytes: int) -> tuple[PoolBuffer, Event]:
        if nbytes > self.free_bytes:
            raise AllocationError(f"pool {self.name} has no room for {nbytes} bytes: {self.free_bytes} bytes are free")
        self.used += nbytes
        return LabBuffer(self, nbytes), self.completed()

    def deallocate(self, buffer: PoolBuffer, events=()) -> None:
        before = taken(self, events)
        self.check_buffer(buffer)
        buffer.freed = True
        self.used -= buffer.nbytes
        if before:
            self.after(buffer.lose, before)
        else:
            buffer.lose()

    def host_to_pool(self, source: memoryview, target: PoolBuffer, events=()) -> Event:
        self.copies.append(("upload", source.nbytes))

        before = taken(self, events)
        self.check_buffer(target, source.nbytes)

        def do_copy() -> None:
            target.there(source.nbytes)[:] = np.frombuffer(source, np.uint8)

        return self.after(do_copy, before)

    def pool_to_host(self, source: PoolBuffer, target: memoryview, events=(), offset: int = 0) -> None:
        self.sync_events(events)
        self.before_waiting()
        self.check_buffer(source, offset + target.nbytes)
        np.frombuffer(target, np.uint8)[:] = source.array[offset : offset + target.nbytes]

    def pool_to_pool(self, source: PoolBuffer, target: PoolBuffer, events=(), target_events=()) -> Event:
        self.copies.append(("copy", source.nbytes))
        if not isinstance(source, LabBuffer) or not self.has_direct_path:
            return super().pool_to_pool(source, target, events, target_events)
        before = [*taken(source.pool, events), *taken(self, target_events)]
        source.pool.check_buffer(source)
        self.check_buffer(target, source.nbytes)

        def do_copy() -> None:
            target.there(source.nbytes)[:] = source.there(source.nbytes)

        return self.after(do_copy, before)

    def after(self, action: Callable[[], None], others: list[Work]) -> Event:
        work = Work(action, others)
        self.queued.append(work)
        return LabEvent(work, self)

    def completed(self) -> Event:
        return LabEvent(Work(None, []), self)

    def sync_events(self, events) -> None:
        waiting = taken(self, events)
        if waiting:
            self.before_waiting()
        for work in waiting:
            self.waits += work.action is not None
            work.do()

    def release_events(self, events) -> None:
        taken(self, events)

    def synchronize(self) -> None:
        self.before_waiting()
        while self.queued:
            self.queued.pop().do()  # the latest first: what it does not wait for is not done before it

    @property
    def in_flight(self) -> int:
        return sum(work.action is not None for work in self.queued)

    def trim(self) -> int:
        self.trims += 1
        return 0

    def close(self) -> None:
        self.synchronize()


def taken(pool: MemoryPool, events) -> list[Work]:
    for event in events:
        event.take()
    if not all(isinstance(event, LabEvent) and event.pool is pool for event in events):
        raise InvalidEventError(f"pool {pool.name} was given events of another pool")
    return [event.work for event in events]


class LabDevice(Device):
    """Interprets kernels, later.

    Attributes: names of the kernels compiled and launched; `fails_...`, part of the name of one that fails there, with
    `error`.
    """

    def __init__(self, name: str, pool: LabPool) -> None:
        super().__init__(name, pool)
        self.compiled: list[str] = []
        self.launched: list[str] = []
        self.released: list[str] = []
        self.fails_in_compile: str | None = None
        self.fails_in_launch: str | None = None
        self.fails_while_running: str | None = None
        self.error: type[BackendError] = LaunchError
        self._info = DeviceInfo(
            "lab", "0", {dtype: full_capability(dtype) for dtype in dtypes.ALL}, max_group_threads=64,
            max_group_shape=(64, 64, 64), cache_bytes=(1 << 15, 1 << 18),
        )  # fmt: skip

    @property
    def info(self) -> DeviceInfo:
        return self._info

    @property
    def free_compute(self) -> float:
        return self._info.flops_per_s / (1 + self.memory_pool.in_flight)

    def compile(self, kernel) -> Program:
        if self.fails_in_compile is not None and self.fails_in_compile in kernel.name:
            raise UnsupportedError(f"kernel {kernel.name} on {self.name}: not with this device")
        self.compiled.append(kernel.name)
        program = LabProgram(kernel.name)
        program.executable, program.params = Executable(kernel), kernel.params
        return program

    def release(self, program: Program) -> None:
        self.released.append(program.name)

    def launch(self, program: Program, args, events=()) -> Event:
        if self.fails_in_launch is not None and self.fails_in_launch in program.name:
            taken(self.memory_pool, events)
            raise self.error(f"kernel {program.name} on {self.name}: refused")
        self.launched.append(program.name)
        fails = self.fails_while_running is not None and self.fails_while_running in program.name

        before = taken(self.memory_pool, events)
        given = list(zip(args, program.params, strict=True))
        for argument, param in given:
            if not isinstance(param, Variable):
                self.memory_pool.check_buffer(argument, param.length * param.dtype.itemsize)

        def run() -> None:
            if fails:
                raise self.error(f"kernel {program.name} on {self.name}: failed while running")
            program.executable(
                [
                    argument
                    if isinstance(param, Variable)
                    else argument.there(param.length * param.dtype.itemsize).view(param.dtype.numpy)
                    for argument, param in given
                ]
            )

        return self.memory_pool.after(run, before)

    def close(self) -> None:
        pass


class LabProgram(Program):
    __slots__ = ("executable", "params")


class LabBackend:
    @hookimpl
    def zyx_backend_info(self) -> BackendInfo:
        return BackendInfo("lab", "1.0", API_VERSION, "puts everything off")

    @hookimpl
    def zyx_memory_pools(self):
        return [LabPool("lab:0"), LabPool("lab:1")]

    @hookimpl
    def zyx_devices(self, pools):
        return [LabDevice("lab:0", pools["lab:0"]), LabDevice("lab:1", pools["lab:1"])]


@pytest.fixture
def lab() -> Iterator[Runtime]:
    """A runtime of its own, the current one, whose default device is ``lab:0``."""
    runtime = open_runtime("lab:0", [LabBackend()])
    with use(runtime):
        yield runtime
    runtime.close()


@pytest.fixture
def device(lab) -> LabDevice:
    return lab.device("lab:0")


@pytest.fixture
def refuses_numbers(device, monkeypatch) -> None:
    """Let `device` refuse kernels that are given numbers."""
    compile_ = device.compile

    def refuse(kernel):
        if "variable" in str(kernel):
            raise UnsupportedError(f"{device.name} takes no numbers")
        return compile_(kernel)

    monkeypatch.setattr(device, "compile", refuse)


@pytest.fixture
def pool(device) -> LabPool:
    return device.memory_pool
