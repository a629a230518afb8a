"""Write reductions and scans.

    start     in front of the outermost loop combined over: accumulators are set to the identity
    update    where the statement stands: accumulator = op(accumulator, expr)
    finish    behind that loop: accumulators, lanes and threads that belong together are combined, the value is defined

Accumulators are registers, one for each point of the unrolled ranges (a `REPEAT` range has one for all its points),
with a lane for each lane. If loops that are not combined over lie inside loops that are, the accumulators are an
array with an element for each of their points too. A scan defines its value at every update and has nothing to
finish.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zyx.errors import ScheduleError
from zyx.ir import expr as e
from zyx.ir import kernel as k
from zyx.ir.kernel import Memory, Type, ValueId
from zyx.ir.nest import Compute, Kind, Scan
from zyx.ops import identity
from zyx.schedule.combine_threads import ThreadCombination
from zyx.schedule.multiply import RESULTS, Multiplication
from zyx.schedule.storage import InArray
from zyx.schedule.thread_axes import axes_without
from zyx.schedule.writer import combined_ranges

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.ir.nest import MatrixTile, Statement
    from zyx.schedule.tree import Loop
    from zyx.schedule.writer import Env, Writer


@dataclass(frozen=True, slots=True)
class _Registers:
    """Accumulators in a register array, by the number of their unrolled point."""

    array: ValueId
    type: Type


@dataclass(frozen=True, slots=True)
class _Memory:
    """Accumulators in an array; `moving` are the ranges that change between start and finish."""

    array: ValueId
    place: InArray
    moving: tuple[e.Range, ...]


class Accumulation:
    """Writes the reductions and scans of one nest."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._nest = writer.nest
        self._builder = writer.builder
        self._emitter = writer.emitter
        self._pool = writer.pool
        self._multiplication = Multiplication(writer)
        self._threads = ThreadCombination(writer)
        self._states: dict[e.Value, _Registers | _Memory] = {}
        self._starts: dict[Loop | Statement, list[Compute | Scan]] = {}
        for statement, path in writer.tree.paths.items():
            combined = combined_ranges(statement)
            if combined and isinstance(statement, Compute | Scan):
                item = next((loop for loop in path if loop.range in combined), statement)
                self._starts.setdefault(item, []).append(statement)

    def before(self, item: Loop | Statement, env: Env) -> None:
        """Start the reductions and scans whose outermost loop `item` is."""
        for statement in self._starts.get(item, ()):
            self._writer.enter(statement)
            state = self._new_state(statement)
            self._states[statement.value] = state
            if isinstance(state, _Memory):
                self._fill(statement, state, env)
            else:
                start = self._emitter.widen_to(self._identity(statement), state.type.lanes)
                for number in range(_count(self._accumulators(statement))):
                    self._builder.add(k.Store(state.array, self._emitter.constant(number, e.INDEX), start))

    def after(self, item: Loop | Statement, env: Env) -> None:
        """Finish the reductions whose outermost loop `item` is."""
        for statement in self._starts.get(item, ()):
            state = self._states.pop(statement.value)
            if isinstance(statement, Compute) and isinstance(state, _Registers):
                self._writer.enter(statement)
                self._finish(statement, state, env)

    def write(self, statement: Compute | Scan, env: Env) -> None:
        """Update the accumulators of `statement`."""
        state = self._states[statement.value]
        if isinstance(state, _Memory):
            self._update_memory(statement, state, env)
            return
        accumulators = self._accumulators(statement)
        for point in self._writer.points(self._written_out(statement), env):
            at = self._emitter.constant(self._writer.position(accumulators, point), e.INDEX)
            old = self._builder.add(k.Load(state.array, at, state.type))
            if isinstance(statement, Compute) and statement.matrix is not None:
                new = self._multiplication.add_product(statement, old, point)
            else:
                new = self._combine(statement, old, self._item(statement, point))
            self._builder.add(k.Store(state.array, at, new))
            if isinstance(statement, Scan):
                self._writer.define(statement.value, point, new)

    # ---- parts

    def _identity(self, statement: Compute | Scan) -> ValueId:
        assert statement.op is not None
        dtype = statement.value.dtype
        return self._emitter.constant(identity(statement.op, dtype), dtype)

    def _accumulators(self, statement: Compute | Scan) -> list[e.Range]:
        """Return the unrolled ranges whose points have accumulators of their own."""
        combined = combined_ranges(statement)
        separate = isinstance(statement, Compute)
        return [
            range_
            for range_ in self._written_out(statement)
            if range_ not in combined or (separate and self._nest.kind(range_) is Kind.UNROLL)
        ]

    def _written_out(self, statement: Compute | Scan) -> list[e.Range]:
        """Return the ranges that updates are written out for; a multiplication of matrices is one update."""
        unrolled = self._writer.unrolled(statement)
        if isinstance(statement, Compute) and statement.matrix is not None:
            return [range_ for range_ in unrolled if range_ not in statement.matrix.ranges]
        return unrolled

    def _item(self, statement: Compute | Scan, point: Env) -> ValueId:
        (fixed,) = self._writer.substitute(statement, [statement.expr], point)
        return self._emitter.emit_wide(fixed)

    def _combine(self, statement: Compute | Scan, x: ValueId, y: ValueId) -> ValueId:
        assert statement.op is not None
        return self._builder.add(k.Binary(statement.op.binary, x, y, self._builder.type_of(x)))

    def _new_state(self, statement: Compute | Scan) -> _Registers | _Memory:
        value = statement.value
        moving = self._moving_loops(statement)
        vector = self._emitter.vector
        combined = combined_ranges(statement)
        if isinstance(statement, Scan) and vector in combined:
            raise ScheduleError(f"{vector} is scanned along: it cannot be a vector range")
        if any(self._nest.kind(r) in (Kind.GROUP, Kind.LOCAL) for r in combined) and (
            isinstance(statement, Scan) or moving
        ):
            raise ScheduleError(f"{value} cannot be combined over the threads of a group in this order of loops")
        if not moving:
            count = _count(self._accumulators(statement))
            matrix = isinstance(statement, Compute) and statement.matrix is not None
            type_ = RESULTS if matrix else Type(value.dtype, self._emitter.lanes)
            define = k.Define(Memory.REGISTER, value.dtype, count, True, type_.lanes)
            return _Registers(self._builder.array(define), type_)
        kept = [r for r in self._writer.unrolled(statement) if r not in combined]
        lanes = [] if vector is None or vector in combined else [vector]
        if isinstance(statement, Compute):
            place = self._writer.storage[value]
            assert isinstance(place, InArray)
            idle = axes_without(self._writer.thread_axes, statement.order)
            if place.shared and idle:  # each of them would add its own
                raise ScheduleError(
                    f"{value} is combined in memory that threads along {idle[0]} share, not by one of them"
                )
            return _Memory(self._writer.arrays[value], place, (*moving, *kept, *lanes))
        place = InArray((*moving, *kept, *lanes), False, ())
        return _Memory(self._writer.scratch(value.dtype, place.length), place, place.dims)

    def _moving_loops(self, statement: Compute | Scan) -> list[e.Range]:
        """Return the ranges of loops that are not combined over, inside the outermost one that is."""
        combined = combined_ranges(statement)
        inside = False
        found = []
        for loop in self._writer.tree.paths[statement]:
            if loop.range in combined:
                inside = True
            elif inside:
                found.append(loop.range)
        return found

    def _fill(self, statement: Compute | Scan, state: _Memory, env: Env) -> None:
        """Set the accumulators of this place to the identity, in a loop of their own."""
        vector = self._emitter.vector
        lanes = vector if vector in state.moving else None
        others = [range_ for range_ in state.moving if range_ is not lanes]
        start = self._identity(statement)
        counter = self._pool.range(_count(others))
        self._emitter.bind(counter, self._builder.open(k.Loop(counter.size, Type(self._emitter.index_dtype))))
        at = self._pool.unflatten(self._pool.ref(counter), [range_.size for range_ in others])
        point = {**env, **dict(zip(others, at, strict=True))}
        if lanes is None:
            self._emitter.vector = None
        else:
            start = self._emitter.widen(start)
        self._writer.store_at(state.array, self._writer.array_index(state.place, point), start, None)
        self._emitter.vector = vector
        self._builder.close()

    def _update_memory(self, statement: Compute | Scan, state: _Memory, env: Env) -> None:
        """Combine the written out points among themselves, then into the array."""
        combined = combined_ranges(statement)
        unrolled = self._writer.unrolled(statement)
        if isinstance(statement, Scan):
            for point in self._writer.points(unrolled, env):
                new = self._add_into(statement, state, point, self._item(statement, point))
                self._writer.define(statement.value, point, new)
            return
        if statement.matrix is not None:
            self._multiply_in_memory(statement, statement.matrix, state, env)
            return
        kept = [range_ for range_ in unrolled if range_ not in combined]
        over = [range_ for range_ in unrolled if range_ in combined]
        vector = self._emitter.vector
        for point in self._writer.points(kept, env):
            items = [self._item(statement, inner) for inner in self._writer.points(over, point)]
            item = self._combine_all(statement, items)
            if vector is not None and vector in combined:
                item = self._combine_lanes(statement, item)
                self._emitter.vector = None
            self._add_into(statement, state, point, item)
            self._emitter.vector = vector

    def _multiply_in_memory(self, statement: Compute, matrix: MatrixTile, state: _Memory, env: Env) -> None:
        """Gather the results that a thread has of a tile, add the products, and put them back."""
        written_out = self._written_out(statement)
        over = [range_ for range_ in written_out if range_ in statement.reduced]
        for point in self._writer.points([range_ for range_ in written_out if range_ not in over], env):
            places = [
                self._emitter.emit(self._writer.array_index(state.place, at))
                for _, at in self._multiplication.results(matrix, point)
            ]
            one = Type(RESULTS.dtype)
            items = tuple(self._builder.add(k.Load(state.array, place, one)) for place in places)
            total = self._builder.add(k.Vectorize(items, RESULTS))
            for inner in self._writer.points(over, point):
                total = self._multiplication.add_product(statement, total, inner)
            for number, place in enumerate(places):
                self._builder.add(k.Store(state.array, place, self._multiplication.result(total, number)))

    def _add_into(self, statement: Compute | Scan, state: _Memory, point: Env, item: ValueId) -> ValueId:
        index = self._writer.array_index(state.place, point)
        type_ = self._builder.type_of(item)
        if type_.lanes > 1 and not self._emitter.has_vectors(state.array):
            one = Type(type_.dtype)
            items = [self._builder.add(k.Devectorize(item, lane, one)) for lane in range(type_.lanes)]
            places = [self._emitter.at_lane([index], lane)[0] for lane in range(type_.lanes)]
            parts = [self._add_at(statement, state, *both) for both in zip(places, items, strict=True)]
            return self._builder.add(k.Vectorize(tuple(parts), type_))
        split = self._emitter.split_lane(index)
        assert split is not None
        return self._add_at(statement, state, split[0], item)

    def _add_at(self, statement: Compute | Scan, state: _Memory, index: e.Expr, item: ValueId) -> ValueId:
        at = self._emitter.emit(index)
        old = self._builder.add(k.Load(state.array, at, self._builder.type_of(item)))
        new = self._combine(statement, old, item)
        self._builder.add(k.Store(state.array, at, new))
        return new

    # ---- results

    def _finish(self, statement: Compute, state: _Registers, env: Env) -> None:
        separate = self._accumulators(statement)
        kept = [range_ for range_ in separate if range_ not in statement.reduced]
        over = [range_ for range_ in separate if range_ in statement.reduced]
        vector = self._emitter.vector
        threads = [r for r in statement.reduced if self._nest.kind(r) is Kind.LOCAL]
        if any(self._nest.kind(r) is Kind.GROUP for r in statement.reduced):
            raise ScheduleError(f"{statement.value} cannot be combined over groups: they do not meet")
        for point in self._writer.points(kept, env):
            items = []
            for inner in self._writer.points(over, point):
                at = self._emitter.constant(self._writer.position(separate, inner), e.INDEX)
                items.append(self._builder.add(k.Load(state.array, at, state.type)))
            result = self._combine_all(statement, items)
            if vector is not None and vector in statement.reduced and statement.matrix is None:
                result = self._combine_lanes(statement, result)
            if threads:
                result = self._threads.combine(statement, result, threads)
            if statement.matrix is None:
                self._writer.define(statement.value, point, result)
                continue
            for number, at_result in self._multiplication.results(statement.matrix, point):
                self._writer.define(statement.value, at_result, self._multiplication.result(result, number))

    def _combine_all(self, statement: Compute, items: Sequence[ValueId]) -> ValueId:
        """Combine in pairs: shorter chains, and smaller rounding errors, than one after the other."""
        while len(items) > 1:
            pairs = [self._combine(statement, *items[i : i + 2]) for i in range(0, len(items) - 1, 2)]
            items = [*pairs, items[-1]] if len(items) % 2 else pairs
        return items[0]

    def _combine_lanes(self, statement: Compute, vector: ValueId) -> ValueId:
        """Fold the upper half of the lanes onto the lower while they are even in number, then combine what is left."""
        type_ = self._builder.type_of(vector)
        lanes = type_.lanes
        if lanes == 1:
            return vector
        while lanes > 2 and lanes % 2 == 0:
            lanes //= 2
            half = Type(type_.dtype, lanes)
            low = self._builder.add(k.Shuffle(vector, vector, tuple(range(lanes)), half))
            high = self._builder.add(k.Shuffle(vector, vector, tuple(range(lanes, 2 * lanes)), half))
            vector = self._combine(statement, low, high)
        one = Type(type_.dtype)
        items = [self._builder.add(k.Devectorize(vector, lane, one)) for lane in range(lanes)]
        return self._combine_all(statement, items)


def _count(ranges: Sequence[e.Range]) -> int:
    count = 1
    for range_ in ranges:
        count *= range_.size
    return count
