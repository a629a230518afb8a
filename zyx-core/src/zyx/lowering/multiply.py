"""Write products of matrices by warps.

A thread loads its part of both factors, as vectors along the depth where they lie side by side there, and has four
results: rows ``lane // 4`` and 8 below, times two neighbouring columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.kernel import data as k
from zyx.kernel.data import Type, ValueId
from zyx.lowering.fragments import fragments_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zyx.lowering.writer import Env, LoweringState
    from zyx.nest.data import Compute, MatrixTile
    from zyx.nest.expr import Expr

#: The results of a thread.
RESULTS: Final = Type(dtypes.float32, 4)


class Multiplication:
    """Writes the products of matrices in one nest."""

    def __init__(self, writer: LoweringState) -> None:
        self._builder = writer.builder
        self._emitter = writer.emitter
        self._pool = writer.pool
        self._fragments: dict[Compute, tuple[Expr, Expr]] = {}

    def add_product(self, statement: Compute, total: ValueId, point: Env) -> ValueId:
        """Return `total`, the results of each thread, plus the product of the tiles at `point`.

        The vector range of the emitter must be that of `statement`.
        """
        matrix = statement.matrix
        assert matrix is not None
        if statement not in self._fragments:
            self._fragments[statement] = fragments_of(self._pool, statement)
        left, right = self._fragments[statement]
        rows = [self._factor(left, {**point, matrix.half: self._pool.index(half)}) for half in range(2)]
        column = self._factor(right, point)
        lanes = matrix.dims[2] // matrix.depth[0].size
        together = 4 // matrix.itemsize
        for start in range(0, matrix.depth[1].size, lanes):
            a = self._interleaved(rows, start, lanes, together)
            b = column if lanes == matrix.depth[1].size else self._picked(column, column, range(start, start + lanes))
            total = self._builder.add(k.Wmma(matrix.dims, a, b, total, RESULTS))
        return total

    def results(self, matrix: MatrixTile, point: Env) -> Iterator[tuple[int, Env]]:
        """Yield the number and the point of each result of a thread."""
        for half in range(2):
            for pair in range(2):
                yield 2 * half + pair, {
                    **point, matrix.half: self._pool.index(half), matrix.pair: self._pool.index(pair)
                }  # fmt: skip

    def result(self, results: ValueId, number: int) -> ValueId:
        """Return one of the results of a thread."""
        depth = self._builder.depth_of(results)
        return self._builder.add(k.Devectorize(results, number, Type(RESULTS.dtype)), depth)

    def _factor(self, factor: Expr, point: Env) -> ValueId:
        (fixed,) = self._pool.substitute([factor], point)
        return self._emitter.emit_wide(fixed)

    def _interleaved(self, rows: Sequence[ValueId], start: int, count: int, together: int) -> ValueId:
        """Return `count` elements of each of two rows from `start` on, in turn, `together` of each."""
        first, second = rows
        width = self._builder.type_of(first).lanes
        lanes = [
            row * width + pair + item
            for pair in range(start, start + count, together)
            for row in range(2)
            for item in range(together)
        ]
        return self._picked(first, second, lanes)

    def _picked(self, first: ValueId, second: ValueId, lanes: Sequence[int]) -> ValueId:
        """Return lanes of two vectors."""
        key = ("picked", first, second, *lanes)
        found = self._builder.find(key)
        if found is not None:
            return found
        depth = max(self._builder.depth_of(first), self._builder.depth_of(second))
        type_ = Type(self._builder.type_of(first).dtype, len(lanes))
        return self._builder.remember(key, self._builder.add(k.Shuffle(first, second, tuple(lanes), type_), depth))
