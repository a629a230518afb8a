"""Sort rows by vectors, a lane a row, where groups have one thread.

Up to sixteen records of each row are sorted by a network, in registers. Longer rows lie in local memory, the records at
one place of all lanes side by side, and are sorted as tiles are where threads share memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zyx.kernel import data as k
from zyx.kernels.code import Immediate
from zyx.kernels.custom import CustomKernel
from zyx.kernels.sorting.bitonic import Bitonic, tile_for
from zyx.kernels.sorting.code import RecordCode
from zyx.kernels.sorting.network import comparators

if TYPE_CHECKING:
    from zyx.backend.info import DeviceInfo
    from zyx.dtype import DType
    from zyx.kernels.sorting.code import Records, Words

#: Records of a row that are sorted in registers.
_IN_REGISTERS: Final = 16
#: Longer rows are sorted by their digits in less time.
_LONGEST: Final = 4096


@dataclass(frozen=True, slots=True)
class Lanes:
    """Rows that lie in lanes.

    Attributes:
        rows: How many there are.
        size: Elements of a row.
        lanes: Of a vector.
        are_columns: Whether the records are ``(size, rows)`` and the lanes divide the rows, or ``(rows, size)``.
    """

    rows: int
    size: int
    lanes: int
    are_columns: bool

    @property
    def shape(self) -> tuple[int, int]:
        """Of the records."""
        return (self.size, self.rows) if self.are_columns else (self.rows, self.size)


def lanes_for(records: Records, rows: int, size: int, info: DeviceInfo) -> int:
    """Return how many rows to sort together in vectors; 1 if that does not pay, or there is no room."""
    lanes = min(info.lanes(word) for word in records.words)
    fits = tile_for(size) * lanes * records.nbytes <= info.local_bytes // 2
    return lanes if rows * 2 >= lanes and size <= _LONGEST and (fits or size <= _IN_REGISTERS) else 1


def lanes_kernel(rows: Lanes, words: tuple[DType, ...]) -> CustomKernel:
    """Return the kernel that sorts the records of rows."""
    size, lanes, elements = rows.size, rows.lanes, rows.rows * rows.size
    code = RecordCode(elements)
    results = code.params(words, elements, mutable=True)
    sources = code.params(words, elements, mutable=False)
    tile = tile_for(size)
    held = () if size <= _IN_REGISTERS else code.arrays(k.Memory.LOCAL, words, tile * lanes)
    group = code.index(k.Axis.GROUP, 0, -(-rows.rows // lanes), code.position)
    access = _Access(code, rows, code.times(group, Immediate(lanes)))
    if not held:
        places = [code.at(number) for number in range(size)]
        records = [access.read(sources, place) for place in places]
        for i, j in comparators(size):
            records[i], records[j] = code.exchange(records[i], records[j])
        for place, record in zip(places, records, strict=True):
            access.write(results, place, record)
    else:
        place = code.loop(size, code.position)
        code.write(held, code.times(place, Immediate(lanes)), access.read(sources, place))
        code.end_loop()
        if tile > size:
            place = code.plus(code.loop(tile - size, code.position), Immediate(size))
            code.write(held, code.times(place, Immediate(lanes)), code.last_record(words, lanes))
            code.end_loop()
        Bitonic(code, held, None, tile, tile, lanes).sort()
        place = code.loop(size, code.position)
        access.write(results, place, code.read(held, code.times(place, Immediate(lanes)), lanes=lanes))
        code.end_loop()
    return CustomKernel(code.finish(f"sort_lanes_{size}"), tuple((rows.shape, word) for word in words))


@dataclass(frozen=True, slots=True)
class _Access:
    """Reads and writes what the rows of a group have at one place; the first of them is `row`."""

    code: RecordCode
    rows: Lanes
    row: k.ValueId

    def read(self, arrays: Words, place: k.ValueId) -> Words:
        """Return a vector a word; lanes without a row have the records of the last one."""
        code, rows = self.code, self.rows
        if rows.are_columns:
            index = code.plus(code.times(place, Immediate(rows.rows)), self.row)
            return code.read(arrays, index, lanes=rows.lanes)
        found = [code.read(arrays, self._index(place, lane)) for lane in range(rows.lanes)]
        return tuple(code.vectorize(items) for items in zip(*found, strict=True))

    def write(self, arrays: Words, place: k.ValueId, record: Words) -> None:
        """Store a vector a word."""
        code, rows = self.code, self.rows
        if rows.are_columns:
            code.write(arrays, code.plus(code.times(place, Immediate(rows.rows)), self.row), record)
            return
        for lane in range(rows.lanes):
            is_there = code.less(code.plus(self.row, Immediate(lane)), Immediate(rows.rows))
            words = tuple(code.devectorize(word, lane) for word in record)
            code.write(arrays, self._index(place, lane), words, is_there if rows.rows % rows.lanes else None)

    def _index(self, place: k.ValueId, lane: int) -> k.ValueId:
        code, rows = self.code, self.rows
        row = code.least(code.plus(self.row, Immediate(lane)), Immediate(rows.rows - 1))
        return code.plus(code.times(row, Immediate(rows.size)), place)
