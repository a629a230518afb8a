"""Transforms of complex numbers, and of real ones, as the Array API names them.

With n the length, the transform of x is X[k], the sum over j of ``x[j] exp(-2 pi i j k / n)``, and the inverse one has
the other sign. `norm` says which of them is divided by n: "backward" the inverse one, "forward" the transform, "ortho"
both by the square root of n. Of several axes, one after the other is transformed.

`n`, or `s` for several axes, is how many elements are transformed: more are cut off, and fewer are followed by zeros.
Results are complex64 of float32 and complex64, complex128 of float64 and complex128, float32 and float64 where they are
real. Gradients are those of any linear function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx.errors import ShapeError
from zyx.fft.arguments import Norm, axis_of, floating, real, scale_of, size_of_axis, sizes_of_axes, swapped
from zyx.fft.transform import TransformBuilder
from zyx.functions.operands import require, wrap
from zyx.functions.term import Term

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.functions import Tensor

__all__ = [
    "fft", "fft2", "fftn", "hfft", "ifft", "ifft2", "ifftn", "ihfft", "irfft", "irfft2", "irfftn", "rfft", "rfft2",
    "rfftn",
]  # fmt: skip

#: The axes of images.
_LAST_TWO = (-2, -1)


# ---- one axis


def fft(x: Tensor, /, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Return the transform of `x` along `axis`.

    Raises:
        ShapeError: An axis that is not there, a length below 1, or another `norm`.
        DTypeError: `x` is of integers or bools.

    >>> zyx.fft.fft(zyx.Tensor([1.0, 1.0, 1.0, 1.0])).real.tolist()
    [4.0, 0.0, 0.0, 0.0]
    """
    return _along(x, [n], [axis], norm, "fft", is_inverse=False)


