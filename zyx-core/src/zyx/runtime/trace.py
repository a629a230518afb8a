"""Show what the runtime does, as far as ``ZYX_DEBUG`` or `zyx.debug` asks; costs next to nothing where they do not."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final, Protocol

from zyx.lazy_import import lazy_import
from zyx.modes import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future

    from zyx.autotune.store import Winner
    from zyx.autotune.tuner import Tuned
    from zyx.backend import Argument, Device, Event, MemoryPool, PoolBuffer, Program
    from zyx.backend import device as interface
    from zyx.dtype import Scalar
    from zyx.graph import lines
    from zyx.graph.node import Node
    from zyx.kernel.data import Kernel
    from zyx.nest.data import Nest
    from zyx.nest.expr import Param
    from zyx.plugins import describe, words
    from zyx.plugins.opening import OpenedBackends
    from zyx.plugins.state import BackendReport
    from zyx.runtime import bars, host_step, stages, steps
    from zyx.runtime.bars import Bar
    from zyx.runtime.buffer import Buffer
    from zyx.runtime.host_step import HostStep
    from zyx.runtime.memory_planning import Hosted, Launched
    from zyx.runtime.plan import Plan
    from zyx.runtime.stages import Following
    from zyx.runtime.steps import LaunchStep, Step
    from zyx.schedule.moves import Move
else:
    interface = lazy_import("zyx.backend.device", globals())
    lines = lazy_import("zyx.graph.lines", globals())
    describe = lazy_import("zyx.plugins.describe", globals())
    words = lazy_import("zyx.plugins.words", globals())
    bars = lazy_import("zyx.runtime.bars", globals())
    host_step = lazy_import("zyx.runtime.host_step", globals())
    stages = lazy_import("zyx.runtime.stages", globals())
    steps = lazy_import("zyx.runtime.steps", globals())

DEVICES: Final = 1
PLAN: Final = 2
SCHEDULE: Final = 4
IR: Final = 8
SOURCE: Final = 16
LAUNCHES: Final = 32
MEMORY: Final = 64
COMPILE: Final = 128
AUTOTUNE: Final = 256
LINES: Final = 512
STAGES: Final = 1024
#: No subject: launches are timed (`Profiler`), and so made one by one, as they are where they are shown.
TIMED: Final = 1 << 20
#: No subject: programs are made anew though they are kept on disk, so that they are of the stages that are looked at.
ANEW: Final = 1 << 21
SINGLE: Final = LAUNCHES | TIMED
#: Seconds after which work shows how far it is: what is over sooner needs no bar.
_PATIENCE_S: Final = 1.0


def _to_stderr(text: str) -> None:
    sys.stderr.write(text + "\n")


class Profiler(Protocol):
    """What times launches, and knows what their programs were made from; see `zyx.runtime.profile`."""

    def begin(self, live: Mapping[MemoryPool, int]) -> None:
        """Note that the stretch begins, and what tensors hold of each pool by then, in bytes."""

    def end(self) -> None:
        """Note that it is over."""

    def started(
        self, future: Future[Program], nests: Sequence[Nest], device: Device, schedule: int, winner: Winner | None
    ) -> None:
        """Note what a program is made from: nests by what was found for them, or else the schedule of that number."""

    def served(
        self, program: Program, nests: Sequence[Nest], device: Device, params: Sequence[Param], name: str
    ) -> None:
        """Note that a library's kernel, with params in that order, is taken for nests."""

    def prepared(self, outputs: Sequence[Node], prepared: Sequence[Node], device: Device) -> None:
        """Note what a graph has become for a device, before it is divided into kernels."""

    def drawn(
        self, order: Sequence[Node], outputs: Sequence[Node], device: Device, launches: Sequence[Launched | Hosted]
    ) -> None:
        """Note what computes a graph that is prepared for a device."""

    def launch(self, step: LaunchStep, args: Sequence[Argument], events: Sequence[Event]) -> Event:
        """Launch a step, and note its time; return its event."""
        ...

    def called(self, step: HostStep, seconds: float, buffers: Sequence[Buffer | Scalar]) -> None:
        """Note the time of a call of the host on the buffers of a run, with its copies."""

    def copied(self, source: str, target: str, nbytes: int, started: float) -> None:
        """Note a copy that is over, between places by name."""

    def planned(self, plan: Plan, seconds: float) -> None:
        """Note a new plan."""

    def compiled(self, device: Device, program: Program, seconds: float, *, is_restored: bool) -> None:
        """Note a program that was made, of a kernel or of what is kept on disk; threads that compile call it."""

    def held(self, pool: MemoryPool, raw: PoolBuffer, live_bytes: int) -> None:
        """Note memory that a tensor holds from now on, and what tensors hold of that pool with it."""

    def freed(self, pool: MemoryPool, raw: PoolBuffer, live_bytes: int) -> None:
        """Note memory that is given back, and what tensors hold of that pool without it."""


