"""Tune the program of a ``with`` block: what it launched is noted, and searched when the block is over.

Launches that took most of the time get most of the time of the search. Plans that are there already, those of traced
functions among them, launch what was found from then on.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from zyx.errors import AllocationError, BackendError, DeviceLostError, ZyxError, locate
from zyx.nest.data import params_of
from zyx.plugins.describe import columns, html_table
from zyx.runtime.dividing import Dividing, drawing_of
from zyx.runtime.profile import Profile, duration

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.autotune.tuner import Tuned
    from zyx.backend import Argument, Device, Event, Program
    from zyx.dtype import Scalar
    from zyx.graph.node import Node
    from zyx.nest.data import Nest
    from zyx.runtime.dividing import Drawing
    from zyx.runtime.memory_planning import Hosted
    from zyx.runtime.memory_planning import Launched as Kernel
    from zyx.runtime.runtime import Runtime
    from zyx.runtime.steps import LaunchStep

#: Told of the kernel that is searched, candidates timed, the gain of the best so far, and seconds left.
Progress: TypeAlias = "Callable[[str, int, float, float], None]"

#: Seconds that the search of a launch gets at least: what takes longer than its share takes it from those behind it.
_LEAST_S: Final = 0.5
#: What takes a smaller part of the program is not searched.
_LEAST_SHARE: Final = 0.002
#: The part of the time that is for what graphs store between their launches, where there is a choice.
_FOR_GRAPHS: Final = 0.3
#: A graph that takes a smaller part of the program is not searched.
_LEAST_GRAPH: Final = 0.05
#: Integers that are noted of a launch, in bytes of a buffer: they may be places that it reads from.
_MOST_BYTES: Final = 1 << 26


@dataclass(frozen=True, slots=True)
class LaunchedProgram:
    """A program that was launched, and can be searched.

    Attributes:
        program: What was launched.
        nests: What it computes.
        device: Where.
        count: How often.
        seconds: All launches together.
        values: What it was given first, by the number of the param: numbers, and contents of buffers of integers.
        library: The name of the library's kernel that it is; empty of a generated one.
        order: The places of the params of the nests among its arguments.
    """

    program: Program
    nests: tuple[Nest, ...]
    device: Device
    count: int
    seconds: float
    values: dict[int, Scalar | np.ndarray[Any, Any]]
    library: str
    order: tuple[int, ...]


class RecordingProfile(Profile):
    """A profile that notes what each program was given first: its numbers, and buffers of integers."""

    def __init__(self) -> None:
        super().__init__()
        self._values: dict[Program, dict[int, Scalar | np.ndarray[Any, Any]]] = {}
        self._drawings: dict[tuple[Device, bytes], Drawing] = {}

    def launch(self, step: LaunchStep, args: Sequence[Argument], events: Sequence[Event]) -> Event:
        """Note what a program is given, and launch it."""
        if step.program not in self._values:
            step.device.memory_pool.sync_events(events)
            self._values[step.program] = self._given(step, args)
            events = ()
        return super().launch(step, args, events)

    def drawn(
        self, order: Sequence[Node], outputs: Sequence[Node], device: Device, launches: Sequence[Kernel | Hosted]
    ) -> None:
        """Note what computes a graph."""
        drawing = drawing_of(order, outputs, device, launches)
        if drawing is not None:
            self._drawings[device, drawing.digest] = drawing

    def _given(self, step: LaunchStep, args: Sequence[Argument]) -> dict[int, Scalar | np.ndarray[Any, Any]]:
        source = self.sources().get(step.program)
        found: dict[int, Scalar | np.ndarray[Any, Any]] = {}
        for param, given in zip([] if source is None else params_of(source.nests), args, strict=False):
            if param.by_value:
                found[param.number] = given  # type: ignore[assignment]  # it is a number
                continue
            nbytes = param.length * param.dtype.itemsize
            if not param.mutable and param.dtype.kind in "iu" and 0 < nbytes <= _MOST_BYTES:
                array = np.zeros(param.length, param.dtype.numpy)
                nbytes = min(array.nbytes, given.nbytes)  # type: ignore[union-attr]  # it is a buffer
                step.device.memory_pool.pool_to_host(given, memoryview(array.view(np.uint8))[:nbytes])  # type: ignore[arg-type]  # as above
                found[param.number] = array
        return found

    def launched(self) -> list[LaunchedProgram]:
        """Return the programs that compute nests, those that took most time first."""
        sources, rows = self.sources(), []
        for program, one in self._launches.items():
            if program in self._served:
                nests, device, params, library = self._served[program]
                order = tuple(params.index(param) for param in params_of(nests))
            elif program in sources:
                source = sources[program]
                nests, device, library = source.nests, source.device, ""
                order = tuple(range(len(params_of(nests))))
            else:
                continue
            values = self._values[program]
            rows.append(LaunchedProgram(program, nests, device, one.count, one.seconds, values, library, order))
        return sorted(rows, key=lambda row: -row.seconds)

    def graphs(self) -> list[tuple[Drawing, float]]:
        """Return the graphs whose launches were made in the stretch, with the seconds of these, the longest first."""
        rows = [(each, sum(self._time_of(program) for program, _ in each.launches)) for each in self._drawings.values()]
        return sorted(rows, key=lambda row: -row[1])

    def dividing(self, runtime: Runtime, drawing: Drawing) -> Dividing:
        """Return the search of what a graph stores."""
        times: dict[Program, float] = {}
        values: dict[int, Scalar | np.ndarray[Any, Any]] = {}
        sources = self.sources()
        for program, places in drawing.launches:
            if program in self._launches:
                times[program] = self._time_of(program) / self._launches[program].count
            source = sources.get(program)
            for param, place in zip([] if source is None else params_of(source.nests), places, strict=False):
                if place is not None and param.number in self._values.get(program, {}):
                    values[place] = self._values[program][param.number]
        return Dividing(runtime, drawing, times, values)

    def _time_of(self, program: Program) -> float:
        return self._launches[program].seconds if program in self._launches else 0.0


class Tuning:
    """What tuning a program gave: iterate over it, or print it, when the block is over.

    Attributes:
        note: Why there is less than there could be; empty if nothing went wrong.
    """

    def __init__(self) -> None:
        self.note = ""
        self._results: list[Tuned] = []
        self.measurements: list[dict[str, Any]] = []

    def results(self) -> list[Tuned]:
        """Return what tuning each launch gave, those that took most of the program's time first."""
        return list(self._results)

    def add(self, tuned: Tuned) -> None:
        """Note another one."""
        self._results.append(tuned)

    def as_json(self) -> dict[str, Any]:
        """Return all of it as data that `json.dumps` takes."""
        return {"kernels": [asdict(each) for each in self._results], "note": self.note}

    def table(self) -> list[tuple[str, ...]]:
        """Return a heading and a row of text for each launch."""
        rows: list[tuple[str, ...]] = [
            ("KERNEL", "DEVICE", "LAUNCHES", "BEFORE", "EXPECTED", "FOUND", "GAINED", "TRIED", "WRONG", "WHY")
        ]
        for each in self._results:
            times = [duration(seconds) if seconds else "" for seconds in (each.before_s, each.expected_s, each.seconds)]
            gain, wrong = f"{each.gain:.2f}x" if each.tried else "", str(len(each.wrong) or "")
            rows.append((each.kernel, each.device, str(each.launches), *times, gain, str(each.tried), wrong, each.why))
        return rows

    def _below(self) -> list[str]:
        """Return the lines below the table."""
        wrong = [f"wrong, and left aside: {each.kernel}: {how}" for each in self._results for how in each.wrong]
        return [*wrong, *([self.note] if self.note else [])]

    def __str__(self) -> str:
        return "\n".join([*columns(self.table()), *self._below()])

    def _repr_html_(self) -> str:
        return html_table(self.table(), self._below())


