"""Arithmetic on shapes and axes: plain functions on tuples of integers, with errors that name the shapes."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar

from zyx.errors import AxisError, ShapeError
from zyx.integers import as_index, is_several

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence
    from typing import SupportsIndex

Shape: TypeAlias = tuple[int, ...]
P = ParamSpec("P")
R = TypeVar("R")


class VaryingSize:
    """What stands in for a size while a function is traced for many lengths, an int to all who compute with shapes."""

    __slots__ = ()

    @property
    def key(self) -> Hashable:
        """What is equal for equal sizes of one trace, whatever their numbers, and for nothing else."""
        raise NotImplementedError

    def look(self) -> int:
        """Return the number that it is in this call; the trace is for no other from then on."""
        raise NotImplementedError

    def now(self) -> int:
        """Return it as it is while its trace is being made, the number later."""
        raise NotImplementedError

    def as_number(self) -> object:
        """Return what stands in for it as a number, and no size."""
        raise NotImplementedError

    def of_shape(self, shape: Shape) -> VaryingSize:
        """Return it as the number of elements of a shape, of which a call gives the sizes: see `sizes_called`."""
        raise NotImplementedError


def has_varying(values: Iterable[object]) -> bool:
    """Whether a size that varies is among some values, or in tuples among these."""
    return any([isinstance(value, VaryingSize) or (type(value) is tuple and has_varying(value)) for value in values])


def cached_by_shape(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function of shapes that remembers what it gave, but for sizes that vary: these are of one trace."""
    cached = functools.lru_cache(maxsize=256)(function)

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        if has_varying(args):
            return function(*args, **kwargs)
        return cached(*args, **kwargs)  # type: ignore[arg-type]  # shapes, names and numbers, which are hashable

    return called


def as_size(given: SupportsIndex, name: str = "a size") -> int:
    """Return `given` as an int, or as it is if it stands in for one. Raises `IntegerError` for what is no integer."""
    return given.now() if isinstance(given, VaryingSize) else as_index(given, name)


def as_shape(given: int | Sequence[int], name: str = "shape") -> Shape:
    """Return `given` as a tuple of sizes; a single integer is a shape of rank 1.

    Raises:
        ShapeError: A negative size, or something that is no integer.
    """
    if type(given) is tuple or is_several(given):
        each = f"each size of {name}"
        shape = tuple([n if type(n) is int else as_size(n, each) for n in given])
    else:
        shape = (as_size(given, name),)  # type: ignore[arg-type]  # the error is what we are after
    for n in shape:  # one by one: what stands in for sizes is not to be compared with others
        if n < 0:
            raise ShapeError(f"negative size in shape {shape}")
    return shape


def as_sizes(given: tuple[Any, ...]) -> tuple[int, ...]:
    """Return the integers of ``f(2, 3)`` or ``f((2, 3))``.

    Raises:
        ShapeError: Something else than integers.
    """
    sizes = given
    if len(given) == 1 and type(given[0]) is not int and (type(given[0]) in (tuple, list) or is_several(given[0])):
        sizes = tuple(given[0])
    for size in sizes:  # without a call, as it mostly is
        if type(size) is not int:
            return tuple([as_size(size, "each size or axis") for size in sizes])
    return sizes


def as_float(count: float) -> float:
    """Return a number of elements as a float, or as it is if it stands in for one, to compute with tensors."""
    return count if hasattr(type(count), "as_constant") else float(count)


def size_of(shape: Shape) -> int:
    """Return the number of elements; 1 for rank 0."""
    return math.prod(shape)


def sizes_called(shape: Shape, dim: SupportsIndex | None) -> Shape | int:
    """Return the shape, or the size of an axis: what ``x.size()`` and ``x.size(dim)`` are in PyTorch.

    Raises:
        ShapeError: There is no such axis.
    """
    return shape if dim is None else shape[normalize_axis(dim, len(shape), "dim")]


def strides_of(shape: Shape) -> Shape:
    """Return the row-major strides, in elements."""
    strides = []
    step = 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def normalize_axis(axis: SupportsIndex, ndim: int, name: str = "axis") -> int:
    """Return `axis`, an argument called `name`, counted from the front.

    Raises:
        AxisError: Outside ``-ndim <= axis < ndim``.
        IntegerError: Not an integer.
    """
    index = axis if type(axis) is int else as_index(axis, name)
    if not -ndim <= index < ndim:
        raise AxisError(f"axis {index} is out of range for {ndim} dimensions")
    return index % ndim


def normalize_axes(axes: int | Iterable[int] | None, ndim: int, name: str = "axis") -> tuple[int, ...]:
    """Return distinct axes, of an argument called `name`, counted from the front, in the order given; None means all.

    The one axis of a number, 0 or -1, is none at all, as in NumPy and PyTorch.

    Raises:
        ShapeError: An axis out of range or named twice.
    """
    if axes is None:
        return tuple(range(ndim))
    if type(axes) is int or (type(axes) is not tuple and not is_several(axes)):
        listed: tuple[int, ...] = (axes,)  # type: ignore[assignment]  # one, or the error says what it is
    else:
        listed = tuple(axes)
    if not ndim and listed in ((0,), (-1,)):
        return ()
    result = tuple(
        [axis if type(axis) is int and 0 <= axis < ndim else normalize_axis(axis, ndim, name) for axis in listed]
    )
    if len(set(result)) != len(result):
        raise ShapeError(f"an axis is named twice in {listed} for {ndim} dimensions")
    return result


def broadcast(*shapes: Shape) -> Shape:
    """Return the shape that all of them expand to, by NumPy's rules.

    Raises:
        ShapeError: Two sizes differ and neither is 1.
    """
    result = []
    for axis in range(-max(map(len, shapes), default=0), 0):
        size = 1
        for shape in shapes:
            other = shape[axis] if -axis <= len(shape) else 1
            if other not in (1, size):
                if size != 1:
                    sizes = sorted({shape[axis] for shape in shapes if -axis <= len(shape)} - {1})
                    raise ShapeError(
                        f"shapes {', '.join(map(str, shapes))} do not broadcast: sizes {sizes} meet at axis {axis}"
                    )
                size = other
        result.append(size)
    return tuple(result)


def resolve_reshape(shape: Shape, wanted: Sequence[int]) -> Shape:
    """Return `wanted` with its one -1, if any, replaced by the size that is left over.

    Raises:
        ShapeError: Two or more -1, or a different number of elements.
    """
    target = wanted if type(wanted) is tuple else tuple(wanted) if is_several(wanted) else (wanted,)
    for n in target:  # without a call, as it mostly is
        if type(n) is not int:
            target = tuple(map(as_size, target))
            break
    size = size_of(shape)
    if target.count(-1) > 1:
        raise ShapeError(f"only one size of {target} may be -1")
    if -1 in target:
        known = size_of(tuple(n for n in target if n != -1))
        if known == 0 or size % known:
            raise ShapeError(f"cannot reshape {shape} ({size} elements) to {target}: {size} is no multiple of {known}")
        target = tuple(size // known if n == -1 else n for n in target)
    for n in target:  # not of the least one: a size that varies would be compared with others
        if n < 0:
            raise ShapeError(f"negative size in shape {target}")
    if size_of(target) != size:
        raise ShapeError(f"cannot reshape {shape} ({size} elements) to {target} ({size_of(target)} elements)")
    return target
