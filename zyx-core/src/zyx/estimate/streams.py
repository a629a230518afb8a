"""How often what is read line after line begins anew, so that nothing has been fetched ahead.

    for r0: for r1: p0[r0 * 600 + r1]              one stream, from the first byte to the last
    four points of r0 at a time: for r1: ...       four streams, each of which ends after 600 bytes: each row is a start

Processors fetch ahead of lines that follow each other, within a page and after the first few. Rows that are read side
by side end before that; one behind the other they are one stream. Sums alone are looked at: they read most.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from zyx.nest.data import Compute

if TYPE_CHECKING:
    from zyx.estimate.footprint import Pattern
    from zyx.estimate.layout import ScheduledNest
    from zyx.nest.data import Statement

#: Lines that are asked for at once, and bytes of half a page: streams of so few lines wait for none, long ones once.
_AT_ONCE: Final = 4
_LONG_BYTES: Final = 2048


def short_streams(layout: ScheduledNest, line_bytes: int, near_bytes: float) -> float:
    """Return how many short streams of sums begin, in arrays that do not fit the nearest cache."""
    total = 0.0
    for statement, accesses in layout.accesses.items():
        if not isinstance(statement, Compute) or statement.op is None:
            continue
        begun: dict[object, float] = {}
        for access in accesses:
            pattern = access.pattern
            is_far = pattern.array in layout.nest.params and pattern.nbytes > near_bytes
            count = _begun(layout, statement, pattern, line_bytes) if is_far and not access.is_store else 0.0
            begun[pattern.array] = max(begun.get(pattern.array, 0.0), count)
        total += sum(begun.values())
    return total


def _begun(layout: ScheduledNest, statement: Statement, pattern: Pattern, line_bytes: int) -> float:
    """Return how many short streams an access begins that would be one stream; none where positions are no sums."""
    if any(step.is_random or len(step.ranges) > 1 for step in pattern.steps):
        return 0.0
    (_, run), *groups = pattern.runs(layout.at_once[statement])
    streams, apart_most = 1.0, 0.0
    for apart, count in groups:
        if apart <= run + line_bytes:
            run += apart * (count - 1)
        else:
            streams, apart_most = streams * count, max(apart_most, apart)
    around = [range_ for range_ in (*layout.groups, *layout.loops[statement]) if range_.size > 1]
    steps = [sum(each.nbytes for each in pattern.steps if range_ in each.ranges) for range_ in around]
    outer = [(step, range_.size) for step, range_ in zip(steps, around, strict=True) if step]
    while outer and outer[-1][0] <= run + line_bytes:
        step, size = outer.pop()
        run += step * (size - 1)
    would_be_one = streams > 1 and apart_most <= run + line_bytes
    if not would_be_one or not _AT_ONCE * line_bytes < run <= _LONG_BYTES:
        return 0.0
    return streams * math.prod(size for _, size in outer)
