"""Measure the rates of a device (`zyx.backend.rates.Rates`) by kernels written for it, in a few seconds.

    memory           a sum over more than all caches hold, by all units and by one
    caches           sums over half of each cache, again and again, by one unit
    operations       chains of multiply-adds in registers, enough of them side by side; and of exponentials
    launch           a kernel that stores one number
    waking           as much work for each unit as one had before: what it takes longer
    barriers         a loop of nothing but meetings

Each kernel is launched until it has taken some time, and the fastest launch counts: what others do on the machine makes
it slower only.
"""

from __future__ import annotations

import math
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.backend.device import SupportsTiming
from zyx.backend.rates import Rates, assumed_rates
from zyx.errors import BackendError
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.ops import BinaryOp, UnaryOp
from zyx.passes.pipeline import run_passes, standard_passes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.backend import Device, PoolBuffer
    from zyx.backend.info import DeviceInfo
    from zyx.kernel.data import Kernel

_F32: Final = dtypes.float32
_ITEM: Final = 4
#: Seconds that launches of one kernel take together at least, and the fewest launches.
_SECONDS: Final = 0.06
_FEWEST: Final = 5
#: Seconds that a launch should take, so that the launch itself counts little.
_LAUNCH_S: Final = 2e-3
#: Bytes that no cache holds: so many times the last one, within limits.
_TIMES_THE_CACHE: Final = 3
_LEAST_BYTES: Final = 1 << 24
_MOST_BYTES: Final = 1 << 29
#: Values of which each has an accumulator of its own, so that none waits for another.
_CHAINS: Final = 16
#: Groups for each unit of a device with threads, and threads of a group.
_GROUPS_OF_A_UNIT: Final = 8
_THREADS: Final = 256
_BARRIERS: Final = 1000
_MOST_TURNS: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class _Grid:
    """How a kernel is laid out: groups, threads, and lanes of a thread's vectors."""

    groups: int
    threads: int
    lanes: int


def measure_rates(device: Device, progress: Callable[[str, int], None] = lambda name, total: None) -> Rates:
    """Return the rates of a device, measured.

    What cannot be measured, such as on a device without float32, is what is assumed (`assumed_rates`).

    Args:
        device: The device.
        progress: Called when something was measured, with what it is and how many things there are in all.

    Raises:
        BackendError: The device compiles or runs not even the least kernel.
    """
    info = device.info
    assumed = assumed_rates(info)
    measuring = _Measuring(device)
    names = ("flops_per_s", "bytes_per_s", "unit_bytes_per_s", "transcendental", "wake_s", "barrier_s", "group_s")
    rates = {name: getattr(assumed, name) for name in names}
    several: dict[str, Callable[[], float]] = {
        "flops_per_s": measuring.flops_per_s,
        "bytes_per_s": lambda: measuring.memory(all_units=True),
        "unit_bytes_per_s": lambda: measuring.memory(all_units=False),
        "transcendental": measuring.transcendental,
    }
    if info.max_group_threads > 1:
        several["barrier_s"] = measuring.barrier_s
    elif info.units > 1:
        several["wake_s"] = measuring.wake_s
    total = 1 + len(several) + len(info.cache_bytes)
    progress("launch_s", total)
    for name, measured in several.items():
        with suppress(BackendError):
            rates[name] = measured()
        progress(name, total)
    caches = list(assumed.cache_bytes_per_s)
    for level in range(len(info.cache_bytes)):
        with suppress(BackendError):
            caches[level] = measuring.cache(level)
        progress(f"cache {level + 1}", total)
    rates["unit_bytes_per_s"] = min(rates["unit_bytes_per_s"], rates["bytes_per_s"])
    return Rates(**rates, launch_s=measuring.launch_s, cache_bytes_per_s=tuple(caches), is_measured=True)


