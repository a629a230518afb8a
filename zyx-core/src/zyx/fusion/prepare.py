"""Rewrite a graph for one device, before it is divided into kernels.

1. A reduction with too few results to keep the device busy is done in steps (`zyx.fusion.split_reductions`), and scans
   of which there are too few in blocks (`zyx.fusion.scans`).
2. What is asked for but is a constant, or another node's elements in another order, gets a buffer of its own. What is
   only another shape of a node that is needed besides is that node.
3. An `Alias` is its source, and what has no elements is a constant.
4. Sums over windows that are sums themselves become one (`zyx.fusion.windows`).
5. A very long chain of element by element nodes is cut: a kernel of tens of thousands of operations compiles for
   minutes.
6. Sums and products of float16 and bfloat16 are made in float32, and rounded once.
7. Sorting becomes hand-written kernels (`zyx.kernels.sorting`).
8. Scatters take the form that runs in parallel (`zyx.fusion.scattering`).
9. A sum of several products of matrices, as gradients have it, becomes several sums: each is one that is known how to
   compute fast. Products with what is unpacked where it is multiplied stay together, since they share its bytes.
10. Attention becomes one hand-written kernel, where warps multiply matrices (`zyx.kernels.attention`).
11. There, what convolutions multiply is copied to where its channels lie side by side (`zyx.fusion.channels_last`).
12. Fourier transforms become hand-written kernels, or sums of products (`zyx.kernels.fourier`).
13. Pairs that were taken apart and are put together again are what they were (`zyx.fusion.interleaved`).
"""

from __future__ import annotations

import functools
from collections import Counter
from typing import TYPE_CHECKING, Final

from zyx.dtype import accumulator
from zyx.errors import ShapeError
from zyx.fusion.interleaved import interleaved
from zyx.fusion.materialise import contraction_operands, is_made_where_used
from zyx.fusion.movement import MOVEMENT
from zyx.fusion.scans import split_scan
from zyx.fusion.scattering import Helpers, in_parallel
from zyx.fusion.split_reductions import split_reduction
from zyx.fusion.windows import sum_of_windows
from zyx.graph import node as n
from zyx.graph.ends import carry_ends
from zyx.graph.given import Box, Number
from zyx.graph.lines import carry_line
from zyx.graph.rebuild import rebuild
from zyx.lazy_import import lazy_import
from zyx.ops import BinaryOp, ReduceOp, UnaryOp
from zyx.shape import size_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.backend.info import DeviceInfo
    from zyx.fusion import channels_last
    from zyx.graph import Graph
    from zyx.graph.node import Node
    from zyx.kernels import attention, fourier, sorting
else:
    channels_last = lazy_import("zyx.fusion.channels_last", globals())
    attention = lazy_import("zyx.kernels.attention", globals())
    fourier = lazy_import("zyx.kernels.fourier", globals())
    sorting = lazy_import("zyx.kernels.sorting", globals())

#: How many variants of prepared nodes there are, each for devices that refuse the one before.
VARIANTS: Final = 3
#: Positions of more elements than this may overflow 64 bits where padding is added to them.
_MOST_ELEMENTS: Final = 1 << 62
#: Fewer products take one kernel less time than several.
_LEAST_PRODUCTS: Final = 1 << 16
#: What chains of nodes end at.
_LONG: Final = (n.Reduce, n.Scan, n.Scatter, n.Sort, n.Fourier)
#: The longest chain of nodes computed in one kernel.
_LONGEST_CHAIN: Final = 1500


def prepare(
    graph: Graph,
    order: Sequence[Node],
    outputs: Sequence[Node],
    info: DeviceInfo,
    *,
    deterministic: bool = False,
    variant: int = 0,
) -> list[Node]:
    """Return nodes with the values of `outputs`, rewritten for a device.

    Args:
        graph: To make nodes with; not that of the nodes, where an equal one may have its values in memory already.
        order: All nodes that `outputs` need, sources first.
        outputs: What is asked for.
        info: The device.
        deterministic: Whether floats are to be combined in one order, always the same.
        variant: 0 for all hand-written kernels; others, below `count_variants`, leave those out that a device may
            refuse. 1 leaves out attention, transforms and the fastest that sort (`zyx.kernels.sorting.sort_order`), 2
            all that sort.

    Raises:
        ShapeError: A node has too many elements to count.
    """
    new: dict[Node, Node] = {}
    chain: dict[Node, int] = {}
    users = _count_users(order, outputs)
    wanted = set(outputs)
    sorting = functools.partial(_sorted, graph, info=info, variant=variant) if variant < 2 else None
    summed = functools.partial(_reduction, graph, info=info)
    helpers = Helpers(summed, sorting)
    has_windows = any(isinstance(node, n.Unslide) for node in order)
    has_weights = variant == 0 and _may_attend(order, info)
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
        merged = sum_of_windows(graph, node, new, users, summed) if has_windows and isinstance(node, n.Reduce) else None
        if has_weights and isinstance(node, n.Cast) and isinstance(node.sources[0], n.Reduce):
            merged = attention.attended(graph, node, new, users, info)
        current = merged or (sources[0] if isinstance(node, n.Alias) else rebuild(graph, node, sources))
        if isinstance(current, n.Reduce) and current is not sources[0]:
            current = _sum_of_products(graph, node, new, users, info) or _reduction(graph, current, info)
        elif isinstance(current, n.Sort) and current is not sources[0]:
            current = _sorted(graph, current, info, variant)
        elif isinstance(current, n.Fourier) and current is not sources[0]:
            current = fourier.transformed(graph, current, info, variant)
        elif isinstance(current, n.Where) and (whole := interleaved(current)) is not None:
            current = graph.reshape(whole, current.shape)
        elif isinstance(current, n.Scatter) and current is not sources[0]:
            current = in_parallel(graph, current, info, helpers, deterministic=deterministic)
        elif isinstance(current, n.Scan) and current is not sources[0]:
            current = split_scan(graph, current, info)
            if node in wanted and users[node] > 1 and not isinstance(current, n.Scan):  # stored once, as it is
                current = graph.contiguous(current)
        length = 1 + max(chain.get(source, 0) for source in sources)
        if isinstance(node, n.Reduce | n.Scan | n.Scatter | n.Sort | n.Fourier) or isinstance(
            current, n.Reduce | n.Contiguous
        ):
            length = 0
        elif length > _LONGEST_CHAIN:
            current, length = graph.contiguous(current), 0
        carry_line(node, current)
        carry_ends(node, current)
        new[node] = current
        chain[current] = length
    return [_with_buffer(graph, new[_same_elements(node, users)]) for node in outputs]


