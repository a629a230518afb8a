"""What the host computes of matrices, as functions of arrays: by NumPy, whose `numpy.linalg` calls LAPACK.

All take ``(..., m, n)`` with any axes in front, none, or no elements, and return a tuple of arrays in the dtype that
they are given, or real ones of complex matrices.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

Array: TypeAlias = "npt.NDArray[Any]"


def cholesky(a: Array) -> tuple[Array]:
    """Return the lower factor; the triangle above the diagonal of `a` is not read."""
    return (np.linalg.cholesky(a),)


def qr(a: Array, mode: Literal["reduced", "complete"]) -> tuple[Array, Array]:
    """Return Q and R."""
    q, r = np.linalg.qr(a, mode=mode)
    return q, r


def svd(a: Array, full_matrices: bool) -> tuple[Array, Array, Array]:
    """Return U, the singular values, greatest first, and V transposed."""
    _refuse_nan(a, "SVD")
    u, s, vh = np.linalg.svd(a, full_matrices=full_matrices)
    return u, s, vh


def svdvals(a: Array) -> tuple[Array]:
    """Return the singular values, greatest first."""
    _refuse_nan(a, "SVD")
    return (np.linalg.svd(a, compute_uv=False),)


def eigh(a: Array) -> tuple[Array, Array]:
    """Return eigenvalues, least first, and eigenvectors; the triangle above the diagonal of `a` is not read."""
    _refuse_nan(np.tril(a), "Eigenvalues")
    w, v = np.linalg.eigh(a)
    return w, v


def eigvalsh(a: Array) -> tuple[Array]:
    """Return eigenvalues, least first; the triangle above the diagonal of `a` is not read."""
    _refuse_nan(np.tril(a), "Eigenvalues")
    return (np.linalg.eigvalsh(a),)


def eig(a: Array) -> tuple[Array, Array]:
    """Return eigenvalues and eigenvectors, complex, of real matrices as well."""
    _refuse_nan(a, "Eigenvalues")
    w, v = np.linalg.eig(a)
    wide = _complex_of(a)
    return w.astype(wide), v.astype(wide)


def eigvals(a: Array) -> tuple[Array]:
    """Return eigenvalues, complex, of real matrices as well."""
    _refuse_nan(a, "Eigenvalues")
    return (np.linalg.eigvals(a).astype(_complex_of(a)),)


def _complex_of(a: Array) -> Any:  # noqa: ANN401  # a dtype of NumPy
    return np.result_type(a.dtype, np.complex64)


def solve(a: Array, b: Array) -> tuple[Array]:
    """Return x with ``a @ x = b``, both of matrices."""
    return (np.linalg.solve(a, b),)


def det(a: Array) -> tuple[Array]:
    """Return determinants."""
    return (np.asarray(np.linalg.det(a)),)


def slogdet(a: Array) -> tuple[Array, Array]:
    """Return signs of determinants, and logarithms of their magnitudes."""
    sign, logarithm = np.linalg.slogdet(a)
    return np.asarray(sign), np.asarray(logarithm)


def cofactors(a: Array) -> tuple[Array]:
    """Return ``det(a) * inv(a).T`` of square matrices, of singular ones, too: the slope of the determinant.

    Of a = U diag(s) V it is det(U) det(V) U* diag(product of the other s) V*, with U* and V* the conjugates. What is
    not finite gives NaN.
    """
    is_finite = np.isfinite(a).all(axis=(-2, -1), keepdims=True)
    u, s, vh = np.linalg.svd(np.where(is_finite, a, 0))
    before = np.cumprod(np.concatenate([np.ones_like(s[..., :1]), s[..., :-1]], axis=-1), axis=-1)
    after = np.cumprod(np.concatenate([np.ones_like(s[..., :1]), s[..., :0:-1]], axis=-1), axis=-1)[..., ::-1]
    turns = np.linalg.det(u) * np.linalg.det(vh)
    found = (u * (before * after)[..., None, :] @ vh).conj() * turns[..., None, None]
    return (np.where(is_finite, found, np.nan).astype(a.dtype),)


def pinv(a: Array, rtol: Array) -> tuple[Array]:
    """Return pseudo-inverses; singular values up to `rtol` times the greatest count as 0."""
    _refuse_nan(a, "SVD")
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    largest = s.max(axis=-1, keepdims=True, initial=0.0)
    counts = s > rtol[..., None] * largest
    inverse = np.where(counts, 1 / np.where(counts, s, 1), 0).astype(s.dtype)
    return (np.swapaxes(vh, -1, -2).conj() @ (inverse[..., None] * np.swapaxes(u, -1, -2).conj()),)


def lu(a: Array) -> tuple[Array, Array, Array]:
    """Return P, L and U of ``a = P @ L @ U``: rows exchanged so that no number of L is greater than 1.

    Golub and Van Loan, "Matrix Computations", 4th edition, algorithm 3.4.1, for all matrices at once.
    """
    *batch, m, n = a.shape
    k = min(m, n)
    count = math.prod(batch)
    work = a.reshape(count, m, n).copy()
    each = np.arange(count)
    order = np.broadcast_to(np.arange(m), (count, m)).copy()
    for column in range(k):
        magnitude = np.abs(work[:, column:, column])
        pivot = column + np.where(np.isnan(magnitude), np.inf, magnitude).argmax(axis=1)
        for rows in (work, order):
            rows[each, column], rows[each, pivot] = rows[each, pivot].copy(), rows[each, column].copy()
        head = work[:, column, column]
        factor = work[:, column + 1 :, column] / np.where(head == 0, 1, head)[:, None]
        work[:, column + 1 :, column] = factor
        work[:, column + 1 :, column + 1 :] -= factor[:, :, None] * work[:, None, column, column + 1 :]
    lower = np.tril(work[:, :, :k], -1) + np.eye(m, k, dtype=a.dtype)
    upper = np.triu(work[:, :k])
    permutation = np.zeros((count, m, m), a.dtype)
    permutation[each[:, None], order, np.arange(m)] = 1
    return permutation.reshape(*batch, m, m), lower.reshape(*batch, m, k), upper.reshape(*batch, k, n)


#: Coefficients of the numerator of the Pade approximation of degree 13 of the exponential, and the norm up to which it
#: is exact to double precision: Higham, "The scaling and squaring method for the matrix exponential revisited", 2005,
#: section 2.
_PADE = (
    64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000, 10559470521600,
    670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1,
)  # fmt: skip
_PADE_NORM = 5.371920351148152


def expm(a: Array) -> tuple[Array]:
    """Return the exponentials of square matrices, computed in doubles: Higham 2005, algorithm 2.3, with degree 13."""
    wide = a.astype(np.result_type(a.dtype, np.float64))
    norm = np.abs(wide).sum(axis=-2).max(axis=-1, initial=0.0)
    with np.errstate(all="ignore"):
        scale = np.where(np.isfinite(norm) & (norm > 0), np.ceil(np.log2(np.maximum(norm, 1e-300) / _PADE_NORM)), 0)
    squarings = np.maximum(scale, 0).astype(np.int64)
    x = wide * np.ldexp(1.0, -np.minimum(squarings, 1074))[..., None, None]
    one = np.eye(a.shape[-1])
    x2 = x @ x
    x4 = x2 @ x2
    x6 = x4 @ x2
    c = [float(number) for number in _PADE]
    odd = x @ (x6 @ (c[13] * x6 + c[11] * x4 + c[9] * x2) + c[7] * x6 + c[5] * x4 + c[3] * x2 + c[1] * one)
    even = x6 @ (c[12] * x6 + c[10] * x4 + c[8] * x2) + c[6] * x6 + c[4] * x4 + c[2] * x2 + c[0] * one
    result = np.linalg.solve(even - odd, even + odd)
    for done in range(int(squarings.max(initial=0))):
        result = np.where((squarings > done)[..., None, None], result @ result, result)
    return (result.astype(a.dtype),)


def _refuse_nan(a: Array, what: str) -> None:
    """Raise as LAPACK does for NaN: some of its versions do not, for infinity no version does everywhere.

    Raises:
        LinAlgError: A number is not finite.
    """
    if not np.isfinite(a).all():
        raise np.linalg.LinAlgError(f"{what} did not converge: there are numbers that are not finite")
