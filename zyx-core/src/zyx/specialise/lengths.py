"""Lengths that change from run to run: from the second one on, a plan for a greatest length serves all up to it.

    sum(x) of x[20]         a plan of its own
    sum(x) of x[31]         the same structure with another length: a plan for x[128], given 31
    sum(x) of x[25]         the same plan, given 25
    sum(x) of x[133]        a plan for x[256], given 133

The longer graph is that of `zyx.specialise.longer`. What has no such graph has plans of its own, as has what has been
run at one length several times in succession, that of a program whose length has settled, or so often, or over so many
points, that compiling one takes no longer than that did.

Which lengths get plans of their own is decided here alone: see `Lengths.bounded`.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from zyx.graph import node as n
from zyx.graph.signature import Key
from zyx.specialise.longer import longer
from zyx.specialise.outline import by_node, length_of, lengths_between, outline

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from zyx.dtype import Scalar
    from zyx.graph.node import Node
    from zyx.specialise.length import Length
    from zyx.specialise.longer import Longer
    from zyx.specialise.outline import Dims

#: Structures that are remembered; of each, sets of sizes that nothing is known to follow, and ways of following: those
#: of the same operations on rows of several widths, say. What was met last is remembered.
_MOST: Final = 512
_MOST_ALONE: Final = 4
_MOST_WAYS: Final = 16
#: Graphs of more nodes take too long to look through.
_MOST_NODES: Final = 2048
#: The smallest greatest length; the others are its doubles. Lengths up to 4,096 take six plans, and loops end at the
#: length wherever it is.
LEAST_BOUND: Final = 128
#: Elements at the greatest length of what is stored: between kernels there is room for all of them. 32 bits count them.
_MOST_POINTS: Final = 1 << 28
#: The kinds of nodes that are stored; others are computed where they are needed, or are no larger.
_STORED: Final = (n.Leaf, n.Reduce, n.Scan, n.Sort, n.Gather, n.Scatter, n.Contiguous, n.Custom)
#: Lengths of which the points are counted at a time.
_MOST_COUNTED: Final = 4096
#: Runs at one length in succession, after which it gets a plan of its own.
_SETTLED: Final = 8
#: Points that all runs at one length go over, after which it gets one, too: a core takes as long for them as for
#: compiling it, a few tenths of a second.
_WORTH: Final = 1 << 28


@dataclass(frozen=True, slots=True)
class Served:
    """What has to be known of a longer graph to run its plan.

    Attributes:
        lengths: Those that it is given; behind them come the constants that have changed.
    """

    lengths: tuple[Length, ...]


@dataclass(slots=True, eq=False)
class Way:
    """How the sizes of a structure follow one length.

    Attributes:
        sizes: They.
        constants: The constants that the graph was first met with.
        changed: The places of those that were others since.
        refused: The greatest lengths for which there is no plan.
        settled: The lengths that have plans of their own.
        served: What the graphs are that there are plans for, by greatest length and the places that have changed.
        latest: The length that was run last.
        in_succession: How often it was.
        settles: Whether lengths get plans of their own when they are run often.
        points: How many points the runs at each length went over that has no plan of its own.
    """

    sizes: tuple[Length, ...]
    constants: tuple[Hashable, ...]
    changed: frozenset[int] = frozenset()
    refused: set[int] = field(default_factory=set)
    settled: set[int | tuple[int, ...]] = field(default_factory=set)
    served: dict[tuple[int, frozenset[int]], Served] = field(default_factory=dict)
    latest: int | tuple[int, ...] = 0
    in_succession: int = 0
    settles: bool = True
    points: dict[int | tuple[int, ...], int] = field(default_factory=dict)

    def ran(self, length: int | tuple[int, ...], points: int) -> bool:
        """Note a run over so many points; return whether the length has settled."""
        if not self.settles:
            return False
        self.in_succession = self.in_succession + 1 if length == self.latest else 1
        self.latest = length
        points += self.points.get(length, 0)
        if self.in_succession < _SETTLED and points < _WORTH:
            if len(self.points) >= _MOST_COUNTED:
                self.points.clear()
            self.points[length] = points
            return False
        self.points.pop(length, None)
        self.settled.add(length)
        return True


@dataclass(slots=True)
class _Structure:
    """What is known of one.

    Attributes:
        alone: Sizes that it was met with, and the constants there.
        ways: How they follow a length.
    """

    alone: list[tuple[tuple[int, ...], tuple[Hashable, ...]]] = field(default_factory=list)
    ways: list[Way] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Bounded:
    """The longer graph in place of another.

    Attributes:
        key: Of its plan, for all lengths up to the greatest.
        way: How sizes follow the length.
        length: The length.
        bound: The greatest.
        nodes: All nodes of the shorter graph.
        points: How many points a run goes over, at the greatest length.
    """

    key: Key
    way: Way
    length: int
    bound: int
    nodes: Sequence[Node]
    points: int

    @property
    def served(self) -> Served | None:
        """What was made of it before, if it was."""
        return self.way.served.get((self.bound, self.way.changed))

    def make(self, outputs: Sequence[Node]) -> tuple[Longer, Served]:
        """Return the longer graph of `outputs`. Raises as `zyx.specialise.longer.longer` does."""
        made = longer(outputs, self.nodes, self.way.sizes, self.bound, self._varying())
        served = self.way.served[self.bound, self.way.changed] = Served(tuple(made.lengths))
        return made, served

    def values(self, served: Served) -> list[Scalar]:
        """Return what the longer graph is given."""
        return [size.at(self.length) for size in served.lengths] + [node.value for node in self._varying()]

    def _varying(self) -> list[n.Const]:
        return [node for place, node in enumerate(_constants_of(self.nodes)) if place in self.way.changed]


class Lengths:
    """The structures that were met, and how their sizes follow lengths."""

    def __init__(self) -> None:
        self._structures: OrderedDict[Hashable, _Structure] = OrderedDict()

    def bounded(self, outputs: Sequence[Node], order: Sequence[Node]) -> Bounded | None:
        """Return the longer graph to compute `outputs` by, or None if they are to have a plan of their own.

        That is so for the first length of a structure; where no single length makes all sizes what they are; for what
        takes longer to run than to compile; for what was refused; and for lengths that have settled.
        """
        found = outline(outputs, order) if len(order) <= _MOST_NODES else None
        if found is None:
            return None
        kind, sizes = found
        structure = self._structures.get(kind)
        if structure is None:
            structure = self._structures[kind] = _Structure()
            if len(self._structures) > _MOST:
                self._structures.popitem(last=False)
        else:
            self._structures.move_to_end(kind)
        constants = tuple(node.attributes for node in _constants_of(order))
        way = _way_of(structure, sizes, constants, order)
        if way is None:
            return None
        length = length_of(way.sizes, sizes)
        assert length is not None
        bounds = bounds_of(way.sizes, outputs, order, (length,))
        if bounds is None or bounds[0] in way.refused or length in way.settled:
            return None
        (bound,) = bounds
        points = points_of(way.sizes, order, bounds)
        if points >= _WORTH:
            return None
        now = {place for place, (a, b) in enumerate(zip(way.constants, constants, strict=True)) if a != b}
        way.changed |= now
        fixed = tuple(value for place, value in enumerate(constants) if place not in way.changed)
        return Bounded(Key((kind, way.sizes, bound, way.changed), fixed), way, length, bound, order, points)


def _way_of(
    structure: _Structure, sizes: tuple[int, ...], constants: tuple[Hashable, ...], order: Sequence[Node]
) -> Way | None:
    """Return how sizes follow a length, which is found out from others of the structure."""
    for way in structure.ways:
        if length_of(way.sizes, sizes) is not None:
            structure.ways.remove(way)
            structure.ways.append(way)
            return way
    for other, its_constants in structure.alone:
        lengths = lengths_between(other, sizes)
        if lengths is not None and _has_shapes(lengths, order):
            structure.ways = [*structure.ways, Way(lengths, its_constants)][-_MOST_WAYS:]
            return structure.ways[-1]
    if all(sizes != other for other, _ in structure.alone):
        structure.alone = [*structure.alone, (sizes, constants)][-_MOST_ALONE:]
    return None


def _has_shapes(sizes: Sequence[Length], order: Sequence[Node]) -> bool:
    """Whether shapes are among what varies: starts of slices alone are numbers (`zyx.specialise.varying`)."""
    return any(size.varies for _, dims, _ in by_node(sizes, order) for size in dims)


def bounds_of(
    sizes: Sequence[Length],
    outputs: Sequence[Node],
    order: Sequence[Node],
    lengths: Sequence[int],
    greatest: Sequence[int | None] = (),
    smallest: Sequence[int] = (LEAST_BOUND,),
) -> tuple[int, ...] | None:
    """Return the greatest lengths to plan for: the next powers of two, or as far as what is cut out goes.

    `greatest` are the greatest lengths that there are, as far as they are known; `smallest` the least to plan for.
    None if what is stored has more than `_MOST_POINTS` elements at that.
    """
    bounds = [1 << (max(least, length) - 1).bit_length() for length, least in zip(lengths, smallest, strict=True)]
    for number, known in enumerate(greatest):
        bounds[number] = bounds[number] if known is None else min(bounds[number], known)
    dims_of: dict[Node, Dims] = {}
    for node, dims, pairs in by_node(sizes, order):
        dims_of[node] = dims
        if isinstance(node, n.Shrink) and pairs:
            for (_, stop), size in zip(pairs, dims_of[node.sources[0]], strict=True):
                if stop.varies and not size.varies:
                    (product, factor), *others = [(product, term) for product, term in stop.terms.items() if product]
                    if others or len(product) > 1 or factor < 0:
                        continue  # what is longer than this has no graph
                    (number,) = product
                    most = (size.terms.get((), 0) - stop.terms.get((), 0)) // factor
                    bounds[number] = min(bounds[number], most)
    stored = [node for node in order if node.storage is not None or isinstance(node, _STORED)]
    points = (math.prod(size.at(*bounds) for size in dims_of[node]) for node in (*outputs, *stored))
    return tuple(bounds) if max(points) <= _MOST_POINTS else None


def points_of(sizes: Sequence[Length], order: Sequence[Node], lengths: Sequence[int]) -> int:
    """Return the most elements that a node has at some lengths, about as many as are gone over."""
    return max(math.prod(size.at(*lengths) for size in dims) for _, dims, _ in by_node(sizes, order))


def _constants_of(order: Sequence[Node]) -> list[n.Const]:
    return [node for node in order if isinstance(node, n.Const) and node.storage is None]
