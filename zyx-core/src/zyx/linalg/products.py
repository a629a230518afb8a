"""Products of vectors and matrices, powers and exponentials; and the diagonals of matrices.

What the main namespace has as well is the same there, with the arguments of this one as the Array API has them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.errors import ShapeError
from zyx.functions import linalg as products
from zyx.functions import movement
from zyx.functions.joining import join_terms
from zyx.functions.linalg import cross, matmul, tensordot, vecdot
from zyx.functions.movement import matrix_transpose
from zyx.functions.operands import common_dtype, require, wrap
from zyx.linalg import lapack
from zyx.linalg.matrices import adjoint, as_term, call, check_matrices, identity, integer, matrices
from zyx.linalg.solving import inverse

if TYPE_CHECKING:
    from zyx.dtype import DTypeLike
    from zyx.functions import Tensor
    from zyx.functions.operands import Operand
    from zyx.functions.term import Term

__all__ = [
    "cross",
    "diagonal",
    "expm",
    "matmul",
    "matrix_power",
    "matrix_transpose",
    "outer",
    "tensordot",
    "trace",
    "vecdot",
]


def outer(x1: Operand, x2: Operand, /) -> Tensor:
    """Return the matrix of products of each element of one vector with each of another.

    Args:
        x1: ``(M,)``.
        x2: ``(N,)``.

    Returns:
        ``(M, N)``, of the promoted dtype.

    Raises:
        DTypeError: No common dtype.
        ShapeError: Not one axis each.

    >>> zyx.linalg.outer(zyx.Tensor([1, 2]), zyx.Tensor([3, 4])).tolist()
    [[3, 4], [6, 8]]
    """
    common_dtype((x1, x2), "outer")
    for name, x in (("x1", x1), ("x2", x2)):
        shape = getattr(x, "shape", ())  # numbers have none
        if len(shape) != 1:
            raise ShapeError(f"outer: {name} has shape {shape}; vectors have one axis")
    return products.outer(x1, x2)


def trace(x: Tensor, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Tensor:
    """Return the sums of a diagonal of the matrices ``(..., M, N)``; dtypes as for `zyx.sum`.

    Raises:
        DTypeError: `offset` is no integer.
        ShapeError: Fewer than two axes.

    >>> zyx.linalg.trace(zyx.Tensor([[1, 2], [3, 4]])).item()
    5
    """
    check_matrices(require(x, "trace").node.shape, "trace")
    return products.trace(x, integer(offset, "trace", "offset"), dtype=dtype)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """Return a diagonal of the matrices ``(..., M, N)`` as the last axis; `offset` > 0 lies above the main one.

    Raises:
        DTypeError: `offset` is no integer.
        ShapeError: Fewer than two axes.

    >>> zyx.linalg.diagonal(zyx.Tensor([[1, 2], [3, 4]])).tolist()
    [1, 4]
    """
    check_matrices(require(x, "diagonal").node.shape, "diagonal")
    return movement.diagonal(x, integer(offset, "diagonal", "offset"))


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """Return the square matrices `x` multiplied with themselves `n` times; of the inverses if `n` is negative.

    Args:
        x: ``(..., M, M)``; of a dtype of LAPACK if `n` is negative.
        n: Any integer; 0 gives the identity.

    Raises:
        DTypeError: `n` is no integer, or `x` has no inverse for its dtype.
        ShapeError: Not square.
        LinAlgError: When the values are read: a matrix is singular, and `n` negative.

    >>> zyx.linalg.matrix_power(zyx.Tensor([[1.0, 1.0], [0.0, 1.0]]), 3).tolist()
    [[1.0, 3.0], [0.0, 1.0]]
    """
    check_matrices(require(x, "matrix_power").node.shape, "matrix_power", square=True)
    power = integer(n, "matrix_power", "n")
    if power == 0:
        term = as_term(x)
        return wrap(identity(term, term.shape[-1]).node, x)
    if power < 0:
        x = wrap(inverse(as_term(matrices(x, "matrix_power with a negative n", square=True))).node, x)
    return products.matrix_power(x, abs(power))


def expm(x: Tensor, /) -> Tensor:
    """Return the exponentials of square matrices, ``I + x + x @ x / 2 + ...``, by scaling and squaring on the host.

    Args:
        x: ``(..., M, M)``, of a dtype of LAPACK.

    Raises:
        DTypeError: Another dtype than LAPACK has.
        ShapeError: Not square.

    >>> zyx.linalg.expm(zyx.zeros(2, 2)).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return wrap(_expm(as_term(matrices(x, "expm", square=True))).node, x)


def _expm(a: Term) -> Term:
    """Return the exponential.

    Gradient: the upper right quarter of ``expm([[a^H, g], [0, a^H]])``; Najfeld and Havel, "Derivatives of the matrix
    exponential and their computation", 1995, theorem 2.1.
    """

    def gradient(sources: tuple[Term, ...], output: int, g: Term) -> tuple[Term]:
        turned = adjoint(sources[0])
        last, size = len(turned.shape) - 1, turned.shape[-1]
        above = join_terms([turned, g], last)
        below = join_terms([turned.like(0), turned], last)
        whole = _expm(join_terms([above, below], last - 1))
        return (whole.narrow(last - 1, 0, size).narrow(last, size, 2 * size),)

    return call("expm", lapack.expm, (a,), (a.shape,), gradient, library="NumPy")[0]
