"""Which constants of a graph's structure change from run to run: kernels are given them, and not compiled for each.

    x * 0.1                     a plan whose kernel has 0.1 in it
    x * 0.2, x * 0.3, ...       the same structure with another constant: one plan for all, whose kernel takes a number
    x[:10], x[10:20], ...       of what lies in memory: so does the start of a slice

A constant that has not changed stays a part of the kernels. So do the first few of those that kernels of their own are
much faster for, such as small exponents and divisors of integers.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.graph import Graph
from zyx.graph import node as n
from zyx.graph.given import Box, Number
from zyx.graph.rebuild import rebuild
from zyx.ops import BinaryOp
from zyx.runtime.signature import Key
from zyx.shape import size_of, strides_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from zyx.dtype import DType, Scalar
    from zyx.graph.node import Node

#: Structures that are remembered.
_MOST: Final = 1024
#: Sets of values that plans of their own are made for, of constants which are worth it.
_OWN_PLANS: Final = 4
#: Operations that are much faster by what is known of their second operand, and those of them on integers only.
_FASTER_BY_SECOND: Final = frozenset({BinaryOp.POW, BinaryOp.SHL, BinaryOp.SHR})
_FASTER_BY_INTEGER: Final = frozenset({BinaryOp.DIV, BinaryOp.MOD})


@dataclass(slots=True)
class _Structure:
    """What is known of one.

    Attributes:
        first: The constants that it was first met with.
        better_known: The places of those that plans of their own are worth.
        own: The values of these that have such plans.
        changed: The places of those that were others since.
        is_baked: Whether they are parts of the kernels all the same.
    """

    first: tuple[Hashable, ...]
    better_known: tuple[int, ...]
    own: set[tuple[Hashable, ...]]
    changed: set[int] = field(default_factory=set)
    is_baked: bool = False


@dataclass(frozen=True, slots=True)
class Given:
    """What the kernels of a graph are given at their launch.

    Attributes:
        key: Of the plan, for all values.
        places: Which of the graph's constants these are.
        values: Their values, in the same order.
    """

    key: Key
    places: tuple[int, ...]
    values: tuple[Scalar, ...]

    def over_numbers(self, outputs: Sequence[Node], order: Sequence[Node]) -> tuple[list[Node], list[Node]]:
        """Return `outputs` over numbers in place of these constants, and the numbers; `order` is the whole graph."""
        graph = Graph()
        constants = _constants_of(order)
        numbers: dict[Node, Number] = {}
        for place in self.places:
            numbers[constants[place]] = Number((), _dtype(constants[place]), constants[place].device, ())
        new: dict[Node, Node] = {}
        for node in order:
            if node in numbers and isinstance(node, n.Shrink):
                new[node] = Box(node.shape, node.dtype, node.device, node.sources[0], numbers[node])
            elif node in numbers:
                new[node] = graph.expand(graph.reshape(numbers[node], (1,) * node.ndim), node.shape)
            elif node.storage is not None or not node.sources:
                new[node] = node
            else:
                new[node] = rebuild(graph, node, [new[source] for source in node.sources])
        return [new[node] for node in outputs], list(numbers.values())


class Varying:
    """The structures that were met, and which of their constants have changed.

    Args:
        all_vary: Whether kernels are given all constants from the first time on; for tests.
    """

    def __init__(self, *, all_vary: bool = False) -> None:
        self._all_vary = all_vary
        self._structures: OrderedDict[tuple[Hashable, bool], _Structure] = OrderedDict()

    def given(self, key: Key, order: Sequence[Node], *, is_traced: bool = False) -> Given | None:
        """Return what the kernels of a graph are to be given, if it is anything.

        Args:
            key: Of the graph; there is no plan for it alone.
            order: The nodes of the graph.
            is_traced: Whether it is that of a function. Then all constants are better known: plans that are given none
                can be captured.
        """
        known_by = key.structure, is_traced
        found = self._structures.get(known_by)
        if found is None:
            found = self._structures[known_by] = self._first(key, order, is_traced=is_traced)
            if len(self._structures) > _MOST:
                self._structures.popitem(last=False)
        else:
            self._structures.move_to_end(known_by)
        changed = {place for place, value in enumerate(key.constants) if value != found.first[place]}
        values = tuple(key.constants[place] for place in found.better_known)
        if len(found.own) < _OWN_PLANS:
            found.own.add(values)
        if values in found.own:
            changed.difference_update(found.better_known)
        found.changed |= changed
        if found.is_baked or not found.changed:
            return None
        places = tuple(sorted(found.changed))
        others = (value for place, value in enumerate(key.constants) if place not in found.changed)
        constants = _constants_of(order)
        return Given(Key(key.structure, (places, *others)), places, tuple(_value(constants[place]) for place in places))

    def _first(self, key: Key, order: Sequence[Node], *, is_traced: bool) -> _Structure:
        everything = range(len(key.constants))
        if self._all_vary:
            return _Structure(key.constants, (), set(), set(everything))
        better_known = tuple(everything) if is_traced else _better_known(order)
        return _Structure(key.constants, better_known, {tuple(key.constants[place] for place in better_known)})

    def bake(self, key: Key) -> None:
        """Let the constants of a structure be parts of its kernels from now on: a device refused to be given them."""
        for is_traced in (False, True):
            found = self._structures.get((key.structure, is_traced))
            if found is not None:
                found.is_baked = True


def _constants_of(order: Sequence[Node]) -> list[n.Const | n.Shrink]:
    """Return the constants of a graph and its slices of what lies in memory, in the order of `Key.constants`."""
    return [
        node
        for node in order
        if node.storage is None
        and (isinstance(node, n.Const) or (isinstance(node, n.Shrink) and node.sources[0].storage is not None))
    ]


def _dtype(node: n.Const | n.Shrink) -> DType:
    """Return the dtype of the number in place of a constant or slice."""
    if isinstance(node, n.Const):
        return node.dtype
    return dtypes.int32 if size_of(node.sources[0].shape) <= dtypes.int32.max else dtypes.int64


def _value(node: n.Const | n.Shrink) -> Scalar:
    """Return the value of a constant, or the number of the element where a slice begins."""
    if isinstance(node, n.Const):
        return node.value
    return sum(low * step for (low, _), step in zip(node.bounds, strides_of(node.sources[0].shape), strict=True))


def _better_known(order: Sequence[Node]) -> tuple[int, ...]:
    """Return the places of the constants that kernels of their own are much faster for.

    Exponents, divisors of integers, and what coordinates are combined with, which become parts of indices and masks.
    """
    place_of: dict[Node, int] = {
        node: place for place, node in enumerate(_constants_of(order)) if isinstance(node, n.Const)
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
            found.update(place_of[source] for source in node.sources if source in place_of)
        elif isinstance(node, n.Binary) and node.sources[1] in place_of:
            if node.op in _FASTER_BY_SECOND or (node.op in _FASTER_BY_INTEGER and node.dtype.is_integer):
                found.add(place_of[node.sources[1]])
    return tuple(sorted(found))
