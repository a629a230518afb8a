"""One trace of a function, compiled, and how it is run again."""

from __future__ import annotations

import weakref
from collections import Counter
from typing import TYPE_CHECKING, Any

from zyx.errors import BackendError, DeviceLostError
from zyx.graph.making import computed_leaf
from zyx.jit.structure import put_together
from zyx.jit.traced import Result, Traced
from zyx.runtime.buffer import Buffer
from zyx.runtime.handle import Handle
from zyx.runtime.lazy import Unread, read_unread
from zyx.runtime.leaves import TRACED, has_history
from zyx.runtime.ownership import CopyOnWrite, shared_of
from zyx.runtime.plan import Single

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zyx.dtype import Scalar
    from zyx.graph.node import Leaf, Node
    from zyx.runtime.plan import Plan, Slice
    from zyx.runtime.runtime import Runtime


class Entry:
    """A function traced for one signature.

    A run computes new buffers for what the function returns, and for what it assigns to its arguments. What it assigns
    to tensors that it finds outside is stored over their old values where the plan allows it, and where these belong to
    nothing else: no other tensor, and no argument. Its temporaries are kept from run to run while there is room.

    What the device keeps for it is released some time after it has died, when the runtime is at work. Runs are for
    whoever holds the lock.

    Args:
        traced: What the function did.

    Attributes:
        traced: What the function did.
        found, found_tensors, settle, is_stale: As that has them.
    """

    #: Makes the leaf for a node of the trace; for those of many lengths, in the shape that it has in this run.
    _leaf_of: Callable[[Node, object], Leaf] = staticmethod(computed_leaf)

    def __init__(self, traced: Traced) -> None:
        self._about(traced)
        with traced.runtime.lock:
            self._make_plan(traced.computed, list(traced.given), traced.donations | traced.given_over)

    def _about(self, traced: Traced) -> None:
        self.traced = traced
        self._runtime = traced.runtime
        self.found, self.found_tensors = traced.found, traced.found_tensors
        self.settle, self.is_stale = traced.settle, traced.is_stale

    def _make_plan(self, outputs: Sequence[Node], leaves: Sequence[Node], donations: Mapping[Node, Node]) -> None:
        """Make the plan that computes `outputs`, in place of what is computed here, from `leaves`."""
        runtime, traced = self._runtime, self.traced
        self._plan: Plan
        self._plan, self._numbers = runtime.plan(outputs, leaves, donations)
        self._waits = self._plan.waits
        while self._waits and (early := self._stored_early(outputs, donations)):
            runtime.discard(self._plan)
            donations = {node: old for node, old in donations.items() if node not in early}
            self._plan, self._numbers = runtime.plan(outputs, leaves, donations)
        self._plan.capture(runtime.trace)
        self._single = Single(self._plan) if self._plan.is_single else None
        self._number = {node: number for node, number in zip(traced.computed, self._plan.results, strict=True)}
        #: If a launch computes the one result from arguments and constants, and there is nothing else to do: that.
        self._plain: tuple[Single, Result] | None = None
        if self._single is not None and type(traced.result) is Result and traced.result.node in self._number:
            has_more = self._plan.placed or traced.uses or self._numbers or not traced.is_pure
            has_more = has_more or bool(traced.without_history)
            if len(traced.given) == traced.arguments + len(traced.constants) and not has_more:
                self._plain = self._single, traced.result
        self._plain_leaves = list(leaves)[: traced.arguments]
        first = traced.arguments
        #: Of what was found outside, the places of what is stored over.
        self._overwritten = [
            traced.given[old] - first
            for node, old in traced.donations.items()
            if self._number.get(node) == traced.given[old]
        ]
        #: Of the arguments, likewise; those that a plan for greater lengths is made of are not.
        self._overwritten_arguments = [
            traced.given[old]
            for node, old in traced.given_over.items()
            if node in donations and self._number.get(node) == traced.given[old]
        ]
        #: Arguments that keep their nodes where nobody follows these: values are stored over theirs. And all the rest.
        self._stays: list[int] = []
        self._number_beside, self._given_beside = self._number, traced.given_anew
        if self._leaf_of is computed_leaf:
            assigned = Counter([node for _, node in (*traced.states, *traced.given_anew)])
            kept = {*traced.returned, *traced.without_history}
            staying = {
                node: position
                for position, node in traced.given_anew
                if position in self._overwritten_arguments and assigned[node] == 1 and node not in kept
            }
            self._stays = [*staying.values()]
            self._number_beside = {node: number for node, number in self._number.items() if node not in staying}
            self._given_beside = [(position, node) for position, node in traced.given_anew if node not in staying]
        self._written = {first + place for place in self._overwritten}.union(self._overwritten_arguments)
        self._outputs: Sequence[Slice] = self._plan.outputs
        self._temporaries: list[Buffer] | None = None
        if self._plan.temporaries:
            runtime.spares.add(self)

    def _stored_early(self, outputs: Sequence[Node], donations: Mapping[Node, Node]) -> set[Node]:
        """Return what is stored over old values before the plan has waited, while others may still read these."""
        written = self._plan.written_before_waiting()
        numbers = zip(outputs, self._plan.results, strict=True)
        return {node for node, number in numbers if number < self._plan.inputs and number in written} & donations.keys()

    @property
    def plan(self) -> Plan:
        """What one run does."""
        return self._plan

    @property
    def is_plain(self) -> bool:
        """Whether `again` may serve calls of it."""
        return self._plain is not None and not self.traced.watches

    def again(self, args: Sequence[object]) -> Handle | None:
        """Return what one launch gives for `args`, if these are what it takes: computed tensors, and no more.

        Most calls are like the one before; so it is known in a fraction of the time that looking for a trace takes.
        """
        leaves, plain = self._plain_leaves, self._plain
        if plain is None or len(args) != len(leaves) or self._runtime.memory.lost:
            return None
        buffers: list[Any] = []
        leaves_of_gradients = self._runtime.observers.leaves
        for arg, leaf in zip(args, leaves, strict=True):
            if not isinstance(arg, Handle):
                return None
            node = arg._node
            storage = node.storage
            if (
                type(storage) is not Buffer
                or node.sources
                or node.shape != leaf.shape
                or node.dtype is not leaf.dtype
                or node.device != leaf.device
                or (leaves_of_gradients and (node.history is not None or weakref.ref(node) in leaves_of_gradients))  # type: ignore[attr-defined]  # it has no sources
            ):
                return None
            buffers.append(storage)
        buffers += self.traced.constants
        single, result = plain
        runtime = self._runtime
        try:
            buffer = single.run(buffers, runtime.memory, runtime.trace)
        except DeviceLostError as error:
            runtime.lose(error)
            raise
        return result.kind.of(computed_leaf(result.node, buffer), runtime)

    def run(self, tensors: Sequence[Handle], outside: Sequence[Handle], numbers: Sequence[float] = ()) -> Any:  # noqa: ANN401  # what the function returns
        """Run the trace on other arguments of the same signature, and on what `found` gave for them.

        `numbers` are the floats and ints among the arguments, where the trace is for all of these.
        """
        runtime, traced = self._runtime, self.traced
        shared = shared_of(tensors, over) if (over := self._overwritten_arguments) else over
        leaves: list[Buffer] = []
        for handle in tensors:
            node = handle._node
            storage = node.storage
            leaves.append(storage_of(runtime, handle) if type(storage) is not Buffer or node.sources else storage)
        if self._plain is not None and not runtime.memory.lost:
            single, result = self._plain
            leaves += traced.constants
            try:
                buffer = single.run(leaves, runtime.memory, runtime.trace)  # type: ignore[arg-type]  # none is a number
            except DeviceLostError as error:
                runtime.lose(error)
                raise
            computed = computed_leaf(result.node, buffer)
            if traced.of_arguments and runtime.observers.leaves and self._have_history(tensors):
                computed.history = TRACED
            return result.kind.of(computed, runtime)
        for place in shared:
            leaves[place] = runtime.buffer_of(runtime.copy(tensors[place].node))
        if outside:
            leaves += self._buffers_of_outside(outside, leaves)
        leaves += traced.constants
        plan = self._plan
        if runtime.memory.lost:
            for buffer in leaves:
                runtime.memory.check(buffer.pool)
        if plan.placed:
            leaves = runtime.placement.gather(traced.given, leaves, plan.placed, self._written)
        by_value = [use.leaf.dtype.to_scalar(use.formula(numbers)) for use in traced.uses] if traced.uses else ()
        given: list[Buffer | Scalar] = [*leaves, *by_value]
        buffers = [*given, *self._numbers]
        kept: CopyOnWrite | None = None
        if self._waits:
            written = [(place, tensors[place]) for place in over if place not in shared]
            written += [(traced.arguments + place, outside[place]) for place in self._overwritten]
            kept = CopyOnWrite(runtime, buffers, written)
        try:
            if self._single is not None:
                self._single.run(buffers, runtime.memory, runtime.trace)
            else:
                self._queue(buffers, kept)
        except BackendError as error:
            self._temporaries = None  # work on them may have failed, which must not fail the next run
            if isinstance(error, DeviceLostError):
                runtime.lose(error)
            raise
        return self._finished(tensors, buffers, given, is_alone=not shared and (kept is None or not kept.copied))

    def _finished(
        self,
        tensors: Sequence[Handle],
        buffers: Sequence[Buffer | Scalar],
        given: Sequence[Buffer | Scalar],
        *,
        is_alone: bool,
    ) -> Any:  # noqa: ANN401  # what the function returns
        """Return what the function returns, and assign what it assigns, of the buffers of a run.

        `is_alone` says whether what was stored over belonged to the arguments alone.
        """
        runtime, traced, observers = self._runtime, self.traced, self._runtime.observers
        new: dict[Node, Leaf] = {}
        computed_anew, given_anew = self._number, traced.given_anew
        if self._stays and is_alone and not (observers.references or observers.leaves or observers.pasts):
            computed_anew, given_anew = self._number_beside, self._given_beside
            for place in self._stays:
                leaf: Leaf = tensors[place]._node  # type: ignore[assignment]  # only over leaves is anything stored
                leaf.history_lost, leaf.history = True, None
        for node, number in computed_anew.items():
            new[node] = self._leaf_of(node, buffers[number])
        for node in traced.without_history:
            new[node].history = TRACED
        if traced.of_arguments and observers.leaves and self._have_history(tensors):
            for node in traced.of_arguments:
                new[node].history = TRACED
        result = traced.result
        if type(result) is Result:
            results = result.kind.of(new.get(result.node) or self._value(result.node, new, given), runtime)
        else:
            results = put_together(
                result, Result, lambda part: part.kind.of(self._value(part.node, new, given), runtime)
            )
        for position, node in given_anew:
            runtime.assign(tensors[position], self._value(node, new, given), is_fresh=True)
        for reference, node in traced.states:
            state = reference()
            if state is not None:
                runtime.assign(state, self._value(node, new, given), is_fresh=True)
        return results

    def _have_history(self, tensors: Sequence[Handle]) -> bool:
        """Whether gradients are kept of an argument, or pass it."""
        observers = self._runtime.observers
        return any(has_history(observers, tensor._node) for tensor in tensors)

    def _queue(self, buffers: list[Buffer | Scalar], kept: CopyOnWrite | None) -> None:
        """Queue the plan on the buffers of a run, of which those of the inputs are there, and keep others as they are.

        Where the plan waits, another thread may run it, too: then these temporaries are not there for it.
        """
        runtime, plan = self._runtime, self._plan
        outputs = plan.allocate(runtime.memory, self._outputs)
        temporaries = self._temporaries
        if temporaries is None or (temporaries and _have_failed(temporaries)):
            temporaries = self._temporaries = plan.allocate(runtime.memory, plan.temporaries)
        buffers += [*outputs, *temporaries]
        if kept is None:
            plan.queue(buffers, runtime.trace)
            return
        self._temporaries = None
        plan.queue(buffers, runtime.trace, kept.while_waiting)
        self._temporaries = temporaries

    def _buffers_of_outside(self, outside: Sequence[Handle], arguments: Sequence[Buffer]) -> list[Buffer]:
        """Return the buffers of what was found outside, or copies where one is stored over that belongs to others.

        `arguments` are the buffers of these: while they are held here, no other tensor is their sole owner.
        """
        runtime = self._runtime
        written = self._overwritten
        shared = shared_of(outside, written) if written else written
        buffers: list[Buffer] = []
        for handle in outside:
            if type(handle._node.storage) is Unread:
                read_unread(runtime, [other._node for other in outside])
            node = handle._node
            storage = node.storage
            buffers.append(storage_of(runtime, handle) if type(storage) is not Buffer or node.sources else storage)
        for place in shared:
            buffers[place] = runtime.buffer_of(runtime.copy(outside[place]._node))
        return buffers

    def _value(self, node: Node, new: dict[Node, Leaf], given: Sequence[Buffer | Scalar]) -> Node:
        """Return the leaf for a node of the trace: computed, or given and passed on."""
        if node in new:
            return new[node]
        if node in self.traced.given:
            storage = given[self.traced.given[node]]
            if type(storage) is not Buffer:  # a number
                return self._runtime.graph.const(storage, node.dtype, node.device, node.shape)  # type: ignore[arg-type]
            return self._leaf_of(node, storage)
        if 0 in node.shape:
            return self._runtime.graph.const(0, node.dtype, node.device, node.shape)
        return node

    def drop_spare(self) -> None:
        """Keep no temporaries for the next run."""
        self._temporaries = None

    def __del__(self) -> None:
        # Only noted: a finaliser may run anywhere, also while the runtime is at work.
        plan = getattr(self, "_plan", None)  # none if the function was refused
        if plan is not None:
            self._runtime.discard(plan)


def _have_failed(buffers: Sequence[Buffer]) -> bool:
    """Whether work on one of `buffers` is known to have failed; much of it is the same work."""
    return any(pending is not None and pending.has_failed for pending in {buffer.pending for buffer in buffers})


def storage_of(runtime: Runtime, handle: Handle) -> Buffer:
    """Return the buffer of a tensor, which is computed if it is not yet."""
    node = runtime.current_node(handle)
    if node.storage is None:
        runtime.observers.looked(node)
        runtime.realize_one(handle)
        node = runtime.current_node(handle)
    return runtime.buffer_of(node)
