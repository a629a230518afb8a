"""Rewrite a graph for one device, before it is divided into kernels.

1. A reduction with too few results to keep the device busy is done in two: of blocks, then of the blocks' results.
2. What is asked for but is a constant, or another node's elements in another order, gets a buffer of its own. What is
   only another shape of a node that is needed besides is that node.
3. An `Alias` is its source, and what has no elements is a constant.
4. Sums over windows that are sums themselves become one (`zyx.schedule.windows`).
5. A very long chain of element by element nodes is cut: a kernel of tens of thousands of operations compiles for
   minutes.
6. Sums and products of float16 and bfloat16 are made in float32, and rounded once.
7. Sorting becomes hand-written kernels (`zyx.schedule.sorting`).
8. Scatters take the form that runs in parallel (`zyx.schedule.scattering`).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from zyx.dtype import accumulator
from zyx.errors import ShapeError
from zyx.graph import node as n
from zyx.graph.rebuild import rebuild
from zyx.ops import ReduceOp, identity
from zyx.schedule.materialise import contraction_operands
from zyx.schedule.movement import MOVEMENT
from zyx.schedule.scattering import in_parallel
from zyx.schedule.sorting import sort_order
from zyx.schedule.windows import sum_of_windows
from zyx.shape import size_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.backend.info import DeviceInfo
    from zyx.graph import Graph
    from zyx.graph.node import Node

#: Fewer elements than this are reduced in one go, however few results there are.
_SPLIT_SIZE: Final = 1 << 16
#: Elements of a block that takes a thread long enough to be worth a round of its own, and how many times as many such
#: blocks there may be as even out the work of threads that are equally fast: others finish sooner in smaller steps.
_LONG_BLOCK: Final = 1 << 18
_MOST_ROUNDS: Final = 8
#: Positions of more elements than this may overflow 64 bits where padding is added to them.
_MOST_ELEMENTS: Final = 1 << 62
#: The longest chain of nodes computed in one kernel.
_LONGEST_CHAIN: Final = 1500


def prepare(
    graph: Graph, order: Sequence[Node], outputs: Sequence[Node], info: DeviceInfo, *, deterministic: bool = False
) -> list[Node]:
    """Return nodes with the values of `outputs`, rewritten for a device.

    Args:
        graph: To make nodes with; not that of the nodes, where an equal one may have its values in memory already.
        order: All nodes that `outputs` need, sources first.
        outputs: What is asked for.
        info: The device.
        deterministic: Whether floats are to be combined in one order, always the same.

    Raises:
        ShapeError: A node has too many elements to count.
    """
    new: dict[Node, Node] = {}
    chain: dict[Node, int] = {}
    users = _count_users(order, outputs)
    has_windows = any(isinstance(node, n.Unslide) for node in order)
    for node in order:
        _check_size(node)
        if 0 in node.shape:
            new[node] = graph.const(0, node.dtype, node.device, node.shape)
            continue
        graph.adopt(node)
        if node.storage is not None or not node.sources:
            new[node] = node
            continue
        sources = [new[source] for source in node.sources]
        merged = sum_of_windows(graph, node, new, users) if has_windows and isinstance(node, n.Reduce) else None
        current = merged or (sources[0] if isinstance(node, n.Alias) else rebuild(graph, node, sources))
        if isinstance(current, n.Reduce) and current is not sources[0]:
            current = _reduction(graph, current, info)
        elif isinstance(current, n.Sort) and current is not sources[0]:
            current = sort_order(graph, current, info)
        elif isinstance(current, n.Scatter) and current is not sources[0]:
            current = in_parallel(graph, current, info, deterministic=deterministic)
        length = 1 + max(chain.get(source, 0) for source in sources)
        if (
            isinstance(node, n.Reduce)
            or isinstance(current, n.Reduce | n.Scan | n.Scatter | n.Contiguous)
            or isinstance(node, n.Sort)
        ):
            length = 0
        elif length > _LONGEST_CHAIN:
            current, length = graph.contiguous(current), 0
        new[node] = current
        chain[current] = length
    return [_with_buffer(graph, new[_same_elements(node, users)]) for node in outputs]


def _check_size(node: Node) -> None:
    """Refuse what would be counted wrongly."""
    size = size_of(node.shape)
    if size > _MOST_ELEMENTS:
        raise ShapeError(
            f"{node!r} has {size} elements; positions of more than {_MOST_ELEMENTS} do not fit 64 bits: "
            "take a smaller shape"
        )


def _count_users(order: Sequence[Node], outputs: Sequence[Node]) -> Counter[Node]:
    """Return how many nodes read each node, and how often it is asked for."""
    users = Counter(outputs)
    for node in order:
        if node.storage is None:
            users.update(node.sources)
    return users


def _same_elements(node: Node, users: Mapping[Node, int]) -> Node:
    """Return the node that `node` is another shape of, if others need that too: one buffer is enough for all.

    Or if it is a product of matrices: no kernel that finds the places of its points by dividing takes that in.
    """
    below = node
    is_shared = users[node] > 1
    while isinstance(below, n.Reshape | n.Alias) and below.storage is None and 0 not in below.shape:
        below = below.sources[0]
        is_shared = is_shared or users[below] > 1
    return below if is_shared or contraction_operands(below) is not None else node


def _with_buffer(graph: Graph, node: Node) -> Node:
    if node.storage is None and isinstance(node, (n.Const, n.Iota, *MOVEMENT)):
        return graph.contiguous(node)
    return node


def _reduction(graph: Graph, node: n.Reduce, info: DeviceInfo) -> Node:
    """Return the reduction as it is to be computed: in its accumulator's type, and in two steps if that is better."""
    wide = accumulator(node.dtype)
    if wide is node.dtype or node.op not in (ReduceOp.SUM, ReduceOp.PROD):
        return _split_reduction(graph, node, info)
    total = graph.reduce(node.op, graph.cast(node.sources[0], wide), node.axes)
    if isinstance(total, n.Reduce):
        total = _split_reduction(graph, total, info)
    return graph.cast(total, node.dtype)


