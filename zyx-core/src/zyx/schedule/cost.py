"""What computing a node again would cost, in units of one simple operation on one element."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.graph import node as n
from zyx.ops import TRANSCENDENTAL, BinaryOp, UnaryOp

if TYPE_CHECKING:
    from collections.abc import Collection

    from zyx.graph.node import Node

#: Storing an element and reading it back costs about as much as so many simple operations.
STORE_COST: Final = 8

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


def is_source(node: Node) -> bool:
    """Whether the values of `node` are there without a kernel that computes them."""
    return node.storage is not None or isinstance(node, n.Leaf | n.Const | n.Iota)
