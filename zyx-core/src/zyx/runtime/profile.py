"""What the launches of a stretch of a program took, beside what they were expected to take.

While a profile is under way, every launch runs by itself and is waited for, so that its time is its own: what is
captured as one, and work that would have gone on at the same time, takes longer than it does otherwise. Times are the
device's own where it has a clock. What was compiled, planned and copied is timed beside them, and memory is followed;
`zyx.runtime.timeline` writes all of it for viewers of traces.
"""

from __future__ import annotations

import threading
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from zyx.backend.device import SupportsTiming
from zyx.plugins.describe import columns, html_table, rate, size
from zyx.runtime.buffer import Buffer
from zyx.runtime.holding import BEFORE, COPIED, Holding, Peak
from zyx.runtime.kernel_times import Launches, Source, flops_of, kernel_time
from zyx.runtime.timeline import chrome_trace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from concurrent.futures import Future

    from zyx.autotune.store import Winner
    from zyx.backend import Argument, Device, Event, MemoryPool, PoolBuffer, Program
    from zyx.dtype import Scalar
    from zyx.graph.host_call import HostCall
    from zyx.graph.node import Node
    from zyx.kernel.data import Kernel
    from zyx.nest.data import Nest
    from zyx.nest.expr import Param
    from zyx.runtime.host_step import HostStep
    from zyx.runtime.kernel_times import KernelTime
    from zyx.runtime.memory_planning import Hosted, Launched
    from zyx.runtime.plan import Plan
    from zyx.runtime.steps import LaunchStep

#: Spans, and samples of memory, that are kept: some 200 MB, and more than viewers show at ease.
_MOST_SPANS: Final = 1_000_000
#: Plans that are kept, to be drawn.
_MOST_PLANS: Final = 200
#: What holds memory at its peak is named as far as it holds so much of it.
_LEAST_SHARE: Final = 0.05


class Span(NamedTuple):
    """Something that took a while.

    Attributes:
        kind: ``kernel`` (on the device), ``launch`` (the same as the host sees it), ``compile``, ``restore``, ``plan``,
            ``copy`` or ``call``.
        name: Of the kernel, or of what was done.
        lane: The device of a kernel; of anything else the thread that did it.
        start: By `time.perf_counter`.
        seconds: How long.
        said: More of it, for people.
    """

    kind: str
    name: str
    lane: str
    start: float
    seconds: float
    said: dict[str, Any]


class Total(NamedTuple):
    """All spans of a kind: their number, and their seconds and bytes."""

    number: int
    seconds: float
    bytes: int


class PassTime(NamedTuple):
    """What a pass over kernels took: how often it ran, and the seconds of all runs together."""

    name: str
    calls: int
    seconds: float


