"""The structure of a graph as a key: equal keys, equal plans.

A key says everything that a plan depends on: each node's class, attributes, shape, dtype, device and sources by
position, and which nodes are asked for. Buffers are named by position only. Keys are compared as a whole, so a plan
is never taken for another's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from zyx.graph.walk import topological

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from zyx.graph.node import Node

Key: TypeAlias = "Hashable"


def signature(outputs: Sequence[Node]) -> tuple[Key, list[Node], list[Node]]:
    """Return (key, the leaves in the order that the key counts them in, all nodes in topological order).

    Leaves are the nodes with storage, and those without sources that stand for inputs.
    """
    order = topological(outputs)
    position: dict[Node, int] = {}
    leaves: list[Node] = []
    entries: list[object] = []
    for number, node in enumerate(order):
        position[node] = number
        if node.storage is not None or not (node.sources or node.attributes):
            leaves.append(node)
            entries.append((node.shape, node.dtype, node.device))
        else:
            sources = tuple([position[source] for source in node.sources])
            entries.append((type(node), node.attributes, node.shape, node.dtype, node.device, sources))
    entries.append(tuple([position[node] for node in outputs]))
    return tuple(entries), leaves, order
