"""Choose the nodes of a graph that are computed once and kept, in memory or within a kernel.

Kept are

1. what is asked for, `Contiguous`, `ToDevice` and `Scatter` nodes and scans, `Custom` nodes and what these read;
2. every reduction;
3. a node that costs something and is repeated by an `Expand` many times: it is computed once, not for every repetition;
4. what a product of matrices multiplies, if it has to be computed at all; rounded, if that takes less memory, also of
   what is in memory; and if rows of it lie in short pieces there, which would be put together again for every use.
   Packed weights are not, that few rows are multiplied with: see `is_made_where_used`;
5. what a reduction is rounded to, if nothing else needs the reduction: less is stored than of the reduction itself;
6. what is needed at several points, by one kept node or by several, if computing it again at each costs more than
   storing it and reading it back: see `zyx.fusion.recomputation`;
7. what a reduction combines, if that needs several other reductions at the same points: see `row_summaries`.

Everything else is computed where it is needed. What is kept becomes a kernel of its own, or part of one: see
`zyx.fusion.partition`.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import TYPE_CHECKING, Final

from zyx.fusion.cost import bytes_read, is_source, own_cost
from zyx.fusion.movement import MOVEMENT
from zyx.fusion.recomputation import limit_recomputation
from zyx.graph import node as n
from zyx.ops import BinaryOp, ReduceOp
from zyx.schedule.seeds.skinny_products import FEW_ROWS
from zyx.shape import size_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from zyx.graph.node import Node

_ALWAYS = (n.Contiguous, n.ToDevice, n.Custom, n.Scatter, n.Scan, n.Reduce)
#: What costs so many operations an element, and is repeated so often, is computed once.
_EXPANSION: Final = 4
#: Rows of pieces of fewer elements are put together for products of so many numbers, if each is used so often; and
#: what lies in memory is rounded for them.
_LEAST_PIECE: Final = 64
_LEAST_PRODUCTS: Final = 1 << 20
_LEAST_USES: Final = 64


def is_always_kept(node: Node) -> bool:
    """Whether `node` is kept whatever it costs to compute it again."""
    return isinstance(node, _ALWAYS)


def choose_materialised(order: Sequence[Node], outputs: Sequence[Node], recomputed: Collection[Node] = ()) -> set[Node]:
    """Return the nodes to keep among `order`, which is topological; nodes with storage and leaves are not.

    Args:
        order: All nodes that `outputs` need.
        outputs: What is asked for.
        recomputed: What is not to be kept because of what it costs.
    """
    kept = {node for node in order if not is_source(node) and is_always_kept(node)}
    must = {node for node in outputs if not is_source(node)}
    for node in order:
        if isinstance(node, n.Custom) and node.storage is None:
            must.update(source for source in node.sources if not _is_buffer(source))
    kept.update(must)
    made: set[Node] = set()
    for node in order:
        if isinstance(node, n.Expand) and node.storage is None:
            _keep_expanded(node, kept)
        for operand in products_operands(node):
            if is_made_where_used(operand):
                made.add(operand)
            elif contraction_operands(node):
                _keep_operand(operand, kept)
                _keep_in_pieces(operand, kept)
    kept.update(_rounded(order, outputs))
    limit_recomputation(order, kept, made)
    kept.update(row_summaries(order, kept))
    return kept - {node for node in recomputed if node not in must and not is_always_kept(node)}


def _rounded(order: Sequence[Node], outputs: Sequence[Node]) -> set[Node]:
    """Return what reductions are converted to, of fewer bits, where they are needed for nothing else."""
    casts: set[Node] = {node for node in order if isinstance(node, n.Cast) and node.storage is None}
    casts = {node for node in casts if node.dtype.bits < node.sources[0].dtype.bits}
    if not casts:
        return casts
    users = Counter(outputs)
    for node in order:
        if node.storage is None:
            users.update(node.sources)
    found = {cast: before_rounding(cast) for cast in casts}
    return {cast for cast, below in found.items() if below is not cast and users[below] == 1 == users[cast.sources[0]]}


def before_rounding(node: Node) -> Node:
    """Return the reduction that `node` has the results of, converted to fewer bits, or `node` if it is no such."""
    if not isinstance(node, n.Cast) or node.dtype.bits >= node.sources[0].dtype.bits:
        return node
    below = node.sources[0]
    while isinstance(below, n.Reshape | n.Permute) and below.storage is None:
        below = below.sources[0]
    return below if isinstance(below, n.Reduce) and below.storage is None else node


def row_summaries(order: Sequence[Node], kept: set[Node]) -> dict[Node, int]:
    """Return nodes that summarise rows, such as the losses of examples, with the number of elements these rows have.

    A sum of such losses has one result, too few for the rows to be shared out; but one kernel can compute the losses,
    with all the reductions that each needs, where otherwise each reduction would be a kernel whose results are stored.
    """
    found: dict[Node, int] = {}
    for node in order:
        if not isinstance(node, n.Reduce) or node.storage is not None:
            continue
        operand = node.sources[0]
        while operand.storage is None and isinstance(operand, n.Reshape | n.Permute | n.Flip | n.Pad):
            operand = operand.sources[0]
        if operand.storage is None and isinstance(operand, n.Unary | n.Binary | n.Where | n.Cast):
            rows = [
                below
                for below in _kept_below(operand, kept)
                if isinstance(below, n.Reduce) and size_of(below.shape) == size_of(operand.shape)
            ]
            if len(rows) > 1:
                found[operand] = sum(size_of(row.sources[0].shape) for row in rows)
    return found


def _kept_below(node: Node, kept: set[Node]) -> list[Node]:
    """Return the kept nodes that `node` needs with nothing kept in between."""
    found: dict[Node, None] = {}
    seen = {node}
    stack = [node]
    while stack:
        for source in stack.pop().sources:
            if source in kept:
                found[source] = None
            elif source.storage is None and source not in seen:
                seen.add(source)
                stack.append(source)
    return list(found)


def contraction_operands(node: Node) -> tuple[Node, Node] | None:
    """Return the factors if `node` is a sum of products of two operands that are both repeated, else None.

    Products of matrices and convolutions are such sums.
    """
    if not isinstance(node, n.Reduce) or node.op is not ReduceOp.SUM or node.storage is not None:
        return None
    product = node.sources[0]
    while isinstance(product, n.Cast) and product.storage is None:
        product = product.sources[0]
    if not isinstance(product, n.Binary) or product.op is not BinaryOp.MUL or product.storage is not None:
        return None
    first, second = product.sources
    return (first, second) if _repetition(first) > 1 and _repetition(second) > 1 else None


def products_operands(node: Node) -> list[Node]:
    """Return the factors if `node` is a sum of products, one or several added up, which may have a scale in common.

    Each product is as `contraction_operands` says.
    """
    if not isinstance(node, n.Reduce) or node.op is not ReduceOp.SUM or node.storage is not None:
        return []
    found: list[Node] = []
    above = [node.sources[0]]
    while above:
        product = above.pop()
        while isinstance(product, n.Cast) and product.storage is None:
            product = product.sources[0]
        if not isinstance(product, n.Binary) or product.storage is not None:
            continue
        if product.op is BinaryOp.MUL and all(_repetition(factor) > 1 for factor in product.sources):
            found += product.sources
        elif product.op in (BinaryOp.ADD, BinaryOp.MUL):
            above += product.sources
    return found


def _is_buffer(node: Node) -> bool:
    return node.storage is not None or isinstance(node, n.Leaf)


def _repetition(node: Node) -> int:
    """Return how often the movement above a node shows each of its elements that it shows at all."""
    top = shown = size_of(node.shape)
    while node.storage is None and isinstance(node, (*MOVEMENT, n.Cast)):
        node = node.sources[0]
        shown = min(shown, size_of(node.shape))
    return top // max(1, shown)


def below_movement(node: Node) -> Node:
    """Return the first node below `node` that is more than movement and conversion."""
    while node.storage is None and isinstance(node, (*MOVEMENT, n.Cast, n.Alias)):
        node = node.sources[0]
    return node


def _keep_expanded(node: Node, kept: set[Node]) -> None:
    source = node.sources[0]
    while isinstance(source, MOVEMENT) and source.storage is None:
        source = source.sources[0]
    factor = size_of(node.shape) // max(1, size_of(node.sources[0].shape))
    if not is_source(source) and min(factor, own_cost(source)) >= _EXPANSION:
        kept.add(source)


def is_made_where_used(operand: Node) -> bool:
    """Whether what is multiplied is computed by each kernel that multiplies it, and not stored for that.

    So are numbers that few results use each, and that are made of less than half the bytes that they have: packed
    weights, with few rows. Schedules write the few rows out, so that a number is made once for all of them.
    """
    below = below_movement(operand)
    return (
        1 < _repetition(operand) <= FEW_ROWS
        and not is_source(below)
        and not is_always_kept(below)
        and bytes_read(below, ()) * 2 < below.dtype.itemsize
    )


def _keep_operand(operand: Node, kept: set[Node]) -> None:
    below = below_movement(operand)
    # Of a chain of conversions the smallest result is stored: it is what a library takes for a factor, too.
    rounded, node = below, operand
    while node is not below:
        if isinstance(node, n.Cast) and _is_whole(node, below) and node.dtype.bits < rounded.dtype.bits:
            rounded = node
        node = node.sources[0]
    if not is_source(below):
        kept.add(rounded)
    elif rounded is not below and size_of(operand.shape) >= _LEAST_PRODUCTS and _repetition(operand) >= _LEAST_USES:
        kept.add(rounded)  # once, instead of for every use


def _keep_in_pieces(operand: Node, kept: set[Node]) -> None:
    """Keep what makes rows of `operand` of pieces that lie apart: patches of images, for one."""
    if size_of(operand.shape) < _LEAST_PRODUCTS or _repetition(operand) < _LEAST_USES:
        return
    whole = size_of(below_movement(operand).shape)
    while operand.storage is None and isinstance(operand, (*MOVEMENT, n.Cast)):
        if isinstance(operand, n.Reshape) and size_of(operand.shape) <= whole and _piece(operand) < _LEAST_PIECE:
            kept.add(operand)
            return
        operand = operand.sources[0]


def _piece(node: n.Reshape) -> float:
    """Return the contiguous elements within the merged last axis of a reshape; infinity if it merges no others.

    The last such axis counts: products sum along it.
    """
    moved = node.sources[0]
    if not isinstance(moved, n.Permute) or moved.storage is not None:
        return math.inf
    axis, size, axes = moved.ndim, 1, []
    while axis and size < node.shape[-1]:  # those that the last axis is made of
        axis -= 1
        size *= moved.shape[axis]
        axes.append(axis)
    if size != node.shape[-1]:
        return math.inf
    together = 1
    for inner, outer in itertools.pairwise(axes):
        together *= moved.shape[inner]
        if moved.shape[outer] > 1 and moved.order[outer] + 1 != moved.order[inner]:
            return together
    return math.inf


def _is_whole(node: Node, below: Node) -> bool:
    """Whether `node` has each element of `below` once, converted and moved."""
    while node is not below:
        if isinstance(node, MOVEMENT) and not isinstance(node, n.Reshape | n.Permute | n.Flip):
            return False
        node = node.sources[0]
    return True
