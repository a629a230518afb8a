"""What the launches of a stretch of a program took, beside what they were expected to take.

While a profile is under way, every launch runs by itself and is waited for, so that its time is its own: what is
captured as one, and work that would have gone on at the same time, takes longer than it does otherwise. Times are the
device's own where it has a clock.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections import deque
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from zyx.backend.device import SupportsTiming
from zyx.errors import ScheduleError
from zyx.estimate import estimate
from zyx.runtime.plan import LaunchStep
from zyx.schedule import fallback

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

    from zyx.backend import Argument, Device, Event, Program
    from zyx.estimate import Estimate
    from zyx.graph.host_call import HostCall
    from zyx.ir.kernel import Kernel
    from zyx.ir.nest import Nest
    from zyx.runtime.host_step import HostStep

#: Launches of a program whose times are kept, for the median.
_MOST_TIMES: Final = 1001


@dataclass(frozen=True, slots=True)
class KernelTime:
    """What the launches of one program took.

    Attributes:
        name: The program's name.
        device: Where it ran.
        what: What it computes: the last statement of its nest, or empty where there is none, as of a library's.
        launches: How many there were.
        seconds: All of them together.
        measured_s: The median of them.
        expected_s: What one was expected to take; None of what has no nest, or was compiled before.
        ratio: `measured_s` over `expected_s`.
        bound: What it was expected to wait for most; see `zyx.estimate.Estimate`.
        bytes: What one moves from and to main memory by the estimate, or the size of its buffers where there is none.
        levels: Bytes by level of memory, by the estimate.
        instructions: By kind, by the estimate.
        groups: Of one launch, by the estimate.
        is_generated: Whether it is a kernel of ours, not a library's.
        is_host: Whether it is a function of the host, such as NumPy's LAPACK; its copies are in the time.
    """

    name: str
    device: str
    what: str
    launches: int
    seconds: float
    measured_s: float
    expected_s: float | None
    ratio: float | None
    bound: str
    bytes: float
    levels: dict[str, float]
    instructions: dict[str, float]
    groups: int
    is_generated: bool
    is_host: bool


class PassTime(NamedTuple):
    """What a pass over kernels took: how often it ran, and the seconds of all runs together."""

    name: str
    calls: int
    seconds: float


@dataclass(slots=True)
class _Launches:
    """Those of one program."""

    step: LaunchStep | HostStep
    count: int = 0
    seconds: float = 0.0
    times: deque[float] = field(default_factory=lambda: deque(maxlen=_MOST_TIMES))


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a program came from: nests that run side by side, and the number of their schedule."""

    nests: tuple[Nest, ...]
    device: Device
    schedule: int


