"""Turn scalar expressions into operations, each in the outermost region where all it depends on is known.

An expression that depends on the vector range of the statement being written becomes a vector, any other one a scalar
that is repeated where it meets a vector. Addresses are not computed as vectors: a read whose index grows by one from
lane to lane is a vector load, one that does not change is a scalar load. Where it grows by a few, or shrinks, the
lanes are taken out of as many vectors, unless threads load them; any other is gathered lane by lane.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.errors import ScheduleError
from zyx.kernel import data as k
from zyx.kernel.data import Type, ValueId
from zyx.nest import expr as e
from zyx.ops import BinaryOp

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zyx.dtype import DType, Scalar
    from zyx.lowering.scopes import ScopedBuilder
    from zyx.nest.pool import Pool
#: Longest step from lane to lane for which all that lies between the lanes is loaded, too, and fewest such lanes.
LONGEST_STEP: Final = 4
_FEWEST_LANES: Final = 4


class Emitter:
    """Writes expressions into a `ScopedBuilder`.

    Attributes:
        vector: The vector range of the statement being written, if it has one.
        refs: How to read the values that statements define.
        has_threads: Whether groups have threads, which load lane by lane as well as vector by vector.
    """

    def __init__(self, pool: Pool, builder: ScopedBuilder, params: Mapping[e.Param, ValueId], index: DType) -> None:
        self.pool: Final = pool
        self.builder: Final = builder
        self.vector: e.Range | None = None
        self.refs: Callable[[e.Ref], ValueId] = _no_refs
        self.has_threads = False
        self._params = params
        self.index_dtype: Final = index
        self._bound: dict[e.Range, ValueId] = {}
        self._blocks: dict[e.Expr, tuple[e.Read, e.Range, e.Expr]] = {}

    def bind(self, range_: e.Range, value: ValueId) -> None:
        """Say that `range_` has `value`."""
        self._bound[range_] = value

    def is_vector(self, expr: e.Expr) -> bool:
        """Whether `expr` differs from lane to lane."""
        return self.vector is not None and bool(expr.free & self.vector.bit)

    @property
    def lanes(self) -> int:
        """Lanes of the statement being written."""
        return 1 if self.vector is None else self.vector.size

    # ---- entry points

    def emit(self, root: e.Expr) -> ValueId:
        """Return the value of `root`: a vector if it differs from lane to lane, else a scalar."""
        find = self.builder.find
        found = find(root)
        # Children first, on a stack of our own: an expression may be thousands of operations deep.
        stack = [root] if found is None else []
        while stack:
            current, count = stack[-1], len(stack)
            for child in _children_to_emit(current):
                if find(child) is None:
                    stack.append(child)
            if len(stack) > count:
                continue
            stack.pop()
            if find(current) is None:
                self.builder.remember(current, self._write(current))
        found = find(root) if found is None else found
        assert found is not None
        return found

    def emit_wide(self, root: e.Expr) -> ValueId:
        """Return the value of `root` in all lanes of the statement."""
        return self.widen(self.emit(root))

    def widen(self, value: ValueId) -> ValueId:
        """Repeat a scalar over the lanes of the statement; a vector stays."""
        return self.widen_to(value, self.lanes)

    def widen_to(self, value: ValueId, lanes: int) -> ValueId:
        """Repeat a scalar over `lanes` lanes; a vector stays."""
        type_ = self.builder.type_of(value)
        if lanes == 1 or type_.lanes > 1:
            return value
        key = ("splat", value, lanes)
        found = self.builder.find(key)
        if found is not None:
            return found
        splat = k.Vectorize((value,) * lanes, Type(type_.dtype, lanes))
        return self.builder.remember(key, self.builder.add(splat, self.builder.depth_of(value)))

    def constant(self, value: Scalar, dtype: DType) -> ValueId:
        """Return a scalar constant."""
        return self.emit(self.pool.index(int(value)) if dtype is e.INDEX else self.pool.literal(value, dtype))

    def at_lane(self, roots: list[e.Expr], lane: int) -> list[e.Expr]:
        """Return `roots` for one lane of the statement."""
        assert self.vector is not None
        return self.pool.substitute(roots, {self.vector: self.pool.index(lane)})

    # ---- one operation

    def _add(self, op: k.Op, *operands: ValueId) -> ValueId:
        """Add `op` in the outermost region where its operands are known."""
        return self.builder.add(op, max(map(self.builder.depth_of, operands), default=0))

    def _write(self, expr: e.Expr) -> ValueId:
        match expr:
            case e.Literal(value=value):
                return self._add(k.Const(value, Type(self.index_dtype if expr.dtype is e.INDEX else expr.dtype)))
            case e.Number(param=param):
                return self._params[param]
            case e.RangeRef(range=range_):
                return self._lane_numbers(self.index_dtype) if range_ is self.vector else self._bound[range_]
            case e.Affine():
                return self._affine(expr)
            case e.Quotient(x=x, divisor=divisor):
                return self._binary(BinaryOp.DIV, self.emit(x), self.constant(divisor, e.INDEX))
            case e.Remainder(x=x, divisor=divisor):
                return self._binary(BinaryOp.MOD, self.emit(x), self.constant(divisor, e.INDEX))
            case e.Within(x=x):
                return self.emit(x)
            case e.NonNegative(x=x):
                return self._non_negative(x)
            case e.IsZero(x=x):
                return self._binary(BinaryOp.EQ, self.emit(x), self.constant(0, e.INDEX))
            case e.Read(param=param, index=index, mask=mask):
                if expr in self._blocks and self.is_vector(expr):
                    return self._load_block(expr)
                return self.load(self._params[param], expr.dtype, index, mask)
            case e.Ref():
                return self.refs(expr)
            case e.Apply1(op=unary, x=x):
                value = self.emit(x)
                return self._add(k.Unary(unary, value, self.builder.type_of(value)), value)
            case e.Apply2(op=binary, x=x, y=y):
                return self._binary(binary, self.emit(x), self.emit(y))
            case e.Select(condition=condition, x=x, y=y):
                test, first, second = self.emit(condition), self.emit(x), self.emit(y)
                if self.is_vector(expr):
                    first, second = self.widen(first), self.widen(second)
                op = k.Where(test, first, second, self.builder.type_of(first))
                return self._add(op, test, first, second)
            case e.Convert(x=x):
                if x.dtype is e.INDEX and expr.dtype.is_integer and self.is_vector(x):
                    narrow = self._lanes_in(x, expr.dtype)
                    if narrow is not None:
                        return narrow
                value = self.emit(x)
                dtype = self.index_dtype if expr.dtype is e.INDEX else expr.dtype
                type_ = Type(dtype, self.builder.type_of(value).lanes)
                return value if type_ == self.builder.type_of(value) else self._add(k.Cast(value, type_), value)
            case e.Reinterpret(x=x):
                value = self.emit(x)
                return self._add(k.Bitcast(value, Type(expr.dtype, self.builder.type_of(value).lanes)), value)
            case _:
                raise ScheduleError(f"{type(expr).__name__} has no operation")

    def _where(self, test: ValueId, x: ValueId, y: ValueId) -> ValueId:
        return self._add(k.Where(test, x, y, self.builder.type_of(x)), test, x, y)

    def _binary(self, op: BinaryOp, x: ValueId, y: ValueId) -> ValueId:
        lanes = max(self.builder.type_of(x).lanes, self.builder.type_of(y).lanes)
        if lanes > 1:
            x, y = self.widen(x), self.widen(y)
        type_ = self.builder.type_of(x)
        if op in (BinaryOp.LT, BinaryOp.LE, BinaryOp.EQ, BinaryOp.NE):
            type_ = Type(dtypes.bool_, lanes)
        return self._add(k.Binary(op, x, y, type_), x, y)

    def _lane_numbers(self, dtype: DType) -> ValueId:
        """Return the vector 0, 1, 2, ..."""
        key = ("lanes", self.lanes, dtype)
        found = self.builder.find(key)
        if found is not None:
            return found
        kind = e.INDEX if dtype is self.index_dtype else dtype
        items = tuple(self.constant(lane, kind) for lane in range(self.lanes))
        return self.builder.remember(key, self._add(k.Vectorize(items, Type(dtype, self.lanes))))

    # ---- index arithmetic

    def _affine(self, expr: e.Affine) -> ValueId:
        """Add terms from the outermost known to the innermost, so that all but the last additions leave the loops."""
        deepest = self.builder.depth + 1
        levels = [deepest if self.is_vector(term) else self.builder.depth_of(self.emit(term)) for term, _ in expr.terms]
        last = max(levels)
        outer = [item for item, level in zip(expr.terms, levels, strict=True) if level < last]
        inner = [item for item, level in zip(expr.terms, levels, strict=True) if level == last]
        if not outer and len(inner) > 1:
            outer, inner = inner[:-1], inner[-1:]
        parts = [self.emit(self.pool.affine(outer))] if outer else []
        for term, factor in inner:
            value = self.emit(term)
            scaled = value if factor == 1 else self._binary(BinaryOp.MUL, value, self.constant(factor, e.INDEX))
            parts.append(scaled)
        if expr.constant:
            parts.append(self.constant(expr.constant, e.INDEX))
        total = parts[0]
        for part in parts[1:]:
            total = self._binary(BinaryOp.ADD, total, part)
        return total

    def split_lane(self, index: e.Expr) -> tuple[e.Expr, int] | None:
        """Return (index of lane 0, step from lane to lane), or None if the steps differ."""
        if not self.is_vector(index):
            return index, 0
        step = 0
        rest = []
        for term, factor in index.terms if isinstance(index, e.Affine) else ((index, 1),):
            if isinstance(term, e.RangeRef) and term.range is self.vector:
                step = factor
            elif self.is_vector(term):
                return None
            else:
                rest.append((term, factor))
        return self.pool.affine(rest, index.constant if isinstance(index, e.Affine) else 0), step

    def _lanes_in(self, index: e.Expr, dtype: DType) -> ValueId | None:
        """Return a vector of an index in an integer dtype, computed in that dtype: its lanes wrap just as well."""
        split = self.split_lane(index)
        if split is None:
            return None
        base, step = split
        value = self.emit(base)
        if self.builder.type_of(value).dtype is not dtype:
            value = self._add(k.Cast(value, Type(dtype)), value)
        steps = self._lane_numbers(dtype)
        if step != 1:
            steps = self._binary(BinaryOp.MUL, steps, self.constant(dtype.to_scalar(step), dtype))
        return self._binary(BinaryOp.ADD, value, steps)

    def _non_negative(self, x: e.Expr) -> ValueId:
        split = self.split_lane(x) if self.is_vector(x) else None
        if split is not None and abs(split[1]) * self.lanes < 1 << 30:
            return self._lanes_below(*split)
        if isinstance(x, e.Affine):  # compare with the constant moved to the other side
            if all(factor < 0 for _, factor in x.terms):
                moved = self.pool.affine([(term, -factor) for term, factor in x.terms])
                return self._binary(BinaryOp.LE, self.emit(moved), self.constant(x.constant, e.INDEX))
            return self._binary(BinaryOp.LE, self.constant(-x.constant, e.INDEX), self.emit(self.pool.affine(x.terms)))
        return self._binary(BinaryOp.LE, self.constant(0, e.INDEX), self.emit(x))

    def _lanes_below(self, base: e.Expr, step: int) -> ValueId:
        """Return ``base + lane * step >= 0``, with vectors of int32: as many of them fit a register as of float32."""
        reach = abs(step) * self.lanes
        value = self.emit(base)
        if base.low < -reach:
            value = self._binary(BinaryOp.MAX, value, self.constant(-reach, e.INDEX))
        if base.high > reach:
            value = self._binary(BinaryOp.MIN, value, self.constant(reach, e.INDEX))
        narrow = self._add(k.Cast(value, Type(dtypes.int32)), value)
        steps = self._lane_numbers(dtypes.int32)
        if step != -1:
            steps = self._binary(BinaryOp.MUL, steps, self.constant(-step, dtypes.int32))
        return self._binary(BinaryOp.LE, steps, narrow)

    # ---- memory

    def has_vectors(self, array: ValueId) -> bool:
        """Whether lanes that lie side by side in `array` can be accessed at once: not in the registers of a thread."""
        define = self.builder.ops[array]
        return not isinstance(define, k.Define) or define.memory is not k.Memory.REGISTER

    def load(self, array: ValueId, dtype: DType, index: e.Expr, mask: e.Expr | None, depth: int = 0) -> ValueId:
        """Load ``array[index]`` where `mask` holds, in no region above `depth`."""
        if not self.is_vector(index) and (mask is None or not self.is_vector(mask)):
            return self._load(array, Type(dtype), index, mask, depth)
        split = self.split_lane(index)
        if split is not None and split[1] == 1 and self.has_vectors(array):
            return self._load(array, Type(dtype, self.lanes), split[0], mask, depth)
        is_same = mask is None or not self.is_vector(mask)
        if split is not None and is_same and self._is_short(split[1]) and self.has_vectors(array):
            return self._load_by_steps(array, dtype, *split, mask, depth)
        if split is None and self._is_always_inside(array, index, mask):
            return self._load_looked_up(array, dtype, index, mask, depth)
        items = []
        for lane in range(self.lanes):
            fixed = self.at_lane([index] if mask is None else [index, mask], lane)
            lane_mask = None if mask is None else fixed[1]
            if lane_mask is self.pool.false:
                items.append(self.constant(dtype.to_scalar(0), dtype))
            else:
                lane_mask = None if lane_mask is self.pool.true else lane_mask
                items.append(self._load(array, Type(dtype), fixed[0], lane_mask, depth))
        return self._add(k.Vectorize(tuple(items), Type(dtype, self.lanes)), *items)

    def _is_always_inside(self, array: ValueId, index: e.Expr, mask: e.Expr | None) -> bool:
        """Whether `index` has a position that was read and clamped, and lies in `array` also where a mask is false."""
        define = self.builder.ops[array]
        assert isinstance(define, k.Define)
        terms = [term for term, _ in index.terms] if isinstance(index, e.Affine) else [index]
        return (
            index.low >= 0
            and index.high < define.length
            and define.memory is k.Memory.GLOBAL
            and not (define.is_front and mask is not None)  # which says what a launch gives
            and all(isinstance(term, e.RangeRef) or _is_clamped(term) for term in terms if self.is_vector(term))
        )

    def _load_looked_up(self, array: ValueId, dtype: DType, index: e.Expr, mask: e.Expr | None, depth: int) -> ValueId:
        """Gather lanes by vectors of indices; masked lanes are replaced afterwards."""
        key = ("looked up", array, index)
        found = self.builder.find(key)
        if found is None:
            terms = index.terms if isinstance(index, e.Affine) else ((index, 1),)
            constant = index.constant if isinstance(index, e.Affine) else 0
            start = self.pool.affine([term for term in terms if not self.is_vector(term[0])], constant)
            places = self._lanes_of(self.pool.affine([term for term in terms if self.is_vector(term[0])]))
            items = []
            for place in places:  # what all lanes have in common is added to each: rows may share the places
                position = place if start is self.pool.index(0) else self._binary(BinaryOp.ADD, self.emit(start), place)
                load = k.Load(array, position, Type(dtype))
                items.append(self.builder.add(load, max(depth, self.builder.depth_of(position))))
            vector = self._add(k.Vectorize(tuple(items), Type(dtype, self.lanes)), *items)
            found = self.builder.remember(key, vector)
        if mask is None:
            return found
        nothing = self.widen(self.constant(dtype.to_scalar(0), dtype))
        return self._where(self.widen(self.emit(mask)), found, nothing)

    def _is_short(self, step: int) -> bool:
        """Whether strided lanes are loaded as whole vectors and shuffled out of them."""
        return not self.has_threads and self.lanes >= _FEWEST_LANES and (step == -1 or 2 <= abs(step) <= LONGEST_STEP)

    def _load_by_steps(
        self, array: ValueId, dtype: DType, index: e.Expr, step: int, mask: e.Expr | None, depth: int
    ) -> ValueId:
        """Load the vectors from the first to the last of the lanes, and take the lanes out of them.

        The last vector ends at the last lane: nothing is touched but what lies between two elements that are read.
        """
        lanes = self.lanes
        reach = (lanes - 1) * abs(step)
        places = [step * lane if step > 0 else reach + step * lane for lane in range(lanes)]
        first = self.pool.add(index, self.pool.index(-reach if step < 0 else 0))
        taken: ValueId | None = None
        for number in range(abs(step)):
            start = min(number * lanes, reach + 1 - lanes)
            part = self._load(array, Type(dtype, lanes), self.pool.add(first, self.pool.index(start)), mask, depth)
            if number == 0 and abs(step) > 1:
                taken = part
                continue
            before = part if taken is None else taken
            order = [lane if number > 1 else min(place, lanes - 1) for lane, place in enumerate(places)]
            for lane, place in enumerate(places):
                if start <= place < start + lanes:
                    order[lane] = lanes + place - start
            taken = self._add(k.Shuffle(before, part, tuple(order), Type(dtype, lanes)), before, part)
        assert taken is not None
        return taken

    def _lanes_of(self, index: e.Expr) -> list[ValueId]:
        """Return what an index is in each lane, taken out of a vector once."""
        at = self.emit(index)
        type_ = Type(self.builder.type_of(at).dtype)
        lanes = []
        for lane in range(self.lanes):
            key = ("lane", at, lane)
            found = self.builder.find(key)
            if found is None:
                found = self.builder.remember(key, self._add(k.Devectorize(at, lane, type_), at))
            lanes.append(found)
        return lanes

    def load_lanes(self, array: ValueId, dtype: DType, lanes: int, index: e.Expr, depth: int) -> ValueId:
        """Load `lanes` elements from the scalar position `index` on, in no region above `depth`."""
        return self._load(array, Type(dtype, lanes), index, None, depth)

    def note_block(self, read: e.Read, unrolled: e.Range, place: e.Expr, point: e.Expr) -> None:
        """Register `point` as `read` at one `place` of `unrolled`, the contiguous range, to be loaded as a block.

        The points of `unrolled` divide the lanes: the block of all points and lanes is loaded along `unrolled` and
        turned over, instead of lane by lane.
        """
        self._blocks[point] = (read, unrolled, place)

    def forget_blocks(self) -> None:
        """Forget what `note_block` was told: what may be loaded in one branch may not be in another."""
        self._blocks.clear()

    def _load_block(self, expr: e.Expr) -> ValueId:
        """Load a block of lanes times unrolled points, and remember the vector of every point."""
        (read, unrolled, place), lanes = self._blocks[expr], self.vector
        assert lanes is not None
        rows = []
        for lane in range(lanes.size):
            (row,) = self.pool.substitute([read], {lanes: self.pool.index(lane)})
            self.vector = unrolled
            rows.append(self.emit_wide(row))
            self.vector = lanes
        squares = [self.turn_over(rows[start : start + unrolled.size]) for start in range(0, len(rows), unrolled.size)]
        for point in range(unrolled.size):
            column = self._joined([square[point] for square in squares])
            number = self.pool.index(point)
            # What a branch knows of its mask may make it another expression than it would be.
            at = expr if number is place else self.pool.substitute([read], {unrolled: number})[0]
            if isinstance(at, e.Read) and self.builder.find(at) is None:
                self.builder.remember(at, column)
        found = self.builder.find(expr)
        assert found is not None
        return found

    def _joined(self, parts: list[ValueId]) -> ValueId:
        """Return one vector of the lanes of several, as many as a power of two."""
        while len(parts) > 1:
            lanes = 2 * self.builder.type_of(parts[0]).lanes
            type_ = Type(self.builder.type_of(parts[0]).dtype, lanes)
            parts = [
                self._add(k.Shuffle(a, b, tuple(range(lanes)), type_), a, b)
                for a, b in zip(parts[::2], parts[1::2], strict=True)
            ]
        return parts[0]

    def turn_over(self, rows: list[ValueId]) -> list[ValueId]:
        """Return the transpose of a square of vectors: swap halves of pairs of rows at distances n/2, n/4, ..., 1."""
        size = len(rows)
        distance = size // 2
        type_ = self.builder.type_of(rows[0])
        while distance:
            low = tuple(lane if not lane & distance else size + lane - distance for lane in range(size))
            high = tuple(lane + distance if not lane & distance else size + lane for lane in range(size))
            for i in range(size):
                if not i & distance:
                    a, b = rows[i], rows[i + distance]
                    rows[i] = self._add(k.Shuffle(a, b, low, type_), a, b)
                    rows[i + distance] = self._add(k.Shuffle(a, b, high, type_), a, b)
            distance //= 2
        return rows

    def guarded(self, index: e.Expr, mask: e.Expr | None, lanes: int) -> tuple[ValueId, ValueId | None]:
        """Return (position, mask) of an access of `lanes` elements.

        What of a mask is the same for all lanes of a vector keeps it from pointing at memory that is not there:
        processors suppress the fault of a masked access, but take hundreds of cycles over it.
        """
        at = self.emit(index)
        if mask is None:
            return at, None
        for part in self._same_for_all_lanes(mask) if lanes > 1 else ():
            at = self._where(self.emit(part), at, self.constant(0, e.INDEX))
        return at, self.widen_to(self.emit(mask), lanes)

    def _same_for_all_lanes(self, mask: e.Expr) -> list[e.Expr]:
        """Return the conjuncts of `mask` that are uniform over the lanes."""
        found, stack = [], [mask]
        while stack:
            current = stack.pop()
            if not self.is_vector(current):
                found.append(current)
            elif isinstance(current, e.Apply2) and current.op is BinaryOp.AND and not self.has_threads:
                stack += [current.y, current.x]
        return found

    def _load(self, array: ValueId, type_: Type, index: e.Expr, mask: e.Expr | None, depth: int) -> ValueId:
        key = ("load", array, type_, index, mask)
        found = self.builder.find(key)
        if found is not None:
            return found
        at, allowed = self.guarded(index, mask, type_.lanes)
        operands = (at,) if allowed is None else (at, allowed)
        op = k.Load(array, at, type_, allowed)
        value = self.builder.add(op, max(depth, *map(self.builder.depth_of, operands)))
        return self.builder.remember(key, value)


def _children_to_emit(expr: e.Expr) -> tuple[e.Expr, ...]:
    """Return the children that are emitted before `expr`: the data ones. Index arithmetic is shallow."""
    match expr:
        case e.Apply1() | e.Apply2() | e.Select() | e.Reinterpret():
            return expr.children
        case e.Convert(x=x) if x.dtype is not e.INDEX:
            return (x,)
        case _:
            return ()


def _is_clamped(index: e.Expr) -> bool:
    """Whether an index was read, and is kept within its bounds by operations, not only by a mask."""
    read = index.x.x if isinstance(index, e.Within) and isinstance(index.x, e.Convert) else None
    return isinstance(read, e.Apply2) and read.op is BinaryOp.MIN


def _no_refs(ref: e.Ref) -> ValueId:
    raise ScheduleError(f"{ref} is read before it is defined")
