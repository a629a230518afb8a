"""Search what a graph stores between its launches, by running it.

1. Of each kernel that takes a good part of the time, something that it computes on the way is stored, or something that
   it stores is recomputed where it is needed (`zyx.autotune.choice`).
   A library's kernel takes the place of a hand-written one, or the other way round.
2. Those whose launches are expected to take least are tried. Launches that are new are searched first, as others are.
3. The graph is run by each, in turns with the best so far, on buffers of its own. One that is faster in every turn
   takes its place, and what is tried next is tried on top of it.

What gives other results is left aside, and said to be wrong.
"""

from __future__ import annotations

import math
import statistics
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zyx.autotune.choice import Choice, choices_of, digest_of_graph
from zyx.autotune.measure import differs, drawn_values
from zyx.autotune.store import Winner
from zyx.autotune.tuner import Tuned
from zyx.errors import ScheduleError, UnsupportedError
from zyx.estimate import estimate
from zyx.graph import Graph
from zyx.graph.given import Box, Front, Number
from zyx.graph.node import Leaf
from zyx.graph.rebuild import rebuild
from zyx.graph.walk import topological
from zyx.nest.data import params_of
from zyx.nest.digest import digest_of_nests
from zyx.runtime.drawing import name_of
from zyx.runtime.memory_planning import Hosted
from zyx.runtime.planner import Planner
from zyx.schedule import fallback
from zyx.shape import size_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zyx.backend import Device, Program
    from zyx.dtype import Scalar
    from zyx.graph.node import Node
    from zyx.runtime.buffer import Buffer
    from zyx.runtime.drawing import Drawn
    from zyx.runtime.memory_planning import Launched
    from zyx.runtime.plan import Plan
    from zyx.runtime.runtime import Runtime

#: A kernel that takes a smaller part of the graph's time has no choices.
_LEAST_SHARE: Final = 0.05
#: Choices that have estimates at most, each of which takes some milliseconds a kernel; and that are tried.
_MOST_ESTIMATED: Final = 64
_MOST_TRIED: Final = 6
#: What is expected to take so many times as long as the graph does is not tried: estimates are as far from the truth.
_HOPELESS: Final = 1.25
#: Turns of a comparison, and seconds that the runs of each take about.
_TURNS: Final = 5
_TURN_S: Final = 0.02
#: What has to be gained: runs differ by less.
_LEAST_GAIN: Final = 1.03
#: The part of the free memory that the buffers of a graph may take.
_PART_OF_MEMORY: Final = 0.25
#: Seconds that the search of a new launch takes at most.
_MOST_OF_A_LAUNCH_S: Final = 2.0


@dataclass(frozen=True, slots=True, eq=False)
class Drawing:
    """A graph whose launches were made while a program ran, over leaves that hold nothing.

    Attributes:
        digest: What a choice of it is kept by.
        order: All its nodes, sources first.
        outputs: What is asked for.
        device: What it is prepared for.
        launches: The programs that compute it, and where in the order the nodes of their buffers and numbers are.
    """

    digest: bytes
    order: tuple[Node, ...]
    outputs: tuple[Node, ...]
    device: Device
    launches: tuple[tuple[Program, tuple[int | None, ...]], ...]

    @property
    def leaves(self) -> list[Node]:
        """What it is computed from."""
        return [node for node in self.order if isinstance(node, Leaf)]


def drawing_of(
    order: Sequence[Node], outputs: Sequence[Node], device: Device, launches: Sequence[Launched | Hosted]
) -> Drawing | None:
    """Return a graph that can be run by itself; None if it cannot.

    The host and other processes have no part in those that can, and none is given places: they would have to be right.
    """
    if any(isinstance(launch, Hosted) or launch.call is not None for launch in launches) or any(
        isinstance(node, Box | Front) for node in order
    ):
        return None
    graph = Graph()
    new: dict[Node, Node] = {}
    for node in order:
        if isinstance(node, Number):
            new[node] = Number(node.shape, node.dtype, node.device, most=node.most)
        elif node.storage is not None or isinstance(node, Leaf):
            new[node] = graph.leaf(node.shape, node.dtype, node.device)
        else:
            graph.adopt(node)
            new[node] = rebuild(graph, node, [new[source] for source in node.sources])
    mine = [new[node] for node in outputs]
    again = topological(mine)
    digest = digest_of_graph(order, outputs)
    if digest_of_graph(again, mine) != digest:  # it became a simpler one
        return None
    place = {node: number for number, node in enumerate(again)}
    places = {node: place.get(other) for node, other in new.items()}
    used = tuple(
        (launch.program, tuple(places.get(node) for node in (*launch.buffers, *launch.numbers)))
        for launch in launches
        if not isinstance(launch, Hosted)
    )
    return Drawing(digest, tuple(again), tuple(mine), device, used)


