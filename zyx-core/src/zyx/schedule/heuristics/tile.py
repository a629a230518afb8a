"""The tile of results that a product of matrices keeps in registers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.ir.nest import Kind

if TYPE_CHECKING:
    from zyx.backend.info import DeviceInfo
    from zyx.ir.expr import Range
    from zyx.schedule.heuristics.plan import Plan


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
        lanes = min(self._lanes, 1 << (vector.size - 1).bit_length())
        vectors = -(-vector.size // lanes)
        wide = self._best_width(vectors, 1 if rows is None else rows.size)
        self._split_vector(vector, lanes, wide)
        if rows is not None:
            self.height = self._best_height(rows.size, wide)
            self._split_rows(rows, self.height, self.rows)

    def vector_along_reduction(self, vector: Range, columns: Range | None, rows: Range | None) -> None:
        """Make a tile of results whose sums are vectors."""
        lanes = min(self._lanes, 1 << (vector.size - 1).bit_length())
        outer, inner = self._plan.split(vector, lanes) if vector.size != lanes else (vector, vector)
        self._plan.mark(inner, Kind.VECTOR)
        self.vector_loop = outer
        side = 4 if self._registers >= 32 else 2
        if rows is not None:
            self.height = height_of(rows.size, side)
            self._split_rows(rows, self.height, self.rows)
        if columns is not None:
            self._split_rows(columns, height_of(columns.size, side), self.columns)
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
    """Return a number of rows up to `most` that wastes little: a divisor if there is a good one."""
    if size <= most:
        return size
    divisors = [h for h in range(most, 0, -1) if size % h == 0]
    return divisors[0] if divisors[0] * 2 > most else most
