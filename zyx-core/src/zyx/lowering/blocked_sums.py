"""Blocked summation of floats, so that the rounding errors of long sums stay as small as those of sums by pairs.

    for i < 100000: a += x[i]        for b < 2000:
                                =>       a = 0
                                         for j < 50: a += x[50 * b + j]
                                         s += a
                                         if b + 1 is a multiple of 8:  t += s;  s = 0;  of 64:  u += t;  t = 0

An accumulator that n terms are added to one by one loses up to n / 2 units of its last place: much of that where the
terms are alike, since all roundings of one power of two then go the same way. Here no accumulator takes more than some
tens of terms (`_TERMS`), so that the loss grows with the logarithm of their number, as that of sums by pairs. And
unlike a sum with a term of correction it is what it was for infinities and NaN, and stands up to compilers that reorder
additions. The loop over a block is as fast as it was; what is done between blocks is a few additions for many.

This is done wherever a sum is written as loops, whatever its schedule is, and changes nothing else. Products need
none of it: their relative errors add up in any order. Extremes and integers have no errors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zyx.arithmetic.parts import divisor_among, even_length
from zyx.lowering.storage import InArray
from zyx.nest.accesses import combined_ranges
from zyx.nest.data import Compute, Kind, Scan, Store
from zyx.ops import ReduceOp

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.lowering.storage import Storage
    from zyx.lowering.tree import RangeLoop, Tree
    from zyx.nest.data import Nest
    from zyx.nest.expr import Range, Value

#: Terms of a block, at most; a sum of up to twice as many is not cut.
_TERMS: Final = 64
#: The same for more than `_MANY` results of a product of matrices, which a processor puts aside and back from block to
#: block; and in kernels whose threads share copies of the factors, where they would take registers from other threads,
#: and the first copies of each block are waited for.
_TERMS_OF_MANY: Final = 256
_TERMS_OF_THREADS: Final = 2048
_MANY: Final = 8
#: Terms of the accumulators above.
_FAN_IN: Final = 8


@dataclass(frozen=True, slots=True)
class BlockedSum:
    """How a statement goes from block to block.

    Attributes:
        loop: The loop that is cut.
        around: The ranges of loops around it that the statement combines over, outermost first.
        carries: After every so many blocks the first accumulator above that of a block is full, the second and so on;
            the last one never is.
    """

    loop: RangeLoop
    around: tuple[Range, ...]
    carries: tuple[int, ...]


class BlockedSums:
    """The blocks of one nest.

    Attributes:
        lengths: Points of a block, for every loop that is cut.
        of: How the statements that are cut go from block to block.
    """

    def __init__(self, nest: Nest, tree: Tree, storage: Mapping[Value, Storage]) -> None:
        self._nest = nest
        self._storage = storage
        self._has_threads = any(nest.kind(range_) is Kind.LOCAL for range_ in nest.ranges)
        self.lengths: Final[dict[RangeLoop, int]] = {}
        self.of: Final[dict[Compute | Scan, BlockedSum]] = {}
        chosen: dict[Compute | Scan, tuple[RangeLoop, tuple[Range, ...]]] = {}
        for statement, path in tree.paths.items():
            if isinstance(statement, Store) or statement.op is not ReduceOp.SUM or not statement.value.dtype.is_float:
                continue
            found = self._choose(statement, path)
            if found is not None:
                loop, around, length = found
                self.lengths[loop] = min(length, self.lengths.get(loop, length))
                chosen[statement] = loop, around
        for statement, (loop, around) in chosen.items():
            blocks = self.count(loop) * math.prod(range_.size for range_ in around)
            carries = [_FAN_IN]
            while carries[-1] < blocks:
                carries.append(carries[-1] * _FAN_IN)
            self.of[statement] = BlockedSum(loop, around, tuple(carries[:-1]))

    def count(self, loop: RangeLoop) -> int:
        """Return the number of blocks of a loop; what is left over, or written apart, is one of them."""
        whole, rest = divmod(loop.range.size - self.is_peeled(loop), self.lengths[loop])
        return whole + (rest > 0 or self.is_peeled(loop))

    def is_peeled(self, loop: RangeLoop) -> bool:
        """Whether the last point of a loop is written apart."""
        return loop.range in self._nest.peeled and loop.range.size > 1

    def _choose(
        self, statement: Compute | Scan, path: Sequence[RangeLoop]
    ) -> tuple[RangeLoop, tuple[Range, ...], int] | None:
        """Return (loop to cut, ranges around it that are combined over, points of a block), if the sum is long."""
        combined = combined_ranges(statement)
        kinds = self._nest.kind
        in_turn = (Kind.REPEAT, Kind.UNROLL, Kind.VECTOR) if isinstance(statement, Scan) else (Kind.REPEAT,)
        chain = math.prod(r.size for r in combined if kinds(r) in in_turn)
        results = math.prod(
            r.size
            for r in statement.order
            if (kinds(r) in (Kind.UNROLL, Kind.REPEAT) and r not in combined)
            or (kinds(r) is Kind.VECTOR and self._has_threads)  # the vectors of threads are registers each
        )
        start = next((depth for depth, loop in enumerate(path) if loop.range in combined), len(path))
        # If accumulators are an array along loops in between, it is gone over as a whole from block to block.
        stop = next((depth for depth in range(start, len(path)) if path[depth].range not in combined), len(path))
        chain *= math.prod(loop.range.size for loop in path[stop:] if loop.range in combined)
        place = self._storage[statement.value] if isinstance(statement, Compute) else None
        if stop < len(path) and isinstance(place, InArray) and place.shared:
            return None  # local memory is scarce: it has room for one of them
        terms = _TERMS if results <= _MANY else _TERMS_OF_THREADS if self._has_threads else _TERMS_OF_MANY
        for depth in reversed(range(start, stop)):
            loop = path[depth]
            if loop.range.size > 1 and chain * loop.range.size > 2 * terms:
                points, most = loop.range.size - self.is_peeled(loop), max(1, terms // chain)
                length = divisor_among(points, range(most, most // 2, -1)) or even_length(points, most)
                return loop, tuple(outer.range for outer in path[start:depth]), length
            chain *= loop.range.size
        return None
