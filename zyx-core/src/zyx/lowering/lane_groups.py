"""Write sums of groups of bytes, which lie side by side in each lane: see `zyx.nest.lane_sums`.

    %3 = cast %a : i16x32                          a: u8x32, four bytes of each of 8 lanes; b: i8x32
    %4 = cast %b : i16x32
    %5 = mul %3, %4 : i16x32
    %6 = shuffle %5, %5, (0, 2, .. 30) : i16x16
    %7 = shuffle %5, %5, (1, 3, .. 31) : i16x16
    %8 = add %6, %7 : i16x16
    ..                                             sums of several products, while they fit
    %9 = cast %8 : i32x16
    ..                                             neighbours again, i32x8

Products that might not fit int16 in pairs are multiplied as int32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx.kernel import data as k
from zyx.kernel.data import Type
from zyx.lowering.lane_pairs import add_pairs, binary
from zyx.nest import expr as e
from zyx.nest.lane_sums import are_scaled_integers, interval_of, narrow
from zyx.ops import BinaryOp

if TYPE_CHECKING:
    from zyx.dtype import DType
    from zyx.kernel.data import ValueId
    from zyx.lowering.emit import Emitter
    from zyx.nest.expr import Expr, Range


class GroupSums:
    """Writes the sums of one statement over the range `group` of the bytes in each lane."""

    def __init__(self, emitter: Emitter, group: Range) -> None:
        assert emitter.vector is not None
        self._emitter, self._builder = emitter, emitter.builder
        self._group, self._vector = group, emitter.vector
        self._bytes = emitter.pool.range(group.size * emitter.vector.size)

    def emit(self, expr: Expr) -> ValueId:
        """Return the sum over the group of `expr`, float32, in all lanes."""
        key = ("grouped", expr, self._group)
        found = self._builder.find(key)
        if found is not None:
            return found
        match expr:
            case e.Convert(x=x) if are_scaled_integers(expr, self._group):
                integers = self._integers(x)
                value = self._builder.add(k.Cast(integers, self._type(expr.dtype)), self._builder.depth_of(integers))
            case e.Apply2(op=op, x=x, y=y) if are_scaled_integers(expr, self._group):
                parts = [
                    self.emit(part) if part.free & self._group.bit else self._emitter.emit_wide(part) for part in (x, y)
                ]
                value = binary(self._emitter, op, *parts)
            case _:  # a point of what is written out, of which constants are left
                value = self._point_by_point(expr)
        return self._builder.remember(key, value)

    def _type(self, dtype: DType, times: int = 1) -> Type:
        return Type(dtype, times * self._vector.size)

    def _point_by_point(self, expr: Expr) -> ValueId:
        points = [{self._group: self._emitter.pool.index(number)} for number in range(self._group.size)]
        total: ValueId | None = None
        for point in points:
            value = self._emitter.emit(self._emitter.pool.substitute([expr], point)[0])
            total = value if total is None else binary(self._emitter, BinaryOp.ADD, total, value)
        assert total is not None
        return self._emitter.widen(total)

    def _integers(self, expr: Expr) -> ValueId:
        """Return the sum of integers: of short products as int16, as many of them as fit together."""
        short: ValueId | None = None
        reach = 0
        totals: list[ValueId] = []
        for term in _terms(expr):
            most = self._pair_reach(term)
            if most is None:
                totals.append(self._point_by_point(term))
                continue
            if most > int(dtypes.int16.max):
                totals.append(add_pairs(self._emitter, add_pairs(self._emitter, self._product(term, dtypes.int32))))
                continue
            pairs = add_pairs(self._emitter, self._product(term, dtypes.int16))
            if short is not None and reach + most > int(dtypes.int16.max):
                totals.append(self._widened(short))
                short, reach = None, 0
            short = pairs if short is None else binary(self._emitter, BinaryOp.ADD, short, pairs)
            reach += most
        if short is not None:
            totals.append(self._widened(short))
        total = totals[0]
        for other in totals[1:]:
            total = binary(self._emitter, BinaryOp.ADD, total, other)
        return total

    def _widened(self, pairs: ValueId) -> ValueId:
        cast = k.Cast(pairs, self._type(dtypes.int32, self._group.size // 2))
        return add_pairs(self._emitter, self._builder.add(cast, self._builder.depth_of(pairs)))

    def _pair_reach(self, term: Expr) -> int | None:
        """Return the greatest magnitude of the sum of two products of bytes; None if `term` is no such product."""
        match term:
            case e.Apply2(op=BinaryOp.MUL, x=x, y=y) if self._emitter.is_vector(term) and all(
                each.free & self._group.bit and narrow(each).dtype.bits == 8 for each in (x, y)
            ):
                return 2 * max(abs(a * b) for a in interval_of(x) for b in interval_of(y))
            case _:
                return None

    def _product(self, term: Expr, dtype: DType) -> ValueId:
        assert isinstance(term, e.Apply2)
        factors = []
        for side in (term.x, term.y):
            value = self._side_by_side(narrow(side))
            cast = k.Cast(value, self._type(dtype, self._group.size))
            factors.append(self._builder.add(cast, self._builder.depth_of(value)))
        return binary(self._emitter, BinaryOp.MUL, *factors)

    def _side_by_side(self, expr: Expr) -> ValueId:
        """Return the bytes of all lanes; those that all lanes have in common are repeated."""
        emitter, pool = self._emitter, self._emitter.pool
        is_own = bool(expr.free & self._vector.bit)
        key = ("side by side", expr, self._group)
        found = self._builder.find(key)
        if found is not None:
            return found
        try:
            if is_own:
                emitter.vector = self._bytes
                (fixed,) = pool.substitute([expr], {self._vector: pool.index(0), self._group: pool.ref(self._bytes)})
            else:
                emitter.vector, fixed = self._group, expr
            value = emitter.emit_wide(fixed)
        finally:
            emitter.vector = self._vector
        if not is_own:
            lanes = tuple(range(self._group.size)) * self._vector.size
            op = k.Shuffle(value, value, lanes, self._type(expr.dtype, self._group.size))
            value = self._builder.add(op, self._builder.depth_of(value))
        return self._builder.remember(key, value)


def _terms(expr: Expr) -> list[Expr]:
    """Return what a sum of integers adds up, first to last."""
    found, stack = [], [expr]
    while stack:
        current = stack.pop()
        if isinstance(current, e.Apply2) and current.op is BinaryOp.ADD and current.dtype.is_integer:
            stack += [current.y, current.x]
        else:
            found.append(current)
    return found
