"""Moves that change ranges: split, merge, put behind each other, pad, mark, peel, reorder, set apart."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from zyx.errors import ScheduleError
from zyx.nest import expr as e
from zyx.nest.accesses import below
from zyx.nest.data import Compute, Kind, Nest, Scan, Statement, Store
from zyx.nest.rebuild import (
    check_free,
    pad_range,
    put_behind,
    rename_range,
    replace_ranges,
    roots_of,
    transform,
    with_roots,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.nest.expr import Expr, Range


def find_range(nest: Nest, label: str) -> Range:
    """Return the range of that label.

    Raises:
        ScheduleError: There is none; the text lists those there are.
    """
    for range_ in nest.ranges:
        if range_.label == label:
            return range_
    raise ScheduleError(f"no range {label}; there are {', '.join(range_.label for range_ in nest.ranges)}")


def find_statement(nest: Nest, label: str) -> Statement:
    """Return the statement that defines value ``v3`` or is store number n, ``s0`` being the first.

    Raises:
        ScheduleError: There is none.
    """
    for candidate, name in statement_labels(nest).items():
        if name == label:
            return candidate
    raise ScheduleError(f"no statement {label}; there are {', '.join(statement_labels(nest).values())}")


def statement_labels(nest: Nest) -> dict[Statement, str]:
    """Return the label of each statement."""
    labels: dict[Statement, str] = {}
    count = 0
    for statement in nest.statements:
        if isinstance(statement, Store):
            labels[statement] = f"s{count}"
            count += 1
        else:
            labels[statement] = repr(statement.value)
    return labels


@dataclass(frozen=True, slots=True)
class Split:
    """Turn range r into ``r.0`` (outer) and ``r.1`` (inner, `factor` points): ``r = r.0 * factor + r.1``.

    If the factor does not divide the size, the points past the end are masked off; `Peel` the outer range to have the
    masks in its last point only.
    """

    range: str
    factor: int

    def apply(self, nest: Nest) -> Nest:
        """Return the nest after the move."""
        old = find_range(nest, self.range)
        factor = self.factor
        if factor < 1:
            raise ScheduleError(f"cannot split {old.label} by {factor}")
        pool = nest.pool
        outer = pool.range(-(-old.size // factor), f"{old.label}.0")
        inner = pool.range(factor, f"{old.label}.1")
        value = pool.affine(((pool.ref(outer), factor), (pool.ref(inner), 1)))

        def coordinates(indices: Sequence[Expr]) -> Sequence[Expr]:
            return pool.divide(indices[0], factor), pool.modulo(indices[0], factor)

        guard = None if old.size % factor == 0 else pool.less(value, old.size)
        result = replace_ranges(nest, [old], [outer, inner], {old: value}, coordinates, guard)
        kind = nest.kind(old)
        return replace(result, kinds={**result.kinds, outer: kind, inner: kind}) if kind is not Kind.LOOP else result


@dataclass(frozen=True, slots=True)
class Merge:
    """Turn the neighbouring ranges `outer` and `inner` into one, ``outer+inner``.

    Where it is divided for nothing but tests of the outer one, it is tested itself: ``outer <= 3`` of an inner one of 3
    points is ``outer+inner <= 11``.
    """

    outer: str
    inner: str

    def apply(self, nest: Nest) -> Nest:
        """Return the nest after the move.

        Raises:
            ScheduleError: A statement or value has one of them without the other next to it.
        """
        first, second = find_range(nest, self.outer), find_range(nest, self.inner)
        for statement in nest.statements:
            lists = [statement.order]
            match statement:
                case Compute():
                    lists += [statement.reduced, statement.value.ranges]
                case Scan():
                    lists += [statement.along, statement.value.ranges]
                case Store():
                    lists += [statement.serial]
            for ranges in lists:
                if not _adjacent(ranges, first, second):
                    raise ScheduleError(
                        f"{first.label} and {second.label} are not next to each other in {list(ranges)}"
                    )
        pool = nest.pool
        size = second.size
        merged = pool.range(first.size * size, f"{first.label}+{second.label}")
        position = pool.ref(merged)
        values = {first: pool.divide(position, size), second: pool.modulo(position, size)}

        def coordinates(indices: Sequence[Expr]) -> Sequence[Expr]:
            return (pool.affine(((indices[0], size), (indices[1], 1))),)

        return _tested_whole(replace_ranges(nest, [first, second], [merged], values, coordinates), merged, size)


def _adjacent(ranges: tuple[Range, ...], first: Range, second: Range) -> bool:
    if first not in ranges and second not in ranges:
        return True
    if first not in ranges or second not in ranges:
        return False
    return ranges.index(second) == ranges.index(first) + 1


def _tested_whole(nest: Nest, merged: Range, size: int) -> Nest:
    """Return `nest` with tests of ``merged // size`` as tests of `merged`, if nothing else divides that."""
    pool = nest.pool
    position = pool.ref(merged)
    quotient = pool.divide(position, size)
    tested: set[Expr] = set()
    everything = below(*(root for statement in nest.statements for root in roots_of(statement)))
    for expr in everything:
        if isinstance(expr, e.Quotient | e.Remainder) and expr.free & merged.bit and expr is not quotient:
            return nest
        if quotient in expr.children:
            if not isinstance(expr, e.Affine) or abs(dict(expr.terms)[quotient]) != 1:
                return nest
            tested.add(expr)
    if not tested or any(
        not isinstance(expr, e.NonNegative) and not tested.isdisjoint(expr.children) for expr in everything
    ):
        return nest

    def change(expr: Expr) -> Expr:
        if not isinstance(expr, e.NonNegative) or not isinstance(expr.x, e.Affine) or expr.x not in tested:
            return expr
        sign = dict(expr.x.terms)[quotient]
        others = [(term, factor * size) for term, factor in expr.x.terms if term is not quotient]
        return pool.non_negative(
            pool.affine([*others, (position, sign)], expr.x.constant * size + (size - 1 if sign < 0 else 0))
        )

    memo: dict[Expr, Expr] = {}
    statements = (
        with_roots(statement, [transform(pool, root, change, memo) for root in roots_of(statement)])
        for statement in nest.statements
    )
    return replace(nest, statements=tuple(statements))


