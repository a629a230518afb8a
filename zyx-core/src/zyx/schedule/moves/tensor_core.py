"""The move that lets warps multiply tiles of matrices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.errors import ScheduleError
from zyx.lowering.fragments import factors_of, fragments_of
from zyx.nest.data import Compute, Kind, MatrixTile, Nest
from zyx.nest.rebuild import put_behind
from zyx.ops import ReduceOp
from zyx.schedule.moves.ranges import Merge, Split, find_range, find_statement

if TYPE_CHECKING:
    from zyx.nest.expr import Range

_ROWS: Final = 16
_COLUMNS: Final = 8
_DEPTHS: Final = (8, 16, 32)
#: Most bytes of the sum that a thread has of a row or column.
_THREAD_BYTES: Final = 16
#: Rows of results that the threads of a warp begin, and neighbouring columns of a thread.
_GROUPS: Final = 8
_PAIR: Final = 2
#: Threads that share a row or column.
_SHARE: Final = 4


@dataclass(frozen=True, slots=True)
class TensorCore:
    """Let the 32 threads of a warp add up the products of a statement together, by the instruction for it.

    The statement sums up products of two float16 or bfloat16 factors in float32, or of two float32 factors, of which 11
    significant bits take part: only devices where that is asked for have it. One factor does not depend on the range
    `columns`, of 8 points, the other not on `rows`, of 16. They sum over `depth`, of 8, 16 or, with 16 bits, 32 points.

        c[i, j] = sum(k) of f32(a[i, k]) * f32(b[k, j])
        rows i      i.0 < 2 unrolled, i.1 < 8
        columns j   j.0 < 4, j.1 < 2 unrolled           i.1 and j.0 become i.1+j.0, 32 threads
        depth k     k.0 < 4 written out, k.1 < 2, 4 or 8 vectors

    Other statements go over rows and columns by the same ranges. Ranges beside these work as ever: those of threads
    make more warps, unrolled ones more tiles a warp. The new ranges stay as they are: moves that would change them do
    not apply.
    """

    statement: str
    rows: str
    columns: str
    depth: str

    def apply(self, nest: Nest) -> Nest:
        """Return the nest after the move.

        Raises:
            ScheduleError: The statement is no such sum; the ranges have other sizes; or a statement has only one of
                the ranges `rows` and `columns`, or goes over them in order.
        """
        self._check(nest)
        depth = find_range(nest, self.depth).size
        for split in (
            Split(self.rows, _GROUPS), Split(self.columns, _PAIR), Split(self.depth, depth // _SHARE)
        ):  # fmt: skip
            nest = split.apply(nest)
        outer, inner = f"{self.rows}.1", f"{self.columns}.0"
        nest = put_behind(nest, find_range(nest, outer), find_range(nest, inner))
        nest = Merge(outer, inner).apply(nest)
        ranges = [
            find_range(nest, label)
            for label in (
                f"{self.rows}.0", f"{outer}+{inner}", f"{self.columns}.1", f"{self.depth}.0", f"{self.depth}.1"
            )
        ]  # fmt: skip
        kinds = (Kind.UNROLL, Kind.LOCAL, Kind.UNROLL, Kind.REPEAT, Kind.VECTOR)
        half, lane, pair, share, along = ranges
        statement = find_statement(nest, self.statement)
        assert isinstance(statement, Compute)
        itemsize = factors_of(nest.pool, statement)[0].dtype.itemsize
        marked = replace(statement, matrix=MatrixTile(half, lane, pair, (share, along), itemsize))
        fragments_of(nest.pool, marked)  # what cannot be divided among the threads is refused here
        statements = tuple(marked if current is statement else current for current in nest.statements)
        return replace(nest, statements=statements, kinds={**nest.kinds, **dict(zip(ranges, kinds, strict=True))})

    def _check(self, nest: Nest) -> None:
        statement = find_statement(nest, self.statement)
        rows, columns, depth = (find_range(nest, label) for label in (self.rows, self.columns, self.depth))
        if not isinstance(statement, Compute) or statement.op is not ReduceOp.SUM:
            raise ScheduleError(f"{self.statement} is no sum")
        if statement.matrix is not None:
            raise ScheduleError(f"{self.statement} is computed by multiplying matrices already")
        if statement.value.dtype is not dtypes.float32:
            raise ScheduleError(f"{self.statement} is summed up in {statement.value.dtype}, not in float32")
        for range_, ranges, what in (
            (rows, statement.value.ranges, "results"),
            (columns, statement.value.ranges, "results"),
            (depth, statement.reduced, "sum"),
        ):
            if range_ not in ranges:
                raise ScheduleError(f"{range_} is no range of the {what} of {self.statement}")
        if rows is columns:
            raise ScheduleError(f"the rows and the columns are both {rows}")
        for range_, sizes in ((rows, (_ROWS,)), (columns, (_COLUMNS,)), (depth, _DEPTHS)):
            if range_.size not in sizes:
                raise ScheduleError(f"{range_} has {range_.size} points, not {' or '.join(map(str, sizes))}")
        x, y = factors_of(nest.pool, statement)
        if depth.size * x.dtype.itemsize > _SHARE * _THREAD_BYTES:
            raise ScheduleError(f"{depth} has {depth.size} points, too many for factors of {x.dtype}")
        if not _is_product(x.free, y.free, rows, columns) and not _is_product(y.free, x.free, rows, columns):
            raise ScheduleError(f"{self.statement} is no product of matrices: a factor depends on {rows} and {columns}")


def _is_product(a: int, b: int, rows: Range, columns: Range) -> bool:
    return not a & columns.bit and not b & rows.bit
