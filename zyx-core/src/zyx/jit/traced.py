"""What a function did when it was traced: what it was given, found and assigned, and what is to be computed."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from zyx.jit.checks import check_result, check_states, check_unchanged
from zyx.jit.exact_key import about_class
from zyx.jit.numbers import StandIn
from zyx.jit.structure import containers_in, put_together, values_in
from zyx.modes import is_grad_enabled
from zyx.runtime.handle import Handle
from zyx.runtime.leaves import ways_of
from zyx.runtime.tracing import SupportsTraceKey
from zyx.shape import VaryingSize

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.graph.node import Leaf, Node
    from zyx.jit.numbers import Numbers
    from zyx.runtime.runtime import Runtime
    from zyx.runtime.tracing import Tracing


class Result:
    """A tensor that the function returned: its class, and its node in the trace."""

    __slots__ = ("kind", "node")

    def __init__(self, kind: type[Handle], node: Node) -> None:
        self.kind = kind
        self.node = node


class Traced:
    """What a function did for one signature.

    It keeps no tensor and no object alive that the function found outside. Once one of these is gone, the function
    could not find it again either, and the trace does not fit any more.

    The function runs here, once, and without the runtime's lock: it may take its time, and wait for other threads. All
    questions about what it did are for whoever holds the lock.

    Args:
        function: What to trace.
        args: Its arguments by position.
        kwargs: Its arguments by name.
        tensors: The tensors in `args` and `kwargs`.
        tracing: A new trace, which has found nothing yet.
        runtime: What they belong to.
        numbers: The numbers in `args` and `kwargs`, if the trace is to be for others as well.

    Attributes:
        result: What the function returned, with a `Result` in place of each tensor.
        uses: What kernels are given of the numbers.
        states: References to what was assigned outside, with its new values.
        given_anew: The places of arguments that were assigned, with their new values.
        is_pure: Whether nothing was assigned.
        given: What is given to the plan, in order: arguments, what was found, constants, numbers; and their places.
        returned: What was returned.
        constants: Buffers of arrays made inside.
        computed: What the plan is to compute.
        donations: What may be stored over the old value of what was found.
        given_over: What may be stored over an argument.
        arguments: How many arguments there are.
        without_history, of_arguments: What gradients would be asked to pass, and cannot: see `zyx.runtime.leaves`.

    Raises:
        LookedAt: The function looks at some of the numbers.
    """

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
        self.runtime = runtime
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
            self.result = put_together(result, Handle, lambda handle: _result(handle, returned))
        self.uses = [] if numbers is None else numbers.uses
        with runtime.lock:
            self._note(tracing, tensors, returned)

    def _note(self, tracing: Tracing, tensors: Sequence[Handle], returned: Sequence[Node]) -> None:
        """Note what the function did; nobody may change what it captured meanwhile."""
        captured = tracing.captured
        self._note_captured(tracing)
        states = [
            (handle, node)
            for handle, node in tracing.assigned.values()
            if captured.get(id(handle), (None, None))[1] is not node
        ]
        check_states(states)
        self.states = [(weakref.ref(handle), node) for handle, node in states]
        self.given_anew = [
            (position, argument.placeholder._node)
            for position, argument in enumerate(tracing.arguments)
            if argument.is_assigned
        ]
        # Which tensors are the same matters as soon as one of them is assigned to.
        self.is_pure = not states and not self.given_anew
        found = {id(handle): handle for handle, _ in [*captured.values(), *states]} | tracing.met
        self._others = [weakref.ref(handle) for number, handle in found.items() if number not in captured]
        self._found = frozenset(found)
        self._aliases = () if self.is_pure else self._aliases_of(tensors)
        self.given: dict[Node, int] = {}
        leaves = [argument.leaf for argument in tracing.arguments]
        for leaf in [*leaves, *(leaf for _, leaf in captured.values()), *(leaf for leaf, _ in tracing.constants)]:
            self.given[leaf] = len(self.given)
        for use in self.uses:
            self.given[use.leaf] = len(self.given)
        self.returned = frozenset(returned)
        self.constants = [buffer for _, buffer in tracing.constants]
        wanted = dict.fromkeys([*returned, *(node for _, node in self.states), *(node for _, node in self.given_anew)])
        self.computed = [
            node for node in wanted if node not in self.given and node.storage is None and 0 not in node.shape
        ]
        # What is returned or assigned as it was must not be stored over; what is not computed is stored nowhere.
        is_computed = frozenset(self.computed)
        donations = {
            node: captured[id(handle)][1]
            for handle, node in states
            if node in is_computed and id(handle) in captured and captured[id(handle)][1] not in wanted
        }
        self.donations = donations
        #: What an argument that is one of a kind becomes may be stored over it.
        self.given_over = (
            {}
            if self._aliases
            else {
                node: leaves[position]
                for position, node in self.given_anew
                if node in is_computed and leaves[position] not in wanted and node not in donations
            }
        )
        self.arguments = len(leaves)
        self._note_history({*leaves})

    def _note_captured(self, tracing: Tracing) -> None:
        """Note what the function found outside, and what has to be as it was."""
        self._watched = [(_weakly(watched), watched.trace_key) for watched in tracing.watched.values()]
        captured = tracing.captured
        # Equal ones are one: hundreds of them are looked at in each run, after kernels that have emptied the caches.
        kinds = [(leaf.shape, leaf.dtype, leaf.device) for _, leaf in captured.values()]
        same = dict(zip(kinds, kinds, strict=True))
        self._captured = [
            (weakref.ref(handle), *same[kind]) for (handle, _), kind in zip(captured.values(), kinds, strict=True)
        ]
        #: Whether gradients are kept of these, at the last look: that changes where those of a backward() go.
        self._changes = self.runtime.observers.changes
        self._wanted = [number in self.runtime.observers.wanted for number in captured]

    def _note_history(self, arguments: set[Leaf]) -> None:
        """Note what gradients would be asked to pass, and cannot: see `zyx.runtime.leaves`."""
        self.without_history: list[Node] = []
        self.of_arguments: list[Node] = []
        if is_grad_enabled():
            for node, is_kept, is_of_arguments in ways_of(self.runtime.observers, self.computed, arguments):
                if is_kept:
                    self.without_history.append(node)
                elif is_of_arguments:
                    self.of_arguments.append(node)

    @property
    def watches(self) -> bool:
        """Whether it depends on objects that may change."""
        return bool(self._watched)

    def found(self, tensors: Sequence[Handle]) -> list[Handle] | None:
        """Return the tensors that the function finds outside, or None if it would find others, or do something else.

        Their values may be others.
        """
        if not self._captured and not self._watched and self.is_pure:
            return []
        outside = self.found_tensors()
        if outside is None:
            return None
        observers = self.runtime.observers
        if observers.changes != self._changes:
            if [id(handle) in observers.wanted for handle in outside] != self._wanted:
                return None
            self._changes = observers.changes
        for reference, key in self._watched:
            watched = reference()
            if watched is None or watched.trace_key != key:
                return None
        return outside if self.is_pure or self._aliases_of(tensors) == self._aliases else None

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


def _weakly(thing: SupportsTraceKey) -> Callable[[], SupportsTraceKey | None]:
    """Return a reference to `thing`, weak if there are such."""
    try:
        return weakref.ref(thing)
    except TypeError:
        return lambda: thing


def _result(handle: Handle, returned: list[Node]) -> Result:
    returned.append(handle.node)
    return Result(type(handle), handle.node)
