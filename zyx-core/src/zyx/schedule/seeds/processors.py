"""Schedules that a nest could have: a handful, from what it reads and stores side by side, and their neighbours."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from zyx.arithmetic.powers import next_power
from zyx.nest.accesses import reads_in, serial_ranges, stride_along
from zyx.nest.data import Compute, Kind, Scan, Store
from zyx.nest.lane_sums import group_of, may_pair_lanes
from zyx.schedule.facts import accesses_of_a_vector, has_lanes, lanes_of, may_be_vector, operations
from zyx.schedule.plan import work_of
from zyx.schedule.spec import Cut, Part, Place, Spec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from zyx.backend.info import DeviceInfo
    from zyx.nest.data import Nest, Statement
    from zyx.nest.expr import Range

#: Most operations that a statement is written out as: more take longer to compile than they gain.
MOST_WRITTEN_OUT: Final = 160
#: Vectors that are written out at first, rows that columns are combined over at a time, the side of a tile that is
#: turned over, and most lanes of one: neighbours have other numbers.
_VECTORS: Final = 4
_ROWS: Final = 8
_TILE: Final = 64
_TURNED_LANES: Final = 16
#: Ranges of the statement with most work that are tried as vectors.
_TRIED: Final = 3


def seeds(nest: Nest, info: DeviceInfo) -> Iterator[Spec]:
    """Yield schedules for a processor of a nest whose ranges are simplified, the likeliest first."""
    yield from _grouped(nest, info)
    for vectors in vectorisations(nest, info):
        cuts = {range_: _vectors(nest, range_, lanes) for range_, lanes in vectors.items()}
        inner = [place for cut in cuts.values() for place in _places(cut)]
        yield from _turned(nest, vectors)
        yield from _in_order(nest, vectors, info)
        yield Spec(tuple(cuts.values()))
        yield from _down(nest, cuts, inner)
        if any(range_ in s.order[:-1] for s in nest.statements for range_ in vectors):
            yield Spec(tuple(cuts.values()), tuple(inner))
        yield from _reused(nest, cuts, inner)
    yield from _side_by_side(nest, info)
    yield Spec()


def _grouped(nest: Nest, info: DeviceInfo) -> Iterator[Spec]:
    """Yield schedules of sums whose lanes have groups of bytes, which are multiplied and added in one instruction."""
    statement = max(nest.statements, key=work_of)
    if not info.has_byte_products or not isinstance(statement, Compute):
        return
    for range_ in statement.value.ranges[::-1]:
        group = group_of(statement, range_)
        lanes = min(range_.size, info.lanes(statement.value.dtype))
        if group is not None and lanes > 1 and range_.size % lanes == 0:
            cuts = (
                Cut(group.label, (Part(group.size, Kind.UNROLL),)),
                Cut(range_.label, (Part(lanes, Kind.VECTOR),)),
            )
            yield Spec(cuts, tuple(Place(cut.range, 1) for cut in cuts))


def neighbours(nest: Nest, spec: Spec) -> Iterator[Spec]:
    """Yield specs with half and twice the points of each part but vectors, as far as so much may be written out.

    What is written out as a whole stays so.
    """
    sizes = {range_.label: range_.size for range_ in nest.ranges}
    for number, cut in enumerate(spec.cuts):
        if len(cut.parts) == 1 and cut.parts[0].kind is not Kind.LOCAL and cut.points == sizes.get(cut.range):
            continue
        for part, (points, kind) in enumerate(cut.parts):
            if kind is Kind.VECTOR:
                continue
            more = spec.with_part(number, part, 2 * points)
            if kind is Kind.LOOP or written_out(nest, more) <= MOST_WRITTEN_OUT:
                yield more
            if points > 1:
                yield spec.with_part(number, part, points // 2)


def written_out(nest: Nest, spec: Spec) -> int:
    """Return the most operations that a statement is written out as."""
    times = {
        cut.range: math.prod(part.points for part in cut.parts if part.kind in (Kind.UNROLL, Kind.REPEAT))
        for cut in spec.cuts
    }
    return max(operations(s) * math.prod(times.get(r.label, 1) for r in s.order) for s in nest.statements)


def vectorisations(nest: Nest, info: DeviceInfo) -> Iterator[dict[Range, int]]:
    """Yield choices of vector ranges, each with its lanes: that with most side by side first.

    The statement with the most work has its choice, the others take what is best with that; no statement has two.
    """
    statements = sorted(nest.statements, key=work_of, reverse=True)
    lead = next((s for s in statements if lanes_of(s, info) > 1 and _candidates(nest, s, {}, info)), None)
    if lead is None:
        return
    for range_ in _candidates(nest, lead, {}, info)[:_TRIED]:
        chosen = {range_: _lanes(lead, range_, info)}
        for statement in statements:
            if lanes_of(statement, info) > 1 and not any(r in chosen for r in statement.order):
                found = _candidates(nest, statement, chosen, info)
                if found:
                    chosen[found[0]] = _lanes(statement, found[0], info)
        yield {r: lanes for r, lanes in chosen.items() if lanes > 1}


def _lanes(statement: Statement, range_: Range, info: DeviceInfo) -> int:
    lanes = lanes_of(statement, info)
    if may_pair_lanes(statement, range_) and has_lanes(statement, 2 * lanes, info):
        lanes *= 2  # half of the lanes are short integers, of which a register has twice as many
    return min(lanes, next_power(range_.size))


def _candidates(nest: Nest, statement: Statement, chosen: Mapping[Range, int], info: DeviceInfo) -> list[Range]:
    """Return the ranges that a statement may be vectorised along, by the number of accesses, fewest first."""
    lanes = lanes_of(statement, info)
    others = [s for s in nest.statements if s is not statement]
    rated = []
    for number, range_ in enumerate(reversed(statement.order)):
        if may_be_vector(range_, statement) and all(_goes_with(range_, other, chosen) for other in others):
            accesses, _ = accesses_of_a_vector(statement, range_, lanes)
            rated.append((accesses * -(-range_.size // lanes) * lanes / range_.size, number, range_))
    rated.sort(key=lambda item: item[:2])
    return [range_ for *_, range_ in rated]


def _goes_with(range_: Range, other: Statement, chosen: Mapping[Range, int]) -> bool:
    if range_ not in other.order:
        return True
    return may_be_vector(range_, other) and not any(r in chosen for r in other.order)


# ---- cuts


def _vectors(nest: Nest, range_: Range, lanes: int) -> Cut:
    """Cut a range into a loop, a few vectors written out, and the lanes."""
    several = _VECTORS
    heavy = max(operations(s) for s in nest.statements if range_ in s.order)
    while several > 1 and (range_.size < lanes * several or heavy * several > MOST_WRITTEN_OUT):
        several //= 2
    return Cut(range_.label, (Part(several, Kind.UNROLL), Part(lanes, Kind.VECTOR)))


def _places(cut: Cut) -> list[Place]:
    return [Place(cut.range, number + 1) for number in range(len(cut.parts))]


def _turned(nest: Nest, vectors: Mapping[Range, int]) -> Iterator[Spec]:
    """Yield square tiles of what is stored along one range and read along another, or the other way round.

    Blocks of as many points as there are lanes are turned over; both lines that are read and those that are stored are
    used as a whole while they are in the nearest cache.
    """
    if len(nest.statements) != 1 or len(vectors) != 1:
        return
    (statement,) = nest.statements
    if isinstance(statement, Scan) or (isinstance(statement, Compute) and statement.op is not None):
        return
    ((vector, lanes),) = vectors.items()
    lanes = min(lanes, _TURNED_LANES)
    for other in statement.order:
        if other is vector or other.size < lanes or vector.size < lanes or not may_be_vector(other, statement):
            continue
        if not any(stride_along(r.index, other) == 1 and stride_along(r.index, vector) for r in reads_in(statement)):
            continue
        side = _TILE // lanes if min(vector.size, other.size) >= _TILE else 1
        cuts = (
            Cut(other.label, (Part(side, Kind.LOOP), Part(lanes, Kind.UNROLL))),
            Cut(vector.label, (Part(side, Kind.LOOP), Part(lanes, Kind.VECTOR))),
        )
        blocks = [Place(vector.label, 1), Place(other.label, 1)]
        outer = [Place(vector.label, 0), Place(other.label, 0)]
        lanes_last = [Place(other.label, 2), Place(vector.label, 2)]
        yield Spec(cuts, (*outer, *blocks, *lanes_last))
        yield Spec(cuts, (*outer, *blocks[::-1], *lanes_last))
        return


def _in_order(nest: Nest, vectors: Mapping[Range, int], info: DeviceInfo) -> Iterator[Spec]:
    """Yield schedules of updates that are made in order: all of a block of columns, row by row.

    Each group goes over all rows, so there are as few groups as the device has units.
    """
    (store, *others) = nest.statements
    if others or not isinstance(store, Store) or not store.serial:
        return
    for range_, lanes in vectors.items():
        vector = Cut(range_.label, (Part(1, Kind.UNROLL), Part(lanes, Kind.VECTOR)))
        block = -(-range_.size // (lanes * info.units))
        cut = replace(vector, parts=(Part(block, Kind.LOOP), *vector.parts))
        serial = tuple(Place(other.label, 0) for other in store.serial)
        yield Spec((cut,), (Place(cut.range, 0), *serial, *_places(cut)))


def _reused(nest: Nest, cuts: Mapping[Range, Cut], inner: Sequence[Place]) -> Iterator[Spec]:
    """Yield schedules that take several points at a time of a range along which something read stays the same."""
    statement = max(nest.statements, key=work_of)
    reads = reads_in(statement)
    for range_ in reversed(statement.order):
        if range_ in cuts or range_ in serial_ranges(statement) or range_.size < _VECTORS:
            continue
        moves = [bool(read.free & range_.bit) for read in reads]
        if not all(moves) and any(moves):
            cut = Cut(range_.label, (Part(_VECTORS, Kind.UNROLL),))
            narrow = tuple(replace(c, parts=(Part(1, Kind.UNROLL), *c.parts[1:])) for c in cuts.values())
            yield Spec((*narrow, cut), (Place(cut.range, 1), *inner))
            return


def _down(nest: Nest, cuts: Mapping[Range, Cut], inner: Sequence[Place]) -> Iterator[Spec]:
    """Yield schedules that combine down columns a few rows at a time, a block of columns at a time."""
    for statement in nest.statements:
        if not isinstance(statement, Compute) or statement.op is None:
            continue
        vector = next((range_ for range_ in statement.order if range_ in cuts), None)
        down = [range_ for range_ in statement.reduced if range_ not in cuts]
        if vector is None or vector in statement.reduced or not down or down[-1].size < 2 * _ROWS:
            continue
        last = down[-1]
        rows = Cut(last.label, (Part(_ROWS, Kind.REPEAT),))
        others = [Place(range_.label, 0) for range_ in down[:-1]]
        columns = Place(vector.label, 0)
        order = (*others, Place(last.label, 0), columns, Place(last.label, 1), *inner)
        yield Spec((*cuts.values(), rows), order, kept=(columns,))
        block = cuts[vector]
        wide = Cut(block.range, (Part(16, Kind.LOOP), *block.parts))
        shifted = [place._replace(part=place.part + 1) if place.range == block.range else place for place in inner]
        order = (*others, Place(last.label, 0), Place(vector.label, 1), Place(last.label, 1), *shifted)
        yield Spec((*(c for c in cuts.values() if c is not block), wide, rows), order, kept=(Place(vector.label, 1),))
        return


def _side_by_side(nest: Nest, info: DeviceInfo) -> Iterator[Spec]:
    """Yield schedules that run scans side by side, or parts of one: alone it waits for its own last result."""
    for scan in nest.statements:
        if not isinstance(scan, Scan):
            continue
        widest = lanes_of(scan, info)
        others = [range_ for range_ in scan.order if range_ not in scan.along and range_.size > 1]
        along = scan.along[-1]
        for narrower in (1, 2, 4):
            lanes = max(1, widest // narrower)
            for other in others[-1:]:
                side = min(lanes, next_power(other.size))
                beside = Cut(other.label, (Part(max(2, side), Kind.VECTOR if side > 1 else Kind.UNROLL),))
                if along.size >= side > 1:
                    block = Cut(along.label, (Part(side, Kind.REPEAT),))
                    yield Spec((block, beside), (Place(along.label, 1), Place(other.label, 1)))
                yield Spec((beside,), (Place(other.label, 1),))
            if along.size > lanes > 1:
                yield Spec((Cut(along.label, (Part(lanes, Kind.VECTOR),)),), (Place(along.label, 1),))
        return
