"""What singular values decide: rank, pseudo-inverse, and the closest solution of equations that have none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from zyx import dtype as dtypes
from zyx.errors import DTypeError, ShapeError
from zyx.functions.operands import is_tensor, node_of, wrap
from zyx.functions.reduction import drop_axes
from zyx.functions.term import Term, broadcast_shapes
from zyx.linalg import lapack
from zyx.linalg.decompositions import singular_values
from zyx.linalg.matrices import (
    adjoint,
    as_term,
    call,
    check_matrices,
    conjugate,
    identity,
    matrices,
    pair,
    product,
    real_part,
    tensors,
)
from zyx.linalg.solving import common_batch

if TYPE_CHECKING:
    from zyx.functions import Tensor
    from zyx.functions.operands import Operand

__all__ = ["LstsqResult", "lstsq", "matrix_rank", "pinv"]


#: Distance from 1 to the next greater number.
_EPSILON: Final = {dtypes.float32: 2.0**-23, dtypes.float64: 2.0**-52}


class LstsqResult(NamedTuple):
    """What comes closest to solving equations, and how close that is; each is computed when it is read.

    Attributes:
        solution: ``(..., N, K)``, of the least norm where there are several.
        residuals: ``(..., K)``, sums of squares of the magnitudes of what is left.
        rank: ``(...)``, int64.
        singular_values: ``(..., min(M, N))``, greatest first.

    >>> zyx.linalg.lstsq(zyx.eye(3), zyx.ones(3)).rank.item()
    3
    """

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


def _pseudo_inverse(a: Term, rtol: Term) -> Term:
    """Return the pseudo-inverse.

    With P the result and E a change of `a` that keeps its rank, that of P is
    ``-P @ E @ P + P @ P^H @ E^H @ (I - a @ P) + (I - P @ a) @ E^H @ P^H @ P``: Golub and Pereyra, "The differentiation
    of pseudo-inverses and nonlinear least squares problems whose variables separate", 1973, theorem 4.3.
    """

    def gradient(sources: tuple[Term, ...], output: int, g: Term) -> tuple[Term, None]:
        a, rtol = sources
        p = _pseudo_inverse(a, rtol)
        pt, gt = adjoint(p), adjoint(g)
        left = identity(a, a.shape[-2]) - product(a, p)
        right = identity(a, a.shape[-1]) - product(p, a)
        inner = product(product(left, gt), product(p, pt)) + product(product(product(pt, p), gt), right)
        return inner - product(product(pt, g), pt), None

    shape = (*a.shape[:-2], a.shape[-1], a.shape[-2])
    return call("pinv", lapack.pinv, (a, rtol), (shape,), gradient)[0]


def tolerance(a: Term, rtol: float | Tensor | None, like: Tensor, what: str) -> Term:
    """Return the relative tolerance of the matrices `a`, one for each.

    Raises:
        DTypeError: `rtol` is no number or tensor.
        ShapeError: It does not broadcast, or is a number below 0 or NaN.
    """
    shape = a.shape[:-2]
    if rtol is None:
        rtol = max(a.shape[-2:]) * _EPSILON[a.dtype.part]
    elif isinstance(rtol, bool) or not (is_tensor(rtol) or isinstance(rtol, int | float | np.generic | np.ndarray)):
        raise DTypeError(f"{what}: rtol is a number or a tensor, not {rtol!r}")
    elif not (is_tensor(rtol) or np.all(rtol >= 0)):
        raise ShapeError(f"{what}: rtol is a part of the greatest singular value, at least 0, not {rtol!r}")
    term = Term(a.graph, node_of(rtol, a.dtype.part, like)).detach()
    try:
        fits = broadcast_shapes(term.shape, shape) == shape
    except ShapeError:
        fits = False
    if not fits:
        raise ShapeError(f"{what}: rtol of shape {term.shape} does not broadcast to one number a matrix, {shape}")
    return term.expand(shape)


def counted(values: Term, rtol: Term) -> Term:
    """Return how many of the singular values `values` are greater than `rtol` times the greatest, which is first."""
    axis = len(values.shape) - 1
    if not values.shape[axis]:
        return Term(values.graph, values.graph.const(0, dtypes.int64, values.node.device, values.shape[:-1]))
    least = values.narrow(axis, 0, 1) * rtol.reshape((*rtol.shape, 1))
    return drop_axes((values > least).cast(dtypes.int64).sum((axis,)), (axis,), keepdims=False)


def _either(a: Term, rtol: float | Tensor | None, atol: float | Tensor | None, like: Tensor, what: str) -> Term:
    """Return the relative tolerance that is as great as `rtol` and, of each matrix, `atol`."""
    if atol is None:
        return tolerance(a, rtol, like, what)
    values = singular_values(a)
    top = (values.max((len(values.shape) - 1,)) if values.shape[-1] else values).reshape(a.shape[:-2])
    given = Term(a.graph, node_of(atol, a.dtype.part, like)).detach()
    share = given.expand(broadcast_shapes(given.shape, a.shape[:-2])) / (top > 0).where(top, 1.0)
    return tolerance(a, 0.0 if rtol is None else rtol, like, what).maximum(share.detach())


def matrix_rank(
    x: Tensor, /, *, rtol: float | Tensor | None = None, atol: float | Tensor | None = None, hermitian: bool = False
) -> Tensor:
    """Return how many singular values are greater than `rtol` times the greatest, int64, for each matrix.

    Args:
        x: ``(..., M, N)``, of a dtype of LAPACK.
        rtol: As `zyx.linalg.pinv` takes it.
        atol: Singular values up to this do not count, either.
        hermitian: As `zyx.linalg.pinv` takes it.

    Raises:
        DTypeError: Another dtype than LAPACK has.
        ShapeError: Fewer than two axes, or `rtol` does not broadcast.
        LinAlgError: When the values are read: LAPACK does not converge, as of NaN.

    >>> zyx.linalg.matrix_rank(zyx.eye(3)).item()
    3
    """
    a = as_term(matrices(x, "matrix_rank", square=hermitian))
    return wrap(counted(singular_values(a), _either(a, rtol, atol, x, "matrix_rank")).node, x)


def pinv(
    x: Tensor, /, *, rtol: float | Tensor | None = None, atol: float | Tensor | None = None, hermitian: bool = False
) -> Tensor:
    """Return the pseudo-inverses of Moore and Penrose, by singular values on the host.

    Args:
        x: ``(..., M, N)``, of a dtype of LAPACK.
        rtol: Singular values up to so much of the greatest count as 0; a number, or a tensor ``(...)`` that broadcasts.
            None is ``max(M, N)`` times the distance from 1 to the next greater number of the dtype, or 0 with `atol`.
        atol: Singular values up to this count as 0, too.
        hermitian: Whether matrices are known to be symmetric or Hermitian; that they are square is checked.

    Returns:
        ``(..., N, M)``. Gradients are those at matrices of the same rank.

    Raises:
        DTypeError: Another dtype than LAPACK has.
        ShapeError: Fewer than two axes, or `rtol` does not broadcast.
        LinAlgError: When the values are read: LAPACK does not converge, as of NaN.

    >>> zyx.linalg.pinv(zyx.ones(3, 2)).shape
    (2, 3)
    """
    a = as_term(matrices(x, "pinv", square=hermitian))
    return wrap(_pseudo_inverse(a, _either(a, rtol, atol, x, "pinv")).node, x)


def lstsq(x1: Operand, x2: Operand, /, *, rtol: float | Tensor | None = None) -> LstsqResult:
    """Return x that makes ``x1 @ x - x2`` least in its norm; of several, the one that is least in its own.

    It is ``pinv(x1) @ x2``.

    Args:
        x1: ``(..., M, N)``, of a dtype of LAPACK.
        x2: ``(..., M, K)``, or ``(M,)``, one right side. The axes in front broadcast.
        rtol: As `pinv` takes it.

    Raises:
        DTypeError: Another dtype than LAPACK has.
        ShapeError: Another number of rows, or the axes in front do not broadcast.
        LinAlgError: When the values are read: LAPACK does not converge, as of NaN.

    >>> x = zyx.Tensor([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    >>> [round(v, 4) for v in zyx.linalg.lstsq(x, zyx.Tensor([1.0, 3.0, 5.0])).solution.tolist()]
    [1.0, 2.0]
    """
    like, a, b = pair(x1, x2, "lstsq")
    check_matrices(a.shape, "lstsq", name="x1")
    if not b.shape:
        raise ShapeError(f"lstsq: x2 has shape {b.shape}; right sides are (M,) or (..., M, K)")
    is_vector = len(b.shape) == 1
    if is_vector:
        b = b.reshape((*b.shape, 1))
    if a.shape[-2] != b.shape[-2]:
        raise ShapeError(
            f"lstsq: x1 of shape {a.shape} has {a.shape[-2]} rows, x2 of shape {b.shape} has {b.shape[-2]}; they must "
            "be as many"
        )
    common_batch(a.shape, b.shape, "lstsq", ("x1", "x2"))
    each = tolerance(a, rtol, like, "lstsq")
    found = product(_pseudo_inverse(a, each), b)
    left = product(a, found) - b
    axis = len(left.shape) - 2
    squares = drop_axes(real_part(conjugate(left) * left).sum((axis,)), (axis,), keepdims=False)
    if is_vector:
        found, squares = found.reshape(found.shape[:-1]), squares.reshape(squares.shape[:-1])
    values = singular_values(a)
    return LstsqResult(*tensors((found, squares, counted(values, each), values), like))
