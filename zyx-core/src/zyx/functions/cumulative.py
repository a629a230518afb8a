"""Running sums, products and extremes, and differences of neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx import shape as shapes
from zyx.dtype import as_dtype
from zyx.errors import ShapeError
from zyx.functions import take_habits
from zyx.functions.joining import concat
from zyx.functions.operands import require, term_of, wide_term, wrap
from zyx.functions.reduction import sum_dtype
from zyx.functions.term import Term
from zyx.integers import as_index
from zyx.ops import ReduceOp, identity

if TYPE_CHECKING:
    from zyx.dtype import DTypeLike
    from zyx.functions import Tensor
    from zyx.functions.operands import Operand

__all__ = ["cummax", "cummin", "cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "diff"]


def _axis(x: Tensor, axis: int | None, what: str) -> int:
    """Return the axis, which may only be left out for rank 1; that of a number, 0 or -1, is -1."""
    shape = require(x, what).node.shape
    if not shape and axis in (0, -1):
        return -1
    if axis is None:
        if len(shape) != 1:
            raise ShapeError(f"{what} needs an axis, as the shape is {shape}")
        return 0
    return shapes.normalize_axis(axis, len(shape))


def _running(term: Term, op: ReduceOp, axis: int) -> Term:
    if axis < 0:
        return term
    return Term(term.graph, term.graph.scan(op, term.node, axis))


def _cumulative(
    x: Tensor, op: ReduceOp, axis: int | None, dtype: DTypeLike | None, what: str, *, include_initial: bool
) -> Tensor:
    place = _axis(x, axis, what)
    term = wide_term(x, what)
    target = sum_dtype(term.dtype) if dtype is None else as_dtype(dtype)
    wide = dtypes.accumulator(target)
    result = _running(term.cast(wide), op, place).cast(target)
    if include_initial:
        if place < 0:
            result, place = result.reshape((1,)), 0
        widths = [(0, 0)] * len(result.shape)
        widths[place] = (1, 0)
        result = result.pad(widths, identity(op, target))
    return wrap(result.node, x)


def cumulative_sum(
    x: Tensor, axis: int | None = None, *, dtype: DTypeLike | None = None, include_initial: bool = False
) -> Tensor:
    """Return the running sum along `axis`; with `include_initial` a 0 comes first. Dtypes as for `sum`.

    Raises:
        ShapeError: No axis, and a rank other than 1.

    >>> zyx.cumulative_sum(zyx.Tensor([1, 2, 3]), include_initial=True).tolist()
    [0, 1, 3, 6]
    """
    return _cumulative(x, ReduceOp.SUM, axis, dtype, "cumulative_sum", include_initial=include_initial)


def cumulative_prod(
    x: Tensor, axis: int | None = None, *, dtype: DTypeLike | None = None, include_initial: bool = False
) -> Tensor:
    """Return the running product along `axis`; with `include_initial` a 1 comes first. Dtypes as for `prod`.

    Raises:
        ShapeError: No axis, and a rank other than 1.

    >>> zyx.cumulative_prod(zyx.Tensor([2, 3, 4])).tolist()
    [2, 6, 24]
    """
    return _cumulative(x, ReduceOp.PROD, axis, dtype, "cumulative_prod", include_initial=include_initial)


def cumsum(x: Tensor, axis: int | None = None, dtype: DTypeLike | None = None) -> Tensor:
    """Return `cumulative_sum`; without an axis, of `x` as one axis.

    Raises:
        AxisError: `x` has no such axis.

    >>> zyx.cumsum(zyx.Tensor([1, 2, 3])).tolist()
    [1, 3, 6]
    """
    return cumulative_sum(*_flat_unless(x, axis, "cumsum"), dtype=dtype)


def cumprod(x: Tensor, axis: int | None = None, dtype: DTypeLike | None = None) -> Tensor:
    """Return `cumulative_prod`; without an axis, of `x` as one axis.

    Raises:
        AxisError: `x` has no such axis.

    >>> zyx.cumprod(zyx.Tensor([1, 2, 3])).tolist()
    [1, 2, 6]
    """
    return cumulative_prod(*_flat_unless(x, axis, "cumprod"), dtype=dtype)


def _flat_unless(x: Tensor, axis: int | None, what: str) -> tuple[Tensor, int]:
    term = term_of(x, what)
    if axis is not None:
        return x, axis
    return wrap(term.reshape((shapes.size_of(term.shape),)).node, x), 0


def cummax(x: Tensor, axis: int | None = None) -> Tensor:
    """Return the greatest element so far along `axis`; NaN from the first NaN on.

    Raises:
        ShapeError: No axis, and a rank other than 1.

    >>> [part.tolist() for part in zyx.cummax(zyx.Tensor([1, 3, 2]))]
    [1, 3, 3]
    """
    return wrap(_running(term_of(x, "cummax"), ReduceOp.MAX, _axis(x, axis, "cummax")).node, x)


def cummin(x: Tensor, axis: int | None = None) -> Tensor:
    """Return the least element so far along `axis`; NaN from the first NaN on.

    Raises:
        ShapeError: No axis, and a rank other than 1.

    >>> zyx.cummin(zyx.Tensor([3, 1, 2])).tolist()
    [3, 1, 1]
    """
    return wrap(_running(term_of(x, "cummin"), ReduceOp.MIN, _axis(x, axis, "cummin")).node, x)


def diff(
    x: Tensor, n: int = 1, axis: int = -1, *, prepend: Operand | None = None, append: Operand | None = None
) -> Tensor:
    """Return the differences of neighbours along `axis`, taken `n` times; bools are compared. With 0 times, return `x`.

    Args:
        x: Any rank from 1 on.
        n: How often, at least 0.
        axis: Where neighbours lie.
        prepend: Put before `x`, of the same rank.
        append: Put behind it.

    Raises:
        ShapeError: A negative `n`, or parts that do not fit.

    >>> zyx.diff(zyx.Tensor([1, 4, 9])).tolist()
    [3, 5]
    """
    shapes.normalize_axis(axis, require(x, "diff").node.ndim)
    place = _axis(x, axis, "diff")
    n = as_index(n, "n")
    if n < 0:
        raise ShapeError(f"diff: n is at least 0, not {n}")
    parts = [part for part in (prepend, x, append) if part is not None] if n else [x]
    term = term_of(concat(parts, place) if len(parts) > 1 else x, "diff")
    for _ in range(n):
        size = term.shape[place]
        if size == 0:
            break
        later, earlier = term.narrow(place, 1, size), term.narrow(place, 0, size - 1)
        term = later != earlier if term.dtype.is_bool else later - earlier
    return wrap(term.node, x)


take_habits(globals())
