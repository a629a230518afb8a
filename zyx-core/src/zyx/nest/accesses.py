"""What statements of a nest read, and how far apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.nest import expr as e
from zyx.nest.data import Compute, Scan, Store

if TYPE_CHECKING:
    from zyx.nest.data import Statement
    from zyx.nest.expr import Expr, Range


def roots_of(statement: Statement) -> list[Expr]:
    """Return the expressions of a statement."""
    if isinstance(statement, Store):
        return [statement.index, statement.expr] + ([] if statement.mask is None else [statement.mask])
    return [statement.expr]


def combined_ranges(statement: Statement) -> tuple[Range, ...]:
    """Return the ranges that a statement combines over."""
    match statement:
        case Compute(reduced=reduced):
            return reduced
        case Scan(along=along):
            return along
        case Store():
            return ()


def serial_ranges(statement: Statement) -> tuple[Range, ...]:
    """Return the ranges of a statement that no two groups may share."""
    return statement.serial if isinstance(statement, Store) else combined_ranges(statement)


def expressions_of(statement: Statement) -> list[Expr]:
    """Return the expressions below the roots of a statement, each once."""
    return below(*roots_of(statement))


def below(*roots: Expr) -> list[Expr]:
    """Return `roots` and the expressions below them, each once."""
    found: dict[Expr, None] = {}
    stack = list(roots)
    while stack:
        current = stack.pop()
        if current not in found:
            found[current] = None
            stack.extend(current.children)
    return list(found)


def stride_along(index: Expr, range_: Range) -> int | None:
    """Return how far `index` moves when `range_` grows by one; None if that differs from point to point."""
    if not index.free & range_.bit:
        return 0
    step = 0
    for term, factor in index.terms if isinstance(index, e.Affine) else ((index, 1),):
        if isinstance(term, e.RangeRef) and term.range is range_:
            step = factor
        elif term.free & range_.bit:
            return None
    return step


def step_along(index: Expr, range_: Range) -> int:
    """Return how far `index` moves from most points of `range_` to the next; 0 if that differs.

    Where two ranges were joined to `range_`, that is how far it moves along the inner one.
    """
    step = 0
    for term, factor in index.terms if isinstance(index, e.Affine) else ((index, 1),):
        inner = term.x if isinstance(term, e.Remainder) else term
        if isinstance(inner, e.RangeRef) and inner.range is range_:
            step += factor
        elif term.free & range_.bit and not _is_slow(term, range_):
            return 0
    return step


def _is_slow(term: Expr, range_: Range) -> bool:
    """Whether `term` is the same for many neighbouring points of `range_`: a quotient of it."""
    return isinstance(term, e.Quotient) and isinstance(term.x, e.RangeRef) and term.x.range is range_


def reads_in(statement: Statement) -> list[e.Read]:
    """Return the reads of a statement, each once."""
    return [expr for expr in expressions_of(statement) if isinstance(expr, e.Read)]


def refers_to(statement: Statement, value: e.Value) -> bool:
    """Whether a statement uses what another one computes."""
    return any(isinstance(expr, e.Ref) and expr.value is value for expr in expressions_of(statement))
