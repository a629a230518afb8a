"""Which lines of memory an access touches while some of its ranges run.

    p0[r0 * 1000 + r1]       while r1 runs: 1000 elements side by side, 63 lines of 64 bytes
                             while r0 runs: as many lines as r0 has points
                             while both run: all that there are

A pattern is what an index is made of: a step in bytes for each range, or for each part that is no multiple of one, such
as a quotient or an index that was read. Reads that differ by a constant, as those of a window that is written out, are
one pattern with several offsets.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zyx.nest import expr as e
from zyx.nest.accesses import stride_along
from zyx.ops import BinaryOp

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.nest.expr import Expr, Range


_NBYTES: Final = operator.attrgetter("nbytes")


@dataclass(frozen=True, slots=True)
class PositionPart:
    """A part of a position.

    Attributes:
        nbytes: How far apart neighbouring values of the part are, not negative.
        ranges: What it depends on.
        extent: How many values it has at most.
        is_random: Whether its values come from memory, in any order.
        moves: Of a quotient, how far its dividend moves along each of `ranges`, in values of the quotient.
        read_at: Of values from memory, the parts of the position that they are read at.
    """

    nbytes: int
    ranges: tuple[Range, ...]
    extent: int
    is_random: bool = False
    moves: tuple[float, ...] = ()
    read_at: tuple[PositionPart, ...] = ()

    def values(self, counts: Mapping[Range, int]) -> float:
        """Return how many values the part takes while its ranges have so many points; 1 of those not named.

        Of a quotient, how many it takes on average, wherever the points are that run.
        """
        points = 1
        for range_ in self.ranges:
            points *= counts.get(range_, 1)
        found: float = min(self.extent, points)
        if self.moves:
            moved = 1.0
            for move, range_ in zip(self.moves, self.ranges, strict=True):
                moved += move * (counts.get(range_, 1) - 1)
            found = min(found, moved)
        if self.is_random:
            found = min(found, math.prod(step.values(counts) for step in self.read_at))
        return found


@dataclass(frozen=True, slots=True)
class Pattern:
    """Where accesses of one array go.

    Attributes:
        array: What is accessed: a param, or the value that an array holds.
        nbytes: Bytes of the array.
        itemsize: Bytes of an element.
        steps: The parts of the position.
        offsets: Bytes that are added to it, ascending.
        share: Part of the points at which there is an access, by its mask.
    """

    array: object
    nbytes: int
    itemsize: int
    steps: tuple[PositionPart, ...]
    offsets: tuple[int, ...] = (0,)
    share: float = 1.0

    def runs(self, counts: Mapping[Range, int]) -> tuple[tuple[float, float], ...]:
        """Return what is touched while ranges have so many points: (bytes apart, how many), innermost first.

        The first pair is (1, bytes side by side). What differs in steps that are multiples of each other counts as one,
        so that overlapping windows count once.
        """
        found: list[tuple[int, float]] = [(step.nbytes, step.values(counts)) for step in self.steps]
        if len(self.offsets) > 1:
            apart = (self.offsets[-1] - self.offsets[0]) // (len(self.offsets) - 1)
            found.append((apart, len(self.offsets)))
        found.sort()
        run, groups = float(self.itemsize), list[tuple[int, float]]()
        for apart, count in found:
            if count == 1 or apart == 0:
                continue
            if not groups and apart <= run:
                run += apart * (count - 1)
            elif groups and apart % groups[-1][0] == 0 and apart <= groups[-1][0] * groups[-1][1]:
                step, before = groups[-1]
                groups[-1] = (step, before + (count - 1) * (apart // step))
            else:
                groups.append((apart, count))
        return ((1, run), *groups)

    def lines(self, counts: Mapping[Range, int], line_bytes: int, whole: float = 0.5) -> float:
        """Return how many lines are touched while ranges have so many points, no more than the array has."""
        most = max(1.0, self.nbytes / line_bytes)
        return min(most, lines_of_runs(self.runs(counts), self.itemsize, line_bytes, whole))


def lines_of_runs(runs: Sequence[tuple[float, float]], itemsize: int, line_bytes: int, whole: float = 0.5) -> float:
    """Return how many lines there are to what `Pattern.runs` found; runs begin anywhere in a line.

    `whole` is the part of the lines at the ends of runs that nothing else has: half, if other runs have the rest.
    """
    (_, run), *groups = runs
    total = 1.0
    for apart, count in groups:
        if run < line_bytes and apart < line_bytes:  # several in a line
            run += apart * (count - 1)
        else:
            total *= count
    is_whole = not groups or run % line_bytes == 0
    for apart, _ in groups:
        is_whole = is_whole and apart % line_bytes == 0
    return total * max(1.0, run / line_bytes + (0.0 if is_whole else (line_bytes - itemsize) / line_bytes * whole))


def lines_taken(runs: Sequence[tuple[float, float]], lines: float, line_bytes: int, way_bytes: int) -> float:
    """Return how many lines of a cache the `lines` of what `Pattern.runs` found take, with those that nothing can have.

    A line has its place in a way of the cache by its address. Lines that are multiples of some power of two apart have
    as few places as there are such multiples in a way: of more lines, several fall on one place, others stay empty.
    """
    (_, run), *groups = runs
    apart, count, is_far = way_bytes, 1.0, False
    for step, number in groups:
        if step >= line_bytes:
            apart, count, is_far = math.gcd(apart, int(step)), count * number, True
    if not is_far or apart <= max(run, line_bytes) or count * apart <= way_bytes:
        return lines
    return max(lines, count * apart / line_bytes)


def pattern_of(
    array: object, nbytes: int, itemsize: int, index: Expr, ranges: Sequence[Range], mask: Expr | None = None
) -> Pattern:
    """Return the pattern of accesses at `index`, where `mask` holds; both depend on `ranges` only."""
    steps = _steps_of(index, ranges, max(1, nbytes // itemsize), itemsize, {})
    offset = index.constant * itemsize if isinstance(index, e.Affine) else 0
    return Pattern(array, nbytes, itemsize, steps, (offset,), 1.0 if mask is None else share_of(mask))


def _steps_of(
    index: Expr, ranges: Sequence[Range], elements: int, itemsize: int, of_reads: dict[Expr, tuple[PositionPart, ...]]
) -> tuple[PositionPart, ...]:
    """Return the parts of a position in an array of so many elements, that with the smallest step first.

    `of_reads` keeps those of positions that are read from memory, of which many may be read by way of the same ones.
    """
    steps: list[PositionPart] = []
    terms: Sequence[tuple[Expr, int]] = index.terms if isinstance(index, e.Affine) else ((index, 1),)
    for term, factor in terms if not isinstance(index, e.Literal) else ():
        mine = tuple([range_ for range_ in ranges if term.free & range_.bit])
        is_range = isinstance(term, e.RangeRef)
        extent = mine[0].size if is_range and mine else min(term.high - term.low + 1, elements)
        moves = () if is_range else _moves(term, mine)
        sources = [] if is_range else _sources(term)
        for read in sources:
            if isinstance(read, e.Read) and read not in of_reads:
                of_reads[read] = _steps_of(read.index, ranges, read.param.length, 1, of_reads)
        of_each = [of_reads.get(source, (PositionPart(1, mine, extent),)) for source in sources]
        read_at = max(of_each, key=lambda found: math.prod(step.extent for step in found), default=())
        steps.append(PositionPart(abs(factor) * itemsize, mine, extent, bool(sources), moves, read_at))
    return tuple(sorted(steps, key=_NBYTES))


def _moves(term: Expr, ranges: Sequence[Range]) -> tuple[float, ...]:
    """Return `PositionPart.moves` of a quotient of a sum of ranges, or of what is left of one; else nothing."""
    divisor = 1
    while isinstance(term, e.Quotient | e.Remainder):
        divisor *= term.divisor if isinstance(term, e.Quotient) else 1
        term = term.x
    moves = [stride_along(term, range_) for range_ in ranges]
    if divisor == 1 or not isinstance(term, e.Affine | e.RangeRef) or None in moves:
        return ()
    return tuple(abs(move or 0) / divisor for move in moves)


def share_of(mask: Expr) -> float:
    """Return at which part of all points a mask holds, as if what it tests had each of its values equally often."""
    match mask:
        case e.NonNegative(x=x) if x.high > x.low:
            return min(1.0, max(0.0, (x.high + 1) / (x.high - x.low + 1)))
        case e.Apply2(op=BinaryOp.AND, x=x, y=y):
            return share_of(x) * share_of(y)
        case _:
            return 1.0


def merged(patterns: Sequence[Pattern]) -> list[Pattern]:
    """Return the patterns, those that differ by a constant as one."""
    found: dict[tuple[object, tuple[PositionPart, ...]], list[Pattern]] = {}
    for pattern in patterns:
        found.setdefault((pattern.array, pattern.steps), []).append(pattern)
    result = []
    for (array, steps), alike in found.items():
        offsets = tuple(sorted({offset for pattern in alike for offset in pattern.offsets}))
        share = max(pattern.share for pattern in alike)
        result.append(Pattern(array, alike[0].nbytes, alike[0].itemsize, steps, offsets, share))
    return result


def _sources(root: Expr) -> list[Expr]:
    """Return what of an index comes from memory."""
    found: list[Expr] = []
    stack, seen = [root], {root}
    while stack:
        if isinstance(current := stack.pop(), e.Read | e.Ref | e.Opaque):
            found.append(current)
        else:
            new = [child for child in current.children if child not in seen]
            seen.update(new)
            stack.extend(new)
    return found
