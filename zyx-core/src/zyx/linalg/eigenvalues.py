"""Eigenvalues and eigenvectors, by LAPACK on the host: of symmetric and Hermitian matrices, and of any square ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zyx.dtype import complex_of
from zyx.functions.operands import wrap
from zyx.linalg import lapack
from zyx.linalg.matrices import (
    adjoint,
    as_term,
    call,
    column_scaled,
    conjugate,
    diagonal_of,
    hermitian,
    matrices,
    on_diagonal,
    product,
    real_part,
    reciprocal_differences,
    tensors,
)
from zyx.linalg.solving import solved

if TYPE_CHECKING:
    from zyx.functions import Tensor
    from zyx.functions.term import Term

__all__ = ["EigResult", "EighResult", "eig", "eigh", "eigvals", "eigvalsh"]


class EighResult(NamedTuple):
    """Eigenvalues, least first, and eigenvectors, the columns, in the same order.

    Of matrices (..., M, M) the shapes are (..., M) and (..., M, M).

    >>> [round(v, 4) for v in zyx.linalg.eigh(zyx.Tensor([[5.0, 0.0], [0.0, 2.0]])).eigenvalues.tolist()]
    [2.0, 5.0]
    """

    eigenvalues: Tensor
    eigenvectors: Tensor


class EigResult(NamedTuple):
    """Eigenvalues, in no order, and eigenvectors, the columns, each of length 1, in the same order; all are complex.

    Of matrices (..., M, M) the shapes are (..., M) and (..., M, M).

    >>> zyx.linalg.eig(zyx.Tensor([[5.0, 0.0], [0.0, 2.0]])).eigenvectors.shape
    (2, 2)
    """

    eigenvalues: Tensor
    eigenvectors: Tensor


# ---- of symmetric and Hermitian matrices


def eigh(x: Tensor, /, *, upper: bool = False) -> EighResult:
    """Return the eigenvalues, ``(..., M)``, and eigenvectors, ``(..., M, M)``, of symmetric matrices ``(..., M, M)``.

    Complex ones are Hermitian, and their eigenvalues real. The triangle above the diagonal is not read, or with `upper`
    that below. Signs of the vectors, or angles of complex ones, are as LAPACK has them; gradients through complex
    vectors are right where what follows does not depend on the angles. Gradients are those of symmetric or Hermitian
    `x`, and so are they; those of the vectors are not finite where eigenvalues are equal.

    Raises:
        DTypeError: Another dtype than LAPACK has.
        ShapeError: Not square.
        LinAlgError: When the values are read: LAPACK does not converge, as of NaN.

    >>> values, vectors = zyx.linalg.eigh(zyx.Tensor([[2.0, 0.0], [0.0, 1.0]]))
    >>> values.tolist()
    [1.0, 2.0]
    """
    return EighResult(*tensors(_eigh(_triangle(as_term(matrices(x, "eigh", square=True)), upper)), x))


def _triangle(a: Term, is_upper: bool) -> Term:
    """Return matrices whose lower triangle is that of `a`, or the adjoint of its upper one."""
    return adjoint(a) if is_upper else a


def _eigh(a: Term) -> list[Term]:
    """Return eigenvalues and eigenvectors; gradient: Giles 2008, section 2.3.3 (see `zyx.linalg.solving`)."""

    def gradient(sources: tuple[Term, ...], output: int, g: Term) -> tuple[Term]:
        values, vectors = _eigh(sources[0])
        turned = adjoint(vectors)
        if output == 0:
            return (product(column_scaled(vectors, g), turned),)
        inner = reciprocal_differences(values).cast(g.dtype) * product(turned, g)
        return (hermitian(product(product(vectors, inner), turned)),)

    return call("eigh", lapack.eigh, (a,), (a.shape[:-1], a.shape), gradient, types=(a.dtype.part, a.dtype))


def eigvalsh(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """Return the eigenvalues, ``(..., M)``, least first, of symmetric matrices ``(..., M, M)``; see `eigh`.

    Raises:
        DTypeError: Another dtype than LAPACK has.
        ShapeError: Not square.
        LinAlgError: When the values are read: LAPACK does not converge, as of NaN.

    >>> [round(v, 4) for v in zyx.linalg.eigvalsh(zyx.Tensor([[2.0, 1.0], [1.0, 2.0]])).tolist()]
    [1.0, 3.0]
    """

    def gradient(sources: tuple[Term, ...], output: int, g: Term) -> tuple[Term]:
        _, vectors = _eigh(sources[0])
        return (product(column_scaled(vectors, g), adjoint(vectors)),)

    a = _triangle(as_term(matrices(x, "eigvalsh", square=True)), upper)
    found = call("eigvalsh", lapack.eigvalsh, (a,), (a.shape[:-1],), gradient, types=(a.dtype.part,))
    return wrap(found[0].node, x)


# ---- of any square matrices


def eig(x: Tensor, /) -> EigResult:
    """Return the eigenvalues, ``(..., M)``, and eigenvectors, ``(..., M, M)``, of square matrices ``(..., M, M)``.

    With w and v these, ``x @ v = v @ diag(w)``. Both are complex, of real matrices as well; eigenvalues come as LAPACK
    has them, and so do the angles of the vectors, whose lengths are 1. Gradients through the vectors are right where
    what follows does not depend on the angles. They need M independent eigenvectors, and are huge or not finite
    without these; those of the vectors are not finite where eigenvalues are equal.

    Raises:
        DTypeError: Another dtype than LAPACK has.
        ShapeError: Not square.
        LinAlgError: When the values are read: LAPACK does not converge, as of NaN; or, of a gradient, eigenvectors are
            equal.

    >>> zyx.linalg.eig(zyx.Tensor([[0.0, -1.0], [1.0, 0.0]])).eigenvalues.shape
    (2,)
    """
    return EigResult(*tensors(_eig(as_term(matrices(x, "eig", square=True))), x))


def _eig(a: Term) -> list[Term]:
    """Return eigenvalues and eigenvectors.

    Gradient: Boeddeker, Hanebrink, Drude, Heymann and Haeb-Umbach, "On the computation of complex-valued gradients with
    application to statistically optimum beamforming", 2017, equations 4.77 and 4.78, the latter of vectors of length 1.
    """

    def gradient(sources: tuple[Term, ...], output: int, g: Term) -> tuple[Term]:
        values, vectors = _eig(sources[0])
        if output == 0:
            return (_turned_back(vectors, on_diagonal(g)),)
        turned = adjoint(vectors)
        inner = product(turned, g)
        along = real_part(diagonal_of(inner))
        inner = inner - column_scaled(product(turned, vectors), along)
        return (_turned_back(vectors, conjugate(reciprocal_differences(values)) * inner),)

    dtype = complex_of(a.dtype)
    return call("eig", lapack.eig, (a,), (a.shape[:-1], a.shape), gradient, types=(dtype, dtype))


def _turned_back(vectors: Term, inner: Term) -> Term:
    """Return ``V^-H @ inner @ V^H``."""
    turned = adjoint(vectors)
    return solved(turned, product(inner, turned))


def eigvals(x: Tensor, /) -> Tensor:
    """Return the eigenvalues, ``(..., M)``, complex and in no order, of square matrices ``(..., M, M)``; see `eig`.

    Raises:
        DTypeError: Another dtype than LAPACK has.
        ShapeError: Not square.
        LinAlgError: When the values are read: LAPACK does not converge, as of NaN; or, of a gradient, eigenvectors are
            equal.

    >>> sorted(round(abs(v), 4) for v in zyx.linalg.eigvals(zyx.Tensor([[2.0, 1.0], [0.0, 3.0]])).tolist())
    [2.0, 3.0]
    """

    def gradient(sources: tuple[Term, ...], output: int, g: Term) -> tuple[Term]:
        return (_turned_back(_eig(sources[0])[1], on_diagonal(g)),)

    a = as_term(matrices(x, "eigvals", square=True))
    found = call("eigvals", lapack.eigvals, (a,), (a.shape[:-1],), gradient, types=(complex_of(a.dtype),))
    return wrap(found[0].node, x)
