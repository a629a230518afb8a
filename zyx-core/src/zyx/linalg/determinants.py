"""Determinants, by LU with partial pivoting on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zyx.functions.complex_numbers import parts
from zyx.functions.operands import wrap
from zyx.linalg import lapack
from zyx.linalg.matrices import (
    adjoint,
    as_term,
    call,
    conjugate,
    imaginary,
    matrices,
    product,
    tensors,
    transposed,
)
from zyx.linalg.solving import inverse

if TYPE_CHECKING:
    from zyx.functions import Tensor
    from zyx.functions.term import Term

__all__ = ["SlogdetResult", "det", "slogdet"]


class SlogdetResult(NamedTuple):
    """Determinants as ``sign * exp(logabsdet)``.

    Attributes:
        sign: 1, -1, or 0 of singular matrices; of complex ones any number of magnitude 1, or 0.
        logabsdet: Logarithm of the magnitude; minus infinity of singular matrices.

    >>> zyx.linalg.slogdet(zyx.eye(3)).logabsdet.item()
    0.0
    """

    sign: Tensor
    logabsdet: Tensor


def _determinant(a: Term) -> Term:
    def gradient(sources: tuple[Term, ...], output: int, g: Term) -> tuple[Term]:
        return (conjugate(_cofactors(sources[0])) * g.reshape((*g.shape, 1, 1)),)

    return call("det", lapack.det, (a,), (a.shape[:-2],), gradient)[0]


def _cofactors(a: Term) -> Term:
    """Return ``det(a) * inv(a).T``, of singular matrices, too; gradients, which are second ones, need the inverse.

    With C the cofactors, X the inverse and E a change of `a`, that of C is ``trace(X @ E) * C - X.T @ E.T @ C``.
    """

    def gradient(sources: tuple[Term, ...], output: int, g: Term) -> tuple[Term]:
        a, g = sources[0], conjugate(g)
        turned, own = transposed(inverse(a)), _cofactors(a)
        last = len(g.shape) - 1
        along = (g * own).sum((last - 1, last))
        return (conjugate(turned * along - product(product(own, transposed(g)), turned)),)

    return call("cofactors", lapack.cofactors, (a,), (a.shape,), gradient)[0]


def det(x: Tensor, /) -> Tensor:
    """Return the determinants, ``(...)``, of square matrices ``(..., M, M)``, by LU on the host; 1 of those of no rows.

    The gradient is right at singular matrices, too; second ones need the inverse.

    Raises:
        DTypeError: Another dtype than LAPACK has.
        ShapeError: Not square.

    >>> zyx.linalg.det(zyx.Tensor([[2.0, 0.0], [0.0, 4.0]])).item()
    8.0
    """
    return wrap(_determinant(as_term(matrices(x, "det", square=True))).node, x)


def slogdet(x: Tensor, /) -> SlogdetResult:
    """Return sign and logarithm of the determinants, ``(...)`` each, of square matrices ``(..., M, M)``.

    The gradient of the logarithm is the adjoint of the inverse; that of the sign is 0, but for complex matrices.

    Raises:
        DTypeError: Another dtype than LAPACK has.
        ShapeError: Not square.
        LinAlgError: When a gradient at a singular matrix is read.

    >>> sign, logarithm = zyx.linalg.slogdet(zyx.Tensor([[0.0, 1.0], [1.0, 0.0]]))
    >>> sign.item(), logarithm.item()
    (-1.0, 0.0)
    """
    return SlogdetResult(*tensors(_slogdet(as_term(matrices(x, "slogdet", square=True))), x))


def _slogdet(a: Term) -> list[Term]:
    """Return signs and logarithms; a change E turns the sign by the angle ``imag(trace(inv(a) @ E))``."""

    def gradient(sources: tuple[Term, ...], output: int, g: Term) -> tuple[Term | None]:
        a = sources[0]
        if output == 0:
            if not a.dtype.is_complex:
                return (None,)
            g = imaginary(parts(conjugate(_slogdet(a)[0]) * g)[1])
        return (adjoint(inverse(a)) * g.reshape((*g.shape, 1, 1)).cast(a.dtype),)

    return call("slogdet", lapack.slogdet, (a,), (a.shape[:-2],) * 2, gradient, types=(a.dtype, a.dtype.part))
