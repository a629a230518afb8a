"""The structure of a graph as a key: equal keys, equal plans.

A key says everything that a plan depends on: each node's class, attributes, shape, dtype, device and sources by
position, as far as one does not follow from the others, and which nodes are asked for. Buffers are named by position
only. Keys are compared as a whole, so a plan is never taken for another's. The values of constants are apart from the
rest, as are the starts of slices of what lies in memory: graphs that differ in them alone can share plans whose
kernels are given them, see `zyx.runtime.varying`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zyx.graph.node import Binary, Const, Shrink

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from zyx.graph.node import Node


class Key(NamedTuple):
    """What a plan depends on: the values of constants, where slices of what lies in memory begin, and all else."""

    structure: Hashable
    constants: tuple[Hashable, ...]


def signature(outputs: Sequence[Node]) -> tuple[Key, list[Node], list[Node]]:
    """Return (key, the leaves in the order that the key counts them in, all nodes in topological order).

    Leaves are the nodes with storage, and those without sources that stand for inputs. No output has storage.
    """
    # In the order of `zyx.graph.walk.topological`, but in one pass with what is made of it, and in few steps for values
    # in memory: this is done for every tensor of a program that computes each by itself. Names of dtypes are compared
    # and hashed faster than dtypes.
    position: dict[Node, int] = {}
    place_of = position.__getitem__
    leaves: list[Node] = []
    entries: list[object] = []
    constants: list[object] = []
    above: list[Node] = []
    for output in outputs:
        if output in position:
            continue
        node = output
        sources = node.sources
        while True:
            for source in sources:
                if source in position:
                    continue
                if source.storage is None:
                    above.append(node)
                    node = source
                    sources = node.sources
                    break
                leaves.append(source)
                entries.append((source.shape, source.dtype.name, source.device))
                position[source] = len(position)
            else:
                if type(node) is Binary:  # as most are; these have all the rest from their sources
                    x, y = sources
                    entries.append((node.op, position[x], position[y]))
                elif type(node) is Const:
                    entries.append((Const, node.shape, node.dtype.name, node.device))
                    constants += node.attributes
                elif type(node) is Shrink and sources[0].storage is not None:
                    entries.append((Shrink, node.shape, position[sources[0]]))
                    constants.append(node.bounds)
                elif sources or node.attributes:
                    places = map(place_of, sources)
                    entries.append((type(node), node.attributes, node.shape, node.dtype.name, node.device, *places))
                else:
                    leaves.append(node)
                    entries.append((node.shape, node.dtype.name, node.device))
                position[node] = len(position)
                if not above:
                    break
                node = above.pop()
                sources = node.sources
    entries.append(tuple(map(place_of, outputs)))
    return Key(tuple(entries), tuple(constants)), leaves, list(position)
