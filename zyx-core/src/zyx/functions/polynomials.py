"""Polynomials: vectors of coefficients, that of the highest power first, as in NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zyx import dtype as dtypes
from zyx.errors import ShapeError
from zyx.functions import take_habits
from zyx.functions.arithmetic import multiply
from zyx.functions.joining import concat, pad, stack
from zyx.functions.movement import reshape
from zyx.functions.operands import float_dtype, is_tensor, require, wrap
from zyx.functions.signals import convolve
from zyx.integers import as_integer

if TYPE_CHECKING:
    from zyx.functions import Tensor
    from zyx.functions.operands import Operand

__all__ = ["polyadd", "polyder", "polyint", "polymul", "polysub", "polyval", "vander"]


def _check_rank(p: Tensor, what: str) -> None:
    if p.node.ndim != 1:
        raise ShapeError(f"{what}: coefficients are one axis, not of shape {p.node.shape}")


def polyval(p: Tensor, x: Operand) -> Tensor:
    """Return the polynomial with coefficients `p`, that of the highest power first, at `x`.

    The result has the shape of `x`.

    Raises:
        ShapeError: Coefficients that are no vector.
        DTypeError: `p` is no tensor, or `x` nothing to compute with.

    >>> zyx.polyval(zyx.Tensor([1.0, 0.0, 2.0]), zyx.Tensor([3.0])).tolist()
    [11.0]
    """
    factors = require(p, "polyval")
    _check_rank(factors, "polyval")
    result: Any = x * 0 if is_tensor(x) else factors.sum() * 0
    for i in range(factors.size):
        result = multiply(result, x) + factors[i]
    found: Tensor = result
    return found


def _aligned(p: Tensor, q: Tensor, what: str) -> tuple[Tensor, Tensor]:
    a, b = require(p, what), require(q, what)
    if a.node.ndim > 1 or b.node.ndim > 1:
        raise ShapeError(f"{what}: coefficients are one axis, not of shapes {a.node.shape} and {b.node.shape}")
    a, b = reshape(a, a.size), reshape(b, b.size)
    size = max(a.size, b.size)
    return pad(a, ((size - a.size, 0),)), pad(b, ((size - b.size, 0),))


def polyadd(p: Tensor, q: Tensor) -> Tensor:
    """Return the coefficients of the sum of two polynomials, that of the highest power first.

    The coefficients are vectors, of which the longer one gives the length of the result.

    Raises:
        ShapeError: Coefficients that are no vector.

    >>> zyx.polyadd(zyx.Tensor([1, 2, 3]), zyx.Tensor([10, 20])).tolist()
    [1, 12, 23]
    """
    a, b = _aligned(p, q, "polyadd")
    return a + b


def polysub(p: Tensor, q: Tensor) -> Tensor:
    """Return the coefficients of the difference of two polynomials, that of the highest power first.

    The coefficients are vectors, of which the longer one gives the length of the result.

    Raises:
        ShapeError: Coefficients that are no vector.
        DTypeError: Both are of bools.

    >>> zyx.polysub(zyx.Tensor([1, 2, 3]), zyx.Tensor([1, 1])).tolist()
    [1, 1, 2]
    """
    a, b = _aligned(p, q, "polysub")
    return a - b


def polymul(p: Tensor, q: Tensor) -> Tensor:
    """Return the coefficients of the product of two polynomials, that of the highest power first.

    Vectors of N and M coefficients give one of N + M - 1.

    Raises:
        ShapeError: Coefficients that are no vector.

    >>> zyx.polymul(zyx.Tensor([1, 1]), zyx.Tensor([1, -1])).tolist()
    [1, 0, -1]
    """
    return convolve(p, q)


def _powers(p: Tensor, first: int, count: int) -> Tensor:
    """Return `count` powers, descending, of which the last is `first`."""
    ramp = wrap(p.runtime.graph.iota((int(count),), 0, dtypes.int64, p.node.device), p)
    return (count - 1 + first) - ramp


def polyder(p: Tensor, m: int = 1) -> Tensor:
    """Return the coefficients of the `m`-th derivative of a polynomial, that of the highest power first.

    A vector of N coefficients gives one of N - `m`.

    Raises:
        ShapeError: Coefficients that are no vector.
        ShapeError: `m` is negative.

    >>> zyx.polyder(zyx.Tensor([1.0, 2.0, 3.0])).tolist()
    [2.0, 2.0]
    """
    found, m = require(p, "polyder"), as_integer(m, "m")
    if m < 0:
        raise ShapeError(f"polyder: m is at least 0, not {m}")
    _check_rank(found, "polyder")
    for _ in range(m):
        found = found[:-1] * _powers(found, 1, found.size - 1) if found.size > 1 else found[:0]
    return found


def polyint(p: Tensor, m: int = 1, k: float = 0.0) -> Tensor:
    """Return the coefficients of the `m`-th integral of a polynomial, with the constants `k`.

    A vector of N coefficients gives one of N + `m`, of floats.

    Raises:
        ShapeError: Coefficients that are no vector.
        ShapeError: `m` is negative.

    >>> zyx.polyint(zyx.Tensor([2.0, 2.0]), k=3.0).tolist()
    [1.0, 2.0, 3.0]
    """
    found, m = require(p, "polyint"), as_integer(m, "m")
    if m < 0:
        raise ShapeError(f"polyint: m is at least 0, not {m}")
    _check_rank(found, "polyint")
    found = found.astype(float_dtype(found.node.dtype))
    for _ in range(m):
        constant = wrap(found.runtime.graph.const(k, found.node.dtype, found.node.device, (1,)), found)
        found = concat([found / _powers(found, 1, found.size).astype(found.node.dtype), constant], 0)
    return found


def vander(x: Tensor, n: int | None = None, increasing: bool = False) -> Tensor:
    """Return the powers of each element of a vector, an element a row: from the power `n` - 1 down to 0, or up.

    Raises:
        ShapeError: `x` is no vector, or `n` is negative.

    >>> zyx.vander(zyx.Tensor([2, 3]), 3).tolist()
    [[4, 2, 1], [9, 3, 1]]
    """
    base = require(x, "vander")
    if base.node.ndim != 1:
        raise ShapeError(f"vander takes one axis; the shape is {base.node.shape}")
    count = base.size if n is None else as_integer(n, "n")
    if count < 0:
        raise ShapeError(f"vander: n is at least 0, not {count}")
    if not count:
        return reshape(base[:0], base.size, 0) if base.size else reshape(base, 0, 0)
    column, columns = wrap(base.runtime.graph.const(1, base.node.dtype, base.node.device, base.node.shape), base), []
    for _ in range(count):
        columns.append(column)
        column = column * base
    return stack(columns if increasing else columns[::-1], 1)


take_habits(globals())
