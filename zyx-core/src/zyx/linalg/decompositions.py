"""Decompositions of matrices, all by LAPACK on the host, with their gradients as formulas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from zyx.errors import GradientError, ShapeError
from zyx.functions.complex_numbers import parts
from zyx.functions.joining import join_terms
from zyx.functions.operands import wrap
from zyx.linalg import lapack
from zyx.linalg.matrices import (
    adjoint,
    as_term,
    call,
    column_scaled,
    diagonal_of,
    distance,
    hermitian,
    imaginary,
    is_flag,
    lower,
    matrices,
    on_diagonal,
    product,
    real_part,
    reciprocal_differences,
    row_scaled,
    tensors,
    upper,
)
from zyx.linalg.solving import solved

if TYPE_CHECKING:
    from zyx.functions import Tensor
    from zyx.functions.term import Term

__all__ = [
    "LUResult",
    "QRResult",
    "SVDResult",
    "cholesky",
    "lu",
    "qr",
    "svd",
    "svdvals",
]


class QRResult(NamedTuple):
    """``x = Q @ R``: Q has orthonormal columns, R is upper triangular.

    Of matrices (..., M, N) with K the lesser of both, the shapes are (..., M, K) and (..., K, N); of the complete
    factors (..., M, M) and (..., M, N).

    >>> zyx.linalg.qr(zyx.ones(4, 3)).R.shape
    (3, 3)
    """

    Q: Tensor
    R: Tensor


class SVDResult(NamedTuple):
    """``x = U @ diag(S) @ Vh``: columns of U and rows of Vh are orthonormal, S is not negative, greatest first.

    Of matrices (..., M, N) with K the lesser of both, S has the shape (..., K).

    >>> [round(v, 4) for v in zyx.linalg.svd(zyx.Tensor([[0.0, 3.0], [2.0, 0.0]])).S.tolist()]
    [3.0, 2.0]
    """

    U: Tensor
    S: Tensor
    Vh: Tensor


class LUResult(NamedTuple):
    """``x = P @ L @ U``: P permutes rows, L is lower triangular with 1 on its diagonal, U is upper triangular.

    Of matrices (..., M, N) with K the lesser of M and N, the shapes are (..., M, M), (..., M, K) and (..., K, N).

    >>> zyx.linalg.lu(zyx.eye(2)).L.tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    P: Tensor
    L: Tensor
    U: Tensor


# ---- Cholesky


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """Return the factors of positive definite matrices, symmetric or of complex numbers Hermitian.

    Args:
        x: ``(..., M, M)``, of a dtype of LAPACK. The triangle above the diagonal is not read.
        upper: Whether the factor is u of ``x = u^H @ u`` instead of l of ``x = l @ l^H``.

    Returns:
        ``(..., M, M)``. The gradient is that of Hermitian `x`, and Hermitian.

    Raises:
        DTypeError: Another dtype than LAPACK has.
        ShapeError: Not square.
        LinAlgError: When the values are read: a matrix is not positive definite.

    >>> zyx.linalg.cholesky(zyx.Tensor([[4.0, 0.0], [0.0, 9.0]])).tolist()
    [[2.0, 0.0], [0.0, 3.0]]
    """
    a = as_term(matrices(x, "cholesky", square=True))
    factor = _cholesky(a)
    return wrap((adjoint(factor) if is_flag(upper, "cholesky", "upper") else factor).node, x)


def _cholesky(a: Term) -> Term:
    """Return l; gradient: Murray, "Differentiation of the Cholesky decomposition", 2016, equation 10."""

    def gradient(sources: tuple[Term, ...], output: int, g: Term) -> tuple[Term]:
        factor = _cholesky(sources[0])
        turned = adjoint(factor)
        inner = lower(product(turned, lower(g)))
        inner = (distance(inner) == 0).where(inner * 0.5, inner)
        left = solved(turned, inner)  # l^-H @ inner
        return (hermitian(adjoint(solved(turned, adjoint(left)))),)  # ... @ l^-1

    return call("cholesky", lapack.cholesky, (a,), (a.shape,), gradient)[0]


# ---- QR


def qr(x: Tensor, /, *, mode: Literal["reduced", "complete"] = "reduced") -> QRResult:
    """Return orthonormal Q and upper triangular R with ``x = Q @ R``.

    Args:
        x: ``(..., M, N)``, of a dtype of LAPACK.
        mode: "reduced", with K = min(M, N), or "complete", with K = M.

    Returns:
        Q ``(..., M, K)`` and R ``(..., K, N)``, whose diagonal is real. Gradients need the first K columns of `x` to be
        independent.

    Raises:
        DTypeError: Another dtype than LAPACK has.
        ShapeError: Fewer than two axes, or another mode.
        GradientError: For a gradient of the complete mode if M > N: the columns of Q that are added are not unique.

    >>> q, r = zyx.linalg.qr(zyx.ones(3, 2))
    >>> q.shape, r.shape
    ((3, 2), (2, 2))
    """
    a = as_term(matrices(x, "qr"))
    if mode not in ("reduced", "complete"):
        raise ShapeError(f"qr: mode is 'reduced' or 'complete', not {mode!r}")
    return QRResult(*tensors(_qr(a, mode), x))


