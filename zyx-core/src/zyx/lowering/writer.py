"""What the writers of statements share: points of unrolled ranges, values and their places, memory accesses."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from zyx.errors import ScheduleError
from zyx.kernel import data as k
from zyx.kernel.data import Memory, Type, ValueId
from zyx.lowering.blocked_sums import BlockedSums
from zyx.lowering.storage import InArray, InRegisters
from zyx.lowering.thread_axes import thread_axes
from zyx.nest import expr as e
from zyx.nest.accesses import reads_in, stride_along
from zyx.nest.data import Kind
from zyx.nest.lane_sums import written_out_group
from zyx.nest.rebuild import transform

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import TypeAlias

    from zyx.dtype import DType
    from zyx.lowering.emit import Emitter
    from zyx.lowering.storage import Storage
    from zyx.lowering.tree import RangeLoop, Tree
    from zyx.lowering.unswitching import Case
    from zyx.nest.data import Nest, Statement

#: Bytes of the largest load of a thread.
_LOAD_BYTES: Final = 16
#: Ranges that have another value here than their own name: unrolled points, and parts of peeled ranges.
Env: TypeAlias = "Mapping[e.Range, e.Expr]"


class LoweringState:
    """The state of writing one nest.

    Attributes:
        thread_axes: The axes of the threads of a group.
        base_depth: Depth of the region outside all loops.
        loop_depths: Depth of the region inside each loop that is being written.
        blocks: Which loops are cut into blocks.
        case: What is known of masks in the branch that is being written.
        known: Masks that hold in the loops that are being written.
    """

    def __init__(
        self,
        nest: Nest,
        tree: Tree,
        storage: Mapping[e.Value, Storage],
        emitter: Emitter,
        params: Mapping[e.Param, ValueId],
    ) -> None:
        self.nest: Final = nest
        self.tree: Final = tree
        self.storage: Final = storage
        self.emitter: Final = emitter
        self.builder: Final = emitter.builder
        self.pool: Final = nest.pool
        self.params: Final = params
        self.thread_axes: Final = thread_axes(nest)
        self.base_depth = 0
        self.loop_depths: dict[RangeLoop, int] = {}
        self.case: Case | None = None
        self.known: frozenset[e.Expr] = frozenset()
        self.arrays: dict[e.Value, ValueId] = {}
        self._groups: dict[Statement, e.Range | None] = {}
        self._turned: dict[Statement, list[tuple[e.Read, e.Range]]] = {}
        self._known: dict[tuple[e.Value, tuple[int, ...]], ValueId] = {}
        self._at: dict[tuple[e.Range, e.Expr], dict[e.Expr, e.Expr]] = {}
        self.blocks: Final = BlockedSums(nest, tree, storage)
        emitter.refs = self.read_value
        emitter.has_threads = bool(self.thread_axes)
        for value, place in storage.items():
            if isinstance(place, InArray):
                self.arrays[value] = self.scratch(value.dtype, place.length, shared=place.shared)

    def scratch(self, dtype: DType, length: int, *, shared: bool = False) -> ValueId:
        """Define an array of a thread's own, or of the whole group. With one thread a group these are the same."""
        memory = Memory.LOCAL if shared or not self.thread_axes else Memory.REGISTER
        return self.builder.array(k.Define(memory, dtype, length))

    # ---- points

    def enter(self, statement: Statement) -> None:
        """Make the vector range of `statement` that of the expressions emitted next."""
        found = [range_ for range_ in statement.order if self.nest.kind(range_) is Kind.VECTOR]
        if len(found) > 1:
            raise ScheduleError(f"a statement has one vector range at most, not {found}")
        self.emitter.vector = found[0] if found else None

    def unrolled(self, statement: Statement) -> list[e.Range]:
        """Return the ranges that `statement` is written out for: not that of bytes which are summed in groups."""
        group = self.group(statement)
        return [r for r in statement.order if self.nest.kind(r) in (Kind.UNROLL, Kind.REPEAT) and r is not group]

    def group(self, statement: Statement) -> e.Range | None:
        """Return the range of the bytes in each lane, if `statement` sums groups of them."""
        if statement not in self._groups:
            self._groups[statement] = None if self.thread_axes else written_out_group(self.nest, statement)
        return self._groups[statement]

    def substitute(self, statement: Statement, roots: list[e.Expr], point: Env) -> list[e.Expr]:
        """Return the expressions of `statement` at a point of its unrolled ranges."""
        vector = self.emitter.vector
        if vector is not None and vector.size > 2:
            for read, unrolled in self._turned_reads(statement, vector):
                others = {range_: at for range_, at in point.items() if range_ is not unrolled}
                (block,) = self.at([read], others)
                (at,) = self.at([read], point)
                if not isinstance(block, e.Read) or not isinstance(at, e.Read) or at is block:
                    continue
                # Threads load a block lane by lane where some of it is missing: that costs them nothing.
                if not self.thread_axes or not _is_masked(block, vector, unrolled):
                    self.emitter.note_block(block, unrolled, point[unrolled], at)
        return self.at(roots, point)

    def at(self, roots: list[e.Expr], point: Env) -> list[e.Expr]:
        """Return expressions at a point, with what the branch that is being written knows of masks."""
        for range_, value in point.items():  # one by one: what depends on one of them is the same at many points
            if any([root.free & range_.bit for root in roots]):
                roots = self.pool.substitute(roots, {range_: value}, self._at.setdefault((range_, value), {}))
        roots = self.assume(roots)
        return roots if self.case is None else self.case.assume(self.pool, roots)

    def assume(self, roots: Sequence[e.Expr]) -> list[e.Expr]:
        """Return expressions without the masks that hold in all loops that are being written."""
        if not self.known:
            return [*roots]
        memo: dict[e.Expr, e.Expr] = {}
        true, known = self.pool.true, self.known

        def change(expr: e.Expr) -> e.Expr:
            return true if expr in known else expr

        return [transform(self.pool, root, change, memo) for root in roots]

    def _turned_reads(self, statement: Statement, vector: e.Range) -> list[tuple[e.Read, e.Range]]:
        """Return the reads that lie side by side along an unrolled range of the vectors' length, not along them.

        Threads, in which taking lanes apart costs nothing, turn blocks over that are shorter along the unrolled range.
        Only squares of a power of two are turned over.
        """
        found = self._turned.get(statement)
        if found is None:
            shorter = (vector.size // 2, vector.size // 4) if self.thread_axes else ()
            sizes = {vector.size, *shorter} - {1} if vector.size.bit_count() == 1 else set()
            unrolled = [r for r in self.unrolled(statement) if r.size in sizes]
            found = []
            for read in reads_in(statement) if unrolled else ():
                step = stride_along(read.index, vector)
                along = [r for r in unrolled if stride_along(read.index, r) == 1]
                if step not in (0, 1, None) and along:
                    found.append((read, along[0]))
            self._turned[statement] = found
        return found

    def points(self, ranges: Sequence[e.Range], env: Env) -> Iterator[dict[e.Range, e.Expr]]:
        """Yield `env` with each point of `ranges`."""
        for point in itertools.product(*(range(range_.size) for range_ in ranges)):
            yield {**env, **{range_: self.pool.index(at) for range_, at in zip(ranges, point, strict=True)}}

    def position(self, ranges: Sequence[e.Range], point: Env) -> int:
        """Return the row-major number of `point` among those of `ranges`."""
        number = 0
        for range_ in ranges:
            number = number * range_.size + _constant(point[range_])
        return number

    # ---- values

    def read_value(self, ref: e.Ref) -> ValueId:
        """Return what `ref` stands for here."""
        place = self.storage[ref.value]
        if isinstance(place, InRegisters):
            at = dict(zip(ref.value.ranges, ref.indices, strict=True))
            known = self._known[ref.value, tuple(_constant(at[range_]) for range_ in place.unrolled)]
            return self._lane_of(known, at)
        index = self.array_index(place, dict(zip(ref.value.ranges, ref.indices, strict=True)))
        # What was stored in a loop that still runs must not be read in front of that loop.
        depth = self.base_depth
        for loop in self.tree.paths[self.tree.definitions[ref.value]]:
            depth = self.loop_depths.get(loop, depth)
        lane = self._lane_in_memory(ref, place)
        if lane is not None:
            at = dict(zip(ref.value.ranges, ref.indices, strict=True))
            first = self.array_index(place, {**at, place.dims[-1]: self.pool.index(0)})
            vector = self.emitter.load_lanes(self.arrays[ref.value], ref.value.dtype, place.dims[-1].size, first, depth)
            one = k.Devectorize(vector, lane, Type(ref.value.dtype))
            return self.builder.add(one, self.builder.depth_of(vector))
        return self.emitter.load(self.arrays[ref.value], ref.value.dtype, index, ref.mask, depth)

    def _lane_in_memory(self, ref: e.Ref, place: InArray) -> int | None:
        """Return which lane of a vector in local memory a thread reads, where it is written out for each of them.

        What was stored by vectors is loaded by vectors then: one access serves all lanes.
        """
        if not self.thread_axes or not place.shared or ref.mask is not None:
            return None
        along = place.dims[-1]
        lane = ref.indices[ref.value.ranges.index(along)]
        is_vector = self.nest.kind(along) is Kind.VECTOR and ref.value.dtype.itemsize * along.size <= _LOAD_BYTES
        others = (index for index in ref.indices if self.emitter.is_vector(index))
        return int(lane.value) if is_vector and isinstance(lane, e.Literal) and not any(others) else None

    def _lane_of(self, vector: ValueId, at: Env) -> ValueId:
        """Return the lane that `at` names, where a statement is written lane by lane; else the vector itself."""
        type_ = self.builder.type_of(vector)
        lane = next((at[range_] for range_ in at if self.nest.kind(range_) is Kind.VECTOR), None)
        if type_.lanes == 1 or not isinstance(lane, e.Literal):
            return vector
        return self.builder.add(
            k.Devectorize(vector, int(lane.value), Type(type_.dtype)), self.builder.depth_of(vector)
        )

    def define(self, value: e.Value, point: Env, result: ValueId) -> None:
        """Let `result` be the element of `value` here, at the unrolled `point`."""
        place = self.storage[value]
        if isinstance(place, InRegisters):
            self._known[value, tuple(_constant(point[range_]) for range_ in place.unrolled)] = result
        else:
            self.store_at(self.arrays[value], self.array_index(place, point), result, None)

    def array_index(self, place: InArray, point: Env) -> e.Expr:
        """Return the position of `point` in an array; a range it does not name has its own value."""
        indices = [point.get(range_, self.pool.ref(range_)) for range_ in place.dims]
        return self.pool.flatten(indices, [range_.size for range_ in place.dims])

    # ---- memory

    def store_at(
        self, array: ValueId, index: e.Expr, value: ValueId, mask: e.Expr | None, *, streaming: bool = False
    ) -> None:
        """Store a vector or scalar; a vector whose lanes do not lie side by side goes lane by lane."""
        emitter = self.emitter
        varies = emitter.is_vector(index) or (mask is not None and emitter.is_vector(mask))
        if self.builder.type_of(value).lanes == 1 and not varies:
            allowed = None if mask is None else emitter.emit(mask)
            self.builder.add(k.Store(array, emitter.emit(index), value, allowed))
            return
        value = emitter.widen(value)
        split = emitter.split_lane(index)
        if split is not None and split[1] == 1 and emitter.has_vectors(array):
            at, allowed = emitter.guarded(split[0], mask, emitter.lanes)
            self.builder.add(k.Store(array, at, value, allowed, streaming and self._is_aligned(split[0])))
            return
        dtype = self.builder.type_of(value).dtype
        for lane, (at, allowed) in self.lanes_of(index, mask):
            item = self.builder.add(k.Devectorize(value, lane, Type(dtype)))
            self.builder.add(k.Store(array, at, item, allowed))

    def _is_aligned(self, index: e.Expr) -> bool:
        """Whether `index` is always a multiple of the lanes, as streaming stores need."""
        return self.pool.modulo(index, self.emitter.lanes) is self.pool.index(0)

    def lanes_of(self, index: e.Expr, mask: e.Expr | None) -> Iterator[tuple[int, tuple[ValueId, ValueId | None]]]:
        """Yield (lane, (index, mask)) for each lane that the mask does not surely rule out."""
        for lane in range(self.emitter.lanes):
            fixed = self.emitter.at_lane([index] if mask is None else [index, mask], lane)
            if mask is None or fixed[1] is self.pool.true:
                yield lane, (self.emitter.emit(fixed[0]), None)
            elif fixed[1] is not self.pool.false:
                yield lane, (self.emitter.emit(fixed[0]), self.emitter.emit(fixed[1]))


def _is_masked(read: e.Read, *ranges: e.Range) -> bool:
    """Whether the mask of `read` differs along any of `ranges`."""
    return read.mask is not None and any(read.mask.free & range_.bit for range_ in ranges)


def _constant(expr: e.Expr) -> int:
    if not isinstance(expr, e.Literal):
        raise ScheduleError(f"{expr} must be a constant where a value is kept in registers")
    return int(expr.value)
