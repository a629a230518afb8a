"""Which constants of a graph's structure change from run to run: kernels are given them, and not compiled for each.

    x * 0.1                     a plan whose kernel has 0.1 in it
    x * 0.2, x * 0.3, ...       the same structure with another constant: one plan for all, whose kernel takes a number
    x[:10], x[10:20], ...       so does the start of a slice, along each axis of what is computed

Which have changed is known by `zyx.specialise.table`. Kernels of their own are much faster for small exponents and
divisors of integers, say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from zyx import dtype as dtypes
from zyx.graph import Graph
from zyx.graph import node as n
from zyx.graph.given import Box, Number
from zyx.graph.lines import carry_line
from zyx.graph.places import box_at, padded_at
from zyx.graph.rebuild import rebuild
from zyx.graph.signature import Key, partial_axes
from zyx.graph.walk import topological
from zyx.ops import COMPARISONS, BinaryOp
from zyx.shape import size_of, strides_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.dtype import Scalar
    from zyx.graph.node import Node
    from zyx.specialise.table import Table

#: A constant; a slice of what lies in memory; or an axis of another slice.
Hole: TypeAlias = "tuple[Node, int | None]"

#: Operations that are much faster by what is known of their second operand, and those of them on integers only.
_FASTER_BY_SECOND: Final = frozenset({BinaryOp.POW, BinaryOp.SHL, BinaryOp.SHR})
_FASTER_BY_INTEGER: Final = frozenset({BinaryOp.DIV, BinaryOp.MOD})


@dataclass(frozen=True, slots=True)
class Given:
    """What the kernels of a graph are given at their launch.

    Attributes:
        key: Of the plan, for all values.
        places: Which of the graph's constants these are.
        values: Their values, in the same order.
        is_moved: Whether one of them says where something begins, which a length could seem to do as well.
    """

    key: Key
    places: tuple[int, ...]
    values: tuple[Scalar, ...]
    is_moved: bool

    def over_numbers(self, outputs: Sequence[Node], order: Sequence[Node]) -> tuple[list[Node], list[Node]]:
        """Return `outputs` over numbers in place of these constants, and the numbers; `order` is the whole graph."""
        graph = Graph()
        holes = _holes_in(order)
        numbers = {holes[place]: _number_for(holes[place]) for place in self.places}
        new: dict[Node, Node] = {}
        for node in order:
            given = numbers.get((node, None))
            if node.storage is not None:
                new[node] = node
            elif isinstance(node, n.Shrink):
                (source,) = node.sources
                if given is not None:
                    new[node] = Box(node.shape, node.dtype, node.device, source, given)
                else:
                    new[node] = _shrunk(graph, node, new[source], numbers)
            elif isinstance(node, n.Pad):
                new[node] = _padded(graph, node, new[node.sources[0]], numbers)
            elif given is not None:
                new[node] = graph.expand(graph.reshape(given, (1,) * node.ndim), node.shape)
            else:
                new[node] = rebuild(graph, node, [new[source] for source in node.sources]) if node.sources else node
            carry_line(node, new[node])
        return [new[node] for node in outputs], list(numbers.values())


def given(table: Table, key: Key, order: Sequence[Node], *, is_traced: bool = False) -> Given | None:
    """Return what the kernels of a graph are to be given, if it is anything.

    Args:
        table: The structures that were met.
        key: Of the graph; there is no plan for it alone.
        order: The nodes of the graph.
        is_traced: Whether it is that of a function. Then all constants are better known: plans that are given none can
            be captured.
    """
    known, is_new = table.outline((Key, key.structure, is_traced), key.constants)
    if is_new and table.all_vary:
        known.changed.update(range(len(key.constants)))
    elif is_new:
        known.better_known = tuple(range(len(key.constants))) if is_traced else _better_known(order)
    places = known.given(key.constants)
    if not places:
        return None
    holes = _holes_in(order)
    values = tuple(_value(*holes[place]) for place in places)
    others = (value for place, value in enumerate(key.constants) if place not in places)
    is_moved = any(not isinstance(holes[place][0], n.Const) for place in places)
    return Given(Key(key.structure, (places, *others)), places, values, is_moved)


def bake(table: Table, key: Key) -> None:
    """Let the constants of a structure be parts of its kernels from now on: a device refused to be given them."""
    for is_traced in (False, True):
        known = table.known((Key, key.structure, is_traced))
        if known is not None:
            known.kept = frozenset(range(len(known.first)))


def _holes_in(order: Sequence[Node]) -> list[Hole]:
    """Return what `Key.constants` are the values of, in their order."""
    holes: list[Hole] = []
    for node in order:
        if node.storage is None:
            if isinstance(node, n.Const) or (isinstance(node, n.Shrink) and node.sources[0].storage is not None):
                holes.append((node, None))
            elif isinstance(node, n.Shrink | n.Pad):
                holes += [(node, axis) for axis in partial_axes(node)]
    return holes


def _number_for(hole: Hole) -> Number:
    """Return what stands for a hole in the graph that kernels are made of."""
    node, axis = hole
    if isinstance(node, n.Const):
        return Number((), node.dtype, node.device)
    most = size_of(node.sources[0].shape)
    if axis is not None:
        most = abs(node.sources[0].shape[axis] - node.shape[axis])
    dtype = dtypes.int32 if most < dtypes.int32.max // 2 else dtypes.int64
    return Number((), dtype, node.device, most=None if axis is None else most)


def _shrunk(graph: Graph, node: n.Shrink, source: Node, numbers: Mapping[Hole, Number]) -> Node:
    """Return a box of `source` that begins at numbers, along the axes that have one."""
    given = {axis: number for axis in range(node.ndim) if (number := numbers.get((node, axis))) is not None}
    bounds = [(0, source.shape[axis]) if axis in given else pair for axis, pair in enumerate(node.bounds)]
    result = graph.shrink(source, bounds)
    for axis, number in given.items():
        result = box_at(graph, result, axis, number, node.shape[axis])
    return result


def _padded(graph: Graph, node: n.Pad, source: Node, numbers: Mapping[Hole, Number]) -> Node:
    """Return `source` at places that are numbers, along the axes that have one, in the padding of `node`."""
    given = {axis: number for axis in range(node.ndim) if (number := numbers.get((node, axis))) is not None}
    widths = [(0, 0) if axis in given else pair for axis, pair in enumerate(node.widths)]
    result = graph.pad(source, widths, node.value)
    for axis, number in given.items():
        result = padded_at(graph, result, axis, node.shape[axis], number, node.value)
    return result


def _value(node: Node, axis: int | None) -> Scalar:
    """Return the value of a constant, or where a slice begins: the number of its first element, or that of an axis."""
    if isinstance(node, n.Const):
        return node.value
    if isinstance(node, n.Pad):
        return node.widths[axis or 0][0]
    assert isinstance(node, n.Shrink)
    if axis is not None:
        return node.bounds[axis][0]
    return sum(low * step for (low, _), step in zip(node.bounds, strides_of(node.sources[0].shape), strict=True))


def _better_known(order: Sequence[Node]) -> tuple[int, ...]:
    """Return the places of the constants that kernels of their own are much faster for.

    Exponents, divisors of integers, and what coordinates are combined with, which become parts of indices and masks.
    """
    place_of: dict[Node, int] = {
        node: place for place, (node, _) in enumerate(_holes_in(order)) if isinstance(node, n.Const)
    }
    found: set[int] = set()
    coordinates: set[Node] = set()
    for node in order:
        if node.storage is not None:
            continue
        if isinstance(node, n.Iota):
            coordinates.add(node)
        elif not coordinates.isdisjoint(node.sources) and all(s in coordinates or s in place_of for s in node.sources):
            coordinates.add(node)
            if not (isinstance(node, n.Binary) and node.op in COMPARISONS):  # the end of a mask is as good as a number
                found.update(place_of[source] for source in node.sources if source in place_of)
        elif isinstance(node, n.Scatter):  # its places are those of what is written to, position by position
            found.difference_update(place_of[below] for below in topological([node.sources[1]]) if below in place_of)
        elif isinstance(node, n.Binary) and node.sources[1] in place_of:
            if node.op in _FASTER_BY_SECOND or (node.op in _FASTER_BY_INTEGER and node.dtype.is_integer):
                found.add(place_of[node.sources[1]])
    return tuple(sorted(found))
