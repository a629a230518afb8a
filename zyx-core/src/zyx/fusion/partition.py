"""Divide a graph into kernels.

Every kept node (`zyx.fusion.materialise`) starts as a kernel of its own. Then, from the outputs to the sources,
each kernel takes in what it reads, where that

1. is needed at one point of the kernel's ranges only, once for each of its elements: nothing is computed twice; and is
   stored, if it is large and has to be, in the order in which the kernel stores its results;
2. does not tie two kernels into a circle;
3. leaves enough to run in parallel: the ranges that all reductions taken in have around them (the kernel's *rows*)
   have as many points as the device needs, or as the kernel has elements, unless the whole kernel is small;
4. fits: one row of what is read again lies in the caches;
5. is not computed again and again in inner loops, if it costs more than storing it;
6. keeps products of matrices free of other loops: they take in what follows them element by element, and nothing else
   (large ones that a library computes are kept apart from that by the caller, too). So do scans that many threads or
   the lanes of vectors run, and those of blocks;
7. leaves no more buffers to bind than the device can;
8. is no longer than what compiles in a moment: the time grows faster than the text.

So softmax or layer norm become one kernel over their rows, a product of matrices takes its bias and activation along,
and an optimiser writes the parameter and its moments in one pass. What was taken in and is needed elsewhere too is
stored on the way.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from zyx.fusion.cost import STORE_COST, inline_cost
from zyx.fusion.materialise import before_rounding, choose_materialised, contraction_operands, row_summaries
from zyx.fusion.movement import Move, RootRanges
from zyx.fusion.params import nodes_to_keep_apart
from zyx.fusion.region import FusedRegion, follow, is_turned
from zyx.fusion.scans import may_be_followed
from zyx.fusion.split_reductions import rows_of, rows_wanted
from zyx.graph import node as n
from zyx.nest import expr as e
from zyx.nest.pool import Pool
from zyx.shape import size_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from zyx.backend.info import DeviceInfo
    from zyx.graph.given import Box
    from zyx.graph.node import Node

    Nodes = Collection[Node]

#: A kernel of fewer element operations than this runs on one group whatever its shape.
SMALL_WORK: Final = 1 << 14
#: A group may run over a row of so many points a thread even where rows are too few to keep a device busy: the launch
#: that this saves takes as long.
_POINTS_OF_A_THREAD: Final = 4

#: Nodes that are looked at to find one whose ranges a kernel has.
_MOST_LOOKED_AT: Final = 64
#: A kernel of more nodes than this takes no others in.
_MOST_NODES: Final = 256


@dataclass(slots=True, eq=False)
class KernelPart:
    """A kernel to be.

    Attributes:
        root: The node that gives the kernel its ranges.
        region: The nodes it computes and where.
        stored: The nodes it stores, the root among them, in the order of the graph.
        taken: The nodes that it computes though they could be kernels of their own.
        in_place: Stored nodes that take the place of one that is read, element by element.
        rows: For stored nodes that are rows of a loop, where in sequences they are stored.
        only_rows: Those of them that have no buffer of their own.
    """

    root: Node
    region: FusedRegion
    stored: list[Node] = field(default_factory=list)
    taken: list[Node] = field(default_factory=list)
    in_place: dict[Node, Node] = field(default_factory=dict)
    rows: dict[Node, list[Box]] = field(default_factory=dict)
    only_rows: set[Node] = field(default_factory=set)

    @property
    def written(self) -> list[Node]:
        """The nodes whose buffers it writes to."""
        own = [node for node in self.stored if node not in self.only_rows]
        return own + [box.data for boxes in self.rows.values() for box in boxes]

    @property
    def reads(self) -> list[Node]:
        """The nodes whose buffers it reads."""
        return list(self.region.inputs)


def partition(
    order: Sequence[Node], outputs: Sequence[Node], info: DeviceInfo, by_themselves: Nodes = (), recomputed: Nodes = ()
) -> list[KernelPart]:
    """Return the kernels that compute `outputs`, in an order in which they can run.

    Args:
        order: All nodes that `outputs` need, sources first.
        outputs: Nodes to store.
        info: The device.
        by_themselves: Nodes that no kernel is to take in.
        recomputed: Nodes that are not to be stored because of what they cost.
    """
    kept, apart = choose_materialised(order, outputs, recomputed), set(by_themselves)
    while True:
        partitioner = _Partitioner(order, outputs, info, kept, apart)
        parts = partitioner.run()
        more = {node for part in parts for node in partitioner.too_much(part)} - apart
        if not more:
            return parts
        apart |= more


class _Partitioner:
    def __init__(
        self, order: Sequence[Node], outputs: Sequence[Node], info: DeviceInfo, kept: set[Node], apart: set[Node]
    ) -> None:
        self._order = order
        self._info = info
        self._apart = apart
        self._position = {node: number for number, node in enumerate(order)}
        self._kept = kept | apart
        self._summaries = row_summaries(order, self._kept)
        self._wanted = set(outputs)
        self._users = self._users_of_kept()
        self._home: dict[Node, Node] = {node: node for node in self._kept}  # kept node -> root of its kernel
        self._members: dict[Node, list[Node]] = {node: [node] for node in self._kept}

    def run(self) -> list[KernelPart]:
        parts: list[KernelPart] = []
        for root in sorted(self._kept, key=self._position.__getitem__, reverse=True):
            if self._home[root] is root:
                parts.append(KernelPart(root, self._grow(root)))
        for part in parts:
            part.stored = self._stored(part.root)
            part.taken = [node for node in self._members[part.root] if node is not part.root]
        return self._in_running_order(parts)

    def too_much(self, part: KernelPart) -> Iterable[Node]:
        """Return what other kernels must compute for `part` to bind no more buffers than the device can."""
        return nodes_to_keep_apart(part.region, part.stored, self._position, self._info.max_params)

    def _users_of_kept(self) -> dict[Node, set[Node]]:
        """Return for each kept node the kept nodes that need it with nothing kept in between."""
        users: dict[Node, set[Node]] = {}
        wanted_by: dict[Node, set[Node]] = {}
        for node in reversed(self._order):
            above = wanted_by.get(node, set())
            if node in self._kept:
                users[node] = above
                above = {node}
            if node.storage is None:
                for source in node.sources:
                    wanted_by.setdefault(source, set()).update(above)
        return users

    def _stored(self, root: Node) -> list[Node]:
        stored = [
            node
            for node in self._members[root]
            if node is root or node in self._wanted or any(self._home[user] is not root for user in self._users[node])
        ]
        return sorted(stored, key=self._position.__getitem__)

    def _in_running_order(self, parts: list[KernelPart]) -> list[KernelPart]:
        by_root = {part.root: part for part in parts}
        done: dict[KernelPart, None] = {}
        for first in reversed(parts):
            stack = [first]
            while stack:
                part = stack[-1]
                needed = [by_root[self._home[read]] for read in part.reads if read in self._home]
                missing = [other for other in needed if other not in done and other is not part]
                if missing and part not in done:
                    stack.extend(missing)
                    continue
                stack.pop()
                done[part] = None
        return list(done)

    # ---- growing one kernel

    def _grow(self, root: Node) -> FusedRegion:
        grower = _Grower(root, self._info, self._kept)

        def stop(region: FusedRegion, node: Node) -> bool:
            if node not in self._kept:
                return False
            if node in self._apart or len(region.order) > _MOST_NODES:
                return True
            is_stored = node in self._wanted or any(self._home[user] is not root for user in self._users[node])
            if node in self._summaries and not grower.takes_rows(region, node, self._summaries[node]):
                return True
            if not grower.takes(region, node, is_stored=is_stored) or self._would_circle(root, node):
                return True
            grower.take(region, node)
            self._home[node] = root
            self._members[root].append(node)
            return False

        return follow(root, Pool(), self._position, stop, _ranges_of_root(root, self._info, self._kept))

    def _would_circle(self, root: Node, node: Node) -> bool:
        """Whether fusing `node` into the kernel of `root` would make a cycle of kernels."""
        start = {self._home[user] for user in self._users[node]} - {root}
        seen = set(start)
        stack = list(start)
        while stack:
            current = stack.pop()
            for member in self._members[current]:
                for user in self._users[member]:
                    home = self._home[user]
                    if home is root:
                        return True
                    if home not in seen:
                        seen.add(home)
                        stack.append(home)
        return False


class _Grower:
    """Decides what one kernel takes in."""

    def __init__(self, root: Node, info: DeviceInfo, kept: Collection[Node]) -> None:
        self._root = root
        self._info = info
        self._kept = kept
        self._contraction = root if contraction_operands(root) is not None else None
        self._scan: n.Scan | None = None
        self._rows: int | None = None  # the ranges around all reductions taken in; None while there are none
        self._work = size_of(root.sources[0].shape if isinstance(root, n.Reduce) else root.shape)
        self._longest = self._work  # of the loops over all points of the root, and of what is taken in

    def takes(self, region: FusedRegion, node: Node, *, is_stored: bool) -> bool:
        """Whether `node`, all of whose views are known, may be computed in the kernel; all of it, if it `is_stored`."""
        if isinstance(node, n.Scatter | n.Custom | n.ToDevice | n.Contiguous) or isinstance(
            self._root, n.Scatter | n.Scan | n.Custom | n.ToDevice
        ):
            return False
        if isinstance(node, n.Scan):
            return self._takes_scan(region, node, is_stored=is_stored)
        views = region.views[node]
        ranges = _ranges_of_one_point(region, node)
        if ranges is None or region.extent(ranges) > size_of(node.shape):
            return False
        if is_stored and (region.extent(ranges) < size_of(node.shape) or is_turned(region, node)):
            return False
        is_reduced = any(view.reduced for view in views)
        if self._scan is not None and (isinstance(node, n.Reduce) or is_reduced):
            return False
        if contraction_operands(before_rounding(node)) is not None:
            return not is_reduced and self._takes_contraction(region, ranges)
        if isinstance(node, n.Reduce):
            return self._takes_row_value(region, node, ranges)
        if all(ranges == view.around for view in views):
            return self._contraction is None or not is_reduced
        return self._takes_repeated(region, node, ranges) and self._takes_row_value(region, node, ranges)

    def takes_rows(self, region: FusedRegion, node: Node, elements: int) -> bool:
        """Whether a summary of rows of that many elements is better computed here than by a kernel over its rows."""
        is_row = not any(view.reduced for view in region.views[node])
        return is_row or self._work + elements <= SMALL_WORK or size_of(node.shape) < rows_wanted(self._info)

    def take(self, region: FusedRegion, node: Node) -> None:
        """Note that `node` is taken in."""
        if isinstance(node, n.Scan):
            self._scan = node
            return
        ranges = _ranges_of_one_point(region, node)
        assert ranges is not None
        if contraction_operands(node) is not None:
            self._contraction = node
        if isinstance(node, n.Reduce) or any(ranges != view.around for view in region.views[node]):
            self._rows = ranges if self._rows is None else self._rows & ranges
            if isinstance(node, n.Reduce):
                self._work += size_of(node.sources[0].shape)
                self._longest = max(self._longest, size_of(node.sources[0].shape))

    def _takes_contraction(self, region: FusedRegion, ranges: int) -> bool:
        """Whether the root's elements are one to one those of a product of matrices, with no other reduction."""
        every = 0
        for range_ in region.root_ranges.values():
            every |= range_.bit
        return self._contraction is None and self._rows is None and ranges == every

    def _takes_scan(self, region: FusedRegion, node: n.Scan, *, is_stored: bool) -> bool:
        """Whether the root's elements are one to one those of a scan, along one of its ranges, with no other loops."""
        (view,) = region.views[node] if len(region.views[node]) == 1 else (None,)
        if view is None or view.reduced or view.mask not in (None, region.root_mask):
            return False
        if self._scan is not None or self._contraction is not None or self._rows is not None:
            return False
        is_made_for_a_scan = any(number < 0 for number in region.root_ranges)
        if not may_be_followed(node, self._info) and not is_made_for_a_scan:
            return False
        ranges = [index.range for index in view.point if isinstance(index, e.RangeRef)]
        is_plain = all(isinstance(index, e.RangeRef | e.Literal) for index in view.point)
        in_order = ranges == list(region.root_ranges.values())
        is_whole = view.mask is None and size_of(self._root.shape) >= size_of(node.shape)
        return is_plain and in_order and (is_whole or not is_stored) and isinstance(view.point[node.axis], e.RangeRef)

    def _takes_repeated(self, region: FusedRegion, node: Node, ranges: int) -> bool:
        """Whether computing `node` as often as the loops around it say costs less than storing all that they do."""
        if self._work + size_of(node.shape) <= SMALL_WORK:
            return True
        around = {view.around for view in region.views[node]}
        times = sum(region.times_computed(ranges, loops) for loops in around) - region.extent(ranges)
        return inline_cost(node, self._kept) * times < STORE_COST * max(map(region.extent, around))

    def _takes_row_value(self, region: FusedRegion, node: Node, ranges: int) -> bool:
        """Whether a value for each row may be computed in front of what runs over the row."""
        if self._contraction is not None:
            return False
        elements = size_of(node.sources[0].shape) if isinstance(node, n.Reduce) else size_of(node.shape)
        work = self._work + elements
        if work <= SMALL_WORK:
            return True
        rows = ranges if self._rows is None else self._rows & ranges
        every = 0
        for range_ in region.root_ranges.values():
            every |= range_.bit
        if ranges == rows == every and isinstance(node, n.Reduce):
            return True  # by itself it would have no more points
        rows &= every
        count = region.extent(rows)
        last = region.root_ranges.get(self._root.ndim - 1)
        groups = rows_of(count, self._info, are_columns=last is not None and bool(rows & last.bit))
        points = max(self._longest, elements) // groups
        if groups < rows_wanted(self._info) and points > self._info.max_group_threads * _POINTS_OF_A_THREAD:
            return False
        row_bytes = max(size_of(self._root.shape), work) // count * self._root.dtype.itemsize
        budget = self._info.cache_bytes[1] if len(self._info.cache_bytes) > 1 else self._info.local_bytes
        return row_bytes <= budget // 2 or ranges == every


