"""Make the plan of a graph: divide it by device, then into kernels, compile these, and give every value a buffer."""

from __future__ import annotations

import functools
import math
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from zyx.errors import AllocationError, ScheduleError, ShapeError, UnsupportedError, VerifyError
from zyx.fusion.arrange import arrange, donate, link_by_link
from zyx.fusion.build import build_nest
from zyx.fusion.division import Division
from zyx.fusion.library import match_gemm, product_in
from zyx.fusion.partition import partition
from zyx.fusion.phases import in_phases
from zyx.fusion.prepare import prepare, ways_of
from zyx.fusion.starts import Shared, share_kernels
from zyx.graph import Graph
from zyx.graph import node as n
from zyx.graph.host_call import HostCall
from zyx.graph.loop import Loop
from zyx.graph.rebuild import rebuild
from zyx.graph.walk import topological
from zyx.ir.nest import params_of
from zyx.kernels.custom import CustomKernel
from zyx.runtime.compiler import REFUSALS
from zyx.runtime.host_step import HostStep, Place
from zyx.runtime.lengths import Lengths
from zyx.runtime.looping import WrittenRows, steps_of
from zyx.runtime.places import Copy, Hosted, Launched, place_temporaries
from zyx.runtime.plan import CopyStep, LaunchStep, Plan, Slice, Step
from zyx.runtime.varying import Varying
from zyx.shape import size_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zyx.backend import Device, Program
    from zyx.fusion.partition import Part
    from zyx.graph.node import Node
    from zyx.ir.expr import Param
    from zyx.ir.kernel import Kernel
    from zyx.ir.nest import Nest
    from zyx.runtime.candidates import Candidates
    from zyx.runtime.compiler import Compiler
    from zyx.runtime.places import Action

#: Points of a statement: what takes a day on the fastest of devices. What is multiplied in memory stays far below.
_MOST_POINTS: Final = 1 << 56


@dataclass(frozen=True, slots=True)
class _Started:
    """The same, while it is being compiled."""

    device: Device
    program: Future[Program]
    buffers: tuple[Node, ...]
    stored: tuple[Node, ...]
    numbers: tuple[Node, ...] = ()
    starts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Drawn:
    """What a launch computes: parts that share it, as nests.

    Attributes:
        parts: The parts.
        nests: Of each of them, or of what follows each other in several launches; none of a hand-written kernel.
        node_of: The node of each buffer and number.
    """

    parts: Sequence[Part]
    nests: Sequence[Nest]
    node_of: Mapping[Param, Node]

    @property
    def is_in_phases(self) -> bool:
        """Whether the nests are of several launches."""
        return len(self.nests) > len(self.parts)

    @property
    def stored(self) -> tuple[Node, ...]:
        """What it writes to."""
        return tuple(node for part in self.parts for node in part.written)


