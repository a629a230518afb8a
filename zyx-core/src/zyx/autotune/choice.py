"""What of a graph lies in memory, as a choice: what is stored and recomputed other than by rule, and what may be tried.

`zyx.fusion.materialise` and `zyx.fusion.partition` decide by costs of operations which values are stored between
kernels. A choice says otherwise of a few nodes; what is found by measuring (`zyx.runtime.dividing`) is kept on disk, so
nodes are named by their places in the order of the graph.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zyx.fusion.cost import is_source
from zyx.fusion.materialise import before_rounding, below_movement, contraction_operands, is_always_kept
from zyx.graph import node as n
from zyx.kernels.custom import CustomKernel

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from zyx.backend.library import Problem
    from zyx.fusion.partition import KernelPart
    from zyx.graph.node import Node


@dataclass(frozen=True, slots=True)
class Choice:
    """Which nodes are stored, and which recomputed where they are needed, other than by rule; false if there are none.

    Attributes:
        stored: The places of nodes that no kernel takes in.
        recomputed: The places of nodes that are not stored: each kernel that needs one computes it again. Of a product
            of matrices: it is not kept apart, for a library, from what follows it.
        served: The places of hand-written kernels that a library computes, though it would not by what it says of
            itself, or the other way round.
    """

    stored: tuple[int, ...] = ()
    recomputed: tuple[int, ...] = ()
    served: tuple[int, ...] = ()

    def nodes(self, order: Sequence[Node]) -> list[set[Node]]:
        """Return the nodes of each kind."""
        return [
            {order[place] for place in places if 0 <= place < len(order)}
            for places in (self.stored, self.recomputed, self.served)
        ]

    def __bool__(self) -> bool:
        return bool(self.stored or self.recomputed or self.served)

    def __or__(self, other: Choice) -> Choice:
        """Return both together; what both speak of is recomputed."""
        recomputed = {*self.recomputed, *other.recomputed}
        stored = {*self.stored, *other.stored} - recomputed
        return Choice(tuple(sorted(stored)), tuple(sorted(recomputed)), tuple(sorted({*self.served, *other.served})))


def digest_of_graph(order: Sequence[Node], outputs: Sequence[Node]) -> bytes:
    """Return a digest of what decides which choices a graph has: all of it but the values of constants.

    Args:
        order: All nodes that `outputs` need, sources first.
        outputs: What is asked for.
    """
    place = {node: number for number, node in enumerate(order)}
    lines: list[str] = []
    for node in order:
        sources = () if node.storage is not None else tuple(place[source] for source in node.sources)
        kind = "Leaf" if node.storage is not None else type(node).__name__
        has_more = kind != "Leaf" and not isinstance(node, n.Const | n.Custom)
        lines.append(f"{kind} {node.shape} {node.dtype.name} {sources} {node.attributes if has_more else ''}")
    lines.append(str([place[node] for node in outputs]))
    return hashlib.sha256("\n".join(lines).encode()).digest()


def choices_of(
    order: Sequence[Node], outputs: Sequence[Node], part: KernelPart, serves: Collection[type[Problem]] = ()
) -> Iterator[Choice]:
    """Yield what may be tried of a kernel: something that it computes on the way is stored; what it stores is not.

    Args:
        order: All nodes of the graph.
        outputs: What is asked for.
        part: The kernel.
        serves: The families of problems that libraries have kernels for.
    """
    place = {node: number for number, node in enumerate(order)}
    custom = part.root.kernel if isinstance(part.root, n.Custom) else None
    if isinstance(custom, CustomKernel) and type(custom.problem) in serves and part.root in place:
        yield Choice(served=(place[part.root],))
    same = below_movement(part.root)  # to store it, too, would only copy it
    if isinstance(same, n.Contiguous):
        same = below_movement(same.sources[0])
    for node in part.taken:
        if node is not same and node not in part.stored and node in place:
            yield Choice(stored=(place[node],))
    for node in part.stored:
        is_free = not is_always_kept(node) and not is_source(node)
        if node in place and node not in outputs and (is_free or contraction_operands(before_rounding(node))):
            yield Choice(recomputed=(place[node],))
