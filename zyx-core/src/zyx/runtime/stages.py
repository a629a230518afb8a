"""What becomes of each kernel on its way from a graph to source, and the texts of it: stage by stage.

    graph       the operations that the kernel computes, from what it reads
    nests       these as loop nests, as they were fused
    scheduled   the nests after the moves of their schedule, and the moves
    lowered     the kernel that was made of them
    passes      the kernel after the passes that the device needs, and which of these changed it
    source      what the backend made of it

What was compiled is not kept: the stages are made again from the nests, by the schedule that was taken. They are the
same, since nothing on the way but these decides what comes out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from zyx.autotune.written import read_moves
from zyx.errors import ZyxError
from zyx.graph import Graph
from zyx.graph import node as n
from zyx.graph.ends import ends_of
from zyx.graph.given import Box, Front, Packed
from zyx.graph.lines import in_lines
from zyx.graph.printer import format_graph
from zyx.graph.rebuild import rebuild
from zyx.kernel.digest import digest_of_kernel
from zyx.kernels.custom import CustomKernel
from zyx.lowering.lower import lower_together
from zyx.nest.data import params_of
from zyx.nest.digest import digest_of_nests
from zyx.passes.pipeline import run_passes, standard_passes
from zyx.runtime.kernel_times import Source
from zyx.runtime.memory_planning import Launched
from zyx.runtime.steps import LaunchStep
from zyx.schedule import fallback
from zyx.schedule.moves import apply_moves

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from concurrent.futures import Future

    from zyx.autotune.store import Winner
    from zyx.backend import Argument, Device, Event, MemoryPool, PoolBuffer, Program
    from zyx.dtype import Scalar
    from zyx.graph.node import Node
    from zyx.kernel.data import Kernel
    from zyx.nest.data import Nest
    from zyx.nest.expr import Param
    from zyx.runtime.buffer import Buffer
    from zyx.runtime.host_step import HostStep
    from zyx.runtime.memory_planning import Hosted
    from zyx.runtime.plan import Plan
    from zyx.schedule.moves import Move

GRAPH, NESTS, SCHEDULED, LOWERED, PASSES, SOURCE = "graph", "nests", "scheduled", "lowered", "passes", "source"
#: All of them, in order.
STAGES: Final = (GRAPH, NESTS, SCHEDULED, LOWERED, PASSES, SOURCE)


class StageText(NamedTuple):
    """The text of a kernel at one of `STAGES`."""

    name: str
    text: str


class PassStep(NamedTuple):
    """What a pass has made of a kernel."""

    name: str
    before: Kernel
    after: Kernel


@dataclass(frozen=True, slots=True)
class KernelGraph:
    """The operations of one launch, over leaves for what it reads.

    Attributes:
        outputs: The nodes that it stores.
        leaves: For each of its buffers and numbers, by its place among them, the leaf that stands for it.
    """

    outputs: Sequence[Node]
    leaves: Mapping[int, Node]


class Making:
    """How the kernel of one launch is made.

    Attributes:
        launched: The launch.
        source: The nests, and by which schedule they are run; None of a hand-written kernel.
        params: The params of the nests, in the order of the launch.
        library: The name of the library that computes it in place of a kernel of ours; empty if none does.
        graph: What it computes; None if that cannot be told from the graph.
        no_graph: Why it is None.
        ends: Of what it stores, by its place among the buffers, up to where that is of use: for each axis the place of
            a number among those that the launch is given, or None if all of it is.
        has_all_ends: Whether it is given all of these numbers.
    """

    def __init__(
        self,
        launched: Launched,
        source: Source | None,
        *,
        params: Sequence[Param] = (),
        library: str = "",
        is_part: bool = False,
    ) -> None:
        self.launched = launched
        self.source = source
        self.params = params or (() if source is None else params_of(source.nests))
        self.library = library
        self.graph, self.no_graph = (None, "it is one of several launches") if is_part else _graph_of(launched)
        self.ends: dict[int, tuple[int | None, ...]] = {}
        self.has_all_ends = True
        places = {node: place for place, node in enumerate(launched.numbers)}
        for number, node in enumerate(launched.buffers):
            if node in launched.stored and (ends := ends_of(node)):
                self.has_all_ends &= all(end is None or end in places for end in ends)
                self.ends[number] = tuple(None if end is None else places.get(end) for end in ends)

    @property
    def name(self) -> str:
        """The name of the kernel."""
        return self.launched.program.name

    @property
    def device(self) -> Device:
        """Where it runs."""
        return self.launched.device

    @property
    def where(self) -> str:
        """The kernel, its device and the lines of the program, for people."""
        return f"{self.name} on {self.device.name}{in_lines(self.launched.lines)}"

    @property
    def custom(self) -> Kernel | None:
        """The hand-written kernel that it is, if it is one."""
        root = self.launched.stored[0] if self.launched.stored else None
        if self.source is None and isinstance(root, n.Custom) and isinstance(root.kernel, CustomKernel):
            return root.kernel.kernel
        return None

    @property
    def key(self) -> tuple[str, str, bytes]:
        """What it is known by: equal kernels of a device have one."""
        of_nests = b"" if self.source is None else digest_of_nests(self.source.nests)
        return self.device.name, self.name, of_nests or (digest_of_kernel(self.custom) if self.custom else b"")

    @cached_property
    def scheduled(self) -> list[tuple[Nest, list[Move]]]:
        """Each nest as it is run, and the moves that make it so."""
        source = self.source
        assert source is not None  # whoever asks has looked
        if source.winner is not None and source.winner.schedules is not None:
            found = [read_moves(moves) for moves in source.winner.schedules]
            return [(apply_moves(nest, moves), moves) for nest, moves in zip(source.nests, found, strict=True)]
        choose = fallback.SCHEDULES[source.schedule].choose
        return [choose(nest, source.device.info, len(source.nests) == 1) for nest in source.nests]

    @cached_property
    def lowered(self) -> Kernel:
        """The kernel as it is before the passes."""
        if self.custom is not None:
            return self.custom
        nests = [nest for nest, _ in self.scheduled]
        return lower_together(nests, self.name, with_ends=self.device.takes_loop_ends)

    @cached_property
    def passes(self) -> list[PassStep]:
        """What each pass made of the kernel, in order; those that changed nothing among them."""
        steps: list[PassStep] = []

        def note(name: str, before: Kernel, after: Kernel, seconds: float) -> None:
            steps.append(PassStep(name, before, after))

        run_passes(self.lowered, standard_passes(self.device.info), note)
        return steps

    @property
    def finished(self) -> Kernel:
        """The kernel as the device is given it."""
        return self.passes[-1].after if self.passes else self.lowered

    def stages(self) -> Iterator[StageText]:
        """Yield the text of each stage that there is; one that cannot be made again says why."""
        if self.graph is not None:
            yield StageText(GRAPH, format_graph(self.graph.outputs))
        else:
            yield StageText(GRAPH, f"not shown: {self.no_graph}")
        if self.source is not None:
            yield StageText(NESTS, texts_of(self.source.nests))
        if self.library:
            yield StageText(SOURCE, f"computed by the library {self.library}, which has no source here")
            return
        if self.source is None and self.custom is None:
            yield StageText(SOURCE, self.launched.program.source or "a program without source, made by the backend")
            return
        try:
            if self.source is not None:
                yield StageText(SCHEDULED, self._scheduled_text())
            yield StageText(LOWERED, str(self.lowered))
            changed = list(dict.fromkeys(step.name for step in self.passes if step.after is not step.before))
            yield StageText(PASSES, f"changed by: {', '.join(changed) or 'nothing'}\n\n{self.finished}")
        except ZyxError as error:  # such as of a move of another package
            yield StageText(PASSES, f"cannot be made again: {type(error).__name__}: {error}")
        source = self.launched.program.source
        yield StageText(SOURCE, source or f"no source: {self.device.name} is given the kernel itself")

    def _scheduled_text(self) -> str:
        assert self.source is not None  # as above
        winner = self.source.winner
        is_found = winner is not None and winner.schedules is not None
        how = "found by measuring" if is_found else fallback.SCHEDULES[self.source.schedule].name
        parts = [f"schedule: {how}"]
        for nest, moves in self.scheduled:
            parts.append("\n".join([*(f"    {move}" for move in moves), str(nest)]))
        return "\n\n".join(parts)

    def __str__(self) -> str:
        parts = [f"kernel {self.where}"]
        parts += [f"---- {STAGES.index(stage.name) + 1} {stage.name}\n{stage.text.rstrip()}" for stage in self.stages()]
        return "\n".join(parts)


def texts_of(nests: Sequence[Nest]) -> str:
    """Return the text of nests that share a launch."""
    return "\n\n".join(map(str, nests))


def _graph_of(launched: Launched) -> tuple[KernelGraph | None, str]:
    """Return what a launch computes, over leaves; or None, and why there is none."""
    given = (*launched.buffers, *launched.numbers)
    stored = dict.fromkeys(launched.stored)
    if launched.call is not None or not stored:
        return None, "a backend's own program computes it"
    if isinstance(next(iter(stored)), n.Custom):
        return None, "it is a hand-written kernel"
    graph = Graph()
    leaves = {
        number: graph.leaf(node.shape, node.dtype, node.device)
        for number, node in enumerate(given)
        if node not in stored
    }
    new: dict[Node, Node] = {given[number]: leaf for number, leaf in leaves.items()}
    above = list(stored)
    while above:
        node = above[-1]
        missing = [source for source in node.sources if source not in new]
        if node in new or not missing:
            above.pop()
        else:
            above += missing
            continue
        if node in new:
            continue
        if isinstance(node, Box | Front | Packed):
            return None, "where it reads or writes, or how much, is given at the launch"
        if isinstance(node, n.Leaf):
            return None, "it stores what no node of the graph stands for"
        new[node] = rebuild(graph, node, [new[source] for source in node.sources])
    if any(isinstance(node, Box | Front) for node in given):
        return None, "where it reads, or how much, is given at the launch"
    return KernelGraph([new[node] for node in stored], leaves), ""


class Following:
    """A `zyx.runtime.trace.Profiler` that knows of each launch how its kernel is made.

    Attributes:
        makings: All of them, in order, each kernel once for each launch of a plan that has it.
    """

    def __init__(self) -> None:
        self.makings: list[Making] = []
        self._started: list[tuple[Future[Program], Source]] = []
        self._served: list[tuple[Program, Source, Sequence[Param], str]] = []
        self._known: dict[Program, Source] = {}
        self._drawn: list[Making] = []  # since the last plan
        self._by_step: dict[int, Making] = {}
        self._plans: list[Plan] = []  # whose steps have these numbers
        self._taken: set[tuple[str, str, bytes]] = set()

    def started(
        self, future: Future[Program], nests: Sequence[Nest], device: Device, schedule: int, winner: Winner | None
    ) -> None:
        """Note what a program is made from."""
        self._started.append((future, Source(tuple(nests), device, schedule, winner)))

    def served(
        self, program: Program, nests: Sequence[Nest], device: Device, params: Sequence[Param], name: str
    ) -> None:
        """Note which nests a library computes."""
        self._served.append((program, Source(tuple(nests), device, 0), params, name))

    def drawn(
        self, order: Sequence[Node], outputs: Sequence[Node], device: Device, launches: Sequence[Launched | Hosted]
    ) -> None:
        """Note the launches of a graph, with what they are made from."""
        mine = [launched for launched in launches if isinstance(launched, Launched)]
        stored = [launched.stored for launched in mine]
        for launched in mine:
            is_part = stored.count(launched.stored) > 1
            self._drawn.append(self._making(launched, is_part=is_part))

    def _making(self, launched: Launched, *, is_part: bool) -> Making:
        """Return how a launch is made: launches are drawn in the order in which their programs were asked for."""
        for number, (future, source) in enumerate(self._started):
            if future.done() and future.exception() is None and future.result() is launched.program:
                del self._started[number]
                self._known[launched.program] = source
                return Making(launched, source, is_part=is_part)
        for number, (program, source, params, name) in enumerate(self._served):
            if program is launched.program:
                del self._served[number]
                return Making(launched, source, params=params, library=name, is_part=is_part)
        known = self._known.get(launched.program)  # such as of a later step of a loop
        return Making(launched, known, is_part=is_part)

    def planned(self, plan: Plan, seconds: float) -> None:
        """Note which steps of a plan are which launches."""
        self._plans.append(plan)
        for step in plan.steps:
            if isinstance(step, LaunchStep):
                for number, making in enumerate(self._drawn):
                    launched = making.launched
                    if (launched.program, launched.starts) == (step.program, step.starts):
                        self._by_step[id(step)] = making
                        self.makings.append(making)
                        del self._drawn[number]
                        break
        self._drawn.clear()
        self._started.clear()
        self._served.clear()

    def take(self) -> list[Making]:
        """Return the kernels that were not returned before, and keep nothing of them but what they are known by."""
        found = {key: making for making in reversed(self.kernels()) if (key := making.key) not in self._taken}
        self._taken.update(found)
        self.makings.clear()
        self._by_step.clear()
        self._plans.clear()
        self._known.clear()
        return list(found.values())[::-1]

    def of(self, step: LaunchStep) -> Making | None:
        """Return how the kernel of a step is made; None if that is not known."""
        return self._by_step.get(id(step))

    def kernels(self) -> list[Making]:
        """Return each program once, in the order in which they were planned."""
        found: dict[Program, Making] = {}
        for making in self.makings:
            found.setdefault(making.launched.program, making)
        return list(found.values())

    def launch(self, step: LaunchStep, args: Sequence[Argument], events: Sequence[Event]) -> Event:
        """Launch."""
        return step.device.launch(step.program, args, events)

    # ---- what it has no use for

    def begin(self, live: Mapping[MemoryPool, int]) -> None:
        """Do nothing."""

    def end(self) -> None:
        """Do nothing."""

    def prepared(self, outputs: Sequence[Node], prepared: Sequence[Node], device: Device) -> None:
        """Do nothing."""

    def called(self, step: HostStep, seconds: float, buffers: Sequence[Buffer | Scalar]) -> None:
        """Do nothing."""

    def copied(self, source: str, target: str, nbytes: int, started: float) -> None:
        """Do nothing."""

    def compiled(self, device: Device, program: Program, seconds: float, *, is_restored: bool) -> None:
        """Do nothing."""

    def held(self, pool: MemoryPool, raw: PoolBuffer, live_bytes: int) -> None:
        """Do nothing."""

    def freed(self, pool: MemoryPool, raw: PoolBuffer, live_bytes: int) -> None:
        """Do nothing."""
