"""Loop unswitching: find where the masks of what is written out hold as a whole, or not at all.

    for i < 100:  out[64 * i + lane] = x[64 * i + lane] if 64 * i + lane < 3000 else y[64 * i + lane - 3000]

    =>  if 64 * i <= 2936:         out[64 * i + lane] = x[64 * i + lane]
        if 64 * i >= 3000:         out[64 * i + lane] = y[64 * i + lane - 3000]
        if neither:                as it was

What masks compare is divided into what is the same for all that is written out at once, a *position*, and the rest,
such as the lane. A position is tested by a few instructions; each vector of a mask takes as many, and takes the lanes
of a load one by one where they do not lie side by side.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zyx.nest import expr as e
from zyx.nest.accesses import below
from zyx.nest.rebuild import transform

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import TypeAlias

    from zyx.nest.expr import Expr
    from zyx.nest.pool import Pool

#: Positions that are looked at together; of one alone, stretches that get a body each.
_MOST_POSITIONS: Final = 3
_MOST_STRETCHES: Final = 4

#: Terms with their factors, which have no common divisor; the first factor is positive.
Position: TypeAlias = "tuple[tuple[Expr, int], ...]"


@dataclass(frozen=True, slots=True)
class Case:
    """Intervals (first, last) of positions within which the masks that depend on these are constant.

    Attributes:
        stretches: The positions, with the first and the last point of the stretch of each.
        written_out: The ranges that are no part of positions, as a bit set.
    """

    stretches: tuple[tuple[Position, int, int], ...]
    written_out: int

    def assume(self, pool: Pool, roots: Sequence[Expr]) -> list[Expr]:
        """Return `roots` as they are where the case holds."""
        memo: dict[Expr, Expr] = {}
        within = {position: (first, last) for position, first, last in self.stretches}

        def change(expr: Expr) -> Expr:
            found = _divided(expr, self.written_out)
            if found is None or found.position not in within:
                return expr
            first, last = within[found.position]
            if found.holds_from(first) and found.holds_from(last):
                return pool.true
            return pool.false if found.fails_from(first) and found.fails_from(last) else expr

        return [transform(pool, root, change, memo) for root in roots]


@dataclass(frozen=True, slots=True)
class _Test:
    """``factor * position + rest >= 0``, where the rest lies between `low` and `high`."""

    position: Position
    factor: int
    low: int
    high: int

    def holds_from(self, at: int) -> bool:
        """Whether the test holds at a position, whatever the rest is."""
        return self.factor * at + self.low >= 0

    def fails_from(self, at: int) -> bool:
        """Whether the test fails at a position, whatever the rest is."""
        return self.factor * at + self.high < 0

    def borders(self) -> tuple[int, int]:
        """Return (first, last) position where the test depends on the rest; the last may be in front of the first."""
        if self.factor > 0:
            return -((self.high) // self.factor), -(self.low // self.factor) - 1
        return self.low // -self.factor + 1, self.high // -self.factor


def unswitched_cases(pool: Pool, roots: Iterable[Expr], written_out: int, *, of_lanes: bool = True) -> list[Case]:
    """Return cases that are worth a body of their own; no two of them hold at once.

    Args:
        pool: Where expressions are made.
        roots: What is written.
        written_out: The ranges that are lanes or written out, as a bit set.
        of_lanes: Whether masks must differ along these for a body of its own to pay.
    """
    tests: dict[Position, list[_Test]] = {}
    differs: set[Position] = set()
    for expr in below(*roots):
        found = _divided(expr, written_out)
        if found is not None:
            tests.setdefault(found.position, []).append(found)
            if expr.free & written_out:
                differs.add(found.position)
    if (of_lanes and not differs) or not tests or len(tests) > _MOST_POSITIONS:
        return []
    stretches = {position: _stretches(pool, position, of) for position, of in tests.items()}
    if not all(stretches.values()):
        return []
    if len(stretches) == 1:
        ((position, found_stretches),) = stretches.items()
        longest = sorted(found_stretches, key=lambda s: s[0] - s[1])[:_MOST_STRETCHES]
        return [Case(((position, first, last),), written_out) for first, last in sorted(longest)]
    # Of several positions only one stretch each: that of most points, such as the inside of an image.
    longest_of_each = tuple((position, *max(of, key=lambda s: s[1] - s[0])) for position, of in stretches.items())
    return [Case(longest_of_each, written_out)]


def _stretches(pool: Pool, position: Position, tests: Sequence[_Test]) -> list[tuple[int, int]]:
    """Return the stretches (first, last) of a position in which no test depends on the rest, if they are most of it."""
    whole = pool.affine(position)
    start, found = whole.low, []
    for first, last in sorted(test.borders() for test in tests):
        if start < first:
            found.append((start, min(first - 1, whole.high)))
        start = max(start, last + 1)
    if start <= whole.high:
        found.append((start, whole.high))
    covered = sum(last + 1 - first for first, last in found)
    return found if 2 * covered > whole.high - whole.low else []


def _divided(expr: Expr, written_out: int) -> _Test | None:
    """Divide a comparison into its position, all terms that are neither lanes nor unrolled, and the rest."""
    if not isinstance(expr, e.NonNegative):
        return None
    terms = expr.x.terms if isinstance(expr.x, e.Affine) else ((expr.x, 1),)
    rest = [(term, factor) for term, factor in terms if term.free & written_out]
    around = [(term, factor) for term, factor in terms if not term.free & written_out]
    if not around:
        return None
    around.sort(key=lambda item: item[0].serial)
    factor = math.copysign(math.gcd(*(factor for _, factor in around)), around[0][1])
    position = tuple((term, times // int(factor)) for term, times in around)
    constant = expr.x.constant if isinstance(expr.x, e.Affine) else 0
    low = constant + sum(min(term.low * times, term.high * times) for term, times in rest)
    high = constant + sum(max(term.low * times, term.high * times) for term, times in rest)
    return _Test(position, int(factor), low, high)
