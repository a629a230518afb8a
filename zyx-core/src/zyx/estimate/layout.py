"""What an estimate looks at: the nest, its loops, where its values live, its threads; and its accesses as patterns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from zyx.estimate.footprint import merged, pattern_of
from zyx.lowering.storage import InArray, place_values
from zyx.lowering.thread_axes import thread_axes
from zyx.lowering.tree import build_tree
from zyx.nest import expr as e
from zyx.nest.accesses import expressions_of
from zyx.nest.data import Compute, Kind, Scan, Store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zyx.estimate.footprint import Pattern
    from zyx.lowering.tree import RangeLoop
    from zyx.nest.data import Nest, Statement
    from zyx.nest.expr import Expr, Range, Value

WRITTEN_OUT: Final = (Kind.UNROLL, Kind.REPEAT, Kind.VECTOR)
_AT_ONCE: Final = (*WRITTEN_OUT, Kind.LOCAL)


@dataclass(frozen=True, slots=True)
class Access:
    """Accesses of a statement to an array.

    Attributes:
        pattern: Where they go.
        statement: Whose they are.
        is_store: Whether they write.
        is_streaming: Whether what they write passes the caches.
    """

    pattern: Pattern
    statement: Statement
    is_store: bool = False
    is_streaming: bool = False


class ScheduledNest:
    """A scheduled nest, as an estimate sees it.

    Attributes:
        nest: The nest.
        tree: Its loops.
        storage: Where its values live.
        axes: The axes of the threads of a group, the fastest first.
        groups: The ranges of the grid, outermost first.
        expressions: Of each statement, without those that one before it in the same loop has.
        loops: Of each statement, the ranges of the loops around it, outermost first.
        at_once: Of each statement, the ranges whose points all run where it stands, and how many these are.
        vectors: Of each statement, the vector range, if it has one.
        threads, group_count: Of a group, and of the grid.

    Raises:
        ScheduleError: The kinds of ranges do not go together, so that there is no kernel of the nest.
    """

    def __init__(self, nest: Nest) -> None:
        kind = nest.kind
        self.nest = nest
        self.tree = build_tree(nest)
        self.storage = place_values(nest, self.tree)
        self.axes, self.groups = tuple(thread_axes(nest)), nest.grid
        self.expressions: dict[Statement, list[Expr]] = {}
        known: dict[tuple[RangeLoop, ...], set[Expr]] = {}  # what stands in one place is computed once, for several
        for statement, path in self.tree.paths.items():
            there = known.setdefault(path, set())
            self.expressions[statement] = [expr for expr in expressions_of(statement) if expr not in there]
            there.update(self.expressions[statement])
        self.loops = {s: tuple([loop.range for loop in path]) for s, path in self.tree.paths.items()}
        self.at_once = {s: {r: r.size for r in s.order if kind(r) in _AT_ONCE} for s in nest.statements}
        self.vectors = {s: next((r for r in s.order if kind(r) is Kind.VECTOR), None) for s in nest.statements}
        self.threads = math.prod([axis[0].size for axis in self.axes])
        self.group_count = math.prod([range_.size for range_ in self.groups])

    @cached_property
    def accesses(self) -> dict[Statement, list[Access]]:
        """Of each statement, to buffers and to arrays of its own; those that differ by a constant are one."""
        return {statement: _accesses(self, statement) for statement in self.nest.statements}


def _accesses(layout: ScheduledNest, statement: Statement) -> list[Access]:
    ranges = statement.order
    reads: list[Pattern] = []
    for expr in layout.expressions[statement]:
        if isinstance(expr, e.Read):
            param = expr.param
            nbytes = param.length * param.dtype.itemsize
            reads.append(pattern_of(param, nbytes, param.dtype.itemsize, expr.index, ranges, expr.mask))
        elif isinstance(expr, e.Ref):
            place = layout.storage[expr.value]
            if isinstance(place, InArray):
                named = dict(zip(expr.value.ranges, expr.indices, strict=True))
                reads.append(_of_array(layout, expr.value, place, named, ranges))
    accesses = [Access(pattern, statement) for pattern in merged(reads)]
    if isinstance(statement, Store):
        param = statement.param
        itemsize = param.dtype.itemsize
        pattern = pattern_of(param, param.length * itemsize, itemsize, statement.index, ranges, statement.mask)
        accesses.append(Access(pattern, statement, is_store=True, is_streaming=statement.streaming))
    elif isinstance(statement, Compute | Scan):
        place = layout.storage[statement.value]
        if isinstance(place, InArray):
            pool = layout.nest.pool
            own = {range_: pool.ref(range_) for range_ in place.dims}
            accesses.append(Access(_of_array(layout, statement.value, place, own, ranges), statement, is_store=True))
    return accesses


def _of_array(
    layout: ScheduledNest, value: Value, place: InArray, named: Mapping[Range, Expr], ranges: tuple[Range, ...]
) -> Pattern:
    itemsize = value.dtype.itemsize
    index = position_in(layout, place, named)
    return pattern_of(value, place.length * itemsize, itemsize, index, ranges)


def position_in(layout: ScheduledNest, place: InArray, named: Mapping[Range, Expr]) -> Expr:
    """Return the position in an array of the point that `named` has indices of; other ranges have their own value."""
    pool = layout.nest.pool
    indices = [named.get(range_, pool.ref(range_)) for range_ in place.dims]
    return pool.flatten(indices, [range_.size for range_ in place.dims])
