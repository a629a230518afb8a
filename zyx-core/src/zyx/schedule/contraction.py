"""Sums of products, whoever wrote them: products of matrices, convolutions, ``(a * b).sum()``.

    c[b, i, j, u] = sum(k, l) of x[b, i, k, l] * y[b, j, k]

i are the rows, which the one factor goes along, and j the columns, which the other does; b is the batch of both, and u
the results that are alike. k is the depth. `find_contraction` finds such a sum in a nest. What is to be known of it
for a schedule, or for a library, is asked of what it finds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zyx.nest import expr as e
from zyx.nest.accesses import expressions_of, reads_in, serial_ranges, step_along, stride_along
from zyx.nest.data import Compute, Scan, Store
from zyx.ops import BinaryOp, ReduceOp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend.info import DeviceInfo
    from zyx.nest.data import Nest, Statement
    from zyx.nest.expr import Expr, Range

#: A range of so many points makes a side of any block.
_LONG: Final = 128


@dataclass(frozen=True, slots=True)
class Sides:
    """What ranges are to the factors `x` and `y` of a sum of products.

    Attributes:
        rows, columns: Those of the results that x goes along and y does not depend on, and the other way round.
        batch: Those that both depend on.
        depth: What is summed up and both go along.
    """

    rows: Sequence[Range]
    columns: Sequence[Range]
    batch: Sequence[Range]
    depth: Sequence[Range]


@dataclass(frozen=True, slots=True)
class Matrices:
    """The ranges of a product of matrices; of several that could be one, the longest is it.

    Attributes:
        sides: Rows and columns. The results of neighbouring columns lie side by side, if those of either do.
        reads: Their factors.
        depth: What is summed up.
        others: Other ranges of the results, and of the sum.
        near: For rows and columns, which of these and the depth their factor lies side by side along, if along one.
    """

    sides: tuple[Range, Range]
    reads: tuple[e.Read, e.Read]
    depth: Range
    others: tuple[Sequence[Range], Sequence[Range]]
    near: tuple[Range | None, Range | None]


@dataclass(frozen=True, slots=True)
class Contraction:
    """A sum of products in a nest.

    Attributes:
        statement: The sum.
        factors: What is multiplied.
        is_converted: Whether products are converted before they are added up.
        reads: What is read for that.
        others: The other statements: what the factors are computed from, what uses the results, how those are stored.
    """

    statement: Compute
    factors: tuple[Expr, Expr]
    is_converted: bool
    reads: tuple[e.Read, ...]
    others: tuple[Statement, ...]

    @property
    def stores(self) -> list[Store]:
        """What stores results."""
        return [statement for statement in self.others if isinstance(statement, Store)]

    @property
    def is_by_results(self) -> bool:
        """Whether everything else is done for each result by itself, in any order."""
        kept = {*self.statement.value.ranges}
        for other in self.others:
            if isinstance(other, Scan) or (isinstance(other, Compute) and other.op is not None):
                return False
            if not kept <= {*other.order} or not kept.isdisjoint(serial_ranges(other)):
                return False
        return True

    def is_native(self, info: DeviceInfo) -> bool:
        """Whether a device computes with all dtypes of the sum by itself."""
        return all(info.can_compute(x.dtype) for x in expressions_of(self.statement) if isinstance(x, e.Apply2))

    def along(self, range_: Range) -> list[e.Read]:
        """Return the reads that go along a range."""
        return [read for read in self.reads if read.index.free & range_.bit]

    def shared(self, *reads: e.Read) -> list[Range]:
        """Return the ranges of the results, of several points, that none of `reads` goes along."""
        taken = 0
        for read in reads:
            taken |= read.index.free
        return [r for r in self.statement.value.ranges if r.size > 1 and not taken & r.bit]

    def sides(self, x: e.Read, y: e.Read) -> Sides:
        """Classify the ranges by which of the two factors `x` and `y` have them: rows, columns, batch and depth."""
        kept = self.statement.value.ranges
        return Sides(
            [r for r in kept if x.index.free & ~y.free & r.bit],
            [r for r in kept if y.index.free & ~x.free & r.bit],
            [r for r in kept if x.free & y.free & r.bit],
            [r for r in self.statement.reduced if x.index.free & y.index.free & r.bit],
        )

    def matrices(self, x: e.Read, y: e.Read) -> Matrices | None:
        """Return rows and columns of the sum as one product of matrices, if `x` and `y` are all that is read.

        None if no factor goes along the rows alone, or none along the columns; or if nothing is summed that both go
        along. Where results lie side by side along neither side the rows are those of `x`; along both, those of `y`.
        """
        sides = self.sides(x, y)
        if not sides.rows or not sides.columns or not sides.depth:
            return None
        stores = self.stores
        pairs = [(_longest(sides.rows, stores), x), (_longest(sides.columns, stores), y)]
        if any(stride_along(store.index, pairs[0][0]) == 1 for store in stores):
            pairs.reverse()  # a thread has neighbouring results in a row
        (rows, left), (columns, right) = pairs
        depth = max(sides.depth, key=_size)
        kept = [range_ for range_ in self.statement.value.ranges if range_ not in (rows, columns)]
        reduced = [range_ for range_ in self.statement.reduced if range_ is not depth]
        near = _near(left, rows, depth), _near(right, columns, depth)
        return Matrices((rows, columns), (left, right), depth, (kept, reduced), near)


def find_contraction(nest: Nest, *, of_several: bool = False) -> Contraction | None:
    """Return the sum of products of a nest whose reads are each used for several results, if it has one.

    A sum whose results other statements combine again is none: the tiles of its results would be shared out over groups
    and lanes that have to meet. So are the distances between pairs of points, of which the nearest is wanted. Neither
    is a sum of products with conditions, which may share a launch with others: see `zyx.fusion.arrange`.

    With `of_several`, what is summed may be several products added up, the first of which has the `factors`.
    """
    for statement in nest.statements:
        if not isinstance(statement, Compute) or statement.op is not ReduceOp.SUM:
            continue
        product = statement.expr
        while isinstance(product, e.Convert) or (of_several and _is_added(product)):
            product = product.x  # type: ignore[attr-defined]  # both have it
        if not isinstance(product, e.Apply2) or product.op is not BinaryOp.MUL:
            continue
        is_converted = product is not statement.expr
        others = tuple(other for other in nest.statements if other is not statement)
        found = Contraction(statement, (product.x, product.y), is_converted, tuple(reads_in(statement)), others)
        kept = found.shared()
        combined = {range_ for other in others for range_ in serial_ranges(other)}
        if len(found.reads) > 1 and len(kept) > 1 and combined.isdisjoint(kept):
            if all(found.shared(read) for read in found.reads):
                return found
    return None


def _is_added(expr: Expr) -> bool:
    return isinstance(expr, e.Apply2) and expr.op is BinaryOp.ADD


def _longest(ranges: Sequence[Range], stores: Sequence[Store]) -> Range:
    """Return the longest range; a contiguous one of the results, if there is one almost as long."""
    longest = max(ranges, key=_size)
    neighbours = [r for r in ranges if any(stride_along(store.index, r) == 1 for store in stores)]
    return next((r for r in neighbours if r.size >= min(_LONG, longest.size // 2)), longest)


def _near(read: e.Read, side: Range, depth: Range) -> Range | None:
    steps = {range_: step_along(read.index, range_) for range_ in (side, depth)}
    found = [range_ for range_, step in steps.items() if step == 1]
    return found[0] if len(found) == 1 else None


def _size(range_: Range) -> int:
    return range_.size