class Trace:
    """Writes what happens.

    Attributes:
        configured: The subjects to show where `zyx.debug` says nothing, by the numbers of `zyx.settings.debug.Debug`;
            and `TIMED`, while there is a profile.
        profile: What times launches, if anything does.
        has_bars: Whether long work may show how far it is.
    """

    def __init__(self, configured: int = 0, write: Callable[[str], None] = _to_stderr) -> None:
        self.configured = int(configured)
        self.profile: Profiler | None = None
        self.has_bars = False
        self._write: Final = write
        self._reported: dict[str, BackendReport] = {}
        self._following: Following | None = None

    @property
    def bits(self) -> int:
        """The subjects to show in this thread or task."""
        scoped = shown()
        return self.configured if scoped is None else scoped | self.configured & (TIMED | ANEW)

    @property
    def waits(self) -> bool:
        """Whether every launch and copy is waited for, and shown or timed; then nothing is run as captured."""
        return bool(self.bits & SINGLE)

    @property
    def checks(self) -> bool:
        """Whether kernels are verified after every pass."""
        return bool(self.bits & IR)

    @property
    def makes_kernels(self) -> bool:
        """Whether schedules or kernels are shown, so that they have to be made where programs are kept on disk, too."""
        return bool(self.bits & (SCHEDULE | IR | STAGES | ANEW))

    @property
    def is_followed(self) -> bool:
        """Whether somebody wants to know what programs are made from."""
        return self.profile is not None or bool(self.bits & STAGES)

    @property
    def plans(self) -> bool:
        """Whether plans are shown."""
        return bool(self.bits & PLAN)

    def bar(
        self,
        what: str,
        total: float,
        amount: Callable[[float, float], str] | None = None,
        *,
        after_s: float | None = None,
    ) -> Bar:
        """Return a bar that shows how far some work is, on a terminal; see `zyx.runtime.bars.Bar`."""
        after_s = _PATIENCE_S if after_s is None else after_s
        return bars.Bar(what, total, amount or bars.counted, after_s=after_s, is_on=self.has_bars)

    # ---- devices

    def opened(self, backends: OpenedBackends) -> None:
        """Show the settings given, and what became of backends since the last call: devices, or why there are none."""
        if not self.bits & DEVICES:
            return
        from textwrap import shorten

        if not self._reported:
            for key, origin in backends.manager.settings.sources.origins.items():
                self._write(f"setting {key}: given by {origin}")
        for report in backends.reports:
            if report.name == "host" or self._reported.get(report.name) == report:
                continue
            self._reported[report.name] = report
            self._write(f"backend {report.name}: {report.state.value}: {describe.explanation(report)}".rstrip(": "))
            for device in filter(None, map(backends.devices.get, report.devices)):
                info, room = (
                    backends.infos[device.name],
                    words.text_of(device.memory_pool, lambda pool: describe.size(pool.free_bytes)),
                )
                rates = f"{describe.rate(info.flops_per_s, 'FLOP/s')}, {describe.rate(info.bytes_per_s, 'B/s')}"
                driver = shorten(info.driver, 60, placeholder=" ...")
                self._write(f"    {device.name}: {words.one_line(info.model)}, {rates}, {room} free, {driver}")
            for note in report.notes:
                self._write(f"    {note}")

    def chosen(self, device: Device, reason: str) -> None:
        """Show which device was chosen, and why."""
        if self.bits & DEVICES:
            self._write(f"device {device.name}: {reason}")

    def linked(self, text: str) -> None:
        """Show by which way processes exchange what is on their devices."""
        if self.bits & DEVICES:
            self._write(text)

    # ---- making programs

    def planned(self, plan: Plan, seconds: float) -> None:
        """Show a new plan."""
        for each in self._followers():
            each.planned(plan, seconds)
        if self.bits & STAGES and self._following is not None:
            for making in self._following.take():
                self._write(str(making))
        if self.bits & PLAN:
            size = sum(slice_.nbytes for slice_ in plan.temporaries)
            self._write(
                f"plan of {plan.launches} launches{_calls(plan)} and {plan.copies} copies, "
                f"{size} bytes of temporaries, made in {seconds * 1e3:.1f} ms"
            )
            for step in plan.steps:
                self._write(f"    {_in_words(step)}")

    def traced(self, name: str, reason: str) -> None:
        """Show that a jitted function is being traced, and why."""
        self._write(f"trace of {name}: {reason}")

    def not_captured(self, device: Device, launches: int, error: Exception) -> None:
        """Show that a device refused to make one program of the launches of a plan."""
        if self.bits & PLAN:
            self._write(
                f"{device.name} does not capture {launches} launches: {type(error).__name__}: {error}; "
                "they are launched one by one"
            )

    def scheduled(self, name: str, before: Nest, after: Nest, moves: Sequence[Move]) -> None:
        """Show a nest, the moves, and the scheduled nest."""
        if self.bits & SCHEDULE:
            listed = "\n".join(f"    {move}" for move in moves)
            self._write(f"schedule {name}\n{before}\n{listed}\n{after}")

    def fell_back(self, name: str, tried: str, following: str, error: Exception) -> None:
        """Show that a schedule did not do, and which one is tried next."""
        if self.bits & (PLAN | SCHEDULE | IR | AUTOTUNE):
            self._write(f"kernel {name}: {tried}: {type(error).__name__}: {error}; next: {following}")

    def divided(self, name: str, error: Exception) -> None:
        """Show that the device takes a launch in no schedule, so that it is done in several."""
        if self.bits & (PLAN | SCHEDULE | IR):
            self._write(f"kernel {name}: {type(error).__name__}: {error}; next: done in parts")

    def chosen_otherwise(self, error: Exception) -> None:
        """Show that a tuned division of a graph was refused, and another one is taken."""
        if self.bits & (PLAN | SCHEDULE | IR | AUTOTUNE):
            self._write(f"what was measured: {type(error).__name__}: {error}; next: stored as the rules say")

    def unshared(self, error: Exception) -> None:
        """Show that a device refuses offsets as arguments: each kernel has its own then."""
        if self.bits & (PLAN | SCHEDULE | IR):
            self._write(f"{type(error).__name__}: {error}; next: a kernel for each place that is read")

    def baked(self, count: int, error: Exception) -> None:
        """Show that a device refuses to be given constants, which are parts of its kernels instead."""
        if self.bits & (PLAN | SCHEDULE | IR):
            what = "this constant" if count == 1 else f"these {count} constants"
            self._write(f"{type(error).__name__}: {error}; next: a kernel for {what} alone")

    def unbounded(self, bound: int, error: Exception, following: str = "plan") -> None:
        """Show that there is no plan for lengths up to one, why, and whether a plan or a trace follows."""
        if self.bits & (PLAN | SCHEDULE | IR):
            said = f"{type(error).__name__}: {error}"
            self._write(f"lengths up to {bound}: {said}; next: a {following} for this length alone")

    def not_recorded(self, error: Exception) -> None:
        """Show that a network has no plan, and why."""
        if self.bits & PLAN:
            self._write(f"{type(error).__name__}: {error}; next: computed node by node, at every call")

    def prepared_otherwise(self, error: Exception) -> None:
        """Show that the device takes a graph only with fewer hand-written kernels."""
        if self.bits & (PLAN | SCHEDULE | IR):
            self._write(f"{type(error).__name__}: {error}; next: with fewer hand-written kernels")

    def lowered(self, kernel: Kernel) -> None:
        """Show a kernel as the device is given it."""
        if self.bits & IR:
            self._write(str(kernel))

    def compiled(self, device: Device, program: Program, seconds: float) -> None:
        """Show a compilation, the source, and the machine code where the device has it as text."""
        if self.profile is not None:
            self.profile.compiled(device, program, seconds, is_restored=False)
        if self.bits & COMPILE:
            self._write(f"compiled {program.name} for {device.name} in {seconds * 1e3:.1f} ms")
        self._source(device, program)

    def restored(self, device: Device, program: Program, seconds: float) -> None:
        """Show a program that was built of what is kept on disk, as `compiled` does."""
        if self.profile is not None:
            self.profile.compiled(device, program, seconds, is_restored=True)
        if self.bits & COMPILE:
            self._write(f"restored {program.name} for {device.name} in {seconds * 1e3:.1f} ms")
        self._source(device, program)

    def _source(self, device: Device, program: Program) -> None:
        if self.bits & SOURCE:
            self._write(program.source or f"{program.name} has no source: {device.name} is given the kernel itself")
            assembly = program.assembly() if isinstance(program, interface.SupportsAssembly) else ""
            if assembly:
                self._write(assembly)

    def tuned(self, tuned: Tuned) -> None:
        """Show what the search of a launch gave: what it took and takes, what is different, what was wrong."""
        if self.bits & AUTOTUNE:
            self._write(
                f"tuned {tuned.kernel} on {tuned.device}: {tuned.before_s * 1e6:.1f} us, {tuned.seconds * 1e6:.1f} us "
                f"by the best of {tuned.tried}; {tuned.why}"
            )
            for how in tuned.wrong:
                self._write(f"    wrong, and left aside: {how}")

    def started(
        self, future: Future[Program], nests: Sequence[Nest], device: Device, schedule: int, winner: Winner | None
    ) -> None:
        """Tell who follows what a program is made from; see `Profiler.started`."""
        for each in self._followers():
            each.started(future, nests, device, schedule, winner)

    def served(
        self, program: Program, nests: Sequence[Nest], device: Device, params: Sequence[Param], name: str
    ) -> None:
        """Tell who follows of which nests a library's kernel takes the place."""
        for each in self._followers():
            each.served(program, nests, device, params, name)

    def prepared(self, outputs: Sequence[Node], prepared: Sequence[Node], device: Device) -> None:
        """Tell the profile what a graph has become for a device, before it is divided into kernels."""
        if self.profile is not None:
            self.profile.prepared(outputs, prepared, device)

    def drawn(
        self, order: Sequence[Node], outputs: Sequence[Node], device: Device, launches: Sequence[Launched | Hosted]
    ) -> None:
        """Tell who follows what computes a graph that is prepared for a device."""
        for each in self._followers():
            each.drawn(order, outputs, device, launches)

    def _followers(self) -> Sequence[Profiler]:
        """Return who wants to know what programs are made from: the profile, and what shows stages."""
        found: list[Profiler] = [] if self.profile is None else [self.profile]
        if self.bits & STAGES:
            if self._following is None:
                self._following = stages.Following()
            found.append(self._following)
        return found

    # ---- running them

    def launch(self, step: LaunchStep, args: Sequence[Argument], events: Sequence[Event]) -> Event:
        """Launch a step, and time it if there is a profile."""
        if self.profile is not None:
            return self.profile.launch(step, args, events)
        return step.device.launch(step.program, args, events)

    def before_launch(self) -> float:
        """Return the time before a launch or a copy that is to be shown or timed."""
        return time.perf_counter() if self.bits & SINGLE else 0.0

    def after_launch(self, step: LaunchStep, event: Event, started: float, buffers: Sequence[Buffer]) -> Event:
        """Wait for a launch, show its time, bytes and rate, and return an event in place of its own."""
        if not self.bits & LAUNCHES:
            return event
        pool = step.device.memory_pool
        pool.sync_events([event])
        seconds = max(time.perf_counter() - started, 1e-9)
        written = sum(buffers[number].nbytes for number in step.written)
        read = sum(buffers[number].nbytes for number in step.args if number not in step.written)
        self._write(
            f"{step.device.name} {step.program.name}: {seconds * 1e6:.1f} us, reads {read} bytes, writes {written}, "
            f"{describe.rate((read + written) / seconds, 'B/s')}{lines.in_lines(step.lines)}"
        )
        return pool.completed()

    def copied(self, source: str, target: str, nbytes: int, started: float) -> None:
        """Show a copy that is over, between places by name: its time, bytes and rate."""
        if self.profile is not None and started:
            self.profile.copied(source, target, nbytes, started)
        if self.bits & LAUNCHES:
            seconds = max(time.perf_counter() - started, 1e-9)
            speed = describe.rate(nbytes / seconds, "B/s")
            self._write(f"copy {source} -> {target}: {seconds * 1e6:.1f} us, {nbytes} bytes, {speed}")

    def called(self, step: HostStep, seconds: float, buffers: Sequence[Buffer | Scalar]) -> None:
        """Note a call of the host that is over, with its copies, in the profile if there is one, and show its time."""
        if self.profile is not None:
            self.profile.called(step, seconds, buffers)
        if self.bits & LAUNCHES:
            self._write(f"{step.call!r} for {step.device}: {seconds * 1e6:.1f} us, copies {step.bytes_moved} bytes")

    # ---- memory

    def allocated(self, pool: MemoryPool, nbytes: int) -> None:
        """Show that a pool gave memory."""
        if self.bits & MEMORY:
            self._write(f"[{pool.name}] allocate {nbytes} -> free {pool.free_bytes} B")

    def reused(self, pool: MemoryPool, nbytes: int) -> None:
        """Show that memory which nobody needs any more was used again, without asking its pool."""
        if self.bits & MEMORY:
            self._write(f"[{pool.name}] allocate {nbytes}, used before -> free {pool.free_bytes} B")

    def not_allocated(self, pool: MemoryPool, nbytes: int) -> None:
        """Show that a pool had no room."""
        if self.bits & MEMORY:
            self._write(f"[{pool.name}] allocate {nbytes} FAILED, free {pool.free_bytes} B")

    def deallocated(self, pool: MemoryPool, nbytes: int) -> None:
        """Show that memory was given back to a pool."""
        if self.bits & MEMORY:
            self._write(f"[{pool.name}] deallocate {nbytes} -> free {pool.free_bytes} B")


def _calls(plan: Plan) -> str:
    return f", {plan.calls} calls of the host" if plan.calls else ""


def _in_words(step: Step) -> str:
    """Return a line about a step of a plan, whose buffers have numbers."""
    if isinstance(step, steps.CopyStep):
        return f"copy: buffer {step.source} -> buffer {step.target}"
    if isinstance(step, host_step.HostStep):
        read, written = (", ".join(str(place.buffer) for place in places) for places in (step.reads, step.writes))
        moved = f"{step.bytes_moved} bytes{lines.in_lines(step.lines)}"
        return f"call {step.call!r} for {step.device}: {read} -> {written}; {moved}"
    read = ", ".join(str(number) for number in step.args if number not in step.written)
    written = ", ".join(map(str, step.written))
    return (
        f"launch {step.program.name} on {step.device.name}: {read or 'nothing'} -> {written}; "
        f"{step.bytes_moved} bytes{lines.in_lines(step.lines)}"
    )
