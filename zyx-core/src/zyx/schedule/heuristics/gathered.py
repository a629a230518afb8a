"""Columns of a product that are short rows of images: copied as they lie, and then multiplied as one long range.

    c[o, y, x] = sum(i, u, v) of image[i, y + u, x + v] * weight[o, i, u, v]          y, x < 8

    =>  copy[i, u, v, y, x] = image[i, y + u, x + v]
        c[o, y+x] = sum(i, u, v) of copy[i, u, v, y+x] * weight[o, i, u, v]

Of vectors of 16 along x, 8 lanes would have something to do; 64 columns are 4 vectors. The copy is for all columns of
an image. It is made by vectors along x, which leave no gaps where that has a power of two points: rows of other lengths
would be copied element by element, and that takes longer than what is gained.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zyx.ir.accesses import stride_along
from zyx.ir.nest import Compute, Kind
from zyx.schedule.heuristics.panels import can_gather, copy_rows, stage_read
from zyx.schedule.heuristics.tile import BLOCK_ROWS, SMALL_PRODUCT, near_divisor
from zyx.schedule.moves import Nested
from zyx.schedule.plan import work_of
from zyx.schedule.streaming import stream_stores

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend.info import DeviceInfo
    from zyx.ir import expr as e
    from zyx.ir.expr import Range
    from zyx.schedule.contraction import Contraction
    from zyx.schedule.heuristics.tile import Tile
    from zyx.schedule.plan import Plan

#: How many times as many lanes must have something to do for the copy to pay.
_GAIN: Final = 1.15
#: Vectors of the widest tile.
_WIDEST: Final = 4


@dataclass(frozen=True, slots=True)
class Gathered:
    """What became of a product.

    Attributes:
        columns: The range that all columns are now.
        others: The ranges of the results that are neither columns nor rows.
        parts: The loop over parts of the sum, if there are several.
        reduced: What a part is summed up along.
        copy: The ranges of the copy, its vector last.
    """

    columns: Range
    others: list[Range]
    parts: list[Range]
    reduced: list[Range]
    copy: list[Range]


def gather_columns(
    plan: Plan, found: Contraction, vector: Range, rows: Range, lanes: int, info: DeviceInfo
) -> Gathered | None:
    """Copy what the columns of a product read, and make one range of `vector` and another one, if that pays.

    Args:
        plan: Of a nest that is not scheduled.
        found: The sum of products.
        vector: The columns that lie side by side in the result.
        rows: The range of the results that share what is copied.
        lanes: Of the vectors that the statement is computed with.
        info: The device.
    """
    statement, wide = found.statement, found.along(vector)
    is_whole = vector.size & (vector.size - 1) == 0
    if not is_whole or not can_gather(wide, vector, rows, info):
        return None
    (read,) = wide
    beside = [range_ for range_ in statement.value.ranges if _continues(found, read, range_, vector)]
    if len(beside) != 1 or _used(beside[0].size * vector.size, lanes) < _GAIN * _used(vector.size, lanes):
        return None
    (outer,) = beside
    others = [range_ for range_ in statement.value.ranges if range_ not in (outer, vector, rows)]
    parts, reduced = _parts(plan, statement, _WIDEST * lanes * read.dtype.itemsize, info)
    user = next(s for s in plan.nest.statements if isinstance(s, Compute) and s.op is not None)
    tile = [*reduced, outer, vector]
    copy = list(stage_read(plan, user, read, tile).value.ranges[-len(tile) :])
    plan.mark(copy[-1], Kind.VECTOR)
    return Gathered(plan.merge(outer, vector), others, parts, reduced, copy)


def schedule_gathered(plan: Plan, tile: Tile, gathered: Gathered, rows: Range, info: DeviceInfo) -> None:
    """Schedule what was gathered: groups have all columns, and as many rows as leave a group for each unit.

    Small products run in one group.
    """
    is_small = max(work_of(statement) for statement in plan.nest.statements) < SMALL_PRODUCT
    tile.vector_along_result(gathered.columns, rows)
    groups, inner = ([], tile.rows) if is_small else _shared_out(plan, tile, gathered.others, info)
    outside = gathered.others if is_small else groups
    plan.order([*outside, *gathered.parts, *tile.columns, *inner, *gathered.reduced, *tile.inner, *gathered.copy])
    copy_rows(plan, tile, gathered.reduced, info)
    stream_stores(plan, info, by_lines=True)


def _shared_out(plan: Plan, tile: Tile, others: Sequence[Range], info: DeviceInfo) -> tuple[list[Range], list[Range]]:
    """Share other ranges, and blocks of rows, out over groups; return them and the rows within a group."""
    groups, inner = list(others), []
    count = math.prod(range_.size for range_ in others)
    for range_ in tile.rows:
        block = min(range_.size, max(1, BLOCK_ROWS // tile.height), max(1, range_.size * count // info.units))
        block = near_divisor(range_.size, block)
        if block == range_.size:
            inner.append(range_)
        elif block == 1:
            groups.append(range_)
        else:
            outer, rest = plan.split(range_, block)
            groups.append(outer)
            inner.append(rest)
    for range_ in groups:
        plan.mark(range_, Kind.GROUP)
    return groups, inner


def _continues(found: Contraction, wide: e.Read, range_: Range, vector: Range) -> bool:
    """Whether results along `vector` are followed by those of the next point of `range_`, which `wide` alone reads."""
    return (
        range_ is not vector
        and range_.size > 1
        and all(bool(read.free & range_.bit) is (read is wide) for read in found.reads)
        and all(
            stride_along(store.index, range_) == vector.size and stride_along(store.index, vector) == 1
            for store in found.stores
        )
    )


def _used(columns: int, lanes: int) -> float:
    """Return the part of the lanes that have something to do."""
    return columns / (-(-columns // lanes) * lanes)


def _parts(plan: Plan, statement: Compute, line: int, info: DeviceInfo) -> tuple[list[Range], list[Range]]:
    """Cut the sum so that the nearest cache holds what a tile reads of the copy, `line` bytes for each point.

    Lines of the copy lie apart, which is too much for what fetches lines ahead. Returns (parts, rest of the sum).
    """
    reduced = list(statement.reduced)
    depth = math.prod(range_.size for range_ in reduced)
    count = -(-depth * line // (info.cache_bytes[0] * 3 // 4))
    longest = max(reduced, key=lambda range_: range_.size)
    if count == 1 or longest.size < 2 * count:
        return [], reduced
    part, rest = plan.split(longest, near_divisor(longest.size, longest.size // count))
    reduced[reduced.index(longest)] = rest
    plan.do(Nested(repr(statement.value), tuple(range_.label for range_ in reduced)))
    return [part], reduced
