"""Replace ranges of a nest by others: what splitting, merging and padding have in common."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zyx.errors import ScheduleError
from zyx.nest import expr as e
from zyx.nest.data import Compute, Nest, Scan, Statement, Store
from zyx.ops import identity

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from zyx.nest.pool import Pool


def replace_ranges(
    nest: Nest,
    old: Sequence[e.Range],
    new: Sequence[e.Range],
    values: Mapping[e.Range, e.Expr],
    coordinates: Callable[[Sequence[e.Expr]], Sequence[e.Expr]],
    guard: e.Expr | None = None,
) -> Nest:
    """Return `nest` with the neighbouring ranges `old` replaced by `new` everywhere.

    Args:
        nest: The nest. A statement or value has all of `old`, next to each other and in this order, or none.
        old: Ranges to replace.
        new: Ranges that take their place.
        values: Each old range in terms of the new ones.
        coordinates: From the indices that a reference has for `old` to those for `new`.
        guard: Where the point exists; None if everywhere.

    Raises:
        ScheduleError: Warps multiply matrices along one of `old`.
    """
    check_free(nest, old)
    pool = nest.pool
    renamed: dict[e.Value, e.Value] = {}
    statements: list[Statement] = []
    for statement in nest.statements:
        rewriter = _Rewriter(pool, renamed, old, coordinates)
        concerned = old[0] in statement.order
        roots = roots_of(statement)
        if concerned:
            roots = pool.substitute(roots, values)
        roots = [rewriter.rewrite(root) for root in roots]
        if concerned and guard is not None:
            roots = _guarded(pool, statement, roots, guard, old)
        result = with_roots(statement, roots)
        if concerned:
            result = _with_ranges(result, old, new, pool, renamed)
        statements.append(result)
    kinds = {range_: kind for range_, kind in nest.kinds.items() if range_ not in old}
    swapping = {range_: threads for range_, threads in nest.swapping.items() if range_ not in old}
    return replace(nest, statements=tuple(statements), kinds=kinds, peeled=nest.peeled - set(old), swapping=swapping)


def pad_range(nest: Nest, old: e.Range, multiple: int) -> Nest:
    """Return `nest` with a range grown to a multiple, its label one prime longer; points past the end are masked off.

    Raises:
        ScheduleError: The multiple is not positive.
    """
    if multiple < 1:
        raise ScheduleError(f"cannot pad {old.label} to a multiple of {multiple}")
    size = -(-old.size // multiple) * multiple
    if size == old.size:
        return nest
    pool = nest.pool
    new = pool.range(size, f"{old.label}'")
    guard = pool.less(pool.ref(new), old.size)
    result = replace_ranges(nest, [old], [new], {old: pool.ref(new)}, lambda indices: indices, guard)
    swapping = {**result.swapping, **({new: nest.swapping[old]} if old in nest.swapping else {})}
    return replace(result, kinds={**result.kinds, new: nest.kind(old)}, swapping=swapping)


def rename_range(nest: Nest, chosen: Collection[Statement], old: e.Range, new: e.Range) -> Nest:
    """Return `nest` with `new`, of the same size, in the place of `old` in the statements `chosen`.

    Raises:
        ScheduleError: Warps multiply matrices along `old`.
    """
    check_free(nest, [old])
    pool = nest.pool
    renamed: dict[e.Value, e.Value] = {}
    rewriter = _Rewriter(pool, renamed, [old], lambda indices: indices)
    statements: list[Statement] = []
    for statement in nest.statements:
        roots = roots_of(statement)
        if statement in chosen:
            roots = pool.substitute(roots, {old: pool.ref(new)})
        result = with_roots(statement, [rewriter.rewrite(root) for root in roots])
        if statement in chosen:
            result = _with_ranges(result, [old], [new], pool, renamed)
        statements.append(result)
    return replace(nest, statements=tuple(statements))


def check_free(nest: Nest, ranges: Sequence[e.Range]) -> None:
    """Check that nothing relies on `ranges` staying as they are.

    Raises:
        ScheduleError: Warps multiply matrices along one of them.
    """
    for statement in nest.statements:
        if not isinstance(statement, Compute) or statement.matrix is None:
            continue
        for range_ in ranges:
            if range_ in statement.matrix.ranges:
                raise ScheduleError(
                    f"{range_} must stay as it is: warps multiply matrices along it for {statement.value}"
                )


def put_behind(nest: Nest, first: e.Range, second: e.Range) -> Nest:
    """Return `nest` with `second` right behind `first` in the loops and the values of all statements.

    Raises:
        ScheduleError: A statement has only one of them, combines over one and not the other, or runs in order over one.
    """
    pool = nest.pool
    moved: dict[e.Value, e.Value] = {}
    statements: list[Statement] = []

    def behind(ranges: tuple[e.Range, ...]) -> tuple[e.Range, ...]:
        others = [range_ for range_ in ranges if range_ is not second]
        place = others.index(first) + 1
        return (*others[:place], second, *others[place:])

    def change(expr: e.Expr) -> e.Expr:
        if not isinstance(expr, e.Ref) or expr.value not in moved:
            return expr
        at = dict(zip(expr.value.ranges, expr.indices, strict=True))
        value = moved[expr.value]
        return pool.value_ref(value, tuple(at[range_] for range_ in value.ranges), expr.mask)

    for statement in nest.statements:
        result = with_roots(statement, [transform(pool, root, change) for root in roots_of(statement)])
        found = [range_ for range_ in (first, second) if range_ in statement.order]
        if found:
            free = statement.order if isinstance(statement, Store) else statement.value.ranges
            serial = _in_order(statement)
            combined = isinstance(statement, Compute) and {first, second} <= {*statement.reduced}
            if len(found) == 1 or not (combined or all(r in free and r not in serial for r in found)):
                raise ScheduleError(f"{first} and {second} must both be free in {list(statement.order)}")
            result = replace(result, order=behind(result.order))
            if isinstance(result, Compute) and combined:
                result = replace(result, reduced=behind(result.reduced))
            elif not isinstance(result, Store):
                value = e.Value(result.value.number, result.value.dtype, behind(result.value.ranges))
                moved[result.value] = value
                result = replace(result, value=value)
        statements.append(result)
    return replace(nest, statements=tuple(statements))


def _in_order(statement: Statement) -> tuple[e.Range, ...]:
    match statement:
        case Store(serial=serial):
            return serial
        case Scan(along=along):
            return along
        case Compute(reduced=reduced):
            return reduced


def splice(ranges: tuple[e.Range, ...], old: Sequence[e.Range], new: Sequence[e.Range]) -> tuple[e.Range, ...]:
    """Return `ranges` with the run `old` replaced by `new`; without that run, as they are."""
    if old[0] not in ranges:
        return ranges
    start = ranges.index(old[0])
    return (*ranges[:start], *new, *ranges[start + len(old) :])


def roots_of(statement: Statement) -> list[e.Expr]:
    """Return the expressions of a statement: its value, and of a store the index, and the mask if it has one."""
    if isinstance(statement, Store):
        return [statement.expr, statement.index] + ([] if statement.mask is None else [statement.mask])
    return [statement.expr]


def with_roots(statement: Statement, roots: Sequence[e.Expr]) -> Statement:
    """Return `statement` with other expressions, in the order of `roots_of`."""
    match statement:
        case Store():
            return replace(statement, expr=roots[0], index=roots[1], mask=roots[2] if len(roots) > 2 else None)
        case Compute() | Scan():
            return replace(statement, expr=roots[0])


def _with_ranges(
    statement: Statement, old: Sequence[e.Range], new: Sequence[e.Range], pool: Pool, renamed: dict[e.Value, e.Value]
) -> Statement:
    order = splice(statement.order, old, new)
    if isinstance(statement, Store):
        return replace(statement, order=order, serial=splice(statement.serial, old, new))
    value = statement.value
    if old[0] in value.ranges:
        value = e.Value(value.number, value.dtype, splice(value.ranges, old, new))
        renamed[statement.value] = value
    if isinstance(statement, Scan):
        return replace(statement, value=value, order=order, along=splice(statement.along, old, new))
    return replace(statement, value=value, order=order, reduced=splice(statement.reduced, old, new))


def _guarded(
    pool: Pool, statement: Statement, roots: list[e.Expr], guard: e.Expr, old: Sequence[e.Range]
) -> list[e.Expr]:
    """Return roots that read nothing outside the guard, and that combine nothing there."""
    roots = [mask_reads(pool, root, guard, guard.free) for root in roots]
    match statement:
        case Store():
            mask = pool.both(roots[2] if len(roots) > 2 else None, guard)
            return roots[:2] + ([] if mask is None else [mask])
        case Compute(op=op, reduced=reduced) if op is not None and old[0] in reduced:
            neutral = pool.literal(identity(op, roots[0].dtype), roots[0].dtype)
            return [pool.select(guard, roots[0], neutral)]
        case Scan(op=op, along=along) if old[0] in along:
            neutral = pool.literal(identity(op, roots[0].dtype), roots[0].dtype)
            return [pool.select(guard, roots[0], neutral)]
        case _:
            return roots


def mask_reads(pool: Pool, root: e.Expr, guard: e.Expr, ranges: int) -> e.Expr:
    """Return `root` with its reads that depend on any of `ranges` (a bit set) masked by `guard` too."""

    def change(expr: e.Expr) -> e.Expr:
        match expr:
            case e.Read(param=param, index=index, mask=mask) if expr.free & ranges:
                return pool.read(param, index, pool.both(mask, guard))
            case e.Ref(value=value, indices=indices, mask=mask) if expr.free & ranges:
                return pool.value_ref(value, indices, pool.both(mask, guard))
            case _:
                return expr

    return transform(pool, root, change)


def transform(
    pool: Pool, root: e.Expr, change: Callable[[e.Expr], e.Expr], memo: dict[e.Expr, e.Expr] | None = None
) -> e.Expr:
    """Return `root` rebuilt from the leaves up, each expression replaced by ``change`` of it."""
    memo = {} if memo is None else memo
    stack = [root]
    while stack:
        current = stack[-1]
        if current in memo:
            stack.pop()
            continue
        below = current.children
        count = len(stack)
        for child in below:
            if child not in memo:
                stack.append(child)
        if len(stack) > count:
            continue
        stack.pop()
        new = tuple(map(memo.__getitem__, below))
        memo[current] = change(current if new == below else pool.with_children(current, new))
    return memo[root]


class _Rewriter:
    """Points references at renamed values."""

    def __init__(
        self,
        pool: Pool,
        renamed: Mapping[e.Value, e.Value],
        old: Sequence[e.Range],
        coordinates: Callable[[Sequence[e.Expr]], Sequence[e.Expr]],
    ) -> None:
        self._pool = pool
        self._renamed = renamed
        self._old = old
        self._coordinates = coordinates
        self._memo: dict[e.Expr, e.Expr] = {}

    def rewrite(self, root: e.Expr) -> e.Expr:
        """Return `root` over the renamed values."""
        return transform(self._pool, root, self._change, self._memo) if self._renamed else root

    def _change(self, expr: e.Expr) -> e.Expr:
        if not isinstance(expr, e.Ref) or expr.value not in self._renamed:
            return expr
        start = expr.value.ranges.index(self._old[0])
        stop = start + len(self._old)
        indices = (*expr.indices[:start], *self._coordinates(expr.indices[start:stop]), *expr.indices[stop:])
        return self._pool.value_ref(self._renamed[expr.value], indices, expr.mask)
