"""The structure of a graph without its lengths, and these lengths: graphs of one structure differ in lengths alone.

sum of x[8, 20] along axis 1        structure S, sizes (8, 20, 8, 1)
sum of x[8, 31] along axis 1        structure S, sizes (8, 31, 8, 1): those of the first with n + 0 for 20, n = 31
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from zyx.graph import node as n
from zyx.specialise.length import Length

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from zyx.graph.node import Node


#: The sizes of a shape.
Dims: TypeAlias = tuple[Length, ...]


def outline(outputs: Sequence[Node], order: Sequence[Node]) -> tuple[Hashable, tuple[int, ...]] | None:
    """Return the structure of a graph, and its sizes: those of shapes, of boxes that are cut out, and of padding.

    None if a node has no elements: rules that hold for all lengths from 1 on may not hold there.

    Args:
        outputs: What is asked for.
        order: All nodes, sources first; what has storage is a leaf.
    """
    position = {node: number for number, node in enumerate(order)}
    entries: list[object] = [tuple(position[node] for node in outputs)]
    sizes: list[int] = []
    for node in order:
        if 0 in node.shape:
            return None
        sizes += node.shape
        if node.storage is not None:
            entries.append((n.Leaf, node.dtype.name, node.device, node.ndim))
            continue
        attributes: Sequence[object] = ()
        match node:
            case n.Const():
                pass  # its value is a constant of the graph
            case n.Shrink(bounds=bounds):
                sizes += [end for pair in bounds for end in pair]
            case n.Pad(widths=widths):
                sizes += [width for pair in widths for width in pair]
                attributes = node.attributes[1:]
            case _:
                attributes = node.attributes
        sources = [position[source] for source in node.sources]
        entries.append((type(node), node.dtype.name, node.device, node.ndim, *attributes, -1, *sources))
    return tuple(entries), tuple(sizes)


def by_node(
    sizes: Iterable[Length], order: Iterable[Node]
) -> Iterator[tuple[Node, Dims, tuple[tuple[Length, Length], ...]]]:
    """Yield each node with the sizes of its shape, and its pairs: the bounds of a box or the widths of padding."""
    remaining = iter(sizes)
    for node in order:
        dims = tuple(next(remaining) for _ in node.shape)
        has_pairs = node.storage is None and isinstance(node, n.Shrink | n.Pad)
        yield node, dims, tuple((next(remaining), next(remaining)) for _ in node.shape) if has_pairs else ()
