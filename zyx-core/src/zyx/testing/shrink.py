"""The smallest part of a graph that still fails.

    smallest = shrink(case, lambda part: not is_right(part))

First one node is looked for that is wrong by itself, the earliest there is; then whatever it does not need to be wrong
is replaced by leaves that hold what the oracle says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.graph import Graph
from zyx.graph import node as n
from zyx.graph.rebuild import rebuild
from zyx.graph.walk import topological
from zyx.testing.graphs import GraphCase

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zyx.graph import Node
    from zyx.testing.values import Array


def transplant(
    nodes: Sequence[Node], graph: Graph, make_leaf: Callable[[Node], Node], given: Mapping[Node, Node] | None = None
) -> list[Node]:
    """Return `nodes` made again in `graph`; `make_leaf` makes the leaves, `given` has what stands for some nodes."""
    new = dict(given or {})
    for node in topological(nodes):
        if node in new:
            continue
        sources = [new[source] for source in node.sources]
        match node:
            case n.Leaf():
                new[node] = make_leaf(node)
            case n.Const(value=value):
                new[node] = graph.const(value, node.dtype, node.device, node.shape)
            case n.Iota(axis=axis):
                new[node] = graph.iota(node.shape, axis, node.dtype, node.device)
            case n.Alias(detached=False):
                new[node] = graph.alias(sources[0])
            case _:
                new[node] = rebuild(graph, node, sources)
    return [new[node] for node in nodes]


def shrink(case: GraphCase, fails: Callable[[GraphCase], bool], most: int = 200) -> GraphCase:
    """Return a part of `case` that fails as well, having asked at most `most` times.

    Args:
        case: A graph that fails. Its nodes have no storage.
        fails: Whether a part of it does.
        most: Each question runs a graph.
    """
    search = _Search(fails, most)
    for node in topological(case.outputs):
        if not isinstance(node, n.Leaf):
            part = _part(case, [node])
            if search.fails(part):
                case = part
                break
    else:
        for output in list(case.outputs):
            part = _part(case, [other for other in case.outputs if other is not output])
            if part.outputs and search.fails(part):
                case = part
    return _cut(case, search)


class _Search:
    """Asks, within a budget."""

    def __init__(self, fails: Callable[[GraphCase], bool], most: int) -> None:
        self._fails = fails
        self.left = most

    def fails(self, case: GraphCase) -> bool:
        self.left -= 1
        return self.left >= 0 and self._fails(case)


def _part(case: GraphCase, outputs: list[Node]) -> GraphCase:
    needed = set(topological(outputs))
    return GraphCase(case.graph, outputs, {node: array for node, array in case.values.items() if node in needed})


def _cut(case: GraphCase, search: _Search) -> GraphCase:
    """Replace nodes by leaves as long as that leaves a failure, those next to the outputs first."""
    tried: set[Node] = set()
    while search.left > 0:
        order = topological(case.outputs)
        inner = [node for node in order if node.sources and node not in case.outputs and node not in tried]
        if not inner:
            break
        chosen = inner[-1]
        tried.add(chosen)
        part = _with_leaf(case, chosen, case.references(order)[chosen].value)
        if search.fails(part):
            case, tried = part, set()
    return case


def _with_leaf(case: GraphCase, cut: Node, value: Array) -> GraphCase:
    graph = Graph()
    values: dict[Node, Array] = {}

    def leaf(node: Node) -> Node:
        made: Node = graph.leaf(node.shape, node.dtype, node.device)
        values[made] = case.values[node]
        return made

    stub: Node = graph.leaf(cut.shape, cut.dtype, cut.device)
    values[stub] = value
    return _part(GraphCase(graph, [], values), transplant(case.outputs, graph, leaf, {cut: stub}))
