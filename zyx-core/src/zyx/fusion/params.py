"""Keep kernels within the number of buffers that a device binds.

    a + b + c + d + e + f, three buffers a kernel:      t = a + b;  u = t + c;  v = u + d;  w = v + e;  w + f

A kernel that would bind more is computed in several: the nodes returned here are kept in memory, each by a kernel of
its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.fusion.movement import MOVEMENT
from zyx.shape import size_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.fusion.region import FusedRegion
    from zyx.graph.node import Node


def nodes_to_keep_apart(
    region: FusedRegion, stored: Sequence[Node], position: Mapping[Node, int], most: int
) -> dict[Node, None]:
    """Return nodes of a kernel to compute in kernels of their own, so that no more than `most` buffers are bound.

    Args:
        region: The kernel.
        stored: What it stores, its root among it.
        position: Place of every node in a topological order.
        most: At least 3.

    Returns:
        Nothing if the kernel fits, or if nothing helps, as with a hand-written one. The kernels that come out of it may
        have to be asked about again.
    """
    if len(stored) + len(region.inputs) <= most:
        return {}
    others = [node for node in stored if node is not region.root]
    room = most // 2  # as many for what is stored as for what is read
    if len(stored) > room:
        return dict.fromkeys(others[room - 1 :])
    return _cuts(region, position, most - len(stored))


def _cuts(region: FusedRegion, position: Mapping[Node, int], most: int) -> dict[Node, None]:
    """Return nodes to keep so that each node, and each of them, is computed from `most` buffers."""
    cuts: dict[Node, None] = {}
    needed: dict[Node, dict[Node, None]] = {}  # for each node, the buffers that it is computed from
    for node in sorted(region.views, key=position.__getitem__):
        if node in region.inputs:
            needed[node] = {node: None}
            continue
        sources = [source for source in node.sources if source in needed]
        needed[node] = _together(sources, needed)
        while len(needed[node]) > most:
            inner = [computed for source in sources if len(needed[computed := _computed(source)]) > 1]
            if not inner:
                break
            cut = max(inner, key=lambda candidate: (len(needed[candidate]), -size_of(candidate.shape)))
            cuts[cut] = None
            for source in sources:
                if _computed(source) is cut:
                    needed[source] = {cut: None}
            needed[cut] = {cut: None}
            needed[node] = _together(sources, needed)
    return cuts


def _together(sources: Sequence[Node], needed: Mapping[Node, Mapping[Node, None]]) -> dict[Node, None]:
    return {buffer: None for source in sources for buffer in needed[source]}


def _computed(node: Node) -> Node:
    """Return the node whose elements `node` has, in another order perhaps."""
    while isinstance(node, MOVEMENT) and node.storage is None:
        node = node.sources[0]
    return node
