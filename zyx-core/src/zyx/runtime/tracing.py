"""A function being traced: what its tensors stand for while it runs once on placeholders.

Every tensor that the function is given, or finds, is represented by a leaf without storage:

    arguments    placeholders made for the trace, each a tensor of its own
    captured     tensors from outside that the function reads: parameters, constants, states of random generators
    uploaded     arrays that the function turns into tensors: they become part of what was traced

What the function assigns to a tensor, captured or given, is kept as its new value at the end. Handles from outside are
not changed while the function runs, so an error in the middle leaves them as they were.

A tensor may come in several ways, as two arguments or as one that the function also finds outside. As long as nothing
is assigned to it that makes no difference, and each way has its own leaf; from the first assignment on, all of them
mean the new value.

A trace is of the thread, or task, that runs the function: what others do meanwhile is none of its business.
"""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar, runtime_checkable

from zyx.errors import GradientError, TraceError
from zyx.lazy_import import lazy_import

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    import numpy as np

    from zyx.graph.node import Leaf, Node
    from zyx.runtime import leaves
    from zyx.runtime.buffer import Buffer
    from zyx.runtime.handle import Handle
    from zyx.runtime.leaves import Wanted
    from zyx.runtime.runtime import Runtime
    from zyx.shape import Shape
else:
    leaves = lazy_import("zyx.runtime.leaves", globals())

T = TypeVar("T")


@runtime_checkable
class SupportsTraceKey(Protocol):
    """An object on which the course of a traced function may depend."""

    @property
    def trace_key(self) -> tuple[int, Hashable]:
        """A count of changes that are not undone, and a state that may come back.

        A trace is used again while the key of each object that it depends on equals what it was.
        """


class Unfit(Exception):  # nothing is wrong
    """A trace for all numbers is not for those of a call: the call has a trace of its own."""


class Argument(NamedTuple):
    """One tensor among the arguments of the function: what stands for it."""

    placeholder: Handle
    leaf: Leaf

    @property
    def is_assigned(self) -> bool:
        """Whether the function has given it another value."""
        return self.placeholder._node is not self.leaf


