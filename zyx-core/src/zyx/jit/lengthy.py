"""A trace for many lengths, and its plans for greatest ones, which are run on less.

    a trace of x[n, 3]      a plan for x[32, 3], for n up to 32; one for x[64, 3], when n is more for the first time

How a plan for a greatest length is run on less says `zyx.runtime.bounded`; what its graph is, `zyx.graph.prefix`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from zyx.errors import ZyxError
from zyx.graph import node as n
from zyx.graph.making import computed_leaf
from zyx.graph.prefix import NoPrefixError, longer
from zyx.graph.walk import topological
from zyx.jit.entry import Entry
from zyx.jit.exact_key import float_key
from zyx.jit.sizes import size_of
from zyx.runtime.bounded import Front, host_copies_in
from zyx.runtime.devices import GROUP
from zyx.runtime.lengths import bounds_of
from zyx.shape import VaryingSize
from zyx.shape import size_of as elements_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from zyx.dtype import Scalar
    from zyx.graph.node import Leaf, Node
    from zyx.graph.outline import Length
    from zyx.jit.sizes import Extent
    from zyx.runtime.buffer import Buffer
    from zyx.runtime.handle import Handle
    from zyx.runtime.runtime import Runtime
    from zyx.runtime.tracing import Tracing
    from zyx.shape import Shape

#: Elements of a node at the greatest length, and of what is copied. More than for single tensors, of which there are
#: thousands: to compile what a function computes takes a second, as much as some hundreds of runs over these.
_MOST_POINTS: Final = 1 << 26
_MOST_COPIED: Final = 1 << 20
#: The same where it was declared that lengths vary: who says so wants nothing compiled later, as long as there is room.
_MOST_DECLARED: Final = 1 << 28
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
        leaves: Those of the leaves that are longer there, and are to be copied.
        results: Those of the results, by their buffers.
        nbytes: Of the results that are cut off, by their buffers.
        shapes: Those of what varies.
    """

    numbers: Sequence[Scalar]
    leaves: Sequence[Front]
    results: Sequence[Front]
    nbytes: Sequence[tuple[int, int]]
    shapes: dict[Node, Shape]


