"""One kernel to be: which nodes it computes, and at which points of its iteration space it needs each of them.

Starting from the node it stores, a region is followed towards the sources. Every node in it has *views*: the points,
as expressions over ranges, at which it is needed, with the mask under which it is, and the ranges around it. Where a
view of a materialised node is met, the caller decides: take it in (its own computation then belongs to the kernel), or
read its buffer.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from zyx.fusion.movement import MOVEMENT, point_of_root, source_point
from zyx.graph import node as n
from zyx.shape import size_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zyx.fusion.movement import RootRanges
    from zyx.graph.node import Node
    from zyx.nest.expr import Expr, Range
    from zyx.nest.pool import Pool

#: Elements that are far apart take about as long as a launch, if they are so many.
_SHORT_TURN: Final = 1 << 16


class View(NamedTuple):
    """A point at which a node is needed.

    Attributes:
        point: A coordinate for each axis.
        mask: Where it is needed; None means everywhere.
        around: The ranges that run around it, as a bit set.
        reduced: Those of them that a reduction around it runs over.
    """

    point: tuple[Expr, ...]
    mask: Expr | None
    around: int
    reduced: int


@dataclass(slots=True, eq=False)
class FusedRegion:
    """A kernel's nodes and views.

    Attributes:
        root: The node whose elements the outermost ranges count.
        pool: Makes the expressions.
        root_ranges: One for each axis of the root that is longer than 1; if they are those of another node, one for
            each such axis of it, with numbers below 0.
        all_ranges: These, and those that reductions run over.
        views: For each node of the region, and each it reads, its views.
        order: These nodes, each behind all that need it.
        inputs: The materialised nodes and leaves that it reads.
        sizes: Size of each range, by number.
        root_mask: Where the root has an element; None means everywhere.
    """

    root: Node
    pool: Pool
    root_ranges: dict[int, Range] = field(default_factory=dict)
    all_ranges: list[Range] = field(default_factory=list)
    views: dict[Node, dict[View, None]] = field(default_factory=dict)
    order: list[Node] = field(default_factory=list)
    inputs: dict[Node, None] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)
    root_mask: Expr | None = None

    def extent(self, ranges: int) -> int:
        """Return the number of points of a bit set of ranges."""
        count = 1
        number = 0
        while ranges:
            if ranges & 1:
                count *= self.sizes[number]
            ranges >>= 1
            number += 1
        return count

    def times_computed(self, ranges: int, around: int) -> int:
        """Return how often what depends on `ranges` is computed in loops over `around`.

        Loops are nested in the order of the axes, and what does not depend on the inner ones is computed outside of
        them.
        """
        loops = [range_ for range_ in self.all_ranges if range_.bit & around]
        while loops and not loops[-1].bit & ranges:
            loops.pop()
        return self.extent(sum(range_.bit for range_ in loops))

    def new_range(self, size: int) -> Range:
        """Return a new range."""
        range_ = self.pool.range(size)
        self.sizes[range_.number] = size
        self.all_ranges.append(range_)
        return range_

    def bound_ranges(self, shape: Sequence[int], axes: Sequence[int], used: int) -> list[Range]:
        """Return a range to reduce each axis with: of its size and not `used` around it, a new one if there is none.

        Sharing ranges lets a row be read under one name by everything that runs over it. The root's own ranges of the
        same axes are the best choice, if it has them all; else axes take ranges in their order. Of axes of one size,
        as in square images, one that took its own and one that took what is left would be read the wrong way round.
        """
        free = [r for r in self.all_ranges if not r.bit & used]
        own = [self.root_ranges[axis] for axis in axes if axis in self.root_ranges]
        if len(own) == len(axes) and all(
            r in free and r.size == shape[axis] for r, axis in zip(own, axes, strict=True)
        ):
            return own
        bound: list[Range] = []
        for axis in axes:
            range_ = next((r for r in free if r.size == shape[axis]), None)
            if range_ is None:
                range_ = self.new_range(shape[axis])
            else:
                free.remove(range_)
            bound.append(range_)
        return bound


def follow(
    root: Node,
    pool: Pool,
    position: Mapping[Node, int],
    stop: Callable[[FusedRegion, Node], bool],
    ranges: RootRanges | None = None,
) -> FusedRegion:
    """Return the region of `root`.

    Args:
        root: The node to store.
        pool: For the expressions.
        position: Place of every node in a topological order.
        stop: Asked for every materialised node when all its views are known: True to read its buffer, False to
            compute it.
        ranges: Those that it has because of another node.
    """
    region = region_at(root, pool) if ranges is None else _region_over(root, pool, ranges)
    queue = [-position[root]]
    by_position = {position[root]: root}
    while queue:
        node = by_position[-heapq.heappop(queue)]
        region.order.append(node)
        if node is not root and (node.storage is not None or isinstance(node, n.Leaf) or stop(region, node)):
            region.inputs[node] = None
            continue
        for view in list(region.views[node]):
            for source, below in views_below(region, node, view):
                known = region.views.get(source)
                if known is None:
                    known = region.views[source] = {}
                    by_position[position[source]] = source
                    heapq.heappush(queue, -position[source])
                known[below] = None
    return region


def region_at(root: Node, pool: Pool) -> FusedRegion:
    """Return the region of `root` with its own view only: each of its elements, one after the other."""
    region = FusedRegion(root, pool)
    for axis, size in enumerate(root.shape):
        if size > 1:
            region.root_ranges[axis] = region.new_range(size)
    point = tuple(
        pool.ref(region.root_ranges[axis]) if size > 1 else pool.index(0) for axis, size in enumerate(root.shape)
    )
    region.views[root] = {View(point, None, _free(point), 0): None}
    return region


def _region_over(root: Node, pool: Pool, ranges: RootRanges) -> FusedRegion:
    """Return the region of `root` with its own view only: the elements of another node, where the root has them."""
    region = FusedRegion(root, pool)
    for axis, size in enumerate(ranges.sizes):
        if size > 1:
            region.root_ranges[axis - len(ranges.sizes)] = region.new_range(size)
    at = (region.root_ranges.get(axis) for axis in range(-len(ranges.sizes), 0))
    point, region.root_mask = point_of_root(
        pool, ranges, tuple(pool.index(0) if r is None else pool.ref(r) for r in at)
    )
    around = sum(range_.bit for range_ in region.root_ranges.values())
    region.views[root] = {View(point, region.root_mask, around, 0): None}
    return region


def views_below(region: FusedRegion, node: Node, view: View) -> list[tuple[Node, View]]:
    """Return the views of the sources that one view of `node` needs."""
    pool = region.pool
    match node:
        case n.Const() | n.Iota() | n.Leaf():
            return []
        case _ if isinstance(node, MOVEMENT):
            point, mask, there = moved_view(region, node, view.point, view.mask)
            return [(node.sources[0], View(point, pool.both(mask, there), view.around, view.reduced))]
        case n.Reduce(axes=axes):
            needed = mask_needed(node, view.point, view.mask)
            outer = _free(view.point) | (0 if needed is None else needed.free)
            inside = list(view.point)
            inner = 0
            for axis, range_ in zip(axes, region.bound_ranges(node.sources[0].shape, axes, outer), strict=True):
                inner |= range_.bit
                inside[axis] = pool.ref(range_)
            return [(node.sources[0], View(tuple(inside), needed, outer | inner, inner))]
        case n.Scan(axis=axis):
            # A scan is met as the root, or where a whole row of it is needed: its own range runs along the axis.
            return [(node.sources[0], View(view.point, view.mask, view.around, view.reduced | view.point[axis].free))]
        case n.Gather(axis=axis):
            data, index = node.sources
            unknown = pool.opaque(_free(view.point), data.shape[axis])
            point = (*view.point[:axis], unknown, *view.point[axis + 1 :])
            return [(index, view), (data, View(point, view.mask, view.around, view.reduced))]
        case n.Scatter():
            base, index, updates = node.sources
            each = tuple(pool.ref(region.new_range(size)) if size > 1 else pool.index(0) for size in index.shape)
            below = View(each, None, _free(each), 0)
            return [(base, view), (index, below), (updates, below)]
        case n.RandomBits():
            return [(node.sources[0], View((pool.index(0),), view.mask, view.around, view.reduced))]
        case _:
            return [(source, view) for source in node.sources]


def moved_view(
    region: FusedRegion, node: n.Movement, point: tuple[Expr, ...], mask: Expr | None
) -> tuple[tuple[Expr, ...], Expr | None, Expr | None]:
    """Return the point of the source that `point` of `node` shows, where it is needed, and where there is one.

    What the root has not is there all the same below where it is cut off, and is computed instead of left out: what a
    block of a scan starts from does not depend on its elements then.
    """
    inner, inside = source_point(region.pool, node, point)
    if isinstance(node, n.Shrink) and mask is region.root_mask:
        mask = mask_needed(node.sources[0], inner, mask)
    return inner, mask, inside


def mask_needed(node: Node, point: tuple[Expr, ...], mask: Expr | None) -> Expr | None:
    """Return `mask`, or None if `point` lies within `node` also where it is false: the node may be computed there."""
    is_inside = all(at.low >= 0 and at.high < size for at, size in zip(point, node.shape, strict=True))
    return None if is_inside else mask


def _free(point: tuple[Expr, ...]) -> int:
    free = 0
    for index in point:
        free |= index.free
    return free


def is_turned(region: FusedRegion, node: Node) -> bool:
    """Whether a large `node` lies along another range of the results than these do: neighbours are far apart."""
    axes = [axis for axis, size in enumerate(node.shape) if size > 1]
    if size_of(node.shape) < _SHORT_TURN or not axes or not region.root_ranges:
        return False
    along = region.root_ranges[max(region.root_ranges)].bit
    others = sum(range_.bit for range_ in region.root_ranges.values()) & ~along
    return any(
        any(view.point[axis].free & along for axis in axes)
        and not view.point[axes[-1]].free & along
        and view.point[axes[-1]].free & others
        for view in region.views[node]
    )
