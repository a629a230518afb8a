"""Lengths that change from run to run: from the second one on, a plan for a greatest length serves all up to it.

    sum(x) of x[20]         a plan of its own
    sum(x) of x[31]         the same structure with another length: a plan for x[128], given 31
    sum(x) of x[25]         the same plan, given 25
    sum(x) of x[133]        a plan for x[512], given 133

The longer graph is that of `zyx.specialise.longer`. What has no such graph has plans of its own, as have lengths that
have settled (`zyx.specialise.table`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zyx.graph import node as n
from zyx.graph.signature import Key
from zyx.specialise.longer import longer
from zyx.specialise.outline import by_node, outline
from zyx.specialise.table import WORTH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.dtype import Scalar
    from zyx.graph.node import Node
    from zyx.specialise.length import Length
    from zyx.specialise.longer import Longer
    from zyx.specialise.outline import Dims
    from zyx.specialise.table import SymbolicSizes, Table

#: Graphs of more nodes take too long to look through.
_MOST_NODES: Final = 2048
#: The smallest greatest length, and how many times the next one is as much. Lengths up to 4,096 take four plans, of as
#: many kernels each as the program has; loops end at the length wherever it is.
LEAST_BOUND: Final = 128
_GROWTH: Final = 4
#: Elements at the greatest length of what is stored: between kernels there is room for all of them. 32 bits count them.
_MOST_POINTS: Final = 1 << 28
#: The kinds of nodes that are stored; others are computed where they are needed, or are no larger.
_STORED: Final = (n.Leaf, n.Reduce, n.Scan, n.Sort, n.Gather, n.Scatter, n.Contiguous, n.Custom)


@dataclass(frozen=True, slots=True)
class Bounded:
    """The longer graph in place of another.

    Attributes:
        key: Of its plan, for all lengths up to the greatest.
        symbolic: How sizes follow the length.
        lengths: The length.
        bounds: The greatest.
        changed: The places of the constants that it is given.
        nodes: All nodes of the shorter graph.
        points: How many points a run goes over, at the greatest length.
    """

    key: Key
    symbolic: SymbolicSizes
    lengths: tuple[int, ...]
    bounds: tuple[int, ...]
    changed: tuple[int, ...]
    nodes: Sequence[Node]
    points: int

    @property
    def is_made(self) -> bool:
        """Whether it was made before."""
        return (self.bounds, self.changed) in self.symbolic.made

    def make(self, outputs: Sequence[Node]) -> Longer:
        """Return the longer graph of `outputs`. Raises as `zyx.specialise.longer.longer` does."""
        made = longer(outputs, self.nodes, self.symbolic.sizes, self.bounds, self._varying())
        self.symbolic.made[self.bounds, self.changed] = tuple(made.lengths)
        return made

    def values(self) -> list[Scalar]:
        """Return what the longer graph is given: lengths, and behind them the constants that have changed."""
        lengths = self.symbolic.made[self.bounds, self.changed]
        return [size.at(*self.lengths) for size in lengths] + [node.value for node in self._varying()]

    def _varying(self) -> list[n.Const]:
        return [node for place, node in enumerate(_constants_of(self.nodes)) if place in self.changed]


def bounded(table: Table, outputs: Sequence[Node], order: Sequence[Node]) -> Bounded | None:
    """Return the longer graph to compute `outputs` by, or None if they are to have a plan of their own.

    That is so for the first length of a structure; where no single length makes all sizes what they are; for what takes
    longer to run than to compile; for what was refused; and for lengths that have settled.
    """
    found = outline(outputs, order) if len(order) <= _MOST_NODES else None
    if found is None:
        return None
    kind, sizes = found
    constants = tuple(node.attributes for node in _constants_of(order))
    known, _ = table.outline((Bounded, kind), constants)
    changed = known.given(constants)
    followed = known.symbolic_sizes(sizes, 1, fits=lambda lengths: _has_shapes(lengths, order))
    if followed is None:
        return None
    symbolic, lengths = followed
    bounds = bounds_of(symbolic.sizes, outputs, order, lengths)
    if bounds is None or bounds in symbolic.refused or lengths in symbolic.settled:
        return None
    points = points_of(symbolic.sizes, order, bounds)
    if points >= WORTH:
        return None
    fixed = tuple(value for place, value in enumerate(constants) if place not in changed)
    return Bounded(
        Key((kind, symbolic.sizes, bounds, changed), fixed), symbolic, lengths, bounds, changed, order, points
    )


def _has_shapes(sizes: Sequence[Length], order: Sequence[Node]) -> bool:
    """Whether shapes are among what varies: starts of slices alone are numbers (`zyx.specialise.numbers`)."""
    return any(size.varies for _, dims, _ in by_node(sizes, order) for size in dims)


def bound_of(length: int, least: int = LEAST_BOUND) -> int:
    """Return the greatest length to plan for, of those that begin at the power of two above `least`."""
    bound = 1 << (least - 1).bit_length()
    while bound < length:
        bound *= _GROWTH
    return bound


def bounds_of(
    sizes: Sequence[Length],
    outputs: Sequence[Node],
    order: Sequence[Node],
    lengths: Sequence[int],
    greatest: Sequence[int | None] = (),
    smallest: Sequence[int] = (LEAST_BOUND,),
) -> tuple[int, ...] | None:
    """Return the bucket of `lengths`, the greatest ones to plan for: of `bound_of`, or less where a slice ends.

    `greatest` are the greatest lengths that there are, as far as they are known; `smallest` the least to plan for.
    None if what is stored has more than `_MOST_POINTS` elements at that.
    """
    bounds = [bound_of(length, least) for length, least in zip(lengths, smallest, strict=True)]
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