def _qr(a: Term, mode: str) -> list[Term]:
    """Return Q and R.

    Gradient: Roberts and Roberts, "QR and LQ decomposition matrix backpropagation algorithms for square, wide, and deep
    matrices and their software implementation", 2020.
    """
    *batch, m, n = a.shape
    k = m if mode == "complete" else min(m, n)

    def gradient(sources: tuple[Term, ...], output: int, g: Term) -> tuple[Term]:
        if k > n:
            raise GradientError(
                f"qr of {a.shape} in mode 'complete' has no gradient: columns of Q beyond {n} are not unique; use "
                "mode='reduced'"
            )
        source = sources[0]
        q, r = _qr(source, mode)
        last = len(g.shape) - 1
        at_q = g if output == 0 else None
        at_r = g if output == 1 else None
        if k == n:
            return (_qr_deep(q, r, at_q, at_r),)
        # x = [first, rest], r = [square, q^H @ rest]
        rest = source.narrow(last, k, n)
        square = r.narrow(last, 0, k)
        if at_r is None:
            first = _qr_deep(q, square, at_q, None)
            return (first.pad([(0, 0)] * last + [(0, n - k)]),)
        behind = at_r.narrow(last, k, n)
        first = _qr_deep(q, square, product(rest, adjoint(behind)), at_r.narrow(last, 0, k))
        return (join_terms([first, product(q, behind)], last),)

    return call("qr", lapack.qr, (a,), ((*batch, m, k), (*batch, k, n)), gradient, mode)


def _qr_deep(q: Term, r: Term, at_q: Term | None, at_r: Term | None) -> Term:
    """Return the gradient at matrices of at least as many rows as columns; r is square."""
    inner: Term | None = None
    if at_r is not None:
        inner = product(r, adjoint(upper(at_r)))
    if at_q is not None:
        turned = product(adjoint(at_q), q)
        inner = -turned if inner is None else inner - turned
    assert inner is not None
    strict = lower(inner, -1)
    middle = real_part((distance(inner) == 0).where(inner, 0.0)).cast(inner.dtype)  # that of r is real
    total = product(q, strict + adjoint(strict) + middle)
    if at_q is not None:
        total = total + at_q
    return adjoint(solved(r, adjoint(total)))


# ---- singular values


def svd(x: Tensor, /, *, full_matrices: bool = True) -> SVDResult:
    """Return singular values and vectors, with ``x = U[..., :K] @ diag(S) @ Vh[..., :K, :]`` and K = min(M, N).

    Args:
        x: ``(..., M, N)``, of a dtype of LAPACK.
        full_matrices: Whether U and Vh are square. Gradients of theirs beyond K are undefined, so these need False
            unless `x` is square.

    Returns:
        U ``(..., M, M)`` or ``(..., M, K)``, S ``(..., K)``, Vh ``(..., N, N)`` or ``(..., K, N)``. S is
        real. Signs of the vectors, or angles of complex ones, are as LAPACK has them; gradients through U and Vh of
        complex matrices are right where what follows does not depend on the angles. They are not finite where singular
        values are equal, and those of complex matrices or ones that are not square where one is 0.

    Raises:
        DTypeError: Another dtype than LAPACK has.
        ShapeError: Fewer than two axes.
        LinAlgError: When the values are read: LAPACK does not converge, as of NaN.
        GradientError: For a gradient of U or Vh, if these have more than K vectors.

    >>> u, s, vh = zyx.linalg.svd(zyx.ones(3, 2), full_matrices=False)
    >>> u.shape, s.shape, vh.shape
    ((3, 2), (2,), (2, 2))
    """
    a = as_term(matrices(x, "svd"))
    return SVDResult(*tensors(_svd(a, is_flag(full_matrices, "svd", "full_matrices")), x))


