"""Orders in which the nodes of a graph are visited, without recursion: a graph may be thousands of nodes deep."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zyx.graph.node import Node


def topological(outputs: Iterable[Node], *, through_storage: bool = False) -> list[Node]:
    """Return the nodes that `outputs` need, sources first, each once.

    Nodes with storage are included but their sources are not, unless `through_storage`.
    """
    order: list[Node] = []
    done: set[Node] = set()
    stack: list[tuple[Node, bool]] = [(node, False) for node in reversed(list(outputs))]
    while stack:
        node, expanded = stack.pop()
        if node in done:
            continue
        if expanded or not node.sources or (node.storage is not None and not through_storage):
            done.add(node)
            order.append(node)
            continue
        stack.append((node, True))
        stack.extend((source, False) for source in reversed(node.sources) if source not in done)
    return order


def consumers(order: Iterable[Node]) -> dict[Node, list[Node]]:
    """Return for each node of `order` the nodes of `order` that read it; one that reads it twice is listed once."""
    order = list(order)
    result: dict[Node, list[Node]] = {node: [] for node in order}
    for node in order:
        for source in dict.fromkeys(node.sources):
            if source in result:
                result[source].append(node)
    return result
