"""Make the plan of a graph: divide it by device, then into kernels, compile these, and give every value a buffer."""

from __future__ import annotations

import functools
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from zyx.autotune.choice import Choice, digest_of_graph
from zyx.errors import AllocationError, ScheduleError, UnsupportedError, VerifyError
from zyx.fusion.arrange import arrange, donate, link_by_link
from zyx.fusion.build import build_nest
from zyx.fusion.division import Division
from zyx.fusion.elsewhere import nodes_apart
from zyx.fusion.library import product_in
from zyx.fusion.offset_specialisation import SharedKernel, share_kernels
from zyx.fusion.partition import partition
from zyx.fusion.prepare import count_variants, prepare
from zyx.graph import Graph
from zyx.graph import node as n
from zyx.graph.host_call import HostCall
from zyx.graph.lines import in_lines, lines_of
from zyx.graph.loop import Loop
from zyx.graph.rebuild import rebuild
from zyx.graph.walk import topological
from zyx.kernels.custom import CustomKernel
from zyx.libraries.match import OF_NESTS, match_problem
from zyx.nest.data import params_of
from zyx.runtime.compiler import REFUSALS
from zyx.runtime.drawing import Drawn, KnownNests, Started, lines_of_parts, name_of
from zyx.runtime.host_step import ArraySlot, HostStep
from zyx.runtime.kept_plans import KeptPlans
from zyx.runtime.looping import WrittenRows, steps_of
from zyx.runtime.memory_planning import Copy, Hosted, Launched, plan_memory
from zyx.runtime.on_host import OnHost, needed_copies
from zyx.runtime.plan import Plan, Slice
from zyx.runtime.steps import CopyStep, LaunchStep, Step
from zyx.shape import size_of
from zyx.specialise import lengths, numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zyx.autotune.store import Winner
    from zyx.backend import Device, Program
    from zyx.fusion.partition import KernelPart
    from zyx.graph.node import Node
    from zyx.graph.signature import Key
    from zyx.nest.data import Nest
    from zyx.nest.expr import Param
    from zyx.runtime.candidates import Candidates
    from zyx.runtime.compiler import Compiler
    from zyx.runtime.memory_planning import Action
    from zyx.specialise.lengths import Bounded
    from zyx.specialise.numbers import Given
    from zyx.specialise.table import Table


class Planner:
    """Makes plans.

    Args:
        device_of: From a device's name to the device.
        compiler: For the kernels.
        candidates: Libraries beside it.
        is_deterministic: Whether floats are combined in an order that is always the same.
    """

    #: What is tried in another way.
    refusals: Final = (*REFUSALS, ScheduleError, VerifyError)

    def __init__(
        self,
        device_of: Callable[[str], Device],
        compiler: Compiler,
        candidates: Candidates,
        *,
        is_deterministic: bool,
    ) -> None:
        self.device_of = device_of
        self.compiler = compiler
        self.candidates = candidates
        self.is_deterministic = is_deterministic
        self.kept = KeptPlans(device_of, compiler, candidates, is_deterministic=is_deterministic)

    # What is asked for at each new graph is reached from here: when Python is ending, nothing can be imported any more.

    def given(self, table: Table, key: Key, order: Sequence[Node], *, is_traced: bool = False) -> Given | None:
        """Return which numbers a plan is given; see `zyx.specialise.numbers.given`."""
        return numbers.given(table, key, order, is_traced=is_traced)

    def bake(self, table: Table, key: Key) -> None:
        """Give no more numbers; see `zyx.specialise.numbers.bake`."""
        numbers.bake(table, key)

    def bounded(self, table: Table, outputs: Sequence[Node], order: Sequence[Node]) -> Bounded | None:
        """Return the graph of a plan that is given lengths; see `zyx.specialise.lengths.bounded`."""
        return lengths.bounded(table, outputs, order)

    def make(
        self,
        outputs: Sequence[Node],
        leaves: Sequence[Node],
        donations: Mapping[Node, Node] | None = None,
        placed: Mapping[str, Device] | None = None,
    ) -> Plan:
        """Return the plan that computes `outputs`, none of which has storage, from `leaves`.

        An output may be stored over the leaf that `donations` has for it, where that gives the same values; the plan's
        `results` say where it was. `placed` has a device for each group of devices that nodes belong to.
        """
        plan = _Making(self, donations or {}, placed or {}).make(outputs, leaves)
        self.compiler.hold(plan)
        return plan

    def make_by(self, choice: Choice, outputs: Sequence[Node], leaves: Sequence[Node], device: Device) -> Plan:
        """Return the plan of a graph that is prepared for `device`, by a choice of what it stores."""
        making = _Making(self, {}, {}, choice)
        plan = making._with_buffers(outputs, leaves, making._kernels(outputs, device, {}))
        self.compiler.hold(plan)
        return plan

    def launches_by(
        self, choice: Choice, order: Sequence[Node], outputs: Sequence[Node], device: Device
    ) -> list[Drawn]:
        """Return the launches of such a plan, none of which is compiled."""
        making = _Making(self, {}, {}, choice)
        launches = making._launches(order, outputs, device, Division(*choice.nodes(order)))
        return [making._drawn(parts, device) for parts in launches]


