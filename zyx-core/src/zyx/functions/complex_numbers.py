"""Complex numbers: their parts, what they are made of, and the functions of them that are formulas of several others.

complex64 is a pair of float32, complex128 one of float64, in memory as NumPy and C have them. Below the tensor there
are only real numbers (`zyx.pairs`). Branch cuts and special cases are those of the Array API, and of C99, annex G.

A gradient at ``x + iy`` is ``dL/dx + i dL/dy``, as PyTorch has it; see `zyx.autograd.gradient`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.errors import DTypeError, ShapeError
from zyx.functions.formulas import copy_sign, hypotenuse, polar_angle
from zyx.functions.operands import align, float_dtype, require, term_of, wrap
from zyx.functions.term import Term
from zyx.ops import UnaryOp

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.functions import Tensor
    from zyx.functions.operands import Operand

__all__ = ["angle", "complex", "conj", "imag", "is_complex", "real", "view_as_complex", "view_as_real"]

_LN_2: Final = math.log(2)


# ---- making them, and taking them apart


def complex(real: Operand, imag: Operand) -> Tensor:
    """Return ``real + i * imag``: complex128 of float64, else complex64. The two are real, and broadcast.

    The result has the shape that both broadcast to.

    Raises:
        DTypeError: An operand that is complex already.

    >>> zyx.complex(zyx.Tensor([1.0, 2.0]), zyx.Tensor([0.0, -1.0])).tolist()
    [(1+0j), (2-1j)]
    """
    like, (x, y) = align((real, imag), "complex", floating=True)
    if x.dtype.is_complex:
        raise DTypeError(f"complex takes real numbers, not {x.dtype}; take .real or .imag of them")
    part = dtypes.complex_of(x.dtype).part
    return wrap(joined(x.cast(part), y.cast(part)).node, like)


def real(x: Tensor) -> Tensor:
    """Return the real part; of real numbers these.

    Elementwise: the result has the shape of `x`.

    Raises:
        DTypeError: `x` is no tensor.

    >>> zyx.real(zyx.Tensor([1 + 2j, 3j])).tolist()
    [1.0, 0.0]
    """
    term = term_of(x, "real")
    return wrap((parts(term)[0] if term.dtype.is_complex else term).node, x)


def imag(x: Tensor) -> Tensor:
    """Return the imaginary part; of real numbers 0.

    Elementwise: the result has the shape of `x`.

    Raises:
        DTypeError: `x` is no tensor.

    >>> zyx.imag(zyx.Tensor([1 + 2j, 3j])).tolist()
    [2.0, 3.0]
    """
    term = term_of(x, "imag")
    return wrap((parts(term)[1] if term.dtype.is_complex else term.like(0)).node, x)


def conj(x: Tensor) -> Tensor:
    """Return the conjugate ``real - i * imag``; of real numbers these.

    Elementwise: the result has the shape of `x`.

    Raises:
        DTypeError: `x` is no tensor.

    >>> zyx.conj(zyx.Tensor([1 + 2j])).tolist()
    [(1-2j)]
    """
    term = term_of(x, "conj")
    return wrap(term.graph.conjugate(term.node), x)


def angle(x: Tensor) -> Tensor:
    """Return the angle, -pi to pi, of each number in the plane: ``atan2(imag, real)``; of real ones 0, pi or NaN.

    Elementwise: the result has the shape of `x`.

    Raises:
        DTypeError: `x` is no tensor.

    >>> [round(v, 4) for v in zyx.angle(zyx.Tensor([1 + 0j, 1j])).tolist()]
    [0.0, 1.5708]
    """
    term = term_of(x, "angle")
    if term.dtype.is_complex:
        first, second = parts(term)
        return wrap(polar_angle(second, first).node, x)
    t = term.cast(float_dtype(term.dtype))
    return wrap(t.is_nan().where(t, (t < 0).where(t.like(math.pi), 0.0)).node, x)


def view_as_real(x: Tensor) -> Tensor:
    """Return the real and imaginary parts along one more axis, the last, of size 2, as they lie in memory.

    Raises:
        DTypeError: `x` is not complex.

    >>> zyx.view_as_real(zyx.Tensor([1 + 2j, 3j])).tolist()
    [[1.0, 2.0], [0.0, 3.0]]
    """
    term = term_of(x, "view_as_real")
    if not term.dtype.is_complex:
        raise DTypeError(f"view_as_real takes complex numbers, not {term.dtype}; see zyx.complex")
    shape = (*term.shape, 2)
    first, second = (part.reshape((*term.shape, 1)).expand(shape) for part in parts(term))
    return wrap((first.iota(len(term.shape), dtypes.int32) == 0).where(first, second).node, x)


def view_as_complex(x: Tensor) -> Tensor:
    """Return the complex numbers whose parts lie along the last axis, of size 2: the inverse of `view_as_real`.

    Raises:
        DTypeError: Not float32 or float64.
        ShapeError: The last axis has another size.

    >>> zyx.view_as_complex(zyx.Tensor([[1.0, 2.0], [0.0, 3.0]])).tolist()
    [(1+2j), 3j]
    """
    term = term_of(x, "view_as_complex")
    if term.dtype not in (dtypes.float32, dtypes.float64):
        raise DTypeError(f"view_as_complex takes float32 or float64, not {term.dtype}; use .astype(...)")
    if not term.shape or term.shape[-1] != 2:
        raise ShapeError(f"view_as_complex takes pairs along the last axis, of size 2, not shape {term.shape}")
    last, shape = len(term.shape) - 1, term.shape[:-1]
    first, second = (term.narrow(last, place, place + 1).reshape(shape) for place in range(2))
    return wrap(joined(first, second).node, x)


def is_complex(x: Tensor) -> bool:
    """Tell whether the elements of `x` are complex numbers.

    Raises:
        DTypeError: `x` is no tensor.

    >>> zyx.is_complex(zyx.Tensor([1j]))
    True
    """
    return require(x, "is_complex").node.dtype.is_complex


# ---- formulas for other families


def parts(z: Term) -> tuple[Term, Term]:
    """Return the real and the imaginary part."""
    return Term(z.graph, z.graph.component(z.node, False)), Term(z.graph, z.graph.component(z.node, True))


def joined(x: Term, y: Term) -> Term:
    """Return ``x + i * y`` of float32 or float64."""
    return Term(x.graph, x.graph.complex(x.node, y.node))


def of_term(x: object, what: str, formula: Callable[[Term], Term]) -> Tensor | None:
    """Return `formula` of `x` if that is complex, else None; `what` is named by errors."""
    term = term_of(x, what)
    return wrap(formula(term).node, require(x, what)) if term.dtype.is_complex else None


def either(holds: Callable[[Term], Term]) -> Callable[[Term], Term]:
    """Return what tells where something holds for one part, or the other."""

    def formula(z: Term) -> Term:
        x, y = parts(z)
        return holds(x) | holds(y)

    return formula


def both(holds: Callable[[Term], Term]) -> Callable[[Term], Term]:
    """Return what tells where something holds for both parts."""

    def formula(z: Term) -> Term:
        x, y = parts(z)
        return holds(x) & holds(y)

    return formula


def of_parts(function: Callable[[Term], Term]) -> Callable[[Term], Term]:
    """Return what does the same to both parts."""

    def formula(z: Term) -> Term:
        x, y = parts(z)
        return joined(function(x), function(y))

    return formula


def magnitude(z: Term) -> Term:
    """Return the distance from 0, without overflow; with gradient 0 at 0."""
    x, y = parts(z)
    zero = (x == 0) & (y == 0)
    return zero.where(0.0, hypotenuse(zero.where(1.0, x), y))


def sign(z: Term) -> Term:
    """Return ``z / abs(z)``, and 0 of 0."""
    x, y = parts(z)
    size = magnitude(z)
    zero = size == 0
    safe = zero.where(1.0, size)
    return joined(zero.where(0.0, x / safe), zero.where(0.0, y / safe))


def _times_i(z: Term) -> Term:
    x, y = parts(z)
    return joined(-y, x)


def _times_minus_i(z: Term) -> Term:
    x, y = parts(z)
    return joined(y, -x)


def tan(z: Term) -> Term:
    """Return ``-i tanh iz``."""
    return _times_minus_i(_times_i(z).tanh())


def sinh(z: Term) -> Term:
    """Return ``-i sin iz``."""
    return _times_minus_i(_times_i(z).unary(UnaryOp.SIN))


def cosh(z: Term) -> Term:
    """Return ``cos iz``."""
    return _times_i(z).unary(UnaryOp.COS)


def atanh(z: Term) -> Term:
    """Return ``-i atan iz``."""
    return _times_minus_i(_times_i(z).atan())


def asin(z: Term) -> Term:
    """Return ``-i asinh iz``."""
    return _times_minus_i(asinh(_times_i(z)))


# The others are Kahan's, "Branch cuts for complex elementary functions, or much ado about nothing's sign bit", 1987:
# roots of 1 + z and 1 - z, with the sign of a zero kept. Far out all are logarithms.


def _far(x: Term, y: Term) -> Term:
    limit = 1e10 if x.dtype is dtypes.float64 else 1e6
    return (x.abs() > limit) | (y.abs() > limit)


def _roots(far: Term, *numbers: tuple[Term, Term]) -> tuple[tuple[Term, Term], ...]:
    """Return the parts of the square root of each number, that of 1 where they are not used."""
    return tuple(parts(joined(far.where(1.0, x), far.where(1.0, y)).sqrt()) for x, y in numbers)


def _log_of_twice(z: Term, far: Term) -> Term:
    """Return ``log(2 * abs(z))`` where it is far out."""
    x, y = parts(z)
    return parts(joined(far.where(x, 1.0), far.where(y, 1.0)).log())[0] + _LN_2


def _real_asinh(x: Term) -> Term:
    """Return the inverse of the hyperbolic sine of a real number below 1e10."""
    size = (x < 0).where(-x, x)
    near = (size + size * size / ((size * size + 1.0).sqrt() + 1.0)).log1p()
    return copy_sign(near, x)


def asinh(z: Term) -> Term:
    """Return the number whose hyperbolic sine is `z`."""
    x, y = parts(z)
    far = _far(x, y)
    (a, b), (c, d) = _roots(far, (1.0 + y, -x), (1.0 - y, x))
    near = _real_asinh(a * d - b * c), polar_angle(far.where(1.0, y), a * c - b * d)
    size = copy_sign(_log_of_twice(z, far), x)
    first = far.where(size, near[0])
    second = far.where(polar_angle(far.where(y, 0.0), far.where(x.abs(), 1.0)), near[1])
    real_only = x.is_nan() & (y == 0)
    return joined(first, real_only.where(y, second))


def acos(z: Term) -> Term:
    """Return the number whose cosine is `z`."""
    x, y = parts(z)
    far = _far(x, y)
    (a, b), (c, d) = _roots(far, (1.0 - x, -y), (1.0 + x, y))
    near = 2.0 * polar_angle(a, c), _real_asinh(c * b - d * a)
    size = copy_sign(_log_of_twice(z, far), -y)
    first = far.where(polar_angle(far.where(y.abs(), 0.0), far.where(x, 1.0)), near[0])
    upright = (x == 0) & y.is_nan()
    return joined(upright.where(math.pi / 2, first), far.where(size, near[1]))


def acosh(z: Term) -> Term:
    """Return the number, of a real part >= 0, whose hyperbolic cosine is `z`."""
    x, y = parts(z)
    far = _far(x, y)
    (a, b), (c, d) = _roots(far, (x - 1.0, y), (x + 1.0, y))
    near = _real_asinh(a * c + b * d), 2.0 * polar_angle(b, c)
    first = far.where(_log_of_twice(z, far), near[0])
    second = far.where(polar_angle(far.where(y, 0.0), far.where(x, 1.0)), near[1])
    upright = (x == 0) & y.is_nan()
    return joined(first, upright.where(math.pi / 2, second))
