"""The tile of results that a product of matrices keeps in registers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.ir.nest import Kind
from zyx.ir.powers import next_power

if TYPE_CHECKING:
    from zyx.backend.info import DeviceInfo
    from zyx.ir.expr import Range
    from zyx.schedule.plan import Plan

#: Products of fewer multiplications than this run in one group.
SMALL_PRODUCT: Final = 1 << 16
#: Rows of a group: enough to use a copied panel often.
BLOCK_ROWS: Final = 256
#: Fewest tiles of which one may have fewer rows than the others.
_TILES_FOR_A_REST: Final = 16


class Tile:
    """Splits the ranges of a tile, and keeps what became of them.

    Attributes:
        inner: The ranges that are written out, the vector last.
        rows, columns: The loops over tiles.
        height: Rows of a tile.
        replaced: The ranges that were split.
    """

    def __init__(self, plan: Plan, info: DeviceInfo, lanes: int) -> None:
        self.inner: list[Range] = []
        self.rows: list[Range] = []
        self.columns: list[Range] = []
        self.height = 1
        self.replaced: list[Range] = []
        self.vector_loop: Range
        self._plan = plan
        self._lanes = lanes
        self._registers = info.registers

    def vector_along_result(self, vector: Range, rows: Range | None) -> None:
        """Make a tile of vectors times rows."""
        lanes = min(self._lanes, next_power(vector.size))
        vectors = -(-vector.size // lanes)
        wide = self._best_width(vectors, 1 if rows is None else rows.size)
        self._split_vector(vector, lanes, wide)
        if rows is not None:
            self.height = self._best_height(rows.size, wide)
            self._split_rows(rows, self.height, self.rows)

    def vector_along_reduction(self, vector: Range, columns: Range | None, rows: Range | None) -> None:
        """Make a tile of results whose sums are vectors."""
        lanes = min(self._lanes, next_power(vector.size))
        outer, inner = self._plan.split(vector, lanes) if vector.size != lanes else (vector, vector)
        self._plan.mark(inner, Kind.VECTOR)
        self.vector_loop = outer
        # Results by results, in whose registers sums are kept: beside them there is room for a side and one more.
        high, wide = (4, 4) if self._registers >= 32 else (3, 4)
        if rows is not None:
            self.height = height_of(rows.size, high)
            self._split_rows(rows, self.height, self.rows)
        if columns is not None:
            self._split_rows(columns, height_of(columns.size, wide), self.columns)
        self.inner.append(inner)

    def _split_vector(self, vector: Range, lanes: int, wide: int) -> None:
        self.replaced.append(vector)
        if vector.size <= lanes and wide == 1:
            if vector.size == lanes:
                inner = vector
            else:
                _, inner = self._plan.split(vector, lanes)
            self._plan.mark(inner, Kind.VECTOR)
            self.inner.append(inner)
            return
        outer, block = self._plan.split(vector, lanes * wide)
        self.columns.append(outer)
        if wide > 1:
            unrolled, inner = self._plan.split(block, lanes)
            self._plan.mark(unrolled, Kind.UNROLL)
            self.inner.append(unrolled)
        else:
            inner = block
        self._plan.mark(inner, Kind.VECTOR)
        self.inner.append(inner)

    def _split_rows(self, rows: Range, height: int, loops: list[Range]) -> None:
        self.replaced.append(rows)
        if height == 1:
            loops.append(rows)
            return
        if rows.size == height:
            inner = rows
        else:
            outer, inner = self._plan.split(rows, height)
            loops.append(outer)
        self._plan.mark(inner, Kind.UNROLL)
        self.inner.insert(0, inner)

    def _best_width(self, vectors: int, rows: int) -> int:
        """Return how many vectors wide the tile is: few rows leave more registers for vectors; less waste is better."""
        choices = [wide for wide in (1, 2, 3, 4) if wide <= vectors]
        preferred = 3 if self._registers >= 32 else 2

        def rating(wide: int) -> tuple[float, int]:
            waste = -(-vectors // wide) * wide / vectors
            height = min(rows, self._room(wide))
            loads = (wide + height) / (wide * height)
            return (loads * waste, abs(wide - preferred))

        return min(choices, key=rating)

    def _best_height(self, rows: int, wide: int) -> int:
        return height_of(rows, self._room(wide))

    def _room(self, wide: int) -> int:
        """Return how many rows of `wide` vectors fit the registers, beside a row of the one factor and a broadcast."""
        return max(1, min(8, (self._registers - wide - 1) // wide))


def height_of(size: int, most: int) -> int:
    """Return a number of rows up to `most` that wastes little: a divisor if there is a good one.

    Of many tiles a rest that is written out apart is a small part, and tiles of fewer rows would cost more: these only
    are a little lower then, if there is a number of tiles that can be divided into blocks.
    """
    if size <= most:
        return size
    divisor = next(h for h in range(most, 0, -1) if size % h == 0)
    if size < most * _TILES_FOR_A_REST:
        return divisor if divisor * 2 > most else most
    good = [h for h in range(most, 0, -1) if h * 4 > most * 3 and _is_divided(-(-size // h), BLOCK_ROWS // h)]
    return divisor if divisor in good else next(iter(good), most)


def _is_divided(count: int, wanted: int) -> bool:
    return count <= wanted or count % near_divisor(count, wanted) == 0


def near_divisor(size: int, wanted: int) -> int:
    """Return a divisor of `size` near `wanted`; without one, what divides it into as many parts, the last one less."""
    divisors = [d for d in range(wanted // 2 + 1, wanted * 3 // 2 + 1) if size % d == 0]
    return min(divisors, key=lambda d: abs(d - wanted), default=-(-size // -(-size // wanted)))