class _Measuring:
    """Runs kernels on a device."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._info: DeviceInfo = device.info
        self._has_threads = self._info.max_group_threads > 1
        self._lanes = self._info.lanes(_F32)
        self._threads = min(_THREADS, self._info.max_group_threads, self._info.max_group_shape[0])
        self.launch_s = self.seconds(_least(), 1)

    def seconds(self, kernel: Kernel, length: int, least_s: float = _SECONDS) -> float:
        """Return the seconds of the fastest launch of a kernel of one buffer, of so many float32."""
        device = self._device
        pool = device.memory_pool
        program = device.compile(run_passes(kernel, standard_passes(self._info)))
        buffer, event = pool.allocate(length * _ITEM)
        try:
            pool.sync_events([pool.host_to_pool(memoryview(bytes(length * _ITEM)), buffer, [event])])
            times: list[float] = []
            while len(times) < _FEWEST or sum(times) < least_s:
                times.append(_timed(device, program, [buffer]))
            return max(min(times), 1e-9)
        finally:
            pool.deallocate(buffer)
            device.release(program)

    def flops_per_s(self) -> float:
        """Return the float32 operations of all units."""
        grid = self._grid(all_units=True)
        seconds, turns = self._turns(lambda turns: _chains(grid, turns, exponential=False), _length(grid))
        return 2.0 * turns * _CHAINS * grid.lanes * grid.threads * grid.groups / seconds

    def transcendental(self) -> float:
        """Return how many multiply-adds take as long as an exponential."""
        grid = self._grid(all_units=False)
        plain, turns = self._turns(lambda turns: _chains(grid, turns, exponential=False), _length(grid))
        slow, fewer = self._turns(lambda turns: _chains(grid, turns, exponential=True), _length(grid))
        return max(1.0, slow / fewer / (plain / turns))

    def memory(self, *, all_units: bool) -> float:
        """Return the bytes/s of main memory."""
        info = self._info
        grid = self._grid(all_units=all_units)
        wanted = _TIMES_THE_CACHE * max(info.cache_bytes, default=0)
        nbytes = min(max(wanted, _LEAST_BYTES), _MOST_BYTES, info.max_buffer_bytes)
        turns = max(1, nbytes // _ITEM // (_length(grid) * _CHAINS))
        seconds = self.seconds(_sums(grid, turns, 1), turns * _CHAINS * _length(grid))
        return turns * _CHAINS * _length(grid) * _ITEM / seconds

    def cache(self, level: int) -> float:
        """Return the bytes/s of a cache, for one unit."""
        grid = self._grid(all_units=False)
        step = _CHAINS * _length(grid)
        turns = max(1, self._info.cache_bytes[level] // 2 // _ITEM // step)
        seconds, again = self._turns(lambda again: _sums(grid, turns, again), turns * step)
        return turns * step * again * _ITEM / seconds

    def wake_s(self) -> float:
        """Return what it takes longer to give each unit as much as one had."""
        one, all_ = self._grid(all_units=False), self._grid(all_units=True)
        alone, turns = self._turns(lambda turns: _chains(one, turns, exponential=False), _length(one), _LAUNCH_S / 10)
        together = self.seconds(_chains(all_, turns, exponential=False), _length(all_))
        return max(0.0, together - alone * all_.groups / self._info.units)

    def barrier_s(self) -> float:
        """Return the seconds of a meeting of the threads of a group."""
        times = [self.seconds(_meetings(self._threads, count), self._threads) for count in (1, _BARRIERS)]
        return max(0.0, times[1] - times[0]) / (_BARRIERS - 1)

    def _grid(self, *, all_units: bool) -> _Grid:
        if not self._has_threads:
            return _Grid(self._info.units if all_units else 1, 1, self._lanes)
        return _Grid(_GROUPS_OF_A_UNIT * self._info.units if all_units else 1, self._threads, self._lanes)

    def _turns(self, kernel_of: Callable[[int], Kernel], length: int, wanted_s: float = _LAUNCH_S) -> tuple[float, int]:
        """Return the seconds of a kernel that takes about as long as wanted, beyond its launch, and its turns."""
        turns = 64
        while True:
            seconds = self.seconds(kernel_of(turns), length, 0.0)
            if seconds >= wanted_s / 2 or turns >= _MOST_TURNS:
                seconds = self.seconds(kernel_of(turns), length)
                return max(seconds - self.launch_s, 1e-9), turns
            turns = min(_MOST_TURNS, max(2 * turns, math.ceil(turns * min(64.0, wanted_s / seconds))))


def _timed(device: Device, program: object, args: Sequence[PoolBuffer]) -> float:
    if isinstance(device, SupportsTiming):
        return device.timed_launch(program, args)  # type: ignore[arg-type]  # what the device compiled
    started = time.perf_counter()
    device.memory_pool.sync_events([device.launch(program, args)])  # type: ignore[arg-type]  # as above
    return time.perf_counter() - started


# ---- kernels of one buffer, in which each thread of each group stores a vector in the end


def _length(grid: _Grid) -> int:
    return grid.groups * grid.threads * grid.lanes


def _least() -> Kernel:
    b = Builder()
    array = b.define(k.Memory.GLOBAL, _F32, 1)
    b.store(array, b.const(0, dtypes.int64), b.const(1.0, _F32))
    return b.finish("least")


class _Threads:
    """A kernel being written: its buffer, and where this thread's vectors lie."""

    def __init__(self, grid: _Grid, length: int) -> None:
        self.b = b = Builder()
        self.grid = grid
        self.array = b.define(k.Memory.GLOBAL, _F32, length)
        self.sums = b.define(k.Memory.REGISTER, _F32, _CHAINS, lanes=grid.lanes)
        self._group = b.index(k.Axis.GROUP, 0, grid.groups)
        self._thread = self.times(b.index(k.Axis.LOCAL, 0, grid.threads), grid.lanes) if grid.threads > 1 else None
        for number in range(_CHAINS):
            b.store(self.sums, self.number(number), b.const(0.5 + number / 64, _F32, grid.lanes))

    def place(self, vectors: int) -> int:
        """Return where the first of so many vectors of this thread lies, if those of a group lie side by side."""
        of_group = self.times(self._group, vectors * self.grid.threads * self.grid.lanes)
        return of_group if self._thread is None else self.add(of_group, self._thread)

    def number(self, value: int) -> int:
        return self.b.const(value, dtypes.int64)

    def add(self, x: int, y: int) -> int:
        return self.b.binary(BinaryOp.ADD, x, y)

    def times(self, x: int, factor: int) -> int:
        return self.b.binary(BinaryOp.MUL, x, self.number(factor))

    def sum(self, number: int) -> int:
        return self.b.load(self.sums, self.number(number), self.grid.lanes)

    def finish(self, name: str) -> Kernel:
        """Store the sum of all accumulators."""
        total = self.sum(0)
        for number in range(1, _CHAINS):
            total = self.add(total, self.sum(number))
        self.b.store(self.array, self.place(1), total)
        return self.b.finish(name)


