"""A search along a line for where the strong Wolfe conditions hold.

    loss(t) <= loss(0) + C1 * t * slope(0)        low enough for so long a way
    |slope(t)| <= C2 * |slope(0)|                 flat enough

First further and further, until an interval has such a place; then places within it, by the least of a cubic through
its ends. Nocedal and Wright, "Numerical optimization", 2006, algorithms 3.5 and 3.6, and formula 3.59. How far the way
grows, and how near to an end of the interval a place may be, are PyTorch's.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.tensor.tensor import Tensor

C1: Final = 1e-4
C2: Final = 0.9
#: How much further the next place is than the last, at least in parts of the last way and at most in parts of all.
GROWTH: Final = (0.01, 10.0)
#: How near to an end of an interval a place may be, in parts of it, two times in a row.
MARGIN: Final = 0.1


class LinePoint(NamedTuple):
    """A place on the line.

    Attributes:
        at: How far it is.
        loss: The loss there.
        slope: How much the loss grows there for a way of 1.
        gradient: The gradient there.
    """

    at: float
    loss: float
    slope: float
    gradient: Tensor


def strong_wolfe(
    look: Callable[[float], LinePoint], start: LinePoint, first: float, width: float, tolerance: float, most: int
) -> tuple[LinePoint, int]:
    """Return a place where the conditions hold, or the lowest that was seen, and how many were looked at.

    Args:
        look: Looks at a place.
        start: The place 0; its slope is below 0.
        first: Where to look first.
        width: How far the line goes for a way of 1.
        tolerance: An interval shorter than this is not divided.
        most: How many more places than one are looked at.
    """
    before, now, looked = start, look(first), 0
    while looked < most:
        is_over = _is_high(now, start) or (looked > 1 and now.loss >= before.loss)
        if not is_over and _is_flat(now, start):
            return now, looked + 1
        if is_over or now.slope >= 0.0:
            return _within([before, now], look, start, width, tolerance, most, looked)
        bounds = (now.at + GROWTH[0] * (now.at - before.at), now.at * GROWTH[1])
        before, now, looked = now, look(lowest(before, now, bounds)), looked + 1
    return min(start, now, key=lambda place: place.loss), looked + 1


def _within(
    ends: list[LinePoint],
    look: Callable[[float], LinePoint],
    start: LinePoint,
    width: float,
    tolerance: float,
    most: int,
    looked: int,
) -> tuple[LinePoint, int]:
    """Return a place in an interval; see `strong_wolfe`."""
    low, was_near = _lower(ends), False
    while looked < most and abs(ends[1].at - ends[0].at) * width >= tolerance:
        left, right = sorted(end.at for end in ends)
        at, margin = lowest(ends[0], ends[1], (left, right)), MARGIN * (right - left)
        is_near = min(right - at, at - left) < margin
        if is_near and (was_near or not left < at < right):
            at, is_near = (right - margin if right - at < at - left else left + margin), False
        was_near = is_near
        now, looked = look(at), looked + 1
        if _is_high(now, start) or now.loss >= ends[low].loss:
            ends[1 - low] = now
            low = _lower(ends)
            continue
        if _is_flat(now, start):
            return now, looked + 1
        if now.slope * (ends[1 - low].at - ends[low].at) >= 0.0:
            ends[1 - low] = ends[low]
        ends[low] = now
    return ends[low], looked + 1


def _is_high(now: LinePoint, start: LinePoint) -> bool:
    return now.loss > start.loss + C1 * now.at * start.slope


def _is_flat(now: LinePoint, start: LinePoint) -> bool:
    return abs(now.slope) <= -C2 * start.slope


def _lower(ends: list[LinePoint]) -> int:
    return 0 if ends[0].loss <= ends[1].loss else 1


def lowest(one: LinePoint, other: LinePoint, bounds: tuple[float, float]) -> float:
    """Return where a cubic through two places is least, within bounds; their middle, where it has no least place."""
    left, right = (one, other) if one.at <= other.at else (other, one)
    middle = (bounds[0] + bounds[1]) / 2.0
    if left.at == right.at:
        return middle
    mean = left.slope + right.slope - 3.0 * (left.loss - right.loss) / (left.at - right.at)
    square = mean * mean - left.slope * right.slope
    if not square >= 0.0:  # NaN as well
        return middle
    root = math.sqrt(square)
    whole = right.slope - left.slope + 2.0 * root
    if whole == 0.0:
        return middle
    at = right.at - (right.at - left.at) * ((right.slope + root - mean) / whole)
    return min(max(at, bounds[0]), bounds[1])
