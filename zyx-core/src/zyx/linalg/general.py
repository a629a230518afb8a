"""What NumPy and PyTorch have beside the Array API: norms of whatever is given, condition numbers, long products."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zyx import shape as shapes
from zyx.errors import ShapeError
from zyx.functions.linalg import norm as norm_of_vectors
from zyx.functions.movement import reshape
from zyx.functions.operands import float_dtype, require, wrap
from zyx.linalg.decompositions import svdvals
from zyx.linalg.fitting import chain_matmul
from zyx.linalg.matrices import as_term
from zyx.linalg.norms import matrix_norm
from zyx.linalg.solving import inv

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.functions import Tensor
    from zyx.functions.reduction import AxisLike
    from zyx.linalg.norms import MatrixOrder

__all__ = ["cond", "multi_dot", "norm"]


def norm(x: Tensor, ord: MatrixOrder = None, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """Return norms of vectors or of matrices, as the axes say.

    Args:
        x: Any shape; integers and bools are computed as float32.
        ord: None is the root of the sum of squares. Others are those of `vector_norm` or `matrix_norm`.
        axis: One is that of vectors, two those of rows and columns. None means all: any number of axes without `ord`,
            and with it those of one vector or one matrix.
        keepdims: Whether these axes stay, with size 1.

    Raises:
        ShapeError: An order that vectors or matrices do not have, or `ord` and other than one or two axes.
        LinAlgError: When the values are read, of orders that need singular values: LAPACK does not converge.

    >>> x = zyx.Tensor([[3.0, 0.0], [4.0, 0.0]])
    >>> zyx.linalg.norm(x).item(), zyx.linalg.norm(x, axis=1).tolist(), zyx.linalg.norm(x, 1).item()
    (5.0, [3.0, 4.0], 7.0)
    """
    tensor = require(x, "norm")
    given = tensor.astype(float_dtype(tensor.node.dtype))
    axes = shapes.normalize_axes(axis, given.node.ndim)
    if ord is None or (len(axes) == 1 and not isinstance(ord, str)):
        return norm_of_vectors(given, 2.0 if ord is None else ord, axes, keepdims=keepdims)
    if len(axes) != 2:
        raise ShapeError(f"norm: ord={ord!r} is of one axis or of two, not of {axes} of {given.node.shape}")
    return matrix_norm(given, keepdims=keepdims, ord=ord, axis=axes)


def cond(x: Tensor, p: MatrixOrder = None) -> Tensor:
    """Return condition numbers of matrices, ``norm(x, p) * norm(inv(x), p)``: how many times an error may grow.

    Args:
        x: ``(..., M, N)``; square unless `p` is 2, -2 or None.
        p: The norm, as in `matrix_norm`. None is 2: the greatest singular value by the least, which is infinite where
            that is 0. -2 is the inverse of that.

    Returns:
        ``(...)``, real.

    Raises:
        ShapeError: No matrices, empty ones, or other than square ones for norms that need the inverse.
        LinAlgError: When the values are read: `p` is another norm, and a matrix is singular.

    >>> zyx.linalg.cond(zyx.Tensor([[2.0, 0.0], [0.0, 0.5]])).item()
    4.0
    """
    if p not in (None, 2, -2):
        return matrix_norm(x, ord=p) * matrix_norm(inv(x), ord=p)
    values = svdvals(x)
    if not values.shape[-1]:
        raise ShapeError(f"cond: matrices of {x.shape} have no singular values")
    term = as_term(values)
    last = values.shape[-1]
    ends = [term.narrow(len(values.shape) - 1, at, at + 1).reshape(values.shape[:-1]) for at in (0, last - 1)]
    top, bottom = ends if p != -2 else ends[::-1]
    quotient = top / bottom
    return wrap((quotient if p == -2 else (bottom == 0).where(math.inf, quotient)).node, values)


def multi_dot(arrays: Sequence[Tensor]) -> Tensor:
    """Return the product of matrices in the order that takes the fewest multiplications; see `zyx.chain_matmul`.

    The first may be a vector, which counts as a row, and the last one, which counts as a column; the result lacks the
    axes that these have not.

    Raises:
        ShapeError: Less than two, or sizes that do not fit.

    >>> zyx.linalg.multi_dot([zyx.ones(2), zyx.ones(2, 3), zyx.ones(3)]).item()
    6.0
    """
    given = [require(x, "multi_dot") for x in arrays]
    if len(given) < 2:
        raise ShapeError(f"multi_dot takes two matrices or more, not {len(given)}")
    first, last = given[0].node, given[-1].node
    if first.ndim == 1:
        given[0] = reshape(given[0], (1, *first.shape))
    if last.ndim == 1:
        given[-1] = reshape(given[-1], (*last.shape, 1))
    product = chain_matmul(given)
    return reshape(product, (*first.shape[:-1], *(last.shape[1:] if last.ndim > 1 else ())))
