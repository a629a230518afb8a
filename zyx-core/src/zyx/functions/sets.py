"""Different values and sets of them, and places where something holds, under NumPy's names.

How many there are is read, since it is the shape of the results.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from zyx import dtype as dtypes
from zyx import shape as shapes
from zyx.errors import ArgumentError, DTypeError, ShapeError
from zyx.functions import reduction, take_habits
from zyx.functions.elementwise import isnan
from zyx.functions.joining import concat
from zyx.functions.logic import logical_not
from zyx.functions.movement import moveaxis, reshape
from zyx.functions.operands import is_tensor, require, wrap
from zyx.functions.selection import masked_select, nonzero, take
from zyx.functions.sorting import isin, unique_all
from zyx.functions.statistics import lexsort
from zyx.shape import as_shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.functions import Tensor

__all__ = [
    "argwhere", "choose", "compress", "extract", "flatnonzero", "intersect1d", "ix_", "ravel_multi_index", "select",
    "setdiff1d", "setxor1d", "union1d", "unique", "unique_consecutive", "unravel_index",
]  # fmt: skip


def unique(
    x: Tensor,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
) -> Any:  # noqa: ANN401  # a tensor, or several
    """Return the different values of `x`, ascending; NaN is one of them once. See `unique_all` for the Array API's.

    Args:
        x: Any shape; or, with an axis, what has its slices compared.
        return_index: Whether the first place of each is returned, too.
        return_inverse: Whether it is, which of them each element is; in the shape of `x`, or a vector with an axis.
        return_counts: Whether it is, how often each comes.
        axis: Along which different slices are wanted, in the order of their elements.

    Returns:
        The values, and behind them, in this order, what else is asked for, int64.

    Raises:
        AxisError: `x` has no such axis.

    >>> zyx.unique(zyx.Tensor([3, 1, 3])).tolist()
    [1, 3]
    """
    base = require(x, "unique")
    if axis is not None:
        found = _unique_slices(base, shapes.normalize_axis(axis, base.node.ndim))
    else:
        found = list(unique_all(base))
        if base.node.dtype.is_float and base.size:
            found = _one_nan(found)
    wanted = (True, return_index, return_inverse, return_counts)
    results = tuple(each for each, is_wanted in zip(found, wanted, strict=True) if is_wanted)
    return results if len(results) > 1 else results[0]


def _one_nan(found: list[Tensor]) -> list[Tensor]:
    """Return what `unique_all` gives, with its NaNs, which are at the end, as one."""
    values, places, inverse, counts = found
    number = int(reduction.count_nonzero(isnan(values)).item())
    if number < 2:
        return found
    first = values.size - number
    last = reduction.sum(counts[first:], keepdims=True)
    return [values[: first + 1], places[: first + 1], inverse.clip(0, first), concat([counts[:first], last], 0)]


def _unique_slices(x: Tensor, axis: int) -> list[Tensor]:
    size = x.node.shape[axis]
    rows = reshape(moveaxis(x, axis, 0), size, math.prod(x.node.shape) // size if size else 0)
    if not size or not rows.node.shape[1]:
        raise ShapeError(f"unique: there are no elements to compare along axis {axis} of {x.node.shape}")
    order = lexsort([rows[:, i] for i in reversed(range(rows.node.shape[1]))])
    ordered = take(rows, order, 0)
    is_new = reduction.any(ordered[1:] != ordered[:-1], axis=1).numpy()
    starts = np.concatenate([[0], np.flatnonzero(is_new) + 1]).astype(np.int64)
    number = np.zeros(size, np.int64)
    number[starts[1:]] = 1
    places = order.numpy()
    inverse = np.empty(size, np.int64)
    inverse[places] = np.cumsum(number)
    counts = np.diff(np.append(starts, size))
    up = [wrap(x.runtime.upload(each, x.node.device), x) for each in (places[starts], inverse, counts)]
    return [take(x, places[starts], axis), *up]


def unique_consecutive(
    x: Tensor, return_inverse: bool = False, return_counts: bool = False, axis: int | None = None
) -> Any:  # noqa: ANN401  # a tensor, or several
    """Return `x` without elements, or slices along `axis`, that equal the one before; PyTorch's name.

    Without an axis `x` counts as one. `return_inverse` and `return_counts` add what they say, int64.

    Raises:
        AxisError: `x` has no such axis.

    >>> zyx.unique_consecutive(zyx.Tensor([1, 1, 2, 2, 1])).tolist()
    [1, 2, 1]
    """
    base = require(x, "unique_consecutive")
    rows = reshape(base, base.size) if axis is None else moveaxis(base, axis, 0)
    size = rows.node.shape[0]
    flat = reshape(rows, size, rows.size // size if size else 0)
    is_new = np.ones(size, bool)
    if size > 1:
        is_new[1:] = reduction.any(flat[1:] != flat[:-1], axis=1).numpy()
    starts = np.flatnonzero(is_new)
    values = take(reshape(base, base.size) if axis is None else base, starts, 0 if axis is None else axis)
    results = [values]
    if return_inverse:
        shape = base.node.shape if axis is None else (size,)
        inverse = (np.cumsum(is_new) - 1).astype(np.int64).reshape(shape)
        results.append(wrap(base.runtime.upload(inverse, base.node.device), base))
    if return_counts:
        counts = np.diff(np.append(starts, size)).astype(np.int64)
        results.append(wrap(base.runtime.upload(counts, base.node.device), base))
    return tuple(results) if len(results) > 1 else values


def union1d(x: Tensor, y: Tensor) -> Tensor:
    """Return the different values that are in `x` or in `y`, ascending.

    The result is a vector.

    Both may have any shape.

    Raises:
        DTypeError: One is no tensor.

    >>> zyx.union1d(zyx.Tensor([1, 2]), zyx.Tensor([2, 3])).tolist()
    [1, 2, 3]
    """
    values: Tensor = unique(concat([require(x, "union1d"), require(y, "union1d")], None))
    return values


def _chosen(x: Tensor, y: Tensor, what: str, *, assume_unique: bool, inside: bool) -> Tensor:
    first, second = require(x, what), require(y, what)
    values: Tensor = reshape(first, first.size) if assume_unique else unique(first)
    return masked_select(values, isin(values, second, invert=not inside))


def intersect1d(x: Tensor, y: Tensor, assume_unique: bool = False) -> Tensor:
    """Return the different values that are in both, ascending; `assume_unique` says that `x` has none twice.

    The result is a vector.

    Both may have any shape.

    Raises:
        DTypeError: One is no tensor.

    >>> zyx.intersect1d(zyx.Tensor([1, 2]), zyx.Tensor([2, 3])).tolist()
    [2]
    """
    found = _chosen(x, y, "intersect1d", assume_unique=assume_unique, inside=True)
    values: Tensor = unique(found) if assume_unique else found
    return values


def setdiff1d(x: Tensor, y: Tensor, assume_unique: bool = False) -> Tensor:
    """Return the different values of `x` that are not in `y`, ascending; in their order with `assume_unique`.

    Both may have any shape; the result is a vector.

    Raises:
        DTypeError: One is no tensor.

    >>> zyx.setdiff1d(zyx.Tensor([3, 1, 2, 3]), zyx.Tensor([1])).tolist()
    [2, 3]
    """
    return _chosen(x, y, "setdiff1d", assume_unique=assume_unique, inside=False)


def setxor1d(x: Tensor, y: Tensor) -> Tensor:
    """Return the different values that are in one of both, ascending.

    Both may have any shape; the result is a vector.

    Raises:
        DTypeError: One is no tensor.

    >>> zyx.setxor1d(zyx.Tensor([1, 2]), zyx.Tensor([2, 3])).tolist()
    [1, 3]
    """
    return union1d(setdiff1d(x, y), setdiff1d(y, x))


# ---- places


def argwhere(x: Tensor) -> Tensor:
    """Return the places of elements that are not 0, a place a row, int64; reads.

    Raises:
        DTypeError: `x` is no tensor.

    >>> zyx.argwhere(zyx.Tensor([0, 4, 5])).tolist()
    [[1], [2]]
    """
    found: Tensor = nonzero(x, as_tuple=False)
    return found


def ix_(*places: Tensor) -> tuple[Tensor, ...]:
    """Return vectors of places, an axis each, that broadcast: ``x[zyx.ix_(rows, columns)]`` is a grid of a tensor.

    Raises:
        ShapeError: One is no vector.

    >>> zyx.arange(9).reshape(3, 3)[zyx.ix_(zyx.Tensor([0, 2]), zyx.Tensor([0, 1]))].tolist()
    [[0, 1], [6, 7]]
    """
    found = [require(x, "ix_") for x in places]
    found = [flatnonzero(x) if x.node.dtype.is_bool else x for x in found]
    for x in found:
        if x.node.ndim != 1:
            raise ShapeError(f"ix_ takes vectors, not shape {x.node.shape}")
    return tuple(reshape(x, [-1 if i == axis else 1 for i in range(len(found))]) for axis, x in enumerate(found))


def flatnonzero(x: Tensor) -> Tensor:
    """Return the places, int64, of elements that are not 0, in `x` as one axis; reads.

    Raises:
        DTypeError: `x` is no tensor.

    >>> zyx.flatnonzero(zyx.Tensor([[0, 5], [7, 0]])).tolist()
    [1, 2]
    """
    base = require(x, "flatnonzero")
    found: Tensor = nonzero(reshape(base, base.size))[0]
    return found


def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Return the coordinates, an axis a tensor, of places in the row-major order of `shape`.

    Each has the shape of `indices`; places outside of `shape` wrap around.

    Raises:
        DTypeError: `indices` are not of integers.
        ShapeError: A negative size.

    >>> [each.tolist() for each in zyx.unravel_index(zyx.Tensor([2, 3]), (2, 3))]
    [[0, 1], [2, 0]]
    """
    base, sizes = require(indices, "unravel_index"), as_shape(shape)
    if not base.node.dtype.is_integer:
        raise DTypeError(f"unravel_index: places are integers, not {base.node.dtype}")
    found: list[Tensor] = []
    for size in reversed(sizes):
        found.append(base % size)
        base = base // size
    return tuple(reversed(found))


