"""Copies of the factors of a product, laid out as its inner loops read them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from zyx.ir.accesses import reads_in, stride_along
from zyx.ir.nest import Compute, Kind
from zyx.schedule.moves import Stage
from zyx.schedule.moves.ranges import find_statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend.info import DeviceInfo
    from zyx.ir import expr as e
    from zyx.ir.expr import Range
    from zyx.schedule.heuristics.tile import Tile
    from zyx.schedule.plan import Plan

#: Fewest uses for which what does not lie side by side is copied to where it does.
_ROWS_TO_GATHER_FOR: Final = 12
#: Fewest tiles of rows that what lies side by side is copied for.
_TILES_TO_COPY_FOR: Final = 2
#: Parts of a cache in which lines compete, of most processors; ways of its sets, to them.
_WAYS: Final = 8
_USES_TO_COPY_FOR: Final = 4
_MOST_COPIED: Final = 1 << 23  # bytes


def can_gather(wide: list[e.Read], vector: Range, rows: Range | None, info: DeviceInfo) -> bool:
    """Whether it pays to copy what is read apart along `vector`: `wide` is what depends on that.

    Then each element is loaded by itself, and masked, once for all rows.
    """
    return (
        len(wide) == 1
        and len(info.cache_bytes) > 1
        and rows is not None
        and rows.size >= _ROWS_TO_GATHER_FOR
        and stride_along(wide[0].index, vector) is not None
    )


def can_copy(wide: list[e.Read], rows: int, tile: Tile, info: DeviceInfo) -> bool:
    """Whether what depends on the vectors may be copied: one read, that several tiles of rows use, or many rows."""
    fewest = min(_TILES_TO_COPY_FOR * tile.height, _ROWS_TO_GATHER_FOR)
    return len(wide) == 1 and len(info.cache_bytes) > 1 and rows >= fewest


def copy_columns(plan: Plan, tile: Tile, reduced: list[Range], rows: int, info: DeviceInfo, *, masked: bool) -> None:
    """Copy what the vectors are loaded from to where its lines follow each other, if it can be and that pays.

    It must be done if what is read does not lie side by side along the vectors. It pays if masks lie on it (`masked`),
    which are computed once for each copy then, and if its lines do not all stay in the nearest cache, see `_is_spread`.
    """
    statement = next(s for s in plan.nest.statements if isinstance(s, Compute) and s.op is not None)
    vector = tile.inner[-1]
    wide = [read for read in reads_in(statement) if read.index.free & vector.bit]
    (read,) = wide
    along = [range_ for range_ in reduced if read.index.free & range_.bit]
    inner = [range_ for range_ in tile.inner if read.index.free & range_.bit]
    is_apart = stride_along(read.index, vector) not in (0, 1)
    side = next((r for r in along if stride_along(read.index, r) == 1 and r.size >= vector.size), None)
    if is_apart and rows < _ROWS_TO_GATHER_FOR:
        return
    if not is_apart and not masked and not _is_spread(read, along, inner, info):
        return
    copy = stage_read(plan, statement, read, [*along, *inner])
    if side is None or not is_apart:
        for range_ in inner:
            plan.mark(plan.range(f"{range_.label}@{copy.value}"), plan.nest.kind(range_))
        return
    plan.mark(plan.range(f"{vector.label}@{copy.value}"), Kind.VECTOR)
    outer, block = plan.split(plan.range(f"{side.label}@{copy.value}"), vector.size)
    plan.mark(block, Kind.UNROLL)
    own = [plan.range(f"{range_.label}@{copy.value}") for range_ in (*along, *inner) if range_ is not side]
    plan.order([*(r for r in own if plan.nest.kind(r) is not Kind.VECTOR), outer, block])


def _is_spread(read: e.Read, along: list[Range], inner: list[Range], info: DeviceInfo) -> bool:
    """Whether the lines that a tile reads over the reduction do not stay in the nearest cache as they lie.

    Lines that a power of two apart lie fall on a part of the places of a cache: those that have the same distance from
    a multiple of one of its ways. What is copied follows each other, and has all places.
    """
    width = read.dtype.itemsize
    for range_ in inner:
        width *= range_.size
    lines, step = 1, 0
    for range_ in along:
        lines *= range_.size
        step = math.gcd(step, abs(stride_along(read.index, range_) or 0) * read.dtype.itemsize)
    way = 1 << (info.cache_bytes[0] // _WAYS).bit_length() - 1
    apart = math.gcd(step, way)
    return lines * width > info.cache_bytes[0] * min(1.0, width / apart)


def copy_rows(plan: Plan, tile: Tile, reduced: list[Range], info: DeviceInfo) -> None:
    """Copy what the rows of tiles are loaded from to where its lines follow each other, if that pays.

    It does where a line of memory holds all rows of a tile, but each step of the reduction needs another line, far from
    the last: lines that are a power of two apart fall on the same few places of a cache, and are gone when the next
    column of tiles needs them.
    """
    statement = next(s for s in plan.nest.statements if isinstance(s, Compute) and s.op is not None)
    vector = tile.inner[-1]
    narrow = [read for read in reads_in(statement) if not read.index.free & vector.bit]
    if len(narrow) != 1 or not info.cache_bytes:
        return
    (read,) = narrow
    inner = [range_ for range_ in tile.inner if read.index.free & range_.bit]
    if len(inner) != 1 or stride_along(read.index, inner[0]) != 1:
        return
    loops = [r for r in statement.order if plan.nest.kind(r) is not Kind.GROUP and r not in tile.inner]
    along = [range_ for range_ in loops if read.index.free & range_.bit]
    length = inner[0].size
    for range_ in along:
        length *= range_.size
    uses = 1
    for range_ in loops:
        uses *= 1 if range_ in along else range_.size
    steps = [r for r in along if r in reduced]
    reach = max((abs(stride_along(read.index, r) or 0) * r.size for r in steps), default=0) * read.dtype.itemsize
    if uses < _USES_TO_COPY_FOR or reach < info.cache_bytes[0] or length * read.dtype.itemsize > _MOST_COPIED:
        return
    copy = stage_read(plan, statement, read, [*along, *inner])
    is_vector = inner[0].size & (inner[0].size - 1) == 0
    plan.mark(plan.range(f"{inner[0].label}@{copy.value}"), Kind.VECTOR if is_vector else Kind.UNROLL)


def stage_read(
    plan: Plan,
    statement: Compute,
    read: e.Read,
    ranges: Sequence[Range],
    *,
    skew: tuple[str, str, int] | None = None,
    converted: bool = False,
) -> Compute:
    """Let `statement` read from a copy that is laid out along `ranges`, and return what makes the copy.

    `skew` and `converted` are those of `Stage`.
    """
    same = [other for other in reads_in(statement) if other.param is read.param]
    place = same.index(read) if len(same) > 1 else None
    labels = tuple([range_.label for range_ in ranges])
    plan.do(Stage(repr(statement.value), read.param.number, labels, place, skew, converted))
    user = find_statement(plan.nest, repr(statement.value))
    copy = plan.nest.statements[plan.nest.statements.index(user) - 1]
    assert isinstance(copy, Compute)
    return copy


def stage_factor(
    plan: Plan,
    value: str,
    side: Sequence[Range],
    tile: Sequence[Range],
    *,
    skew: tuple[str, str, int] | None = None,
    converted: bool = False,
) -> list[Range]:
    """Copy the factor of the sum `value` that goes along one of `side`; return the ranges of the copy, those of `tile`.

    `skew` and `converted` are those of `Stage`.
    """
    statement = find_statement(plan.nest, value)
    assert isinstance(statement, Compute)
    read = next(r for r in reads_in(statement) if any(r.index.free & range_.bit for range_ in side))
    return list(stage_read(plan, statement, read, tile, skew=skew, converted=converted).value.ranges[-len(tile) :])
