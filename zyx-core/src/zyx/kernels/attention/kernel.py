"""The kernel of attention by warps, on devices that have an instruction for products of matrices.

A group has a block of queries of one head, each of its warps 16 or 32 of them, and goes over the keys block by block.
What a softmax needs of a whole row, its maximum and its sum, is kept as it is known so far; where the maximum grows,
what was summed up before is scaled down (Milakov, Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et
al., "FlashAttention", 2022). So scores never lie in memory.

    scores[i, j] = sum(d) of q[i, d] * k[j, d]          tiles of 16 x 8 results, 16 points of the sum
    out[i, e]    = sum(j) of weights[i, j] * v[j, e]    the same, with the scores' tiles as the first factor

A thread holds four numbers of a tile of scores: two neighbouring columns of two rows, ``lane // 4`` and 8 below. It
holds numbers of the same rows of the first factor of the second product, at columns that are free as long as both
factors agree (`zyx.lowering.fragments`). Here these are what it has of scores, and a key is given to a column such that
a thread has neighbours: of 32 keys, 8 for each of the four threads of a row.

    key = 32 * part + 8 * (lane % 4) + 2 * tile + column % 2              for tiles 0 to 3 of a part

So no weight goes to another thread, and a thread reads 16 bytes of the values at a time, which are turned over on their
way to local memory. What threads read together of it lies in different banks: where rows are a multiple of 128 bytes,
odd rows have their halves exchanged.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.backend.library import Attention
from zyx.kernel import data as k
from zyx.kernel.wmma import WARP
from zyx.kernels.attention.problem import BLOCK_KEYS, DIMS, PART, PIECE, Places
from zyx.kernels.code import Code, Immediate
from zyx.kernels.custom import CustomKernel
from zyx.ops import BinaryOp, UnaryOp

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zyx.dtype import DType
    from zyx.kernels.attention.problem import Change, Sizes
    from zyx.shape import Shape

_ROWS, _COLUMNS, _DEPTH = DIMS
#: How many numbers of a tile of results a thread has.
_HELD: Final = 4
#: Neighbours of a row of values that a thread reads at a time, to turn them over.
_TURNED: Final = 4
#: Tiles of columns whose sums grow side by side: an instruction's result is there only after several others.
_CHAINS: Final = 4
_LOG2_E: Final = math.log2(math.e)


def attention_kernel(sizes: Sizes, shape: Shape, dtype: DType, change: Change | None) -> CustomKernel:
    """Return the kernel. Its inputs are q ``(heads, queries, width)``, k, v and the arrays of `change`.

    The result, ``(heads, queries, width_out)``, has the dtype of q, and `shape`, which may divide the heads.
    """
    writer = _Writer(sizes, dtype, change)
    return CustomKernel(writer.written(), ((shape, dtype),), problem=None if change else _problem(sizes, dtype))


def _problem(sizes: Sizes, dtype: DType) -> Attention | None:
    """Return what a library may compute in place of the kernel."""
    is_causal = sizes.behind is not None
    sees_some = not is_causal or sizes.queries <= sizes.keys  # whether no query's keys are all hidden
    if sizes.width != sizes.width_out or not sees_some or sizes.behind not in (None, sizes.keys - sizes.queries):
        return None
    heads, scale = sizes.heads, sizes.scale
    return Attention(1, heads, heads, sizes.queries, sizes.keys, sizes.width, is_causal, scale, dtype)


class _Writer:
    """Writes one kernel."""

    def __init__(self, sizes: Sizes, dtype: DType, change: Change | None) -> None:
        self._sizes = sizes
        self._dtype = dtype
        self._change = change
        heads, width, wide = sizes.heads, sizes.width, sizes.width_out
        most = heads * max(sizes.queries, sizes.keys) * max(width, wide)
        code = self._code = Code(most)
        memory, wider, wide_out = k.Memory, *sizes.padded
        self._out = code.define(memory.GLOBAL, dtype, heads * sizes.queries * wide)
        self._q = code.define(memory.GLOBAL, dtype, heads * sizes.queries * width, mutable=False)
        self._k = code.define(memory.GLOBAL, dtype, heads * sizes.keys * width, mutable=False)
        self._v = code.define(memory.GLOBAL, dtype, heads * sizes.keys * wide, mutable=False)
        self._arrays = [
            code.define(memory.GLOBAL, kind, length, mutable=False)
            for kind, length in (change.arrays if change else ())
        ]
        self._local_k = code.define(memory.LOCAL, dtype, BLOCK_KEYS * wider)
        self._local_v = code.define(memory.LOCAL, dtype, wide_out * BLOCK_KEYS)
        f32, tiles = dtypes.float32, sizes.row_tiles
        self._parts = wider // PART
        self._column_tiles = wide_out // _COLUMNS
        self._totals = code.define(memory.REGISTER, f32, tiles * self._column_tiles, lanes=_HELD)
        self._scores = code.define(memory.REGISTER, f32, tiles * (BLOCK_KEYS // _COLUMNS), lanes=_HELD)
        self._tops = code.define(memory.REGISTER, f32, tiles, lanes=_HELD)
        self._sums = code.define(memory.REGISTER, f32, tiles, lanes=_HELD)
        self._queries = code.define(memory.REGISTER, dtype, tiles * self._parts * 2, lanes=PIECE)
        self._turns = -(-wide_out // _TURNED * (BLOCK_KEYS // PIECE) // sizes.threads)

    def written(self) -> k.Kernel:
        """Return the kernel."""
        code, sizes = self._code, self._sizes
        blocks_of_rows = -(-sizes.queries // sizes.rows)
        group = code.index(k.Axis.GROUP, 0, sizes.heads * blocks_of_rows, code.position)
        self._thread = thread = code.index(k.Axis.LOCAL, 0, sizes.threads, code.position)
        self._head = code.over(group, Immediate(blocks_of_rows))
        block = code.rest(group, Immediate(blocks_of_rows))
        # The last queries see most keys: their groups come first.
        self._first = code.times(code.minus(code.at(blocks_of_rows - 1), block), Immediate(sizes.rows))
        lane = code.rest(thread, Immediate(WARP))
        self._place, self._line = code.rest(lane, Immediate(4)), code.over(lane, Immediate(4))
        warp = code.times(code.over(thread, Immediate(WARP)), Immediate(sizes.row_tiles * _ROWS))
        self._row = code.plus(code.plus(self._first, warp), self._line)  # the first one of this thread
        self._read_queries()
        for array, count, value in (
            (self._totals, sizes.row_tiles * self._column_tiles, 0.0),
            (self._tops, sizes.row_tiles, -math.inf),
            (self._sums, sizes.row_tiles, 0.0),
        ):
            for number in range(count):
                code.store(array, code.at(number), code.const(value, dtypes.float32, _HELD))
        blocks = -(-sizes.keys // BLOCK_KEYS)
        loop = code.loop(blocks, code.position)
        start = code.times(loop, Immediate(BLOCK_KEYS))
        if sizes.behind is not None:
            last = code.plus(self._first, Immediate(sizes.rows - 1 + sizes.behind))
            code.open_if(code.at_most(start, last))
        code.barrier()  # everybody is done with the block before
        self._copy_keys(start)
        self._copy_values(start)
        code.barrier()
        self._multiply_scores()
        if self._change is not None:
            self._change_scores(start, self._change)
        self._leave_out(start)
        for tile in range(sizes.row_tiles):
            self._weigh(tile)
        self._multiply_values()
        if sizes.behind is not None:
            code.end_if()
        code.end_loop()
        self._write()
        return code.finish(f"attention_{sizes.heads}x{sizes.queries}x{sizes.keys}x{sizes.width}")

    # ---- copies

    def _piece(self, array: k.ValueId, index: k.ValueId, is_there: k.ValueId | None, lanes: int) -> k.ValueId:
        """Return neighbours in memory; 0 where they are not there, whose `index` is within bounds all the same."""
        code = self._code
        piece = code.load(array, index, lanes)
        return piece if is_there is None else code.where(is_there, piece, code.like(0, piece))

    def _read_queries(self) -> None:
        code, sizes = self._code, self._sizes
        head = code.times(self._head, Immediate(sizes.queries))
        for tile in range(sizes.row_tiles):
            for half in range(2):
                row = code.plus(self._row, Immediate(tile * _ROWS + half * 8))
                row = code.least(row, Immediate(sizes.queries - 1))  # what is computed of others is not stored
                line = code.times(code.plus(head, row), Immediate(sizes.width))
                for part in range(self._parts):
                    at, is_there = self._along(part)
                    piece = self._piece(self._q, code.plus(line, at), is_there, PIECE)
                    code.store(self._queries, code.at((tile * self._parts + part) * 2 + half), piece)

    def _along(self, part: int) -> tuple[k.ValueId, k.ValueId | None]:
        """Return where in a row of queries or keys a thread's piece of a part starts, and whether it is there."""
        code, width = self._code, self._sizes.width
        at = code.plus(code.times(self._place, Immediate(PIECE)), Immediate(part * PART))
        if (part + 1) * PART <= width:
            return at, None
        return code.least(at, Immediate(width - PIECE)), code.less(at, Immediate(width))

    def _copy_keys(self, start: k.ValueId) -> None:
        """Copy this thread's part of the keys from `start` on to local memory."""
        code, sizes = self._code, self._sizes
        head, wider = code.times(self._head, Immediate(sizes.keys)), sizes.padded[0]
        for turn in range(BLOCK_KEYS * wider // PIECE // sizes.threads):
            key, chunk = self._of_keys(turn)
            at = code.times(chunk, Immediate(PIECE))
            there = [] if sizes.width == wider else [code.less(at, Immediate(sizes.width))]
            if there:
                at = code.least(at, Immediate(sizes.width - PIECE))
            row, in_block = self._within(code.plus(start, key))
            index = code.plus(code.times(code.plus(head, row), Immediate(sizes.width)), at)
            piece = self._piece(self._k, index, self._all([*there, *in_block]), PIECE)
            code.store(self._local_k, self._place_of(key, chunk, wider), piece)

    def _copy_values(self, start: k.ValueId) -> None:
        """Copy this thread's part of the values from `start` on to local memory, turned over."""
        code, sizes = self._code, self._sizes
        head, wide = code.times(self._head, Immediate(sizes.keys)), sizes.padded[1]
        for turn in range(self._turns):
            chunk, column = self._of_values(turn)
            has_rest = (turn + 1) * sizes.threads * _TURNED > wide * (BLOCK_KEYS // PIECE)
            if has_rest:
                code.open_if(code.less(column, Immediate(wide)))
            there = [] if sizes.width_out == wide else [code.less(column, Immediate(sizes.width_out))]
            at = code.least(column, Immediate(sizes.width_out - _TURNED)) if has_rest or there else column
            rows: list[k.ValueId] = []
            for number in range(PIECE):
                key = code.plus(start, code.plus(code.times(chunk, Immediate(PIECE)), Immediate(number)))
                row, in_block = self._within(key)
                index = code.plus(code.times(code.plus(head, row), Immediate(sizes.width_out)), at)
                rows.append(self._piece(self._v, index, self._all([*there, *in_block]), _TURNED))
            for lane in range(_TURNED):
                turned = code.vectorize(tuple(code.devectorize(row, lane) for row in rows))
                code.store(self._local_v, self._place_of(code.plus(column, Immediate(lane)), chunk, BLOCK_KEYS), turned)
            if has_rest:
                code.end_if()

    def _within(self, key: k.ValueId) -> tuple[k.ValueId, list[k.ValueId]]:
        """Return a key that is there, and whether it is `key`, if that is not known."""
        code, keys = self._code, self._sizes.keys
        return (
            (key, [])
            if keys % BLOCK_KEYS == 0
            else (code.least(key, Immediate(keys - 1)), [code.less(key, Immediate(keys))])
        )

    def _all(self, conditions: Sequence[k.ValueId]) -> k.ValueId | None:
        found: k.ValueId | None = None
        for condition in conditions:
            found = condition if found is None else self._code.both(found, condition)
        return found

    def _of_keys(self, turn: int) -> tuple[k.ValueId, k.ValueId]:
        """Return the key, counted in the block, and the piece of its row that this thread copies at a turn."""
        code, pieces = self._code, self._sizes.padded[0] // PIECE
        number = code.plus(self._thread, Immediate(turn * self._sizes.threads))
        return code.over(number, Immediate(pieces)), code.rest(number, Immediate(pieces))

    def _of_values(self, turn: int) -> tuple[k.ValueId, k.ValueId]:
        """Return the piece of a column, of the values in the block, and the columns that this thread turns over."""
        code, pieces = self._code, BLOCK_KEYS // PIECE
        number = code.plus(self._thread, Immediate(turn * self._sizes.threads))
        return code.rest(number, Immediate(pieces)), code.times(
            code.over(number, Immediate(pieces)), Immediate(_TURNED)
        )

    def _place_of(self, row: k.ValueId, chunk: k.ValueId, width: int) -> k.ValueId:
        """Return where a piece of a row lies in local memory."""
        code = self._code
        if width % (2 * PART) == 0:
            chunk = code.differing(chunk, code.times(code.both(row, Immediate(1)), Immediate(4)))
        return code.plus(code.times(row, Immediate(width)), code.times(chunk, Immediate(PIECE)))

    # ---- products

    def _factors(self, piece: k.ValueId) -> tuple[k.ValueId, k.ValueId]:
        """Return the second factors of two instructions that a thread's piece of a row or column is."""
        code = self._code
        return code.shuffle(piece, piece, (0, 1, 2, 3)), code.shuffle(piece, piece, (4, 5, 6, 7))

    def _multiply_scores(self) -> None:
        code, sizes = self._code, self._sizes
        wider = sizes.padded[0]
        queries = [
            [
                code.load(self._queries, code.at((tile * self._parts + part) * 2 + half))
                for part in range(self._parts)
                for half in range(2)
            ]
            for tile in range(sizes.row_tiles)
        ]
        lefts = [
            [
                code.shuffle(pieces[2 * part], pieces[2 * part + 1], lanes)
                for part in range(self._parts)
                for lanes in ((0, 1, 8, 9, 2, 3, 10, 11), (4, 5, 12, 13, 6, 7, 14, 15))
            ]
            for pieces in queries
        ]
        # Of the keys of a part, that of column `line` of the first tile.
        nearest = code.plus(
            code.times(code.over(self._line, Immediate(2)), Immediate(8)), code.rest(self._line, Immediate(2))
        )
        for first in range(0, BLOCK_KEYS // _COLUMNS, _CHAINS):
            numbers = range(first, min(first + _CHAINS, BLOCK_KEYS // _COLUMNS))
            totals = [code.const(0.0, dtypes.float32, _HELD)] * (len(numbers) * sizes.row_tiles)
            for along in range(self._parts):
                chunk = code.plus(self._place, Immediate(4 * along))
                rights = []
                for number in numbers:
                    part, tile = divmod(number, PART // _COLUMNS)
                    key = code.plus(nearest, Immediate(PART * part + 2 * tile))
                    rights.append(self._factors(code.load(self._local_k, self._place_of(key, chunk, wider), PIECE)))
                for half in range(2):
                    for index, (right, row_tile) in enumerate(itertools.product(rights, range(sizes.row_tiles))):
                        left = lefts[row_tile][2 * along + half]
                        totals[index] = code.wmma(DIMS, left, right[half], totals[index])
            for total, (number, row_tile) in zip(
                totals, itertools.product(numbers, range(sizes.row_tiles)), strict=True
            ):
                code.store(self._scores, self._score(row_tile, number), total)

    def _score(self, row_tile: int, number: int) -> k.ValueId:
        return self._code.at(row_tile * (BLOCK_KEYS // _COLUMNS) + number)

    def _change_scores(self, start: k.ValueId, change: Change) -> None:
        """Let scores, scaled, become what they are to be."""
        code = self._code
        for row_tile, number, query, key in self._places(start):
            place = self._score(row_tile, number)
            score = code.load(self._scores, place)
            scaled = code.times(score, code.like(self._sizes.scale, score))
            where = Places(self._head, query, key)
            code.store(self._scores, place, change.written(code, self._arrays, scaled, where))

    def _leave_out(self, start: k.ValueId) -> None:
        """Let scores of keys that are not there, or not to be seen, become minus infinity, if the block has any."""
        code, sizes = self._code, self._sizes
        has_hidden: k.ValueId | None = None
        if sizes.behind is not None:
            nearest = code.plus(self._first, Immediate(sizes.behind))
            has_hidden = code.less(nearest, code.plus(start, Immediate(BLOCK_KEYS - 1)))
        if sizes.keys % BLOCK_KEYS:
            is_last = code.less(code.at(sizes.keys), code.plus(start, Immediate(BLOCK_KEYS)))
            has_hidden = is_last if has_hidden is None else code.either(has_hidden, is_last)
        if has_hidden is None:
            return
        code.open_if(has_hidden)
        for row_tile, number, query, key in self._places(start):
            place = self._score(row_tile, number)
            score = code.load(self._scores, place)
            seen = []
            if sizes.behind is not None:
                seen.append(code.at_most(key, code.plus(query, Immediate(sizes.behind))))
            if sizes.keys % BLOCK_KEYS:
                seen.append(code.less(key, Immediate(sizes.keys)))
            is_seen = self._all(seen)
            assert is_seen is not None
            code.store(self._scores, place, code.where(is_seen, score, code.like(-math.inf, score)))
        code.end_if()

    def _places(self, start: k.ValueId) -> Iterator[tuple[int, int, k.ValueId, k.ValueId]]:
        """Yield the tiles of rows and columns, with the numbers of the queries and keys that a thread has of them."""
        code = self._code
        own = code.plus(start, code.times(self._place, Immediate(PIECE)))
        for row_tile in range(self._sizes.row_tiles):
            rows = [code.plus(self._row, Immediate(row_tile * _ROWS + half * 8)) for half in range(2)]
            query = code.cast(code.vectorize((rows[0], rows[0], rows[1], rows[1])), dtypes.int32)
            for number in range(BLOCK_KEYS // _COLUMNS):
                part, tile = divmod(number, PART // _COLUMNS)
                first = code.plus(own, Immediate(PART * part + 2 * tile))
                second = code.plus(first, Immediate(1))
                yield row_tile, number, query, code.cast(code.vectorize((first, second, first, second)), dtypes.int32)

    def _weigh(self, row_tile: int) -> None:
        """Let the scores of a tile of rows become weights, and scale down what was summed up before."""
        code, sizes = self._code, self._sizes
        count = BLOCK_KEYS // _COLUMNS
        at = code.at(row_tile)
        before = top = code.load(self._tops, at)
        scores = [code.load(self._scores, self._score(row_tile, number)) for number in range(count)]
        for score in scores:
            top = code.most(top, score)
        top = code.most(top, code.shuffle(top, top, (1, 0, 3, 2)))
        for distance in (1, 2):
            top = code.most(top, code.swap(top, distance))
        code.store(self._tops, at, top)
        # Where nothing was seen yet, minus infinity less itself would be NaN.
        is_empty = code.equal(top, code.like(-math.inf, top))
        to_base_2 = _LOG2_E if self._change is not None else _LOG2_E * sizes.scale
        factor = code.const(to_base_2, dtypes.float32, _HELD)
        shift = code.times(code.where(is_empty, code.like(0.0, top), top), code.like(-to_base_2, top))
        scale = code.unary(UnaryOp.EXP2, code.mad(before, factor, shift))
        total = code.times(code.load(self._sums, at), scale)
        for number, score in enumerate(scores):
            weight = code.unary(UnaryOp.EXP2, code.mad(score, factor, shift))
            total = code.plus(total, weight)
            code.store(self._scores, self._score(row_tile, number), weight)
        code.store(self._sums, at, total)
        for number in range(self._column_tiles):
            place = code.at(row_tile * self._column_tiles + number)
            code.store(self._totals, place, code.times(code.load(self._totals, place), scale))

    def _multiply_values(self) -> None:
        code, sizes = self._code, self._sizes
        every = tuple(range(PIECE))
        lefts = [
            [
                code.shuffle(self._weights(row_tile, 2 * pair), self._weights(row_tile, 2 * pair + 1), every)
                for pair in range(BLOCK_KEYS // _DEPTH)
            ]
            for row_tile in range(sizes.row_tiles)
        ]
        for first in range(0, self._column_tiles, _CHAINS):
            numbers = range(first, min(first + _CHAINS, self._column_tiles))
            tiles = list(itertools.product(numbers, range(sizes.row_tiles)))
            places = [code.at(row_tile * self._column_tiles + number) for number, row_tile in tiles]
            totals = [code.load(self._totals, place) for place in places]
            for part in range(BLOCK_KEYS // PART):
                chunk = code.plus(self._place, Immediate(4 * part))
                rights = []
                for number in numbers:
                    column = code.plus(self._line, Immediate(number * _COLUMNS))
                    piece = code.load(self._local_v, self._place_of(column, chunk, BLOCK_KEYS), PIECE)
                    rights.append(self._factors(piece))
                for half in range(2):
                    for index, (right, row_tile) in enumerate(itertools.product(rights, range(sizes.row_tiles))):
                        left = lefts[row_tile][2 * part + half]
                        totals[index] = code.wmma(DIMS, left, right[half], totals[index])
            for place, total in zip(places, totals, strict=True):
                code.store(self._totals, place, total)

    def _weights(self, row_tile: int, number: int) -> k.ValueId:
        return self._code.cast(self._code.load(self._scores, self._score(row_tile, number)), self._dtype)

    # ---- results

    def _write(self) -> None:
        code, sizes = self._code, self._sizes
        head = code.times(self._head, Immediate(sizes.queries))
        for row_tile in range(sizes.row_tiles):
            total = code.load(self._sums, code.at(row_tile))
            total = code.plus(total, code.shuffle(total, total, (1, 0, 3, 2)))
            for distance in (1, 2):
                total = code.plus(total, code.swap(total, distance))
            if sizes.is_guarded:
                total = code.where(code.equal(total, code.like(0.0, total)), code.like(1.0, total), total)
            for half in range(2):
                row = code.plus(self._row, Immediate(row_tile * _ROWS + half * 8))
                code.open_if(code.less(row, Immediate(sizes.queries)))
                line = code.times(code.plus(head, row), Immediate(sizes.width_out))
                divisor = code.shuffle(total, total, (2 * half, 2 * half + 1))
                for number in range(sizes.width_out // _COLUMNS):
                    sums = code.load(self._totals, code.at(row_tile * self._column_tiles + number))
                    pair = code.shuffle(sums, sums, (2 * half, 2 * half + 1))
                    value = code.cast(code.binary(BinaryOp.DIV, pair, divisor), self._dtype)
                    column = code.plus(code.times(self._place, Immediate(2)), Immediate(number * _COLUMNS))
                    code.store(self._out, code.plus(line, column), value)
                code.end_if()
