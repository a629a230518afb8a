"""One trace of a function, compiled, and how it is run again."""

from __future__ import annotations

import weakref
from collections import Counter
from typing import TYPE_CHECKING, Any

from zyx.errors import BackendError, DeviceLostError
from zyx.graph.making import computed_leaf
from zyx.jit.checks import check_result, check_states, check_unchanged
from zyx.jit.exact_key import about_class
from zyx.jit.numbers import StandIn
from zyx.jit.structure import containers_in, put_together, values_in
from zyx.modes import is_grad_enabled
from zyx.runtime.buffer import Buffer
from zyx.runtime.handle import Handle
from zyx.runtime.lazy import Unread, read_unread
from zyx.runtime.leaves import TRACED, has_history, ways_of
from zyx.runtime.ownership import shared_of
from zyx.runtime.plan import Single
from zyx.runtime.tracing import SupportsTraceKey
from zyx.shape import VaryingSize

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zyx.dtype import Scalar
    from zyx.graph.node import Leaf, Node
    from zyx.jit.numbers import Numbers
    from zyx.runtime.plan import Plan, Slice
    from zyx.runtime.runtime import Runtime
    from zyx.runtime.tracing import Tracing


class _Result:
    """A tensor that the function returned: its class, and its node in the trace."""

    __slots__ = ("kind", "node")

    def __init__(self, kind: type[Handle], node: Node) -> None:
        self.kind = kind
        self.node = node