@dataclass(frozen=True, slots=True)
class Behind:
    """Put the range `inner` right behind `outer` in the loops and the values of all statements, as `Merge` needs them.

    Both are free, or a statement combines over both: none goes over them in order.
    """

    outer: str
    inner: str

    def apply(self, nest: Nest) -> Nest:
        """Return the nest after the move.

        Raises:
            ScheduleError: A statement has, or combines over, one of them only, or goes over one in order.
        """
        first, second = find_range(nest, self.outer), find_range(nest, self.inner)
        if first is second:
            raise ScheduleError(f"{first.label} cannot be behind itself")
        check_free(nest, [first, second])
        return put_behind(nest, first, second)


@dataclass(frozen=True, slots=True)
class Pad:
    """Grow a range to a multiple, with the points past the end masked off; the new range is ``r'``."""

    range: str
    multiple: int

    def apply(self, nest: Nest) -> Nest:
        """Return the nest after the move."""
        return pad_range(nest, find_range(nest, self.range), self.multiple)


@dataclass(frozen=True, slots=True)
class Mark:
    """Set the kind of a range."""

    range: str
    kind: Kind

    def apply(self, nest: Nest) -> Nest:
        """Return the nest after the move."""
        range_ = find_range(nest, self.range)
        check_free(nest, [range_])
        return replace(nest, kinds={**nest.kinds, range_: self.kind})


@dataclass(frozen=True, slots=True)
class Peel:
    """Write the last point of a range out apart, so that the masks only it needs vanish from the others."""

    range: str

    def apply(self, nest: Nest) -> Nest:
        """Return the nest after the move."""
        range_ = find_range(nest, self.range)
        check_free(nest, [range_])
        return replace(nest, peeled=nest.peeled | {range_})


@dataclass(frozen=True, slots=True)
class Reorder:
    """Put the loops of one statement into another order, outermost first."""

    statement: str
    ranges: tuple[str, ...]

    def apply(self, nest: Nest) -> Nest:
        """Return the nest after the move.

        Raises:
            ScheduleError: Not the same ranges, or ranges that must run in order would not.
        """
        statement = find_statement(nest, self.statement)
        by_label = {range_.label: range_ for range_ in statement.order}
        if sorted(self.ranges) != sorted(by_label):
            raise ScheduleError(f"{self.statement} has the ranges {', '.join(by_label)}, not {', '.join(self.ranges)}")
        order = tuple(by_label[label] for label in self.ranges)
        in_order = (
            statement.along if isinstance(statement, Scan) else statement.serial if isinstance(statement, Store) else ()
        )
        if tuple(range_ for range_ in order if range_ in in_order) != in_order:
            raise ScheduleError(f"{list(in_order)} must stay in this order")
        statements = [replace(current, order=order) if current is statement else current for current in nest.statements]
        return replace(nest, statements=tuple(statements))


@dataclass(frozen=True, slots=True)
class Apart:
    """Give some statements a range of their own in place of one that they share with others: ``r@s0``, a loop.

        v0[r] = sum(k) of ..   | r unrolled, k          v0[r] = sum(k) of ..   | r unrolled, k
        p0[r] = f(v0[r])       | r unrolled        =>   p0[r@s0] = f(v0[r@s0]) | r@s0

    So the accumulators of a sum stay in registers, and what is done to its results is written once, not for each.
    """

    range: str
    statements: tuple[str, ...]

    def apply(self, nest: Nest) -> Nest:
        """Return the nest after the move.

        Raises:
            ScheduleError: One of the statements does not run over the range, or warps multiply matrices along it.
        """
        old = find_range(nest, self.range)
        chosen = {find_statement(nest, label) for label in self.statements}
        label = f"{old.label}@{'+'.join(self.statements)}"
        if any(old not in statement.order for statement in chosen) or any(r.label == label for r in nest.ranges):
            raise ScheduleError(f"{', '.join(self.statements)} cannot have {label} in place of {self.range}")
        new = nest.pool.range(old.size, label)
        return rename_range(nest, chosen, old, new)