def ravel_multi_index(multi_index: Sequence[Tensor], shape: int | Sequence[int]) -> Tensor:
    """Return the places in the row-major order of `shape` of coordinates, an axis a tensor.

    Raises:
        ShapeError: Another number of axes.

    >>> zyx.ravel_multi_index((zyx.Tensor([0, 1]), zyx.Tensor([2, 0])), (2, 3)).tolist()
    [2, 3]
    """
    sizes, axes = as_shape(shape), list(multi_index)
    if len(axes) != len(sizes) or not axes:
        raise ShapeError(f"ravel_multi_index: {len(axes)} axes of coordinates for shape {sizes}")
    found = require(axes[0], "ravel_multi_index").astype(dtypes.int64)
    for each, size in zip(axes[1:], sizes[1:], strict=True):
        found = found * size + each
    return found


def compress(condition: Tensor | Sequence[Any], x: Tensor, axis: int | None = None) -> Tensor:
    """Return the slices of `x` along `axis` where `condition`, a vector, holds; it is read.

    Raises:
        ShapeError: `condition` is no vector.
        IndexRangeError: It holds beyond the end.

    >>> zyx.compress(zyx.Tensor([True, False, True]), zyx.Tensor([1, 2, 3])).tolist()
    [1, 3]
    """
    base = require(x, "compress")
    holds = np.asarray(condition.numpy() if is_tensor(condition) else condition)
    if holds.ndim != 1:
        raise ShapeError(f"compress: condition is one axis, not of shape {holds.shape}")
    return take(base, np.flatnonzero(holds), axis)