class Profile:
    """Times launches, by program; iterate over it, or print it, when the stretch is over."""

    def __init__(self) -> None:
        self._launches: dict[Program | HostCall, _Launches] = {}
        self._sources: dict[Future[Program], _Source] = {}
        self._passes: dict[str, list[float]] = {}
        self._noting = threading.Lock()

    def started(self, future: Future[Program], nests: Sequence[Nest], device: Device, schedule: int) -> None:
        """Note what a program is made from."""
        self._sources[future] = _Source(tuple(nests), device, schedule)

    def passed(self, name: str, before: Kernel, after: Kernel, seconds: float) -> None:
        """Note what a pass over a kernel took; threads that compile call it."""
        with self._noting:
            self._passes.setdefault(name, []).append(seconds)

    def passes(self) -> list[PassTime]:
        """Return the passes over kernels that were timed, those that took most time first; see `zyx.profile`."""
        with self._noting:
            rows = [PassTime(name, len(times), sum(times)) for name, times in self._passes.items()]
        return sorted(rows, key=lambda row: -row.seconds)

    def launch(self, step: LaunchStep, args: Sequence[Argument], events: Sequence[Event]) -> Event:
        """Launch, wait, and note the time; return an event in place of its own."""
        device, pool = step.device, step.device.memory_pool
        pool.sync_events(events)
        if isinstance(device, SupportsTiming):
            seconds = device.timed_launch(step.program, args)
        else:
            started = time.perf_counter()
            pool.sync_events([device.launch(step.program, args)])
            seconds = time.perf_counter() - started
        self._note(step.program, step, seconds)
        return pool.completed()

    def called(self, step: HostStep, seconds: float) -> None:
        """Note the time of a call of the host, with its copies."""
        self._note(step.call, step, seconds)

    def _note(self, what: Program | HostCall, step: LaunchStep | HostStep, seconds: float) -> None:
        launches = self._launches.setdefault(what, _Launches(step))
        launches.count += 1
        launches.seconds += seconds
        launches.times.append(seconds)

    def kernels(self) -> list[KernelTime]:
        """Return the programs that were launched, those that took most time first."""
        sources = {
            future.result(): source
            for future, source in self._sources.items()
            if future.done() and future.exception() is None
        }
        rows = [_row(launches, sources.get(what)) for what, launches in self._launches.items()]  # type: ignore[arg-type]  # a call of the host has no source
        return sorted(rows, key=lambda row: -row.seconds)

    def as_json(self) -> dict[str, Any]:
        """Return all of it as data that `json.dumps` takes: ``seconds`` of all launches, ``kernels``, and ``passes``
        if these were timed.
        """
        rows = self.kernels()
        found = {"seconds": sum(row.seconds for row in rows), "kernels": [asdict(row) for row in rows]}
        return found | ({"passes": [row._asdict() for row in self.passes()]} if self._passes else {})

    def __str__(self) -> str:
        from zyx.plugins.describe import columns

        rows: list[tuple[str, ...]] = [("PASS", "CALLS", "TIME", "ONE")]
        for row in self.passes():
            rows.append((row.name, str(row.calls), duration(row.seconds), duration(row.seconds / row.calls)))
        return "\n".join([*columns(self.table()), *(["", *columns(rows)] if len(rows) > 1 else [])])

    def table(self) -> list[tuple[str, ...]]:
        """Return a heading and a row of text for each program."""
        from zyx.plugins.describe import size

        rows: list[tuple[str, ...]] = [
            ("KERNEL", "LAUNCHES", "TIME", "SHARE", "ONE", "EXPECTED", "RATIO", "BYTES", "BOUND BY")
        ]
        kernels = self.kernels()
        total = sum(row.seconds for row in kernels) or 1.0
        for row in kernels:
            expected = "" if row.expected_s is None else duration(row.expected_s)
            ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
            bound = row.bound or ("" if row.is_generated else "the host" if row.is_host else "a library")
            share = f"{100 * row.seconds / total:.0f} %"
            one, all_ = duration(row.measured_s), duration(row.seconds)
            moved = size(int(row.bytes))
            rows.append((row.name, str(row.launches), all_, share, one, expected, ratio, moved, bound))
        return rows


def duration(seconds: float) -> str:
    """Return a time with three digits and a unit, such as ``12.5 us``."""
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def _row(launches: _Launches, source: _Source | None) -> KernelTime:
    step = launches.step
    found = _estimates(source) if source is not None else []
    measured = statistics.median(launches.times)
    expected = _together(found)
    return KernelTime(
        name=step.program.name if isinstance(step, LaunchStep) else f"{step.call!r}",
        device=step.device.name if isinstance(step, LaunchStep) else step.device,
        what="" if source is None else _last_statement(source.nests[-1]),
        launches=launches.count,
        seconds=launches.seconds,
        measured_s=measured,
        expected_s=expected,
        ratio=measured / expected if expected else None,
        bound=max(found, key=lambda each: each.seconds).bound if found else "",
        bytes=sum(each.bytes.get("main memory", 0.0) for each in found) if found else float(step.bytes_moved),
        levels=_added([each.bytes for each in found]),
        instructions=_added([each.instructions for each in found]),
        groups=sum(each.groups for each in found),
        is_generated=isinstance(step, LaunchStep) and (source is not None or bool(step.program.source)),
        is_host=not isinstance(step, LaunchStep),
    )


def _estimates(source: _Source) -> list[Estimate]:
    """Return what the nests of a program are expected to take; nothing if there is no telling."""
    choose = fallback.SCHEDULES[source.schedule].choose
    info = source.device.info
    try:
        return [estimate(choose(nest, info, len(source.nests) == 1)[0], info) for nest in source.nests]
    except ScheduleError:
        return []


def _together(found: Sequence[Estimate]) -> float | None:
    """Return the seconds of nests that share a launch."""
    if not found:
        return None
    launch = max(each.times["launch"] for each in found)
    return launch + sum(each.seconds - each.times["launch"] for each in found)


def _added(found: Sequence[dict[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for each in found for name in each)
    return {name: sum(each.get(name, 0.0) for each in found) for name in names}


def _last_statement(nest: Nest) -> str:
    return str(nest).splitlines()[-1].partition("  |")[0].rstrip()
