"""From bytes and instructions to seconds.

    seconds = launch + short streams + longest + rest * (all others)     of instructions and of each level of memory

Each level takes its bytes at its rate; instructions take turns in each unit, or wait for each other where accumulators
are few. What takes longest hides most of the others. Units work at the same time, as far as there are groups for all.

What fits a cache as a whole is taken to be there already when a kernel starts: the kernel before it left it there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from zyx.backend.rates import rates_of
from zyx.estimate.layout import ScheduledNest
from zyx.estimate.streams import short_streams
from zyx.estimate.traffic import Traffic
from zyx.estimate.work import work_of
from zyx.lowering.arrays import local_bytes

if TYPE_CHECKING:
    from zyx.backend.info import DeviceInfo
    from zyx.backend.rates import Rates
    from zyx.estimate.work import Work
    from zyx.nest.data import Nest

#: Bytes that move at a time: lines of processors, sectors of devices with threads.
_LINE_BYTES: Final = 64
_SECTOR_BYTES: Final = 32
#: Bytes of a line of the first cache of devices with threads: it takes one at a time, however little is asked of it.
_TAGGED_BYTES: Final = 128
#: Places that caches of processors have for a line, of most: 8 to 16.
_WAYS: Final = 8
#: Threads of a unit that hide what each of them waits for; and 32-bit registers for each thread of the largest group.
_BUSY: Final = 512
_REGISTERS_OF_A_THREAD: Final = 64
#: Vector registers that a processor needs for operands, beside accumulators.
_OPERANDS: Final = 4
#: Registers that a thread takes beside its accumulators.
_OTHER_REGISTERS: Final = 24
#: A kernel has too few groups if it would take less than this part of its time with as many as there are units.
_TOO_FEW: Final = 0.75


@dataclass(frozen=True, slots=True)
class CostWeights:
    """What instructions take, in simple operations on whole vectors, and how times add up.

    Attributes:
        vector, scalar, fused, division, load, store, lane, address, mask, turn, swap, atomic, product: One instruction
            of that kind (`zyx.estimate.work.Work`).
        transcendental: The same, of what a transcendental function takes by `Rates`.
        latency: An update of an accumulator, until the next one can begin.
        spill: An accumulator for which there is no register, each time that it is updated.
        apart: Times that a line from memory takes if it is far from the one before.
        cached: Times that a line from a cache takes: less than 1 if what is fetched ahead hides some of it.
        write: Times that a line takes which is written and kept in a cache: it is read first, and goes back later.
        passing: Times that one takes which is written past the caches.
        start: Lines of memory in whose time the first ones of a short stream come.
        rest: The part of what does not take longest that is not hidden behind it.
    """

    vector: float = 1.0
    scalar: float = 0.4
    fused: float = 1.0
    division: float = 6.0
    transcendental: float = 1.0
    load: float = 0.6
    store: float = 1.0
    lane: float = 1.5
    address: float = 2.0
    mask: float = 1.0
    turn: float = 0.6
    swap: float = 2.0
    atomic: float = 20.0
    product: float = 0.06
    latency: float = 4.0
    spill: float = 2.0
    apart: float = 2.0
    cached: float = 1.0
    write: float = 1.5
    passing: float = 1.0
    start: float = 0.0
    rest: float = 0.3


#: Of devices with threads, whose vectors they are; only the latency was fitted, to 186 drawn nests on an H100.
CARDS: Final = CostWeights(scalar=1.0, latency=4800.0)
#: Of processors, fitted by ``benchmarks/fit_schedules.py``; the latency by picks among schedules of 62 other nests, the
#: start of streams to rows of 512 to 2048 bytes, of which four at a time took 60 ns more for each, at 27 GB/s.
PROCESSORS: Final = CostWeights(
    vector=0.291, scalar=0.149, fused=0.291, division=1.12, transcendental=0.727, load=0.48, store=0.5, lane=0.518,
    address=1.6, mask=0.727, turn=0.241, latency=2.0, apart=1.86, cached=0.4, write=0.192, start=25.0,
)  # fmt: skip


def weights_of(info: DeviceInfo) -> CostWeights:
    """Return the weights for a device."""
    return PROCESSORS if info.max_group_threads == 1 else CARDS


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a kernel of a nest is expected to take.

    Attributes:
        bytes: Bytes that come to each cache from behind it, and what is written back, by the name of where they come
            from: ``cache 2``, ``cache 3`` and so on, and ``main memory``. Caches are empty at first.
        instructions: By kind, of all threads; see `zyx.estimate.work.Work`.
        groups: Groups of threads.
        threads: Threads of a group.
        waves: How often all units take as many groups as they can have at a time, until none is left.
        barriers: Meetings of threads, of all groups.
        launches: Kernels that are launched: 1.
        seconds: From the launch until it is done, if nothing else runs.
        times: Seconds of each part, by what bounds it, as if there were nothing else.
        bound: What takes longest: ``main memory``, ``cache 2`` and so on, ``operations``, ``dependent operations``,
            ``barriers``, ``short streams``, ``launch``, or ``too few groups``.
    """

    bytes: dict[str, float]
    instructions: dict[str, float]
    groups: int
    threads: int
    waves: int
    barriers: float
    launches: int
    seconds: float
    times: dict[str, float]
    bound: str


