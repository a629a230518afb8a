"""Write reductions and scans.

    start     in front of the outermost loop combined over: accumulators are set to the identity
    update    where the statement stands: accumulator = op(accumulator, expr)
    finish    behind that loop: accumulators, lanes and threads that belong together are combined, the value is defined

Accumulators are registers, one for each point of the unrolled ranges (a `REPEAT` range has one for all its points),
with a lane for each lane. If loops that are not combined over lie inside loops that are, the accumulators are an
array with an element for each of their points too. A scan defines its value at every update and has nothing to
finish. If threads or the lanes of a vector lie along it, an update is one of all their points: the lanes are scanned
one after the other, then what the threads have (`zyx.lowering.scan_threads`), and what is in front is added to each.

Long sums go block by block (`zyx.lowering.blocked_sums`). The accumulators are set to the identity in front of each
block, and added to others of their number behind it; these, whenever they have taken as many blocks as they should, to
the next ones. A scan adds what is above its block to each value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zyx.errors import ScheduleError
from zyx.kernel import data as k
from zyx.kernel.data import Memory, Type, ValueId
from zyx.lowering.combine_threads import ThreadCombination
from zyx.lowering.lane_groups import GroupSums
from zyx.lowering.lane_pairs import emit_paired, pairs_lanes
from zyx.lowering.multiply import RESULTS, Multiplication
from zyx.lowering.scan_threads import ThreadScan
from zyx.lowering.storage import InArray
from zyx.lowering.thread_axes import axes_without
from zyx.nest import expr as e
from zyx.nest.accesses import combined_ranges
from zyx.nest.data import Compute, Kind, Scan
from zyx.ops import identity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zyx.dtype import DType
    from zyx.lowering.tree import RangeLoop
    from zyx.lowering.writer import Env, LoweringState
    from zyx.nest.data import MatrixTile, Statement


@dataclass(frozen=True, slots=True)
class _Registers:
    """Accumulators in a register array, by the number of their unrolled point.

    Attributes:
        array: The accumulators, those of a block if there are blocks.
        type: Of one of them.
        count: How many there are.
        above: Arrays of what blocks are added to, level by level.
        base: What is in front of this block of a scan, by number.
    """

    array: ValueId
    type: Type
    count: int
    above: tuple[ValueId, ...] = ()
    base: dict[int, ValueId] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Memory:
    """Accumulators in an array.

    Attributes:
        array: The accumulators, those of a block if there are blocks.
        place: How it is laid out.
        moving: The ranges that change between start and finish.
        above: Arrays of what blocks are added to, level by level; the last one is that of the result.
        base: What is in front of this block of a scan.
    """

    array: ValueId
    place: InArray
    moving: tuple[e.Range, ...]
    above: tuple[ValueId, ...] = ()
    base: ValueId | None = None


class Accumulation:
    """Writes the reductions and scans of one nest."""

    def __init__(self, writer: LoweringState) -> None:
        self._writer = writer
        self._nest = writer.nest
        self._builder = writer.builder
        self._emitter = writer.emitter
        self._pool = writer.pool
        self._multiplication = Multiplication(writer)
        self._threads = ThreadCombination(writer)
        self._thread_scan = ThreadScan(writer)
        self._states: dict[e.Value, _Registers | _Memory] = {}
        self._starts: dict[RangeLoop | Statement, list[Compute | Scan]] = {}
        self._group_sums: dict[Statement, GroupSums] = {}
        for statement, path in writer.tree.paths.items():
            combined = combined_ranges(statement)
            if combined and isinstance(statement, Compute | Scan):
                item = next((loop for loop in path if loop.range in combined), statement)
                self._starts.setdefault(item, []).append(statement)

    def before(self, item: RangeLoop | Statement, env: Env) -> None:
        """Start the reductions and scans whose outermost loop `item` is."""
        for statement in self._starts.get(item, ()):
            self._writer.enter(statement)
            state = self._new_state(statement)
            self._states[statement.value] = state
            for array in state.above or (state.array,):
                self._fill(statement, state, array, env)

    def after(self, item: RangeLoop | Statement, env: Env) -> None:
        """Finish the reductions whose outermost loop `item` is."""
        for statement in self._starts.get(item, ()):
            state = self._states.pop(statement.value)
            self._writer.enter(statement)
            if isinstance(state, _Memory):
                for array in state.above[:-1]:
                    self._fold(statement, state, array, state.above[-1], env)
            elif isinstance(statement, Compute):
                self._finish(statement, state, env)

    def before_block(self, loop: RangeLoop, env: Env) -> None:
        """Start a block of `loop`."""
        for statement, state in self._cut(loop):
            self._fill(statement, state, state.array, env)
            if isinstance(statement, Scan):
                for number, at in enumerate(self._places(statement, state, env)):
                    above = [self._get(state, array, at, statement.value.dtype) for array in state.above]
                    base = self._combine_all(statement, above)
                    if isinstance(state, _Registers):
                        state.base[number] = base
                    elif state.base is not None:
                        self._put(state, state.base, at, base)

    def after_block(self, loop: RangeLoop, number: e.Expr, env: Env) -> None:
        """Add the block of that number to what is above it."""
        pool, builder = self._pool, self._builder
        for statement, state in self._cut(loop):
            self._fold(statement, state, state.array, state.above[0], env)
            blocks = self._writer.blocks.of[statement]
            sizes = [*(range_.size for range_ in blocks.around), self._writer.blocks.count(loop)]
            done = pool.flatten([*(env.get(range_, pool.ref(range_)) for range_ in blocks.around), number], sizes)
            for level, carry in enumerate(blocks.carries):
                is_full = pool.is_zero(pool.modulo(pool.shift(done, 1), carry))
                builder.open(k.If(self._emitter.emit(is_full)))
                self._fold(statement, state, state.above[level], state.above[level + 1], env)
                self._fill(statement, state, state.above[level], env)
            for _ in blocks.carries:
                builder.close()

    def _cut(self, loop: RangeLoop) -> Iterator[tuple[Compute | Scan, _Registers | _Memory]]:
        """Yield the statements that go over `loop` block by block, ready to be written."""
        for statement, blocks in self._writer.blocks.of.items():
            if blocks.loop is loop:
                self._writer.enter(statement)
                yield statement, self._states[statement.value]

    def write(self, statement: Compute | Scan, env: Env) -> None:
        """Update the accumulators of `statement`."""
        state = self._states[statement.value]
        if isinstance(state, _Memory):
            self._update_memory(statement, state, env)
            return
        if isinstance(statement, Scan):
            self._scan(statement, state, env)
            return
        accumulators = self._accumulators(statement)
        for point in self._writer.points(self._written_out(statement), env):
            number = self._writer.position(accumulators, point)
            at = self._emitter.constant(number, e.INDEX)
            old = self._builder.add(k.Load(state.array, at, state.type))
            if statement.matrix is not None:
                new = self._multiplication.add_product(statement, old, point)
            else:
                new = self._combine(statement, old, self._item(statement, point))
            self._builder.add(k.Store(state.array, at, new))

    def _scan(self, statement: Scan, state: _Registers, env: Env) -> None:
        """Scan along all written out points, lanes and threads at once, from what is in front of them."""
        threads = next((r for r in statement.along if self._nest.kind(r) is Kind.LOCAL), None)
        written_out = [r for r in statement.along if self._nest.kind(r) in (Kind.UNROLL, Kind.REPEAT)]
        first = 0 if threads is None else statement.along.index(threads)
        outer = [r for r in written_out if threads is not None and statement.along.index(r) < first]
        inner = [r for r in written_out if r not in outer]  # what a thread has side by side
        others = self._accumulators(statement)
        runs = [
            (self._writer.position(others, start), [*self._writer.points(inner, start)])
            for start in self._writer.points([*others, *outer], env)
        ]
        scanned = []
        for _, points in runs:
            items = [self._item(statement, point) for point in points]
            scanned.append(self._running(statement, items))
        ends = [run[-1][-1] for run in scanned]
        pairs = [] if threads is None else self._thread_scan.scan(statement, ends, threads)
        for number, (place, points) in enumerate(runs):
            at = self._emitter.constant(place, e.INDEX)
            start = self._builder.add(k.Load(state.array, at, state.type))
            total = self._combine(statement, start, pairs[number][1] if pairs else ends[number])
            self._builder.add(k.Store(state.array, at, total))
            if not pairs and len(scanned[number]) == len(scanned[number][0]) == 1:
                result = self._combine(statement, state.base[place], total) if state.above else total
                self._writer.define(statement.value, points[0], result)
                continue
            if pairs:
                start = self._combine(statement, start, pairs[number][0])
            if state.above:
                start = self._combine(statement, state.base[place], start)
            for point, run in zip(points, scanned[number], strict=True):
                self._writer.define(statement.value, point, self._behind(statement, start, run))

    def _running(self, statement: Scan, items: Sequence[ValueId]) -> list[list[ValueId]]:
        """Return the combination of all up to each item, lane by lane where the lanes lie along the scan."""
        vector = self._emitter.vector
        result: list[list[ValueId]] = []
        last: ValueId | None = None
        for item in items:
            type_ = self._builder.type_of(item)
            parts = [item]
            if vector is not None and vector in statement.along and type_.lanes > 1:
                one = Type(type_.dtype)
                parts = [self._builder.add(k.Devectorize(item, lane, one)) for lane in range(type_.lanes)]
            run = []
            for part in parts:
                last = part if last is None else self._combine(statement, last, part)
                run.append(last)
            result.append(run)
        return result

    def _behind(self, statement: Scan, start: ValueId, run: Sequence[ValueId]) -> ValueId:
        """Return the lanes `run`, each combined with what is in front of all of them."""
        if len(run) == 1:
            return self._combine(statement, start, run[0])
        type_ = Type(self._builder.type_of(start).dtype, len(run))
        lanes = self._builder.add(k.Vectorize(tuple(run), type_))
        return self._combine(statement, self._emitter.widen_to(start, len(run)), lanes)

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
        group = self._writer.group(statement)
        if group is not None:
            sums = self._group_sums.get(statement) or GroupSums(self._emitter, group)
            return self._group_sums.setdefault(statement, sums).emit(fixed)
        if pairs_lanes(self._emitter, statement):
            return emit_paired(self._emitter, fixed)
        return self._emitter.emit_wide(fixed)

    def _combine(self, statement: Compute | Scan, x: ValueId, y: ValueId) -> ValueId:
        assert statement.op is not None
        return self._builder.add(k.Binary(statement.op.binary, x, y, self._builder.type_of(x)))

    def _new_state(self, statement: Compute | Scan) -> _Registers | _Memory:
        value = statement.value
        moving = self._moving_loops(statement)
        blocks = self._writer.blocks.of.get(statement)
        levels = len(blocks.carries) + 1 if blocks is not None else 0
        vector = self._emitter.vector
        combined = combined_ranges(statement)
        if isinstance(statement, Scan) and vector in combined and moving:
            raise ScheduleError(f"{vector} is scanned along: it cannot be a vector range in this order of loops")
        if any(self._nest.kind(r) in (Kind.GROUP, Kind.LOCAL) for r in combined) and moving:
            raise ScheduleError(f"{value} cannot be combined over the threads of a group in this order of loops")
        if not moving:
            count = _count(self._accumulators(statement))
            matrix = isinstance(statement, Compute) and statement.matrix is not None
            along = isinstance(statement, Scan) and vector in combined
            lanes = 1 if along else self._emitter.lanes // (1 + pairs_lanes(self._emitter, statement))
            type_ = RESULTS if matrix else Type(value.dtype, lanes)
            define = k.Define(Memory.REGISTER, value.dtype, count, True, type_.lanes)
            above = tuple(self._builder.array(define) for _ in range(levels))
            return _Registers(self._builder.array(define), type_, count, above)
        kept = [r for r in self._writer.unrolled(statement) if r not in combined]
        along_lanes = [] if vector is None or vector in combined else [vector]
        if isinstance(statement, Compute):
            place = self._writer.storage[value]
            assert isinstance(place, InArray)
            idle = axes_without(self._writer.thread_axes, statement.order)
            if place.shared and idle:  # each of them would add its own
                raise ScheduleError(
                    f"{value} is combined in memory that threads along {idle[0]} share, not by one of them"
                )
            result = self._writer.arrays[value]
            if not levels:
                return _Memory(result, place, (*moving, *kept, *along_lanes))
            array, *others = (self._writer.scratch(value.dtype, place.length) for _ in range(levels))
            return _Memory(array, place, (*moving, *kept, *along_lanes), (*others, result))
        place = InArray((*moving, *kept, *along_lanes), False, ())
        array, *others = (self._writer.scratch(value.dtype, place.length) for _ in range(levels + 1))
        base = self._writer.scratch(value.dtype, place.length) if levels else None
        return _Memory(array, place, place.dims, tuple(others), base)

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

    def _places(self, statement: Compute | Scan, state: _Registers | _Memory, env: Env) -> Iterator[e.Expr]:
        """Yield the index of each accumulator in its array; for those in memory, inside of a loop over them."""
        if isinstance(state, _Registers):
            yield from map(self._pool.index, range(state.count))
            return
        vector = self._emitter.vector
        lanes = vector if vector in state.moving else None
        others = [range_ for range_ in state.moving if range_ is not lanes]
        counter = self._pool.range(_count(others))
        self._emitter.bind(counter, self._builder.open(k.Loop(counter.size, Type(self._emitter.index_dtype))))
        at = self._pool.unflatten(self._pool.ref(counter), [range_.size for range_ in others])
        self._emitter.vector = lanes
        yield self._writer.array_index(state.place, {**env, **dict(zip(others, at, strict=True))})
        self._emitter.vector = vector
        self._builder.close()

    def _get(self, state: _Registers | _Memory, array: ValueId, at: e.Expr, dtype: DType) -> ValueId:
        """Load an accumulator from one of the arrays of `state`: a vector if it has lanes."""
        if isinstance(state, _Registers):
            return self._builder.add(k.Load(array, self._emitter.emit(at), state.type))
        split = self._emitter.split_lane(at)
        if not self._emitter.is_vector(at):
            return self._builder.add(k.Load(array, self._emitter.emit(at), Type(dtype)))
        type_ = Type(dtype, self._emitter.lanes)
        if split is not None and split[1] == 1 and self._emitter.has_vectors(array):
            return self._builder.add(k.Load(array, self._emitter.emit(split[0]), type_))
        places = [self._emitter.emit(self._emitter.at_lane([at], lane)[0]) for lane in range(type_.lanes)]
        items = tuple(self._builder.add(k.Load(array, place, Type(dtype))) for place in places)
        return self._builder.add(k.Vectorize(items, type_))

    def _put(self, state: _Registers | _Memory, array: ValueId, at: e.Expr, value: ValueId) -> None:
        if isinstance(state, _Registers):
            self._builder.add(k.Store(array, self._emitter.emit(at), value))
        else:
            self._writer.store_at(array, at, value, None)

    def _fill(self, statement: Compute | Scan, state: _Registers | _Memory, array: ValueId, env: Env) -> None:
        """Set all accumulators of an array to the identity."""
        for at in self._places(statement, state, env):
            lanes = state.type.lanes if isinstance(state, _Registers) else self._emitter.lanes
            self._put(state, array, at, self._emitter.widen_to(self._identity(statement), lanes))

    def _fold(
        self, statement: Compute | Scan, state: _Registers | _Memory, source: ValueId, target: ValueId, env: Env
    ) -> None:
        """Combine all accumulators of the array `source` into those of `target`."""
        for at in self._places(statement, state, env):
            both = [self._get(state, array, at, statement.value.dtype) for array in (target, source)]
            self._put(state, target, at, self._combine(statement, *both))

    def _update_memory(self, statement: Compute | Scan, state: _Memory, env: Env) -> None:
        """Combine the written out points among themselves, then into the array."""
        combined = combined_ranges(statement)
        unrolled = self._writer.unrolled(statement)
        if isinstance(statement, Scan):
            for point in self._writer.points(unrolled, env):
                new = self._add_into(statement, state, point, self._item(statement, point))
                if state.base is not None:
                    at = self._writer.array_index(state.place, point)
                    new = self._combine(statement, self._get(state, state.base, at, statement.value.dtype), new)
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
                at = self._pool.index(self._writer.position(separate, inner))
                arrays = state.above or (state.array,)
                levels = [self._get(state, array, at, statement.value.dtype) for array in arrays]
                items.append(self._combine_all(statement, levels))
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

    def _combine_all(self, statement: Compute | Scan, items: Sequence[ValueId]) -> ValueId:
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
    return math.prod(range_.size for range_ in ranges)