def _split_reduction(graph: Graph, node: n.Reduce, info: DeviceInfo) -> Node:
    """Return the reduction in two steps if it has too few results for the device and enough to do."""
    (source,) = node.sources
    results = size_of(node.shape)
    count = size_of(source.shape) // max(results, 1)
    wanted = info.units * max(info.max_group_threads, 1) * 4
    if size_of(source.shape) < _SPLIT_SIZE or results >= info.units * 4 or contraction_operands(node) is not None:
        return node
    blocks = min(max(wanted, min(_MOST_ROUNDS * wanted, count // _LONG_BLOCK)), count // 1024)
    if blocks * results <= results or blocks < 2:
        return node
    axis, size = max(((axis, source.shape[axis]) for axis in node.axes), key=lambda item: (item[1], -item[0]))
    if size < blocks:  # several axes of moderate size: one at a time, the outermost last
        if len(node.axes) == 1:
            return node
        inner = graph.reduce(node.op, source, node.axes[1:])
        return graph.reduce(node.op, inner, node.axes[:1])
    blocks = _near_divisor(size, blocks)
    per_block = -(-size // blocks)
    missing = blocks * per_block - size
    if missing:
        widths = [(0, missing if i == axis else 0) for i in range(source.ndim)]
        source = graph.pad(source, widths, identity(node.op, node.dtype))
    shape = (*source.shape[:axis], blocks, per_block, *source.shape[axis + 1 :])
    within = tuple(a if a < axis else a + 1 for a in node.axes)
    partial = graph.reduce(node.op, graph.reshape(source, shape), within)
    total = graph.reduce(node.op, partial, (axis,))
    return graph.reshape(total, node.shape)


def _near_divisor(size: int, wanted: int) -> int:
    """Return a divisor of `size` between half and twice `wanted` if there is one, the nearest first; else `wanted`."""
    for distance in range(wanted):
        for candidate in (wanted + distance, wanted - distance):
            if wanted // 2 <= candidate <= 2 * wanted and candidate > 1 and size % candidate == 0:
                return candidate
    return wanted
