"""How many bytes come to each cache from behind it, from how much is touched while each loop runs.

    for r0: for r1: .. p0[r1] .. p1[r0, r1]      p0 fits the cache: its lines come once
                                                 p0 does not fit: once for every point of r0

A cache that holds all that a loop touches gets each line of it once. One that holds what a single turn of the loop
touches does, too: what turns have in common is there still when the next one begins. Else each turn starts over.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

from zyx.arithmetic.powers import previous_power
from zyx.estimate.footprint import lines_of_runs, lines_taken
from zyx.lowering.tree import RangeLoop, statements_in
from zyx.nest.data import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.estimate.footprint import Pattern
    from zyx.estimate.layout import Access, ScheduledNest
    from zyx.lowering.tree import Item
    from zyx.nest.data import Statement
    from zyx.nest.expr import Range

#: An item of the tree, or groups: the ranges of the grid from one on.
_Part: TypeAlias = "Item | tuple[Range, ...]"
#: An array, what of it is touched as `Pattern.runs` says, how many lines that is, and how many the array has.
_Run: TypeAlias = tuple[object, tuple[tuple[float, float], ...], float, float]


class Traffic:
    """Counts lines for caches of any size.

    Args:
        layout: The nest.
        line_bytes: What moves at a time.
        ways: Places that a cache has for each line, as a power of two; 0 if any place is for any line.
    """

    def __init__(self, layout: ScheduledNest, line_bytes: int, ways: int = 0) -> None:
        self._layout = layout
        self._line_bytes = line_bytes
        self._ways = ways
        self._touched: dict[tuple[_Part, int], float] = {}
        self._found: dict[_Part, Sequence[_Run]] = {}
        self._inside: dict[tuple[Statement, _Part], dict[Range, int]] = {}

    def into(self, capacity: float, *, of_group: bool = False) -> tuple[float, float]:
        """Return the bytes that come to a cache of `capacity` bytes, and how many of them from places far apart.

        With `of_group`, those of one group, which finds nothing of what others have left there.
        """
        lines, apart = self._moved(() if of_group else self._layout.groups, capacity)
        return lines * self._line_bytes, min(lines, apart) * self._line_bytes

    def touched(self) -> float:
        """Return the bytes of all lines, each once."""
        return self._lines_touched(self._layout.groups) * self._line_bytes

    def stored(self, *, streaming: bool) -> float:
        """Return the bytes of the lines of buffers that are written by stores that pass the caches, or do not."""
        found = [
            access
            for accesses in self._layout.accesses.values()
            for access in accesses
            if access.is_store and access.is_streaming == streaming and not self._is_own(access)
        ]
        return sum(self._lines(access, self._layout.groups) for access in found) * self._line_bytes

    def bytes_of_warps(self, threads: int, line_bytes: int, *, stores: bool, each: bool) -> float:
        """Return the bytes of the lines that all loads, or stores, touch, warp by warp of so many threads.

        With `each`, of points that are written out each has its lines, but for what is the same at several of them.
        """
        total = 0.0
        for statement, accesses in self._layout.accesses.items():
            counts, left = dict(self._layout.at_once[statement]), threads
            kinds = (Kind.UNROLL, Kind.REPEAT) if each else ()
            steps = {range_: counts.pop(range_) for range_ in [*counts] if self._layout.nest.kind(range_) in kinds}
            for axis in self._layout.axes:
                mine = next((range_ for range_ in statement.order if range_ in axis), None)
                if mine is not None:
                    counts[mine] = min(left, mine.size)
                left = max(1, left // axis[0].size)
            warps = max(1, -(-self._layout.threads // threads)) * self._layout.group_count
            for range_ in self._layout.loops[statement]:
                warps *= range_.size
            for access in accesses:
                if access.is_store == stores and not self._is_own(access):
                    points = min(access.pattern.lines(steps, access.pattern.itemsize), math.prod(steps.values()))
                    lines = access.pattern.lines(counts, line_bytes, whole=1.0) * points
                    total += lines * access.pattern.share * warps
        return total * line_bytes

    def _is_own(self, access: Access) -> bool:
        return access.pattern.array not in self._layout.nest.params

    # ---- lines

    def _moved(self, part: _Part, capacity: float) -> tuple[float, float]:
        """Return the lines that come to an empty cache while `part` runs, and those of them that are far apart."""
        body, turns = self._body(part)
        way = previous_power(int(capacity / self._ways)) if self._ways and capacity < math.inf else 0
        if not body or self._lines_touched(part, way) * self._line_bytes <= capacity:
            return self._lines_touched(part), self._lines_apart(part)
        if turns > 1:
            together = 0.0
            for inner in body:
                together += self._lines_touched(inner, way)
            if together * self._line_bytes <= capacity:
                return self._lines_touched(part), self._lines_apart(part)
        lines = apart = 0.0
        for inner in body:
            more, more_apart = self._moved(inner, capacity)
            lines, apart = lines + more, apart + more_apart
        return turns * lines, turns * apart

    def _body(self, part: _Part) -> tuple[Sequence[_Part], int]:
        """Return what a turn consists of, and how many turns there are; nothing of a statement."""
        if isinstance(part, tuple):
            if not part:
                return self._layout.tree.body, 1
            return (part[1:],), part[0].size
        if isinstance(part, RangeLoop):
            return part.body, part.range.size
        return (), 1

    def _statements(self, part: _Part) -> Sequence[Statement]:
        if isinstance(part, tuple):
            return self._layout.nest.statements
        return tuple(statements_in(part)) if isinstance(part, RangeLoop) else (part,)

    def _lines_touched(self, part: _Part, way: int = 0) -> float:
        """Return how many different lines `part` touches; what several statements touch alike counts once.

        With `way`, the bytes of one, how many lines of a cache these take.
        """
        found = self._touched.get((part, way))
        if found is not None:
            return found
        lines: dict[object, float] = {}
        for array, touched, more, most in self._runs(part):
            before = lines.get(array, 0.0)
            lines[array] = min(most, before + more)
            if way:
                lines[array] = max(lines[array], before + lines_taken(touched, more, self._line_bytes, way))
        found = self._touched[part, way] = sum(lines.values())
        return found

    def _runs(self, part: _Part) -> Sequence[_Run]:
        """Return what `part` touches, each once."""
        found = self._found.get(part)
        if found is not None:
            return found
        patterns: dict[tuple[object, tuple[tuple[float, float], ...]], Pattern] = {}
        for statement in self._statements(part):
            counts = self._counts(statement, part)
            for access in self._layout.accesses[statement]:
                if not access.is_streaming:
                    patterns[access.pattern.array, access.pattern.runs(counts)] = access.pattern
        found = self._found[part] = [
            (
                array,
                touched,
                lines_of_runs(touched, pattern.itemsize, self._line_bytes),
                max(1.0, pattern.nbytes / self._line_bytes),
            )
            for (array, touched), pattern in patterns.items()
        ]
        return found

    def _lines_apart(self, part: _Part) -> float:
        """Return the lines of `part` that are touched one by one, each far from the one before."""
        total = 0.0
        for statement in self._statements(part):
            counts, at_once = self._counts(statement, part), self._layout.at_once[statement]
            inner = self._innermost(statement, counts)
            for access in self._layout.accesses[statement]:
                pattern = access.pattern
                if access.is_streaming or self._is_own(access):
                    continue
                is_apart, longest = False, 0
                for step in pattern.steps:
                    is_apart = is_apart or step.is_random
                    if inner in step.ranges and inner not in at_once:
                        longest = max(longest, step.nbytes)
                if not is_apart and longest > self._line_bytes:
                    is_apart = longest > pattern.runs(at_once)[0][1]
                if is_apart:
                    total += pattern.lines(counts, self._line_bytes)
        return total

    def _innermost(self, statement: Statement, counts: Mapping[Range, int]) -> Range | None:
        """Return the innermost loop around a statement, or the last range that is written out if there is none."""
        for range_ in reversed(self._layout.loops[statement]):
            if range_.size > 1:
                return range_
        return next((r for r in reversed(statement.order) if counts.get(r, 1) > 1), None)

    def _lines(self, access: Access, part: _Part) -> float:
        return access.pattern.lines(self._counts(access.statement, part), self._line_bytes)

    def _counts(self, statement: Statement, part: _Part) -> dict[Range, int]:
        """Return the points of the ranges of a statement that run while `part` runs."""
        found = self._inside.get((statement, part))
        if found is None:
            found = dict(self._layout.at_once[statement])
            ranges = self._layout.loops[statement]
            if isinstance(part, tuple):
                ranges = (*part, *ranges)
            else:
                ranges = ranges[ranges.index(part.range) :] if isinstance(part, RangeLoop) else ()
            for range_ in ranges:
                found[range_] = range_.size
            self._inside[statement, part] = found
        return found