class Lengthy(Entry):
    """A trace for many lengths, which has a plan for each of some greatest ones.

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
        self._bounded: dict[tuple[int, ...], Bounded | None] = {}
        try:
            super().__init__(call.function, call.args, call.kwargs, call.tensors, tracing, call.runtime, extent.numbers)
        finally:
            extent.is_traced = False

    def _plan_it(self) -> None:
        """Find out how the sizes of the graph follow the length."""
        self._order = topological(self._computed)
        self._sizes = [length for node in self._order for length in _lengths_of(node)]
        self.extent.numbers.check()
        if not any(length.varies for length in self._sizes):
            raise NoPrefixError("nothing that is computed follows the length")
        self.varying = [
            node
            for node in {*self._given, *self._computed}
            if any(isinstance(size, VaryingSize) for size in node.shape)
        ]
        if any(size == 0 for node in self.varying for size in node.shape if not isinstance(size, VaryingSize)):
            raise NoPrefixError("a value has no elements at any length")

    def has_fixed(self, numbers: Sequence[float]) -> bool:
        """Whether the trace is for these numbers."""
        return all([key_of(numbers[place]) == key for place, key in self.fixed])

    def at(self, lengths: tuple[int, ...], tensors: Sequence[Handle]) -> Bounded | None:
        """Return what runs the trace at some lengths, None if nothing does."""
        pairs = zip(lengths, self.extent.least, strict=True)
        kind = tuple([1 << (max(least, length) - 1).bit_length() for length, least in pairs])
        if kind not in self._bounded:
            self._bounded[kind] = self._made(lengths, tensors)
        return self._bounded[kind]

    def _made(self, lengths: tuple[int, ...], tensors: Sequence[Handle]) -> Bounded | None:
        runtime = self._runtime
        most = self.extent.most
        limits = (_MOST_DECLARED, _MOST_DECLARED) if most else (_MOST_POINTS, _MOST_COPIED)
        bounds = bounds_of(self._sizes, self._computed, self._order, lengths, *limits, most, self.extent.least)
        try:
            if bounds is None:
                raise NoPrefixError("so many elements are better computed alone")
            return Bounded(self, bounds, is_packed=self._is_packed(tensors))
        except (NoPrefixError, ZyxError) as error:
            runtime.trace.unbounded(max(bounds or lengths), error, "trace")
            return None

    def _is_packed(self, tensors: Sequence[Handle]) -> bool:
        """Whether the host does not copy arguments and results."""
        runtime = self._runtime
        names = {node.device for node in self._order}
        if any(GROUP in name for name in names):
            raise NoPrefixError("it may run on several devices")
        devices = [runtime.device(name) for name in names]
        pool = devices[0].memory_pool
        if any(device.memory_pool is not pool for device in devices):
            raise NoPrefixError("it runs on several devices")
        for tensor in tensors:
            self._storage(tensor)
        if host_copies_in(pool, [tensor._node for tensor in tensors]):
            return False
        if not all(device.takes_fronts for device in devices):
            raise NoPrefixError(f"launches on {devices[0].name} take all of an array")
        return True


class Bounded(Entry):
    """A plan of a trace, for lengths up to greatest ones."""

    def __init__(self, trace: Lengthy, bounds: tuple[int, ...], *, is_packed: bool) -> None:
        self.__dict__.update(trace.__dict__)
        self._varying = [(node, _dims_of(node)) for node in trace.varying]
        self._is_packed = is_packed
        made = longer(trace._computed, trace._order, trace._sizes, bounds, is_packed=is_packed)
        leaves = [node for node in trace._order if type(node) is n.Leaf or node.storage is not None]
        new_of = dict(zip(leaves, made.leaves, strict=True)) | dict(zip(trace._computed, made.outputs, strict=True))
        self._lengths = [*made.lengths]
        donations = {
            new_of[node]: new_of[old] for node, old in trace._donations.items() if node in new_of and old in new_of
        }
        given = [*(new_of.get(leaf, leaf) for leaf in self._given), *made.lengths.values()]
        self._make_plan(made.outputs, given, donations)
        self._constants_given = self._numbers
        self._single = self._plain = None
        self._pool = self._runtime.device(self._computed[0].device).memory_pool
        # Of results in one buffer, which have the same elements in the same order, one is enough.
        self._leaves, self._results = (
            [
                (number, node, new_of[node].shape, node.dtype.itemsize)
                for number, node in {number: node for node, number in places.items()}.items()
                if node in trace.varying and node in new_of
            ]
            for places in (self._given, self._number)
        )
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
        return super().run(tensors, outside, numbers)

    def _queue(self, buffers: list[Buffer | Scalar]) -> None:
        memory, now = self._runtime.memory, self._now
        assert now is not None
        for front in now.leaves:
            buffers[front.place] = front.spread(buffers[front.place], memory)  # type: ignore[arg-type]  # no number
        super()._queue(buffers)
        for front in now.results:
            buffers[front.place] = front.gathered(buffers[front.place], memory)  # type: ignore[arg-type]
        for number, nbytes in now.nbytes:
            buffers[number].nbytes = nbytes  # type: ignore[union-attr]

    def _leaf_of(self, node: Node, storage: object) -> Leaf:
        assert self._now is not None
        leaf = computed_leaf(node, storage)
        leaf.shape = self._now.shapes.get(node, leaf.shape)
        return leaf

    def _value(self, node: Node, new: dict[Node, Leaf], given: Sequence[Buffer | Scalar]) -> Node:
        if node not in new and node not in self._given and 0 in node.shape:
            shape = _at(_dims_of(node), self._at_lengths)
            return self._runtime.graph.const(0, node.dtype, node.device, shape)
        return super()._value(node, new, given)

    def _at(self, lengths: tuple[int, ...]) -> _AtLength:
        """Return how the plan is run at some lengths."""
        shapes = {node: _at(dims, lengths) for node, dims in self._varying}
        numbers: list[Scalar] = [size.at(*lengths) for size in self._lengths]
        numbers += self._constants_given
        if self._is_packed:
            nbytes = [(number, elements_of(shapes[node]) * itemsize) for number, node, _, itemsize in self._results]
            return _AtLength(numbers, (), (), nbytes, shapes)
        leaves, results = [
            [
                Front(number, self._pool, shapes[node], longer_shape, itemsize)
                for number, node, longer_shape, itemsize in places
                if longer_shape != shapes[node]
            ]
            for places in (self._leaves, self._results)
        ]
        return _AtLength(numbers, leaves, results, (), shapes)


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
    """Return the sizes of a node, as `zyx.graph.outline` has them.

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
