"""Norms of matrices and vectors."""

from __future__ import annotations

import math
import numbers
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from zyx import dtype as dtypes
from zyx import shape as shapes
from zyx.errors import DTypeError, ShapeError
from zyx.functions.complex_numbers import magnitude
from zyx.functions.linalg import norm
from zyx.functions.movement import moveaxis
from zyx.functions.operands import require, wrap
from zyx.functions.reduction import drop_axes
from zyx.linalg.decompositions import singular_values
from zyx.linalg.matrices import HAVE_LAPACK, as_term, check_matrices, is_flag
from zyx.ops import ReduceOp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.functions import Tensor
    from zyx.functions.term import Term

__all__ = ["matrix_norm", "vector_norm"]

MatrixOrder: TypeAlias = "float | Literal['fro', 'nuc'] | None"


def matrix_norm(
    x: Tensor, /, *, keepdims: bool = False, ord: MatrixOrder = "fro", axis: Sequence[int] = (-2, -1)
) -> Tensor:
    """Return the norms of matrices.

    Args:
        x: ``(..., M, N)``, any float or complex dtype; no 16-bit one for "nuc", 2 and -2, which need singular values.
        keepdims: Whether the two axes stay, with size 1.
        axis: Along which the rows and the columns lie.
        ord: "fro" or None, the root of the sum of squares; "nuc", the sum of the singular values; 2 or -2, the greatest
            or least of these; 1 or -1, the greatest or least sum of the magnitudes of a column; infinity or minus
            infinity, those of a row.

    Returns:
        ``(...)``, real. The gradient of "fro" at zero matrices is 0.

    Raises:
        DTypeError: No float or complex dtype, or another one than singular values are computed in.
        ShapeError: Fewer than two axes, another `ord`, or the greatest or least is asked for of nothing.
        LinAlgError: When the values are read: LAPACK does not converge, as of NaN.

    >>> zyx.linalg.matrix_norm(zyx.Tensor([[3.0, 0.0], [0.0, 4.0]])).item()
    5.0
    """
    tensor = _floats(x, "matrix_norm")
    check_matrices(tensor.node.shape, "matrix_norm")
    places = shapes.normalize_axes(axis, tensor.node.ndim)
    if len(places) != 2:
        raise ShapeError(f"matrix_norm: axis is two of the axes of x, not {axis!r}")
    last = tensor.node.ndim - 1
    if places != (last - 1, last):
        found = matrix_norm(moveaxis(tensor, places, (-2, -1)), keepdims=keepdims, ord=ord)
        return moveaxis(found, (-2, -1), places) if keepdims else found
    keeps = is_flag(keepdims, "matrix_norm", "keepdims")
    if ord in ("fro", None):
        return norm(tensor, axis=(-2, -1), keepdims=keeps)
    if ord not in ("nuc", 2, -2, 1, -1, math.inf, -math.inf) or isinstance(ord, bool):
        raise ShapeError(f"matrix_norm: ord is 'fro', 'nuc', 1, -1, 2, -2, inf or -inf, not {ord!r}")
    term = as_term(tensor)
    if ord != "nuc" and 0 in term.shape[-2:]:
        raise ShapeError(f"matrix_norm: of matrices of {term.shape[-2]} x {term.shape[-1]} there is no norm {ord}")
    wide = term if ord in ("nuc", 2, -2) else term.cast(dtypes.accumulator(term.dtype))
    result = _of_values(wide, ord) if ord in ("nuc", 2, -2) else _of_sums(wide, float(ord))
    kept = result.cast(term.dtype.part)
    return wrap(drop_axes(kept, (last - 1, last), keepdims=keeps).node, tensor)


def _of_values(term: Term, order: Any) -> Term:  # noqa: ANN401  # one of those that `matrix_norm` lists
    """Return norms of singular values; the last two axes have size 1."""
    if term.dtype not in HAVE_LAPACK:
        raise DTypeError(
            f"matrix_norm: singular values, which ord={order!r} needs, are computed in float32 or float64, and x is "
            f"{term.dtype}; convert it: .astype(zyx.float32)"
        )
    values = singular_values(term)
    axis, count = len(values.shape) - 1, values.shape[-1]
    if order == "nuc":
        found = values.sum((axis,))
    else:  # they are in order
        place = 0 if order == 2 else count - 1
        found = values.narrow(axis, place, place + 1)
    return found.reshape((*values.shape[:-1], 1, 1))


def _of_sums(term: Term, order: float) -> Term:
    """Return norms of sums along rows or columns; the last two axes have size 1."""
    last = len(term.shape) - 1
    summed, other = (last - 1, last) if abs(order) == 1 else (last, last - 1)
    size = magnitude(term) if term.dtype.is_complex else term.abs()
    return size.sum((summed,)).reduce(ReduceOp.MAX if order > 0 else ReduceOp.MIN, (other,))


def vector_norm(
    x: Tensor, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False, ord: float = 2
) -> Tensor:
    """Return the norms of vectors, ``sum(abs(x) ** ord) ** (1 / ord)``.

    Args:
        x: Any shape, and any float or complex dtype.
        axis: Along which the vectors lie, one axis or several; None means all.
        keepdims: Whether these axes stay, with size 1.
        ord: Any number; infinity is the greatest magnitude, minus infinity the least, and 0 how many are not 0.

    Returns:
        Real numbers. The gradient of order 2 at zero vectors is 0.

    Raises:
        DTypeError: No float or complex dtype, or `ord` is no number.
        ShapeError: No such axis, or the greatest or least magnitude of none is asked for.

    >>> zyx.linalg.vector_norm(zyx.Tensor([3.0, 4.0])).item()
    5.0
    """
    tensor = _floats(x, "vector_norm")
    order = _order(ord)
    axes = shapes.normalize_axes(axis, tensor.node.ndim)
    return norm(tensor, order, axes, keepdims=is_flag(keepdims, "vector_norm", "keepdims"))


def _order(value: object) -> float:
    """Return the order of a norm of vectors, any number but NaN."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or math.isnan(value):
        raise DTypeError(f"vector_norm: ord is a number, not {value!r}")
    return float(value)


def _floats(x: object, what: str) -> Tensor:
    tensor = require(x, what)
    if not tensor.node.dtype.is_inexact:
        raise DTypeError(
            f"{what} takes floats or complex numbers, and x is {tensor.node.dtype}; convert it: .astype(zyx.float32)"
        )
    return tensor
