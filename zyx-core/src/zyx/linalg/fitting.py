"""Polynomials through points and their roots, and solutions by factors that are there; NumPy's and PyTorch's names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx.errors import ShapeError
from zyx.functions import take_habits
from zyx.functions.choosing import where
from zyx.functions.joining import concat
from zyx.functions.linalg import matmul
from zyx.functions.movement import matrix_transpose, reshape
from zyx.functions.operands import float_dtype, require, wrap
from zyx.functions.polynomials import vander
from zyx.functions.signals import convolve
from zyx.integers import as_integer
from zyx.linalg.determinants import slogdet
from zyx.linalg.eigenvalues import eigvals
from zyx.linalg.least_squares import lstsq
from zyx.linalg.solving import inv

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.functions import Tensor

__all__ = ["chain_matmul", "cholesky_inverse", "logdet", "poly", "polyfit", "roots"]


def polyfit(x: Tensor, y: Tensor, deg: int, rcond: float | None = None, w: Tensor | None = None) -> Tensor:
    """Return the coefficients, that of the highest power first, of the polynomial closest to points.

    Args:
        x: (N), where.
        y: (N) or (N, K), the values there.
        deg: The greatest power, at least 0.
        rcond: What singular values may be beside the greatest without counting as 0; None takes N times the distance
            from 1 to the next greater number.
        w: (N), by which distances are multiplied before they are squared.

    Returns:
        (deg + 1) or (deg + 1, K).

    Raises:
        ShapeError: Other shapes, no points, or a negative degree.

    >>> [round(v, 4) for v in zyx.polyfit(zyx.Tensor([0.0, 1.0, 2.0]), zyx.Tensor([1.0, 3.0, 5.0]), 1).tolist()]
    [2.0, 1.0]
    """
    points, values, deg = require(x, "polyfit"), require(y, "polyfit"), as_integer(deg, "deg")
    if (
        points.node.ndim != 1
        or values.node.ndim not in (1, 2)
        or values.node.shape[0] != points.size
        or not points.size
    ):
        raise ShapeError(f"polyfit takes (N) and (N) or (N, K), not {points.node.shape} and {values.node.shape}")
    if deg < 0:
        raise ShapeError(f"polyfit: deg is at least 0, not {deg}")
    dtype = float_dtype(dtypes.promote(points.node.dtype, values.node.dtype))
    points, values = points.astype(dtype), values.astype(dtype)
    left = vander(points, deg + 1)
    right = values if values.node.ndim == 2 else reshape(values, -1, 1)
    if w is not None:
        weights = reshape(require(w, "polyfit"), -1, 1)
        left, right = left * weights, right * weights
    scale = (left * left).sum(axis=0).sqrt()
    scale = where(scale == 0, 1.0, scale)
    limit = points.size * (2.0**-52 if dtype.bits == 64 else 2.0**-23) if rcond is None else rcond
    found = lstsq(left / scale, right, rtol=limit).solution / reshape(scale, -1, 1)
    return found if values.node.ndim == 2 else reshape(found, deg + 1)


def roots(p: Tensor) -> Tensor:
    """Return where the polynomial with coefficients `p`, that of the highest power first, is 0; complex, in any order.

    They are the eigenvalues of its companion matrix. Zeros at both ends of `p` are read.

    Raises:
        ShapeError: `p` is no vector.

    >>> sorted(round(abs(v), 4) for v in zyx.roots(zyx.Tensor([1.0, -3.0, 2.0])).tolist())
    [1.0, 2.0]
    """
    base = require(p, "roots")
    if base.node.ndim != 1:
        raise ShapeError(f"roots: coefficients are one axis, not of shape {base.node.shape}")
    held = [i for i, value in enumerate(base.tolist()) if value != 0]
    complex_dtype = dtypes.complex_of(float_dtype(base.node.dtype))
    if not held:
        return base[:0].astype(complex_dtype)
    behind = base.size - 1 - held[-1]
    inner = base[held[0] : held[-1] + 1].astype(float_dtype(base.node.dtype))
    zeros = wrap(base.runtime.graph.const(0, complex_dtype, base.node.device, (behind,)), base)
    count = int(inner.size) - 1
    if not count:
        return zeros
    first = reshape(-inner[1:] / inner[0], 1, count)
    graph = base.runtime.graph
    if count > 1:
        row, column = (wrap(graph.iota((count - 1, count), i, dtypes.int32, base.node.device), base) for i in (0, 1))
        first = concat([first, (row == column).astype(inner.node.dtype)], 0)
    return concat([eigvals(first), zeros], 0)


def poly(zeros: Tensor) -> Tensor:
    """Return the coefficients, that of the highest power first, of the polynomial that is 0 at each of `zeros`.

    Of a square matrix it is the characteristic polynomial.

    Raises:
        ShapeError: Neither a vector nor a square matrix.

    >>> zyx.poly(zyx.Tensor([1.0, 2.0])).tolist()
    [1.0, -3.0, 2.0]
    """
    base = require(zeros, "poly")
    if base.node.ndim == 2 and base.node.shape[0] == base.node.shape[1]:
        base = eigvals(base)
    elif base.node.ndim != 1:
        raise ShapeError(f"poly takes a vector or a square matrix, not shape {base.node.shape}")
    dtype = base.node.dtype if base.node.dtype.is_inexact else dtypes.float32
    one = wrap(base.runtime.graph.const(1, dtype, base.node.device, (1,)), base)
    found = one
    for i in range(base.size):
        found = convolve(found, concat([one, -base[i : i + 1].astype(dtype)], 0))
    return found


def logdet(x: Tensor) -> Tensor:
    """Return the logarithm of the determinants of matrices; NaN of negative ones.

    Raises:
        ShapeError: The matrices are not square.

    >>> round(zyx.logdet(zyx.Tensor([[2.0, 0.0], [0.0, 3.0]])).item(), 4)
    1.7918
    """
    sign, logarithm = slogdet(x)
    if sign.node.dtype.is_complex:
        return sign.log() + logarithm
    return where(sign < 0, float("nan"), logarithm)


def cholesky_inverse(factor: Tensor, upper: bool = False) -> Tensor:
    """Return the inverse of the matrix of whose `zyx.linalg.cholesky` this is the triangle.

    Raises:
        ShapeError: No square matrix.
        DTypeError: Not of floats or complex numbers.
        LinAlgError: It is singular.

    >>> zyx.cholesky_inverse(zyx.Tensor([[2.0, 0.0], [0.0, 4.0]])).tolist()
    [[0.25, 0.0], [0.0, 0.0625]]
    """
    outer = require(factor, "cholesky_inverse")
    if outer.node.ndim < 2 or outer.node.shape[-1] != outer.node.shape[-2]:
        raise ShapeError(f"cholesky_inverse takes square matrices, not shape {outer.node.shape}")
    turned = matrix_transpose(outer).conj()
    return inv(matmul(turned, outer) if upper else matmul(outer, turned))


def chain_matmul(*matrices: Tensor | Sequence[Tensor]) -> Tensor:
    """Return the product of matrices, in the order that takes the fewest multiplications, as NumPy's ``multi_dot``.

    Raises:
        ShapeError: None are given, or sizes that do not fit.

    >>> zyx.chain_matmul(zyx.ones(2, 8), zyx.ones(8, 3), zyx.ones(3, 5)).shape
    (2, 5)
    """
    given = list(matrices[0]) if len(matrices) == 1 and isinstance(matrices[0], list | tuple) else list(matrices)
    tensors = [require(x, "chain_matmul") for x in given]
    if not tensors or any(x.node.ndim != 2 for x in tensors):
        raise ShapeError(f"chain_matmul takes matrices, at least one, not shapes {[x.node.shape for x in tensors]}")
    sizes = [x.node.shape[0] for x in tensors] + [tensors[-1].node.shape[1]]
    best: dict[tuple[int, int], tuple[int, int]] = {(i, i): (0, i) for i in range(len(tensors))}
    for width in range(1, len(tensors)):
        for i in range(len(tensors) - width):
            j = i + width
            best[i, j] = min(
                (best[i, k][0] + best[k + 1, j][0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)
            )

    def product(i: int, j: int) -> Tensor:
        return tensors[i] if i == j else matmul(product(i, best[i, j][1]), product(best[i, j][1] + 1, j))

    return product(0, len(tensors) - 1)


take_habits(globals())