class Planner:
    """Makes plans.

    Args:
        device_of: From a device's name to the device.
        compiler: For the kernels.
        candidates: Libraries beside it.
        is_deterministic: Whether floats are combined in an order that is always the same.

    Attributes:
        varying: Which constants the plans are given.
        lengths: Which lengths they are given.
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
        self.varying = Varying()
        self.lengths = Lengths()

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


class _Making:
    """One plan being made."""

    def __init__(self, planner: Planner, donations: Mapping[Node, Node], placed: Mapping[str, Device]) -> None:
        self._graph = Graph()
        self._device_by_name = planner.device_of
        self._placed = placed
        self._compiler = planner.compiler
        self._candidates = planner.candidates
        self._is_deterministic = planner.is_deterministic
        self._donations = donations
        self._donated: dict[Node, Node] = {}
        self._customs: dict[tuple[Kernel, Device], Future[Program]] = {}  # a sort launches one kernel many times
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
            else action
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
    ) -> tuple[dict[Node, Node], list[Launched | Hosted]]:
        """Return the nodes whose buffers hold the values of a device's outputs, and the launches that compute them."""
        order = topological(outputs)
        ways = ways_of(order, device.info)
        for way in range(ways):
            try:
                prepared = prepare(
                    self._graph, order, outputs, device.info, deterministic=self._is_deterministic, way=way
                )
                wanted = dict(zip(outputs, prepared, strict=True))
                offers = {wanted[node]: old for node, old in self._donations.items() if node in wanted}
                if self._written is not None:
                    self._written.prepared(wanted)
                return wanted, self._kernels(prepared, device, link_by_link(offers) if may_donate else {})
            except Planner.refusals as error:
                if way + 1 == ways:
                    raise
                self._compiler.trace.prepared_otherwise(error)
        raise AssertionError("the last way returns or raises")

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

    def _kernels(self, outputs: Sequence[Node], device: Device, offers: Mapping[Node, Node]) -> list[Launched | Hosted]:
        """Return the launches that compute those of `outputs` that are not there yet, compiled.

        What a device refuses in every schedule is divided: launches into their kernels, these into what could be
        kernels of its own, and that in halves. See `donate` for `offers`.

        Raises:
            BackendError: The device refuses a kernel that cannot be divided.
        """
        order = topological(outputs)
        division = Division()
        is_shared = True
        while True:
            launches = division.launches(arrange(self._parts(order, outputs, device, division.apart), device.info))
            donated = donate(launches, dict(offers), set(outputs))
            if self._written is not None:
                self._written.note(launches)
            current: Sequence[Part] = ()
            started: list[tuple[Sequence[Part], _Started | Hosted | Launched]] = []
            kernels: list[Launched | Hosted] = []
            try:
                drawn: list[_Drawn] = []
                for current in launches:
                    drawn.append(self._drawn(current, device))
                nests = [launch.nests for launch in drawn]
                shared = share_kernels(nests) if is_shared else [Shared(own) for own in nests]
                for launch, one in zip(drawn, shared, strict=True):
                    current = launch.parts
                    started += [(current, kernel) for kernel in self._started(launch, one, device)]
                for current, kernel in started:  # noqa: B007  # for what is said of one that fails
                    if not isinstance(kernel, _Started):
                        kernels.append(kernel)
                        continue
                    program = self._compiler.result(kernel.program)
                    numbers = kernel.numbers, kernel.starts
                    kernels.append(Launched(device, program, kernel.buffers, kernel.stored, *numbers))
            except Planner.refusals as error:
                if is_shared and any(isinstance(kernel, _Started) and kernel.starts for _, kernel in started):
                    is_shared = False
                    self._compiler.trace.unshared(error)
                elif division.divide(current, device.info):
                    self._compiler.trace.divided(_name(current), error)
                else:
                    raise
                continue
            self._donated.update(donated)
            return kernels

    def _parts(
        self, order: Sequence[Node], outputs: Sequence[Node], device: Device, by_themselves: set[Node]
    ) -> list[Part]:
        """Return the kernels that compute `outputs`; large products are by themselves where they are a library's."""
        parts = partition(order, outputs, device.info, by_themselves)
        parts = [part for part in parts if not all(0 in node.shape for node in part.written)]  # what is there already
        if not self._candidates.serves_products(device):
            return parts
        products = {part: node for part in parts if (node := product_in(part)) is not None}
        apart = {node for part, node in products.items() if match_gemm(build_nest(part, {})) is None}
        if not apart:
            return parts
        alone = partition(order, outputs, device.info, apart | by_themselves)
        taken = {part.root for part in alone if part.root in apart and self._is_library_s(part, device)}
        if taken == apart:
            return alone
        return partition(order, outputs, device.info, taken | by_themselves) if taken else parts

    def _is_library_s(self, part: Part, device: Device) -> bool:
        nest = build_nest(part, {})

        def generated() -> Program:
            return self._compiler.result(self._compiler.start([nest], _name([part]), device))

        return self._candidates.library_program(nest, device, generated, self._compiler.prepared) is not None

    def _drawn(self, parts: Sequence[Part], device: Device) -> _Drawn:
        """Return the nests of `parts`, which share a launch."""
        if isinstance(parts[0].root, n.Custom):
            return _Drawn(parts, (), {})
        for part in parts:
            for node in part.stored:
                self._slice(node)  # before anything is compiled that could not be launched
        nests: list[Nest] = []
        params: dict[Node, Param] = {}
        for part in parts:
            nests.append(build_nest(part, params))
            _check_work(nests[-1], part)
        node_of = {param: node for node, param in reversed(params.items())}
        phases = in_phases(nests[0], device.info, deterministic=self._is_deterministic) if len(nests) == 1 else []
        return _Drawn(parts, phases or nests, node_of)

    def _body(self, device: Device, outputs: Sequence[Node], written: WrittenRows) -> list[Launched]:
        """Return the launches of the body of a loop; what they store for each of its outputs is noted in `written`.

        Raises:
            UnsupportedError: The host would have to take part.
        """
        making = _Making(self._planner, {}, self._placed)
        making._written = written
        _, launches = making._computed(outputs, device, may_donate=False)
        found = [launch for launch in launches if isinstance(launch, Launched)]
        if len(found) < len(launches):
            raise UnsupportedError("what the host computes has no place in a loop")
        return found

    def _started(self, drawn: _Drawn, shared: Shared, device: Device) -> Sequence[_Started | Hosted | Launched]:
        """Return what computes a launch: one kernel, or several that follow each other."""
        if not drawn.nests:
            root = drawn.parts[0].root
            if isinstance(root, n.Custom) and isinstance(root.kernel, Loop):
                wanted = {part.root.output: part.root for part in drawn.parts if isinstance(part.root, n.Custom)}
                plan = functools.partial(self._body, device)
                most_bytes = device.info.max_buffer_bytes if device.takes_fronts else 0
                return steps_of(root.kernel, wanted, root.sources, plan, most_bytes=most_bytes)
            return [self._custom(drawn.parts, device)]
        name = _name(drawn.parts)
        if drawn.is_in_phases:
            return [
                self._start([nest], its_name, device, drawn, shared)
                for nest, its_name in zip(shared.nests, (f"{name}_base", name), strict=True)
            ]
        generated = functools.cache(lambda: self._start(shared.nests, name, device, drawn, shared))
        if len(drawn.nests) == 1:
            library = self._candidates.library_program(
                drawn.nests[0], device, lambda: self._compiler.result(generated().program), self._compiler.prepared
            )
            if library is not None:
                program: Future[Program] = Future()
                program.set_result(library[0])
                buffers = tuple(drawn.node_of[param] for param in library[1])
                return [_Started(device, program, buffers, drawn.stored)]
        return [generated()]

    def _start(self, nests: Sequence[Nest], name: str, device: Device, drawn: _Drawn, shared: Shared) -> _Started:
        """Begin to compile the kernel of some nests."""
        params = params_of(nests)
        buffers, numbers = (
            tuple(drawn.node_of[p] for p in params if p.by_value is by_value and p not in shared.starts)
            for by_value in (False, True)
        )
        starts = tuple(shared.starts[param] for param in params if param in shared.starts)
        program = self._compiler.start(nests, name, device)
        return _Started(device, program, buffers, drawn.stored, numbers, starts)

    def _custom(self, parts: Sequence[Part], device: Device) -> _Started | Hosted:
        """Return the launch of a hand-written kernel, or a call of the host; outputs that nobody needs have buffers."""
        root = parts[0].root
        assert isinstance(root, n.Custom)
        custom = root.kernel
        assert isinstance(custom, CustomKernel | HostCall)
        outputs = {part.root.output: part.root for part in parts if isinstance(part.root, n.Custom)}
        stored: list[Node] = []
        for number, (shape, dtype) in enumerate(custom.outputs):
            stored.append(outputs.get(number) or self._graph.leaf(shape, dtype, root.device))
        if isinstance(custom, HostCall):
            return Hosted(custom, device, (*stored, *root.sources))
        program = self._customs.get((custom.kernel, device))
        if program is None:
            program = self._customs[custom.kernel, device] = self._compiler.start_kernel(custom.kernel, device)
        return _Started(device, program, (*stored, *root.sources), tuple(stored))

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
        temporaries = place_temporaries(numbers, len(leaves) + len(slices), actions, self._slice)
        steps: list[Step] = []
        for action in actions:
            if isinstance(action, Copy):
                steps.append(CopyStep(numbers[action.source], numbers[action.target]))
            elif isinstance(action, Hosted):
                places = [Place(numbers[node], node.shape, node.dtype) for node in action.buffers]
                count = len(action.call.outputs)
                steps.append(HostStep(action.call, action.device.name, tuple(places[count:]), tuple(places[:count])))
            else:
                args = tuple(numbers[node] for node in action.buffers)
                moved = sum(size_of(node.shape) * node.dtype.itemsize for node in action.buffers)
                written = tuple(numbers[node] for node in action.stored)
                given = tuple(numbers[node] for node in action.numbers)
                steps.append(LaunchStep(action.device, action.program, args, moved, written, given, action.starts))
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


def _check_work(nest: Nest, part: Part) -> None:
    """Refuse what would take years, before anything is computed: kernels cannot be interrupted.

    Raises:
        ShapeError: A statement has too many points.
    """
    points = max(math.prod(range_.size for range_ in statement.order) for statement in nest.statements)
    if points > _MOST_POINTS:
        raise ShapeError(
            f"computing {part.root!r} goes over {points} points, which would take years; at most {_MOST_POINTS} are "
            "computed: combine elements before they are repeated, or take smaller shapes"
        )


def _name(parts: Sequence[Part]) -> str:
    """Return an identifier that tells people what a kernel is about."""
    part = parts[0]
    kinds = dict.fromkeys(
        node.op.value
        for node in reversed(part.region.views)
        if isinstance(node, n.Reduce | n.Scan) and node not in part.region.inputs
    )
    what = "_".join(kinds) or type(part.root).__name__.lower()
    shape = "x".join(str(size) for size in part.root.shape)
    count = f"{len(parts)}_" if len(parts) > 1 else ""
    return f"{count}{what}_{shape}" if shape else f"{count}{what}"
