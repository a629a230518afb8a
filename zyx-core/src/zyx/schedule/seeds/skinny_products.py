"""Schedules for skinny products, of few rows and many columns: threads that share a line use it for all of the rows.

    c[i, j] = sum(k) of x[i, k] * w[j, k]       i < 4;  j = j.0 groups, j.1 < 2 written out, j.2 < 8 threads;
                                                k = k.0 loop, k.1 < 32 threads, k.2 < 8 vectors

So every element of w is loaded once, side by side, as in a product with one vector. Blocks of results, as large
products have them, would compute as if there were 16 rows or more, and read pieces of lines.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from zyx.arithmetic.powers import next_power, previous_power
from zyx.nest.accesses import step_along
from zyx.nest.data import Kind
from zyx.schedule.facts import whole_lanes
from zyx.schedule.seeds.threads import THREADS
from zyx.schedule.spec import Cut, Part, Place, Spec

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zyx.backend.info import DeviceInfo
    from zyx.nest.data import Nest
    from zyx.nest.expr import Range, Read
    from zyx.schedule.contraction import Contraction

#: Most rows for which threads share each column of a product, and how many columns keep a unit busy.
FEW_ROWS: Final = 8
COLUMNS_OF_A_UNIT: Final = 4
#: Most numbers that a thread adds up to, and fewest points of a line.
_MOST_ACCUMULATORS: Final = 32
_SHORTEST_LINE: Final = 64


def skinny_product_seeds(nest: Nest, found: Contraction, info: DeviceInfo) -> Iterator[Spec]:
    """Yield schedules of a nest whose sum of products is `found`, if it is of few rows, and of lines of memory."""
    if not found.is_by_results or len(found.reads) != 2 or len(info.max_group_shape) < 2:
        return
    x, y = found.reads
    sides = found.sides(x, y)
    for rows, columns, lines in (sides.rows, sides.columns, y), (sides.columns, sides.rows, x):
        depth = _line(sides.depth, lines)
        if depth is not None and _are_few(rows, columns, info):
            break
    else:
        return
    lanes = whole_lanes(nest, depth, info)
    several = previous_power(max(1, _MOST_ACCUMULATORS // (lanes * _count(rows))))
    while several > 1 and _count(columns) < several * COLUMNS_OF_A_UNIT * info.units:
        several //= 2
    column = columns[-1]
    threads = min(next_power(-(-depth.size // lanes)), THREADS)
    for along in dict.fromkeys((min(threads, max(info.warp_size, 1)), threads)):
        beside = min(THREADS // along, info.max_group_shape[1], previous_power(column.size))
        cuts = (
            Cut(column.label, (Part(beside, Kind.LOCAL), Part(several, Kind.UNROLL))),
            Cut(depth.label, (Part(along, Kind.LOCAL), Part(lanes, Kind.VECTOR))),
            *(Cut(row.label, (Part(row.size, Kind.UNROLL),)) for row in rows),
        )
        groups = tuple(Place(r.label, 0) for r in found.statement.value.ranges if r not in rows)
        loops = [Place(r.label, 0) for r in sides.depth if r is not depth]
        both = [Place(depth.label, 0), Place(column.label, 1), Place(depth.label, 1)]
        written_out = [*(Place(row.label, 1) for row in rows), Place(column.label, 2), Place(depth.label, 2)]
        yield Spec(cuts, (*groups, *loops, *both, *written_out), groups=groups)


def _line(depth: Sequence[Range], read: Read) -> Range | None:
    """Return the range of the sum that `read` goes along element by element, if it is long."""
    return next((r for r in depth if step_along(read.index, r) == 1 and r.size >= _SHORTEST_LINE), None)


def _are_few(rows: Sequence[Range], columns: Sequence[Range], info: DeviceInfo) -> bool:
    """Whether the results are of few rows, and of columns enough for all units."""
    return 1 < _count(rows) <= FEW_ROWS and _count(columns) >= COLUMNS_OF_A_UNIT * info.units


def _count(ranges: Sequence[Range]) -> int:
    return math.prod(range_.size for range_ in ranges)
