"""The structure of a graph as a key: equal keys, equal plans.

A key says everything that a plan depends on: each node's class, attributes, shape, dtype, device and sources by
position, as far as one does not follow from the others, and which nodes are asked for. Buffers are named by position
only. Keys are compared as a whole, so a plan is never taken for another's. The values of constants are apart from the
rest, as are the starts of slices, and the places of what is padded: graphs that differ in them alone can share plans
whose kernels are given them, see `zyx.specialise.numbers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zyx.graph.node import Binary, Const, Pad, Shrink

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from zyx.graph.node import Node


class Key(NamedTuple):
    """What a plan depends on: the values of constants, where slices begin, and all else."""

    structure: Hashable
    constants: tuple[Hashable, ...]


def partial_axes(node: Shrink | Pad) -> list[int]:
    """Return the axes of which a box takes a part, or that it is a part of: where it begins matters."""
    whole = node.sources[0].shape
    if 0 in node.shape or 0 in whole:
        return []
    if type(node) is Pad:
        return [axis for axis, widths in enumerate(node.widths) if any(widths)]
    return [axis for axis, size in enumerate(node.shape) if size != whole[axis]]


def signature(outputs: Sequence[Node]) -> tuple[Key, list[Node], list[Node]]:
    """Return (key, the leaves in the order that the key counts them in, all nodes in topological order).

    Leaves are the nodes with storage, and those without sources that stand for inputs. No output has storage.

    In the order of `zyx.graph.walk.topological`, but in one pass with what is made of it, and in few steps for values
    in memory: this is done for every tensor of a program that computes each by itself, so it is one function. Names of
    dtypes are compared and hashed faster than dtypes.
    """
    position: dict[Node, int] = {}
    place_of = position.get
    leaves, entries, constants = list["Node"](), list[object](), list[object]()
    above = [*reversed(outputs)]  # nodes that wait for what they need, the next one last
    while above:
        node = above.pop()
        if node in position:
            continue
        sources = node.sources
        if type(node) is Binary:  # as most are; these have all the rest from their sources
            x, y = sources
            first = place_of(x)
            if first is None:
                if x.storage is None:
                    above += (node, x)
                    continue
                first = position[x] = len(position)
                leaves.append(x)
                entries.append((x.shape, x.dtype.name, x.device))
            second = place_of(y)
            if second is None:
                if y.storage is None:
                    above += (node, y)
                    continue
                second = position[y] = len(position)
                leaves.append(y)
                entries.append((y.shape, y.dtype.name, y.device))
            entries.append((node.op, first, second))
        else:
            waiting = len(above)
            for source in sources:
                if source not in position:
                    if source.storage is None:
                        above += (node, source)
                        break
                    position[source] = len(position)
                    leaves.append(source)
                    entries.append((source.shape, source.dtype.name, source.device))
            if len(above) > waiting:
                continue
            if type(node) is Const:
                entries.append((Const, node.shape, node.dtype.name, node.device))
                constants += node.attributes
            elif type(node) is Shrink:
                entries.append((Shrink, node.shape, position[sources[0]]))
                is_stored, bounds = sources[0].storage is not None, node.bounds
                constants += [bounds] if is_stored else [bounds[axis][0] for axis in partial_axes(node)]
            elif type(node) is Pad:
                entries.append((Pad, node.attributes[1], node.shape, position[sources[0]]))
                constants += [node.widths[axis][0] for axis in partial_axes(node)]
            elif sources or node.attributes:
                places = map(place_of, sources)
                entries.append((type(node), node.attributes, node.shape, node.dtype.name, node.device, *places))
            else:
                leaves.append(node)
                entries.append((node.shape, node.dtype.name, node.device))
        position[node] = len(position)
    entries.append(tuple(map(place_of, outputs)))
    return Key(tuple(entries), tuple(constants)), leaves, list(position)