def tune(
    runtime: Runtime,
    recording: RecordingProfile,
    seconds: float,
    tuning: Tuning,
    progress: Progress,
) -> None:
    """Search the launches of a program for so many seconds in all, and put what was found into `tuning`.

    Args:
        runtime: Whose launches they are.
        recording: What was launched.
        seconds: For all of them.
        tuning: What the results are put into, one by one.
        progress: Told how far it is.
    """
    with runtime.lock:
        launched = recording.launched()
        total = sum(row.seconds for row in launched)
        launched = [row for row in launched if row.seconds >= _LEAST_SHARE * total]
        everything_ends = time.monotonic() + seconds
        graphs = _graphs(runtime, recording, tuning)
        ends = time.monotonic() + seconds * (1.0 - _FOR_GRAPHS if graphs else 1.0)
        compiler, tuner = runtime.compiler, runtime.tuner
        tuner.measurements = tuning.measurements
        others: dict[Program, tuple[Program, Sequence[int]]] = {}
        for number, row in enumerate(launched):
            left = ends - time.monotonic()
            if left <= 0.0:
                tuning.note = f"the time was over before {len(launched) - number} of {len(launched)} kernels"
                break
            weight = sum(each.seconds for each in launched[number:])
            share = max(_LEAST_S, left * row.seconds / weight) if weight else _LEAST_S
            name = row.program.name

            def told(tried: int, gain: float, _: float, name: str = name) -> None:
                progress(name, tried, gain, max(0.0, ends - time.monotonic()))

            try:
                tuned = tuner.tune(
                    row.nests, name, row.device, min(share, left), row.values,
                    launches=row.count, in_use=row.library, progress=told,
                )  # fmt: skip
            except DeviceLostError as error:
                _lost(runtime, error, row.device, name, tuning)
                graphs = []
                break
            runtime.trace.tuned(tuned)
            tuning.add(tuned)
            if tuned.gain > 1.0:
                try:
                    others |= _instead(runtime, row)
                except BackendError as error:  # what was found is there for the next time
                    tuning.note = f"{name} stays as it is in this process: {error}"
        compiler.take_over(others)
        for number, graph in enumerate(graphs):
            _divide(runtime, graph, (everything_ends - time.monotonic()) / (len(graphs) - number), tuning, progress)
        runtime.drop_plans()


