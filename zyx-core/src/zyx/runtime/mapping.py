"""A function that runs once for many examples: what its tensors stand for meanwhile.

It is a trace that takes nothing in: whatever the function finds outside is what it is there, computed or not, with the
history that tapes know; of examples alone there are no values. What is computed from these is a graph of one example,
of which `zyx.graph.batching` makes that of all.

    mapped       leaves in place of the arguments, without the axis of examples
    streams      leaves in place of states of random generators, of which each example has words of its own

Functions made by `zyx.jit` are run untraced inside, as they are inside of one another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

from zyx.errors import TraceError
from zyx.runtime.tracing import Tracing, place_outside

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    import numpy as np

    from zyx.graph.node import Leaf, Node
    from zyx.runtime.handle import Handle
    from zyx.runtime.runtime import Runtime
    from zyx.runtime.tracing import SupportsTraceKey

T = TypeVar("T")
Randomness: TypeAlias = Literal["different", "same", "error"]


class MappedRun(Tracing):
    """One run of a function for many examples.

    Args:
        runtime: Of the tensors.
        name: Of the function, for errors.
        count: How many examples there are.
        randomness: Whether each example has random numbers of its own, all the same ones, or there must be none.

    Attributes:
        mapped: What stands for an argument of one example, with the values of all, along an axis in front.
        streams: What stands for the state of a generator, with the state.
    """

    def __init__(self, runtime: Runtime, name: str, count: int, randomness: Randomness) -> None:
        super().__init__(runtime)
        self._outer = runtime.tracing
        self._name = name
        self._count = count
        self._randomness = randomness
        self.is_replayed = self._outer is not None and self._outer.is_replayed
        self.mapped: dict[Leaf, Node] = {}
        self.streams: dict[Leaf, Node] = {}

    def example(self, handle: Handle, values: Node) -> Handle:
        """Return a tensor of one example, given those of all, along an axis in front; `handle` is of its class."""
        leaf = self._runtime.graph.leaf(values.shape[1:], values.dtype, values.device)
        self.mapped[leaf] = values
        return type(handle).of(leaf, self._runtime)

    def begun(self) -> AbstractContextManager[None]:
        """Return what lets this run take what the thread does with tensors, for the length of a ``with`` block."""
        return self._runtime.traced_by(self)

    # ---- called by the runtime

    def depends_on(self, thing: SupportsTraceKey) -> SupportsTraceKey:
        """Let the trace around this one depend on `thing`, if there is one."""
        return thing if self._outer is None else self._outer.depends_on(thing)

    def node_of(self, handle: Handle) -> Node:
        """Return what `handle`, which the function did not make, stands for outside."""
        with self._runtime.traced_by(self._outer):
            return self._runtime.current_node(handle)

    def assign(self, handle: Handle, node: Node) -> None:
        """Let `handle` stand for `node` from here on; outside, too, if it comes from there.

        Raises:
            TraceError: It comes from outside, and there is a value for each example. It keeps the one it has.
        """
        if handle.tracing is self:
            handle._node = node
            return
        if self._differs(node):
            raise TraceError(
                f"{place_outside()}: {handle._node!r}, which is not made in {self._name}, is assigned a value inside "
                f"of vmap of which each of the {self._count} examples has another one; return it, or give the tensor "
                "as an argument and map over it"
            )
        with self._runtime.traced_by(self._outer):
            self._runtime.assign(handle, node)

    def upload(self, array: np.ndarray, device: str) -> Leaf:
        """Return a leaf of an array that the function makes a tensor of."""
        with self._runtime.traced_by(self._outer):
            return self._runtime.upload(array, device)  # type: ignore[return-value]  # it is one

    def read(self, handle: Handle, reader: Callable[[Handle], T]) -> T:
        """Return what `reader` reads of what is the same for all examples.

        Raises:
            TraceError: It is not, or a function around this one is being traced.
        """
        node = self._runtime.current_node(handle)
        if self._differs(node):
            raise self.refusal(handle)
        with self._runtime.traced_by(self._outer):
            if handle.tracing is self:
                handle = type(handle).of(node, self._runtime)
            return reader(handle)

    def refusal(self, handle: Handle) -> TraceError:
        """Return the error for reading values of an example, which names the line that does."""
        return TraceError(
            f"{place_outside()}: the values of {handle._node!r} are read inside of vmap of {self._name}, where it "
            f"stands for each of {self._count} examples; compute with tensors (zyx.where instead of if), or let "
            "in_axes be None for what is the same for all"
        )

    def blocks(self, count: int) -> int:
        """Return of how many blocks of random words a draw of `count` takes for all examples.

        Raises:
            TraceError: There are to be no draws.
        """
        if self._randomness == "error":
            raise TraceError(
                f'{place_outside()}: {self._name} draws random numbers inside of vmap, which randomness="error" '
                'refuses; with "different" each example has its own, with "same" all have the same'
            )
        of_all = count * self._count if self._randomness == "different" else count
        return of_all if self._outer is None else self._outer.blocks(of_all)

    def stream(self, state: Node) -> Node:
        """Return what stands for the state of a generator; of each example if these have words of their own."""
        if self._outer is not None:
            state = self._outer.stream(state)
        if self._randomness != "different":
            return state
        leaf = self._runtime.graph.leaf(state.shape, state.dtype, state.device)
        self.streams[leaf] = state
        return leaf

    def finish(self) -> None:
        """Let go of the values: tensors that were made in it may be kept, and refer to it."""
        self.mapped.clear()
        self.streams.clear()

    def _differs(self, node: Node) -> bool:
        """Whether `node` depends on what is not the same for all examples."""
        from zyx.graph.walk import topological

        return any(each in self.mapped or each in self.streams for each in topological([node]))
