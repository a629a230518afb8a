"""What computing a node again would cost, in units of one simple operation on one element."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.graph import node as n
from zyx.ops import TRANSCENDENTAL, BinaryOp, UnaryOp
from zyx.shape import size_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from zyx.graph.node import Node

#: Storing an element and reading it back costs about as much as so many simple operations: of elements of 4 bytes, or
#: of 8, for which operations take twice as long, too.
STORE_COST: Final = 8

#: Nodes below another that are looked at, at most, to see what it reads.
_MOST_SOURCES: Final = 64

_SLOW_BINARY: Final = {BinaryOp.DIV: 4, BinaryOp.MOD: 8, BinaryOp.POW: 40}
_RANDOM_COST: Final = 100


def own_cost(node: Node) -> int:
    """Return the cost of one element of `node`, its sources given."""
    match node:
        case n.Unary(op=op):
            if op in TRANSCENDENTAL:
                return 16
            return 4 if op in (UnaryOp.SQRT, UnaryOp.RECIPROCAL) else 1
        case n.Binary(op=op):
            return _SLOW_BINARY.get(op, 1)
        case n.Where() | n.Cast() | n.Bitcast():
            return 1
        case n.RandomBits():
            return _RANDOM_COST
        case n.Gather():
            return 4
        case _:
            return 0


def inline_cost(node: Node, known: Collection[Node]) -> int:
    """Return the cost of one element of `node` from what is `known` or in memory, counting at most what decides."""
    total = 0
    seen: set[Node] = set()
    stack = [node]
    while stack and total <= 4 * STORE_COST:
        current = stack.pop()
        if current in seen or (current in known and current is not node) or is_source(current):
            continue
        seen.add(current)
        total += own_cost(current)
        stack.extend(current.sources)
    return total


def store_cost(node: Node) -> int:
    """Return the cost of storing an element of `node` and reading it back: less for short ones."""
    return STORE_COST * min(node.dtype.itemsize, 4) // 4


def reading_cost(node: Node, known: Collection[Node]) -> int:
    """Return the extra cost of reading the sources of an element of `node` instead of the element itself.

    A byte from memory costs about as much as an operation.
    """
    return max(0, bytes_read(node, known) - node.dtype.itemsize)


def bytes_read(node: Node, known: Collection[Node]) -> int:
    """Return how many bytes an element of `node` is made of, of what is `known` or in memory.

    What is shown again and again, such as a row that is added to a matrix, counts by what lies in memory.
    """
    size = max(1, size_of(node.shape))
    found: dict[Node, None] = {}
    stack = list(node.sources)
    seen = {node}
    while stack and len(seen) < _MOST_SOURCES:
        current = stack.pop()
        if current in seen:
            continue
        seen.add(current)
        if current in known or is_source(current):
            found[current] = None
        else:
            stack.extend(current.sources)
    read = sum(
        source.dtype.itemsize * min(1, size_of(source.shape) / size)
        for source in found
        if not isinstance(source, n.Const | n.Iota) or source.storage is not None
    )
    return int(read)


def is_source(node: Node) -> bool:
    """Whether the values of `node` are there without a kernel that computes them."""
    return node.storage is not None or isinstance(node, n.Leaf | n.Const | n.Iota)
