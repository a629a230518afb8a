"""Give scatters a form that runs in parallel: the same values, from other nodes.

    many updates of more places        copies = scatter into (places, copies);  base op (copies combined)
    many updates of a few places       base op (reduction of where(index == place, updates, neutral))
    many updates of many places, in    sorted by place, and neighbours combined (`zyx.fusion.segmented_scan`)
    one order, by threads
    one update of places that are      where(index == place, base op update, base)
    all the same besides
    replacing, at places that are      as it is: they are written in any order
    plainly apart
    the last of several updates stays  winner = scatter of the updates' numbers by max;  where(winner >= 0,
                                       updates[winner], base)
    int8, which the device does not    cast(scatter of int32)
    combine indivisibly
    sums of float16                    cast(scatter of float32)

As long as places are few, comparing each update with all of them takes less than writing it where it belongs: vectors
compare many, and nothing waits. Copies are for two things. Where threads combine indivisibly, those that hit one place
wait for each other: with copies they are spread over more places. Where one thread makes all updates of a place in
order, each copy takes a part of them. Neighbouring threads have copies of their own, next to each other; on machines
without threads, each group has a block of the updates. The number of copies depends on the device alone, so that
results do not change from run to run.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from zyx import dtype as dtypes
from zyx.dtype import accumulator
from zyx.fusion.segmented_scan import by_segmented_scan, from_start
from zyx.fusion.split_scatters import combines_indivisibly
from zyx.graph import node as n
from zyx.graph.places import is_distinct
from zyx.ops import BinaryOp, ReduceOp, identity
from zyx.shape import size_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.backend.info import DeviceInfo
    from zyx.dtype import DType
    from zyx.graph import Graph
    from zyx.graph.node import Node

#: Fewer updates are made by one thread in the time of the launches that another form takes more.
_FEW_TO_REPLACE: Final = 64
_FEW_TO_COPY: Final = 1 << 14
#: So many places are enough for indivisible combinations to seldom wait for each other.
_PLACES: Final = 1 << 13
#: Most places that each update is compared with: in place of one that is made in order, and of one that is combined
#: indivisibly.
_COMPARED_PLACES: Final = 16
_COMPARED_BY_THREADS: Final = 4
#: Updates that a thread makes in order in the time that it takes to sort them and the like.
_MOST_IN_ORDER: Final = 512
#: Updates for each place of a copy, at least: what is stored once more, and read once more, is little beside them.
_UPDATES_OF_A_PLACE: Final = 8
#: The same where no threads are waiting for memory: a place is stored and read in a fraction of an update's time.
_UPDATES_OF_A_CACHED_PLACE: Final = 1
#: Columns that a group goes over by itself, where these are what groups share.
_COLUMNS_OF_A_GROUP: Final = 16


class Helpers(NamedTuple):
    """How a device computes what a scatter may become.

    Attributes:
        reduction: Returns a reduction as the device is to compute it.
        sorting: The same of a sort; None if it would take longer than to make the updates in order.
    """

    reduction: Callable[[n.Reduce], Node]
    sorting: Callable[[n.Sort], Node] | None = None


def in_parallel(graph: Graph, node: n.Scatter, info: DeviceInfo, helpers: Helpers, *, deterministic: bool) -> Node:
    """Return a node with the values of `node` in a form that the device runs in parallel; `node` if it is one.

    Args:
        graph: To make nodes with.
        node: What to compute.
        info: The device.
        helpers: For what it becomes.
        deterministic: Whether floats are to be combined in one order, always the same.
    """
    base, index, updates = node.sources
    has_threads = info.max_group_threads > 1
    if index.shape[node.axis] == 1:
        return _where_it_falls(graph, node) if isinstance(base, n.Const) else node
    if node.op is None:
        return _last_of_each(graph, node, info) if has_threads and not is_distinct(index, node.axis) else node
    wide = accumulator(node.dtype) if node.op in (ReduceOp.SUM, ReduceOp.PROD) else node.dtype
    if wide is node.dtype and has_threads and size_of(index.shape) > _FEW_TO_REPLACE:
        wide = _combined_as(node.op, node.dtype, info)
    if wide is not node.dtype:
        sources = (graph.cast(base, wide), index, graph.cast(updates, wide))
        wider = graph.scatter(*sources, node.axis, node.op)
        assert isinstance(wider, n.Scatter)
        return graph.cast(in_parallel(graph, wider, info, helpers, deterministic=deterministic), node.dtype)
    is_exact = not (deterministic and node.dtype.is_float)
    if has_threads and is_exact and combines_indivisibly(info, node.op, node.dtype):
        if base.shape[node.axis] <= _COMPARED_BY_THREADS and _is_worth_copies(node):
            return _by_comparison(graph, node, helpers)
        copies = _most_copies(node, _PLACES // size_of(base.shape), _UPDATES_OF_A_PLACE)
        return _by_copies(graph, node, base, copies, side_by_side=True) if copies > 1 else node
    return _in_order(graph, node, info, helpers)


def _in_order(graph: Graph, node: n.Scatter, info: DeviceInfo, helpers: Helpers) -> Node:
    """Return what combines the updates of each place in one order, always the same."""
    base, index, _ = node.sources
    has_threads = info.max_group_threads > 1
    if base.shape[node.axis] <= _COMPARED_PLACES and _is_worth_copies(node):
        return _by_comparison(graph, node, helpers)
    updates_of_a_place = _UPDATES_OF_A_PLACE if has_threads else _UPDATES_OF_A_CACHED_PLACE
    copies = _most_copies(node, _copies_in_order(node, info), updates_of_a_place)
    is_long = index.shape[node.axis] > _MOST_IN_ORDER * max(copies, 1)
    if has_threads and is_long and helpers.sorting is not None and index.shape[node.axis] <= dtypes.int32.max:
        assert node.op is not None
        neutral = graph.const(identity(node.op, node.dtype), node.dtype, node.device, base.shape)
        placed = graph.scatter(neutral, *by_segmented_scan(graph, node, helpers.sorting), node.axis)
        assert isinstance(placed, n.Scatter)
        return _on_top(graph, node.op, base, _last_of_each(graph, placed, info))
    if copies < 2:
        return node
    rest = 0 if has_threads else index.shape[node.axis] % copies
    if rest:  # a test for each update in a loop costs more than a few updates apart
        node, few = _divided(graph, node, rest)
        base = in_parallel(graph, few, info, helpers, deterministic=True)
    return _by_copies(graph, node, base, copies, side_by_side=has_threads)


def _is_worth_copies(node: n.Scatter) -> bool:
    """Whether there are many updates, with no axis behind the indexed one."""
    shape = node.sources[1].shape
    return size_of(shape) >= _FEW_TO_COPY and math.prod(shape[node.axis + 1 :]) == 1


def _most_copies(node: n.Scatter, wanted: int, updates_of_a_place: int) -> int:
    """Return how many of the copies that are wanted take little beside the updates."""
    base, index, _ = node.sources
    points = size_of(index.shape)
    if points < _FEW_TO_COPY:
        return 1
    return min(wanted, points // (size_of(base.shape) * updates_of_a_place), index.shape[node.axis])


def _combined_as(op: ReduceOp, dtype: DType, info: DeviceInfo) -> DType:
    """Return the dtype to combine in: `dtype`, or a wider one with the same results that the device has a form for."""
    candidates = [dtype]
    if dtype.is_bool:
        candidates.append(dtypes.int32)
    elif dtype.is_float:
        candidates += [dtypes.float32] if dtype.bits < 32 else []
    else:
        candidates += [dtypes.uint32, dtypes.uint64] if dtype.is_unsigned else [dtypes.int32, dtypes.int64]
    for candidate in candidates:
        if candidate is dtype or candidate.bits > dtype.bits:
            if combines_indivisibly(info, op, candidate):
                return candidate
    return dtype


def _last_of_each(graph: Graph, node: n.Scatter, info: DeviceInfo) -> Node:
    """Let every update that falls on a place write its number there, the greatest stays, and take the value of that."""
    base, index, updates = node.sources
    length = index.shape[node.axis]
    if size_of(index.shape) <= _FEW_TO_REPLACE or length > dtypes.int32.max:
        return node
    if not combines_indivisibly(info, ReduceOp.MAX, dtypes.int32):
        return node
    nobody = graph.const(-1, dtypes.int32, base.device, base.shape)
    number = graph.iota(index.shape, node.axis, dtypes.int32, index.device)
    winner = graph.scatter(nobody, index, number, node.axis, ReduceOp.MAX)
    assert isinstance(winner, n.Scatter)
    is_written = graph.binary(BinaryOp.LT, nobody, winner)
    return graph.where(is_written, graph.gather(updates, winner, node.axis), base)


def _where_it_falls(graph: Graph, node: n.Scatter) -> Node:
    """Compare the place of the only update along the axis with all places: no more than to store a constant there.

    So it becomes a part of what reads it, as where the gradient of a chosen class meets that of the classes' sum.
    """
    base, index, updates = node.sources
    index = from_start(graph, index, base.shape[node.axis])
    place = graph.iota(base.shape, node.axis, index.dtype, base.device)
    is_there = graph.binary(BinaryOp.EQ, graph.expand(index, base.shape), place)
    updates = graph.expand(updates, base.shape)
    return graph.where(is_there, updates if node.op is None else graph.binary(node.op.binary, base, updates), base)


def _copies_in_order(node: n.Scatter, info: DeviceInfo) -> int:
    """Return how many copies keep the device busy, if one thread makes all updates of a place in order."""
    shape = node.sources[1].shape
    outer, columns = math.prod(shape[: node.axis]), math.prod(shape[node.axis + 1 :])
    if info.max_group_threads > 1:
        return info.units * info.max_group_threads // (outer * columns)
    is_shared_out = columns >= _COLUMNS_OF_A_GROUP * info.units
    return 1 if is_shared_out or outer >= info.units else info.units


def _divided(graph: Graph, node: n.Scatter, count: int) -> tuple[n.Scatter, n.Scatter]:
    """Return the scatter of all but the last `count` updates along the axis, and that of those."""
    base, index, updates = node.sources
    first = index.shape[node.axis] - count
    parts = []
    for start, stop in ((0, first), (first, first + count)):
        bounds = [(start, stop) if axis == node.axis else (0, size) for axis, size in enumerate(index.shape)]
        part = graph.scatter(base, graph.shrink(index, bounds), graph.shrink(updates, bounds), node.axis, node.op)
        assert isinstance(part, n.Scatter)
        parts.append(part)
    return parts[0], parts[1]


def _by_copies(graph: Graph, node: n.Scatter, base: Node, copies: int, *, side_by_side: bool) -> Node:
    """Return `base`, combined with so many copies of the places that have all updates of `node` between them."""
    _, index, updates = node.sources
    op, axis = node.op, node.axis
    assert op is not None
    neutral = identity(op, node.dtype)
    length = index.shape[axis]
    part = -(-length // copies)
    widths = [(0, part * copies - length if i == axis else 0) for i in range(index.ndim)]
    place, split = (axis, (part, copies)) if side_by_side else (axis + 1, (copies, part))
    shape = (*index.shape[:axis], *split, *index.shape[axis + 1 :])
    own = (base.shape[axis], copies) if side_by_side else (copies, base.shape[axis])
    start = graph.const(neutral, node.dtype, base.device, (*base.shape[:axis], *own, *base.shape[axis + 1 :]))
    index = graph.reshape(graph.pad(index, widths), shape)  # what is added changes nothing at position 0
    updates = graph.reshape(graph.pad(updates, widths, neutral), shape)
    found = graph.scatter(start, index, updates, place, op)
    total = graph.reshape(graph.reduce(op, found, (axis + 1 if side_by_side else axis,)), base.shape)
    return _on_top(graph, op, base, total)


def _by_comparison(graph: Graph, node: n.Scatter, helpers: Helpers) -> Node:
    """Return the base, combined with the updates that have each place for their index. No axes follow the indexed one.

    Each update is compared with all places.
    """
    base, index, updates = node.sources
    op, axis = node.op, node.axis
    assert op is not None
    places = base.shape[axis]
    long, wide = (*index.shape[: axis + 1], 1), (*index.shape[: axis + 1], places)

    def spread(x: Node) -> Node:
        return graph.expand(graph.reshape(x, long), wide)

    index = from_start(graph, index, places)
    place = graph.iota(wide, axis + 1, index.dtype, index.device)
    neutral = graph.const(identity(op, node.dtype), node.dtype, node.device, wide)
    chosen = graph.where(graph.binary(BinaryOp.EQ, spread(index), place), spread(updates), neutral)
    found = graph.reduce(op, chosen, (axis,))
    total = helpers.reduction(found) if isinstance(found, n.Reduce) else found
    return _on_top(graph, op, base, graph.reshape(total, base.shape))


def _on_top(graph: Graph, op: ReduceOp, base: Node, total: Node) -> Node:
    """Return `total` combined with the base, unless that changes nothing."""
    neutral = identity(op, base.dtype)
    if isinstance(base, n.Const) and base.value == neutral:
        return total
    return graph.binary(op.binary, base, total)
