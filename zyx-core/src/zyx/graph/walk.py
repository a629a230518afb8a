"""Orders in which the nodes of a graph are visited, without recursion: a graph may be thousands of nodes deep."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from zyx.graph import node as n

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping

    from zyx.graph.node import Node

#: The classes at which gradients end: without sources, or of bits. So do they at a detached `Alias` and at integers.
NO_GRADIENT: Final = frozenset({n.Const, n.Iota, n.Leaf, n.Bitcast, n.RandomBits, n.Sort})

NO_HISTORY: Final[Mapping[Node, Node]] = MappingProxyType({})


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


def below(node: Node) -> tuple[Node, ...]:
    """Return what `node` reads, and what gradients at it go to by a rule."""
    rule = node.rule if isinstance(node, n.Alias) else None
    return node.sources if rule is None else (*node.sources, *rule.inputs)


def with_inputs_of_rules(outputs: Iterable[Node]) -> list[Node]:
    """Return what `topological` does, and what gradients at these go to by rules, each node after what is below it."""
    return post_order(outputs, lambda node: below(node) if node.storage is None else ())


def post_order(starts: Iterable[Node], before: Callable[[Node], Iterable[Node]]) -> list[Node]:
    """Return `starts`, the last one first, and all that they lead to, each node after those `before` it."""
    order: list[Node] = []
    done: set[Node] = set()
    stack = [(node, False) for node in starts]
    while stack:
        node, is_expanded = stack.pop()
        if is_expanded:
            order.append(node)
        elif node not in done:
            done.add(node)
            stack.append((node, True))
            stack.extend((source, False) for source in before(node) if source not in done)
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


def ancestors(target: Node, history: Mapping[Node, Node] = NO_HISTORY, ends: Container[Node] = ()) -> list[Node]:
    """Return `target` and all nodes that its gradient can reach, each after what it reads.

    Args:
        target: Where gradients come from.
        history: For leaves, the node whose values they hold: gradients go on there.
        ends: Nodes at which gradients end.
    """
    return post_order((target,), lambda node: () if node in ends else reached_from(node, history))


def reached_from(node: Node, history: Mapping[Node, Node] = NO_HISTORY) -> tuple[Node, ...]:
    """Return the nodes to which the gradient at `node` flows."""
    if isinstance(node, n.Leaf):
        return (history[node],) if node in history else ()
    if type(node) in NO_GRADIENT:
        return ()
    if isinstance(node, n.Alias) and (node.detached or node.rule is not None):
        return () if node.rule is None else node.rule.inputs
    return tuple(source for source in node.sources if source.dtype.is_inexact)
