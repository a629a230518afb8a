"""Launches as they are drawn of a graph's parts, and while they are being compiled."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zyx.errors import ShapeError
from zyx.fusion.movement import MOVEMENT
from zyx.graph import node as n
from zyx.graph.lines import lines_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from concurrent.futures import Future

    from zyx.backend import Device, Program
    from zyx.fusion.partition import KernelPart
    from zyx.graph.node import Node
    from zyx.nest.data import Nest
    from zyx.nest.expr import Param

#: Points of a statement: what takes a day on the fastest of devices. What is multiplied in memory stays far below.
_MOST_POINTS: Final = 1 << 56


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
