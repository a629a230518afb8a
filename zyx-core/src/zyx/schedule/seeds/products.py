"""Schedules for sums of products on processors: tiles of results that stay in registers while the sum runs.

    c[i, j] = sum(k) of a[i, k] * b[k, j]          vectors along j (b and c lie side by side there)
        i: groups, loop, 8 written out;   j: loop, 3 written out, vectors of 16;   k: innermost loop

    c[i, j] = sum(k) of a[i, k] * b[j, k]          vectors along k, four by four results, added up at the end

Every load of one factor is used for the whole other side of the tile. What the columns read may be copied to where it
lies as the loops go over it, and the sum may be taken in parts whose results are gathered in memory, or a few points at
a time for all columns. `product_seeds` has a tile for each range that vectors may be along, and `product_variants` the
others for one of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zyx.arithmetic.parts import divisor_among, even_length
from zyx.arithmetic.powers import next_power
from zyx.nest.accesses import stride_along
from zyx.nest.data import Kind, Store
from zyx.schedule.facts import lanes_of
from zyx.schedule.moves import Mark, Merge, Nested, Split, Stage
from zyx.schedule.moves.values import reads_of_value
from zyx.schedule.plan import work_of
from zyx.schedule.spec import Cut, Part, Place, Spec, Staged

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zyx.backend.info import DeviceInfo
    from zyx.nest import expr as e
    from zyx.nest.data import Nest
    from zyx.nest.expr import Range
    from zyx.schedule.contraction import Contraction
    from zyx.schedule.moves import Move

#: Products of fewer multiplications than this run in one group.
_SMALL: Final = 1 << 16
#: Rows of results that a group has, about: enough to use a copy of what the columns need often.
_BLOCK_ROWS: Final = 256
#: Groups for each unit: enough to even out what they are given.
_GROUPS_OF_A_UNIT: Final = 4
#: Highest and widest tile; sides of one whose sums are vectors.
_HIGHEST: Final = 8
_WIDEST: Final = 4
_SIDE: Final = 4
#: Points of a sum that all columns of a group take at a time.
_POINTS: Final = 16


@dataclass(frozen=True, slots=True)
class SumOfProducts:
    """A sum of products on a processor.

    Attributes:
        found: The sum.
        info: The device.
        is_small: Whether one group does it all.
    """

    found: Contraction
    info: DeviceInfo
    is_small: bool

    @property
    def lanes(self) -> int:
        """Lanes of the vectors that it is computed with."""
        return lanes_of(self.found.statement, self.info)

    def high(self, wide: int) -> int:
        """Return how many rows of `wide` vectors fit the registers, beside a row of one factor and a broadcast."""
        return min(_HIGHEST, max(1, (self.info.registers - wide - 1) // wide))


def product_seeds(nest: Nest, found: Contraction, info: DeviceInfo) -> Iterator[Spec]:
    """Yield a tile or two for each range of the nest of the sum `found` that vectors may be along."""
    product = SumOfProducts(found, info, max(work_of(statement) for statement in nest.statements) < _SMALL)
    for vector in _vectors(product):
        if vector in found.statement.reduced:
            yield _along_sum(product, vector, _SIDE, _SIDE)
        else:
            wide = min(_widths(product, vector), key=lambda wide: _loads(product, vector, wide))
            tile = _Tile(product, vector, wide)
            yield from tile.rounds()
            yield from tile.specs()
    yield from _gathered(product)


def _vectors(product: SumOfProducts) -> list[Range]:
    """Return the ranges to vectorise along: those contiguous in the results, and those of the sum."""
    found = product.found
    kept, reduced = found.statement.value.ranges, found.statement.reduced
    long = [r for r in kept if 2 * r.size > product.lanes]
    stored = [r for r in long or kept if any(stride_along(store.index, r) == 1 for store in found.stores)]
    along = [r for r in reduced if any(stride_along(read.index, r) == 1 for read in found.reads)]
    return [*(stored or long or kept), *along]


def product_variants(nest: Nest, found: Contraction, info: DeviceInfo, spec: Spec) -> Iterator[Spec]:
    """Yield all other tiles that are vectorised along the same range as `spec`."""
    product = SumOfProducts(found, info, max(work_of(statement) for statement in nest.statements) < _SMALL)
    vector = next((r for r in found.statement.order if _is_vector(spec, r.label)), None)
    if vector is None or spec.first:
        return
    if vector in found.statement.reduced:
        for high in (3, 2, 1):
            yield _along_sum(product, vector, high, _SIDE)
        return
    for wide in _widths(product, vector):
        yield from _Tile(product, vector, wide).variants(is_copied=bool(spec.staged))


def _is_vector(spec: Spec, label: str) -> bool:
    return any(cut.range == label and cut.parts[-1].kind is Kind.VECTOR for cut in spec.cuts)


def _widths(product: SumOfProducts, vector: Range) -> Sequence[int]:
    vectors = -(-vector.size // product.lanes)
    return range(1, min(_WIDEST, vectors) + 1)


def _loads(product: SumOfProducts, vector: Range, wide: int) -> float:
    """Return how many loads a result takes, those of results that there are not included."""
    vectors = -(-vector.size // product.lanes)
    high = product.high(wide)
    return (wide + high) / (wide * high) * -(-vectors // wide) * wide / vectors


def _largest(ranges: Sequence[Range]) -> Range | None:
    return max(ranges, key=lambda range_: min(range_.size, 64), default=None)


def _even(count: int, wanted: int) -> int:
    """Return a divisor of a count within half of a number, or else what leaves parts of about one size."""
    nearest = sorted(range(wanted // 2 + 1, wanted * 3 // 2 + 1), key=lambda length: abs(length - wanted))
    return divisor_among(count, nearest) or even_length(count, wanted)


class _Tile:
    """Tiles of some vectors times some rows.

    Args:
        product: The sum.
        vector: The range of the results that vectors are along.
        wide: Vectors of a tile.
    """

    def __init__(self, product: SumOfProducts, vector: Range, wide: int) -> None:
        found, info = product.found, product.info
        self._product, self._vector = product, vector
        self._rows = rows = _largest([r for r in found.shared(*found.along(vector)) if r is not vector])
        self._lanes = lanes = min(product.lanes, next_power(vector.size))
        self._wide = wide
        kept = [range_ for range_ in found.statement.value.ranges if range_ not in (vector, rows)]
        high = 1 if rows is None else even_length(rows.size, product.high(wide))
        block = 1 if rows is None else _even(-(-rows.size // high), max(1, _BLOCK_ROWS // high))
        groups = math.prod(r.size for r in kept) * (1 if rows is None else -(-rows.size // (high * block)))
        tiles = -(-vector.size // (lanes * wide))
        across = _even(tiles, max(1, -(-tiles * groups // (_GROUPS_OF_A_UNIT * info.units))))
        label = vector.label
        cuts = [Cut(label, (Part(across, Kind.LOOP), Part(wide, Kind.UNROLL), Part(lanes, Kind.VECTOR)))]
        outer, inner, self._row = [Place(r.label, 0) for r in kept], [Place(label, 2), Place(label, 3)], list[Place]()
        if rows is not None:
            cuts.append(Cut(rows.label, (Part(block, Kind.LOOP), Part(high, Kind.UNROLL))))
            outer.append(Place(rows.label, 0))
            inner.insert(0, Place(rows.label, 2))
            self._row = [Place(rows.label, 1)]
        self._cuts, self._outer, self._inner = tuple(cuts), (*outer, Place(label, 0)), inner
        self._has_all_rows = rows is None or high == rows.size
        self._column = Place(label, 1)
        self._reduced = [Place(range_.label, 0) for range_ in found.statement.reduced]

    def specs(self) -> Iterator[Spec]:
        """Yield schedules without and with a copy of what the columns read."""
        yield self._spec((self._column, *self._row, *self._reduced), is_copied=False)
        if self._can_copy():
            yield self._spec((self._column, *self._row, *self._reduced), is_copied=True)

    def rounds(self) -> Iterator[Spec]:
        """Yield a schedule in which all columns of a group take a few points of the sum at a time.

        If a tile has all rows, nothing that the columns read is used twice: it comes row by row then, where a column of
        tiles would read a few lines of each, far apart, which no line is fetched ahead for.
        """
        reduced = self._product.found.statement.reduced
        if len(reduced) == 1 and reduced[0].size >= 2 * _POINTS and self._has_all_rows and not self._product.is_small:
            whole, part = Place(reduced[0].label, 0), Place(reduced[0].label, 1)
            cut = Cut(reduced[0].label, (Part(_POINTS, Kind.LOOP),))
            yield self._spec((whole, self._column, *self._row, part), is_copied=False, cut=cut)

    def variants(self, *, is_copied: bool) -> Iterator[Spec]:
        """Yield schedules with the sum as a whole, in parts of which a cache has all, and row by row."""
        yield self._spec((self._column, *self._row, *self._reduced), is_copied=is_copied)
        reduced, caches = self._product.found.statement.reduced, self._product.info.cache_bytes
        width = self._lanes * self._wide * self._product.found.statement.value.dtype.itemsize
        if len(reduced) == 1 and len(caches) > 1 and reduced[0].size * width > caches[1] // 2:
            whole, part = Place(reduced[0].label, 0), Place(reduced[0].label, 1)
            cut = Cut(reduced[0].label, (Part(_even(reduced[0].size, caches[1] // 2 // width), Kind.LOOP),))
            yield self._spec((self._column, whole, *self._row, part), is_copied=is_copied, cut=cut)
        if self._row:
            yield self._spec((*self._row, self._column, *self._reduced), is_copied=is_copied)

    def _spec(self, loops: Sequence[Place], *, is_copied: bool, cut: Cut | None = None) -> Spec:
        whole = self._reduced if cut is None else [Place(cut.range, 1)]
        label = repr(self._product.found.statement.value)
        return Spec(
            self._cuts if cut is None else (*self._cuts, cut),
            (*self._outer, *loops, *self._inner),
            groups=() if self._product.is_small else self._outer,
            nested=() if cut is None else ((label, tuple(whole)),),
            staged=(self._staged(whole),) if is_copied else (),
        )

    def _can_copy(self) -> bool:
        return len(self._product.found.along(self._vector)) == 1 and self._rows is not None

    def _staged(self, reduced: Sequence[Place]) -> Staged:
        found = self._product.found
        (read,) = found.along(self._vector)
        every = [other for other in reads_of_value(found.statement) if other.param is read.param]
        names = {range_.label: range_ for range_ in found.statement.order}
        tile = [at for at in (*reduced, *self._inner) if read.index.free & names[at.range].bit]
        sides = [at for at in reduced if stride_along(read.index, names[at.range]) == 1]
        is_apart = stride_along(read.index, self._vector) not in (0, 1)
        turned = sides[0] if is_apart and sides else None
        place = every.index(read) if len(every) > 1 else None
        return Staged(repr(found.statement.value), read.param.number, place, tuple(tile), turned)


def _along_sum(product: SumOfProducts, vector: Range, high: int, wide: int) -> Spec:
    """Return a tile of results whose sums are vectors."""
    found = product.found
    statement = found.statement
    columns = found.shared(found.reads[0])
    column = _largest(columns)
    row = _largest([range_ for range_ in found.shared(found.reads[-1]) if range_ not in columns])
    cuts = [Cut(vector.label, (Part(min(product.lanes, next_power(vector.size)), Kind.VECTOR),))]
    outer = [Place(range_.label, 0) for range_ in statement.value.ranges if range_ not in (column, row)]
    inner, loops = [Place(vector.label, 1)], list[Place]()
    for side, points in ((row, high), (column, wide)):
        if side is not None:
            height = even_length(side.size, points)
            block = _even(-(-side.size // height), max(1, _BLOCK_ROWS // height))
            cuts.append(Cut(side.label, (Part(block, Kind.LOOP), Part(height, Kind.UNROLL))))
            outer.append(Place(side.label, 0))
            loops.append(Place(side.label, 1))
            inner.insert(-1, Place(side.label, 2))
    reduced = [Place(range_.label, 0) for range_ in statement.reduced if range_ is not vector]
    order = (*outer, *loops, *reduced, Place(vector.label, 0), *inner)
    return Spec(tuple(cuts), order, groups=() if product.is_small else tuple(outer))


# ---- columns that are short rows of images


def _gathered(product: SumOfProducts) -> Iterator[Spec]:
    """Yield schedules with im2col packing: columns that are short rows of images are packed to one long range.

        c[o, y, x] = sum(i, u, v) of image[i, y + u, x + v] * weight[o, i, u, v]          y, x < 8
    =>  copy[i, u, v, y, x] = image[i, y + u, x + v];   c[o, y+x] = sum(i, u, v) of copy[i, u, v, y+x] * weight[..]

    Of vectors of 16 along x, 8 lanes would have something to do; 64 columns are 4 vectors.
    """
    found, info = product.found, product.info
    vector = next((r for r in found.statement.value.ranges if _is_short_row(product, r)), None)
    if vector is None or not info.cache_bytes:
        return
    (read,) = found.along(vector)
    beside = [range_ for range_ in found.statement.value.ranges if _continues(found, read, range_, vector)]
    rows = _largest([range_ for range_ in found.shared(read) if range_ is not vector])
    if len(beside) != 1 or rows is None:
        return
    (outer,) = beside
    statement = found.statement
    longest = max(statement.reduced, key=lambda range_: range_.size)
    line = _WIDEST * product.lanes * read.dtype.itemsize
    depth = math.prod(range_.size for range_ in statement.reduced)
    parts = -(-depth * line // info.cache_bytes[0])
    first: list[Move] = []
    inside = [range_.label for range_ in statement.reduced]
    around: list[Place] = []
    label = repr(statement.value)
    if parts > 1 and longest.size >= 2 * parts:
        first.append(Split(longest.label, _even(longest.size, longest.size // parts)))
        inside[inside.index(longest.label)] = f"{longest.label}.1"
        first.append(Nested(label, tuple(inside)))
        around = [Place(f"{longest.label}.0", 0)]
        label = f"v{_numbers(product)}"
    first.append(Stage(label, read.param.number, (*inside, outer.label, vector.label)))
    copy = f"v{_numbers(product) + (len(first) > 1)}"
    first += [Mark(f"{vector.label}@{copy}", Kind.VECTOR), Merge(outer.label, vector.label)]
    merged = f"{outer.label}+{vector.label}"
    columns = outer.size * vector.size
    lanes = min(product.lanes, next_power(columns))
    wide = min(_WIDEST, -(-columns // lanes))
    high = even_length(rows.size, product.high(wide))
    others = [Place(r.label, 0) for r in statement.value.ranges if r not in (outer, vector, rows)]
    tiles = -(-rows.size // high)
    for block in {tiles, _even(tiles, max(1, tiles * math.prod(_sizes(found, others)) // info.units))}:
        cuts = (
            Cut(merged, (Part(wide, Kind.UNROLL), Part(lanes, Kind.VECTOR))),
            Cut(rows.label, (Part(block, Kind.LOOP), Part(high, Kind.UNROLL))),
        )
        outside = (*others, Place(rows.label, 0))
        inner = (Place(rows.label, 2), Place(merged, 1), Place(merged, 2))
        own = [f"{name}@{copy}" for name in (*inside, outer.label, vector.label)]
        loops = (Place(merged, 0), Place(rows.label, 1), *(Place(name, 0) for name in inside))
        order = (*outside, *around, *loops, *inner, *(Place(name, 0) for name in own))
        yield Spec(cuts, order, first=tuple(first), groups=() if product.is_small else outside)


def _numbers(product: SumOfProducts) -> int:
    """Return the number of the next value of the nest of a product."""
    found = product.found
    values = [found.statement.value, *(s.value for s in found.others if not isinstance(s, Store))]
    return 1 + max(value.number for value in values)


def _sizes(found: Contraction, places: Sequence[Place]) -> list[int]:
    labels = {place.range for place in places}
    return [range_.size for range_ in found.statement.value.ranges if range_.label in labels]


def _is_short_row(product: SumOfProducts, range_: Range) -> bool:
    """Whether a range has fewer points than vectors have lanes, a power of two, and one factor goes along it."""
    wide = product.found.along(range_)
    is_whole = range_.size & (range_.size - 1) == 0
    return is_whole and 1 < range_.size < product.lanes and len(wide) == 1 and stride_along(wide[0].index, range_) == 1


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
