"""Schedules for machines whose groups have one thread with vectors: all but products of matrices.

    softmax over the rows of f32[4096, 1000]:  r0 group;  r1 = r1.0 loop, r1.1.0 unrolled by 4, r1.1.1 vectors of 16,
    the last point of r1.0 apart

1. The ranges to vectorise are split into a loop, a few vectors written out, and the vector.
2. Reductions down the columns of a matrix read several rows at a time, each over a wide block of columns.
3. The ranges outside all reductions and scans become groups, until there are enough of them; small kernels stay in one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.ir.accesses import expressions_of, reads_in, serial_ranges, stride_along
from zyx.ir.expr import Apply1
from zyx.ir.nest import Compute, Kind, Scan, Store
from zyx.ops import TRANSCENDENTAL
from zyx.schedule.heuristics.plan import Plan, work_of
from zyx.schedule.heuristics.streaming import LINE_BYTES, passes_caches, stream_stores
from zyx.schedule.heuristics.tile import near_divisor
from zyx.schedule.heuristics.vectors import choose_vector_ranges, lanes_of, turned_range

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend.info import DeviceInfo
    from zyx.ir.expr import Range, Read
    from zyx.ir.nest import Statement

#: Fewer points than this are not worth a second group: waking a thread costs as much as tens of thousands of
#: operations.
GROUP_WORK: Final = 1 << 13
_UNROLL: Final = 4
_UNROLLED_SIZE: Final = 160
#: Operations that a transcendental function is written as, about. Enough of them do not wait for each other: a second
#: vector beside it gains nothing, and takes as long again to compile.
_FUNCTION_SIZE: Final = 100
#: Side of the tiles in which a matrix is turned over, and of the blocks in them that are written out: those of 64
#: lanes would be thousands of values, and seconds of compilation.
_TILE: Final = 64
_TURNED_LANES: Final = 16
#: Bytes of a reduction that are read from two places at a time: more lines are on their way from memory then, for up to
#: a twentieth more bytes/s. Each place should have some pages, since no line is fetched ahead across their ends.
_TWO_PLACES_BYTES: Final = 1 << 14
#: Rows of a matrix that are read at a time where its columns are combined, what part of the nearest cache the results
#: of a block of columns may take, and of how many steps of vectors such a block is at least.
_ROWS_AT_A_TIME: Final = 8
_PARTS_OF_RESULTS: Final = 8
_FEWEST_BLOCKS: Final = 4


def schedule_loops(plan: Plan, info: DeviceInfo) -> None:
    """Schedule the nest of `plan`."""
    vectors = choose_vector_ranges(plan.nest, info)
    scan = next((s for s in plan.nest.statements if isinstance(s, Scan)), None)
    if scan is not None and not any(range_ in scan.order and _is_natural(scan, range_) for range_ in vectors):
        plan.order(_side_by_side(plan, scan, info))
        share_out(plan, info)
        stream_stores(plan, info)
        return
    turned = _turned(plan, vectors, info)
    if turned is not None:
        in_parts = _is_streamed_in_parts(plan.nest.statements[0], turned[0], turned[2], info)
        _tiles(plan, *turned, in_parts=in_parts)
        share_out(plan, info)
        stream_stores(plan, info)
        return
    inner: list[Range] = []
    for range_, lanes in vectors.items():
        inner += _vectorise(plan, range_, lanes)
    share_out(plan, info, _columns(plan, inner, info))
    stream_stores(plan, info)


def _is_natural(scan: Scan, range_: Range) -> bool:
    """Whether what is scanned lies side by side along `range_`."""
    return all(stride_along(read.index, range_) in (0, 1) for read in reads_in(scan))


def _turned(plan: Plan, vectors: dict[Range, int], info: DeviceInfo) -> tuple[Range, Range, int] | None:
    """Return (vector range, range of the reads, lanes) if the statement stores along one and reads along another."""
    if len(plan.nest.statements) != 1 or len(vectors) != 1 or not info.has_shuffle:
        return None
    ((vector, lanes),) = vectors.items()
    lanes = min(lanes, _TURNED_LANES)
    (statement,) = plan.nest.statements
    for read in reads_in(statement):
        if stride_along(read.index, vector) not in (0, 1):
            other = turned_range(statement, read, vector, lanes)
            if other is not None and vector.size >= lanes:
                return vector, other, lanes
    return None


def _is_streamed_in_parts(store: Statement, vector: Range, lanes: int, info: DeviceInfo) -> bool:
    """Whether a store along `vector` passes the caches, by whole vectors of which several make a line of memory."""
    if not isinstance(store, Store) or not passes_caches(store, info):
        return False
    steps = [stride_along(store.index, range_) for range_ in store.order if range_ is not vector]
    are_whole = store.mask is None and all(step is not None and step % lanes == 0 for step in steps)
    return are_whole and lanes * store.param.dtype.itemsize < LINE_BYTES


def _tiles(plan: Plan, vector: Range, other: Range, lanes: int, *, in_parts: bool) -> None:
    """Go over a matrix that is stored along one range and read along another in square tiles, block by block of lanes.

    Both the lines that are read and those that are stored are then used as a whole while they are in the nearest cache.
    """
    side = _TILE if min(vector.size, other.size) >= _TILE else lanes
    outer, middle, inner = [], [], []
    for range_, kind in ((other, Kind.UNROLL), (vector, Kind.VECTOR)):
        tile = range_
        if side > lanes:
            loop, tile = plan.split(range_, side)
            outer.append(loop)
        loop, block = plan.split(tile, lanes)
        middle.append(loop)
        plan.mark(block, kind)
        inner.append(block)
    # Lines that are read are used up one by one. But where stores pass the caches, and a line takes several of them,
    # lines that are stored are completed one by one: they are put together in a few places, which others would take.
    order = middle if in_parts else middle[::-1]
    plan.order([*outer[::-1], *order, *inner])


def _vectorise(plan: Plan, range_: Range, lanes: int) -> list[Range]:
    """Split a range into loop, written out vectors and lanes; return the inner ones."""
    if range_.size <= lanes:
        if range_.size != lanes:
            _, vector = plan.split(range_, lanes)
            plan.mark(vector, Kind.VECTOR)
            return [vector]
        plan.mark(range_, Kind.VECTOR)
        return [range_]
    statements = [s for s in plan.nest.statements if range_ in s.order]
    heavy = max(_size_of(s) for s in statements)
    # Reads of scattered elements are written out lane by lane, each with an index of its own.
    strides = {stride_along(read.index, range_) for s in statements for read in reads_in(s)}
    is_scattered = None in strides or (lanes > _TURNED_LANES and not strides <= {0, 1})
    unroll = 1 if is_scattered else _UNROLL
    while unroll > 1 and (range_.size < lanes * unroll or heavy * unroll > _UNROLLED_SIZE):
        unroll //= 2
    if unroll > 1:
        places = _two_places(plan, range_, lanes * unroll, statements) if unroll > 2 else []
        if places:
            half, range_ = places
            plan.mark(half, Kind.UNROLL)
            places, unroll = [half], unroll // 2
        _, block = plan.split(range_, lanes * unroll)
        unrolled, vector = plan.split(block, lanes)
        plan.mark(unrolled, Kind.UNROLL)
        plan.mark(vector, Kind.VECTOR)
        return [*places, unrolled, vector]
    _, vector = plan.split(range_, lanes)
    plan.mark(vector, Kind.VECTOR)
    return [vector]


def _size_of(statement: Statement) -> int:
    """Return about how many operations a point of a statement is."""
    functions = (expr for expr in expressions_of(statement) if isinstance(expr, Apply1) and expr.op in TRANSCENDENTAL)
    return len(expressions_of(statement)) + _FUNCTION_SIZE * sum(1 for _ in functions)


def _two_places(plan: Plan, range_: Range, step: int, statements: list[Statement]) -> list[Range]:
    """Cut a range that one statement combines over, and that is long in memory, into halves; return [half, rest]."""
    if len(statements) != 1 or not isinstance(statements[0], Compute) or range_ not in statements[0].reduced:
        return []
    widest = max((read.dtype.itemsize for read in reads_in(statements[0])), default=0)
    if range_.size % step or range_.size * widest < _TWO_PLACES_BYTES:
        return []
    return list(plan.split(range_, range_.size // 2))


def _side_by_side(plan: Plan, scan: Scan, info: DeviceInfo) -> list[Range]:
    """Run independent scans along lines of memory side by side, as vectors: one alone waits for its own last result.

    Blocks of as many points as there are lanes are turned over when they are read, and back when they are stored.
    """
    lanes = lanes_of(scan, info)
    others = [range_ for range_ in scan.order if range_ not in scan.along and range_.size >= max(lanes, 2)]
    if not others:
        return []
    along = scan.along[-1]
    inner = []
    if along.size >= lanes > 1:
        _, block = plan.split(along, lanes)
        plan.mark(block, Kind.REPEAT)
        inner.append(block)
    _, vector = plan.split(others[-1], max(lanes, 2))
    plan.mark(vector, Kind.VECTOR if lanes > 1 else Kind.UNROLL)
    return [*inner, vector]


def _columns(plan: Plan, inner: list[Range], info: DeviceInfo) -> list[Range]:
    """Put the loops in order: outer ranges, then reductions, then what is written out.

    A reduction whose vector range is not reduced runs down columns. If nothing else goes over a matrix that is larger
    than the caches of one unit, it is read a wide block of columns at a time, several rows at once, and the results of
    the block are kept in memory that stays in the nearest cache: a few columns of every row would be lines far apart,
    which no line is fetched ahead for.

    Returns:
        The range within such a block of columns, which no groups must be made of.
    """
    for statement in plan.nest.statements:
        if not isinstance(statement, Compute) or statement.op is None or len(info.cache_bytes) < 2:
            continue
        down = [r for r in statement.reduced if r not in inner]
        vector = next((r for r in statement.order if plan.nest.kind(r) is Kind.VECTOR), None)
        if vector is None or vector in statement.reduced or not down or down[-1].size < 2 * _ROWS_AT_A_TIME:
            continue
        loop = next((r for r in statement.value.ranges if _is_loop_over(r, vector)), None)
        others = [r for s in plan.nest.statements if s is not statement for r in s.order]
        bytes_read = sum(_bytes_along(read, statement.order) for read in reads_in(statement))
        if loop is None or loop.size < 2 * _FEWEST_BLOCKS or bytes_read <= info.cache_bytes[1]:
            continue
        if not set(others) <= set(statement.value.ranges):
            continue
        width = statement.value.dtype.itemsize
        for range_ in inner:
            width *= range_.size if range_ in statement.value.ranges else 1
        block = min(max(loop.size // info.units, _FEWEST_BLOCKS), info.cache_bytes[0] // _PARTS_OF_RESULTS // width)
        if block < _FEWEST_BLOCKS:
            continue
        rows, several = plan.split(down[-1], _ROWS_AT_A_TIME)
        plan.mark(several, Kind.REPEAT)
        columns = loop if block == loop.size else plan.split(loop, near_divisor(loop.size, block))[1]
        plan.order([*down[:-1], rows, columns, several, *inner])
        return [columns]
    plan.order(inner)
    return []


def _is_loop_over(range_: Range, vector: Range) -> bool:
    """Whether both are what became of one range, `range_` the loop over blocks of vectors."""
    return range_.label.endswith(".0") and vector.label.startswith(f"{range_.label[:-2]}.1")


def _bytes_along(read: Read, ranges: Sequence[Range]) -> int:
    """Return the bytes that are read at all points of `ranges`."""
    count = read.dtype.itemsize
    for range_ in ranges:
        count *= range_.size if read.index.free & range_.bit else 1
    return count


def share_out(plan: Plan, info: DeviceInfo, kept: Sequence[Range] = ()) -> None:
    """Turn outer ranges into groups until there are enough for the device; `kept` are none, nor what is inside."""
    nest = plan.nest
    work = sum(work_of(statement) for statement in nest.statements)
    if work < 2 * GROUP_WORK:
        return
    wanted = info.units * 8
    count = 1
    for range_ in parallel_ranges(nest.statements):
        if nest.kind(range_) is not Kind.LOOP or count >= wanted or range_ in kept:
            break
        per_point = work // (count * range_.size)
        if per_point >= GROUP_WORK or range_.size <= 2:
            plan.mark(range_, Kind.GROUP)
            count *= range_.size
            continue
        block = min(-(-GROUP_WORK // max(per_point, 1)), -(-range_.size // 2))
        divisor = _divisor_near(range_.size, block)
        outer, _ = plan.split(range_, divisor)
        plan.mark(outer, Kind.GROUP)
        count *= outer.size
        break


def parallel_ranges(statements: tuple[Statement, ...]) -> list[Range]:
    """Return the leading ranges that all statements have and none combines over."""
    serial = {range_ for statement in statements for range_ in serial_ranges(statement)}
    shared = [r for r in statements[-1].order if r not in serial and all(r in s.order for s in statements)]
    lead: list[Range] = []
    for range_ in shared:
        if any(range_ not in s.order[: len(lead) + 1] for s in statements if isinstance(s, Store)):
            continue
        lead.append(range_)
    return lead


def _divisor_near(size: int, wanted: int) -> int:
    """Return a divisor of `size` within a factor of two above `wanted` if there is one, else `wanted`."""
    for divisor in range(wanted, min(2 * wanted, size) + 1):
        if size % divisor == 0:
            return divisor
    return wanted
