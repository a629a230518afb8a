"""Sizes that change from call to call: from the third one on, one trace for all of them.

    @zyx.jit
    def normalized(x): return x - x.mean(0)

    normalized(x) of x[20, 3], of x[31, 3]      a trace each
    normalized(x) of x[25, 3]                   a trace for x[n, 3], and a plan for x[32, 3], given n = 25
    normalized(x) of x[27, 3]                   the same plan, given 27
    normalized(x) of x[50, 3]                   the same trace, and a plan for x[64, 3]

All sizes that vary have to follow one length. What a trace for many lengths is made with, and how it is known which
those are, says `zyx.jit.sizes`; how a plan for a greatest length is run on less, `zyx.runtime.bounded`.

Where there is no such trace or plan, a length has a trace of its own, as has one that is run many times in succession,
or very often. ``ZYX_DEBUG=plan`` says why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from zyx.errors import ZyxError
from zyx.graph import node as n
from zyx.graph.graph import computed_leaf
from zyx.graph.outline import Length, length_of, lengths_between
from zyx.graph.prefix import NoPrefixError, longer
from zyx.graph.walk import topological
from zyx.jit.entry import Entry
from zyx.jit.exact_key import float_key
from zyx.jit.numbers import LookedAt, Numbers
from zyx.jit.sizes import Extent, size_at, terms_of
from zyx.runtime.bounded import Front, host_copies_in
from zyx.runtime.devices import GROUP
from zyx.runtime.lengths import LEAST_BOUND, Way, bound_of
from zyx.runtime.tracing import Tracing
from zyx.shape import VaryingSize, size_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from zyx.dtype import Scalar
    from zyx.graph.node import Leaf, Node
    from zyx.runtime.buffer import Buffer
    from zyx.runtime.handle import Handle
    from zyx.runtime.runtime import Runtime
    from zyx.shape import Shape

#: Sets of sizes that nothing is known to follow, of calls that are alike otherwise, and ways of following.
_MOST_ALONE: Final = 4
_MOST_WAYS: Final = 4
#: Traces of one way, for different numbers that are looked at, states of objects, and ranges of lengths.
_MOST_TRACES: Final = 4
#: Traces that are made of one way until it has served often: each call could need another one.
_MOST_MADE: Final = 8
_SERVED_FOR_ONE: Final = 32
#: Elements of a node at the greatest length, and of what is copied. More than for single tensors, of which there are
#: thousands: to compile what a function computes takes a second, as much as some hundreds of runs over these.
_MOST_POINTS: Final = 1 << 26
_MOST_COPIED: Final = 1 << 20
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
        numbers: What it is given: what follows from the length, and constants.
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

    def __init__(self, call: Call, shapes: Sequence[Shape], extent: Extent, tracing: Tracing) -> None:
        self.extent = extent
        self.varying: list[Node] = []
        self.fixed = _fixed(call.numbers, extent.numbers.looked_at)
        self._bounded: dict[int, Bounded | None] = {}
        try:
            super().__init__(call.function, call.args, call.kwargs, call.tensors, tracing, call.runtime, extent.numbers)
        finally:
            extent.is_traced = False

    def _plan_it(self) -> None:
        """Find out how the sizes of the graph follow the length."""
        self._order = topological(self._computed)
        self._sizes = [length for node in self._order for length in _lengths_of(node)]
        self.extent.numbers.check()
        if not any(length.factor for length in self._sizes):
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
        return all([_key(numbers[place]) == key for place, key in self.fixed])

    def at(self, length: int, tensors: Sequence[Handle]) -> Bounded | None:
        """Return what runs the trace at a length, None if nothing does."""
        bound = max(LEAST_BOUND, 1 << (length - 1).bit_length())
        if bound not in self._bounded:
            self._bounded[bound] = self._made(length, tensors)
        return self._bounded[bound]

    def _made(self, length: int, tensors: Sequence[Handle]) -> Bounded | None:
        runtime = self._runtime
        bound = bound_of(self._sizes, self._computed, self._order, length, _MOST_POINTS, _MOST_COPIED)
        try:
            if bound is None:
                raise NoPrefixError("so many elements are better computed alone")
            return Bounded(self, bound, is_packed=self._is_packed(tensors))
        except (NoPrefixError, ZyxError) as error:
            runtime.trace.unbounded(bound or length, error)
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
    """A plan of a trace, for lengths up to a greatest one."""

    def __init__(self, trace: Lengthy, bound: int, *, is_packed: bool) -> None:
        self.__dict__.update(trace.__dict__)
        self._varying = [(node, _lengths_of(node)[: len(node.shape)]) for node in trace.varying]
        self._bound = bound
        self._is_packed = is_packed
        made = longer(trace._computed, trace._order, trace._sizes, bound, is_packed=is_packed)
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
        self._known: dict[int, _AtLength] = {}
        self._now: _AtLength | None = None
        self._length = 0

    def run(self, tensors: Sequence[Handle], outside: Sequence[Handle], numbers: Sequence[float] = ()) -> Any:  # noqa: ANN401
        """Run the trace as others are run; the last of `numbers` is the length."""
        length: int = numbers[-1]  # type: ignore[assignment]  # it is one
        now = self._known.get(length)
        if now is None:
            if len(self._known) >= _MOST_LENGTHS:
                self._known.clear()
            now = self._known[length] = self._at(length)
        self._now = now
        self._length = length
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
            shape = _shape_at(node, self._length)
            return self._runtime.graph.const(0, node.dtype, node.device, shape)
        return super()._value(node, new, given)

    def _at(self, length: int) -> _AtLength:
        """Return how the plan is run at a length."""
        shapes = {node: tuple([factor * length + offset for factor, offset in dims]) for node, dims in self._varying}
        numbers: list[Scalar] = [factor * length + offset for factor, offset in self._lengths]
        numbers += self._constants_given
        if self._is_packed:
            nbytes = [(number, size_of(shapes[node]) * itemsize) for number, node, _, itemsize in self._results]
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


class Lengths:
    """Calls of a function that are alike but for sizes of tensors, and for numbers.

    Args:
        numbers: Those of one of them.
        shapes: Of the tensors of another one.

    Attributes:
        looked_at: The places of numbers that the function looks at.
        made: How many traces were made.
    """

    def __init__(self, numbers: Sequence[float], shapes: Sequence[Shape]) -> None:
        self.looked_at: frozenset[int] = frozenset()
        self.made = 0
        self._first = [*map(_key, numbers)]
        self._changed: set[int] = set()
        self._alone = [tuple([size for shape in shapes for size in shape])]
        self._ways: list[_Way] = []

    @property
    def traces(self) -> Sequence[Lengthy]:
        """The traces for many lengths."""
        return [trace for way in self._ways for trace in way.traces]

    def run(self, call: Call, sizes: tuple[int, ...]) -> tuple[Any, Served] | None:
        """Return what a call gives by a trace for many lengths, and what gives it again.

        None if it is to have a trace of its own. `sizes` are those of all its tensors.
        """
        with call.runtime.lock:
            if call.numbers:
                self._changed.update([i for i, number in enumerate(call.numbers) if _key(number) != self._first[i]])
            way, length = self._way(sizes)
            if way is None or not way.serves(length):
                return None
            found = way.trace_for(call, length)
            if found is not None:
                return way.run(*found, call, length)
            if not way.may_trace():
                return None
        trace, tracing = self._trace(call, way, length)  # the second keeps what was found until the first run
        if trace is None:
            return None
        self.made += 1
        with call.runtime.lock:
            way.traces = [*way.traces, trace][-_MOST_TRACES:]
            outside = trace.found(call.tensors)
            done = None if outside is None else way.run(trace, outside, call, length)
            del tracing
            trace.settle()
        return done

    def _way(self, sizes: tuple[int, ...]) -> tuple[_Way | None, int]:
        """Return how sizes follow a length, found out from those of other calls, and the length."""
        for way in self._ways:
            length = length_of(way.way.sizes, sizes)
            if length is not None:
                return way, length
        for other in self._alone:
            lengths = lengths_between(other, sizes)
            if lengths is not None and len(self._ways) < _MOST_WAYS:
                first = length_of(lengths, other)
                assert first is not None
                self._ways.append(_Way(Way(lengths, ()), first))
                return self._way(sizes)
        if len(self._alone) < _MOST_ALONE and sizes not in self._alone:
            self._alone.append(sizes)
        return None, 0

    def _trace(self, call: Call, way: _Way, length: int) -> tuple[Lengthy | None, Tracing | None]:
        """Trace the function for many lengths."""
        for _ in range(2):
            way.made += 1
            fixed = frozenset(range(len(call.numbers))) - self._changed | self.looked_at | call.static
            numbers = Numbers(fixed)
            extent = Extent(length, numbers)
            remaining = iter(way.way.sizes)
            shapes = [tuple([extent.size(*next(remaining)) for _ in tensor._node.shape]) for tensor in call.tensors]
            tracing = Tracing(call.runtime, shapes)
            if call.runtime.trace.plans:
                call.runtime.trace.traced(call.name, f"sizes of its arguments change; for lengths such as {length}")
            error: Exception
            try:
                return Lengthy(call, shapes, extent, tracing), tracing
            except LookedAt:
                if numbers.looked_at == fixed or -1 in numbers.looked_at:
                    way.pinned += 1
                    error = LookedAt(f"{extent.place or 'the runtime'} looks at the number of elements itself")
                else:
                    self.looked_at |= numbers.looked_at
                    continue
            except Exception as raised:  # noqa: BLE001  # it takes no stand-ins; or it fails anyway, with those of its own
                way.pinned = _MOST_TRACES
                error = raised
            call.runtime.trace.unbounded(length, error)
            break
        return None, None


class _Way:
    """How sizes follow a length, and the traces for that.

    Attributes:
        way: The sizes, and which lengths are run how often.
        traces: The traces.
        made: How many were made.
        pinned: How many turned out to be for one length.
    """

    def __init__(self, way: Way, first: int) -> None:
        self.way = way
        self.traces: list[Lengthy] = []
        self.made = 0
        self.pinned = 0
        self._seen: set[int] | None = {first}
        self._served = 0

    def serves(self, length: int) -> bool:
        """Whether a length is to share a trace: from the third one on, unless it has settled.

        Those of 0 and 1 are apart: there may be nothing, and what has one element is repeated beside others.
        """
        if length < 2 or length in self.way.settled:
            return False
        if self._seen is not None:
            self._seen.add(length)
            if len(self._seen) < 3:
                return False
            self._seen = None
        return True

    def may_trace(self) -> bool:
        """Whether one more trace is to be made."""
        return self.pinned < 2 and self.made < _MOST_MADE + self._served // _SERVED_FOR_ONE

    def trace_for(self, call: Call, length: int) -> tuple[Lengthy, Sequence[Handle]] | None:
        """Return the trace for a call, if there is one, and what it finds outside."""
        for trace in self.traces:
            if length in trace.extent and (not trace.fixed or trace.has_fixed(call.numbers)):
                outside = trace.found(call.tensors)
                if outside is not None:
                    return trace, outside
        return None

    def run(self, trace: Lengthy, outside: Sequence[Handle], call: Call, length: int) -> tuple[Any, Served] | None:
        """Return what a trace gives for a call, and what gives it again; None if there is no plan for that."""
        bounded = trace.at(length, call.tensors)
        if bounded is None:
            return None
        self._served += 1
        self.way.ran(length)
        numbers = [*call.numbers, length]
        return bounded.run(call.tensors, outside, numbers), Served(bounded, numbers, self.way)


class Served(NamedTuple):
    """A call that was served at a length, to be served again.

    Attributes:
        bounded: What runs it.
        numbers: Those of the call, and the length.
        way: What notes how often it is run.
    """

    bounded: Bounded
    numbers: Sequence[float]
    way: Way

    def run(self, tensors: Sequence[Handle]) -> tuple[Any] | None:
        """Return what the same call gives with other values, None if that is not known any more."""
        if self.numbers[-1] in self.way.settled:
            return None
        outside = self.bounded.found(tensors)
        if outside is None:
            return None
        self.way.ran(self.numbers[-1])  # type: ignore[arg-type]  # the length
        return (self.bounded.run(tensors, outside, self.numbers),)


def _key(number: float) -> Hashable:
    return float_key(number) if type(number) is float else (int, number)


def _fixed(numbers: Sequence[float], places: Iterable[int]) -> list[tuple[int, Hashable]]:
    return [(place, _key(numbers[place])) for place in sorted(places)]


def _shape_at(node: Node, length: int) -> Shape:
    return tuple([size_at(size, length) for size in node.shape])


def _lengths_of(node: Node) -> list[Length]:
    """Return the sizes of a node, as `zyx.graph.outline` has them.

    Raises:
        NoPrefixError: One follows the length in another way, or is where nothing may vary.
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
    found: list[Length] = []
    for size in sizes:
        terms = terms_of(size) or ()
        if len(terms) not in (1, 2):
            raise NoPrefixError(f"{type(node).__name__} has a size that is no multiple of the length")
        found.append(Length(terms[1] if len(terms) == 2 else 0, terms[0]))
    return found