def _sorted(graph: Graph, node: n.Sort, info: DeviceInfo, variant: int) -> Node:
    """Return what `sort_order` does; imported where something is sorted."""
    return sorting.sort_order(graph, node, info, variant)


def count_variants(order: Sequence[Node], info: DeviceInfo) -> int:
    """Return how many variants of prepared nodes there are, for devices that refuse what the first ones become."""
    if any(isinstance(node, n.Sort) and node.storage is None for node in order):
        return VARIANTS
    if any(isinstance(node, n.Fourier) and node.storage is None for node in order):
        return 2
    return 2 if _may_attend(order, info) else 1


def _may_attend(order: Sequence[Node], info: DeviceInfo) -> bool:
    """Whether there may be attention among nodes that has a hand-written kernel."""
    return bool(info.wmma) and any(isinstance(node, n.Unary) and node.op is UnaryOp.EXP for node in order)


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
    """Look through reshapes to the node whose buffer several users can share.

    Or if it is a product of matrices: no kernel that finds the places of its points by dividing takes that in. Or if
    parts of it were written to: it is where these are.
    """
    below = node
    is_shared = users[node] > 1
    while isinstance(below, n.Reshape | n.Alias) and below.storage is None and 0 not in below.shape:
        below = below.sources[0]
        is_shared = is_shared or users[below] > 1
    is_below = is_shared or isinstance(below, n.Scatter) or contraction_operands(below) is not None
    return below if is_below else node


def _with_buffer(graph: Graph, node: Node) -> Node:
    """Return what lies in a buffer of its own with the elements of `node`: of a hand-written kernel, in its shape."""
    below = node
    while isinstance(below, n.Reshape) and below.storage is None:
        below = below.sources[0]
    if isinstance(below, n.Custom) and below.storage is None:
        return below
    if node.storage is None and isinstance(node, (n.Const, n.Iota, Number, Box, *MOVEMENT)):
        return graph.contiguous(node)
    return node


def _sum_of_products(
    graph: Graph, node: Node, new: Mapping[Node, Node], users: Mapping[Node, int], info: DeviceInfo
) -> Node | None:
    """Return a sum of sums of products, some of which are products of matrices, as the sum of these; None for others.

    Gradients are added up where a value was repeated for several products, before the sum over the repetitions.
    """
    if not isinstance(node, n.Reduce) or node.op is not ReduceOp.SUM:
        return None
    if size_of(node.sources[0].shape) < _LEAST_PRODUCTS:
        return None
    summands = _summands(node.sources[0], users)
    if len(summands) == 1:
        return None
    sums = [graph.reduce(ReduceOp.SUM, new[summand], node.axes) for summand in summands]
    operands = [found for part in sums if (found := contraction_operands(part)) is not None]
    if not operands or any(is_made_where_used(operand) for found in operands for operand in found):
        return None
    total: Node | None = None
    for part in sums:
        current = _reduction(graph, part, info) if isinstance(part, n.Reduce) else part
        total = current if total is None else graph.binary(BinaryOp.ADD, total, current)
    return total


def _summands(node: Node, users: Mapping[Node, int]) -> list[Node]:
    """Return the summands of a chain of additions whose intermediate sums have no other users."""
    if isinstance(node, n.Binary) and node.op is BinaryOp.ADD and node.storage is None and users[node] == 1:
        return [summand for source in node.sources for summand in _summands(source, users)]
    return [node]


def _reduction(graph: Graph, node: n.Reduce, info: DeviceInfo) -> Node:
    """Return the reduction as it is to be computed: in its accumulator's type, and in two steps if that is better."""
    wide = accumulator(node.dtype)
    if wide is node.dtype or node.op not in (ReduceOp.SUM, ReduceOp.PROD):
        return _laid_out(graph, node, info)
    total = graph.reduce(node.op, graph.cast(node.sources[0], wide), node.axes)
    if isinstance(total, n.Reduce):
        total = _laid_out(graph, total, info)
    return graph.cast(total, node.dtype)


def _laid_out(graph: Graph, node: n.Reduce, info: DeviceInfo) -> Node:
    """Return the reduction, split if it has too few results, or with channels-last factors for tensor cores."""
    staged = split_reduction(graph, node, info)
    if staged is not node or not info.wmma or contraction_operands(node) is None:
        return staged
    return channels_last.channels_last(graph, node, info)