@dataclass(frozen=True, slots=True)
class Level:
    """What comes from a level of memory.

    Attributes:
        name: Such as ``cache 2``.
        nbytes: What comes from it to be read.
        nbytes_apart: How much of that is in lines far apart.
        nbytes_written: What is written there; of processors, what is read before that.
        nbytes_passing: What is written there past the caches.
        is_needed: Whether the level nearer to the units cannot hold all that the kernel touches.
        is_shared: Whether all units share it.
    """

    name: str
    nbytes: float
    nbytes_apart: float
    nbytes_written: float
    nbytes_passing: float
    is_needed: bool
    is_shared: bool

    @property
    def moved(self) -> float:
        """All bytes that come or go."""
        return self.nbytes + 2 * self.nbytes_written + self.nbytes_passing


@dataclass(frozen=True, slots=True)
class Facts:
    """What an estimate counts, before any rate comes in.

    Attributes:
        info: The device.
        work: The instructions.
        levels: From the second cache to main memory; of devices with threads from the first one.
        groups, threads: Of the grid, and of a group.
        resident: Groups that a unit has at the same time.
        streams: Short streams that begin, of what is read; none of devices with threads.
    """

    info: DeviceInfo
    work: Work
    levels: tuple[Level, ...]
    groups: int
    threads: int
    resident: int
    streams: float


def estimate(nest: Nest, info: DeviceInfo, weights: CostWeights | None = None) -> Estimate:
    """Return how long a kernel of the nest takes on a device, and why.

    Args:
        nest: With its schedule.
        info: The device; its rates, if they were measured, are those of the estimate.
        weights: What instructions take; by default what was fitted.

    Raises:
        ScheduleError: There is no kernel of the nest, since kinds of ranges do not go together.
    """
    return timed(facts_of(nest, info), rates_of(info), weights or weights_of(info))


def estimate_below(nest: Nest, info: DeviceInfo, seconds: float) -> Estimate | None:
    """Return the estimate of a nest, or None if its instructions alone take so long: memory is not looked at then.

    Raises:
        ScheduleError: As `estimate` does.
    """
    rates, weights = rates_of(info), weights_of(info)
    layout = ScheduledNest(nest)
    facts = _facts_of_work(layout, info)
    is_too_long = seconds < math.inf and timed(facts, rates, weights).seconds >= seconds
    return None if is_too_long else timed(_with_memory(facts, layout), rates, weights)


def facts_of(nest: Nest, info: DeviceInfo) -> Facts:
    """Count what the kernel of a nest does.

    Raises:
        ScheduleError: There is none.
    """
    layout = ScheduledNest(nest)
    return _with_memory(_facts_of_work(layout, info), layout)


