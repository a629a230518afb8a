"""Sums of products of blocks, with what follows them element by element.

sweep along k       acc := 0;  load a(i, k);  load b(k, j);  acc += a @ b
sweep once          load bias(j);  ...;  put c(i, j)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx.errors import UnsupportedError
from zyx.tiles import data as t
from zyx.tiles.data import Pads, TileOp
from zyx.tiles.expressions import value_in_pads
from zyx.tiles.views import Frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.dtype import DType
    from zyx.nest.expr import Expr, Range
    from zyx.schedule.contraction import Contraction
    from zyx.tiles.building import Building


def sides_of(found: Contraction, ranges: Sequence[Range]) -> tuple[tuple[Expr, Range], tuple[Expr, Range]] | None:
    """Return the left factor with the rows, and the right one with the columns; None if one has no side of its own."""
    left, right = found.factors
    of_left = [range_ for range_ in ranges if left.free & ~right.free & range_.bit]
    of_right = [range_ for range_ in ranges if right.free & ~left.free & range_.bit]
    if not of_left or not of_right:
        return None
    pairs = [(left, of_left[-1]), (right, of_right[-1])]
    pairs.sort(key=lambda pair: ranges.index(pair[1]))
    return pairs[0], pairs[1]


def write_product(
    building: Building, found: Contraction, ranges: Sequence[Range], sides: tuple[tuple[Expr, Range], ...]
) -> Sequence[int]:
    """Write a sum of products; return its inner axis.

    Args:
        building: Where to.
        found: What is added up.
        ranges: Those of the results, the fastest last.
        sides: See `sides_of`.
    """
    statement = found.statement
    dtype = statement.value.dtype
    if dtype not in (dtypes.float32, dtypes.float16, dtypes.bfloat16):
        raise UnsupportedError(f"products of {dtype} are not added up on tiles")
    if len(statement.reduced) != 1 or set(ranges) != set(statement.value.ranges):
        raise UnsupportedError("a sum of products along several ranges, or of other results, has no tile program")
    if not building.has_squares:
        raise UnsupportedError("products go by tiles that are squares, and those of the device are none")
    (depth,) = statement.reduced
    (left, rows), (right, columns) = sides
    batch = building.batch([range_ for range_ in ranges if range_ not in (rows, columns)])
    row, column, along = building.row_axis(rows), building.column_axis(columns), building.row_axis(depth)[1]
    steps = building.steps
    total = steps.new(dtype, row[1], column[1])
    steps.steps.append(t.Begin(total, 0.0, dtype))
    x = _factor(building, left, Frame(batch, row, (depth, along)), depth, dtype)
    y = _factor(building, right, Frame(batch, (depth, along), column), depth, dtype)
    x, y = steps.spread(x, row[1], along), steps.spread(y, along, column[1])
    product = steps.new(dtype, row[1], column[1])
    steps.steps += (t.Multiply(product, x, y), t.Combine(total, TileOp.ADD, product))
    building.end_sweep(along)
    steps.accumulators[statement.value] = total
    steps.pads = {}
    for store in building.stores:
        building.put(store, Frame(batch, row, column))
    building.end_sweep(None)
    return [along]


def _factor(building: Building, factor: Expr, frame: Frame, depth: Range, dtype: DType) -> int:
    """Return a block of a factor, which is 0 behind the last of the depth."""
    along = next(pair[1] for pair in (frame.rows, frame.columns) if pair is not None and pair[0] is depth)
    is_zero = value_in_pads(factor, depth, building.inlined) == 0.0
    building.demand(Pads.ZERO if is_zero else Pads.LAST, frame, along)
    x = building.steps.value_of(factor, frame, dtype)
    if is_zero:
        return x
    return building.zero_in_pads(building.steps.spread(x, *frame.matrix), frame, along)