def ifft(x: Tensor, /, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Return the inverse of `fft`, with its errors.

    The result has the shape of `x`, or `n` elements along `axis`.

    Raises:
        AxisError: There is no such axis.
        ShapeError: `n` is below 1, or `norm` is another word.

    >>> zyx.fft.ifft(zyx.Tensor([4.0, 0.0, 0.0, 0.0])).real.tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    return _along(x, [n], [axis], norm, "ifft", is_inverse=True)


def rfft(x: Tensor, /, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Return the first ``n // 2 + 1`` elements of the transform of real `x`: the others are conjugates of these.

    Raises:
        ShapeError: As for `fft`.
        DTypeError: `x` is complex, or of integers or bools.

    >>> zyx.fft.rfft(zyx.ones(8)).shape
    (5,)
    """
    return wrap(_from_real(real(x, "rfft"), x, n, axis, norm, "rfft").node, x)


def irfft(x: Tensor, /, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Return the inverse of `rfft`: `n` real numbers, ``2 * (m - 1)`` of them of m elements unless it is given.

    Imaginary parts of the first element, and of the last one if `n` is even, count as 0. Errors are those of `fft`.

    Raises:
        AxisError: There is no such axis.
        ShapeError: `n` is below 1, or `norm` is another word.

    >>> zyx.fft.irfft(zyx.fft.rfft(zyx.ones(8))).shape
    (8,)
    """
    return wrap(_to_real(floating(x, "irfft"), x, n, axis, norm, "irfft").node, x)


def hfft(x: Tensor, /, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Return the transform, which is real, of `n` numbers that `x` is the first ``n // 2 + 1`` of, the others being
    conjugates of these: ``2 * (m - 1)`` of m elements unless `n` is given. Errors are those of `fft`.

    Raises:
        AxisError: There is no such axis.
        ShapeError: `n` is below 1, or `norm` is another word.

    >>> zyx.fft.hfft(zyx.Tensor([4 + 0j, 0j, 0j])).tolist()
    [4.0, 4.0, 4.0, 4.0]
    """
    term = floating(x, "hfft")
    conjugate = Term(term.graph, term.graph.conjugate(term.node))
    return wrap(_to_real(conjugate, x, n, axis, swapped(norm), "hfft").node, x)


def ihfft(x: Tensor, /, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """Return the inverse of `hfft`, of real `x`. Errors are those of `rfft`.

    Of `n` numbers along `axis` there are ``n // 2 + 1``.

    Raises:
        DTypeError: `x` is complex.

    >>> zyx.fft.ihfft(zyx.ones(4)).shape
    (3,)
    """
    found = _from_real(real(x, "ihfft"), x, n, axis, swapped(norm), "ihfft")
    return wrap(found.graph.conjugate(found.node), x)


# ---- several axes


def fftn(
    x: Tensor, /, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: Norm = "backward"
) -> Tensor:
    """Return the transform of `x` along `axes`: all of them, or the last ones if `s` is given; see `fft`.

    Raises:
        ShapeError: As for `fft`; or an axis comes twice, or `s` has not one size for each.
        DTypeError: `x` is of integers or bools.

    >>> zyx.fft.fftn(zyx.ones(2, 2))[0, 0].item()
    (4+0j)
    """
    return _of_several(x, s, axes, norm, "fftn", is_inverse=False)


def ifftn(
    x: Tensor, /, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: Norm = "backward"
) -> Tensor:
    """Return the inverse of `fftn`, with its errors.

    The result has the shape of `x`, or the sizes `s` along `axes`.

    Raises:
        AxisError: There is no such axis.
        ShapeError: A size is below 1, or `norm` is another word.

    >>> zyx.fft.ifftn(zyx.fft.fftn(zyx.ones(2, 2))).real.tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    return _of_several(x, s, axes, norm, "ifftn", is_inverse=True)


def rfftn(
    x: Tensor, /, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: Norm = "backward"
) -> Tensor:
    """Return the transform of real `x` along `axes`, of the last of which half is given, as of `rfft`.

    Raises:
        ShapeError: As for `fftn`; or there are no axes.
        DTypeError: `x` is complex, or of integers or bools.

    >>> zyx.fft.rfftn(zyx.ones(2, 4)).shape
    (2, 3)
    """
    return _real_forth(x, s, axes, norm, "rfftn")


def irfftn(
    x: Tensor, /, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: Norm = "backward"
) -> Tensor:
    """Return the inverse of `rfftn`, which is real: along the last of `axes` it is that of `irfft`.

    Errors are those of `fftn`; there has to be an axis.

    Raises:
        AxisError: There is no such axis.
        ShapeError: A size is below 1, or `norm` is another word.

    >>> zyx.fft.irfftn(zyx.fft.rfftn(zyx.ones(2, 4))).tolist()
    [[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]]
    """
    return _real_back(x, s, axes, norm, "irfftn")


def fft2(
    x: Tensor, /, s: Sequence[int] | None = None, axes: Sequence[int] = _LAST_TWO, norm: Norm = "backward"
) -> Tensor:
    """Return `fftn` along two axes.

    Raises:
        AxisError: There is no such axis.
        ShapeError: A size is below 1, or `norm` is another word.

    >>> zyx.fft.fft2(zyx.ones(2, 2)).tolist()
    [[(4+0j), 0j], [0j, 0j]]
    """
    return _of_several(x, s, axes, norm, "fft2", is_inverse=False)


def ifft2(
    x: Tensor, /, s: Sequence[int] | None = None, axes: Sequence[int] = _LAST_TWO, norm: Norm = "backward"
) -> Tensor:
    """Return `ifftn` along two axes.

    Raises:
        AxisError: There is no such axis.
        ShapeError: A size is below 1, or `norm` is another word.

    >>> zyx.fft.ifft2(zyx.fft.fft2(zyx.ones(2, 2))).real.tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    return _of_several(x, s, axes, norm, "ifft2", is_inverse=True)


def rfft2(
    x: Tensor, /, s: Sequence[int] | None = None, axes: Sequence[int] = _LAST_TWO, norm: Norm = "backward"
) -> Tensor:
    """Return `rfftn` along two axes.

    Raises:
        DTypeError: `x` is complex.

    >>> zyx.fft.rfft2(zyx.ones(2, 4)).shape
    (2, 3)
    """
    return _real_forth(x, s, axes, norm, "rfft2")


def irfft2(
    x: Tensor, /, s: Sequence[int] | None = None, axes: Sequence[int] = _LAST_TWO, norm: Norm = "backward"
) -> Tensor:
    """Return `irfftn` along two axes.

    Raises:
        AxisError: There is no such axis.
        ShapeError: A size is below 1, or `norm` is another word.

    >>> zyx.fft.irfft2(zyx.fft.rfft2(zyx.ones(2, 4))).shape
    (2, 4)
    """
    return _real_back(x, s, axes, norm, "irfft2")


def _of_several(
    x: Tensor, s: Sequence[int] | None, axes: Sequence[int] | None, norm: Norm, what: str, *, is_inverse: bool
) -> Tensor:
    places, sizes = sizes_of_axes(require(x, what).node.shape, s, axes, what)
    return _along(x, sizes, places, norm, what, is_inverse=is_inverse)


def _real_forth(x: Tensor, s: Sequence[int] | None, axes: Sequence[int] | None, norm: Norm, what: str) -> Tensor:
    term = real(x, what)
    places, sizes = _some_axes(term, s, axes, what)
    found = _from_real(term, x, sizes[-1], places[-1], norm, what)
    return wrap(_each(found, x, sizes[:-1], places[:-1], norm, what, is_inverse=False).node, x)


def _real_back(x: Tensor, s: Sequence[int] | None, axes: Sequence[int] | None, norm: Norm, what: str) -> Tensor:
    term = floating(x, what)
    places, sizes = _some_axes(term, s, axes, what)
    whole = term if term.dtype.is_complex else term.cast(dtypes.complex_of(term.dtype))
    whole = _each(whole, x, sizes[:-1], places[:-1], norm, what, is_inverse=True)
    return wrap(_to_real(whole, x, sizes[-1], places[-1], norm, what).node, x)


def _some_axes(
    term: Term, s: Sequence[int] | None, axes: Sequence[int] | None, what: str
) -> tuple[list[int], list[int | None]]:
    places, sizes = sizes_of_axes(term.shape, s, axes, what)
    if not places:
        raise ShapeError(f"{what}: there are no axes to transform; expected at least one")
    return places, sizes


# ---- what they have in common


def _along(
    x: Tensor, sizes: Sequence[int | None], axes: Sequence[int], norm: Norm, what: str, *, is_inverse: bool
) -> Tensor:
    term = floating(x, what)
    whole = term if term.dtype.is_complex else term.cast(dtypes.complex_of(term.dtype))
    return wrap(_each(whole, x, sizes, axes, norm, what, is_inverse=is_inverse).node, x)


def _steps(
    shape: Sequence[int],
    sizes: Sequence[int | None],
    axes: Sequence[int],
    norm: Norm,
    what: str,
    *,
    is_inverse: bool,
) -> list[tuple[int, int, float]]:
    """Return (axis, length, what sums are multiplied by) of one transform after the other, of the last axis first."""
    places = [axis_of(axis, len(shape), what) for axis in axes]
    counts = [size_of_axis(n, shape[place], what) for n, place in zip(sizes, places, strict=True)]
    scales = [scale_of(norm, count, what, is_inverse=is_inverse) for count in counts]
    if not places:
        scale_of(norm, 1, what, is_inverse=is_inverse)  # a wrong one is refused
    return [*zip(places, counts, scales, strict=True)][::-1]


def _each(
    whole: Term,
    x: Tensor,
    sizes: Sequence[int | None],
    axes: Sequence[int],
    norm: Norm,
    what: str,
    *,
    is_inverse: bool,
) -> Term:
    """Return complex numbers transformed along one axis after the other, the last one first."""
    steps = _steps(whole.shape, sizes, axes, norm, what, is_inverse=is_inverse)
    transformer = _transformer(x, whole)
    for axis, size, scale in steps:
        whole = transformer.transform(_fitted(whole, axis, size), axis, is_inverse=is_inverse, scale=scale)
    return whole


def _from_real(term: Term, x: Tensor, n: int | None, axis: int, norm: Norm, what: str) -> Term:
    """Return half of the transform of real numbers, complex."""
    ndim = len(term.shape)
    place = axis_of(axis, ndim, what)
    size = size_of_axis(n, term.shape[place], what)
    scale = scale_of(norm, size, what, is_inverse=False)
    fitted = _fitted(term, place, size)
    return _transformer(x, fitted).from_real(fitted, place, scale=scale)


def _to_real(term: Term, x: Tensor, n: int | None, axis: int, norm: Norm, what: str) -> Term:
    """Return the real numbers whose transform begins with `term`."""
    ndim = len(term.shape)
    place = axis_of(axis, ndim, what)
    size = size_of_axis(2 * (term.shape[place] - 1) if n is None else n, 0, what)
    scale = scale_of(norm, size, what, is_inverse=True)
    fitted = _fitted(term, place, size // 2 + 1)
    whole = fitted if fitted.dtype.is_complex else fitted.cast(dtypes.complex_of(fitted.dtype))
    return _transformer(x, whole).to_real(whole, place, size, scale=scale)


def _transformer(x: Tensor, term: Term) -> TransformBuilder:
    dtype = term.dtype
    return TransformBuilder(x.runtime, term.node.device, dtype.part if dtype.is_complex else dtype)


def _fitted(term: Term, axis: int, size: int) -> Term:
    """Return `size` elements along an axis, the first ones, or all and zeros."""
    found = term.shape[axis]
    if size < found:
        return term.narrow(axis, 0, size)
    return term.pad([(0, size - found if i == axis else 0) for i in range(len(term.shape))]) if size > found else term
