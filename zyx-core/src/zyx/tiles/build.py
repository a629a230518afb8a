"""From a nest to a tile program: what is done element by element, sums of products, and reductions of rows or columns.

The axes of results are those of the last store; that along which it moves least is the columns, the next one the rows,
and each point of the others has a matrix of its own. A nest of one range is a vector, which is folded to a matrix.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx.errors import UnsupportedError
from zyx.nest import expr as e
from zyx.nest.accesses import below, stride_along
from zyx.nest.data import Compute, Scan, Store, params_of
from zyx.ops import ReduceOp
from zyx.schedule.contraction import find_contraction
from zyx.schedule.plan import Plan, simplify_ranges
from zyx.tiles import data as t
from zyx.tiles.blocks import with_blocks
from zyx.tiles.data import TileOp
from zyx.tiles.expressions import Steps, tile_dtype_of, value_in_pads
from zyx.tiles.views import Frame, columns_folded, nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend.info import DeviceInfo, TileUnit
    from zyx.nest.data import Nest
    from zyx.nest.expr import Expr, Range
    from zyx.schedule.contraction import Contraction

_REDUCE = {
    ReduceOp.SUM: (TileOp.ADD, False), ReduceOp.MAX: (TileOp.MAX, False), ReduceOp.MIN: (TileOp.MAX, True),
    ReduceOp.OR: (TileOp.MAX, False), ReduceOp.AND: (TileOp.MAX, True),
}  # fmt: skip


def build_program(nests: Sequence[Nest], name: str, info: DeviceInfo) -> t.TileProgram:
    """Return the tile program of nests for a device that computes on tiles.

    Raises:
        UnsupportedError: They are not of a form that has one, or it does not fit the device; the text has `name`.
    """
    if len(nests) > 1:
        raise UnsupportedError(f"{name}: {len(nests)} nests share a launch, and a tile program is of one")
    plan = Plan(nests[0])
    simplify_ranges(plan)
    try:
        return _Building(plan.nest, name, info).program()
    except UnsupportedError as error:
        raise UnsupportedError(f"kernel {name}: {error}") from error


class _Building:
    """One program being built."""

    def __init__(self, nest: Nest, name: str, info: DeviceInfo) -> None:
        if info.tiles is None:
            raise UnsupportedError(f"{info.model} does not compute on tiles")
        self._nest, self._name, self._info = nest, name, info
        self._tiles: TileUnit = info.tiles
        self._stores: list[Store] = []
        self._combined: list[Compute] = []
        inlined: dict[e.Value, Compute] = {}
        for statement in nest.statements:
            match statement:
                case Compute(op=None):
                    inlined[statement.value] = statement
                case Compute():
                    self._combined.append(statement)
                case Scan():
                    raise UnsupportedError("a scan has no tile program")
                case Store():
                    self._stores.append(statement)
        self._inlined = inlined
        self._steps = Steps(info, inlined)
        self._axes: list[t.Axis] = []
        self._sweeps: list[t.Sweep] = []
        self._whole: list[int] = []

    def program(self) -> t.TileProgram:
        """Return the program."""
        ranges = self._ranges_of_results()
        if len(self._combined) > 1:
            raise UnsupportedError(f"{len(self._combined)} reductions in one nest have no tile program")
        if not self._combined:
            outer = self._elementwise(ranges)
        else:
            found = find_contraction(self._nest)
            outer = self._product(found, ranges) if found is not None else self._reduction(self._combined[0], ranges)
        program = t.TileProgram(
            self._name,
            (self._tiles.rows, self._tiles.columns),
            tuple(self._axes),
            tuple(outer),
            tuple(self._steps.operands),
            tuple(self._sweeps),
            tuple(self._steps.values),
            tuple(params_of([self._nest])),
        )
        return with_blocks(program, self._info, self._whole)

    def _ranges_of_results(self) -> list[Range]:
        """Return the ranges of the stores, the fastest last."""
        for store in self._stores:
            if store.mask is not None or store.combine is not None or store.serial or store.atomic:
                raise UnsupportedError(f"{store.param} is stored to under a mask, or combined with what is there")
            if set(store.order) != set(self._stores[-1].order):
                raise UnsupportedError("stores along different ranges have no tile program in common")
        written = [store.param for store in self._stores]
        read = {each.param for statement in self._nest.statements for each in _reads(statement)}
        if len(set(written)) < len(written):
            raise UnsupportedError("a buffer is stored to more than once")
        for store in self._stores:
            if store.param in read:
                self._check_in_place(store)
        return nearest(self._stores[-1].order, self._stores[-1].index)

    def _check_in_place(self, store: Store) -> None:
        """Refuse what reads a buffer at other places than where it writes to it."""
        for statement in self._nest.statements:
            for read in _reads(statement):
                if read.param is store.param and read.index is not store.index:
                    raise UnsupportedError(f"{store.param} is read at other places than it is written at")

    # ---- axes and frames

    def _axis(self, size: int, tile: int) -> int:
        self._axes.append(t.Axis(size, -(-size // tile)))
        return len(self._axes) - 1

    def _batch(self, ranges: Sequence[Range]) -> tuple[tuple[Range, int], ...]:
        return tuple((range_, self._axis(range_.size, 1)) for range_ in ranges)

    def _row_axis(self, range_: Range) -> tuple[Range, int]:
        return range_, self._axis(range_.size, self._tiles.rows)

    def _column_axis(self, range_: Range) -> tuple[Range, int]:
        return range_, self._axis(range_.size, self._tiles.columns)

    def _folded(self, range_: Range) -> Frame:
        columns = columns_folded(range_.size, self._tiles.columns)
        rows = -(-range_.size // columns)
        axes = self._axis(rows, self._tiles.rows), self._axis(columns, self._tiles.columns)
        return Frame(folded=(range_, *axes, columns))

    # ---- forms

    def _elementwise(self, ranges: Sequence[Range]) -> Sequence[int]:
        if len(ranges) == 1:
            frame = self._folded(ranges[0])
        else:
            frame = Frame(
                self._batch(ranges[:-2]),
                self._row_axis(ranges[-2]) if ranges else None,
                self._column_axis(ranges[-1]) if ranges else None,
            )
        self._store(frame)
        return range(len(self._axes))

    def _product(self, found: Contraction, ranges: Sequence[Range]) -> Sequence[int]:
        """Write a sum of products of blocks, with what follows it element by element."""
        if found.statement.value.dtype not in (dtypes.float32, dtypes.float16, dtypes.bfloat16):
            raise UnsupportedError(f"products of {found.statement.value.dtype} are not added up on tiles")
        if len(found.statement.reduced) != 1 or set(ranges) != set(found.statement.value.ranges):
            raise UnsupportedError("a sum of products along several ranges, or of other results, has no tile program")
        (depth,) = found.statement.reduced
        left, right = found.factors
        of_left = [range_ for range_ in ranges if left.free & ~right.free & range_.bit]
        of_right = [range_ for range_ in ranges if right.free & ~left.free & range_.bit]
        if not of_left or not of_right:
            return self._reduction(found.statement, ranges)
        if ranges.index(of_left[-1]) > ranges.index(of_right[-1]):
            left, right, of_left, of_right = right, left, of_right, of_left
        rows, columns = of_left[-1], of_right[-1]
        batch = self._batch([range_ for range_ in ranges if range_ not in (rows, columns)])
        row, column, along = self._row_axis(rows), self._column_axis(columns), self._axis(depth.size, self._tiles.rows)
        self._check_depth(depth, left, right)
        steps, dtype = self._steps, found.statement.value.dtype
        total = steps.new(dtype, row[1], column[1])
        steps.steps.append(t.Begin(total, 0.0, dtype))
        x = steps.value_of(left, Frame(batch, row, (depth, along)), dtype)
        y = steps.value_of(right, Frame(batch, (depth, along), column), dtype)
        x, y = steps.spread(x, row[1], along), steps.spread(y, along, column[1])
        product = steps.new(dtype, row[1], column[1])
        steps.steps += (t.Multiply(product, x, y), t.Combine(total, TileOp.ADD, product))
        self._sweeps.append(t.Sweep(along, steps.take()))
        self._zero_pads(depth, along)
        steps.accumulators[found.statement.value] = total
        self._store(Frame(batch, row, column))
        return [axis for axis in range(len(self._axes)) if axis != along]

    def _check_depth(self, depth: Range, *factors: Expr) -> None:
        if depth.size % self._tiles.columns and any(self._in_pads(factor, depth) != 0.0 for factor in factors):
            raise UnsupportedError("what is multiplied is not 0 behind the last of a sum, which no whole tile has")

    def _reduction(self, statement: Compute, ranges: Sequence[Range]) -> Sequence[int]:
        """Write a reduction of rows, of columns, or of a vector, with what follows it element by element."""
        if statement.op not in _REDUCE or len(statement.reduced) != 1:
            raise UnsupportedError(
                f"a reduction by {statement.op} along {len(statement.reduced)} ranges is none of tiles"
            )
        if set(statement.value.ranges) != set(ranges):
            raise UnsupportedError("a reduction whose results are used along more ranges has no tile program yet")
        (reduced,) = statement.reduced
        if not ranges:
            frame = self._folded(reduced)
            assert frame.folded is not None  # as it was just made
            _, along, whole, _ = frame.folded
            self._whole.append(whole)
            self._combine(statement, reduced, frame, along, rows=True, columns=True)
            self._store(Frame())
            return []
        kept = ranges[-1]
        batch = self._batch(ranges[:-1])
        if self._is_near(statement.expr, reduced, kept):
            row, column = self._row_axis(kept), self._column_axis(reduced)
            self._combine(statement, reduced, Frame(batch, row, column), column[1], rows=False, columns=True)
            self._store(Frame(batch, row, None))
            along = column[1]
        else:
            row, column = self._row_axis(reduced), self._column_axis(kept)
            self._combine(statement, reduced, Frame(batch, row, column), row[1], rows=True, columns=False)
            self._store(Frame(batch, None, column))
            along = row[1]
        return [axis for axis in range(len(self._axes)) if axis != along]

    def _combine(
        self, statement: Compute, reduced: Range, frame: Frame, along: int, *, rows: bool, columns: bool
    ) -> None:
        """Write the sweep of a reduction."""
        assert statement.op is not None  # as the caller has found
        op, is_negated = _REDUCE[statement.op]
        steps, dtype = self._steps, tile_dtype_of(statement.value.dtype)
        if statement.op is ReduceOp.SUM and statement.value.dtype.is_bool:
            raise UnsupportedError("truths are not added up")
        begin = 0.0 if op is TileOp.ADD else -math.inf
        row, column = frame.matrix
        found = steps.new(dtype, None if rows else row, None if columns else column)
        steps.steps.append(t.Begin(found, begin, dtype))
        x = steps.spread(steps.value_of(statement.expr, frame, dtype), row, column)
        x = steps.apply1(TileOp.NEG, x) if is_negated else x
        x = self._without_pads(statement, x, reduced, frame)
        part = steps.new(dtype, steps.values[found].rows, steps.values[found].columns)
        steps.steps += (t.Reduce(part, op, x, rows, columns), t.Combine(found, op, part))
        self._sweeps.append(t.Sweep(along, steps.take()))
        self._zero_pads(reduced, *([row, column] if frame.folded is not None else [along]))
        result = steps.apply1(TileOp.NEG, found) if is_negated else found
        steps.accumulators[statement.value] = result

    def _without_pads(self, statement: Compute, x: int, reduced: Range, frame: Frame) -> int:
        """Return what is combined, such that what is beside the elements of the last tile does not matter."""
        is_folded = frame.folded is not None
        size = self._tiles.columns if frame.columns is not None and frame.columns[0] is reduced else self._tiles.rows
        if is_folded:
            size = self._tiles.rows * self._tiles.columns
            assert frame.folded is not None  # see above
            _, row, column, width = frame.folded
            if reduced.size % (self._tiles.rows * width) == 0 and width % self._tiles.columns == 0:
                return x
        elif reduced.size % size == 0:
            return x
        pad = self._in_pads(statement.expr, reduced)
        if statement.op is ReduceOp.SUM:
            if pad != 0.0:
                raise UnsupportedError("what is added up is not 0 behind the last of a row, which no whole tile has")
            return x
        if pad is None or math.isnan(pad):
            raise UnsupportedError("what is combined is not known behind the last of a row, which no whole tile has")
        dtype = self._steps.values[x].dtype
        if is_folded:
            count = 0 if reduced.size % width == 0 else reduced.size
            view = t.Matrix(dtype, dtype, 0, (-(-reduced.size // width), width), (width, 1), count)
            axes: tuple[int | None, ...] = (row, column)
        elif frame.columns is not None and frame.columns[0] is reduced:
            view, axes = t.Matrix(dtype, dtype, 0, (1, reduced.size), (0, 1)), (None, frame.columns[1])
        else:
            assert frame.rows is not None  # the other one is reduced
            view, axes = t.Matrix(dtype, dtype, 0, (reduced.size, 1), (1, 0)), (frame.rows[1], None)
        least = self._steps.load(t.TileAccess(t.Constant(math.inf, -math.inf), view, axes))
        return self._steps.apply2(TileOp.MIN, x, least)

    def _zero_pads(self, reduced: Range, *axes: int | None) -> None:
        """Note that what was read along padded axes has to be 0 beside its elements."""
        for number, operand in enumerate(self._steps.operands):
            is_along = any(axis is not None and axis in operand.axes for axis in axes)
            if is_along and isinstance(operand.source, t.LaunchArgument):
                self._steps.operands[number] = replace(operand, needs_zero_pads=True)

    def _store(self, frame: Frame) -> None:
        """Write the sweep that stores results."""
        steps = self._steps
        for store in self._stores:
            expr = store.expr
            dtype = tile_dtype_of(expr.dtype) if not isinstance(expr, e.Convert) else _stored_as(expr)
            value = steps.value_of(expr.x if dtype is not _own(expr) and isinstance(expr, e.Convert) else expr, frame)
            view, axes = frame.view(store.param, store.index, dtype)
            value = steps.spread(value, *axes[-2:])
            steps.operands.append(t.TileAccess(t.LaunchArgument(store.param), view, axes, is_written=True))
            steps.steps.append(t.Put(len(steps.operands) - 1, value))
        self._sweeps.append(t.Sweep(None, steps.take()))

    # ---- what expressions are

    def _in_pads(self, expr: Expr, range_: Range) -> float | None:
        return value_in_pads(expr, range_, self._inlined)

    def _is_near(self, expr: Expr, reduced: Range, kept: Range) -> bool:
        """Whether most that is read for a reduction lies side by side along its own range."""
        reads = [each for each in self._below(expr) if isinstance(each, e.Read)]
        along = sum(stride_along(read.index, reduced) == 1 for read in reads)
        across = sum(stride_along(read.index, kept) == 1 for read in reads)
        return along >= across

    def _below(self, expr: Expr) -> list[Expr]:
        found = below(expr)
        for each in list(found):
            if isinstance(each, e.Ref) and each.value in self._inlined:
                found += self._below(self._inlined[each.value].expr)
        return found


def _reads(statement: Compute | Store | Scan) -> list[e.Read]:
    return [each for each in below(statement.expr) if isinstance(each, e.Read)]


def _own(expr: Expr) -> object:
    return tile_dtype_of(expr.dtype) if expr.dtype.is_float or expr.dtype.is_bool else None


def _stored_as(expr: e.Convert) -> dtypes.DType:
    """Return the dtype of the tiles of what is converted last: staging does it, exactly or rounding once."""
    x = expr.x.dtype
    if x.is_float and x is not dtypes.float64 and (expr.dtype.is_float or expr.dtype.is_integer):
        return tile_dtype_of(x)
    return tile_dtype_of(expr.dtype)
