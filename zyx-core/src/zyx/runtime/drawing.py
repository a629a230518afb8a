"""Launches as they are drawn of a graph's parts, and while they are being compiled."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zyx.errors import ShapeError
from zyx.fusion.build import build_nest
from zyx.fusion.movement import MOVEMENT
from zyx.fusion.split_scatters import split_scatter
from zyx.graph import node as n
from zyx.graph.ends import ends_of
from zyx.graph.given import Box, Front, Number, Packed
from zyx.graph.lines import lines_of
from zyx.graph.places import is_distinct

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence
    from concurrent.futures import Future

    from zyx.backend import Device, Program
    from zyx.fusion.partition import KernelPart
    from zyx.graph.node import Node
    from zyx.nest.data import Nest
    from zyx.nest.expr import Param

#: Points of a statement: what takes a day on the fastest of devices. What is multiplied in memory stays far below.
_MOST_POINTS: Final = 1 << 56
#: What nests are given for a buffer that is read depends on more than its shape and dtype if it is one of these.
_GIVEN: Final = frozenset({Number, Front, Box, Packed})


@dataclass(frozen=True, slots=True)
class Started:
    """A kernel to launch, while it is being compiled; see `zyx.runtime.memory_planning.Launched`."""

    device: Device
    program: Future[Program]
    buffers: tuple[Node, ...]
    stored: tuple[Node, ...]
    numbers: tuple[Node, ...] = ()
    starts: tuple[int, ...] = ()
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """What a launch computes: parts that share it, as nests.

    Attributes:
        parts: The parts.
        nests: Of each of them, or of what follows each other in several launches; none of a hand-written kernel.
        node_of: The node of each buffer and number.
    """

    parts: Sequence[KernelPart]
    nests: Sequence[Nest]
    node_of: Mapping[Param, Node]

    @property
    def is_split_scatter(self) -> bool:
        """Whether the nests are of several launches."""
        return len(self.nests) > len(self.parts)

    @property
    def stored(self) -> tuple[Node, ...]:
        """What it writes to."""
        return tuple(node for part in self.parts for node in part.written)


class KnownNests:
    """Draws launches as nests, once where they differ in their buffers only, as those of the layers of a network do.

    Args:
        is_deterministic: Whether floats are combined in an order that is always the same.
    """

    def __init__(self, *, is_deterministic: bool) -> None:
        self._is_deterministic = is_deterministic
        self._known: dict[Hashable, tuple[Sequence[Nest], dict[Param, int]]] = {}

    def drawn(self, parts: Sequence[KernelPart], device: Device) -> Drawn:
        """Return the nests of `parts`, which share a launch.

        Raises:
            ShapeError: One of them would take years.
        """
        outline = _Outline()
        key = None if any(part.rows for part in parts) else (device.name, outline.of(parts))
        if key in self._known:
            known, place_of = self._known[key]
            nodes = [*outline.places]
            return Drawn(parts, known, {param: nodes[place] for param, place in place_of.items()})
        nests: list[Nest] = []
        params: dict[Node, Param] = {}
        for part in parts:
            nests.append(build_nest(part, params))
            check_work(nests[-1], part)
        if len(nests) == 1:
            nests = split_scatter(nests[0], device.info, deterministic=self._is_deterministic)
        node_of = {param: node for node, param in reversed(params.items())}
        if key is not None:
            self._known[key] = nests, {param: outline.places[node] for param, node in node_of.items()}
        return Drawn(parts, nests, node_of)


class _Outline:
    """All that the nests of parts follow from, with nodes by their places.

    Attributes:
        places: The number of each node, in the order in which they are met.
    """

    def __init__(self) -> None:
        self.places: dict[Node, int] = {}

    def of(self, parts: Sequence[KernelPart]) -> Hashable:
        """Return the key of parts; equal keys, equal nests."""
        found: list[Hashable] = []
        for part in parts:
            region = part.region
            if min(region.root_ranges, default=0) < 0:  # the ranges of another node, along some way to it
                sizes = tuple([range_.size for range_ in region.root_ranges.values()])
                found.append((sizes, repr([*region.views[part.root]])))
            if isinstance(part.root, n.Scatter):
                found.append(is_distinct(part.root.sources[1], part.root.axis))
            for node in region.order:
                if node in region.inputs and not isinstance(node, n.Const | n.Iota):
                    found.append(self._read(node))
                else:
                    sources = tuple([self._place(source) for source in node.sources])
                    own = (type(node), node.attributes, node.shape, node.dtype.name)
                    found.append((self._place(node), own, sources))
            for node in part.stored:
                strides, ends = (node.strides, node.ends) if isinstance(node, Packed) else ((), ends_of(node))
                over = part.in_place.get(node)
                place = None if over is None else self._place(over)
                found.append((self._place(node), place, self._numbers(strides), self._numbers(ends)))
        return tuple(found)

    def _read(self, node: Node) -> Hashable:
        key = (self._place(node), node.shape, node.dtype.name)
        if type(node) not in _GIVEN:
            return key
        if not isinstance(node, Box):
            return (*key, type(node), getattr(node, "most", None))
        numbers = self._numbers((node.start, node.skipped)), self._numbers(node.strides), self._numbers(node.ends)
        return (*key, Box, node.unit, self._read(node.data), numbers)

    def _numbers(self, numbers: Iterable[Number | None]) -> Hashable:
        return tuple([number and self._read(number) for number in numbers])

    def _place(self, node: Node) -> int:
        return self.places.setdefault(node, len(self.places))


def lines_of_parts(parts: Sequence[KernelPart]) -> tuple[str, ...]:
    """Return the lines that kernels are from, as far as they are noted."""
    nodes = [node for part in parts for node in (*part.stored, *part.region.order) if node not in part.region.inputs]
    # One move of elements serves for all lines that ask for it: what is computed says more.
    return lines_of(node for node in nodes if not isinstance(node, MOVEMENT)) or lines_of(nodes)


def check_work(nest: Nest, part: KernelPart) -> None:
    """Refuse what would take years, before anything is computed: kernels cannot be interrupted.

    Raises:
        ShapeError: A statement has too many points.
    """
    points = max(math.prod(range_.size for range_ in statement.order) for statement in nest.statements)
    if points > _MOST_POINTS:
        raise ShapeError(
            f"computing {part.root!r} goes over {points} points, which would take years; at most {_MOST_POINTS} are "
            "computed: combine elements before they are repeated, or take smaller shapes"
        )


def name_of(parts: Sequence[KernelPart]) -> str:
    """Return an identifier that tells people what a kernel is about."""
    part = parts[0]
    kinds = dict.fromkeys(
        node.op.value
        for node in reversed(part.region.views)
        if isinstance(node, n.Reduce | n.Scan) and node not in part.region.inputs
    )
    what = "_".join(kinds) or type(part.root).__name__.lower()
    shape = "x".join(str(size) for size in part.root.shape)
    count = f"{len(parts)}_" if len(parts) > 1 else ""
    return f"{count}{what}_{shape}" if shape else f"{count}{what}"