class Entry:
    """A function traced for one signature.

    A run computes new buffers for what the function returns, and for what it assigns to its arguments. What it assigns
    to tensors that it finds outside is stored over their old values where the plan allows it, and where these belong to
    nothing else: no other tensor, and no argument. Its temporaries are kept from run to run while there is room.

    It keeps no tensor and no object alive that the function found outside. Once one of these is gone, the function
    could not find it again either, and the trace does not fit any more. What the device keeps for it is released some
    time after it has died, when the runtime is at work.

    The function runs here, once, and without the runtime's lock: it may take its time, and wait for other threads. Runs
    of the trace, and all questions about it, are for whoever holds the lock.

    Args:
        function: What to trace.
        args: Its arguments by position.
        kwargs: Its arguments by name.
        tensors: The tensors in `args` and `kwargs`.
        tracing: A new trace, which has found nothing yet.
        runtime: What they belong to.
        numbers: The numbers in `args` and `kwargs`, if the trace is to be for others as well.

    Raises:
        LookedAt: The function looks at some of these.
    """

    #: Makes the leaf for a node of the trace; for those of many lengths, in the shape that it has in this run.
    _leaf_of: Callable[[Node, object], Leaf] = staticmethod(computed_leaf)

    def __init__(
        self,
        function: Callable[..., Any],
        args: Any,  # noqa: ANN401
        kwargs: Any,  # noqa: ANN401
        tensors: Sequence[Handle],
        tracing: Tracing,
        runtime: Runtime,
        numbers: Numbers | None = None,
    ) -> None:
        self._runtime = runtime
        with runtime.traced_by(tracing):
            for value in values_in((args, kwargs)):
                # The class first: tensors look far and wide for an attribute that they do not have.
                kind: Any = type(value)
                if about_class(kind).has_trace_key and isinstance(value, SupportsTraceKey):
                    tracing.depends_on(value)
            traced_args, traced_kwargs = put_together((args, kwargs), Handle, tracing.argument)
            if numbers is not None:
                traced_args, traced_kwargs = put_together((traced_args, traced_kwargs), (float, int), numbers.stand_in)
            given = [*containers_in((*traced_args, *traced_kwargs.values()))]
            result = function(*traced_args, **traced_kwargs)
            if numbers is not None:
                result = put_together(put_together(result, StandIn, StandIn.look), VaryingSize, VaryingSize.look)
                numbers.check()
            check_unchanged(given)
            check_result(result, tracing)
            tracing.check_grads()
            returned: list[Node] = []
            self._result = put_together(result, Handle, lambda handle: _result(handle, returned))
        self._uses = [] if numbers is None else numbers.uses
        with runtime.lock:
            self._compile(tracing, tensors, returned)
        tracing.finish()

    def _compile(self, tracing: Tracing, tensors: Sequence[Handle], returned: Sequence[Node]) -> None:
        """Make a plan of what the function did; nobody may change what it captured meanwhile."""
        self._watched = [(_weakly(watched), watched.trace_key) for watched in tracing.watched.values()]
        captured = tracing.captured
        # Equal ones are one: hundreds of them are looked at in each run, after kernels that have emptied the caches.
        kinds = [(leaf.shape, leaf.dtype, leaf.device) for _, leaf in captured.values()]
        same = dict(zip(kinds, kinds, strict=True))
        self._captured = [
            (weakref.ref(handle), *same[kind]) for (handle, _), kind in zip(captured.values(), kinds, strict=True)
        ]
        #: Whether gradients are kept of these, at the last look: that changes where those of a backward() go.
        self._changes = self._runtime.observers.changes
        self._wanted = [number in self._runtime.observers.wanted for number in captured]
        states = [
            (handle, node)
            for handle, node in tracing.assigned.values()
            if captured.get(id(handle), (None, None))[1] is not node
        ]
        check_states(states)
        self._states = [(weakref.ref(handle), node) for handle, node in states]
        self._given_anew = [
            (position, argument.placeholder._node)
            for position, argument in enumerate(tracing.arguments)
            if argument.is_assigned
        ]
        # Which tensors are the same matters as soon as one of them is assigned to.
        self._is_pure = not states and not self._given_anew
        found = {id(handle): handle for handle, _ in [*captured.values(), *states]} | tracing.met
        self._others = [weakref.ref(handle) for number, handle in found.items() if number not in captured]
        self._found = frozenset(found)
        self._aliases = () if self._is_pure else self._aliases_of(tensors)
        self._given: dict[Node, int] = {}
        leaves = [argument.leaf for argument in tracing.arguments]
        for leaf in [*leaves, *(leaf for _, leaf in captured.values()), *(leaf for leaf, _ in tracing.constants)]:
            self._given[leaf] = len(self._given)
        for use in self._uses:
            self._given[use.leaf] = len(self._given)
        self._returned = frozenset(returned)
        self._constants = [buffer for _, buffer in tracing.constants]
        wanted = dict.fromkeys(
            [*returned, *(node for _, node in self._states), *(node for _, node in self._given_anew)]
        )
        self._computed = [
            node for node in wanted if node not in self._given and node.storage is None and 0 not in node.shape
        ]
        # What is returned or assigned as it was must not be stored over.
        donations = {
            node: captured[id(handle)][1]
            for handle, node in states
            if id(handle) in captured and captured[id(handle)][1] not in wanted
        }
        self._donations = donations
        #: What an argument that is one of a kind becomes may be stored over it.
        self._given_over = (
            {}
            if self._aliases
            else {
                node: leaves[position]
                for position, node in self._given_anew
                if leaves[position] not in wanted and node not in donations
            }
        )
        self._arguments = len(leaves)
        #: What gradients would be asked to pass, and cannot: see `zyx.runtime.leaves`.
        self._without_history: list[Node] = []
        self._of_arguments: list[Node] = []
        if is_grad_enabled():
            observers, given = self._runtime.observers, {*leaves}
            for node in self._computed:
                is_kept, is_of_arguments = ways_of(observers, node, given)
                if is_kept:
                    self._without_history.append(node)
                elif is_of_arguments:
                    self._of_arguments.append(node)
        self._plan_it()

    def _plan_it(self) -> None:
        """Make the plan that the runs are of."""
        self._make_plan(self._computed, list(self._given), self._donations | self._given_over)

    def _make_plan(self, outputs: Sequence[Node], leaves: Sequence[Node], donations: Mapping[Node, Node]) -> None:
        """Make the plan that computes `outputs`, in place of what is computed here, from `leaves`."""
        runtime = self._runtime
        self._plan: Plan
        self._plan, self._numbers = runtime.plan(outputs, leaves, donations)
        self._plan.capture(runtime.trace)
        self._single = Single(self._plan) if self._plan.is_single else None
        self._number = {node: number for node, number in zip(self._computed, self._plan.results, strict=True)}
        #: If a launch computes the one result from arguments and constants, and there is nothing else to do: that.
        self._plain: tuple[Single, _Result] | None = None
        if self._single is not None and type(self._result) is _Result and self._result.node in self._number:
            has_more = self._plan.placed or self._uses or self._numbers or not self._is_pure
            has_more = has_more or bool(self._without_history)
            if len(self._given) == self._arguments + len(self._constants) and not has_more:
                self._plain = self._single, self._result
        self._plain_leaves = list(leaves)[: self._arguments]
        first = self._arguments
        #: Of what was found outside, the places of what is stored over.
        self._overwritten = [
            self._given[old] - first
            for node, old in self._donations.items()
            if self._number.get(node) == self._given[old]
        ]
        #: Of the arguments, likewise; those that a plan for greater lengths is made of are not.
        self._overwritten_arguments = [
            self._given[old]
            for node, old in self._given_over.items()
            if node in donations and self._number.get(node) == self._given[old]
        ]
        #: Arguments that keep their nodes where nobody follows these: values are stored over theirs. And all the rest.
        self._stays: list[int] = []
        self._number_beside, self._given_beside = self._number, self._given_anew
        if self._leaf_of is computed_leaf:
            assigned = Counter([node for _, node in (*self._states, *self._given_anew)])
            kept = {*self._returned, *self._without_history}
            staying = {
                node: position
                for position, node in self._given_anew
                if position in self._overwritten_arguments and assigned[node] == 1 and node not in kept
            }
            self._stays = [*staying.values()]
            self._number_beside = {node: number for node, number in self._number.items() if node not in staying}
            self._given_beside = [(position, node) for position, node in self._given_anew if node not in staying]
        self._written = {first + place for place in self._overwritten}.union(self._overwritten_arguments)
        self._outputs: Sequence[Slice] = self._plan.outputs
        self._temporaries: list[Buffer] | None = None
        if self._plan.temporaries:
            runtime.spares.add(self)

    @property
    def plan(self) -> Plan:
        """What one run does."""
        return self._plan

    def found(self, tensors: Sequence[Handle]) -> list[Handle] | None:
        """Return the tensors that the function finds outside, or None if it would find others, or do something else.

        Their values may be others.
        """
        if not self._captured and not self._watched and self._is_pure:
            return []
        outside = self.found_tensors()
        if outside is None:
            return None
        observers = self._runtime.observers
        if observers.changes != self._changes:
            if [id(handle) in observers.wanted for handle in outside] != self._wanted:
                return None
            self._changes = observers.changes
        for reference, key in self._watched:
            watched = reference()
            if watched is None or watched.trace_key != key:
                return None
        return outside if self._is_pure or self._aliases_of(tensors) == self._aliases else None

    def settle(self) -> None:
        """Watch no modules that the function made for itself: to be called once these are gone with `tracing`."""
        self._watched = [(reference, key) for reference, key in self._watched if reference() is not None]

    def is_stale(self) -> bool:
        """Whether the trace will not be used again."""
        if self.found_tensors() is None:
            return True
        return any(
            (watched := reference()) is None or watched.trace_key[0] != key[0] for reference, key in self._watched
        )

    def found_tensors(self) -> list[Handle] | None:
        """Return the tensors that were found outside, if all are there and of their shapes, dtypes and devices."""
        outside: list[Handle] = []
        for reference, shape, dtype, device in self._captured:
            handle = reference()
            if handle is None:
                return None
            node = handle._node
            if node.shape != shape or node.dtype is not dtype or node.device != device:
                return None
            outside.append(handle)
        for other in self._others:
            if other() is None:
                return None
        return outside

    def _aliases_of(self, tensors: Sequence[Handle]) -> tuple[int, ...]:
        """Return which of `tensors` are one, or were found outside as well; () if none are."""
        numbers = [*map(id, tensors)]
        if len(set(numbers)) == len(numbers) and self._found.isdisjoint(numbers):
            return ()
        return tuple([number if number in self._found else -1 - numbers.index(number) for number in numbers])

    @property
    def is_plain(self) -> bool:
        """Whether `again` may serve calls of it."""
        return self._plain is not None and not self._watched

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
        buffers += self._constants
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
        runtime = self._runtime
        shared = shared_of(tensors, over) if (over := self._overwritten_arguments) else over
        leaves: list[Buffer] = []
        for handle in tensors:
            node = handle._node
            storage = node.storage
            leaves.append(self._storage(handle) if type(storage) is not Buffer or node.sources else storage)
        if self._plain is not None and not runtime.memory.lost:
            single, result = self._plain
            leaves += self._constants
            try:
                buffer = single.run(leaves, runtime.memory, runtime.trace)  # type: ignore[arg-type]  # none is a number
            except DeviceLostError as error:
                runtime.lose(error)
                raise
            computed = computed_leaf(result.node, buffer)
            if self._of_arguments and runtime.observers.leaves and self._have_history(tensors):
                computed.history = TRACED
            return result.kind.of(computed, runtime)
        for place in shared:
            leaves[place] = runtime.buffer_of(runtime.copy(tensors[place].node))
        if outside:
            leaves += self._buffers_of_outside(outside, leaves)
        leaves += self._constants
        plan = self._plan
        if runtime.memory.lost:
            for buffer in leaves:
                runtime.memory.check(buffer.pool)
        if plan.placed:
            leaves = runtime.placement.gather(self._given, leaves, plan.placed, self._written)
        by_value = [use.leaf.dtype.to_scalar(use.formula(numbers)) for use in self._uses] if self._uses else ()
        given: list[Buffer | Scalar] = [*leaves, *by_value]
        buffers = [*given, *self._numbers]
        try:
            if self._single is not None:
                self._single.run(buffers, runtime.memory, runtime.trace)
            else:
                self._queue(buffers)
        except BackendError as error:
            self._temporaries = None  # work on them may have failed, which must not fail the next run
            if isinstance(error, DeviceLostError):
                runtime.lose(error)
            raise
        new: dict[Node, Leaf] = {}
        computed_anew, given_anew = self._number, self._given_anew
        observers = runtime.observers
        if self._stays and not shared and not (observers.references or observers.leaves or observers.pasts):
            computed_anew, given_anew = self._number_beside, self._given_beside
            for place in self._stays:
                leaf: Leaf = tensors[place]._node  # type: ignore[assignment]  # only over leaves is anything stored
                leaf.history_lost, leaf.history = True, None
        for node, number in computed_anew.items():
            new[node] = self._leaf_of(node, buffers[number])
        for node in self._without_history:
            new[node].history = TRACED
        if self._of_arguments and runtime.observers.leaves and self._have_history(tensors):
            for node in self._of_arguments:
                new[node].history = TRACED
        result = self._result
        if type(result) is _Result:
            results = result.kind.of(new.get(result.node) or self._value(result.node, new, given), runtime)
        else:
            results = put_together(
                result, _Result, lambda part: part.kind.of(self._value(part.node, new, given), runtime)
            )
        for position, node in given_anew:
            runtime.assign(tensors[position], self._value(node, new, given), is_fresh=True)
        for reference, node in self._states:
            state = reference()
            if state is not None:
                runtime.assign(state, self._value(node, new, given), is_fresh=True)
        return results

    def _have_history(self, tensors: Sequence[Handle]) -> bool:
        """Whether gradients are kept of an argument, or pass it."""
        observers = self._runtime.observers
        return any(has_history(observers, tensor._node) for tensor in tensors)

    def _queue(self, buffers: list[Buffer | Scalar]) -> None:
        """Queue the plan on the buffers of a run, of which those of the inputs are there."""
        runtime, plan = self._runtime, self._plan
        outputs = plan.allocate(runtime.memory, self._outputs)
        temporaries = self._temporaries
        if temporaries is None or (temporaries and _have_failed(temporaries)):
            temporaries = self._temporaries = plan.allocate(runtime.memory, plan.temporaries)
        buffers += [*outputs, *temporaries]
        plan.queue(buffers, runtime.trace)

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
            buffers.append(self._storage(handle) if type(storage) is not Buffer or node.sources else storage)
        for place in shared:
            buffers[place] = runtime.buffer_of(runtime.copy(outside[place]._node))
        return buffers

    def _value(self, node: Node, new: dict[Node, Leaf], given: Sequence[Buffer | Scalar]) -> Node:
        """Return the leaf for a node of the trace: computed, or given and passed on."""
        if node in new:
            return new[node]
        if node in self._given:
            storage = given[self._given[node]]
            if type(storage) is not Buffer:  # a number
                return self._runtime.graph.const(storage, node.dtype, node.device, node.shape)  # type: ignore[arg-type]
            return self._leaf_of(node, storage)
        if 0 in node.shape:
            return self._runtime.graph.const(0, node.dtype, node.device, node.shape)
        return node

    def _storage(self, handle: Handle) -> Buffer:
        node = self._runtime.current_node(handle)
        if node.storage is None:
            self._runtime.observers.looked(node)
            self._runtime.realize_one(handle)
            node = self._runtime.current_node(handle)
        return self._runtime.buffer_of(node)

    def drop_spare(self) -> None:
        """Keep no temporaries for the next run."""
        self._temporaries = None

    def __del__(self) -> None:
        # Only noted: a finaliser may run anywhere, also while the runtime is at work.
        plan = getattr(self, "_plan", None)  # none if the function was refused
        if plan is not None:
            self._runtime.discard(plan)


def _weakly(thing: SupportsTraceKey) -> Callable[[], SupportsTraceKey | None]:
    """Return a reference to `thing`, weak if there are such."""
    try:
        return weakref.ref(thing)
    except TypeError:
        return lambda: thing


def _have_failed(buffers: Sequence[Buffer]) -> bool:
    """Whether work on one of `buffers` is known to have failed; much of it is the same work."""
    return any(pending is not None and pending.has_failed for pending in {buffer.pending for buffer in buffers})


def _result(handle: Handle, returned: list[Node]) -> _Result:
    returned.append(handle.node)
    return _Result(type(handle), handle.node)
