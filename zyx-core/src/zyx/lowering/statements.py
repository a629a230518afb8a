"""Write the statements of a nest as operations.

A statement's unrolled ranges are written out: it is written once for each of their points, with its expressions
simplified for that point. Its vector range becomes lanes. Reductions and scans are in `zyx.lowering.accumulate`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.kernel import data as k
from zyx.kernel.data import Type, ValueId
from zyx.lowering.accumulate import Accumulation
from zyx.lowering.storage import InArray, outermost_reduction
from zyx.lowering.thread_axes import axes_without
from zyx.nest import expr as e
from zyx.nest.accesses import stride_along
from zyx.nest.data import Compute, Kind, Scan, Store

if TYPE_CHECKING:
    from zyx.lowering.tree import RangeLoop
    from zyx.lowering.writer import Env, LoweringState
    from zyx.nest.data import Statement
    from zyx.nest.expr import Expr, Range


class StatementWriter:
    """Writes each statement where the loops around it stand."""

    def __init__(self, writer: LoweringState) -> None:
        self._writer = writer
        self._nest = writer.nest
        self._builder = writer.builder
        self._emitter = writer.emitter
        self._accumulation = Accumulation(writer)
        self._meetings: dict[RangeLoop | Statement, int] = {}
        self._handed_on: set[RangeLoop | Statement] = set()
        for value, place in writer.storage.items():
            if isinstance(place, InArray) and place.shared:
                definition = writer.tree.definitions[value]
                path = writer.tree.paths[definition]
                item = path[len(place.scope)] if len(place.scope) < len(path) else definition
                self._meetings[item] = self._meetings.get(item, 0) + 1
                depth = outermost_reduction(definition, path)
                finished = path[depth] if depth < len(path) else definition
                if finished is not item and self._is_read_within(value, item, len(place.scope)):
                    self._handed_on.add(finished)

    def before(self, item: RangeLoop | Statement, env: Env) -> None:
        """Write what comes in front of a loop or statement."""
        if item in self._meetings:
            self._builder.add(k.Barrier())  # nobody still reads the last contents of the shared array
        self._accumulation.before(item, env)

    def after(self, item: RangeLoop | Statement, env: Env) -> None:
        """Write what comes behind a loop or statement."""
        self._accumulation.after(item, env)
        if item in self._meetings or item in self._handed_on:
            self._builder.add(k.Barrier())

    def _is_read_within(self, value: e.Value, item: RangeLoop | Statement, depth: int) -> bool:
        """Whether a thread reads what another one made of `value`, in the very iteration of `item` that makes it."""
        for statement, reference in self._writer.tree.uses.get(value, []):
            path = self._writer.tree.paths[statement]
            if depth < len(path) and path[depth] is item:
                for range_, index in zip(value.ranges, reference.indices, strict=True):
                    if self._nest.kind(range_) is Kind.LOCAL and not e.is_current(index, range_):
                        return True
        return False

    def before_block(self, loop: RangeLoop, env: Env) -> None:
        """Write what comes in front of a block of a loop that is cut into blocks."""
        self._accumulation.before_block(loop, env)

    def after_block(self, loop: RangeLoop, number: Expr, env: Env) -> None:
        """Write what comes behind the block of that number."""
        self._accumulation.after_block(loop, number, env)

    def write(self, statement: Statement, env: Env) -> None:
        """Write `statement`."""
        self.before(statement, env)
        self._writer.enter(statement)
        match statement:
            case Store():
                self._store(statement, env)
            case Compute(op=None):
                for point in self._writer.points(self._writer.unrolled(statement), env):
                    (fixed,) = self._writer.substitute(statement, [statement.expr], point)
                    self._writer.define(statement.value, point, self._emitter.emit(fixed))
            case Compute() | Scan():
                self._accumulation.write(statement, env)
        self.after(statement, env)

    def _store(self, statement: Store, env: Env) -> None:
        pool = self._writer.pool
        mask = statement.mask
        groups = [r for r in self._nest.ranges if self._nest.kind(r) is Kind.GROUP and r not in statement.order]
        threads = axes_without(self._writer.thread_axes, statement.order)
        for range_ in (*groups, *threads):  # what does not depend on the grid is stored by its first point
            mask = pool.both(mask, pool.is_zero(pool.ref(range_)))
        array = self._writer.params[statement.param]
        roots = [statement.index, statement.expr, pool.true if mask is None else mask]
        turned = self._turned_range(statement)
        if turned is not None:
            self._store_turned(statement, array, roots, turned, env)
            return
        for point in self._writer.points(self._writer.unrolled(statement), env):
            index, expr, allowed = self._writer.substitute(statement, roots, point)
            if allowed is pool.false:
                continue
            guard = None if allowed is pool.true else allowed
            if statement.combine is None:
                value = self._emitter.emit(expr)
                self._writer.store_at(array, index, value, guard, streaming=statement.streaming)
            else:
                self._combine_at(statement, array, index, expr, guard)

    def _turned_range(self, statement: Store) -> Range | None:
        """Return the unrolled range along which the store lies side by side, if it is as long as the vectors.

        Only squares of a power of two are turned over.
        """
        vector = self._emitter.vector
        if vector is None or vector.size < 4 or vector.size.bit_count() > 1 or statement.combine is not None:
            return None
        if stride_along(statement.index, vector) in (1, None):
            return None
        return next(
            (
                range_
                for range_ in self._writer.unrolled(statement)
                if range_.size == vector.size and stride_along(statement.index, range_) == 1
            ),
            None,
        )

    def _store_turned(self, statement: Store, array: ValueId, roots: list[Expr], turned: Range, env: Env) -> None:
        """Store blocks of vectors the other way: all points of `turned` at once, one vector a lane.

        The points of one lane are stored together, so the block's mask is applied to each row; rows are masked along
        `turned`.
        """
        emitter, pool = self._emitter, self._writer.pool
        vector = emitter.vector
        assert vector is not None
        others = [range_ for range_ in self._writer.unrolled(statement) if range_ is not turned]
        for outer in self._writer.points(others, env):
            columns = []
            for point in self._writer.points([turned], outer):
                _, expr, _ = self._writer.substitute(statement, roots, point)
                columns.append(emitter.emit_wide(expr))
            index, _, allowed = self._writer.at(roots, outer)
            for lane, row in enumerate(emitter.turn_over(columns)):
                at, guard = pool.substitute([index, allowed], {vector: pool.index(lane)})
                if guard is pool.false:
                    continue
                emitter.vector = turned
                mask = None if guard is pool.true else guard
                self._writer.store_at(array, at, row, mask, streaming=statement.streaming)
                emitter.vector = vector

    def _combine_at(self, statement: Store, array: ValueId, index: Expr, expr: Expr, mask: Expr | None) -> None:
        """Read, combine, write back: one lane after the other, unless the lanes surely hit different places.

        Where the store is atomic, each lane does that indivisibly. What no lane stores is not even computed.
        """
        assert statement.combine is not None
        emitter, builder = self._emitter, self._builder
        if mask is not None and not emitter.is_vector(mask):
            builder.open(k.If(emitter.emit(mask)))
            outside, builder.floor = builder.floor, builder.depth
            self._combine_at(statement, array, index, expr, None)
            builder.floor = outside
            builder.close()
            return
        if statement.atomic:
            self._combine_indivisibly(statement, array, index, expr, mask)
            return
        operation = statement.combine.binary
        dtype = statement.param.dtype
        split = emitter.split_lane(index)
        apart = emitter.vector not in statement.serial and split is not None and split[1] == 1
        if emitter.vector is None or apart:
            type_ = Type(dtype, emitter.lanes)
            at = emitter.emit(index if split is None else split[0])
            allowed = None if mask is None else emitter.emit_wide(mask)
            old = builder.add(k.Load(array, at, type_, allowed))
            new = builder.add(k.Binary(operation, old, emitter.emit_wide(expr), type_))
            builder.add(k.Store(array, at, new, allowed))
            return
        value = emitter.emit_wide(expr)
        for lane, (at, allowed) in self._writer.lanes_of(index, mask):
            item = builder.add(k.Devectorize(value, lane, Type(dtype)))
            old = builder.add(k.Load(array, at, Type(dtype), allowed))
            new = builder.add(k.Binary(operation, old, item, Type(dtype)))
            builder.add(k.Store(array, at, new, allowed))

    def _combine_indivisibly(
        self, statement: Store, array: ValueId, index: Expr, expr: Expr, mask: Expr | None
    ) -> None:
        """Combine lane by lane, whatever other threads do at the same time."""
        assert statement.combine is not None
        emitter, builder = self._emitter, self._builder
        if emitter.vector is None:
            allowed = None if mask is None else emitter.emit(mask)
            builder.add(k.Atomic(statement.combine, array, emitter.emit(index), emitter.emit(expr), allowed))
            return
        value = emitter.emit_wide(expr)
        for lane, (at, allowed) in self._writer.lanes_of(index, mask):
            item = builder.add(k.Devectorize(value, lane, Type(statement.param.dtype)))
            builder.add(k.Atomic(statement.combine, array, at, item, allowed))
