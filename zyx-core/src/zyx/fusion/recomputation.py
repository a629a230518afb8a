"""Bound recomputation: a value that is read at several places by what follows it is stored, if that is less work.

    y = tanh(x)                              tanh three times an element, in one kernel;
    z = y[2:] + y[1:-1] + y[:-2]      =>     or y is kept: once an element, stored, and read three times

In a chain of such steps every value is needed at more points than the one after it: three, five, seven, and twice as
many each time with steps that differ. From the outputs to the sources, the points at which every node is needed are
written down, and where computing it at all of them costs more than keeping it, it is kept: what is below it is then
needed for one element of it at a time. So no element of any node is computed more often than its own cost allows, and
the kernels of a chain have the operations of a step each, however long it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.fusion.cost import inline_cost, is_source, own_cost, reading_cost, store_cost
from zyx.fusion.movement import MOVEMENT
from zyx.fusion.region import region_at, views_below
from zyx.graph import node as n
from zyx.nest.pool import Pool
from zyx.shape import size_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from zyx.fusion.region import FusedRegion, View
    from zyx.graph.node import Node

    Places = dict[FusedRegion, dict[View, None]]

#: Reading back what is kept costs so many operations each time, of the cost of storing it and reading it once.
_LOAD_COST: Final = 2
#: Operations of what is always computed again, if it is made of coordinates only.
_INDEX_COST: Final = 8
#: Operations that the code of a kernel may have more than once, for all points of one node.
_MOST_CODE: Final = 64


def limit_recomputation(order: Sequence[Node], kept: set[Node], made: Collection[Node] = ()) -> None:
    """Add to `kept` the nodes of `order`, which is topological, that cost more to compute at all points than to keep.

    Those nearest the outputs come first, each as if nothing below it were kept that is not in `kept` already. What is
    `made` where it is multiplied with few rows is computed once for all of these, and so is what it is made of.
    """
    needed: dict[Node, Places] = {}
    of_rows = {*made}
    known = kept | _indices(order)
    for node in reversed(order):
        places = needed.pop(node, {})
        if is_source(node):
            continue
        if node in kept or (not isinstance(node, MOVEMENT) and _is_better_kept(node, places, known, of_rows)):
            kept.add(node)
            known.add(node)
            region = region_at(node, Pool())
            places = {region: region.views[node]}
        elif node in of_rows:
            of_rows.update(node.sources)
        for region, views in places.items():
            for view in views:
                for source, below in views_below(region, node, view):
                    needed.setdefault(source, {}).setdefault(region, {})[below] = None


def _indices(order: Sequence[Node]) -> set[Node]:
    """Return integers and bools made of coordinates in a few operations: they become part of indices and masks."""
    costs: dict[Node, int] = {}
    for node in order:
        if node.storage is not None or node.dtype.is_float:
            continue
        if isinstance(node, n.Const | n.Iota):
            costs[node] = 0
        elif isinstance(node, (n.Binary, n.Where, n.Cast, *MOVEMENT)) and all(s in costs for s in node.sources):
            cost = own_cost(node) + sum(costs[source] for source in node.sources)
            if cost <= _INDEX_COST:
                costs[node] = cost
    return set(costs)


def _is_better_kept(
    node: Node, places: Mapping[FusedRegion, Mapping[View, None]], known: set[Node], of_rows: set[Node]
) -> bool:
    if node in known or not places:
        return False
    size = size_of(node.shape)
    around = times = 0
    for region, views in places.items():
        for view in views:
            ranges = _ranges_of(view)
            around = max(around, region.extent(view.around))
            times += region.extent(ranges) if node in of_rows else region.times_computed(ranges, view.around)
    points = max(map(len, places.values()))
    if times <= size and points == 1:
        return False
    cost = inline_cost(node, known)
    # Within a kernel, what is read at several places comes from caches after the first; other kernels read it again.
    again = (len(places) - 1) * size * reading_cost(node, known) if len(places) > 1 else 0
    store = max(store_cost(node) - _LOAD_COST, _LOAD_COST)
    return (cost - _LOAD_COST) * (times - size) + again > store * max(around, size) or cost * (points - 1) > _MOST_CODE


def _ranges_of(view: View) -> int:
    ranges = 0 if view.mask is None else view.mask.free
    for index in view.point:
        ranges |= index.free
    return ranges
