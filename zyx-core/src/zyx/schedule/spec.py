"""A schedule as data: how each range of a nest is cut into parts, and how each part is run.

    f32[4096, 1000] + f32[1000]       r0: groups;   r1: loop, 4 written out, vectors of 16

What is left out is as the nest has it. `zyx.schedule.apply` turns a spec into moves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from zyx.nest.data import Kind
    from zyx.schedule.moves import Move


class Part(NamedTuple):
    """A part of a range: so many points, run in one way."""

    points: int
    kind: Kind


@dataclass(frozen=True, slots=True)
class Cut:
    """How a range is cut.

    Attributes:
        range: Its label.
        parts: From outside to inside. What is left of the range outside of them is a loop.
    """

    range: str
    parts: tuple[Part, ...]

    @property
    def points(self) -> int:
        """Points of all parts."""
        count = 1
        for part in self.parts:
            count *= part.points
        return count


class Place(NamedTuple):
    """A part of a range in an order of loops: part 0 is the loop that is left, part 1 the outermost of the others."""

    range: str
    part: int


@dataclass(frozen=True, slots=True)
class Staged:
    """A copy of what a statement reads, laid out as its inner loops read it.

    Attributes:
        value: The label of the value that the statement defines.
        param: The number of the buffer.
        place: Which of the reads of it, counted from 0, if there are several.
        tile: What the copy holds, in this order. The ranges of the copy are run as those of the statement.
        turned: A part of the tile along which the buffer lies side by side, if the last one of the tile is a vector
            along which it does not: blocks are turned over.
    """

    value: str
    param: int
    place: int | None
    tile: tuple[Place, ...]
    turned: Place | None = None


@dataclass(frozen=True, slots=True)
class Spec:
    """A schedule.

    Attributes:
        first: Moves that come before the cuts, such as those that make one range of several.
        cuts: Of ranges that do not stay whole.
        order: The innermost loops of all statements, from outside to inside. Those not named come first, as they are.
        kept: Loops that no groups are made of, nor of what is inside them.
        groups: The loops that groups are made of; None if as many of the outer ones as leave each group enough to do.
        nested: Values that are combined over some parts first, and then, in memory, over what else is reduced: their
            labels, and these parts.
        staged: Copies.
    """

    cuts: tuple[Cut, ...] = ()
    order: tuple[Place, ...] = ()
    first: tuple[Move, ...] = ()
    kept: tuple[Place, ...] = ()
    groups: tuple[Place, ...] | None = None
    nested: tuple[tuple[str, tuple[Place, ...]], ...] = ()
    staged: tuple[Staged, ...] = ()

    def with_part(self, cut: int, part: int, points: int) -> Spec:
        """Return the spec with another number of points of a part."""
        old = self.cuts[cut]
        parts = (*old.parts[:part], old.parts[part]._replace(points=points), *old.parts[part + 1 :])
        return replace(self, cuts=(*self.cuts[:cut], replace(old, parts=parts), *self.cuts[cut + 1 :]))
