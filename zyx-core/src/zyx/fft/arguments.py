"""Check what transforms are given, before anything is made of it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from zyx import dtype as dtypes
from zyx.errors import AxisError, DTypeError, ShapeError
from zyx.functions.operands import term_of
from zyx.integers import as_index, as_integers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.functions import Tensor
    from zyx.functions.term import Term

Norm: TypeAlias = Literal["backward", "ortho", "forward"] | None
_NORMS: Final = ("backward", "ortho", "forward")


def floating(x: Tensor, what: str) -> Term:
    """Return a term of float32 or float64, or of their complex types; smaller floats become float32.

    Raises:
        DTypeError: Integers and bools, which are not transformed.
    """
    term = term_of(x, what)
    if term.dtype.is_complex:
        return term
    if not term.dtype.is_float:
        raise DTypeError(
            f"{what}: x is {term.dtype}; floating-point numbers are transformed: use .astype(zyx.float32) or "
            ".astype(zyx.complex64)"
        )
    return term.cast(dtypes.accumulator(term.dtype))


def real(x: Tensor, what: str) -> Term:
    """Return what `floating` does for real numbers.

    Raises:
        DTypeError: `x` is complex, or no float.
    """
    term = floating(x, what)
    if term.dtype.is_complex:
        raise DTypeError(f"{what}: x is {term.dtype}, and real numbers are expected; take zyx.real(x), or use fft")
    return term


def axis_of(axis: int, ndim: int, what: str) -> int:
    """Return the axis counted from the front.

    Raises:
        AxisError: There is none; `what` names the function.
    """
    place = as_index(axis, "axis")
    if not -ndim <= place < ndim:
        raise AxisError(f"{what}: axis {axis} of an array of {ndim} axes; expected {-ndim} to {ndim - 1}")
    return place % ndim


def size_of_axis(n: int | None, found: int, what: str, name: str = "n") -> int:
    """Return the length to transform: `n`, or what the axis has if that is None.

    Raises:
        ShapeError: It is less than 1.
    """
    size = found if n is None else as_index(n, name)
    if size < 1:
        said = f"{name} = {size}" if n is not None else "the axis has no elements"
        raise ShapeError(f"{what}: {said}; a transform is of at least 1 element")
    return size


def sizes_of_axes(
    shape: Sequence[int], s: Sequence[int] | None, axes: Sequence[int] | None, what: str
) -> tuple[list[int], list[int | None]]:
    """Return the axes and how many elements of each are transformed, None for what there are.

    Without `axes` they are the last ones, as many as `s` has, or all. A size of -1 in `s` is that of the axis.
    One number is one size or one axis.

    Raises:
        ShapeError: Different numbers of sizes and axes, an axis that is not there, or one that comes twice.
    """
    ndim = len(shape)
    s, axes = (None if given is None else as_integers(given, name) for given, name in ((s, "s"), (axes, "axes")))
    if s is not None and len(s) > ndim and axes is None:
        raise ShapeError(f"{what}: s = {tuple(s)} has {len(s)} sizes for an array of {ndim} axes")
    wanted = range(ndim if s is None else len(s)) if axes is None else axes
    places = [axis_of(axis - (len(wanted) if axes is None else 0), ndim, what) for axis in wanted]
    if len(set(places)) != len(places):
        raise ShapeError(f"{what}: axes = {tuple(wanted)} has an axis twice; expected different ones")
    if s is None:
        return places, [None] * len(places)
    if len(s) != len(places):
        raise ShapeError(f"{what}: s = {tuple(s)} has {len(s)} sizes for {len(places)} axes; expected one for each")
    return places, [None if size == -1 else size for size in s]


def scale_of(norm: Norm, size: int, what: str, *, is_inverse: bool) -> float:
    """Return what the sums of a transform of `size` elements are multiplied by.

    Raises:
        ShapeError: `norm` is none of "backward", "ortho" and "forward"; None is "backward".
    """
    name = "backward" if norm is None else norm
    if name not in _NORMS:
        raise ShapeError(f'{what}: norm = {norm!r}; expected "backward", "ortho" or "forward"')
    if name == "ortho":
        return 1.0 / math.sqrt(size)
    return 1.0 / size if (name == "backward") == is_inverse else 1.0


def swapped(norm: Norm) -> Norm:
    """Return the norm of the transform in the other direction; what is no norm stays for `scale_of` to refuse."""
    if norm is None or norm == "backward":
        return "forward"
    return "backward" if norm == "forward" else norm