class _Making:
    """One plan being made."""

    def __init__(
        self,
        planner: Planner,
        donations: Mapping[Node, Node],
        placed: Mapping[str, Device],
        choice: Choice | None = None,
    ) -> None:
        self._graph = Graph()
        self._choice = choice  # in place of what was found by measuring
        self._device_by_name = planner.device_of
        self._placed = placed
        self._compiler = planner.compiler
        self._candidates = planner.candidates
        self._is_deterministic = planner.is_deterministic
        self._donations = donations
        self._donated: dict[Node, Node] = {}
        self._known = KnownNests(is_deterministic=planner.is_deterministic)
        # By device and what it runs: nests that launches share, or a kernel, such as a sort launches many times.
        self._begun: dict[tuple[object, ...], Future[Program]] = {}
        self._shared: dict[Node, Node] = {}  # a leaf that stands for another node's buffer, which its device can reach
        self._planner = planner
        self._written: WrittenRows | None = None  # where the body of a loop is planned

    def make(self, outputs: Sequence[Node], leaves: Sequence[Node]) -> Plan:
        """Return the plan; see `Planner.make`."""
        actions: list[Action] = []
        targets: dict[Node, Node] = {}  # a ToDevice node -> the leaf that stands for its result
        wanted = self._on_device(outputs, targets, actions)
        shared = self._shared
        actions = [
            replace(action, buffers=tuple(shared.get(node, node) for node in action.buffers))
            if isinstance(action, Launched | Hosted)
            else Copy(shared.get(action.source, action.source), shared.get(action.target, action.target))
            for action in actions
        ]
        return self._with_buffers([shared.get(node, node) for node in wanted], leaves, actions)

    def _device_of(self, name: str) -> Device:
        return self._placed.get(name) or self._device_by_name(name)

    def _on_device(self, outputs: Sequence[Node], targets: dict[Node, Node], actions: list[Action]) -> list[Node]:
        """Plan `outputs`, what they need from other devices first; return the nodes whose buffers hold their values."""
        order = topological(outputs)
        transfers = [node for node in order if isinstance(node, n.ToDevice) and node.storage is None]
        if transfers:
            outputs = self._cut(outputs, order, targets, actions)
            order = topological(outputs)
        wanted: dict[Node, Node] = {}
        for device_name in dict.fromkeys(node.device for node in outputs):
            device = self._device_of(device_name)
            mine = [node for node in outputs if node.device == device_name]
            results, kernels = self._computed(mine, device, may_donate=not transfers)
            wanted.update(results)
            actions += kernels
        return [wanted[node] for node in outputs]

    def _computed(
        self, outputs: Sequence[Node], device: Device, *, may_donate: bool
    ) -> tuple[dict[Node, Node], list[Action]]:
        """Return the nodes whose buffers hold the values of a device's outputs, and the launches that compute them."""
        order = topological(outputs)
        variants = count_variants(order, device.info)
        for variant in range(variants):
            try:
                prepared = prepare(
                    self._graph, order, outputs, device.info, deterministic=self._is_deterministic, variant=variant
                )
                self._compiler.trace.prepared(outputs, prepared, device)
                wanted = dict(zip(outputs, prepared, strict=True))
                offers = {wanted[node]: old for node, old in self._donations.items() if node in wanted}
                if self._written is not None:
                    self._written.prepared(wanted)
                return wanted, self._kernels(prepared, device, link_by_link(offers) if may_donate else {})
            except Planner.refusals as error:
                if variant + 1 == variants:
                    raise
                self._compiler.trace.prepared_otherwise(error)
        raise AssertionError("the last variant returns or raises")

    def _cut(
        self,
        outputs: Sequence[Node],
        order: Sequence[Node],
        targets: dict[Node, Node],
        actions: list[Action],
    ) -> list[Node]:
        """Replace transfers by leaves, planning what they transfer, innermost first; return the outputs over these."""
        new: dict[Node, Node] = {}
        for node in order:
            if node.storage is not None:
                new[node] = node
                continue
            sources = [new[source] for source in node.sources]
            if isinstance(node, n.ToDevice):
                if node not in targets:
                    (held,) = self._on_device(sources, targets, actions)
                    targets[node] = self._graph.leaf(node.shape, node.dtype, node.device)
                    if self._device_of(held.device).memory_pool is self._device_of(node.device).memory_pool:
                        self._shared[targets[node]] = self._shared.get(held, held)
                    else:
                        actions.append(Copy(self._shared.get(held, held), targets[node]))
                new[node] = targets[node]
            else:
                new[node] = rebuild(self._graph, node, sources)
        return [new[node] for node in outputs]

    def _kernels(self, outputs: Sequence[Node], device: Device, offers: Mapping[Node, Node]) -> list[Action]:
        """Return the launches that compute those of `outputs` that are not there yet, compiled.

        What a device refuses in every schedule is divided: launches into their kernels, these into what could be
        kernels of its own, and that in halves. See `donate` for `offers`.

        Raises:
            BackendError: The device refuses a kernel that cannot be divided.
        """
        order = topological(outputs)
        choice = self._chosen(order, outputs, device)
        division = Division(*choice.nodes(order))
        is_shared = True
        while True:
            launches = self._launches(order, outputs, device, division)
            donated = donate(launches, {} if division.elsewhere else dict(offers), set(outputs))
            if self._written is not None:
                self._written.note(launches)
            current: Sequence[KernelPart] = ()
            started: list[tuple[Sequence[KernelPart], Started | Action]] = []
            kernels: list[Action] = []
            placed = OnHost(self._graph, self._device_of, division)
            try:
                drawn: list[Drawn] = []
                for current in launches:
                    drawn.append(self._drawn(current, device))
                nests = [launch.nests for launch in drawn]
                shared = share_kernels(nests) if is_shared else [SharedKernel(own) for own in nests]
                with self._compiler.trace.bar("compiling kernels", len(drawn)) as bar:
                    for launch, one in zip(drawn, shared, strict=True):
                        current = launch.parts
                        start = functools.partial(self._started, launch, one, division)
                        started += [(current, kernel) for kernel in placed.started(launch, device, start)]
                        bar.advance(0.5)  # scheduling takes about as long as compiling
                    for current, kernel in started:  # noqa: B007  # for what is said of one that fails
                        bar.advance(0.5 * len(drawn) / len(started))
                        if not isinstance(kernel, Started):
                            kernels.append(kernel)
                            continue
                        program = self._compiler.result(kernel.program)
                        numbers = kernel.numbers, kernel.starts, kernel.lines
                        kernels.append(Launched(kernel.device, program, kernel.buffers, kernel.stored, *numbers))
            except Planner.refusals as error:
                self._begun.clear()  # what has failed is to be tried again
                if choice:
                    self._compiler.trace.chosen_otherwise(error)
                    self._compiler.store.drop(device, digest_of_graph(order, outputs))
                    choice = Choice()
                    division = Division(*choice.nodes(order))
                elif is_shared and any(isinstance(kernel, Started) and kernel.starts for _, kernel in started):
                    is_shared = False
                    self._compiler.trace.unshared(error)
                elif division.divide(current, device.info) or (
                    isinstance(error, UnsupportedError) and division.send_elsewhere(current, device.info)
                ):
                    self._compiler.trace.divided(name_of(current), error)
                else:
                    if lines := lines_of_parts(current):
                        error.add_note(f"{name_of(current)}{in_lines(lines)}")
                    raise
                continue
            self._donated.update(donated)
            kernels = needed_copies(kernels, outputs)
            if self._written is None:
                launched = [action for action in kernels if not isinstance(action, Copy)]
                self._compiler.trace.drawn(order, outputs, device, launched)
            return kernels

    def _chosen(self, order: Sequence[Node], outputs: Sequence[Node], device: Device) -> Choice:
        """Return what was found by measuring of what a graph stores; nothing of bodies of loops."""
        if self._choice is not None:
            return self._choice
        store = self._compiler.store
        if store.is_empty or self._written is not None or self._is_deterministic:
            return Choice()
        winner = store.get(device, digest_of_graph(order, outputs))
        return (winner and winner.choice) or Choice()

    def _launches(
        self, order: Sequence[Node], outputs: Sequence[Node], device: Device, division: Division
    ) -> list[Sequence[KernelPart]]:
        """Return the kernels that compute `outputs`, those together that share a launch."""
        return division.launches(arrange(self._parts(order, outputs, device, division), device.info))

    def _parts(
        self, order: Sequence[Node], outputs: Sequence[Node], device: Device, division: Division
    ) -> list[KernelPart]:
        """Return the kernels that compute `outputs`; large products are by themselves where they are a library's."""
        by_themselves, recomputed = division.apart | nodes_apart(order, outputs, device.info), division.recomputed
        parts = partition(order, outputs, device.info, by_themselves, recomputed)
        parts = [part for part in parts if not all(0 in node.shape for node in part.written)]  # what is there already
        if self._candidates.serves(device).isdisjoint(OF_NESTS):
            return parts
        products = {part: node for part in parts if (node := product_in(part)) is not None}
        fused = {part for part, node in products.items() if node in recomputed}
        apart = {
            node for part, node in products.items() if part not in fused and match_problem(build_nest(part, {})) is None
        }
        if not apart:
            return parts
        alone = partition(order, outputs, device.info, apart | by_themselves, recomputed)
        taken = {part.root for part in alone if part.root in apart and self._is_library_s(part, device)}
        if taken == apart:
            return alone
        return partition(order, outputs, device.info, taken | by_themselves, recomputed) if taken else parts

    def _is_library_s(self, part: KernelPart, device: Device) -> bool:
        return self._library_program(build_nest(part, {}), name_of([part]), device) is not None

    def _library_program(self, nest: Nest, name: str, device: Device) -> tuple[Program, tuple[Param, ...], str] | None:
        def winner(nests: Sequence[Nest]) -> Winner | None:
            return self._compiler.winner(nests, name, device)

        return self._candidates.library_program(nest, device, winner, self._compiler.prepared)

    def _drawn(self, parts: Sequence[KernelPart], device: Device) -> Drawn:
        """Return the nests of `parts`, which share a launch."""
        if isinstance(parts[0].root, n.Custom):
            return Drawn(parts, (), {})
        for part in parts:
            for node in part.stored:
                self._slice(node)  # before anything is compiled that could not be launched
        return self._known.drawn(parts, device)

    def _body(self, device: Device, outputs: Sequence[Node], written: WrittenRows) -> list[Launched]:
        """Return the launches of the body of a loop; what they store for each of its outputs is noted in `written`.

        Raises:
            UnsupportedError: The host would have to take part.
        """
        making = _Making(self._planner, {}, {**self._placed, outputs[0].device: device})  # which may be the host's
        making._written = written
        _, launches = making._computed(outputs, device, may_donate=False)
        found = [launch for launch in launches if isinstance(launch, Launched)]
        if len(found) < len(launches) or any(launch.call is not None for launch in found):
            raise UnsupportedError("what the host computes has no place in a loop")
        return found

    def _started(
        self, drawn: Drawn, shared: SharedKernel, division: Division, device: Device
    ) -> Sequence[Started | Hosted | Launched]:
        """Return what computes a launch: one kernel, or several that follow each other."""
        if not drawn.nests:
            root = drawn.parts[0].root
            if isinstance(root, n.Custom) and isinstance(root.kernel, Loop):
                wanted = {part.root.output: part.root for part in drawn.parts if isinstance(part.root, n.Custom)}
                plan = functools.partial(self._body, device)
                most_bytes = device.info.max_buffer_bytes if device.takes_fronts else 0
                return steps_of(root.kernel, wanted, root.sources, plan, most_bytes=most_bytes)
            return [self._custom(drawn.parts, device, root in division.served)]
        name = name_of(drawn.parts)
        if drawn.is_split_scatter:
            return [
                self._start([nest], its_name, device, drawn, shared)
                for nest, its_name in zip(shared.nests, (f"{name}_base", name), strict=True)
            ]
        if len(drawn.nests) == 1:
            library = self._library_program(drawn.nests[0], name, device)
            if library is not None:
                program: Future[Program] = Future()
                program.set_result(library[0])
                self._compiler.trace.served(library[0], drawn.nests, device, *library[1:])
                buffers = tuple(drawn.node_of[param] for param in library[1])
                return [Started(device, program, buffers, drawn.stored, lines=lines_of_parts(drawn.parts))]
        return [self._start(shared.nests, name, device, drawn, shared)]

    def _start(self, nests: Sequence[Nest], name: str, device: Device, drawn: Drawn, shared: SharedKernel) -> Started:
        """Begin to compile the kernel of some nests."""
        params = params_of(nests)
        buffers, numbers = (
            tuple(drawn.node_of[p] for p in params if p.by_value is by_value and p not in shared.starts)
            for by_value in (False, True)
        )
        starts = tuple(shared.starts[param] for param in params if param in shared.starts)
        program = self._begin((device, *nests), functools.partial(self._compiler.start, nests, name, device))
        return Started(device, program, buffers, drawn.stored, numbers, starts, lines_of_parts(drawn.parts))

    def _custom(self, parts: Sequence[KernelPart], device: Device, is_other: bool) -> Started | Hosted | Launched:
        """Return the launch of a hand-written kernel, or a call of the host; outputs that nobody needs have buffers.

        `is_other` says whether a library's is taken in its place where it would not be, or the other way round.
        """
        root = parts[0].root
        assert isinstance(root, n.Custom)
        custom = root.kernel
        assert isinstance(custom, CustomKernel | HostCall)
        outputs = {part.root.output: part.root for part in parts if isinstance(part.root, n.Custom)}
        stored: list[Node] = []
        for number, (shape, dtype) in enumerate(custom.outputs):
            stored.append(outputs.get(number) or self._graph.leaf(shape, dtype, root.device))
        if isinstance(custom, HostCall):
            if custom.on_device is not None and (program := custom.on_device.program(device)) is not None:
                buffers = (*stored, *root.sources)
                return Launched(device, program, buffers, tuple(stored), (), (), lines_of([root]), custom)
            return Hosted(custom, device, (*stored, *root.sources), lines_of([root]))
        if custom.problem is not None:
            prepared = self._compiler.prepared
            served = self._candidates.program_instead(custom.problem, device, prepared, is_other=is_other)
            if served is not None:
                done: Future[Program] = Future()
                done.set_result(served[0])
                return Started(device, done, (*root.sources, *stored), tuple(stored), lines=lines_of([root]))
        start = functools.partial(self._compiler.start_kernel, custom.kernel, device)
        program, buffers = self._begin((device, custom.kernel), start), (*stored, *root.sources)
        return Started(device, program, buffers, tuple(stored), lines=lines_of([root]))

    def _begin(self, key: tuple[object, ...], start: Callable[[], Future[Program]]) -> Future[Program]:
        """Return the future program of what has that key, begun once."""
        if key not in self._begun:
            self._begun[key] = start()
        return self._begun[key]

    # ---- buffers

    def _with_buffers(self, wanted: Sequence[Node], leaves: Sequence[Node], actions: Sequence[Action]) -> Plan:
        numbers: dict[Node, int] = {leaf: number for number, leaf in enumerate(leaves)}
        slices: list[Slice] = []
        for node, old in self._donated.items():
            while old in self._donated:
                old = self._donated[old]
            numbers[node] = numbers[old]
        for node in dict.fromkeys(wanted):
            if node not in numbers:
                numbers[node] = len(leaves) + len(slices)
                slices.append(self._slice(node))
        temporaries = plan_memory(numbers, len(leaves) + len(slices), actions, self._slice)
        steps: list[Step] = []
        for action in actions:
            if isinstance(action, Copy):
                steps.append(CopyStep(numbers[action.source], numbers[action.target]))
            elif isinstance(action, Hosted):
                places = [ArraySlot(numbers[node], node.shape, node.dtype) for node in action.buffers]
                count = len(action.call.outputs)
                reads, writes = tuple(places[count:]), tuple(places[:count])
                steps.append(HostStep(action.call, action.device.name, reads, writes, action.lines))
            else:
                args = tuple(numbers[node] for node in action.buffers)
                moved = sum(size_of(node.shape) * node.dtype.itemsize for node in action.buffers)
                written = tuple(numbers[node] for node in action.stored)
                given = tuple(numbers[node] for node in action.numbers)
                more = action.starts, action.lines, action.call
                steps.append(LaunchStep(action.device, action.program, args, moved, written, given, *more))
        return Plan(
            inputs=len(leaves),
            outputs=tuple(slices),
            results=tuple(numbers[node] for node in wanted),
            temporaries=tuple(temporaries),
            steps=tuple(steps),
            placed=self._placed,
        )

    def _slice(self, node: Node) -> Slice:
        device = self._device_of(node.device)
        nbytes = size_of(node.shape) * node.dtype.itemsize
        limit = device.info.max_buffer_bytes
        if nbytes > limit:
            raise AllocationError(f"{node!r} takes {nbytes} bytes; a buffer of {device.name} has at most {limit}")
        return Slice(device.memory_pool, nbytes)
