"""Schedules for products of matrices and convolutions on machines with vectors and one thread a group.

A tile of results is kept in registers while the reduction runs: some vectors of results times some points of other
ranges. Every load of one factor is then used for the whole other side of the tile.

    c[i, j] = sum(k) of a[i, k] * b[k, j]          vectors along j (b and c lie side by side there)
        i = i.0 loop, i.1 unrolled by 8;   j = j.0 loop, j.1.0 unrolled by 3, j.1.1 vectors of 16;   k innermost loop

    c[i, j] = sum(k) of a[i, k] * b[j, k]          vectors along k, four by four results, added up at the end

Outer blocks of i are shared out over the groups. If one factor's part for a tile column does not stay in the
second-level cache over the whole reduction, the reduction is split and the results are gathered in memory between the
parts. A group goes through its tiles column by column, or row by row where its results would not stay in that cache,
but that factor does for all its columns. If all rows are in one tile, nothing is used twice: then all columns of a
group take a few points of k at a time.

    i < 3, j < 4096:   j.0 in groups;   k = k.0, k.1 < 16;   loops k.0, j.0, k.1 and the tile
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from zyx.ir import expr as e
from zyx.ir.accesses import combined_ranges, expressions_of, reads_in, stride_along
from zyx.ir.nest import Compute, Kind, Store
from zyx.ops import TRANSCENDENTAL
from zyx.schedule.facts import lanes_of
from zyx.schedule.heuristics.gathered import gather_columns, schedule_gathered
from zyx.schedule.heuristics.panels import can_copy, can_gather, copy_columns, copy_rows
from zyx.schedule.heuristics.tile import BLOCK_ROWS, SMALL_PRODUCT, Tile, near_divisor
from zyx.schedule.heuristics.vectors import cost, cost_of_steps
from zyx.schedule.moves import Apart, Nested
from zyx.schedule.moves.ranges import statement_labels
from zyx.schedule.plan import work_of
from zyx.schedule.streaming import stream_stores

if TYPE_CHECKING:
    from zyx.backend.info import DeviceInfo
    from zyx.ir.expr import Range
    from zyx.ir.nest import Statement
    from zyx.schedule.contraction import Contraction
    from zyx.schedule.plan import Plan

#: Points of a sum that all columns of a group take at a time: so many rows of a matrix are fetched ahead side by side.
_POINTS_AT_A_TIME: Final = 16
#: Part of the nearest cache that the results of all columns of such a group take, one in so many.
_PART_OF_RESULTS: Final = 4
#: Part of the second-level cache that what depends on all columns of a group may take, to be read again for every row
#: of tiles: up to here it was no slower than by columns, for sums of 16 to 160 products on a processor with 1 MiB.
_PART_OF_PANELS: Final = 2 / 3
#: Groups for each thread: enough to even out what the threads are given.
_GROUPS_A_UNIT: Final = 4
#: Costs relative to loading a vector: of what was turned over, and of turning it over, which all rows share; of
#: gathering it, and of looking at each lane whether it is there, which they share too.
_TURNED_COST: Final = 1.75
_TURNING_COST: Final = 16.0
_GATHERED_COST: Final = 2.0
_BY_LANES_COST: Final = 64.0
#: Of a mask, and of storing a lane by itself: so sides rank as gradients of filters took, of a dozen convolutions on a
#: processor with AVX-512.
_MASK_COST: Final = 1.0
_STORE_COST: Final = 4.0
#: Operations on vectors that are done to the results of a tile, from which on they are a loop: such as a transcendental
#: function of each. Storing and loading the results again is a twentieth of them.
_LONG_EPILOGUE: Final = 384


def schedule_vector_tiles(plan: Plan, found: Contraction, info: DeviceInfo) -> None:
    """Schedule the nest of `plan`, whose sum of products is `found`."""
    statement = found.statement
    lanes = lanes_of(statement, info)
    kept = statement.value.ranges
    vector = _vector_range(found, lanes, info)
    columns, rows = _tile_ranges(found, vector)
    tile = Tile(plan, info, lanes)
    if rows is not None and vector in kept:
        gathered = gather_columns(plan, found, vector, rows, lanes, info)
        if gathered is not None:
            schedule_gathered(plan, tile, gathered, rows, info)
            return
    reduced = list(statement.reduced)
    if vector in statement.reduced:
        tile.vector_along_reduction(vector, columns, rows)
        reduced = [range_ for range_ in reduced if range_ is not vector] + [tile.vector_loop]
    else:
        tile.vector_along_result(vector, rows)
    wide = found.along(vector)
    masked = any(read.mask is not None for read in wide)
    is_copied = (
        vector not in statement.reduced
        and rows is not None
        and tile.inner[-1].size > 1  # of one lane there are no vectors to copy for
        and can_copy(wide, rows.size, tile, info)
    )
    if not is_copied:
        reduced = _masks_first(found, vector, reduced)
    rounds = [] if is_copied else _split_for_few_rows(plan, tile, found, vector, reduced, info)
    parts = []
    if vector not in statement.reduced and not rounds:
        parts = _split_reduction(plan, tile, statement, reduced, info)
    loops = [range_ for range_ in kept if range_ not in tile.replaced]
    _arrange_loops(plan, tile, loops, rounds, parts, reduced, info)
    if vector not in statement.reduced and rows is not None:
        if is_copied:
            copy_columns(plan, tile, reduced, min(rows.size, BLOCK_ROWS), info, masked=masked)
        copy_rows(plan, tile, reduced, info)
    if vector not in statement.reduced:
        _loop_over_results(plan, tile)
    # The other parts of a line that a tile stores in parts come with the next column of tiles, too late.
    stream_stores(plan, info, by_lines=True)


def _loop_over_results(plan: Plan, tile: Tile) -> None:
    """Write what is done to the results of a tile once for all its rows, if that takes many operations.

    A row then passes through memory, which costs little beside them, and the code of all rows took long to compile.
    """
    rows = tile.inner[0]
    labels = statement_labels(plan.nest)
    sums = [number for number, statement in enumerate(plan.nest.statements) if combined_ranges(statement)]
    after = [statement for statement in plan.nest.statements[max(sums) + 1 :] if rows in statement.order]
    points = math.prod(range_.size for range_ in tile.inner[:-1])
    if tile.height > 1 and points * sum(map(_epilogue_cost, after)) >= _LONG_EPILOGUE:
        plan.do(Apart(rows.label, tuple(labels[statement] for statement in after)))


def _masks_first(found: Contraction, vector: Range, reduced: list[Range]) -> list[Range]:
    """Return the reduced ranges with those before that masks of vectors depend on, so that masks stay over the others.

    On processors a mask of lanes takes as many instructions as the multiplications that it is for.
    """
    masks = [read.mask for read in found.reads if read.mask is not None and read.mask.free & vector.bit]
    return sorted(reduced, key=lambda range_: not any(mask.free & range_.bit for mask in masks))


def _vector_range(found: Contraction, lanes: int, info: DeviceInfo) -> Range:
    """Return the range along which the accesses of the sum, and of what stores its results, cost least."""
    statement, stores = found.statement, found.stores
    points = math.prod(range_.size for range_ in statement.reduced)
    epilogue = sum(_epilogue_cost(store) for store in stores)

    def total(range_: Range, stored: float) -> float:
        """Return what a vector costs, if that is what storing one costs whose results are apart."""
        if range_ in statement.reduced:
            # The lanes have to be added up, and what follows is computed one by one.
            after = epilogue * (lanes - 1) / points
            return cost(statement, range_, lanes) + _mask_cost(found, range_, lanes) + after
        reads = sum(_access_cost(found, read, range_, lanes, info) for read in found.reads)
        apart = sum(stride_along(store.index, range_) != 1 for store in stores)
        return (reads / len(found.reads) + apart * stored) * -(-range_.size // lanes) * lanes / range_.size

    # Of two sides, that along which results lie side by side is better if they cost about the same. Beside a vector
    # along the sum, what is stored apart is stored once for all its points.
    side = min(statement.value.ranges, key=lambda range_: total(range_, lanes / 8))
    stored = min(lanes / 8, _STORE_COST * lanes / points)
    return min(side, *statement.reduced, key=lambda range_: total(range_, stored))


def _mask_cost(found: Contraction, vector: Range, lanes: int) -> float:
    """Return what masks along the sum cost for each read: of vectors along a side, the copies have them.

    They are for the vectors at the edges, in which there is nothing to read, and for the last one if it is not full.
    """
    masked = sum(read.mask is not None and read.mask.free & vector.bit != 0 for read in found.reads)
    at_edges = masked / len(found.reads) * min(1.0, 2 * lanes / vector.size)
    return _MASK_COST * max(at_edges, vector.size % lanes / vector.size)


def _access_cost(found: Contraction, read: e.Read, vector: Range, lanes: int, info: DeviceInfo) -> float:
    step = stride_along(read.index, vector)
    if step in (0, 1):
        return 1.0 if step else 0.25
    _, rows = _tile_ranges(found, vector)
    if rows is None or not can_gather(found.along(vector), vector, rows, info):
        return cost_of_steps(step, lanes)
    is_turned = any(stride_along(read.index, r) == 1 and r.size >= lanes for r in found.statement.reduced)
    if is_turned and read.mask is None:
        return _TURNED_COST + _TURNING_COST / rows.size
    is_by_lanes = read.mask is not None and not is_turned and cost_of_steps(step, lanes) >= lanes
    return _GATHERED_COST + (_BY_LANES_COST / rows.size if is_by_lanes else 0.0)


def _epilogue_cost(statement: Statement) -> float:
    """Return the simple operations that a statement behind the sum takes for each result."""
    total = 0.0
    for expr in expressions_of(statement):
        if isinstance(expr, e.Apply1):
            total += 20 if expr.op in TRANSCENDENTAL else 1
        elif isinstance(expr, e.Apply2 | e.Select):
            total += 1
    return total


def _tile_ranges(found: Contraction, vector: Range) -> tuple[Range | None, Range | None]:
    """Return (a range that shares loads with the vector's side of the tile, one of the other side), if there are.

    The two sides are told apart by the reads that do not depend on them.
    """
    if vector not in found.statement.reduced:
        return None, _largest([range_ for range_ in found.shared(*found.along(vector)) if range_ is not vector])
    columns = found.shared(found.reads[0])
    return _largest(columns), _largest([r for r in found.shared(found.reads[-1]) if r not in columns])


def _largest(ranges: list[Range]) -> Range | None:
    return max(ranges, key=lambda range_: min(range_.size, 64), default=None)


def _split_reduction(plan: Plan, tile: Tile, statement: Compute, reduced: list[Range], info: DeviceInfo) -> list[Range]:
    """Let a column of tiles take its sums in parts, gathered in memory, if what it reads would not stay in the cache.

    Returns:
        The loop over the parts, if there are several; `reduced` has the rest of the reduction then.
    """
    if len(reduced) != 1 or len(info.cache_bytes) < 2 or not tile.columns:
        return []
    (whole,) = reduced
    width = 1
    for range_ in tile.inner if tile.height == 1 else tile.inner[1:]:
        width *= range_.size
    most = info.cache_bytes[1] // 2 // (width * statement.value.dtype.itemsize)
    if whole.size <= most:
        return []
    parts = -(-whole.size // most)
    outer, inner = plan.split(whole, near_divisor(whole.size, whole.size // parts))
    plan.do(Nested(repr(statement.value), (inner.label,)))
    reduced[:] = [inner]
    return [outer]


def _split_for_few_rows(
    plan: Plan, tile: Tile, found: Contraction, vector: Range, reduced: list[Range], info: DeviceInfo
) -> list[Range]:
    """Let all columns of a group take a few points of their sums at a time, if a tile has all rows and memory is slow.

    What depends on the columns is read once then. A column of tiles would read a few lines of every row of it, far
    apart, which no line is fetched ahead for.

    Returns:
        The loop over the rounds; `reduced` has the points of one then. Nothing if it stays as it is.
    """
    if vector in found.statement.reduced or len(reduced) != 1 or len(info.cache_bytes) < 2 or tile.rows:
        return []
    (whole,) = reduced
    wide = found.along(vector)
    is_even = all(stride_along(read.index, vector) == 1 and read.mask is None for read in wide)
    nbytes = sum(whole.size * vector.size * read.dtype.itemsize for read in wide)
    if not tile.columns or not is_even or nbytes <= info.cache_bytes[1] or whole.size < 2 * _POINTS_AT_A_TIME:
        return []
    outer, inner = plan.split(whole, _POINTS_AT_A_TIME)
    plan.do(Nested(repr(found.statement.value), (inner.label,)))
    reduced[:] = [inner]
    return [outer]


def _arrange_loops(
    plan: Plan,
    tile: Tile,
    loops: list[Range],
    rounds: list[Range],
    parts: list[Range],
    reduced: list[Range],
    info: DeviceInfo,
) -> None:
    """Put the loops in order, and share the outer ones out over the groups.

    A group has a block of rows that is large enough for what it copies to pay, and as many columns as leave enough
    groups.
    """
    nest = plan.nest
    if max(work_of(statement) for statement in nest.statements) < SMALL_PRODUCT:
        plan.order([*loops, *rounds, *tile.columns, *parts, *tile.rows, *reduced, *tile.inner])
        return
    results = _bytes_of_results(plan, tile)
    wanted = info.units * _GROUPS_A_UNIT
    widest = 1 << 30
    if rounds:  # as many columns as can be lie side by side, as far as their results stay in the nearest cache
        wanted = info.units
        results = math.prod(range_.size for range_ in tile.inner)
        nbytes = results * max(store.param.dtype.itemsize for store in nest.statements if isinstance(store, Store))
        widest = max(1, info.cache_bytes[0] // _PART_OF_RESULTS // nbytes)
    groups: list[Range] = []
    count = 1
    for range_ in loops:
        plan.mark(range_, Kind.GROUP)
        groups.append(range_)
        count *= range_.size
    inner: list[Range] = []
    for ranges, most in ((tile.rows, max(1, BLOCK_ROWS // max(tile.height, 1))), (tile.columns, widest)):
        for range_ in ranges:
            block = min(
                range_.size, most, max(1, -(-range_.size * count // wanted)) if ranges is tile.columns else most
            )
            if ranges is tile.rows and not tile.columns:
                block = min(block, max(1, range_.size * count // wanted))
            block = near_divisor(range_.size, block) if block > 1 else 1
            if block == range_.size:
                inner.append(range_)
                continue
            outer, rest = (range_, None) if block == 1 else plan.split(range_, block)
            plan.mark(outer, Kind.GROUP)
            groups.append(outer)
            count *= outer.size
            if rest is not None:
                inner.append(rest)
    rows = [range_ for range_ in inner if any(range_.label.startswith(r.label) for r in tile.rows)]
    columns = [range_ for range_ in inner if range_ not in rows]
    if not rounds and not parts and _goes_by_rows(plan, tile, rows, columns, results, info):
        plan.order([*groups, *rows, *columns, *reduced, *tile.inner])
    else:
        plan.order([*groups, *rounds, *columns, *parts, *rows, *reduced, *tile.inner])


def _goes_by_rows(
    plan: Plan, tile: Tile, rows: list[Range], columns: list[Range], results: int, info: DeviceInfo
) -> bool:
    """Whether a group takes all columns of a row of tiles before the next row.

    A column of tiles touches a few lines of every row of the results and of what is combined with them, far apart; if
    these do not stay in the second-level cache until the next column, lines that two columns share come twice. Row by
    row they come in order. Then what depends on the columns is read again for each row of tiles, and has to stay there.

    Args:
        plan: Of the nest.
        tile: The tile of results.
        rows: Loops over the rows of tiles of a group.
        columns: Loops over its columns of tiles.
        results: Bytes that a result takes in memory, and what is combined with it.
        info: The device.
    """
    if not rows or not columns or len(info.cache_bytes) < 2:
        return False
    statement = next(s for s in plan.nest.statements if isinstance(s, Compute) and s.op is not None)
    sides = [range_ for range_ in tile.inner if range_ not in statement.reduced]
    high = math.prod(range_.size for range_ in rows) * tile.height
    wide = math.prod(range_.size for range_ in (*columns, *sides)) // tile.height
    points = math.prod(range_.size for range_ in statement.reduced)
    panels = points * wide * statement.value.dtype.itemsize
    return panels <= _PART_OF_PANELS * info.cache_bytes[1] and info.cache_bytes[1] < high * wide * results


def _bytes_of_results(plan: Plan, tile: Tile) -> int:
    """Return the bytes that a result takes in memory, and those read beside it that belong to it alone."""
    nbytes = 0
    for statement in plan.nest.statements:
        accesses = [(read.index, read.dtype) for read in reads_in(statement)]
        if isinstance(statement, Store):
            accesses.append((statement.index, statement.param.dtype))
        for index, dtype in accesses:
            if all(any(index.free & range_.bit for range_ in side) for side in (tile.rows, tile.columns)):
                nbytes += dtype.itemsize
    return nbytes
