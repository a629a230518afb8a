"""What a runtime has of plans and programs: made when first needed, dropped where memory is asked for in vain."""

from __future__ import annotations

import functools
import time
from collections import OrderedDict, deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from zyx.errors import DeviceLostError, ScheduleError, ZyxError
from zyx.graph import Graph
from zyx.graph.making import computed_leaf, is_merged
from zyx.graph.node import Binary, Const, Fourier, Leaf, Unary
from zyx.graph.signature import Key, signature
from zyx.lazy_import import lazy_import
from zyx.runtime.buffer import Buffer
from zyx.runtime.devices import OpenDevices
from zyx.runtime.trace import TIMED
from zyx.shape import size_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

    from zyx import pairs
    from zyx.autotune import passes, store
    from zyx.autotune import tuner as tuning
    from zyx.autotune.store import TuningStore
    from zyx.autotune.tuner import Tuner
    from zyx.backend import Device
    from zyx.dtype import Scalar
    from zyx.graph import host_call, rebuild
    from zyx.graph.node import Node
    from zyx.nest.data import Nest
    from zyx.plugins import watchdog
    from zyx.runtime import bounded, candidates, collector, kernel_cache
    from zyx.runtime import compiler as compiling
    from zyx.runtime import plan as planned
    from zyx.runtime import planner as planning
    from zyx.runtime.bounded import BoundedPlan
    from zyx.runtime.compiler import Compiler
    from zyx.runtime.placement import Placed
    from zyx.runtime.plan import Plan, Single
    from zyx.runtime.planner import Planner
    from zyx.runtime.trace import Profiler
    from zyx.schedule.moves import Move
    from zyx.settings import paths
    from zyx.settings.record import Settings
    from zyx.specialise import table
    from zyx.specialise.numbers import Given
    from zyx.specialise.table import Table
else:
    passes = lazy_import("zyx.autotune.passes", globals())
    store = lazy_import("zyx.autotune.store", globals())
    tuning = lazy_import("zyx.autotune.tuner", globals())
    host_call = lazy_import("zyx.graph.host_call", globals())
    rebuild = lazy_import("zyx.graph.rebuild", globals())
    pairs = lazy_import("zyx.pairs", globals())
    watchdog = lazy_import("zyx.plugins.watchdog", globals())
    bounded = lazy_import("zyx.runtime.bounded", globals())
    candidates = lazy_import("zyx.runtime.candidates", globals())
    collector = lazy_import("zyx.runtime.collector", globals())
    compiling = lazy_import("zyx.runtime.compiler", globals())
    kernel_cache = lazy_import("zyx.runtime.kernel_cache", globals())
    planned = lazy_import("zyx.runtime.plan", globals())
    planning = lazy_import("zyx.runtime.planner", globals())
    paths = lazy_import("zyx.settings.paths", globals())
    table = lazy_import("zyx.specialise.table", globals())

_MAX_PLANS: Final = 512
#: What a child of a fork must not touch, nor let die.
of_parent: Final[list[object]] = []