class Tracing:
    """One trace.

    Args:
        runtime: Of the tensors.
        shapes: Those of the arguments, if other tensors are to be like them than the ones given.

    Attributes:
        arguments: The tensors that the function was given, in their order.
        captured: For each tensor from outside, its placeholder; in the order in which they were met.
        assigned: New values of tensors from outside.
        met: Arguments that the function also found outside, so that it made a difference.
        constants: Placeholders of arrays made inside, with their buffers.
        watched: Other objects that the trace depends on, by id.
        is_replayed: Whether what is traced will be done again, with other values.
        has_sizes: Whether sizes may vary in it.
        grads: What `backward` gave in the function, and whether that was used.
    """

    is_replayed: bool = True

    def __init__(self, runtime: Runtime, shapes: Sequence[Shape] | None = None) -> None:
        self._runtime = runtime
        self._shapes = shapes
        self.has_sizes = shapes is not None
        # By id, since `==` of tensors compares their elements. The handles are kept alive by being here.
        self.arguments: list[Argument] = []
        self._same: dict[int, list[Argument]] = {}  # by the tensor that was given, and by each of its placeholders
        self.met: dict[int, Handle] = {}
        self.captured: dict[int, tuple[Handle, Leaf]] = {}
        self.assigned: dict[int, tuple[Handle, Node]] = {}
        self.constants: list[tuple[Leaf, Buffer]] = []
        self.watched: dict[int, SupportsTraceKey] = {}
        self.grads: dict[Wanted, tuple[Handle | None, bool]] = {}

    def depends_on(self, thing: SupportsTraceKey) -> SupportsTraceKey:
        """Note that the trace holds only while `thing` is as it is; return it."""
        self.watched[id(thing)] = thing
        return thing

    def argument(self, handle: Handle) -> Handle:
        """Return a tensor that stands for `handle`, the next argument; to be called while the trace is under way."""
        node = handle._node
        shape = node.shape if self._shapes is None else self._shapes[len(self.arguments)]
        leaf = self._runtime.graph.leaf(shape, node.dtype, node.device)
        argument = Argument(type(handle).of(leaf, self._runtime), leaf)
        self.arguments.append(argument)
        self._note_wanted(handle, leaf, argument.placeholder)
        same = self._same.setdefault(id(handle), [])
        same.append(argument)
        self._same[id(argument.placeholder)] = same
        return argument.placeholder

    def node_of(self, handle: Handle) -> Node:
        """Return what `handle`, which the function did not make, stands for in it."""
        if handle.tracing is not None:
            raise TraceError(f"{handle._node!r} was made while another function was being traced, and has no values")
        given = self._same.get(id(handle))
        if given is not None and given[0].is_assigned:
            self.met[id(handle)] = handle
            return given[0].placeholder._node
        found = self.assigned.get(id(handle))
        return found[1] if found is not None else self.placeholder(handle)

    def placeholder(self, handle: Handle) -> Leaf:
        """Return the placeholder of a tensor from outside."""
        known = self.captured.get(id(handle))
        if known is not None:
            return known[1]
        with self._runtime.traced_by(None):
            self._runtime.realize([handle])
        node = handle._node
        leaf = self._runtime.graph.leaf(node.shape, node.dtype, node.device)
        self.captured[id(handle)] = (handle, leaf)
        self._note_wanted(handle, leaf)
        return leaf

    def _note_wanted(self, handle: Handle, leaf: Leaf, placeholder: Handle | None = None) -> None:
        """Let `leaf` stand for a tensor that gradients are kept of, if `handle` is one; and so its placeholder."""
        observers = self._runtime.observers
        if not observers.leaves:
            return
        record = observers.wanted.get(id(handle))
        if record is None:
            if leaves.has_history(observers, handle._node):
                leaf.history = leaves.TRACED
        else:
            leaves.note(observers, leaf, record)
            if placeholder is not None:
                wanted, key = observers.wanted, id(placeholder)
                wanted[key] = record
                weakref.finalize(placeholder, wanted.pop, key, None)

    def assign(self, handle: Handle, node: Node) -> None:
        """Let `handle` stand for `node` from here on."""
        given = self._same.get(id(handle))
        if given is not None:
            for argument in given:
                argument.placeholder._node = node
            if handle.tracing is not self:
                self.met[id(handle)] = handle
        elif handle.tracing is self:
            handle._node = node
        else:
            self.assigned[id(handle)] = (handle, node)

    def upload(self, array: np.ndarray, device: str) -> Leaf:
        """Return a placeholder of an array that the function makes a tensor of."""
        with self._runtime.traced_by(None):
            uploaded = self._runtime.upload(array, device)
        leaf = self._runtime.graph.leaf(uploaded.shape, uploaded.dtype, uploaded.device)
        self.constants.append((leaf, uploaded.storage))  # type: ignore[arg-type]  # an uploaded leaf has a buffer
        return leaf

    def read(self, handle: Handle, reader: Callable[[Handle], T]) -> T:
        """Return what `reader` reads of the values of a tensor that has some.

        Raises:
            TraceError: It has none.
        """
        raise self.refusal(handle)

    def blocks(self, count: int) -> int:
        """Return of how many blocks of random words a draw of `count` takes."""
        return count

    def stream(self, state: Node) -> Node:
        """Return what stands for the state of a generator that random words are drawn from."""
        return state

    def check_grads(self) -> None:
        """Refuse gradients that `backward` gave and nobody used: no replay would leave them in ``.grad``."""
        unused = [record for record, (grad, is_used) in self.grads.items() if grad is not None and not is_used]
        if unused:
            raise GradientError(
                f"backward() in a function under zyx.jit gave {len(unused)} gradients that were not used there, and "
                ".grad is not left by a traced call: step the optimiser in the same function, or return gradients, as "
                "zyx.value_and_grad gives them"
            )
        self.grads.clear()

    def finish(self) -> None:
        """Let go of the tensors that stand for arguments: they refer to the trace. What was found outside is kept."""
        self.arguments.clear()
        self._same.clear()

    def refusal(self, handle: Handle) -> TraceError:
        """Return the error for reading values, which names the line that does."""
        return TraceError(
            f"{place_outside()}: the values of {handle._node!r} are read while the function is being traced, when "
            "there are none yet; compute with tensors (zyx.where instead of if), return the value, or pass it in as a "
            "number"
        )


def place_outside() -> str:
    """Return file and line of the innermost frame outside of this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "zyx":
        frame = frame.f_back
    return f"{frame.f_code.co_filename}, line {frame.f_lineno}"


def function_called() -> str:
    """Return the name of the function of this package that the innermost frame outside called, "" if it is of `jit`."""
    frame, found = sys._getframe(1), ""
    while frame.f_back is not None and (module := frame.f_globals.get("__name__", "")).partition(".")[0] == "zyx":
        name = frame.f_code.co_qualname
        if not module.startswith("zyx.jit") and not name.endswith("__call__"):  # the object called says less
            found = name
        frame = frame.f_back
    return found