def _facts_of_work(layout: ScheduledNest, info: DeviceInfo) -> Facts:
    """Count instructions, and nothing that is moved."""
    work = work_of(layout, info)
    return Facts(info, work, (), layout.group_count, layout.threads, _resident(layout, work, info), 0.0)


def _with_memory(facts: Facts, layout: ScheduledNest) -> Facts:
    """Count what is moved, too."""
    info = facts.info
    if weights_of(info) is CARDS:
        return replace(facts, levels=_levels_of_threads(layout, info, facts.resident))
    streams = short_streams(layout, _LINE_BYTES, (info.cache_bytes or (0,))[0])
    return replace(facts, levels=_levels(layout, info), streams=streams)


def _levels(layout: ScheduledNest, info: DeviceInfo) -> tuple[Level, ...]:
    """Return the levels of a processor, whose units have caches of their own but for the last one."""
    traffic = Traffic(layout, _LINE_BYTES, _WAYS)
    written, passing = traffic.stored(streaming=False), traffic.stored(streaming=True)
    whole = traffic.touched()
    levels = []
    caches = info.cache_bytes or (0,)
    for number, capacity in enumerate(caches):
        is_last = number == len(caches) - 1
        past = passing if is_last else 0.0
        needed = whole > capacity or past > 0
        nbytes, apart = traffic.into(capacity) if needed else (whole, 0.0)
        stored = min(written, nbytes)
        name = "main memory" if is_last else f"cache {number + 2}"
        read = nbytes - stored
        levels.append(Level(name, read, min(read, apart), stored, past, needed, is_last))
    return tuple(levels)


def _levels_of_threads(layout: ScheduledNest, info: DeviceInfo, resident: int) -> tuple[Level, ...]:
    """Return the levels of a device with threads: the sectors of all accesses, what the first cache lacks, memory."""
    traffic = Traffic(layout, _SECTOR_BYTES)
    written = traffic.stored(streaming=False) + traffic.stored(streaming=True)
    whole = traffic.touched()
    warp = info.warp_size
    stored = traffic.bytes_of_warps(warp, _SECTOR_BYTES, stores=True, each=True)
    sectors = traffic.bytes_of_warps(warp, _SECTOR_BYTES, stores=False, each=False) + stored
    lines = sum(traffic.bytes_of_warps(warp, _TAGGED_BYTES, stores=stores, each=True) for stores in (False, True))
    levels = []
    if len(info.cache_bytes) > 1:
        near, apart = traffic.into(info.cache_bytes[0] / resident, of_group=True)
        groups = layout.group_count
        levels.append(Level("cache 1", lines, 0.0, 0.0, 0.0, True, False))
        # Stores pass the first cache, each by itself.
        nbytes, apart = min(sectors, near * groups + max(0.0, stored - written)), min(sectors, apart * groups)
        levels.append(Level("cache 2", nbytes, apart, 0.0, 0.0, True, False))
    else:
        levels.append(Level("cache 1", lines, 0.0, 0.0, 0.0, True, False))
    last = info.cache_bytes[-1] if info.cache_bytes else 0
    nbytes, apart = traffic.into(last)
    nbytes = max(0.0, min(sectors, nbytes) - written)
    levels.append(Level("main memory", nbytes, min(nbytes, apart), 0.0, written, whole > last, True))
    return tuple(levels)