def _svd(a: Term, is_full: bool) -> list[Term]:
    """Return U, S and Vh; gradient: Townsend, "Differentiating the singular value decomposition", 2016, section 3."""
    *batch, m, n = a.shape
    k = min(m, n)
    rows, columns = (m, n) if is_full else (k, k)
    is_complex = a.dtype.is_complex

    def gradient(sources: tuple[Term, ...], output: int, g: Term) -> tuple[Term]:
        if is_full and m != n and output != 1:
            raise GradientError(
                f"svd of {a.shape} has no gradient of its {'U' if output == 0 else 'Vh'}, since vectors beyond {k} are "
                "not unique; use full_matrices=False"
            )
        source = sources[0]
        u, s, vh = _svd(source, False)
        if output == 1:
            return (product(column_scaled(u, g), vh),)
        factors = reciprocal_differences(s * s)
        vectors, upstream = (u, g) if output == 0 else (adjoint(vh), adjoint(g))
        inner = product(adjoint(vectors), upstream)
        turns = (diagonal_of(inner) if output == 0 else -diagonal_of(inner)) if is_complex else None
        inner = factors.cast(a.dtype) * (inner - adjoint(inner))
        between = column_scaled(inner, s) if output == 0 else row_scaled(inner, s)
        if turns is not None:  # both vectors of a pair turn by half of the angle that a change makes
            between = between + on_diagonal(imaginary(parts(turns)[1] / s * 0.5))
        total = product(product(u, between), vh)
        if output == 0 and m > k:
            beyond = column_scaled(upstream - product(u, product(adjoint(u), upstream)), s.reciprocal())
            total = total + product(beyond, vh)
        if output == 2 and n > k:
            beyond = upstream - product(vectors, product(vh, upstream))
            total = total + product(column_scaled(u, s.reciprocal()), adjoint(beyond))
        return (total,)

    shapes = ((*batch, m, rows), (*batch, k), (*batch, columns, n))
    return call("svd", lapack.svd, (a,), shapes, gradient, is_full, types=(a.dtype, a.dtype.part, a.dtype))


def svdvals(x: Tensor, /) -> Tensor:
    """Return the singular values, ``(..., min(M, N))``, greatest first, of ``(..., M, N)``; they are real.

    Raises:
        DTypeError: Another dtype than LAPACK has.
        ShapeError: Fewer than two axes.
        LinAlgError: When the values are read: LAPACK does not converge, as of NaN.

    >>> zyx.linalg.svdvals(zyx.Tensor([[2.0, 0.0], [0.0, 4.0]])).tolist()
    [4.0, 2.0]
    """
    return wrap(singular_values(as_term(matrices(x, "svdvals"))).node, x)


def singular_values(a: Term) -> Term:
    """Return the singular values, greatest first."""

    def gradient(sources: tuple[Term, ...], output: int, g: Term) -> tuple[Term]:
        u, _, vh = _svd(sources[0], False)
        return (product(column_scaled(u, g), vh),)

    *batch, m, n = a.shape
    return call("svdvals", lapack.svdvals, (a,), ((*batch, min(m, n)),), gradient, types=(a.dtype.part,))[0]


# ---- LU


def lu(x: Tensor, /) -> LUResult:
    """Return P, L and U with ``x = P @ L @ U``, by elimination with partial pivoting on the host.

    Args:
        x: ``(..., M, N)``, of a dtype of LAPACK. With K = min(M, N):

    Returns:
        P ``(..., M, M)``, L ``(..., M, K)``, U ``(..., K, N)``. Gradients of L and U need the first K rows of
        ``P.T @ x`` to have an inverse in their first K columns, and M = N; that of P is 0.

    Raises:
        DTypeError: Another dtype than LAPACK has.
        ShapeError: Fewer than two axes.
        GradientError: For a gradient of matrices that are not square.

    >>> a = zyx.Tensor([[1.0, 2.0], [4.0, 6.0]])
    >>> p, l, u = zyx.linalg.lu(a)
    >>> zyx.allclose(p @ l @ u, a)
    True
    """
    return LUResult(*tensors(_lu(as_term(matrices(x, "lu"))), x))


def _lu(a: Term) -> list[Term]:
    """Return P, L and U.

    Gradient: with F = strictly lower part of ``L^H @ gL`` + upper part of ``gU @ U^H``, that at `a` is
    ``P @ L^-H @ F @ U^-H``: Lin, "Differentiating the LU decomposition", 2022, equation 1.
    """
    *batch, m, n = a.shape
    k = min(m, n)

    def gradient(sources: tuple[Term, ...], output: int, g: Term) -> tuple[Term | None]:
        if output == 0:
            return (None,)
        if m != n:
            raise GradientError(f"lu of {a.shape} has no gradient here: only that of square matrices is known")
        p, left, right = _lu(sources[0])
        inner = (
            lower(product(adjoint(left), lower(g, -1)), -1) if output == 1 else upper(product(upper(g), adjoint(right)))
        )
        found = solved(adjoint(left), inner)
        found = adjoint(solved(right, adjoint(found)))
        return (product(p, found),)

    return call("lu", lapack.lu, (a,), ((*batch, m, m), (*batch, m, k), (*batch, k, n)), gradient, library="NumPy")