def _graphs(runtime: Runtime, recording: RecordingProfile, tuning: Tuning) -> list[Dividing]:
    """Return the searches of graphs that take a good part of a program and have a choice of what they store."""
    if runtime.settings.deterministic:
        return []
    rows = recording.graphs()
    total = sum(seconds for _, seconds in rows)
    found: list[Dividing] = []
    for graph, seconds in rows:
        if seconds >= _LEAST_GRAPH * total > 0.0:
            try:
                dividing = recording.dividing(runtime, graph)
                found += [dividing] if dividing.choices() else []
            except ZyxError as error:  # what the device refused was done in another way
                tuning.note = f"what a graph stores is not searched: {error}"
    return found


def _divide(runtime: Runtime, graph: Dividing, seconds: float, tuning: Tuning, progress: Progress) -> None:
    """Search what a graph stores for so many seconds, and put what was found into `tuning`."""
    if seconds <= 0.0:
        return
    ends = time.monotonic() + seconds
    try:
        tuned = graph.run(
            seconds, lambda tried, gain: progress("graph", tried, gain, max(0.0, ends - time.monotonic()))
        )
    except AllocationError as error:
        tuning.note = f"there is no memory to run a graph by itself: {error}"
        return
    except DeviceLostError as error:
        _lost(runtime, error, graph.device, "what a graph stores", tuning)
        return
    except BackendError as error:
        tuning.note = f"what a graph stores stays as it is: {error}"
        return
    if tuned is not None:
        runtime.trace.tuned(tuned)
        tuning.add(tuned)


def _lost(runtime: Runtime, error: DeviceLostError, device: Device, what: str, tuning: Tuning) -> None:
    locate(error, device.name)
    runtime.lose(error)
    tuning.note = f"tuning ended at {what}: {error}; what was found before is kept"


def _instead(runtime: Runtime, row: LaunchedProgram) -> dict[Program, tuple[Program, Sequence[int]]]:
    """Return the program that takes the place of another; plans have to hold it before the next one is made."""
    compiler = runtime.compiler
    compiler.found(row.nests, row.device)
    winner = compiler.winner(row.nests, row.program.name, row.device)
    if winner is None or winner.library:  # plans made from now on take a library's
        return {}
    future = compiler.start(row.nests, row.program.name, row.device)
    return {row.program: (compiler.result(future), row.order)}