class Plans(OpenDevices):
    """Plans by the structure of graphs, and what makes them: a part of `zyx.runtime.runtime.Runtime`."""

    def __init__(self, settings: Settings | Mapping[str, Any] | None = None) -> None:
        super().__init__(settings)
        self._compiler: Compiler | None = None
        self._planner: Planner | None = None
        self._tuner: Tuner | None = None
        self._overdue: set[str] = set()  # what did not come back: it is not called again
        self._plans: OrderedDict[Key, Plan | BoundedPlan] = OrderedDict()
        # Those of one operation again: by the shape, dtype and device of what it reads, and the key of `single`. Leaves
        # have what there is of their kind, so it is emptied when it goes.
        self._of_single: dict[Hashable, dict[Hashable, Single]] = {}
        self._discarded: deque[Plan] = deque()

    def take_settings(self, settings: Settings) -> None:
        with self.lock:
            before = self.settings
            super().take_settings(settings)
            if (settings.autotune, settings.deterministic) != (before.autotune, before.deterministic):
                self.drop_plans()
                self.outlines.clear()
                self._planner = None
                self._tuner = None
                if self._compiler is not None and settings.autotune.save_to_disk != before.autotune.save_to_disk:
                    self._compiler.store = self._new_store()

    def plan(
        self, outputs: Sequence[Node], leaves: Sequence[Node], donations: Mapping[Node, Node] | None = None
    ) -> tuple[Plan, Sequence[Scalar]]:
        """Return a new plan that computes `outputs` from `leaves`, and the numbers that it is given behind these.

        See `Planner.make`. It is for a trace: the first few that differ in constants alone have them in their kernels.
        """
        with self.lock:
            key, _, order = signature(outputs)
            if (together := _merged(outputs, order)) is not outputs:
                new = dict(zip(outputs, together, strict=True))
                donations = {new[node]: old for node, old in (donations or {}).items()}
                outputs = together
                key, _, order = signature(outputs)
            if any([node.dtype.is_complex for node in order]):
                real = pairs.lower(outputs, leaves)
                real_of = dict(zip((*outputs, *leaves), (*real.outputs, *real.leaves), strict=True))
                donations = {real_of[node]: real_of[old] for node, old in (donations or {}).items()}
                outputs, leaves = real.outputs, real.leaves
                key, _, order = signature(outputs)
            given = self.planner.given(self.outlines, key, order, is_traced=True)
            attempt = functools.partial(self._new_plan, outputs, leaves, order, donations or {}, given)
            return self.placement.run(order, outputs, self.trace, attempt) if self._has_groups else attempt({})

    def _plan_for(
        self,
        nodes: Sequence[Node],
        leaves: Sequence[Node],
        order: Sequence[Node],
        key: Key,
        placed: Placed,
        donations: Mapping[Node, Node],
    ) -> tuple[Plan | BoundedPlan, Sequence[Scalar]]:
        """Return a plan for `nodes`, whose key has none yet, and the numbers that it is to be given behind the leaves.

        Args:
            nodes: What to compute, whose `signature` is the rest.
            leaves: Its leaves.
            order: All its nodes.
            key: Its key, with what it is `placed` on.
            placed: As `Planner.make` takes it.
            donations: Likewise; in the key as well.
        """
        asked = key
        if (together := _merged(nodes, order)) is not nodes:
            new = dict(zip(nodes, together, strict=True))
            donations = {new[node]: old for node, old in donations.items()}
            nodes = together
            own_key, _, order = signature(nodes)
            key = Key((key.structure, own_key.structure), own_key.constants)
        if any([node.dtype.is_complex for node in order]):
            real = pairs.lower(nodes, leaves)
            real_of = dict(zip((*nodes, *leaves), (*real.outputs, *real.leaves), strict=True))
            donations = {real_of[node]: real_of[old] for node, old in donations.items()}
            nodes, leaves = real.outputs, real.leaves
            real_key, _, order = signature(nodes)
            # Different graphs of complex numbers may be the same one of reals, with leaves in another order.
            key = Key((key.structure, real_key.structure), real_key.constants)
        given = self.planner.given(self.outlines, key, order)
        if given is not None and (known := self._plans.get(given.key)) is not None:
            self._plans.move_to_end(given.key)
            return known, given.values
        has_own = bool(placed) or self.planner.is_deterministic  # other kernels add up in another order
        has_own = has_own or bool(donations) or (given is not None and given.is_moved)
        common = None if has_own else self._bounded_plan(nodes, leaves, order, asked)
        if common is not None:
            self._keep_plan(asked, common)
            return common, ()
        plan, values = self._new_plan(nodes, leaves, order, donations, given, placed)
        self._keep_plan(given.key if given is not None and values else asked, plan)
        return plan, values

    def _bounded_plan(
        self, nodes: Sequence[Node], leaves: Sequence[Node], order: Sequence[Node], key: Key
    ) -> BoundedPlan | None:
        """Return a plan for a greatest length that serves for `nodes`, if they differ in a length from others."""
        devices = {self.device(node.device) for node in nodes}
        if not bounded.has_common_pool(devices, leaves) or not all(device.takes_fronts for device in devices):
            return None
        longer = self.planner.bounded(self.outlines, nodes, order)
        if longer is None:
            return None
        plan = self._plans.get(longer.key)
        if not longer.is_made or not isinstance(plan, planned.Plan):
            try:
                made = longer.make(nodes)
                given = [*made.lengths.values(), *made.constants.values()]
                read = [made.leaves.get(leaf, leaf) for leaf in leaves]  # not all are computed with
                plan = self._planned(made.outputs, [*read, *given], {}, {})
            except Exception as error:  # noqa: BLE001  # it is there for speed only, and there is another plan
                self.trace.unbounded(max(longer.bounds), error)
                longer.symbolic.refused.add(longer.bounds)
                return None
            self._keep_plan(longer.key, plan)
        else:
            self._plans.move_to_end(longer.key)
        return bounded.BoundedPlan(
            plan,
            longer.values(),
            plan.sized(zip(plan.results, (size_of(node.shape) * node.dtype.itemsize for node in nodes), strict=True)),
            longer.lengths,
            longer.points,
            longer.symbolic,
            functools.partial(self._plans.pop, key, None),
        )

    def _waits(self, order: Sequence[Node]) -> bool:
        """Whether one of `order` is computed by a function that waits for others, while the lock is free."""
        return any(host_call.is_waiting(node) for node in order)

    def _keep_plan(self, key: Key, plan: Plan | BoundedPlan) -> None:
        self._plans[key] = plan
        while len(self._plans) > _MAX_PLANS:
            _, evicted = self._plans.popitem(last=False)
            evicted.close()
            self._forget_singles(evicted)

    def _forget_singles(self, plan: Plan | BoundedPlan | None = None) -> list[Single]:
        """Forget what computes single operations by `plan`, or by whatever plan, and return it."""
        forgotten: list[Single] = []
        for kind, plans in list(self._of_single.items()):
            for key, one in list(plans.items()):
                if plan is None or one.plan is plan:
                    forgotten.append(plans.pop(key))
            if not plans:
                del self._of_single[kind]
        return forgotten

    def _new_plan(
        self,
        outputs: Sequence[Node],
        leaves: Sequence[Node],
        order: Sequence[Node],
        donations: Mapping[Node, Node],
        given: Given | None,
        placed: Placed,
    ) -> tuple[Plan, Sequence[Scalar]]:
        """Make a plan that is given some constants, unless a device refuses to be; return it, and their values."""
        if given is not None:
            new, leaves_of_numbers = given.over_numbers(outputs, order)
            new_of = dict(zip(outputs, new, strict=True))
            offers = {new_of[node]: old for node, old in donations.items() if node in new_of}
            try:
                return self._planned(new, [*leaves, *leaves_of_numbers], offers, placed), given.values
            except self.planner.refusals as error:
                self.trace.baked(len(given.values), error)
                self.planner.bake(self.outlines, given.key)
        return self._planned(outputs, leaves, donations, placed), ()

    def _compute_single(self, node: Node) -> Leaf | None:
        """Compute a node by the plan that was made for another of the same kind; return the leaf that takes its place.

        None if there is no such plan. `node` has no storage.
        """
        found = single(node) if self.lines is None else None
        if found is None:
            return None
        x, key, buffers = found
        plans: dict[Hashable, Single] | None = x.plans  # type: ignore[assignment]  # it is set here alone
        plan = None if plans is None else plans.get(key)
        if plan is None:
            plans = x.plans = self._of_single.get(_kind_of(x))
            if plans is None:
                return None
            plan = plans.get(key)
            if plan is None and type(node) is Binary and isinstance(node.sources[1], Const):
                plan = plans.get((node.op, Const))
                buffers.append(node.sources[1].value)
            if plan is None:
                return None
        try:
            buffer = node.storage = plan.run(buffers, self.memory, self._trace or self.trace)
        except DeviceLostError as error:
            self.lose(error)
            raise
        leaf = computed_leaf(node, buffer)
        if leaf.dtype is x.dtype:
            leaf.plans = plans
        return leaf

    def _note_single(self, node: Node, plan: Plan | BoundedPlan, *, is_given: bool) -> None:
        """Keep the plan of one node for others of its kind, if it is that; `is_given` says that it takes numbers."""
        found = single(node)
        if found is not None and plan.is_single:
            x, key, _ = found
            plans = x.plans = self._of_single.setdefault(_kind_of(x), {})
            plans[(node.op, Const) if is_given else key] = planned.Single(plan)  # type: ignore[attr-defined, arg-type]  # both are

    def discard(self, plan: Plan) -> None:
        """Note that `plan` is not run any more: what was captured of it is released later. May be called anywhere."""
        self._discarded.append(plan)

    def forget_discarded(self) -> None:
        """Forget plans that were discarded after all devices were closed, which took along what was captured."""
        self._discarded.clear()

    def release_discarded(self) -> None:
        """Release what was captured of plans that are not run any more; for whoever holds the lock."""
        while self._discarded:
            plan = self._discarded.popleft()
            if self.memory.lost and any(device.memory_pool in self.memory.lost for device in plan.devices):
                of_parent.append(plan)
            elif self._opened is not None and all(self._opened.has(device) for device in plan.devices):
                plan.close()  # devices that were closed since took along what was captured

    def _planned(
        self, outputs: Sequence[Node], leaves: Sequence[Node], donations: Mapping[Node, Node], placed: Placed
    ) -> Plan:
        self.release_discarded()
        started = time.perf_counter()
        with collector.rare_collections():
            make = functools.partial(self.planner.make, outputs, leaves, donations, placed)
            is_kept = not placed and self.lines is None
            plan = self.planner.kept.plan(outputs, leaves, donations, make) if is_kept else make()
        self.trace.planned(plan, time.perf_counter() - started)
        return plan

    @contextmanager
    def profiled(self, profile: Profiler) -> Iterator[None]:
        """Have every launch of a ``with`` block made, and noted, by a profile.

        Plans are made anew, so that it is known what their programs came from; those of traced functions stay.
        """
        trace = self.trace
        with self.lock:
            self.drop_plans()
            profile.begin(self.memory.live_by_pool())
            before, trace.profile = trace.profile, profile
            trace.configured |= TIMED
        try:
            yield
        finally:
            with self.lock:
                profile.end()
                trace.profile = before
                if before is None:
                    trace.configured &= ~TIMED

    @functools.cached_property
    def outlines(self) -> Table:
        """What changes from run to run."""
        return table.Table()

    @property
    def planner(self) -> Planner:
        """Makes plans."""
        if self._planner is None:
            settings = self.settings  # first: it says so if it is too late to import the rest
            libraries = self.backends.library_kernels
            found = candidates.Candidates(settings.autotune, libraries, self.compiler.store)
            self._planner = planning.Planner(self.device, self.compiler, found, is_deterministic=settings.deterministic)
        return self._planner

    @property
    def compiler(self) -> Compiler:
        """Compiles kernels."""
        if self._compiler is None:
            settings = self.settings
            kernels = kernel_cache.KernelCache(paths.cache_directory(settings), settings.cache.max_bytes)
            self._compiler = compiling.Compiler(
                self.trace, kernels, self._new_store(), self._tuned, self._moves_of_others
            )
        return self._compiler

    def _new_store(self) -> TuningStore:
        """Return what was found by measuring."""
        return store.TuningStore(paths.cache_directory(self.settings) if self.settings.autotune.save_to_disk else None)

    def _moves_of_others(self, device: Device) -> Mapping[str, Callable[[dict[str, Any]], Move]]:
        """Return what reads the moves that the backend of a device adds."""
        return passes.readers(self.backends.kernel_passes(device), self._guarded)

    def _guarded(self, work: Callable[[], Any], what: str) -> Any:  # noqa: ANN401  # what the work returns
        """Run the code of another package for as long as it may take; see `zyx.autotune.passes.Guard`."""
        if what in self._overdue:
            raise TimeoutError(f"{what} did not come back before, and is left aside")
        with self.backends.manager.watchdog() as guard:
            try:
                return guard.run(work, what)
            except watchdog.Overdue as error:
                self._overdue.add(what)
                raise TimeoutError(f"{error}; it is left aside") from error
            except (KeyboardInterrupt, ZyxError):
                raise
            except BaseException as error:  # boundary: the code of another package
                raise ScheduleError(f"{what}: {type(error).__name__}: {error}") from error

    @property
    def tuner(self) -> Tuner:
        """Searches schedules by measuring."""
        if self._tuner is None:
            backends, compiler = self.backends, self.compiler
            self._tuner = tuning.Tuner(
                self.settings.autotune, compiler.store, backends.kernel_passes, backends.library_kernels,
                compiler.prepared, self._guarded,
            )  # fmt: skip
        return self._tuner

    def _tuned(self, nests: Sequence[Nest], name: str, device: Device) -> None:
        """Search the launch of nests for which nothing was found, if the settings say so.

        Numbers that it will be given are not known yet. Where it has some, nothing can be timed. What is fastest may be
        another schedule in each run, which adds up in another order: nothing is searched where sums have one.
        """
        settings = self.settings.autotune
        if (
            settings.enabled
            and not self.settings.deterministic
            and not any(param.by_value for nest in nests for param in nest.params)
        ):
            self.trace.tuned(self.tuner.tune(nests, name, device, settings.time_budget_s))

    def drop_plans(self) -> None:
        """Forget all plans but those of traced functions."""
        self.release_discarded()
        for plan in self._plans.values():
            plan.close()
        self._plans.clear()
        self._forget_singles()

    def _drop_programs(self) -> None:
        """Release the programs that nothing launches any more."""
        if self._compiler is not None:
            self._compiler.drop_unused()