def extract(condition: Tensor, x: Tensor) -> Tensor:
    """Return the elements of `x`, as one axis, where `condition`, of the same shape, holds; it is read.

    Raises:
        ShapeError: The shapes of `condition` and `x` do not broadcast.

    >>> zyx.extract(zyx.Tensor([[True, False], [False, True]]), zyx.Tensor([[1, 2], [3, 4]])).tolist()
    [1, 4]
    """
    base, mask = require(x, "extract"), require(condition, "extract")
    return masked_select(base, logical_not(logical_not(mask)))


def choose(index: Tensor, choices: Sequence[Tensor] | Tensor) -> Tensor:
    """Return, for each element of `index`, the element of that one of `choices`; all broadcast.

    An index outside counts as the nearest one that there is.

    Raises:
        ArgumentError: No choices.

    >>> zyx.choose(zyx.Tensor([0, 1, 0]), [zyx.Tensor([1, 2, 3]), zyx.Tensor([10, 20, 30])]).tolist()
    [1, 20, 3]
    """
    given = list(choices)
    if not given:
        raise ArgumentError("choose takes at least one choice")
    base = require(index, "choose")
    found = require(given[0], "choose")
    for i, choice in enumerate(given[1:], 1):
        found = (base >= i).where(choice, found)
    return found.broadcast_to(shapes.broadcast(found.node.shape, base.node.shape))


def select(conditions: Sequence[Tensor], choices: Sequence[Tensor], default: float | Tensor = 0) -> Tensor:
    """Return, for each element, that of the choice whose condition is the first that holds, else `default`.

    So has NumPy it; PyTorch's ``select(x, axis, index)`` is ``x.select(axis, index)``, or `take` of an integer.

    Raises:
        ArgumentError: No lists of one length.

    >>> x = zyx.arange(4)
    >>> zyx.select([x < 1, x > 2], [x - 10, x * 10]).tolist()
    [-10, 0, 0, 30]
    """
    if is_tensor(conditions) or not isinstance(choices, list | tuple) or len(conditions) != len(choices):
        raise ArgumentError(
            "select takes a list of conditions and one of as many choices; a slice is x.select(axis, index)"
        )
    if not conditions:
        raise ArgumentError("select takes at least one condition")
    found: Any = default
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        found = require(condition, "select").where(choice, found)
    result: Tensor = found
    return result


take_habits(globals())