class Profile:
    """Times launches, by program; iterate over it, or print it, when the stretch is over."""

    def __init__(self) -> None:
        self._launches: dict[Program | HostCall, Launches] = {}
        self._sources: dict[Future[Program], Source] = {}
        self._served: dict[Program, tuple[tuple[Nest, ...], Device, Sequence[Param], str]] = {}
        self._passes: dict[str, list[float]] = {}
        self._flops: dict[Program | HostCall, int] = {}
        self._noting = threading.Lock()
        self._totals: dict[str, Total] = {}
        self.spans: list[Span] = []
        self.plans: list[Plan] = []
        self.holding: Final = Holding(_MOST_SPANS)
        self.thread = _thread()
        self.began = time.perf_counter()
        self.ended: float | None = None

    def begin(self, live: Mapping[MemoryPool, int]) -> None:
        """Note that the stretch begins, and what tensors hold of each pool by then, in bytes."""
        self.thread = _thread()
        self.began = time.perf_counter()
        self.holding.begin(live, self.began)

    def end(self) -> None:
        """Note that it is over."""
        self.ended = time.perf_counter()

    @property
    def wall_s(self) -> float:
        """Seconds from the beginning of the stretch to its end, or until now."""
        return (time.perf_counter() if self.ended is None else self.ended) - self.began

    @property
    def left_out(self) -> int:
        """Spans and samples that were too many to be kept; totals and kernels have them all the same."""
        return sum(total.number for total in self._totals.values()) - len(self.spans) + self.holding.left_out

    def total(self, kind: str) -> Total:
        """Return all spans of a kind together; see `Span`."""
        return self._totals.get(kind, Total(0, 0.0, 0))

    def peaks(self) -> list[Peak]:
        """Return the most that tensors held of each pool, and what held it."""
        return self.holding.peaks(self.began)

    def started(
        self, future: Future[Program], nests: Sequence[Nest], device: Device, schedule: int, winner: Winner | None
    ) -> None:
        """Note what a program is made from."""
        self._sources[future] = Source(tuple(nests), device, schedule, winner)

    def served(
        self, program: Program, nests: Sequence[Nest], device: Device, params: Sequence[Param], name: str
    ) -> None:
        """Note of which nests a library's kernel takes the place; the table says of it that it is a library's."""
        self._served[program] = tuple(nests), device, params, name

    def prepared(self, outputs: Sequence[Node], prepared: Sequence[Node], device: Device) -> None:
        """Do nothing."""

    def drawn(
        self, order: Sequence[Node], outputs: Sequence[Node], device: Device, launches: Sequence[Launched | Hosted]
    ) -> None:
        """Note what computes a graph; nothing of it is in the table."""

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
        started = time.perf_counter()
        if isinstance(device, SupportsTiming):
            seconds = device.timed_launch(step.program, args)
            host_s = time.perf_counter() - started
        else:
            pool.sync_events([device.launch(step.program, args)])
            seconds = host_s = time.perf_counter() - started
        name = step.program.name
        self._note(step.program, step, seconds, host_s)
        lines = {"lines": ", ".join(step.lines)} if step.lines else {}
        self._span("launch", name, _thread(), started, host_s, {"device": device.name, **lines})
        self._span("kernel", name, device.name, started, seconds, lines, step.bytes_moved)
        if len(args) == len(step.args) + len(step.given) + len(step.starts):  # none of the buffers is empty
            for number, raw in zip(step.args, args, strict=False):
                if number in step.written:
                    self.holding.written(pool, raw, name, time.perf_counter())
        return pool.completed()

    def called(self, step: HostStep, seconds: float, buffers: Sequence[Buffer | Scalar]) -> None:
        """Note the time of a call of the host, with its copies."""
        name, moved = f"{step.call!r}", step.bytes_moved
        self._note(step.call, step, seconds, seconds)
        said = {"device": step.device, "bytes": moved, **({"lines": ", ".join(step.lines)} if step.lines else {})}
        self._span("call", name, _thread(), time.perf_counter() - seconds, seconds, said, moved)
        for place in step.writes:
            target = buffers[place.buffer]
            if isinstance(target, Buffer):
                self.holding.written(target.pool, target.raw, name, time.perf_counter())

    def copied(self, source: str, target: str, nbytes: int, started: float) -> None:
        """Note a copy that is over, between places by name."""
        seconds = time.perf_counter() - started
        self._span("copy", f"{source} -> {target}", _thread(), started, seconds, {"bytes": nbytes}, nbytes)

    def planned(self, plan: Plan, seconds: float) -> None:
        """Note a new plan."""
        if len(self.plans) < _MOST_PLANS:
            self.plans.append(plan)
        between = sum(slice_.nbytes for slice_ in plan.temporaries)
        said = {"launches": plan.launches, "copies": plan.copies, "calls": plan.calls, "temporary bytes": between}
        self._span("plan", "plan", _thread(), time.perf_counter() - seconds, seconds, said)

    def compiled(self, device: Device, program: Program, seconds: float, *, is_restored: bool) -> None:
        """Note a program that was made, of a kernel or of what is kept on disk; threads that compile call it."""
        kind = "restore" if is_restored else "compile"
        started = time.perf_counter() - seconds
        self._span(kind, program.name, _thread(), started, seconds, {"device": device.name})

    def held(self, pool: MemoryPool, raw: PoolBuffer, live_bytes: int) -> None:
        """Note memory that a tensor holds from now on, and what tensors hold of that pool with it."""
        self.holding.held(pool, raw, live_bytes, time.perf_counter())

    def freed(self, pool: MemoryPool, raw: PoolBuffer, live_bytes: int) -> None:
        """Note memory that is given back, and what tensors hold of that pool without it."""
        self.holding.freed(pool, raw, live_bytes, time.perf_counter())

    def _note(self, what: Program | HostCall, step: LaunchStep | HostStep, seconds: float, host_s: float) -> None:
        launches = self._launches.setdefault(what, Launches(step))
        launches.count += 1
        launches.seconds += seconds
        launches.host_s += host_s
        launches.times.append(seconds)
        launches.lines.update(dict.fromkeys(step.lines))

    def _span(
        self, kind: str, name: str, lane: str, start: float, seconds: float, said: dict[str, Any], nbytes: int = 0
    ) -> None:
        with self._noting:
            before = self.total(kind)
            self._totals[kind] = Total(before.number + 1, before.seconds + seconds, before.bytes + nbytes)
            if len(self.spans) < _MOST_SPANS:
                self.spans.append(Span(kind, name, lane, start, seconds, said))

    def sources(self) -> dict[Program, Source]:
        """Return what programs were made from, as far as they are made."""
        return {
            future.result(): source
            for future, source in self._sources.items()
            if future.done() and future.exception() is None
        }

    def kernels(self) -> list[KernelTime]:
        """Return the programs that were launched, those that took most time first."""
        return list(self.launched_programs().values())

    def launched_programs(self) -> dict[Program | HostCall, KernelTime]:
        """Return the same, by program."""
        sources = self.sources()
        rows = {
            what: kernel_time(launches, sources.get(what), self._flops_of(what, sources))  # type: ignore[arg-type]  # a call of the host has no source
            for what, launches in self._launches.items()
        }
        return dict(sorted(rows.items(), key=lambda pair: -pair[1].seconds))

    def _flops_of(self, what: Program | HostCall, sources: Mapping[Program, Source]) -> int:
        """Return the operations on floats of a launch; they are counted once."""
        if what not in self._flops:
            served, source = self._served.get(what), sources.get(what)  # type: ignore[arg-type]  # as above
            self._flops[what] = flops_of(served[0] if served else source.nests if source else ())
        return self._flops[what]

    def as_json(self) -> dict[str, Any]:
        """Return all of it as data that `json.dumps` takes.

        It has ``seconds`` of all launches, ``wall_s`` of the whole stretch, and ``kernels``, a `KernelTime` each;
        number, seconds and bytes of each other kind of `Span`, such as ``compile``; ``memory``: of each pool the
        `Peak`; and ``passes`` if these were timed.
        """
        rows = self.kernels()
        found = {
            "seconds": sum(row.seconds for row in rows),
            "wall_s": self.wall_s,
            "kernels": [asdict(row) for row in rows],
            **{kind: self.total(kind)._asdict() for kind in ("compile", "restore", "plan", "copy", "call")},
            "memory": [peak._asdict() | {"held": [held._asdict() for held in peak.held]} for peak in self.peaks()],
        }
        return found | ({"passes": [row._asdict() for row in self.passes()]} if self._passes else {})

    def as_trace(self) -> dict[str, Any]:
        """Return the timeline in the Trace Event Format, as data for `json.dumps`; Perfetto and others open it.

        Lanes are the threads of the host, and the devices; what tensors hold of each pool is a counter. Of more than a
        million spans the first are kept: ``otherData`` says how many were left out.
        """
        return chrome_trace(self)

    def __str__(self) -> str:
        passes = self._passes_table()
        return "\n".join([*columns(self.table()), "", *self.summary(), *(["", *columns(passes)] if passes else [])])

    def _repr_html_(self) -> str:
        passes = self._passes_table()
        tables = [html_table(self.table(), self.summary()), *([html_table(passes)] if passes else [])]
        return "\n".join(tables)

    def _passes_table(self) -> list[tuple[str, ...]]:
        """Return a heading and a row of text for each pass; nothing if none were timed."""
        rows = [
            (row.name, str(row.calls), duration(row.seconds), duration(row.seconds / row.calls))
            for row in self.passes()
        ]
        return [("PASS", "CALLS", "TIME", "ONE"), *rows] if rows else []

    def summary(self) -> list[str]:
        """Return lines on the whole stretch: times by what they were for, and memory at its peak."""
        kernels = self.kernels()
        by_device: dict[str, float] = {}
        for row in kernels:
            if not row.is_host:
                by_device[row.device] = by_device.get(row.device, 0.0) + row.seconds
        times = ", ".join(f"{duration(seconds)} on {device}" for device, seconds in by_device.items())
        launches = sum(row.launches for row in kernels)
        lines = [
            f"{_several(launches, 'launch', 'launches')}{f', {times}' if times else ''}; {duration(self.wall_s)} in all"
        ]
        words = {
            "plan": ("plan made", "plans made"),
            "compile": ("kernel compiled", "kernels compiled"),
            "restore": ("kernel taken from disk", "kernels taken from disk"),
            "copy": ("copy", "copies"),
            "call": ("call of the host", "calls of the host"),
        }
        parts = []
        for kind, (one, many) in words.items():
            total = self.total(kind)
            if total.number:
                moved = f", {size(total.bytes)}" if kind == "copy" else ""
                parts.append(f"{_several(total.number, one, many)} in {duration(total.seconds)}{moved}")
        lines += ["; ".join(parts)] if parts else []
        for peak in self.peaks():
            held = [each for each in peak.held if each.bytes >= _LEAST_SHARE * peak.bytes]
            what = ", ".join(f"{size(each.bytes)} {_holder(each.what)} ({each.buffers})" for each in held)
            lines.append(f"most memory of {peak.pool}: {size(peak.bytes)}, at {duration(peak.seconds)}: {what}")
        return lines

    def table(self) -> list[tuple[str, ...]]:
        """Return a heading and a row of text for each program."""
        heading = ("KERNEL", "LAUNCHES", "TIME", "SHARE", "ONE", "EXPECTED", "RATIO", "BYTES", "B/S", "FLOP/S")
        rows: list[tuple[str, ...]] = [(*heading, "OF LIMIT", "BOUND BY")]
        kernels = self.kernels()
        has_lines = any(row.lines for row in kernels)
        if has_lines:
            rows[0] += ("LINES",)
        total = sum(row.seconds for row in kernels) or 1.0
        for row in kernels:
            expected = "" if row.expected_s is None else duration(row.expected_s)
            ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
            bound = row.bound or ("" if row.is_generated else "the host" if row.is_host else "a library")
            share = f"{100 * row.seconds / total:.0f} %"
            one, all_ = duration(row.measured_s), duration(row.seconds)
            moved = size(int(row.bytes))
            rates = rate(row.bytes_per_s, "B/s"), rate(row.flops_per_s, "FLOP/s") if row.flops else ""
            said = (", ".join(row.lines),) if has_lines else ()
            limit = "" if row.of_limit is None else f"{100 * row.of_limit:.2g} %"
            rows.append(
                (row.name, str(row.launches), all_, share, one, expected, ratio, moved, *rates, limit, bound, *said)
            )
        return rows


def _several(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _holder(what: str) -> str:
    return what if what in (COPIED, BEFORE) else f"by {what}"


def _thread() -> str:
    return threading.current_thread().name


def duration(seconds: float) -> str:
    """Return a time with three digits and a unit, such as ``12.5 us``."""
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
