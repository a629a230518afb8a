"""Sort tiles of rows in local memory: a group a tile, or several short rows; and merge tiles into whole rows.

Sorted runs are then merged in pairs, each launch doubling their length: a group writes a tile of the result, which it
finds by two searches, and its threads share that out in the same way (Odeh, Green, Mwassi, Shmueli, Birk, "Merge path",
2012).

Merging kernels of all lengths are one: how long the runs are lies behind the last record, as a number of doublings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from zyx import dtype as dtypes
from zyx.arithmetic.powers import previous_power
from zyx.kernel import data as k
from zyx.kernels.code import Immediate
from zyx.kernels.custom import CustomKernel
from zyx.kernels.sorting.bitonic import WINDOW, Bitonic, padded, padded_length
from zyx.kernels.sorting.code import RecordCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.backend.info import DeviceInfo
    from zyx.dtype import DType
    from zyx.kernels.sorting.code import Words

#: Elements of the largest tile, and of the smallest one that is worth a group of its own.
_LARGEST_TILE: Final = 4096
_SMALL_GROUP: Final = 1024
#: Threads of a group that merges, and how many elements each of them writes.
_MERGING_THREADS: Final = 256
_MERGED_BY_ONE: Final = 8
#: How many of them search for where the group starts, and the fewest threads that can sort together.
_SEARCHING_THREADS: Final = 32
_LEAST_THREADS: Final = 4


@dataclass(frozen=True, slots=True)
class Tiles:
    """How rows are divided.

    Attributes:
        rows: How many there are.
        size: Elements of a row.
        tile: Elements of a tile: a power of two.
        words: Types of the words of a record.
        inner: Rows that lie side by side, element by element: ``(rows / inner, size, inner)``. More than 1 only where
            a tile is a row.
    """

    rows: int
    size: int
    tile: int
    words: tuple[DType, ...]
    inner: int = 1

    @property
    def count(self) -> int:
        """Tiles of a row."""
        return -(-self.size // self.tile)


def largest_tile(words: tuple[DType, ...], info: DeviceInfo) -> int:
    """Return how many records groups of the device can sort: a power of two, or 0 if they cannot share memory."""
    threads = min(info.max_group_threads, info.max_group_shape[0])
    nbytes = sum(word.itemsize for word in words)
    tile = min(_LARGEST_TILE, previous_power(threads) << WINDOW)
    while padded_length(tile) * nbytes > info.local_bytes and tile > 1 << WINDOW:
        tile //= 2
    return tile if threads >= _LEAST_THREADS and padded_length(tile) * nbytes <= info.local_bytes else 0


def rows_of_group(tile: int, largest: int) -> int:
    """Return how many rows a group sorts that are a tile each."""
    return max(1, min(_SMALL_GROUP, largest) // tile)


@dataclass(frozen=True, slots=True)
class _Records:
    """The records that a group sorts: where they lie in local memory, and in what is read and written.

    Attributes:
        code: To write to.
        tiles: What is sorted.
        rows: How many rows the group has.
        first_row: Its first row.
    """

    code: RecordCode
    tiles: Tiles
    rows: int
    first_row: k.ValueId

    def placed(self, place: k.ValueId) -> tuple[k.ValueId, k.ValueId, k.ValueId]:
        """Return (where it lies in local memory, row, place in the tile) of a record; neighbours lie side by side."""
        code, tile = self.code, self.tiles.tile
        if self.tiles.inner > 1:
            row = code.both(place, Immediate(self.rows - 1))
            inside = code.down(place, Immediate(self.rows.bit_length() - 1))
            local = code.plus(code.times(row, Immediate(tile)), inside)
        else:
            local, inside = place, code.both(place, Immediate(tile - 1))
            row = code.down(place, Immediate(tile.bit_length() - 1))
        return padded(code, local, self.rows * tile), code.plus(self.first_row, row), inside

    def indexed(self, row: k.ValueId, at: k.ValueId, length: int) -> tuple[k.ValueId, k.ValueId]:
        """Return the index of what lies `at` a place of a row of that length, and whether it is there."""
        code, inner = self.code, self.tiles.inner
        is_there = code.both(code.less(row, Immediate(self.tiles.rows)), code.less(at, Immediate(length)))
        line, column = row, code.at(0)
        if inner > 1:
            line, column = code.over(row, Immediate(inner)), code.rest(row, Immediate(inner))
        index = code.plus(code.times(line, Immediate(length * inner)), code.times(at, Immediate(inner)))
        return code.plus(index, column), is_there


def tile_kernel(tiles: Tiles, keep: int, largest: int, *, is_first: bool) -> CustomKernel:
    """Return the kernel that sorts each tile of records ``(rows, size)``.

    Args:
        tiles: What to sort.
        keep: How many records of each tile are stored, ``(rows, count * keep)``; a tile that is not full is
            filled up with records that come last.
        largest: How many records a group can sort; see `largest_tile`.
        is_first: Whether merging follows. Then all records are stored, ``(rows * size + 1,)``, and behind them the
            state that merging starts with.
    """
    rows, size, tile, count = tiles.rows, tiles.size, tiles.tile, tiles.count
    rows_together = rows_of_group(tile, largest) if count == 1 else 1
    together = rows_together * tile
    threads = together >> WINDOW
    code = RecordCode(rows * max(size, count * tile))
    length = rows * size + 1 if is_first else rows * count * keep
    results = code.params(tiles.words, length, mutable=True)
    sources = code.params(tiles.words, rows * size, mutable=False)
    arrays = code.arrays(k.Memory.LOCAL, tiles.words, padded_length(together))
    group = code.index(k.Axis.GROUP, 0, -(-rows // rows_together) * count, code.position)
    thread = code.index(k.Axis.LOCAL, 0, threads, code.position)
    first_row = code.times(code.over(group, Immediate(count)), Immediate(rows_together))
    number = code.rest(group, Immediate(count))
    turns = [code.plus(thread, Immediate(turn * threads)) for turn in range(together // threads)]
    records = _Records(code, tiles, rows_together, first_row)
    for place in turns:
        local, row, inside = records.placed(place)
        index, is_there = records.indexed(row, code.plus(code.times(number, Immediate(tile)), inside), size)
        record = code.choose(is_there, code.read(sources, index, is_there), code.last_record(tiles.words))
        code.write(arrays, local, record)
    code.barrier()
    Bitonic(code, arrays, thread, tile, together).sort()
    code.barrier()
    for place in turns:
        local, row, inside = records.placed(place)
        if is_first:
            index, is_there = records.indexed(row, code.plus(code.times(number, Immediate(tile)), inside), size)
        else:
            at = code.plus(code.times(number, Immediate(keep)), inside)
            index, is_there = records.indexed(row, at, count * keep)
            is_there = code.both(is_there, code.less(inside, Immediate(keep)))
        code.write(results, index, code.read(arrays, local), is_there)
    if is_first:
        _write_state(code, results, rows * size, code.at(tile.bit_length() - 1), group, thread)
    shape: tuple[int, ...] = (rows, count * keep)
    if is_first:
        shape = (length,)
    elif tiles.inner > 1:
        shape = (rows // tiles.inner, keep, tiles.inner)
    return CustomKernel(code.finish(f"sort_tiles_{tile}"), tuple((shape, word) for word in tiles.words))


def _write_state(
    code: RecordCode, results: Words, place: int, state: k.ValueId, group: k.ValueId, thread: k.ValueId
) -> None:
    is_one = code.both(code.equal(group, Immediate(0)), code.equal(thread, Immediate(0)))
    for result in results:
        define = code.ops[result]
        assert isinstance(define, k.Define)
        code.store(result, code.at(place), code.cast(state, define.dtype), is_one)


# ---- merging


def merge_kernel(tiles: Tiles, most_threads: int, local_bytes: int) -> CustomKernel:
    """Return the kernel that merges pairs of sorted runs of records ``(rows * size + 1,)``; a run is tiles or more."""
    rows, size = tiles.rows, tiles.size
    threads, share = _merging_threads(tiles, most_threads, local_bytes)
    tile = threads * share
    count = -(-size // tile)
    code = RecordCode(rows * size)
    results = code.params(tiles.words, rows * size + 1, mutable=True)
    sources = code.params(tiles.words, rows * size + 1, mutable=False)
    arrays = code.arrays(k.Memory.LOCAL, tiles.words, tile)
    search = _Search.of(code, size, threads)
    bounds = code.define(k.Memory.REGISTER, code.position, 2)
    group = code.index(k.Axis.GROUP, 0, rows * count, code.position)
    thread = code.index(k.Axis.LOCAL, 0, threads, code.position)
    row = code.times(code.over(group, Immediate(count)), Immediate(size))
    start = code.times(code.rest(group, Immediate(count)), Immediate(tile))
    state = code.cast(
        code.least(code.load(sources[-1], code.at(rows * size)), Immediate(size.bit_length())), code.position
    )
    _write_state(code, results, rows * size, code.plus(state, Immediate(1)), group, thread)

    base, middle, left, right, first, last = _Runs.at(code, state, start, size, tile)

    def record(place: k.ValueId, mask: k.ValueId | None = None) -> Words:
        return code.read(sources, code.plus(row, code.within(place, size)), mask)

    def is_taken(place: k.ValueId, diagonal: k.ValueId, mask: k.ValueId) -> k.ValueId:
        """Return whether that record of the first run is among the first `diagonal` ones of both."""
        other = code.plus(middle, code.minus(code.minus(diagonal, Immediate(1)), place))
        return code.comes_before(record(code.plus(base, place), mask), record(other, mask))

    split, end = search.splits(thread, (first, last), left, right, is_taken)
    mine, others = code.minus(end, split), code.minus(code.minus(last, first), code.minus(end, split))
    total = code.plus(mine, others)
    from_left = code.plus(base, split)
    from_right = code.minus(code.plus(middle, code.minus(first, split)), mine)
    for turn in range(share):
        place = code.plus(thread, Immediate(turn * threads))
        source = code.plus(place, code.where(code.less(place, mine), from_left, from_right))
        code.write(arrays, place, record(source))
    code.barrier()

    merged = _merge_share(code, arrays, bounds, thread, share, mine, total)
    code.barrier()
    for turn, value in enumerate(merged):
        code.write(arrays, code.plus(code.times(thread, Immediate(share)), Immediate(turn)), value)
    code.barrier()
    for turn in range(share):
        place = code.plus(thread, Immediate(turn * threads))
        target = code.plus(start, place)
        index = code.plus(row, code.within(target, size))
        code.write(results, index, code.read(arrays, place), code.less(place, total))
    shape = (rows * size + 1,)
    return CustomKernel(code.finish(f"merge_{size}"), tuple((shape, word) for word in tiles.words))


def _merging_threads(tiles: Tiles, most_threads: int, local_bytes: int) -> tuple[int, int]:
    """Return how many threads a group that merges has, and how many records each of them writes."""
    nbytes = sum(word.itemsize for word in tiles.words)
    threads = previous_power(min(_MERGING_THREADS, most_threads, tiles.tile))
    share = min(_MERGED_BY_ONE, tiles.tile // threads)
    while threads * (share * nbytes + 8) + 64 * 8 > local_bytes and threads * share > 4:
        threads, share = (threads, share // 2) if share > 1 else (threads // 2, 1)
    return threads, share


class _Runs(NamedTuple):
    """The two runs of a row of which a group merges a part.

    Attributes:
        base, middle: Where they start.
        left, right: How many records they have.
        first, last: From where to where the group writes, counted from `base`.
    """

    base: k.ValueId
    middle: k.ValueId
    left: k.ValueId
    right: k.ValueId
    first: k.ValueId
    last: k.ValueId

    @classmethod
    def at(cls, code: RecordCode, state: k.ValueId, start: k.ValueId, size: int, tile: int) -> Self:
        """Return those of a group that writes `tile` records from `start` on, where runs have ``2 ** state``."""
        run = code.up(code.at(1), state)
        above = code.plus(state, Immediate(1))
        base = code.up(code.down(start, above), above)
        left = code.most(code.least(run, code.minus(code.at(size), base)), Immediate(0))
        middle = code.plus(base, left)
        right = code.most(code.least(run, code.minus(code.at(size), middle)), Immediate(0))
        first = code.minus(start, base)
        last = code.least(code.plus(first, Immediate(tile)), code.plus(left, right))
        return cls(base, middle, left, right, first, last)


def _merge_share(
    code: RecordCode, arrays: Words, bounds: k.ValueId, thread: k.ValueId, share: int, mine: k.ValueId, total: k.ValueId
) -> list[Words]:
    """Return the records of this thread: `share` ones of what two sorted runs in local memory give."""
    define = code.ops[arrays[0]]
    assert isinstance(define, k.Define)
    tile = define.length
    others = code.minus(total, mine)
    diagonal = code.least(code.times(thread, Immediate(share)), total)
    low, high = code.at(0), code.at(1)
    code.store(bounds, low, code.most(code.minus(diagonal, others), Immediate(0)))
    code.store(bounds, high, code.least(diagonal, mine))

    def local(place: k.ValueId) -> Words:
        return code.read(arrays, code.within(place, tile))

    code.loop(tile.bit_length(), code.position)
    least, most = code.load(bounds, low), code.load(bounds, high)
    middle = code.down(code.plus(least, most), Immediate(1))
    other = code.plus(mine, code.minus(code.minus(diagonal, Immediate(1)), middle))
    is_taken = code.comes_before(local(middle), local(other))
    is_open = code.less(least, most)
    up = code.both(is_open, is_taken)
    code.store(bounds, low, code.where(up, code.plus(middle, Immediate(1)), least))
    code.store(bounds, high, code.where(up, most, code.where(is_open, middle, most)))
    code.end_loop()
    i = code.load(bounds, low)
    j = code.plus(mine, code.minus(diagonal, i))
    merged: list[Words] = []
    x, y = local(i), local(j)
    for _ in range(share):
        is_left = code.both(code.less(i, mine), code.either(code.at_most(total, j), code.comes_before(x, y)))
        merged.append(code.choose(is_left, x, y))
        i = code.where(is_left, code.plus(i, Immediate(1)), i)
        j = code.where(is_left, j, code.plus(j, Immediate(1)))
        x, y = local(i), local(j)
    return merged


@dataclass(frozen=True, slots=True)
class _Search:
    """Two searches at once, by some threads of a group each: each round leaves one of as many parts as these are.

    Attributes:
        code: To write to.
        parts: How many threads search for one place.
        rounds: Until one place is left.
        flags: Local memory, ``(2, parts + 1)``: whether what each thread looked at holds.
        found: Local memory, ``(rounds + 1, 2)``: for how many threads it does; then the results.
    """

    code: RecordCode
    parts: int
    rounds: int
    flags: k.ValueId
    found: k.ValueId

    @classmethod
    def of(cls, code: RecordCode, size: int, threads: int) -> Self:
        """Return searches in rows of that size, by groups of that many threads."""
        parts = min(_SEARCHING_THREADS, threads // 2)
        rounds = -(-size.bit_length() // max(1, parts.bit_length() - 1))
        flags = code.define(k.Memory.LOCAL, dtypes.int32, 2 * (parts + 1))
        found = code.define(k.Memory.LOCAL, dtypes.int32, 2 * (rounds + 1))
        return cls(code, parts, rounds, flags, found)

    def splits(
        self,
        thread: k.ValueId,
        diagonals: tuple[k.ValueId, k.ValueId],
        left: k.ValueId,
        right: k.ValueId,
        is_taken: Callable[[k.ValueId, k.ValueId, k.ValueId], k.ValueId],
    ) -> tuple[k.ValueId, k.ValueId]:
        """Return for both `diagonals` how many of the first run's `left` elements are among so many of both runs.

        ``is_taken(place, diagonal, mask)`` says so of the element at a place, where the mask holds.
        """
        code, parts = self.code, self.parts
        zero, one = code.const(0, dtypes.int32), code.const(1, dtypes.int32)
        is_first = code.equal(thread, Immediate(0))
        for number in range(2 * self.rounds):
            code.store(self.found, code.at(number), zero, is_first)
        for number in range(2):
            code.store(self.flags, code.at(number * (parts + 1) + parts), zero, is_first)
        searches = code.less(thread, Immediate(2 * parts))
        part = code.both(thread, Immediate(parts - 1))
        which = code.both(code.down(thread, Immediate(parts.bit_length() - 1)), Immediate(1))
        flag = code.plus(code.times(which, Immediate(parts + 1)), part)
        diagonal = code.where(code.equal(which, Immediate(0)), *diagonals)
        low, high = code.most(code.minus(diagonal, right), Immediate(0)), code.least(diagonal, left)
        for turn in range(self.rounds):
            step = code.down(code.plus(code.minus(high, low), Immediate(parts - 1)), Immediate(parts.bit_length() - 1))
            place = code.plus(low, code.times(part, step))
            is_open = code.both(searches, code.less(place, high))
            holds = code.both(is_open, is_taken(place, diagonal, is_open))
            code.store(self.flags, flag, code.where(holds, one, zero), searches)
            code.barrier()
            after = code.load(self.flags, code.plus(flag, Immediate(1)))
            slot = code.plus(which, Immediate(2 * turn))
            count = code.cast(code.plus(part, Immediate(1)), dtypes.int32)
            code.store(self.found, slot, count, code.both(holds, code.equal(after, zero)))
            code.barrier()
            count = code.cast(code.load(self.found, slot), code.position)
            over = code.plus(low, code.times(count, step))
            is_some = code.less(code.at(0), count)
            low, high = (
                code.where(is_some, code.plus(code.minus(over, step), Immediate(1)), low),
                code.least(high, over),
            )
        is_result = code.both(searches, code.equal(part, Immediate(0)))
        code.store(self.found, code.plus(which, Immediate(2 * self.rounds)), code.cast(low, dtypes.int32), is_result)
        code.barrier()
        first, last = (code.load(self.found, code.at(2 * self.rounds + number)) for number in range(2))
        return code.cast(first, code.position), code.cast(last, code.position)