class Dividing:
    """The search of one graph.

    Args:
        runtime: What runs it.
        drawing: The graph.
        times: What a launch of its programs took.
        values: What is known of nodes, by their places: numbers, and contents of buffers of integers.
    """

    def __init__(
        self,
        runtime: Runtime,
        drawing: Drawing,
        times: Mapping[Program, float],
        values: Mapping[int, np.ndarray[Any, Any] | Scalar],
    ) -> None:
        self._runtime = runtime
        self._planner = runtime.planner
        self._drawing = drawing
        self._times = times
        self._values = {drawing.order[place]: value for place, value in values.items()}
        self._expected: dict[bytes, float] = {}
        self._base = self._launches(self._kept())

    @property
    def device(self) -> Device:
        """Where the graph is computed."""
        return self._drawing.device

    def choices(self) -> list[Choice]:
        """Return what may be tried, of the kernels that take most of the time first."""
        drawing = self._drawing
        seconds = {launch: self._seconds_of(launch) for launch in self._base}
        total = sum(seconds.values())
        offered = self._planner.candidates.offers(drawing.device)
        found: dict[Choice, None] = {}
        for launch in sorted(self._base, key=lambda launch: -seconds[launch]):
            if seconds[launch] >= _LEAST_SHARE * total:
                for part in launch.parts:
                    found |= dict.fromkeys(choices_of(drawing.order, drawing.outputs, part, offered))
        return list(found)[:_MOST_ESTIMATED]

    def run(self, seconds: float, told: Callable[[int, float], None]) -> Tuned | None:
        """Search for so many seconds, more or less; keep what was found, and return what it was, if anything was tried.

        `told` is given how many were tried, and the gain so far.

        Raises:
            AllocationError: There is no room for its buffers.
            DeviceLostError: The device does not answer.
        """
        ends = time.monotonic() + seconds
        ranked = self._ranked(ends - seconds / 2)
        if not ranked or not self._fits():
            return None
        best = first = self._kept()
        leaves = self._filled()
        plan = self._plan(best)
        wanted, before = self._results(plan, leaves), 0.0
        gain, tried, wrong = 1.0, 0, list[str]()
        for number, choice in enumerate(ranked):
            left = ends - time.monotonic()
            if left <= 0.0:
                break
            together = best | choice
            try:
                self._search_launches(together, left / (len(ranked) - number))
                other = self._plan(together)
                results = self._results(other, leaves)
            except Planner.refusals:
                continue
            tried += 1
            if how := differs(results, wanted):
                wrong.append(f"{self._said(together)}: {how}")
                continue
            mine, its = self._in_turns(plan, other, leaves)
            before = before or statistics.median(mine)
            ratios = [one / another for one, another in zip(mine, its, strict=True)]
            if min(ratios) > 1.0 and statistics.median(ratios) >= _LEAST_GAIN:
                best, plan = together, other
                gain *= statistics.median(ratios)
            told(tried, gain)
        if not tried:
            return None
        name = f"graph_of_{len(self._base)}_launches"
        what = self._said(best) or "stored as the rules say"
        expected = sum(map(self._expected_of, self._launches(best)))
        device = self._drawing.device
        found = Winner(
            kernel=name,
            device=device.info.model,
            what=what,
            schedules=None,
            choice=best or None,
            expected_s=expected,
            before_s=before,
            seconds=before / gain,
            tried=tried,
            found_at=int(time.time()),
        )
        self._runtime.compiler.store.put(device, self._drawing.digest, found)
        why = self._said(best) if best != first else "nothing else to store is faster"
        return Tuned(name, device.name, what, 0, expected, before, before / gain, gain, why, tried, tuple(wrong))

    # ---- what is looked at

    def _kept(self) -> Choice:
        """Return what was found before."""
        winner = self._runtime.compiler.store.get(self._drawing.device, self._drawing.digest)
        return (winner and winner.choice) or Choice()

    def _launches(self, choice: Choice) -> list[Drawn]:
        drawing = self._drawing
        return self._planner.launches_by(choice, drawing.order, drawing.outputs, drawing.device)

    def _ranked(self, ends: float) -> list[Choice]:
        """Return the choices whose launches are expected to take least, as many as are tried."""
        first, base = self._kept(), Counter(map(self._digest_of, self._base))
        total = sum(map(self._expected_of, self._base))
        rows: list[tuple[float, Choice]] = []
        for choice in self.choices():
            if time.monotonic() > ends:
                break
            try:
                launches = self._launches(first | choice)
            except (*Planner.refusals, UnsupportedError):
                continue
            if choice.served or Counter(map(self._digest_of, launches)) != base:
                rows.append((sum(map(self._expected_of, launches)), choice))
        rows.sort(key=lambda row: row[0])
        return [choice for expected, choice in rows if expected <= _HOPELESS * total][:_MOST_TRIED]

    def _digest_of(self, launch: Drawn) -> bytes:
        return digest_of_nests(launch.nests)

    def _expected_of(self, launch: Drawn) -> float:
        """Return the estimated seconds of a launch; 0 for a hand-written kernel, which is not searched."""
        digest, info = self._digest_of(launch), self._drawing.device.info
        if digest not in self._expected:
            choose = fallback.SCHEDULES[0].choose
            try:
                found = [estimate(choose(nest, info, len(launch.nests) == 1)[0], info) for nest in launch.nests]
                self._expected[digest] = sum(each.seconds for each in found)
            except ScheduleError:
                self._expected[digest] = math.inf
        return self._expected[digest]

    def _seconds_of(self, launch: Drawn) -> float:
        """Return what a launch of the program took, or is expected to take if others took its place."""
        nodes = {*(launch.node_of.values() or (*launch.stored, *launch.parts[0].root.sources))}
        for program, places in self._drawing.launches:
            its = {self._drawing.order[place] for place in places if place is not None}
            if nodes == its and program in self._times:
                return self._times[program]
        return self._expected_of(launch)

    def _search_launches(self, choice: Choice, seconds: float) -> None:
        """Search the launches of a choice for which nothing was found."""
        device, store = self._drawing.device, self._runtime.compiler.store
        launches = {self._digest_of(launch): launch for launch in self._launches(choice) if launch.nests}
        known = set(map(self._digest_of, self._base))
        new = [one for key, one in launches.items() if key not in known and store.get(device, key) is None]
        for launch in new:
            values = {
                param.number: self._values[launch.node_of[param]]
                for param in params_of(launch.nests)
                if launch.node_of[param] in self._values
            }
            share = min(_MOST_OF_A_LAUNCH_S, seconds / (2 * len(new)))
            self._runtime.tuner.tune(launch.nests, name_of(launch.parts), device, share, values)

    def _said(self, choice: Choice) -> str:
        """Say what a choice is."""
        rows = []
        every = (("stores", choice.stored), ("recomputes", choice.recomputed), ("the other kernel for", choice.served))
        for verb, places in every:
            nodes = [self._drawing.order[place] for place in places]
            rows += [f"{verb} {type(node).__name__.lower()} {node.dtype.name}{list(node.shape)}" for node in nodes]
        return ", ".join(rows)

    # ---- running it

    def _plan(self, choice: Choice) -> Plan:
        drawing = self._drawing
        return self._planner.make_by(choice, drawing.outputs, drawing.leaves, drawing.device)

    def _fits(self) -> bool:
        nodes = (*self._drawing.leaves, *self._drawing.outputs)
        nbytes = sum(size_of(node.shape) * node.dtype.itemsize for node in nodes)
        return nbytes <= _PART_OF_MEMORY * self._drawing.device.memory_pool.free_bytes

    def _filled(self) -> list[Buffer | Scalar]:
        """Return what the leaves are given as."""
        memory, pool = self._runtime.memory, self._drawing.device.memory_pool
        generator = np.random.default_rng(self._runtime.settings.autotune.seed)
        given: list[Buffer | Scalar] = []
        for leaf in self._drawing.leaves:
            known = self._values.get(leaf)
            if isinstance(leaf, Number):
                given.append(0 if known is None else known)  # type: ignore[arg-type]  # it is a number
                continue
            size = size_of(leaf.shape)
            if isinstance(known, np.ndarray):
                content = np.ascontiguousarray(known.ravel())[:size]
            elif leaf.dtype.is_float or leaf.dtype.is_bool:
                content = drawn_values(size, leaf.dtype, generator, is_positive=True)
            else:
                content = np.zeros(size, leaf.dtype.numpy)  # they may be places
            buffer = memory.allocate(pool, content.nbytes)
            if content.size:
                pool.sync_events([pool.host_to_pool(memoryview(content.view(np.uint8)), buffer.raw)])  # type: ignore[arg-type]  # it has elements
            given.append(buffer)
        return given

    def _run(self, plan: Plan, leaves: Sequence[Buffer | Scalar]) -> list[Buffer]:
        results = plan.run(leaves, self._runtime.memory, self._runtime.trace)
        for buffer in results:
            buffer.wait()
        return results

    def _results(self, plan: Plan, leaves: Sequence[Buffer | Scalar]) -> list[np.ndarray[Any, Any]]:
        found: list[np.ndarray[Any, Any]] = []
        for node, buffer in zip(self._drawing.outputs, self._run(plan, leaves), strict=True):
            array = np.empty(size_of(node.shape), node.dtype.numpy)
            if array.size:
                buffer.pool.pool_to_host(buffer.raw, memoryview(array.view(np.uint8)))  # type: ignore[arg-type]  # as above
            found.append(array)
        return found

    def _in_turns(self, one: Plan, other: Plan, leaves: Sequence[Buffer | Scalar]) -> tuple[list[float], list[float]]:
        """Return the seconds of a run of two plans, by turns."""
        for plan in (one, other):
            self._run(plan, leaves)  # the second run may be captured
        started = time.perf_counter()
        self._run(one, leaves)
        count = max(1, round(_TURN_S / max(time.perf_counter() - started, 1e-6)))
        times: tuple[list[float], list[float]] = ([], [])
        for turn in range(_TURNS):
            for plan, mine in [(one, times[0]), (other, times[1])][:: 1 if turn % 2 else -1]:
                started = time.perf_counter()
                for _ in range(count):
                    results = plan.run(leaves, self._runtime.memory, self._runtime.trace)
                for buffer in results:
                    buffer.wait()
                mine.append((time.perf_counter() - started) / count)
        return times
