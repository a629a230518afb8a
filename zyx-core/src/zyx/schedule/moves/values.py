"""Moves that change statements: partial results, staging, inlining, streaming stores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from zyx.errors import ScheduleError
from zyx.nest import expr as e
from zyx.nest.accesses import expressions_of
from zyx.nest.data import Compute, Kind, Nest, Statement, Store
from zyx.nest.rebuild import mask_reads, roots_of, transform, with_roots
from zyx.schedule.moves.ranges import Mark, Split, find_range, find_statement

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Nested:
    """Reduce over the ranges `inner` into a value of its own first, then over the others.

    The partial value has accumulators of its own, in the loops inside the remaining reduction loops:

        c[i, j] = sum(k.0, k.1) of ..   =>   p[i, j, k.0] = sum(k.1) of ..;   c[i, j] = sum(k.0) of p[i, j, k.0]
    """

    statement: str
    inner: tuple[str, ...]

    def apply(self, nest: Nest) -> Nest:
        """Return the nest after the move.

        Raises:
            ScheduleError: Not a reduction over these and more ranges.
        """
        statement = find_statement(nest, self.statement)
        inner = tuple(find_range(nest, label) for label in self.inner)
        if not isinstance(statement, Compute) or not set(inner) < set(statement.reduced):
            raise ScheduleError(f"{self.statement} does not reduce over {', '.join(self.inner)} and more")
        outer = tuple(range_ for range_ in statement.reduced if range_ not in inner)
        if statement.matrix is not None and not set(statement.matrix.depth) <= set(inner):
            raise ScheduleError(
                f"{self.statement} multiplies matrices along {list(statement.matrix.depth)}: reduce them first"
            )
        ranges = tuple(range_ for range_ in statement.order if range_ not in inner)
        partial = e.Value(_next_number(nest), statement.value.dtype, ranges)
        first = replace(statement, value=partial, reduced=inner)
        ref = nest.pool.value_ref(partial, tuple(nest.pool.ref(range_) for range_ in ranges))
        second = replace(statement, expr=ref, reduced=outer, order=ranges, matrix=None)
        return _insert(nest, statement, [first, second])


@dataclass(frozen=True, slots=True)
class Stage:
    """Copy what a statement reads of a buffer into scratch memory first.

    The copy holds the elements for all points of `tile`, laid out in that order; it is made anew for every point of
    the other ranges that the position depends on. The copy's own ranges are labelled ``label@vN`` for value N, the
    copy. `place` tells which read is meant, counted from 0, if the statement reads the buffer at several positions.

    With ``skew=(a, b, step)``, point (a, b) of these two ranges of the tile lies at ``(b + step * a) % size of b``
    along b. So threads with neighbouring points of a, and others with neighbouring points of b, can both use different
    banks of the memory.

    With `converted`, the copy holds what the statement converts the read to, if it does: once, not at every use.
    """

    statement: str
    param: int
    tile: tuple[str, ...]
    place: int | None = None
    skew: tuple[str, str, int] | None = None
    converted: bool = False

    def apply(self, nest: Nest) -> Nest:
        """Return the nest after the move.

        Raises:
            ScheduleError: The statement reads the buffer nowhere, or at several positions, and `place` is none of them;
                or warps compute it as a product of matrices, where copies must be made before that move.
        """
        pool = nest.pool
        statement = find_statement(nest, self.statement)
        if isinstance(statement, Compute) and statement.matrix is not None:
            raise ScheduleError(f"warps multiply matrices for {self.statement}: stage what they read before that")
        tile = [find_range(nest, label) for label in self.tile]
        reads = [read for read in reads_of_value(statement) if read.param.number == self.param]
        if len(reads) != 1 if self.place is None else not 0 <= self.place < len(reads):
            wanted = "one" if self.place is None else f"{self.place + 1} or more"
            raise ScheduleError(f"{self.statement} reads p{self.param} at {len(reads)} positions, not {wanted}")
        read: e.Expr = reads[self.place or 0]
        if self.converted:
            read = conversion_of(statement, reads[self.place or 0])
        around = [r for r in statement.order if r not in tile and read.free & r.bit]
        number = _next_number(nest)
        copies = [pool.range(range_.size, f"{range_.label}@v{number}") for range_ in tile]
        value = e.Value(number, read.dtype, (*around, *copies))
        inside: dict[e.Range, e.Expr] = {old: pool.ref(new) for old, new in zip(tile, copies, strict=True)}
        outside: dict[e.Range, e.Expr] = {range_: pool.ref(range_) for range_ in (*around, *tile)}
        if self.skew is not None:
            along, skewed = (find_range(nest, label) for label in self.skew[:2])
            if along not in tile or skewed not in tile:
                raise ScheduleError(f"{along} and {skewed} must both be in the tile {list(self.tile)} to be skewed")
            for at, step in ((inside, -self.skew[2]), (outside, self.skew[2])):
                turned = pool.affine(((at[skewed], 1), (at[along], step % skewed.size)))
                at[skewed] = pool.modulo(turned, skewed.size)
        (copied,) = pool.substitute([read], inside)
        copy = Compute(value, copied, None, (), value.ranges)
        ref = pool.value_ref(value, tuple(outside.values()))
        user = _replace_expr(nest, statement, read, ref)
        return _insert(nest, statement, [copy, user])


@dataclass(frozen=True, slots=True)
class Inline:
    """Compute a plain value anew wherever it is read, instead of keeping it."""

    statement: str

    def apply(self, nest: Nest) -> Nest:
        """Return the nest after the move.

        Raises:
            ScheduleError: Not a plain value.
        """
        pool = nest.pool
        definition = find_statement(nest, self.statement)
        if not isinstance(definition, Compute) or definition.op is not None:
            raise ScheduleError(f"{self.statement} is not a plain value")

        def change(expr: e.Expr) -> e.Expr:
            if isinstance(expr, e.Ref) and expr.value is definition.value:
                at = dict(zip(definition.value.ranges, expr.indices, strict=True))
                (body,) = pool.substitute([definition.expr], at)
                return body if expr.mask is None else mask_reads(pool, body, expr.mask, -1)
            return expr

        statements = [
            with_roots(statement, [transform(pool, root, change) for root in roots_of(statement)])
            for statement in nest.statements
            if statement is not definition
        ]
        return replace(nest, statements=tuple(statements))


@dataclass(frozen=True, slots=True)
class Stream:
    """Mark a store as one whose memory nothing reads soon."""

    statement: str

    def apply(self, nest: Nest) -> Nest:
        """Return the nest after the move."""
        statement = find_statement(nest, self.statement)
        if not isinstance(statement, Store):
            raise ScheduleError(f"{self.statement} is not a store")
        return _insert(nest, statement, [replace(statement, streaming=True)])


@dataclass(frozen=True, slots=True)
class GroupReduce:
    """Let `threads` threads of a group reduce over a range together, each over every `threads`-th point."""

    range: str
    threads: int

    def apply(self, nest: Nest) -> Nest:
        """Return the nest after the move."""
        split = Split(self.range, self.threads).apply(nest)
        return Mark(f"{self.range}.1", Kind.LOCAL).apply(split)


@dataclass(frozen=True, slots=True)
class SwapReduce:
    """Let the threads along a range combine by swapping values, as far as they stand in aligned groups of `threads`.

    Only what these groups have goes through local memory then. The number is a power of two, 2 at least; a device that
    runs the kernel must have subgroups of so many threads.
    """

    range: str
    threads: int

    def apply(self, nest: Nest) -> Nest:
        """Return the nest after the move.

        Raises:
            ScheduleError: No range of threads, or no power of two.
        """
        range_ = find_range(nest, self.range)
        if nest.kind(range_) is not Kind.LOCAL:
            raise ScheduleError(f"{range_} is a {nest.kind(range_).value} range: only threads swap values")
        if self.threads < 2 or self.threads & (self.threads - 1):
            raise ScheduleError(f"threads swap values in groups of 2, 4, 8 or so, not of {self.threads}")
        return replace(nest, swapping={**nest.swapping, range_: self.threads})


def conversion_of(statement: Statement, read: e.Read) -> e.Expr:
    """Return what a statement converts `read` to wherever it uses it, or `read` itself if there is no such."""
    users = [expr for expr in expressions_of(statement) if any(child is read for child in expr.children)]
    is_one = len(users) == 1 and isinstance(users[0], e.Convert) and users[0].dtype is not e.INDEX
    return users[0] if is_one else read


def reads_of_value(statement: Statement) -> list[e.Read]:
    """Return the reads below the expression of a statement, in the order in which `Stage` counts them."""
    found: dict[e.Expr, None] = {}
    stack = [statement.expr]
    seen: set[e.Expr] = set()
    while stack:
        current = stack.pop()
        if current in seen:
            continue
        seen.add(current)
        if isinstance(current, e.Read):
            found[current] = None
        stack.extend(current.children)
    return [read for read in found if isinstance(read, e.Read)]


def _next_number(nest: Nest) -> int:
    """Return a number that no value of `nest` has: of the nest alone, so that moves give the same labels every time."""
    return 1 + max((s.value.number for s in nest.statements if not isinstance(s, Store)), default=-1)


def _replace_expr(nest: Nest, statement: Statement, old: e.Expr, new: e.Expr) -> Statement:
    changed = transform(nest.pool, statement.expr, lambda expr: new if expr is old else expr)
    return replace(statement, expr=changed)


def _insert(nest: Nest, old: Statement, new: Sequence[Statement]) -> Nest:
    statements: list[Statement] = []
    for statement in nest.statements:
        statements += new if statement is old else [statement]
    return replace(nest, statements=tuple(statements))
