"""Keep what a device of tiles computes apart from what the host has to compute for it.

    sin(x) ^ bits(y)        sin on the device, bits and ^ on the host: three kernels to be, of which none is of both

Other devices have every operation, written in others if need be, and nothing is kept apart for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.fusion.cost import is_source
from zyx.fusion.movement import MOVEMENT
from zyx.graph import node as n
from zyx.ops import COMPARISONS, BinaryOp, ReduceOp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend.info import DeviceInfo
    from zyx.dtype import DType
    from zyx.graph.node import Node

#: What tiles are reduced by.
_REDUCTIONS: Final = frozenset({ReduceOp.SUM, ReduceOp.MAX, ReduceOp.MIN, ReduceOp.OR, ReduceOp.AND})


def is_elsewhere(node: Node, info: DeviceInfo) -> bool:
    """Whether a device of tiles leaves a node, whose sources are there, to the host."""

    def computes(dtype: DType) -> bool:
        return dtype.is_bool or info.can_compute(dtype)

    if _is_place(node) or (isinstance(node, n.Binary) and node.op in COMPARISONS and any(map(_is_place, node.sources))):
        return False  # whole numbers are compared with places, or with one number
    match node:
        case n.Unary(op=op):
            capability = info.capabilities.get(node.dtype)
            return capability is None or op not in capability.unary
        case n.Binary(op=op, sources=(x, _)):
            capability = info.capabilities.get(x.dtype)
            return capability is None or op not in capability.binary
        case n.Cast(sources=(x,)):
            is_staged = isinstance(_computed(x), n.Iota) or (x.dtype.bits <= 16 and is_source(_computed(x)))
            return not (computes(node.dtype) and (computes(x.dtype) or is_staged))
        case n.Where():
            return not computes(node.dtype)
        case n.Reduce(op=op):
            return op not in _REDUCTIONS or not computes(node.dtype)
        case n.Contiguous():
            return not computes(node.dtype)
        case n.Alias():
            return False
        case _:
            return True


def _is_place(node: Node) -> bool:
    """Whether the whole numbers of a node are sums of multiples of places, as what is tested for triangles."""
    computed = _computed(node)
    if computed.dtype not in (dtypes.int32, dtypes.int64):
        return False
    match computed:
        case n.Iota() | n.Const():
            return True
        case n.Binary(op=BinaryOp.ADD | BinaryOp.SUB, sources=sources) if computed.storage is None:
            return all(map(_is_place, sources))
        case _:
            return False


def nodes_apart(order: Sequence[Node], outputs: Sequence[Node], info: DeviceInfo) -> set[Node]:
    """Return nodes to compute in kernels of their own, so that no kernel is partly the host's.

    Args:
        order: All nodes that `outputs` need, sources first.
        outputs: What is asked for.
        info: The device; of one that does not compute on tiles, there are none.
    """
    if info.tiles is None:
        return set()
    known: dict[Node, bool] = {}

    def of_host(node: Node) -> bool:
        if node not in known:
            known[node] = is_elsewhere(node, info)
        return known[node]

    found: set[Node] = set()
    for node in order:
        if node.storage is not None or isinstance(node, MOVEMENT):
            continue
        for source in node.sources:
            computed = _computed(source)
            if not is_source(computed) and of_host(computed) != of_host(node):
                found.add(computed)
    return found


def _computed(node: Node) -> Node:
    """Return the node whose elements `node` has, in another order perhaps."""
    while isinstance(node, MOVEMENT) and node.storage is None:
        node = node.sources[0]
    return node
