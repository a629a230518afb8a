"""A function that runs once for many examples: what its tensors stand for meanwhile.

It is a trace that takes nothing in: whatever the function finds outside is what it is there, computed or not, with the
history that tapes know; of examples alone there are no values. What is computed from these is a graph of one example,
of which `zyx.graph.batching` makes that of all.

    mapped       leaves in place of the arguments, without the axis of examples
    streams      leaves in place of states of random generators, of which each example has words of its own

Functions made by `zyx.jit` are run untraced inside, as they are inside of one another.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

from zyx.dtype import accumulator
from zyx.errors import GradientError, TraceError
from zyx.graph.batching import batched, whole_of
from zyx.graph.walk import topological
from zyx.ops import ReduceOp
from zyx.runtime.handle import Handle
from zyx.runtime.tracing import Tracing, place_outside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    import numpy as np

    from zyx.graph import Graph
    from zyx.graph.base import AliasRule
    from zyx.graph.batching import Examples
    from zyx.graph.node import Alias, Leaf, Node
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
        self.mapped: dict[Node, Node] = {}
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
        self.mapped, self.streams = {}, {}

    # ---- gradients that come from outside

    def rule_of_all(
        self, node: Alias, values: Mapping[Node, Node], streams: Mapping[Leaf, Node], examples: Examples
    ) -> AliasRule:
        """Return the rule of an alias of all examples; see `zyx.graph.batching.RuleOfAll`."""
        if node.rule is None:
            return _Refused(self._name, values[node.sources[0]])
        return _OfAll(self, node, values, streams, examples)

    @contextmanager
    def again(self, mapped: dict[Node, Node], streams: dict[Leaf, Node]) -> Iterator[None]:
        """Take once more what the thread does with tensors: those of the run stand for what they stood for."""
        before = self.mapped, self.streams
        self.mapped, self.streams = mapped, streams
        try:
            with self._runtime.traced_by(self):
                yield
        finally:
            self.mapped, self.streams = before

    def compute(self, nodes: Sequence[Node]) -> None:
        """Compute nodes of all examples now, unless a function around this one is being traced."""
        self._runtime.realize([Handle.of(node, self._runtime) for node in nodes])

    def _differs(self, node: Node) -> bool:
        """Whether `node` depends on what is not the same for all examples."""
        return any(each in self.mapped or each in self.streams for each in topological([node]))


class _OfAll:
    """The rule of one example, for all: its gradients are made in the run, as nodes of one example, and given the axis.

    Attributes:
        inputs: Those of the rule, with the axis where they differ between examples.
    """

    def __init__(
        self,
        run: MappedRun,
        node: Alias,
        values: Mapping[Node, Node],
        streams: Mapping[Leaf, Node],
        examples: Examples,
    ) -> None:
        assert node.rule is not None
        self._run, self._node, self._rule = run, node, node.rule
        self._values, self._streams, self._examples = values, streams, examples
        self.inputs = tuple([values.get(each, each) for each in self._rule.inputs])

    def pull(self, graph: Graph, node: Node, upstream: Node) -> list[Node | None]:
        """Ask the rule; what differs between examples at an input that does not is added up."""
        slope = graph.leaf(self._node.shape, self._node.dtype, self._node.device)
        values, streams, examples = {**self._values, slope: upstream}, dict(self._streams), self._examples
        with self._run.again(values, streams):
            found = self._rule.pull(graph, self._node, slope)
        parts = [part for part in found if part is not None]
        new = batched(graph, parts, values, examples, streams, self._run.rule_of_all)
        whole = iter(whole_of(graph, parts, new, examples))
        gradients: list[Node | None] = []
        for each, part in zip(self._rule.inputs, found, strict=True):
            of_all = None if part is None else next(whole)
            if of_all is not None and each not in self._values:
                of_all = _added_up(graph, of_all)
            gradients.append(of_all)
        if getattr(self._rule, "is_computed_at_once", False):
            self._run.compute([part for part in gradients if part is not None])
        return gradients


class _Refused:
    """The rule of what hooks watch the gradients of, which they are to be shown for one example."""

    is_computed_at_once = False

    def __init__(self, name: str, value: Node) -> None:
        self._name = name
        self.inputs: tuple[Node, ...] = (value,)

    def pull(self, graph: Graph, node: Node, upstream: Node) -> list[Node | None]:
        """Raise `GradientError`."""
        raise GradientError(
            f"a gradient from outside of vmap comes to a module called in {self._name} that has hooks on its "
            "gradients, which see those of one example: take the gradient inside, vmap(grad(f)), or remove the hooks"
        )


def _added_up(graph: Graph, of_all: Node) -> Node:
    """Return the sum over the examples, which are along the first axis."""
    total = graph.reduce(ReduceOp.SUM, graph.cast(of_all, accumulator(of_all.dtype)), (0,))
    return graph.cast(graph.reshape(total, of_all.shape[1:]), of_all.dtype)