def _resident(layout: ScheduledNest, work: Work, info: DeviceInfo) -> int:
    """Return how many groups a unit has at a time: by threads, registers and local memory; of a processor one."""
    if weights_of(info) is PROCESSORS:
        return 1
    most_threads = 2 * info.max_group_threads
    registers = _REGISTERS_OF_A_THREAD * info.max_group_threads
    of_group = layout.threads * min(work.live + _OTHER_REGISTERS, max(1, info.registers))
    found = [most_threads // layout.threads, registers // of_group]
    local = local_bytes(layout.nest)
    if local:
        found.append(max(info.local_bytes, (info.cache_bytes or (0,))[0]) // local)
    return max(1, min(found))


def timed(facts: Facts, rates: Rates, weights: CostWeights) -> Estimate:
    """Return the estimate of what was counted."""
    info, work = facts.info, facts.work
    active = facts.groups / math.ceil(facts.groups / info.units)  # the last of them have few groups, or none
    alone = _times(facts, rates, weights, 1.0)
    times = _times(facts, rates, weights, active)
    seconds = _together(times, weights)
    by_one = _together(alone, weights)
    if active > 1 and by_one <= seconds + rates.wake_s:
        active, times, seconds = 1.0, alone, by_one  # nobody is woken for so little
    elif active > 1:
        seconds += rates.wake_s
        times["launch"] += rates.wake_s
    with_all = _together(_times(facts, rates, weights, float(info.units)), weights)
    has_few = facts.groups < info.units and with_all < _TOO_FEW * _together(times, weights)
    is_few = has_few and seconds > rates.wake_s
    bound = "too few groups" if is_few else max(times, key=times.__getitem__)
    at_a_time = info.units * facts.resident
    return Estimate(
        bytes={level.name: level.moved for level in facts.levels},
        instructions=work.instructions,
        groups=facts.groups,
        threads=facts.threads,
        waves=math.ceil(facts.groups / at_a_time),
        barriers=work.barriers,
        launches=1,
        seconds=seconds,
        times=times,
        bound=bound,
    )


def _times(facts: Facts, rates: Rates, weights: CostWeights, active: float) -> dict[str, float]:
    """Return the seconds of each part while so many units are at work."""
    info, work = facts.info, facts.work
    has_threads = info.max_group_threads > 1
    lanes = 1.0 if has_threads else max(1.0, info.vector_bytes / 4)
    operation_s = 2 * lanes * info.units / rates.flops_per_s  # of one unit: a simple one on a whole vector
    slots = 0.0
    for kind, amount in work.instructions.items():
        slots += amount * getattr(weights, kind) * (rates.transcendental if kind == "transcendental" else 1.0)
    slots = max(slots, work.instructions.get("fused", 0.0))  # of which the device has no more than its rate
    room = max(1, info.registers - _OPERANDS) if not has_threads else info.registers
    if work.live > room:
        slots += work.instructions.get("vector", 0.0) * weights.spill * (1 - room / work.live)
    busy = 1.0
    if has_threads:
        at_work = min(facts.resident, math.ceil(facts.groups / info.units)) * facts.threads
        busy = min(1.0, at_work / _BUSY)
    times = {"launch": rates.launch_s, "operations": slots * operation_s / active / busy}
    chain_s = work.chain * weights.latency * operation_s / active
    times["dependent operations"] = chain_s / max(1, at_work) * lanes if has_threads else chain_s
    times["barriers"] = work.barriers * rates.barrier_s / active / facts.resident
    times["groups"] = facts.groups * rates.group_s / active
    if facts.streams:
        times["short streams"] = facts.streams * weights.start * _LINE_BYTES / (active * rates.unit_bytes_per_s)
    for number, level in enumerate(facts.levels):
        if not level.is_needed:
            continue
        nbytes = level.nbytes + (weights.apart - 1) * level.nbytes_apart
        nbytes += weights.write * level.nbytes_written + weights.passing * level.nbytes_passing
        if level.is_shared:
            rate = min(rates.bytes_per_s, active * rates.unit_bytes_per_s)
        else:
            caches = rates.cache_bytes_per_s
            place = number if has_threads else number + 1
            rate = active * caches[min(place, len(caches) - 1)] / weights.cached
        times[level.name] = nbytes / rate / busy
    return times


def _together(times: dict[str, float], weights: CostWeights) -> float:
    """Return the seconds of all: a launch, and what a stream begins with, are waited for, others hide each other."""
    waited_for = {name: seconds for name, seconds in times.items() if name in ("launch", "short streams")}
    own = [seconds for name, seconds in times.items() if name not in waited_for]
    longest = max(own)
    return sum(waited_for.values()) + longest + weights.rest * (sum(own) - longest)
