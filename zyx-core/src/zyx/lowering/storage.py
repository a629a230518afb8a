"""Decide where each value of a nest lives between its definition and its uses.

A value needs no place of its own along a range whose loop still runs where it is used. Along the other ranges it
needs one element a point:

* `InRegisters`: these ranges are all written out (unrolled or vector) and every use knows its point when it is written
  out too: the elements are separate scalars or vectors;
* `InArray`: anything else: an array in memory, laid out in the order `dims`, the vector range last.

An array belongs to a thread, unless another thread of the group reads it (`shared`): then it lies in local memory and
the threads meet before and after it is written.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from zyx.errors import ScheduleError
from zyx.nest import expr as e
from zyx.nest.accesses import below
from zyx.nest.data import Compute, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zyx.lowering.tree import RangeLoop, Tree
    from zyx.nest.data import Nest, Statement

_WRITTEN_OUT = (Kind.UNROLL, Kind.REPEAT, Kind.VECTOR)


@dataclass(frozen=True, slots=True)
class InRegisters:
    """Separate values, one for each point of `unrolled`."""

    unrolled: tuple[e.Range, ...]


@dataclass(frozen=True, slots=True)
class InArray:
    """An array over `dims`, row-major, within the loops `scope`."""

    dims: tuple[e.Range, ...]
    shared: bool
    scope: tuple[RangeLoop, ...]

    @property
    def length(self) -> int:
        """Number of elements."""
        return math.prod([range_.size for range_ in self.dims])


Storage: TypeAlias = InRegisters | InArray


@functools.lru_cache(maxsize=4)  # as the loops are
def place_values(nest: Nest, tree: Tree) -> Mapping[e.Value, Storage]:
    """Return the storage of every value.

    Raises:
        ScheduleError: A value would have to pass between groups.
    """
    return {value: _place(value, definition, nest, tree) for value, definition in tree.definitions.items()}


def _place(value: e.Value, definition: Statement, nest: Nest, tree: Tree) -> Storage:
    path = tree.paths[definition]
    uses = tree.uses.get(value, [])
    scope = path[: outermost_reduction(definition, path)]
    for statement, _ in uses:
        scope = scope[: _common(scope, tree.paths[statement])]
    in_scope = {loop.range for loop in scope}
    written_out = [range_ for range_ in value.ranges if nest.kind(range_) in _WRITTEN_OUT]
    dims = [range_ for range_ in value.ranges if nest.kind(range_) is Kind.LOOP and range_ not in in_scope]
    shared = False
    needs_array = bool(dims)
    for statement, reference in uses:
        for range_, index in zip(value.ranges, reference.indices, strict=True):
            kind = nest.kind(range_)
            identical = e.is_current(index, range_)
            if identical and (kind not in _WRITTEN_OUT or range_ in statement.order):
                continue
            if kind is Kind.GROUP:
                raise ScheduleError(
                    f"{value} is defined by one group and read by another: {range_} must not be a group range"
                )
            if kind is Kind.LOCAL:
                shared = needs_array = True
            elif kind is Kind.VECTOR or (kind in _WRITTEN_OUT and not _known_when_written_out(index, nest)):
                needs_array = True
    if not needs_array:
        return InRegisters(tuple(range_ for range_ in written_out if nest.kind(range_) is not Kind.VECTOR))
    vector = [range_ for range_ in written_out if nest.kind(range_) is Kind.VECTOR]
    unrolled = [range_ for range_ in written_out if nest.kind(range_) is not Kind.VECTOR]
    if shared:  # each thread has its own part
        dims += [range_ for range_ in value.ranges if nest.kind(range_) is Kind.LOCAL and range_ not in dims]
    order = [range_ for range_ in value.ranges if range_ in dims or range_ in unrolled]
    return InArray((*order, *vector), shared, scope)


def outermost_reduction(definition: Statement, path: tuple[RangeLoop, ...]) -> int:
    """Return how many loops of `path` lie outside all loops that `definition` reduces over."""
    if isinstance(definition, Compute):
        for depth, loop in enumerate(path):
            if loop.range in definition.reduced:
                return depth
    return len(path)


def _common(a: tuple[RangeLoop, ...], b: tuple[RangeLoop, ...]) -> int:
    length = 0
    while length < min(len(a), len(b)) and a[length] is b[length]:
        length += 1
    return length


def _known_when_written_out(index: e.Expr, nest: Nest) -> bool:
    """Whether `index` is a constant once unrolled ranges have their values."""
    return not any(
        isinstance(expr, e.Read | e.Ref)
        or (isinstance(expr, e.RangeRef) and nest.kind(expr.range) not in (Kind.UNROLL, Kind.REPEAT))
        for expr in below(index)
    )
