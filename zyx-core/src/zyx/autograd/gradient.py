"""Reverse accumulation: from the gradient at one node to the gradients at others.

    target = f(a, b)
    a, b   = nodes somewhere below it

1. Walk down from the target to all nodes that gradients can reach; keep those that lie above a source.
2. Give the target its upstream, 1 for a scalar.
3. Visit the nodes kept, readers before what they read: add up what has come, and let the node's rule pass it on.

What comes out are nodes of the same graph, to be computed, combined and differentiated like any others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.autograd.accumulate import sum_of
from zyx.autograd.rules import RULES
from zyx.autograd.watching import in_order, passings
from zyx.errors import GradientError
from zyx.graph.node import Alias, Cast, Complex, Const, Leaf
from zyx.graph.walk import NO_HISTORY, ancestors, reached_from, topological
from zyx.shape import size_of

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from zyx.autograd.watching import Passing
    from zyx.graph import Graph, Node


def gradient(
    graph: Graph,
    target: Node,
    sources: Sequence[Node],
    upstream: Node | None = None,
    history: Mapping[Node, Node] = NO_HISTORY,
    ends: Container[Node] = (),
) -> list[Node]:
    """Return the gradient of `target` at each of `sources`: nodes of the source's shape, dtype and device.

    It goes through nodes that have storage: their sources are their history. A source that the target does not depend
    on has the gradient 0; the gradient at a source that depends on another one is also part of the other's.

    The gradient at a complex number ``x + iy`` of a real target L is ``dL/dx + i dL/dy``, the direction in which L
    grows fastest, as PyTorch has it; JAX has the conjugate. `upstream` is of the same kind: the result for a
    holomorphic function f is ``upstream * conj(f')``. Within, gradients are the conjugates, so that the rules of real
    functions are those of holomorphic ones; they change at this border.

    Args:
        graph: Makes the nodes.
        target: What to differentiate; of a float or complex dtype.
        sources: Nodes of float or complex dtypes.
        upstream: The gradient at `target`, of its shape and dtype; 1 if it is None and `target` has one element.
        history: For leaves, the node whose values they hold: gradients go on there.
        ends: Nodes at which gradients end, whatever these were made from.

    Raises:
        GradientError: Not floats; no upstream for a target that is complex or of another size, or one that does not
            fit; a source is a constant; the target's history is lost; or a node on the way has no rule.
    """
    if not target.dtype.is_inexact:
        raise GradientError(f"the target {target} is not of a float dtype, so it has no gradient")
    for position, source in enumerate(sources):
        check_source(f"source {position}", source)
    if _is_lost(target, history) and target not in sources:
        raise GradientError(
            f"how the target {target} was computed is forgotten; compute it inside the block of a live Tape"
        )
    start = _seed(graph, target) if upstream is None else graph.conjugate(_checked(graph, upstream, target))
    parts: dict[Node, list[Node]] = {target: [start]}
    order = ancestors(target, history, ends)
    found = _propagate(graph, order, set(sources), parts, history, ends)
    return [
        graph.conjugate(found[source]) if source in found else graph.const(0, source.dtype, source.device, source.shape)
        for source in sources
    ]


def pulled_back(graph: Graph, upstreams: Sequence[tuple[Node, Node]], sources: Sequence[Node]) -> list[Node | None]:
    """Return the gradient at each of `sources` of several real targets together, each with the gradient at it.

    None where the targets do not depend on a source.
    """
    parts: dict[Node, list[Node]] = {}
    order: dict[Node, None] = {}
    for target, upstream in upstreams:
        parts.setdefault(target, []).append(upstream)
        order |= dict.fromkeys(ancestors(target))
    inner = dict.fromkeys(node for node in topological(list(order)) if node in order)
    found = _propagate(graph, list(inner), set(sources), parts, NO_HISTORY)
    return [found.get(source) for source in sources]


def pulled_to(graph: Graph, target: Node, upstream: Node, ends: Sequence[Node]) -> list[Node | None]:
    """Return the gradient at each of `ends`, which it does not pass, of a target with the gradient at it.

    None where the target does not depend on one. Gradients are as within: see `gradient`.
    """
    wanted = set(ends)
    found = _propagate(graph, ancestors(target, NO_HISTORY, wanted), wanted, {target: [upstream]}, NO_HISTORY, wanted)
    return [found.get(end) for end in ends]


def check_source(name: str, node: Node) -> None:
    """Raise `GradientError`, calling the node `name`, unless gradients can be taken at `node`."""
    if not node.dtype.is_inexact:
        raise GradientError(f"{name} is {node}, not of a float dtype, so it has no gradient; cast it before it is used")
    if isinstance(node, Complex) and all(isinstance(part, Const) for part in node.sources):
        node = node.sources[0]  # a complex constant is two
    if isinstance(node, Const):
        raise GradientError(
            f"{name} is a constant, {node.dtype}{list(node.shape)} filled with {node.value}, and all equal constants "
            "are one, so no gradient belongs to this one alone; before it is used, give it values of its own: "
            "x = x.contiguous(), or x = zyx.nn.Parameter(x)"
        )


def _propagate(
    graph: Graph,
    order: list[Node],
    wanted: set[Node],
    parts: dict[Node, list[Node]],
    history: Mapping[Node, Node],
    ends: Container[Node] = (),
) -> dict[Node, Node]:
    """Return the gradient at each node of `wanted` that any reaches; `parts` has what has come to each node so far."""
    below: dict[Node, list[Node]] = {}  # the nodes on a path from a source to the target, with where to go on from each
    for node in order:
        reached = [] if node in ends else [source for source in reached_from(node, history) if source in below]
        if reached or node in wanted:
            below[node] = reached
    found: dict[Node, Node] = {}
    borders = passings(below)
    for node in reversed(in_order(below, borders) if borders else list(below)):
        if node not in parts:
            if node in borders:
                _pass_border(graph, node, None, borders[node], parts)
            continue
        total = sum_of(graph, parts.pop(node))
        if node in wanted:
            found[node] = total
        if node in borders:
            _pass_border(graph, node, total, borders[node], parts)
            continue
        if not below[node]:
            continue
        if isinstance(node, Leaf):
            parts.setdefault(history[node], []).append(total)
            continue
        rule = node.rule if isinstance(node, Alias) else None
        sources = node.sources if rule is None else rule.inputs
        passed = RULES[type(node)](graph, node, total) if rule is None else rule.pull(graph, node, total)
        for source, part in zip(sources, passed, strict=True):
            if part is not None and source in below:
                parts.setdefault(source, []).append(part)
    return found


def _pass_border(graph: Graph, node: Node, total: Node | None, passing: Passing, parts: dict[Node, list[Node]]) -> None:
    """Let the gradient at a border of a watched call pass, or wait; None is none."""
    for source, part in passing.arrived(graph, node, total):
        parts.setdefault(source, []).append(part)


def _is_lost(node: Node, history: Mapping[Node, Node]) -> bool:
    return isinstance(node, Leaf) and node.history_lost and node not in history


def _seed(graph: Graph, target: Node) -> Node:
    if size_of(target.shape) != 1:
        raise GradientError(
            f"the target has shape {target.shape}, not one element; sum it up, or give the gradient at it as `upstream`"
        )
    if target.dtype.is_complex:
        raise GradientError(
            f"the target is {target.dtype}, and what grows or falls is a real number; take its real part or its "
            "magnitude, or give the gradient at it as `upstream`"
        )
    return graph.const(1, target.dtype, target.device, target.shape)


def _checked(graph: Graph, upstream: Node, target: Node) -> Node:
    if (upstream.shape, upstream.dtype, upstream.device) != (target.shape, target.dtype, target.device):
        raise GradientError(f"the upstream {upstream} must have the shape, dtype and device of the target {target}")
    # Sums of what was rounded take what that was before (`accumulate.widened`); gradients at `upstream` must not.
    return graph.alias(upstream) if isinstance(upstream, Cast) else upstream
