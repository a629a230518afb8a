"""What every form of a tile program is written with: axes, frames of ranges, sweeps, what is stored, and pads."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zyx.errors import UnsupportedError
from zyx.nest import expr as e
from zyx.nest.accesses import expressions_of
from zyx.nest.data import Compute, Scan, Store, params_of
from zyx.tiles import data as t
from zyx.tiles.data import Pads, TileOp
from zyx.tiles.expressions import Steps, is_number, tile_dtype_of
from zyx.tiles.views import Frame, columns_folded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend.info import DeviceInfo, TileUnit
    from zyx.dtype import DType
    from zyx.nest.data import Nest
    from zyx.nest.expr import Range


class Building:
    """One program being written.

    Attributes:
        nest: What it computes.
        stores: Those of the nest.
        combined: The statements that combine values.
        inlined: The others, whose values are computed where they are needed.
        steps: Those of the sweep that is being written.
        whole: Axes of which a block has all tiles.
        has_squares: Whether tiles have as many rows as columns.
    """

    def __init__(self, nest: Nest, info: DeviceInfo) -> None:
        if info.tiles is None:
            raise UnsupportedError(f"{info.model} does not compute on tiles")
        self.nest = nest
        self.stores: list[Store] = []
        self.combined: list[Compute] = []
        self.inlined: dict[e.Value, Compute] = {}
        for statement in nest.statements:
            match statement:
                case Compute(op=None):
                    self.inlined[statement.value] = statement
                case Compute():
                    self.combined.append(statement)
                case Scan():
                    raise UnsupportedError("a scan has no tile program")
                case Store():
                    self.stores.append(statement)
        self.steps = Steps(info, self.inlined, Pads.LAST if self._has_doubts() else Pads.ANY)
        self.whole: list[int] = []
        self.has_squares = info.tiles.rows == info.tiles.columns
        self._tiles: TileUnit = info.tiles
        self._axes: list[t.Axis] = []
        self._sweeps: list[t.Sweep] = []

    def program(self, name: str, inner: Sequence[int] = ()) -> t.TileProgram:
        """Return the program; its results are counted along all axes but `inner`."""
        return t.TileProgram(
            name,
            (self._tiles.rows, self._tiles.columns),
            tuple(self._axes),
            tuple(axis for axis in range(len(self._axes)) if axis not in inner),
            tuple(self.steps.operands),
            tuple(self._sweeps),
            tuple(self.steps.values),
            tuple(params_of([self.nest])),
        )

    def _has_doubts(self) -> bool:
        """Whether it chooses among values that may be NaN: what is in pads is to be NaN only where an element is."""
        chosen = {
            branch
            for statement in self.nest.statements
            for each in expressions_of(statement)
            if isinstance(each, e.Select)
            for branch in (each.x, each.y)
        }
        return any(not isinstance(branch, e.Literal) and not is_number(branch, self.inlined) for branch in chosen)

    # ---- axes and frames

    def axis(self, size: int, tile: int = 1) -> int:
        """Return a new axis of so many elements, of which a tile has `tile`."""
        self._axes.append(t.Axis(size, -(-size // tile)))
        return len(self._axes) - 1

    def batch(self, ranges: Sequence[Range]) -> tuple[tuple[Range, int], ...]:
        """Return ranges of which each point has a matrix of its own, with axes."""
        return tuple((range_, self.axis(range_.size)) for range_ in ranges)

    def row_axis(self, range_: Range) -> tuple[Range, int]:
        """Return a range that is rows, with its axis."""
        return range_, self.axis(range_.size, self._tiles.rows)

    def column_axis(self, range_: Range) -> tuple[Range, int]:
        """Return a range that is columns, with its axis."""
        return range_, self.axis(range_.size, self._tiles.columns)

    def folded(self, range_: Range) -> Frame:
        """Return the frame of a vector."""
        columns = columns_folded(range_.size, self._tiles.columns)
        rows = -(-range_.size // columns)
        axes = self.axis(rows, self._tiles.rows), self.axis(columns, self._tiles.columns)
        return Frame(folded=(range_, *axes, columns))

    # ---- sweeps

    def end_sweep(self, along: int | None) -> None:
        """Make a sweep of the steps so far, if there are any."""
        steps = self.steps.take()
        if steps:
            self._sweeps.append(t.Sweep(along, steps))

    def put(self, store: Store, frame: Frame) -> None:
        """Write the steps that store results."""
        expr = store.expr
        dtype = tile_dtype_of(expr.dtype) if not isinstance(expr, e.Convert) else _stored_as(expr)
        is_staged = isinstance(expr, e.Convert) and dtype is not _own(expr)
        value = self.steps.value_of(expr.x if is_staged else expr, frame)  # type: ignore[attr-defined]
        view, axes = frame.view(store.param, store.index, dtype)
        value = self.steps.spread(value, *axes[-2:])
        self.steps.operands.append(t.TileAccess(t.LaunchArgument(store.param), view, axes, is_written=True))
        self.steps.steps.append(t.Put(len(self.steps.operands) - 1, value))

    # ---- pads

    def is_padded(self, frame: Frame, axis: int) -> bool:
        """Whether the last tiles along an axis of rows or columns have pads."""
        if frame.folded is not None:
            range_, _, _, width = frame.folded
            return range_.size % (self._tiles.rows * width) != 0 or width % self._tiles.columns != 0
        size = self._tiles.columns if frame.columns is not None and frame.columns[1] == axis else self._tiles.rows
        return self._axes[axis].size % size != 0

    def demand(self, pads: Pads, frame: Frame, axis: int) -> None:
        """Have what is loaded from now on along an axis have such pads."""
        if self.is_padded(frame, axis):
            axes = frame.folded[1:3] if frame.folded is not None else (axis,)
            self.steps.pads = dict.fromkeys(axes, pads)
        else:
            self.steps.pads = {}

    def zero_in_pads(self, x: int, frame: Frame, axis: int) -> int:
        """Return a value with 0 in the pads along an axis, where it is what some element is.

        It is bounded by 0 there, from below and above, and elsewhere by nothing. NaN stays NaN: an element is NaN, too.
        """
        if not self.is_padded(frame, axis):
            return x
        dtype = self.steps.values[x].dtype
        if frame.folded is not None:
            range_, row, column, width = frame.folded
            count = 0 if range_.size % width == 0 else range_.size
            view = t.Matrix(dtype, dtype, 0, (-(-range_.size // width), width), (width, 1), count)
            axes: tuple[int | None, ...] = (row, column)
        elif frame.columns is not None and frame.columns[1] == axis:
            view, axes = t.Matrix(dtype, dtype, 0, (1, self._axes[axis].size), (0, 1)), (None, axis)
        else:
            view, axes = t.Matrix(dtype, dtype, 0, (self._axes[axis].size, 1), (1, 0)), (axis, None)
        least, most = (self.steps.load(t.TileAccess(t.Constant(bound), view, axes)) for bound in (-math.inf, math.inf))
        return self.steps.apply2(TileOp.MIN, self.steps.apply2(TileOp.MAX, x, least), most)


def _own(expr: e.Expr) -> object:
    return tile_dtype_of(expr.dtype) if expr.dtype.is_float or expr.dtype.is_bool else None


def _stored_as(expr: e.Convert) -> DType:
    """Return the dtype of the tiles of what is converted last: staging does it, exactly or rounding once."""
    x = expr.x.dtype
    if x.is_float and x.itemsize <= 4 and (expr.dtype.is_float or expr.dtype.is_integer):
        return tile_dtype_of(x)
    return tile_dtype_of(expr.dtype)
