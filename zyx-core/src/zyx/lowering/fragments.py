"""What each thread of a warp holds of the factors of a sum of products, where warps multiply tiles of matrices.

`zyx.kernel.wmma` has the layout of the instruction. A thread holds elements of two rows of the first factor, ``lane //
4`` and 8 below, and of one column of the second, ``lane // 4``. Which points of the sum the instruction's columns of
the one and rows of the other stand for is free, as long as both agree: here, those of a thread are neighbours in the
sum, and so mostly in memory.

    thread     0 0 1 1 2 2 3 3 0 0 1 1 2 2 3 3       lane % 4
    place      0 1 2 3 4 5 6 7 8 9 .                 column of the first factor, row of the second
    point      0 1 4 5 8 9 . . 2 3 6 7 . .           of the sum: 4 * depth[0] + depth[1]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.errors import ScheduleError
from zyx.nest import expr as e
from zyx.ops import BinaryOp

if TYPE_CHECKING:
    from zyx.nest.data import Compute
    from zyx.nest.expr import Expr
    from zyx.nest.pool import Pool

#: Types of factors that are converted to float32.
_HALVES: Final = (dtypes.float16, dtypes.bfloat16)


def factors_of(pool: Pool, statement: Compute) -> tuple[Expr, Expr]:
    """Return the factors that `statement` sums up the products of, in float32: of 16 bits, or of float32 themselves.

    Where a condition says that a product is not there, the factors are 0.

    Raises:
        ScheduleError: It does not sum up such products.
    """
    expr = statement.expr
    conditions = []
    while isinstance(expr, e.Select) and isinstance(expr.y, e.Literal) and expr.y.value == 0:
        conditions.append(expr.condition)
        expr = expr.x
    if not isinstance(expr, e.Apply2) or expr.op is not BinaryOp.MUL or expr.dtype is not dtypes.float32:
        raise ScheduleError(f"{statement.value} is no sum of products in float32")
    factors = []
    for side in (expr.x, expr.y):
        factor = side.x if isinstance(side, e.Convert) and side.x.dtype in _HALVES else side
        for condition in conditions:
            factor = _zero_unless(pool, condition, factor)
        factors.append(factor)
    x, y = factors
    if x.dtype is not y.dtype:
        raise ScheduleError(f"{statement.value} multiplies {x.dtype} by {y.dtype}; both factors must be of one dtype")
    return x, y


def fragments_of(pool: Pool, statement: Compute) -> tuple[Expr, Expr]:
    """Return an element of the first factor and one of the second, for the thread of a warp that holds it.

    The first depends on the tile's `half` and `lane`, the second on `lane`; both on ``depth[1]``, along which the
    elements of a thread are.

    Raises:
        ScheduleError: No factor depends on the rows without the columns, and the other the other way round.
    """
    matrix = statement.matrix
    assert matrix is not None
    lane, zero = pool.ref(matrix.lane), pool.index(0)
    place, group = pool.modulo(lane, 4), pool.divide(lane, 4)
    first_column = {matrix.lane: pool.scale(group, 4), matrix.pair: zero}
    first_row = {matrix.lane: place, matrix.half: zero}
    x, y = factors_of(pool, statement)
    for a, b in ((x, y), (y, x)):
        if pool.substitute([a], first_column)[0] is a and pool.substitute([b], first_row)[0] is b:
            column = {matrix.lane: pool.divide(group, 2), matrix.pair: pool.modulo(group, 2)}
            (left,) = pool.substitute([a], {matrix.depth[0]: place})
            (right,) = pool.substitute([b], {**column, matrix.depth[0]: place})
            return left, right
    raise ScheduleError(
        f"{statement.value} is no product of matrices: a factor depends on rows and columns of the tile"
    )


def _zero_unless(pool: Pool, condition: Expr, factor: Expr) -> Expr:
    """Return `factor` where `condition` holds, else 0."""
    if isinstance(factor, e.Read):
        if _implies(factor.mask, condition):
            return factor
        return pool.read(factor.param, factor.index, pool.both(factor.mask, condition))
    return pool.select(condition, factor, pool.literal(factor.dtype.to_scalar(0), factor.dtype))


def _implies(mask: Expr | None, condition: Expr) -> bool:
    if isinstance(mask, e.Apply2) and mask.op is BinaryOp.AND:
        return _implies(mask.x, condition) or _implies(mask.y, condition)
    return mask is condition