def _chains(grid: _Grid, turns: int, *, exponential: bool) -> Kernel:
    """Return a kernel in which each accumulator is multiplied and added to, or raised, once a turn."""
    threads = _Threads(grid, _length(grid))
    b = threads.b
    factor, more = b.const(0.999, _F32, grid.lanes), b.const(0.001, _F32, grid.lanes)
    b.loop(turns)
    for number in range(_CHAINS):
        x = threads.sum(number)
        new = b.unary(UnaryOp.EXP2, b.unary(UnaryOp.NEG, x)) if exponential else b.mad(x, factor, more)
        b.store(threads.sums, threads.number(number), new)
    b.end_loop()
    return threads.finish("exponentials" if exponential else "multiply_adds")


def _sums(grid: _Grid, turns: int, again: int) -> Kernel:
    """Return a kernel that reads its buffer again and again, a group the vectors of a stretch of its own."""
    step = grid.threads * grid.lanes
    threads = _Threads(grid, turns * _CHAINS * _length(grid))
    b = threads.b
    b.loop(again)
    turn = b.loop(turns)
    first = threads.times(turn, _CHAINS * step)
    for number in range(_CHAINS):
        at = threads.add(first, threads.number(number * step))
        x = b.load(threads.array, threads.add(threads.place(turns * _CHAINS), at), grid.lanes)
        b.store(threads.sums, threads.number(number), threads.add(threads.sum(number), x))
    b.end_loop()
    b.end_loop()
    return threads.finish("sums")


def _meetings(threads: int, count: int) -> Kernel:
    """Return a kernel in which the threads of a group meet so many times."""
    b = Builder()
    array = b.define(k.Memory.GLOBAL, _F32, threads)
    shared = b.define(k.Memory.LOCAL, _F32, threads)
    b.index(k.Axis.GROUP, 0, 1)
    thread = b.index(k.Axis.LOCAL, 0, threads)
    b.store(shared, thread, b.const(1.0, _F32))
    b.loop(count)
    b.barrier()
    b.end_loop()
    b.store(array, thread, b.load(shared, thread))
    return b.finish("meetings")
