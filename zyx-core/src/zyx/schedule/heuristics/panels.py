"""Copies of the factors of a product, laid out as its inner loops read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.ir.nest import Compute, Kind
from zyx.schedule.accesses import reads_in, stride_along
from zyx.schedule.moves import Stage

if TYPE_CHECKING:
    from zyx.backend.info import DeviceInfo
    from zyx.ir import expr as e
    from zyx.ir.expr import Range
    from zyx.ir.nest import Statement
    from zyx.schedule.heuristics.plan import Plan
    from zyx.schedule.heuristics.tile import Tile

_ROWS_TO_COPY_FOR: Final = 64
#: Fewest uses for which what lies the other way is turned over.
ROWS_TO_TURN_FOR: Final = 32
_LINES_TO_COPY: Final = 256
_USES_TO_COPY_FOR: Final = 4
_MOST_COPIED: Final = 1 << 23  # bytes


def copy_columns(plan: Plan, tile: Tile, reduced: list[Range], rows: int, info: DeviceInfo) -> None:
    """Copy what the vectors are loaded from to where its lines follow each other, if that pays.

    It must be done if what is read does not lie side by side along the vectors, and pays if its lines are far apart and
    used often: lines a power of two apart fall on the same few places of a cache, and far ones each need the address of
    a page.
    """
    statement = next(s for s in plan.nest.statements if isinstance(s, Compute) and s.op is not None)
    vector = tile.inner[-1]
    wide = [read for read in reads_in(statement) if read.index.free & vector.bit]
    if len(wide) != 1 or len(info.cache_bytes) < 2 or rows < ROWS_TO_TURN_FOR:
        return
    (read,) = wide
    along = [range_ for range_ in reduced if read.index.free & range_.bit]
    turned = stride_along(read.index, vector) not in (0, 1)
    lines = 1
    for range_ in along:
        lines *= range_.size
    reach = max((abs(stride_along(read.index, range_) or 0) * range_.size for range_ in along), default=0)
    far = reach * read.dtype.itemsize >= info.cache_bytes[1] and lines >= _LINES_TO_COPY and rows >= _ROWS_TO_COPY_FOR
    if not turned and not far:
        return
    if turned and not any(stride_along(read.index, range_) == 1 for range_ in along):
        return  # it lies side by side along what was divided until one point was left
    inner = [range_ for range_ in tile.inner if read.index.free & range_.bit]
    copy = _stage(plan, statement, read, [*along, *inner])
    for range_ in inner:
        if not turned or range_ is vector:
            plan.mark(plan.range(f"{range_.label}@{copy.value}"), plan.nest.kind(range_))
    if turned:
        side = next(range_ for range_ in along if stride_along(read.index, range_) == 1)
        outer, block = plan.split(plan.range(f"{side.label}@{copy.value}"), vector.size)
        plan.mark(block, Kind.UNROLL)
        own = [plan.range(f"{range_.label}@{copy.value}") for range_ in (*along, *inner) if range_ is not side]
        plan.order([*(r for r in own if plan.nest.kind(r) is not Kind.VECTOR), outer, block])


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
    copy = _stage(plan, statement, read, [*along, *inner])
    is_vector = inner[0].size & (inner[0].size - 1) == 0
    plan.mark(plan.range(f"{inner[0].label}@{copy.value}"), Kind.VECTOR if is_vector else Kind.UNROLL)


def _stage(plan: Plan, statement: Compute, read: e.Read, ranges: list[Range]) -> Compute:
    """Let `statement` read from a copy that is laid out along `ranges`, and return what makes the copy."""
    same = [other for other in reads_in(statement) if other.param is read.param]
    labels = tuple(range_.label for range_ in ranges)
    plan.do(Stage(repr(statement.value), read.param.number, labels, same.index(read) if len(same) > 1 else None))
    copy = plan.nest.statements[plan.nest.statements.index(_definition(plan, statement)) - 1]
    assert isinstance(copy, Compute)
    return copy


def _definition(plan: Plan, statement: Compute) -> Statement:
    return next(s for s in plan.nest.statements if isinstance(s, Compute) and s.value is statement.value)