def single(node: Node) -> tuple[Leaf, Hashable, list[Buffer | Scalar]] | None:
    """Return (its first operand, the key, the buffers of its operands, each once) if `node` is a single operation.

    That is one, element by element, on one or two leaves, or on a leaf and a number, or the transform of a leaf;
    anything else gives None. `node` has no storage. Programs that compute each tensor by itself are made of these; the
    key is one among those of the operations on leaves of one shape, dtype and device:

        (x + y).realize()        ADD
        (x + x).realize()        (ADD,)
        (x * 1.5).realize()      (MUL, 1.5); or, where numbers have changed, (MUL, Const)
        fft(x).realize()         (Fourier, its attributes): the table is that of the length
    """
    if type(node) is Binary:
        x, y = node.sources
        left, right = x.storage, y.storage
        if type(left) is Buffer and type(x) is Leaf:
            if type(right) is Buffer:
                return (x, (node.op,), [left]) if x is y else (x, node.op, [left, right])
            if type(y) is Const:
                return x, (node.op, y.attributes), [left]
    elif type(node) is Fourier:
        x, y = node.sources
        left, right = x.storage, y.storage
        if type(left) is Buffer and type(x) is Leaf and type(right) is Buffer:
            return x, (Fourier, node.attributes), [left, right]
    elif type(node) is Unary:
        (x,) = node.sources
        if type(x.storage) is Buffer and type(x) is Leaf:
            return x, node.op, [x.storage]
    return None


def _merged(outputs: Sequence[Node], order: Sequence[Node]) -> Sequence[Node]:
    """Return what `merged` does, in a graph of its own; imported where there is something to merge."""
    if not any([is_merged(node) for node in order]):
        return outputs
    return rebuild.merged(Graph(), outputs, order)


def _kind_of(leaf: Leaf) -> Hashable:
    """Return what single operations on leaves have in common if they may share plans."""
    return leaf.shape, leaf.dtype.name, leaf.device
