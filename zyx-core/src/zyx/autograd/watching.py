"""Functions that are called when gradients pass a call of a module.

    x -> inlet ........ outlet -> y          a call: aliases of what went in, and of what came out

Gradients go from right to left. A function before the call is given the gradients at all outlets together, one after it
those at all inlets, so both wait for the last of their side: outlets are visited before inlets, and what lies behind a
side when all of it was visited. `in_order` sees to that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from zyx.graph.node import Alias
from zyx.graph.walk import post_order, reached_from

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zyx.graph import Graph, Node


class WatchedCall(Protocol):
    """A call that is watched: how many things went in and came out, and what is to be done with their gradients."""

    counts: tuple[int, int]

    def before(self, outlets: Sequence[Node | None]) -> Sequence[Node | None]:
        """Return the gradients at the outlets that pass, given those that come; None where none does."""

    def after(self, inlets: Sequence[Node | None], outlets: Sequence[Node | None]) -> Sequence[Node | None]:
        """Return the gradients at the inlets that pass."""


class Watch:
    """What an alias knows of the call that it is a border of.

    Attributes:
        call: That.
        is_outlet: On which side.
        position: Which of the things that went in, or came out.
    """

    __slots__ = ("call", "is_outlet", "position")

    def __init__(self, call: WatchedCall, is_outlet: bool, position: int) -> None:
        self.call, self.is_outlet, self.position = call, is_outlet, position


def watch_of(node: Node) -> Watch | None:
    """Return what `node` knows of a call, if it is a border of one."""
    watch = node.watch if isinstance(node, Alias) else None
    return watch if isinstance(watch, Watch) else None


class Passing:
    """The gradients that pass one call: they wait here until all of a side have come."""

    def __init__(self, call: WatchedCall) -> None:
        self._call = call
        self.sides: tuple[list[Node], list[Node]] = ([], [])  # inlets and outlets that gradients may reach
        self._given: tuple[list[Node | None], list[Node | None]] = (
            [None] * call.counts[0],
            [None] * call.counts[1],
        )
        self._visited = [0, 0]

    def arrived(self, graph: Graph, node: Node, total: Node | None) -> list[tuple[Node, Node]]:
        """Take the gradient at a border; return what goes on where, as soon as its side is complete."""
        watch = watch_of(node)
        assert watch is not None
        side = int(watch.is_outlet)
        self._given[side][watch.position] = None if total is None else graph.conjugate(total)
        self._visited[side] += 1
        if self._visited[side] < len(self.sides[side]):
            return []
        passing = self._passed(side)
        found = []
        for border in self.sides[side]:
            place = watch_of(border)
            gradient = None if place is None else passing[place.position]
            if gradient is not None:
                found.append((border.sources[0], graph.conjugate(gradient)))
        return found

    def _passed(self, side: int) -> Sequence[Node | None]:
        inlets, outlets = self._given
        if not side:
            return self._call.after(inlets, outlets)
        passing = self._call.before(outlets)
        self._given = inlets, list(passing)
        if not self.sides[0]:
            self._call.after(inlets, passing)
        return passing


def passings(nodes: Iterable[Node]) -> dict[Node, Passing]:
    """Return for each border among `nodes` the gradients that pass its call."""
    found: dict[Node, Passing] = {}
    known: dict[int, Passing] = {}
    for node in nodes:
        watch = watch_of(node)
        if watch is not None:
            passing = known.setdefault(id(watch.call), Passing(watch.call))
            passing.sides[watch.is_outlet].append(node)
            found[node] = passing
    return found


def in_order(nodes: Mapping[Node, list[Node]], borders: Mapping[Node, Passing]) -> list[Node]:
    """Return `nodes`, each of which has those that it reads, so that calls are passed as the module says.

    What an inlet reads was there before the call, and so before any alias of it: there are no circles.
    """
    return post_order(reversed(list(nodes)), lambda node: _before(node, nodes, borders))


def _before(node: Node, nodes: Mapping[Node, list[Node]], borders: Mapping[Node, Passing]) -> list[Node]:
    """Return what must stand before `node`."""
    if node not in borders:
        return nodes[node]
    passing, watch = borders[node], watch_of(node)
    is_outlet = watch is not None and watch.is_outlet
    beyond = [source for border in passing.sides[is_outlet] for source in reached_from(border) if source in nodes]
    return [*passing.sides[0], *beyond] if is_outlet else beyond
