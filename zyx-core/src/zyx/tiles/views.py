"""What a nest reads and writes, as matrices of tiles: places in buffers along the ranges that a block has."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from zyx.errors import UnsupportedError
from zyx.nest import expr as e
from zyx.nest.masks import conjunction
from zyx.tiles.data import Matrix

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zyx.dtype import DType
    from zyx.nest.expr import Expr, Param, Range

#: The most tiles beside each other in what is folded: half of what a block may have.
_MOST_FOLDED: Final = 32


@dataclass(frozen=True, slots=True)
class Frame:
    """Which ranges the matrices of some values have.

    Attributes:
        batch: Ranges of which each point has a matrix of its own, with the axis of the program of each.
        rows, columns: Those along which a matrix goes, with their axes; None where it has one row, or one column.
        folded: A range that goes along rows and columns, row after row, with the axes of both, and the columns.
    """

    batch: tuple[tuple[Range, int], ...] = ()
    rows: tuple[Range, int] | None = None
    columns: tuple[Range, int] | None = None
    folded: tuple[Range, int, int, int] | None = None

    @property
    def matrix(self) -> tuple[int | None, int | None]:
        """The axes of rows and columns."""
        if self.folded is not None:
            return self.folded[1:3]
        rows, columns = (None if pair is None else pair[1] for pair in (self.rows, self.columns))
        return rows, columns

    @property
    def bits(self) -> int:
        """All ranges, as `Expr.free` has them."""
        ranges = [range_ for range_, _ in self.batch]
        ranges += [pair[0] for pair in (self.rows, self.columns) if pair is not None]
        ranges += [self.folded[0]] if self.folded is not None else []
        return sum(range_.bit for range_ in ranges)

    def view(
        self, param: Param, index: Expr, tile_dtype: DType, boxes: Mapping[Range, tuple[int, int]] | None = None
    ) -> tuple[Matrix, tuple[int | None, ...]]:
        """Return the view of what an index reaches, and the axis of the program of each of its axes.

        Args:
            param: The buffer.
            index: The places in it.
            tile_dtype: Of the tiles.
            boxes: Of some ranges, from where to where the buffer has elements; elsewhere there is 0.

        Raises:
            UnsupportedError: The places are no sum of multiples of the ranges.
        """
        strides, offset = strides_of(index)
        boxes = boxes or {}
        if any(not self.bits & range_.bit for range_ in (*strides, *boxes)):
            raise UnsupportedError(f"{param} is read along a range that its block does not have")
        if self.folded is not None:
            return self._folded(param, strides, offset, tile_dtype, boxes)
        shape: list[int] = []
        steps: list[int] = []
        axes: list[int | None] = []
        within: list[tuple[int, int]] = []
        for pair in (*self.batch, self.rows, self.columns):
            stride = 0 if pair is None else strides.get(pair[0], 0)
            has_axis = pair is not None and (stride != 0 or pair[0] in boxes)
            shape.append(pair[0].size if has_axis and pair is not None else 1)
            steps.append(stride)
            axes.append(pair[1] if has_axis and pair is not None else None)
            within.append(boxes.get(pair[0], (0, shape[-1])) if pair is not None else (0, 1))
        found = Matrix(param.dtype, tile_dtype, offset, tuple(shape), tuple(steps))
        return (replace(found, within=tuple(within)) if boxes else found), tuple(axes)

    def vector(self, range_: Range, dtype: DType) -> tuple[Matrix, tuple[int | None, ...]]:
        """Return the view of a vector along one range, and the axis of the program of each of its axes.

        Raises:
            UnsupportedError: This is no range of the frame.
        """
        if not self.bits & range_.bit:
            raise UnsupportedError(f"places along {range_} are needed where no block has it")
        if self.folded is not None:
            _, row_axis, column_axis, columns = self.folded
            rows = -(-range_.size // columns)
            count = 0 if rows * columns == range_.size else range_.size
            return Matrix(dtype, dtype, 0, (rows, columns), (columns, 1), count), (row_axis, column_axis)
        pairs = (*self.batch, self.rows, self.columns)
        own = [pair is not None and pair[0] is range_ for pair in pairs]
        axes = tuple(pair[1] if is_own and pair is not None else None for pair, is_own in zip(pairs, own, strict=True))
        shape = tuple(range_.size if is_own else 1 for is_own in own)
        return Matrix(dtype, dtype, 0, shape, tuple(map(int, own))), axes

    def _folded(
        self,
        param: Param,
        strides: dict[Range, int],
        offset: int,
        tile_dtype: DType,
        boxes: Mapping[Range, tuple[int, int]],
    ) -> tuple[Matrix, tuple[int | None, ...]]:
        assert self.folded is not None  # as `view` has found
        range_, row_axis, column_axis, columns = self.folded
        stride = strides.get(range_, 0)
        if stride == 0 and not boxes:
            return Matrix(param.dtype, tile_dtype, offset, (1, 1), (0, 0)), (None, None)
        if stride <= 0:
            raise UnsupportedError(
                f"{param} is read backwards, or one element often, and a vector that is folded is not"
            )
        rows = -(-range_.size // columns)
        count = 0 if rows * columns == range_.size else range_.size
        view = Matrix(param.dtype, tile_dtype, offset, (rows, columns), (columns * stride, stride), count)
        return replace(view, within=tuple(boxes.values())), (row_axis, column_axis)


def turned(view: Matrix) -> Matrix:
    """Return the view of the same elements with rows as columns."""
    shape, strides, within = ((*of[:-2], *of[:-3:-1]) for of in (view.shape, view.strides, view.within))
    return replace(view, shape=shape, strides=strides, within=within)


def boxes_of(mask: Expr) -> dict[Range, tuple[int, int]]:
    """Return from where to where a mask holds along each range that it tests.

    Raises:
        UnsupportedError: It tests something else.
    """
    found: dict[Range, tuple[int, int]] = {}
    for test in conjunction(mask):
        strides, start = strides_of(test.x) if isinstance(test, e.NonNegative) else ({}, 0)
        if len(strides) != 1:
            raise UnsupportedError(f"a read has the mask {test!r}, which no matrix of tiles has")
        ((range_, stride),) = strides.items()
        low, high = found.get(range_, (0, range_.size))
        if stride > 0:  # start + stride * i >= 0
            low = max(low, -(start // stride))
        else:
            high = min(high, start // -stride + 1)
        found[range_] = (low, max(low, high))
    return found


def strides_of(index: Expr) -> tuple[dict[Range, int], int]:
    """Return how far an index moves along each range, and where it begins.

    Raises:
        UnsupportedError: It is no such sum.
    """
    match index:
        case e.Literal(value=value):
            return {}, int(value)
        case e.RangeRef(range=range_):
            return {range_: 1}, 0
        case e.Affine(terms=terms, constant=constant):
            found: dict[Range, int] = {}
            for term, factor in terms:
                if not isinstance(term, e.RangeRef):
                    raise UnsupportedError(f"places at {index!r} are no sum of multiples of ranges")
                found[term.range] = factor
            return found, constant
        case _:
            raise UnsupportedError(f"places at {index!r} are no sum of multiples of ranges")


def columns_folded(size: int, width: int) -> int:
    """Return how many columns a vector of `size` elements has that is folded to a matrix: nearly a square of tiles.

    The columns are a power of two of tiles of `width` columns, or all of the vector if it is shorter than a tile.
    """
    if size <= width:
        return size
    side = max(1.0, math.sqrt(size) / width)
    return width * min(_MOST_FOLDED, 1 << round(math.log2(side)))


def nearest(ranges: Iterable[Range], index: Expr) -> list[Range]:
    """Return ranges, those first along which an index moves farthest."""
    strides, _ = strides_of(index)
    return sorted(ranges, key=lambda range_: -abs(strides.get(range_, 0)))
