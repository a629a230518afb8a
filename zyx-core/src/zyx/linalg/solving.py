"""Systems of linear equations, and inverses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.errors import ShapeError
from zyx.functions.operands import wrap
from zyx.functions.term import Term, broadcast_shapes
from zyx.linalg import lapack
from zyx.linalg.matrices import (
    adjoint,
    as_term,
    call,
    check_matrices,
    identity,
    is_flag,
    lower,
    matrices,
    pair,
    product,
    transposed,
    upper,
)

if TYPE_CHECKING:
    from zyx.functions import Tensor
    from zyx.functions.operands import Operand
    from zyx.shape import Shape

__all__ = ["cholesky_solve", "inv", "solve", "solve_triangular"]


# ---- in terms


def solved(a: Term, b: Term) -> Term:
    """Return x with ``a @ x = b``; both are matrices, with the same axes in front.

    Gradients: ``gb = solve(a^H, g)`` and ``ga = -gb @ x^H``; Giles, "Collected matrix derivative results for forward
    and reverse mode algorithmic differentiation", 2008, section 2.3.1.
    """

    def gradient(sources: tuple[Term, ...], output: int, g: Term) -> tuple[Term, Term]:
        a, b = sources
        at_b = solved(adjoint(a), g)
        return -product(at_b, adjoint(solved(a, b))), at_b

    return call("solve", lapack.solve, (a, b), (b.shape,), gradient)[0]


def inverse(a: Term) -> Term:
    """Return the inverse of square matrices."""
    return solved(a, identity(a, a.shape[-1]))


# ---- what users call


def solve(x1: Operand, x2: Operand, /) -> Tensor:
    """Return x with ``x1 @ x = x2``, by LU with partial pivoting on the host.

    Args:
        x1: ``(..., M, M)``, of a dtype of LAPACK.
        x2: ``(..., M, K)``, or ``(M,)``, one right side. The axes in front broadcast.

    Returns:
        ``(..., M, K)``, or ``(..., M)`` of one right side.

    Raises:
        DTypeError: Another dtype than LAPACK has.
        ShapeError: `x1` is not square, `x2` has another number of rows, or the axes in front do not broadcast.
        LinAlgError: When the values are read: a matrix is singular.

    >>> zyx.linalg.solve(zyx.Tensor([[2.0, 0.0], [0.0, 4.0]]), zyx.Tensor([2.0, 2.0])).tolist()
    [1.0, 0.5]
    """
    like, a, b = pair(x1, x2, "solve")
    check_matrices(a.shape, "solve", square=True, name="x1")
    is_vector = len(b.shape) == 1
    if not b.shape:
        raise ShapeError(f"solve: x2 has shape {b.shape}; right sides are (M,) or (..., M, K)")
    if is_vector:
        b = b.reshape((*b.shape, 1))
    result = _solved_together(a, b, "solve", ("x1", "x2"))
    return wrap((result.reshape(result.shape[:-1]) if is_vector else result).node, like)


def _solved_together(a: Term, b: Term, what: str, names: tuple[str, str]) -> Term:
    if a.shape[-1] != b.shape[-2]:
        raise ShapeError(
            f"{what}: {names[0]} of shape {a.shape} has {a.shape[-1]} rows, {names[1]} of shape {b.shape} has "
            f"{b.shape[-2]}; they must be as many"
        )
    batch = common_batch(a.shape, b.shape, what, names)
    return solved(a.expand((*batch, *a.shape[-2:])), b.expand((*batch, *b.shape[-2:])))


def common_batch(first: Shape, second: Shape, what: str, names: tuple[str, str]) -> Shape:
    try:
        return broadcast_shapes(first[:-2], second[:-2])
    except ShapeError as error:
        raise ShapeError(
            f"{what}: the axes in front of {names[0]} of shape {first} and of {names[1]} of shape {second} do not "
            "broadcast"
        ) from error


def inv(x: Tensor, /) -> Tensor:
    """Return the inverses of square matrices, ``(..., M, M)``: what solves with the identity on the right.

    Raises:
        DTypeError: Another dtype than LAPACK has.
        ShapeError: Not square.
        LinAlgError: When the values are read: a matrix is singular.

    >>> zyx.linalg.inv(zyx.Tensor([[2.0, 0.0], [0.0, 4.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    return wrap(inverse(as_term(matrices(x, "inv", square=True))).node, x)


def solve_triangular(
    x1: Operand, x2: Operand, /, *, upper: bool = False, unit_diagonal: bool = False, left: bool = True
) -> Tensor:
    """Return x with ``t @ x = x2``, where t is one triangle of `x1`; the other one is not read.

    Args:
        x1: ``(..., M, M)``, of a dtype of LAPACK.
        x2: ``(..., M, K)``, or ``(M,)``. The axes in front broadcast.
        upper: Whether t is the triangle above the diagonal.
        unit_diagonal: Whether the diagonal of t is 1, whatever that of `x1` is.
        left: Whether t is on the left; if not, ``x @ t = x2`` is solved, of `x2` ``(..., K, M)``.

    Raises:
        DTypeError: Another dtype than LAPACK has.
        ShapeError: As of `solve`.
        LinAlgError: When the values are read: there is a 0 on a diagonal.

    >>> zyx.linalg.solve_triangular(zyx.Tensor([[2.0, 0.0], [1.0, 1.0]]), zyx.Tensor([[2.0], [3.0]])).tolist()
    [[1.0], [2.0]]
    """
    like, a, b = pair(x1, x2, "solve_triangular")
    check_matrices(a.shape, "solve_triangular", square=True, name="x1")
    if not b.shape:
        raise ShapeError(f"solve_triangular: x2 has shape {b.shape}; right sides are (M,) or (..., M, K)")
    is_vector = len(b.shape) == 1
    if is_vector:
        b = b.reshape((*b.shape, 1))
    of_upper = is_flag(upper, "solve_triangular", "upper")
    has_ones = is_flag(unit_diagonal, "solve_triangular", "unit_diagonal")
    t = triangle(a, of_upper, has_ones)
    if not is_flag(left, "solve_triangular", "left"):
        result = _solved_together(transposed(t), transposed(b), "solve_triangular", ("x1", "x2"))
        return wrap(transposed(result).node, like)
    result = _solved_together(t, b, "solve_triangular", ("x1", "x2"))
    return wrap((result.reshape(result.shape[:-1]) if is_vector else result).node, like)


def triangle(a: Term, is_upper: bool, has_ones: bool = False) -> Term:
    """Return one triangle of matrices, with 1 on the diagonal if `has_ones`."""
    if has_ones:
        strict = upper(a, 1) if is_upper else lower(a, -1)
        return strict + identity(a, a.shape[-1])
    return upper(a) if is_upper else lower(a)


def cholesky_solve(x1: Operand, x2: Operand, /, *, upper: bool = False) -> Tensor:
    """Return x with ``a @ x = x2``, where `x1` is the factor that `cholesky` gives of a.

    Args:
        x1: ``(..., M, M)``: l of ``a = l @ l^H``, or u of ``a = u^H @ u`` if `upper`. The other triangle is not read.
        x2: ``(..., M, K)``, or ``(M,)``. The axes in front broadcast.
        upper: Which factor it is.

    Raises:
        DTypeError: Another dtype than LAPACK has.
        ShapeError: As of `solve`.
        LinAlgError: When the values are read: there is a 0 on a diagonal.

    >>> a = zyx.Tensor([[4.0, 2.0], [2.0, 5.0]])
    >>> x = zyx.linalg.cholesky_solve(zyx.linalg.cholesky(a), zyx.Tensor([[6.0], [7.0]]))
    >>> zyx.allclose(x, zyx.ones(2, 1), atol=1e-5)
    True
    """
    like, a, b = pair(x1, x2, "cholesky_solve")
    check_matrices(a.shape, "cholesky_solve", square=True, name="x1")
    if not b.shape:
        raise ShapeError(f"cholesky_solve: x2 has shape {b.shape}; right sides are (M,) or (..., M, K)")
    is_vector = len(b.shape) == 1
    if is_vector:
        b = b.reshape((*b.shape, 1))
    factor = triangle(a, is_flag(upper, "cholesky_solve", "upper"))
    factor = adjoint(factor) if upper else factor
    half = _solved_together(factor, b, "cholesky_solve", ("x1", "x2"))
    batch = half.shape[:-2]
    result = solved(adjoint(factor).expand((*batch, *factor.shape[-2:])), half)
    return wrap((result.reshape(result.shape[:-1]) if is_vector else result).node, like)
