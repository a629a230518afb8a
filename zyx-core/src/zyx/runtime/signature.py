"""The structure of a graph as a key: equal keys, equal plans.

A key says everything that a plan depends on: each node's class, attributes, shape, dtype, device and sources by
position, as far as one does not follow from the others, and which nodes are asked for. Buffers are named by position
only. Keys are compared as a whole, so a plan is never taken for another's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from zyx.graph.node import Binary

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from zyx.graph.node import Node

Key: TypeAlias = "Hashable"


def signature(outputs: Sequence[Node]) -> tuple[Key, list[Node], list[Node]]:
    """Return (key, the leaves in the order that the key counts them in, all nodes in topological order).

    Leaves are the nodes with storage, and those without sources that stand for inputs.
    """
    # In the order of `zyx.graph.walk.topological`, but in one pass with what is made of it: half the time.
    position: dict[Node, int] = {}
    leaves: list[Node] = []
    entries: list[object] = []
    above: list[Node | None] = []
    node: Node | None = None
    sources: Sequence[Node] = outputs
    while True:
        for source in sources:
            if source in position:
                continue
            if source.storage is None and source.sources:
                above.append(node)
                node, sources = source, source.sources
                break
            if source.storage is None and source.attributes:
                entries.append((type(source), source.attributes, source.shape, source.dtype, source.device))
            else:
                leaves.append(source)
                entries.append((source.shape, source.dtype, source.device))
            position[source] = len(position)
        else:
            if node is None:
                break
            if type(node) is Binary:  # as most are; these have all the rest from their sources
                x, y = sources
                entries.append((node.op, position[x], position[y]))
            else:
                places = [position[source] for source in sources]
                entries.append((type(node), node.attributes, node.shape, node.dtype, node.device, *places))
            position[node] = len(position)
            node = above.pop()
            sources = outputs if node is None else node.sources
    entries.append(tuple([position[node] for node in outputs]))
    return tuple(entries), leaves, list(position)
