"""A schedule being written: the nest as it is after the moves so far, and what the next choice looks at."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zyx.errors import ScheduleError
from zyx.nest import expr as e
from zyx.nest.accesses import below, roots_of
from zyx.schedule.moves import Behind, Mark, Merge, Peel, Reorder, Split
from zyx.schedule.moves.ranges import find_range, statement_labels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from zyx.nest.data import Kind, Nest, Statement
    from zyx.nest.expr import Expr, Range
    from zyx.schedule.moves import Move


class Plan:
    """Applies moves one by one and keeps the list; copies that begin with the same moves share what comes of them."""

    def __init__(self, nest: Nest) -> None:
        self.nest = nest
        self.moves: list[Move] = []
        self._after: dict[tuple[Nest, Move], Nest] = {}

    def copy(self) -> Plan:
        """Return another plan with the same moves so far."""
        other = Plan(self.nest)
        other.moves = [*self.moves]
        other._after = self._after
        return other

    def become(self, other: Plan) -> None:
        """Take the moves of `other`, which began as a copy."""
        self.nest, self.moves = other.nest, other.moves

    def do(self, move: Move) -> None:
        """Apply `move`; if it does not apply, `ScheduleError` and nothing changes."""
        key = (self.nest, move)
        after = self._after.get(key)
        if after is None:
            after = self._after[key] = move.apply(self.nest)
        self.nest = after
        self.moves.append(move)

    def range(self, label: str) -> Range:
        """Return the range of that label."""
        return find_range(self.nest, label)

    def split(self, range_: Range, factor: int) -> tuple[Range, Range]:
        """Split a range, peel what has to be for masks to stay out of most of it, and return (outer, inner).

        That is the outer part if the factor does not divide the range. If the range was peeled, it is the inner part,
        whose last points may be the last one of the range: a few times more points have masks than if both parts were
        peeled, but a body less is written.
        """
        was_peeled = range_ in self.nest.peeled
        outer, inner = self.split_masked(range_, factor)
        if range_.size % factor:
            self.do(Peel(outer.label))
        if was_peeled:
            self.do(Peel(inner.label))
        return outer, inner

    def split_masked(self, range_: Range, factor: int) -> tuple[Range, Range]:
        """Split a range, whose points past the end are masked off, and return (outer, inner)."""
        self.do(Split(range_.label, factor))
        return self.range(f"{range_.label}.0"), self.range(f"{range_.label}.1")

    def merge(self, outer: Range, inner: Range) -> Range:
        """Make one range of two, wherever they are, and return it; if that cannot be, `ScheduleError`."""
        try:
            self.do(Merge(outer.label, inner.label))
        except ScheduleError:
            self.do(Behind(outer.label, inner.label))
            self.do(Merge(outer.label, inner.label))
        return self.range(f"{outer.label}+{inner.label}")

    def merge_inner(self, ranges: Sequence[Range], is_wanted: Callable[[Range, Range], bool]) -> list[Range]:
        """Merge the last two of `ranges` as long as `is_wanted` says so of them and it can be; return what is left."""
        left = list(ranges)
        while len(left) > 1 and is_wanted(left[-2], left[-1]):
            try:
                left[-2:] = [self.merge(left[-2], left[-1])]
            except ScheduleError:
                break
        return left

    def mark(self, range_: Range, kind: Kind) -> None:
        """Set the kind of a range."""
        self.do(Mark(range_.label, kind))

    def order(self, ranges: Sequence[Range]) -> None:
        """Put the loops of every statement into the order of `ranges`; those not named come first, as they are."""
        rank = {range_: number for number, range_ in enumerate(ranges)}
        for statement, label in statement_labels(self.nest).items():
            wanted = sorted(statement.order, key=lambda range_: rank.get(range_, -1))
            if tuple(wanted) != statement.order:
                self.do(Reorder(label, tuple(range_.label for range_ in wanted)))


def simplify_ranges(plan: Plan) -> None:
    """Normalise ranges: split those whose index is always divided, and merge neighbours that are always flattened."""
    while (found := next(_divisions(plan.nest), None)) is not None:
        range_, divisor = found
        plan.do(Split(range_.label, divisor))
    merged = True
    while merged:
        merged = False
        for outer, inner in _neighbours(plan.nest):
            if _used_as_one(plan.nest, outer, inner):
                try:
                    plan.do(Merge(outer.label, inner.label))
                except ScheduleError:
                    continue
                merged = True
                break


def _divisions(nest: Nest) -> Iterator[tuple[Range, int]]:
    """Yield ranges that are divided by a divisor of their size, the smallest divisor first."""
    found = {
        (expr.x.range, expr.divisor)
        for expr in all_expressions(nest)
        if isinstance(expr, e.Quotient | e.Remainder) and isinstance(expr.x, e.RangeRef)
    }
    for range_, divisor in sorted(found, key=lambda item: (item[0].number, item[1])):
        if range_.size % divisor == 0 and 1 < divisor < range_.size:
            yield range_, divisor


def _neighbours(nest: Nest) -> Iterable[tuple[Range, Range]]:
    pairs: dict[tuple[Range, Range], None] = {}
    for statement in nest.statements:
        for outer, inner in zip(statement.order, statement.order[1:], strict=False):
            pairs[outer, inner] = None
    return pairs


def _used_as_one(nest: Nest, outer: Range, inner: Range) -> bool:
    """Whether the ranges appear as ``outer * size of inner + inner`` only, up to a common factor.

    Or as ``outer`` alone in a test of whether an index is at least 0, which one range decides as well.
    """
    inside = False
    both = outer.bit | inner.bit
    tested: set[Expr] = set()
    for expr in all_expressions(nest):
        if not expr.free & both:
            continue
        if isinstance(expr, e.Affine):
            factors = {term.range: factor for term, factor in expr.terms if isinstance(term, e.RangeRef)}
            if factors.get(outer, 0) == factors.get(inner, 0) * inner.size:
                inside = inside or outer in factors
            elif abs(factors.get(outer, 0)) == 1 and not expr.free & inner.bit:
                tested.add(expr)
            else:
                return False
        elif isinstance(expr, e.Ref):
            at = expr.value.ranges
            for range_, index in zip(at, expr.indices, strict=True):
                if index.free & both and not e.is_current(index, range_):
                    return False
        elif any(isinstance(child, e.RangeRef) and child.free & both for child in expr.children):
            return False
    if tested and not all(
        isinstance(expr, e.NonNegative) or tested.isdisjoint(expr.children) for expr in all_expressions(nest)
    ):
        return False
    return inside


def all_expressions(nest: Nest) -> list[Expr]:
    """Return every expression of `nest`, once."""
    return below(*[root for statement in nest.statements for root in roots_of(statement)])


def work_of(statement: Statement) -> int:
    """Return the number of points of a statement."""
    return math.prod([range_.size for range_ in statement.order])
