"""Bucketing: one trace for many lengths, with a plan for each greatest one (a bucket), which is run on less.

    a trace of x[n, 3]      a plan for x[128, 3], for n up to 128; one for x[512, 3], when n is more for the first time

How a plan for a greatest length is run on less says `zyx.runtime.bounded`; what its graph is, `zyx.specialise.longer`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from zyx.graph import node as n
from zyx.graph.making import computed_leaf
from zyx.graph.walk import topological
from zyx.jit.entry import Entry, storage_of
from zyx.jit.exact_key import float_key
from zyx.jit.sizes import size_of
from zyx.jit.traced import Traced
from zyx.runtime.devices import GROUP
from zyx.shape import VaryingSize
from zyx.shape import size_of as elements_of
from zyx.specialise.lengths import bound_of, bounds_of, points_of
from zyx.specialise.longer import NoPrefixError, longer

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from zyx.dtype import Scalar
    from zyx.graph.node import Leaf, Node
    from zyx.jit.sizes import Extent
    from zyx.runtime.buffer import Buffer
    from zyx.runtime.handle import Handle
    from zyx.runtime.ownership import CopyOnWrite
    from zyx.runtime.plan import Slice
    from zyx.runtime.runtime import Runtime
    from zyx.runtime.tracing import Tracing
    from zyx.shape import Shape
    from zyx.specialise.length import Length

#: Lengths of which is remembered how a plan is run on them.
_MOST_LENGTHS: Final = 1024


class Call(NamedTuple):
    """A call, and what it is a call of.

    Attributes:
        runtime: Where it is run.
        name: Of the function, for people.
        function: The function.
        args: Arguments by position.
        kwargs: Arguments by name.
        tensors: The tensors among them.
        numbers: The floats and ints.
        static: The places of those numbers that each have a trace of their own.
    """

    runtime: Runtime
    name: str
    function: Callable[..., Any]
    args: tuple[object, ...]
    kwargs: Mapping[str, object]
    tensors: Sequence[Handle]
    numbers: Sequence[float]
    static: frozenset[int]


class _AtLength(NamedTuple):
    """How a plan for a greatest length is run at one.

    Attributes:
        numbers: What it is given: sizes, and constants.
        outputs: Those of the plan, as long as the results are.
        shapes: Those of what varies.
    """

    numbers: Sequence[Scalar]
    outputs: Sequence[Slice]
    shapes: dict[Node, Shape]


class BucketedTrace(Traced):
    """What a function did for many lengths, which has a plan for each of some greatest ones.

    Attributes:
        extent: The lengths.
        varying: What is given, passed on or computed in shapes that vary.
        fixed: The places and keys of the numbers that it is for.

    Raises:
        LookedAt: It depends on the length, or on other numbers that it was not to depend on.
        NoPrefixError: There is no plan for a greatest length.
    """

    def __init__(self, call: Call, extent: Extent, tracing: Tracing) -> None:
        self.extent = extent
        self.varying: list[Node] = []
        self.fixed = _fixed(call.numbers, extent.numbers.looked_at)
        self._bounded: dict[tuple[int, ...], BoundedEntry | None] = {}
        try:
            super().__init__(call.function, call.args, call.kwargs, call.tensors, tracing, call.runtime, extent.numbers)
        finally:
            extent.is_traced = False
        #: How the sizes of the graph follow the length.
        self.order = topological(self.computed)
        self.sizes = [length for node in self.order for length in _lengths_of(node)]
        extent.numbers.check()
        if not any(length.varies for length in self.sizes):
            raise NoPrefixError("nothing that is computed follows the length")
        self.varying = [
            node for node in {*self.given, *self.computed} if any(isinstance(size, VaryingSize) for size in node.shape)
        ]
        if any(size == 0 for node in self.varying for size in node.shape if not isinstance(size, VaryingSize)):
            raise NoPrefixError("a value has no elements at any length")

    def has_fixed(self, numbers: Sequence[float]) -> bool:
        """Whether the trace is for these numbers."""
        return all([key_of(numbers[place]) == key for place, key in self.fixed])

    def at(self, lengths: tuple[int, ...], tensors: Sequence[Handle]) -> BoundedEntry | None:
        """Return what runs the trace at some lengths, None if nothing does."""
        kind = tuple(map(bound_of, lengths, self.extent.least))
        if kind not in self._bounded:
            self._bounded[kind] = self._made(lengths, tensors)
        return self._bounded[kind]

    def _made(self, lengths: tuple[int, ...], tensors: Sequence[Handle]) -> BoundedEntry | None:
        runtime = self.runtime
        most = self.extent.most
        bounds = bounds_of(self.sizes, self.computed, self.order, lengths, most, self.extent.least)
        try:
            if bounds is None:
                raise NoPrefixError("so many elements are better computed alone")
            self._check_devices(tensors)
            return BoundedEntry(self, bounds)
        except Exception as error:  # noqa: BLE001  # it is there for speed only, and there is another trace
            runtime.trace.unbounded(max(bounds or lengths), error, "trace")
            return None

    def _check_devices(self, tensors: Sequence[Handle]) -> None:
        """Raise if what it runs on takes no arrays of other lengths."""
        runtime = self.runtime
        names = {node.device for node in self.order}
        if any(GROUP in name for name in names):
            raise NoPrefixError("it may run on several devices")
        devices = [runtime.device(name) for name in names]
        if any(device.memory_pool is not devices[0].memory_pool for device in devices):
            raise NoPrefixError("it runs on several devices")
        for tensor in tensors:
            storage_of(runtime, tensor)
        if not all(device.takes_fronts for device in devices):
            raise NoPrefixError(f"launches on {devices[0].name} take all of an array")


class BoundedEntry(Entry):
    """A plan of a trace, for lengths up to greatest ones.

    Attributes:
        points: How many points a run goes over.
    """

    def __init__(self, trace: BucketedTrace, bounds: tuple[int, ...]) -> None:
        self._about(trace)
        self._varying = [(node, _dims_of(node)) for node in trace.varying]
        made = longer(trace.computed, trace.order, trace.sizes, bounds)
        new_of = made.leaves | dict(zip(trace.computed, made.outputs, strict=True))
        self._lengths = [*made.lengths]
        self.points = points_of(trace.sizes, trace.order, bounds)
        donations = {
            new_of[node]: new_of[old] for node, old in trace.donations.items() if node in new_of and old in new_of
        }
        given = [*(new_of.get(leaf, leaf) for leaf in trace.given), *made.lengths.values()]
        self._make_plan(made.outputs, given, donations)
        self._constants_given = self._numbers
        self._single = self._plain = None
        # Of results in one buffer, which have the same elements in the same order, one is enough.
        results = {number: node for node, number in self._number.items()}
        self._results = [
            (number, node, node.dtype.itemsize)
            for number, node in results.items()
            if node in trace.varying and node in new_of
        ]
        self._known: dict[tuple[int, ...], _AtLength] = {}
        self._now: _AtLength | None = None
        self._at_lengths: tuple[int, ...] = ()

    def run(self, tensors: Sequence[Handle], outside: Sequence[Handle], numbers: Sequence[float] = ()) -> Any:  # noqa: ANN401
        """Run the trace as others are run; in place of the last of `numbers` are the lengths."""
        lengths: tuple[int, ...] = numbers[-1]  # type: ignore[assignment]
        now = self._known.get(lengths)
        if now is None:
            if len(self._known) >= _MOST_LENGTHS:
                self._known.clear()
            now = self._known[lengths] = self._at(lengths)
        self._now = now
        self._at_lengths = lengths
        self._numbers = now.numbers
        self._outputs = now.outputs
        return super().run(tensors, outside, numbers)

    def _queue(self, buffers: list[Buffer | Scalar], kept: CopyOnWrite | None) -> None:
        now, lengths = self._now, self._at_lengths
        super()._queue(buffers, kept)
        self._now, self._at_lengths = now, lengths  # another thread may have run it at others, where this one waited

    def _leaf_of(self, node: Node, storage: object) -> Leaf:
        assert self._now is not None
        leaf = computed_leaf(node, storage)
        leaf.shape = self._now.shapes.get(node, leaf.shape)
        return leaf

    def _value(self, node: Node, new: dict[Node, Leaf], given: Sequence[Buffer | Scalar]) -> Node:
        if node not in new and node not in self.traced.given and 0 in node.shape:
            shape = _at(_dims_of(node), self._at_lengths)
            return self._runtime.graph.const(0, node.dtype, node.device, shape)
        return super()._value(node, new, given)

    def _at(self, lengths: tuple[int, ...]) -> _AtLength:
        """Return how the plan is run at some lengths."""
        shapes: dict[Node, Shape] = {}
        for node, dims in self._varying:
            shapes[node] = _at(dims, lengths)
        numbers: list[Scalar] = [size.at(*lengths) for size in self._lengths]
        numbers += self._constants_given
        nbytes: list[tuple[int, int]] = []
        for number, node, itemsize in self._results:
            nbytes.append((number, elements_of(shapes[node]) * itemsize))  # a call for each length less
        return _AtLength(numbers, self._plan.sized(nbytes) if nbytes else self._plan.outputs, shapes)


def key_of(number: float) -> Hashable:
    """Return what is equal for numbers that cannot be told apart."""
    return float_key(number) if type(number) is float else (int, number)


def _fixed(numbers: Sequence[float], places: Iterable[int]) -> list[tuple[int, Hashable]]:
    return [(place, key_of(numbers[place])) for place in sorted(places)]


def _dims_of(node: Node) -> list[int | Length]:
    """Return the sizes of a node, those that vary as lengths."""
    return [size_of(size) or 0 if isinstance(size, VaryingSize) else size for size in node.shape]


def _at(dims: Iterable[int | Length], lengths: tuple[int, ...]) -> Shape:
    return tuple([size if isinstance(size, int) else size.at(*lengths) for size in dims])


def _lengths_of(node: Node) -> list[Length]:
    """Return the sizes of a node, as `zyx.specialise.outline` has them.

    Raises:
        NoPrefixError: One is where nothing may vary.
    """
    sizes: list[int] = [*node.shape]
    if node.storage is None:
        match node:
            case n.Shrink(bounds=bounds):
                sizes += [end for pair in bounds for end in pair]
            case n.Pad(widths=widths):
                sizes += [width for pair in widths for width in pair]
            case _:
                if any(isinstance(attribute, VaryingSize) for attribute in node.attributes):
                    raise NoPrefixError(f"{type(node).__name__} has an attribute that varies")
    return [length for size in sizes if (length := size_of(size)) is not None]