def _ranges_of_one_point(region: FusedRegion, node: Node) -> int | None:
    """Return the ranges of the only view of `node`, if it is unmasked and one to one; None otherwise."""
    points = {(view.point, view.mask) for view in region.views[node]}
    if len(points) > 1:
        return None
    ((point, mask),) = points
    return None if mask is not None else _ranges_of(point)


def _ranges_of(point: Sequence[e.Expr]) -> int | None:
    """Return the ranges of a point if different values of them give different points, else None."""
    ranges = 0
    for index in point:
        if isinstance(index, e.Literal):
            continue
        terms = index.terms if isinstance(index, e.Affine) else ((index, 1),)
        found = []
        for term, factor in terms:
            if not isinstance(term, e.RangeRef) or ranges & term.free:
                return None
            found.append((abs(factor), term.range))
        found.sort(key=lambda item: item[0])
        reach = 1
        for factor, range_ in found:
            if factor < reach:
                return None
            reach = factor * range_.size
            ranges |= range_.bit
    return ranges


def _ranges_of_root(root: Node, info: DeviceInfo, kept: Collection[Node]) -> RootRanges | None:
    """Return the ranges of a kernel whose `root` is made of a node of another shape, which then needs no quotients.

    That is a scan of blocks or backwards, or a product of groups of matrices. None if there is none, or what is `kept`,
    and may be another kernel, lies in between.
    """
    stack: list[tuple[Node, tuple[Move, ...]]] = [(root, ())]
    for _ in range(_MOST_LOOKED_AT):
        if not stack:
            break
        node, path = stack.pop()
        is_apart = node is not root and node in kept and not isinstance(before_rounding(node), n.Scan | n.Reduce)
        if node.storage is not None or is_apart:
            continue
        match node:
            case n.Scan() if path and may_be_followed(node, info) and all(isinstance(move, n.Flip) for move in path):
                return RootRanges(node.shape, path)
            case n.Binary(sources=(n.Expand(), n.Scan() as scan)) if path and scan.storage is None:
                return RootRanges(node.shape, path)
            case n.Reduce() if _is_split(node, root, path):
                return RootRanges(node.shape, path)
            case n.Unary() | n.Binary() | n.Where() | n.Cast() | n.Bitcast():
                stack += [(source, path) for source in reversed(node.sources)]
            case n.Contiguous() if node is root:
                stack.append((node.sources[0], path))
            case n.Reshape() | n.Shrink() | n.Flip():
                stack.append((node.sources[0], (*path, node)))
            case _:
                pass
    return None


def _is_split(node: n.Reduce, root: Node, path: Sequence[Move]) -> bool:
    """Whether a product of matrices has other axes than the root, which has their elements in the same order."""
    sizes, of_root = ([size for size in shape if size > 1] for shape in (node.shape, root.shape))
    is_other = sizes != of_root and all(isinstance(move, n.Reshape) for move in path)
    return is_other and contraction_operands(node) is not None
